//! Finding the metadata, and what stops the search.

use mcp_auth::flow::Override;
use mcp_auth::http::HttpResponse;
use serde_json::json;

use super::*;

#[test]
fn auth_03_what_the_challenge_names_is_asked_first_and_alone() {
    let mut world = World::new(config());
    world.answer("https://h.example/custom/prm", ok(resource_document()));
    world.challenged(r#"Bearer resource_metadata="https://h.example/custom/prm""#);
    assert_eq!(
        world.asked(),
        ["https://h.example/custom/prm", AS, REGISTER]
    );
}

#[test]
fn c187_a_refusal_at_one_address_leads_to_the_next() {
    for status in [400, 401, 403, 404, 405, 410] {
        let mut world = World::new(config());
        world.answer(PRM, HttpResponse::new(status, ""));
        world.answer(
            ROOT_PRM,
            ok(json!({ "resource": "https://h.example", "authorization_servers": [ISSUER] })),
        );
        world.answer(AS, HttpResponse::new(status, ""));
        world.answer(OPENID, ok(server_document()));
        world.challenged("Bearer");
        assert_eq!(
            world.asked(),
            [PRM, ROOT_PRM, AS, OPENID, REGISTER],
            "{status}"
        );
        assert_eq!(world.query("resource"), "https://h.example");
    }
    for status in [429, 500, 503] {
        let mut world = World::new(config());
        world.answer(PRM, HttpResponse::new(status, "broken"));
        world.challenged("Bearer");
        assert_eq!(
            world.error(),
            format!("protected resource metadata: status {status}: broken ({PRM})")
        );
    }
}

#[test]
fn c188_all_forms_are_tried_in_order_and_listed() {
    let mut world = World::empty(config());
    let tenant = "https://as.example/tenant1";
    world.answer(
        ROOT_PRM,
        ok(json!({ "resource": ENDPOINT, "authorization_servers": [tenant] })),
    );
    let mut document = server_document();
    document["issuer"] = tenant.into();
    let last = "https://as.example/tenant1/.well-known/openid-configuration";
    world.answer(last, ok(document));
    world.answer(REGISTER, ok(json!({ "client_id": "given" })));
    world.challenged("Bearer");
    assert_eq!(
        world.asked(),
        [
            PRM,
            ROOT_PRM,
            "https://as.example/.well-known/oauth-authorization-server/tenant1",
            "https://as.example/.well-known/openid-configuration/tenant1",
            last,
            REGISTER
        ]
    );
    assert_eq!(
        world.flow.trail()[0].to_string(),
        format!("{PRM} (status 404)")
    );

    let mut world = World::empty(config());
    world.answer(PRM, HttpResponse::new(200, "<html>start page</html>"));
    world.challenged(r#"Bearer resource_metadata="http://h.example/prm?key=SECRET""#);
    let error = world.error();
    assert!(
        error.starts_with(
            "protected resource metadata: not found (https://h.example/mcp); tried http://h.example/prm (not asked: \
             its scheme is `http`"
        ),
        "{error}"
    );
    assert!(error.contains("not a JSON object but text/html"), "{error}");
    assert!(
        error.contains(&format!("{ROOT_PRM} (status 404)")),
        "{error}"
    );
    assert!(
        error.contains("legacy_discovery") && !error.contains("SECRET"),
        "{error}"
    );
}

#[test]
fn auth_04_another_resource_ends_the_login_before_it_begins() {
    let mut world = World::new(config());
    world.answer(
        PRM,
        ok(json!({ "resource": "https://evil.example/mcp", "authorization_servers": [ISSUER] })),
    );
    world.challenged("Bearer");
    assert_eq!(world.asked(), [PRM]);
    let error = world.error();
    assert!(
        error.contains("`https://evil.example/mcp`, not about `https://h.example/mcp`"),
        "{error}"
    );
    assert!(error.contains("trusted_resource"), "{error}");
}

#[test]
fn c191_a_parent_is_taken_and_sent_as_it_is_given() {
    for resource in [
        "https://h.example",
        "https://h.example/",
        "https://h.example/mcp/",
    ] {
        let mut world = World::new(config());
        world.answer(
            PRM,
            ok(json!({ "resource": resource, "authorization_servers": [ISSUER] })),
        );
        world.challenged("Bearer");
        assert_eq!(world.query("resource"), resource);
        world.call_back("");
        assert_eq!(world.sent("resource"), resource);
        assert_eq!(world.tokens().resource, resource);
    }
}

#[test]
fn auth_07_c190_the_document_of_another_issuer_is_not_used() {
    let mut world = World::new(config());
    let mut document = server_document();
    document["issuer"] = "https://as.example/".into();
    world.answer(AS, ok(document.clone()));
    world.challenged("Bearer");
    // No endpoint of that document was asked.
    assert_eq!(world.asked(), [PRM, AS, OPENID]);
    let error = world.error();
    assert!(
        error.contains("the issuer is `https://as.example/`, announced was `https://as.example`"),
        "{error}"
    );
    assert!(
        error.contains(AS) && error.contains("trusted_issuer"),
        "{error}"
    );

    let mut config = config();
    config.policy.trusted_issuer = Some("https://as.example/".to_owned());
    let mut world = World::new(config);
    world.answer(AS, ok(document));
    world.challenged("Bearer");
    world.call_back("");
    assert_eq!(world.tokens().issuer, "https://as.example/");
    let Stop::Done(authorized) = &world.stop else {
        panic!();
    };
    assert_eq!(authorized.overrides, [Override::TrustedIssuer]);
}

#[test]
fn c198_metadata_leads_nowhere_inside() {
    for (issuer, what) in [
        ("http://169.254.169.254/", "its scheme is `http`"),
        ("https://169.254.169.254/", "it is a link-local address"),
        ("https://10.0.0.1/", "it is a private address"),
        ("https://localhost/", "it is a loopback address"),
        (
            "https://u:CANARY@as.example/",
            "it holds a user or a password",
        ),
    ] {
        let mut world = World::new(config());
        world.answer(
            PRM,
            ok(json!({ "resource": ENDPOINT, "authorization_servers": [issuer] })),
        );
        world.challenged("Bearer");
        assert_eq!(world.asked(), [PRM], "{issuer}");
        let error = world.error();
        assert!(error.contains(what) && !error.contains("CANARY"), "{error}");
    }
    for member in ["token_endpoint", "registration_endpoint"] {
        let mut world = World::new(config());
        let mut document = server_document();
        document[member] = "https://192.168.0.1/x".into();
        world.answer(AS, ok(document));
        world.challenged("Bearer");
        assert_eq!(world.asked(), [PRM, AS], "{member}");
        assert!(
            world.error().contains("allow_private_network"),
            "{}",
            world.error()
        );
    }
}

#[test]
fn c197_only_a_web_page_is_opened() {
    for (endpoint, opens) in [
        ("file:///c:/x.exe", false),
        ("javascript:alert(1)", false),
        ("http://as.example/authorize", false),
        ("https://as.example/?a=$(calc)&b", true),
    ] {
        let mut world = World::new(config());
        let mut document = server_document();
        document["authorization_endpoint"] = endpoint.into();
        world.answer(AS, ok(document));
        world.challenged("Bearer");
        assert_eq!(matches!(world.stop, Stop::Browser(_)), opens, "{endpoint}");
        // Nothing was registered for nothing.
        assert_eq!(world.saved.len(), usize::from(opens));
    }
}

#[test]
fn sec_02_each_hop_is_judged_and_counted() {
    let redirect = |to: &str| HttpResponse::new(302, "").with_header("Location", to);
    let mut world = World::new(config());
    world.answer(PRM, redirect("/prm"));
    world.answer("https://h.example/prm", redirect("https://cdn.example/prm"));
    world.answer("https://cdn.example/prm", ok(resource_document()));
    world.challenged("Bearer");
    assert_eq!(
        world.asked()[..3],
        [PRM, "https://h.example/prm", "https://cdn.example/prm"]
    );
    assert!(matches!(world.stop, Stop::Browser(_)));

    for (to, what) in [
        (
            "https://169.254.169.254/latest?token=SECRET",
            "a link-local address, and the MCP server is not there (https://169.254.169.254/latest)",
        ),
        ("http://h.example/prm", "its scheme is `http`"),
        ("", "a redirect that is not followed (status 302)"),
        ("https://", "a redirect that is not followed (status 302)"),
        (PRM, "more than 5 redirects"),
    ] {
        let mut world = World::new(config());
        world.answer(PRM, redirect(to));
        world.challenged("Bearer");
        let error = world.error();
        assert!(error.contains(what) && !error.contains("SECRET"), "{error}");
    }
}

#[test]
fn a_request_with_secrets_follows_no_redirect() {
    for address in [TOKEN, REGISTER] {
        let mut world = World::new(config());
        let away = HttpResponse::new(307, "").with_header("Location", "https://evil.example/");
        world.answer(address, away);
        world.challenged("Bearer");
        if address == TOKEN {
            world.call_back("");
        }
        assert!(
            world
                .error()
                .contains("a redirect that is not followed (status 307)"),
            "{}",
            world.error()
        );
        assert!(world.asked().iter().all(|asked| !asked.contains("evil")));
    }
}

#[test]
fn sec_03_limits_of_size_number_and_time() {
    let mut small = config();
    small.limits.max_metadata_bytes = 20;
    let mut world = World::new(small);
    world.challenged("Bearer");
    assert!(
        world.error().contains("the answer has more than 20 bytes"),
        "{}",
        world.error()
    );
    assert_eq!(world.asked[0].max_body_bytes, 20);

    let mut few = config();
    few.limits.max_fetches = 2;
    let mut world = World::new(few);
    world.challenged("Bearer");
    assert_eq!(
        world.error(),
        "client registration: more than 2 requests for one login"
    );

    let mut world = World::new(config());
    world.flow.start(Start::new(Reason::Login), NOW);
    assert!(matches!(world.flow.poll_output(), Output::Fetch(_)));
    let Output::Wait {
        deadline: Some(deadline),
    } = world.flow.poll_output()
    else {
        panic!("no deadline");
    };
    assert_eq!(deadline, NOW + 30);
    world.flow.handle_timeout(deadline - 1);
    assert!(!world.flow.is_finished());
    world.flow.handle_timeout(deadline);
    world.run();
    assert!(
        world
            .error()
            .starts_with("protected resource metadata: timed out"),
        "{}",
        world.error()
    );
    // An answer that comes after the end changes nothing.
    world
        .flow
        .handle_response(&ok(resource_document()), deadline);
    assert!(matches!(
        world.flow.poll_output(),
        Output::Wait { deadline: None }
    ));
}

#[test]
fn requests_carry_nothing_but_what_they_need() {
    let mut world = World::new(config());
    world.challenged("Bearer");
    for request in &world.asked[..2] {
        let names: Vec<_> = request.headers.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["accept"]);
        assert_eq!(request.body, None);
    }
}

#[test]
fn an_address_that_a_name_resolves_to_may_be_refused() {
    use mcp_auth::http::FetchKind;
    let mut world = World::new(config());
    world.flow.start(Start::new(Reason::Login), NOW);
    let addresses = ["10.0.0.1".parse().unwrap()];
    let refusal = world
        .flow
        .judge_addresses(FetchKind::ResourceMetadata, &addresses)
        .unwrap_err();
    assert!(
        world
            .flow
            .judge_addresses(FetchKind::IdentityProvider, &addresses)
            .is_ok()
    );
    assert!(matches!(world.flow.poll_output(), Output::Fetch(_)));
    world.flow.handle_fetch_refused(refusal);
    world.run();
    assert!(
        world.error().contains("it is a private address"),
        "{}",
        world.error()
    );
}

#[test]
fn a_lost_connection_is_told_in_the_drivers_words() {
    let mut world = World::new(config());
    world.flow.start(Start::new(Reason::Login), NOW);
    assert!(matches!(world.flow.poll_output(), Output::Fetch(_)));
    world.flow.handle_fetch_error("connection\nrefused");
    world.run();
    assert_eq!(
        world.error(),
        format!(
            "protected resource metadata: no answer: connection refused ({PRM}); check the network and try again"
        )
    );
}

/// Old servers: off by default, then the origin's metadata, then default addresses.
#[test]
fn c201_auth_08_old_servers_by_an_explicit_choice() {
    let legacy = "https://h.example/.well-known/oauth-authorization-server";
    let mut old = config();
    old.policy.legacy_discovery = true;

    let mut world = World::empty(config());
    world.answer(legacy, ok(server_document()));
    world.challenged("Bearer");
    assert_eq!(world.asked(), [PRM, ROOT_PRM]);

    let mut world = World::empty(old.clone());
    world.answer(
        legacy,
        ok(json!({
            "issuer": "https://h.example",
            "authorization_endpoint": "https://h.example/oauth/authorize",
            "token_endpoint": "https://h.example/oauth/token",
            "registration_endpoint": "https://h.example/oauth/register",
            "code_challenge_methods_supported": ["S256"],
        })),
    );
    world.answer(
        "https://h.example/oauth/register",
        ok(json!({ "client_id": "given" })),
    );
    world.answer(
        "https://h.example/oauth/token",
        ok(json!({ "access_token": "t" })),
    );
    world.challenged("Bearer");
    world.call_back("");
    assert_eq!(world.tokens().issuer, "https://h.example");
    assert_eq!(
        world.asked[2].header("MCP-Protocol-Version"),
        Some("2025-03-26")
    );
    assert_eq!(world.sent("resource"), ENDPOINT);

    let mut world = World::empty(old.clone());
    world.answer(
        "https://h.example/register",
        ok(json!({ "client_id": "given" })),
    );
    world.answer(
        "https://h.example/token",
        ok(json!({ "access_token": "t" })),
    );
    world.challenged("Bearer");
    let Stop::Browser(login) = world.stop.clone() else {
        panic!("{:?}", world.stop);
    };
    assert!(
        login
            .url
            .as_str()
            .starts_with("https://h.example/authorize?")
    );
    world.call_back("");
    let Stop::Done(authorized) = &world.stop else {
        panic!("{:?}", world.stop);
    };
    assert_eq!(
        authorized.overrides,
        [Override::LegacyDiscovery, Override::LegacyEndpoints]
    );

    // An old server can't pass for another issuer: clients keep secrets by issuer.
    let mut world = World::empty(old);
    world.answer(legacy, ok(server_document()));
    world.challenged("Bearer");
    assert!(
        world.error().contains("the issuer is `https://as.example`"),
        "{}",
        world.error()
    );
}

#[test]
fn c228_no_token_for_a_server_without_tls() {
    let mut config = config();
    config.endpoint = Url::parse("http://intranet.example/mcp").unwrap();
    let mut world = World::new(config);
    world.challenged(r#"Bearer resource_metadata="https://h.example/prm""#);
    assert_eq!(world.asked().len(), 0);
    assert!(
        world.error().contains("its scheme is `http`"),
        "{}",
        world.error()
    );
}
