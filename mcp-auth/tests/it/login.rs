//! A person logs in.

use mcp_auth::credentials::Registration;
use mcp_auth::flow::Override;
use mcp_auth::policy::ResourceParameter;
use mcp_auth::scope::ScopeSet;
use mcp_auth::secret::Secret;
use mcp_auth::server_metadata::ClientAuthMethod;
use serde_json::json;

use super::*;

#[test]
fn a_login_from_the_challenge_to_the_token() {
    let mut world = World::new(config());
    world.challenged(r#"Bearer scope="mcp:basic""#);
    assert_eq!(world.asked(), [PRM, AS, REGISTER]);
    assert_eq!(world.saved, ["given"]);
    for (name, expected) in [
        ("response_type", "code"),
        ("client_id", "given"),
        ("redirect_uri", REDIRECT),
        ("code_challenge_method", "S256"),
        ("scope", "mcp:basic"),
        ("resource", ENDPOINT),
    ] {
        assert_eq!(world.query(name), expected, "{name}");
    }
    let challenge = world.query("code_challenge");
    world.call_back("");
    for (name, expected) in [
        ("grant_type", "authorization_code"),
        ("code", "CANARY-code"),
        ("redirect_uri", REDIRECT),
        ("client_id", "given"),
        ("resource", ENDPOINT),
        ("scope", "-"),
    ] {
        assert_eq!(world.sent(name), expected, "{name}");
    }
    let verifier = world.sent("code_verifier");
    assert_eq!(
        challenge,
        mcp_auth::pkce::Verifier::new([2; 32]).challenge()
    );
    assert_eq!(
        verifier,
        mcp_auth::pkce::Verifier::new([2; 32]).secret().reveal()
    );
    let tokens = world.tokens();
    assert_eq!(tokens.authorization().reveal(), "Bearer CANARY-access");
    assert_eq!(tokens.expires_at, Some(NOW + 3600));
    assert_eq!(
        (tokens.issuer.as_str(), tokens.client_id.as_str()),
        (ISSUER, "given")
    );
    assert_eq!(tokens.requested_scope, ScopeSet::parse("mcp:basic"));
}

#[test]
fn c222_nothing_that_is_shown_holds_a_secret() {
    let mut world = World::new(config());
    world.challenged("Bearer");
    let state = world.query("state");
    let shown = format!("{:?} {:?}", world.stop, world.flow);
    assert!(!shown.contains(&state), "{shown}");
    world.call_back("");
    let shown = format!(
        "{:?} {:?} {:?} {:?}",
        world.stop,
        world.asked,
        world.flow,
        world.flow.trail()
    );
    assert!(!shown.contains("CANARY"), "{shown}");
}

#[test]
fn auth_40_scopes_of_the_resource_and_none() {
    for (listed, expected) in [(json!(["a", "b"]), "a b"), (json!(null), "-")] {
        let mut world = World::new(config());
        let mut document = resource_document();
        document["scopes_supported"] = listed;
        world.answer(PRM, ok(document));
        world.challenged("Bearer");
        assert_eq!(world.query("scope"), expected);
    }
}

#[test]
fn auth_42_offline_access_where_the_server_lists_it() {
    let mut world = World::new(config());
    let mut document = server_document();
    document["scopes_supported"] = json!(["mcp", "offline_access"]);
    world.answer(AS, ok(document));
    world.challenged("Bearer scope=mcp");
    assert_eq!(world.query("scope"), "mcp offline_access");
}

#[test]
fn auth_30_no_login_without_code_protection() {
    let mut document = server_document();
    document
        .as_object_mut()
        .unwrap()
        .remove("code_challenge_methods_supported");
    let mut world = World::new(config());
    world.answer(AS, ok(document.clone()));
    world.challenged("Bearer");
    assert_eq!(world.asked(), [PRM, AS]);
    assert!(
        world.error().contains("it lists nothing"),
        "{}",
        world.error()
    );

    let mut config = config();
    config.policy.assume_pkce = true;
    let mut world = World::new(config);
    world.answer(AS, ok(document));
    world.challenged("Bearer");
    assert_eq!(world.query("code_challenge_method"), "S256");
    world.call_back("");
    let Stop::Done(authorized) = &world.stop else {
        panic!();
    };
    assert_eq!(authorized.overrides, [Override::AssumedPkce]);
}

#[test]
fn auth_33_a_code_of_another_issuer_buys_nothing() {
    for (supported, more, goes_on) in [
        (true, "&iss=https://as.example", true),
        (false, "", true),
        (true, "", false),
        (false, "&iss=https://evil.example", false),
        (true, "&iss=https://as.example/", false),
    ] {
        let mut world = World::new(config());
        let mut document = server_document();
        document["authorization_response_iss_parameter_supported"] = supported.into();
        world.answer(AS, ok(document));
        world.challenged("Bearer");
        world.call_back(more);
        assert_eq!(
            matches!(world.stop, Stop::Done(_)),
            goes_on,
            "{supported} {more}"
        );
        assert_eq!(
            world.asked().contains(&TOKEN),
            goes_on,
            "{supported} {more}"
        );
    }
}

#[test]
fn auth_32_a_foreign_callback_changes_nothing_and_an_answer_counts_once() {
    let mut world = World::new(config());
    world.challenged("Bearer");
    for callback in [
        "http://127.0.0.1/?code=x&state=y",
        "",
        "?error=access_denied",
    ] {
        assert_eq!(
            world.flow.handle_callback(callback, NOW),
            CallbackVerdict::NotOurs
        );
    }
    let state = world.query("state");
    world.call_back("");
    let again = format!("?code=CANARY-code&state={state}");
    assert_eq!(
        world.flow.handle_callback(&again, NOW),
        CallbackVerdict::NotOurs
    );
}

#[test]
fn c200_a_login_without_a_browser_waits_for_what_is_pasted_and_not_for_ever() {
    let mut world = World::new(config());
    world.challenged("Bearer");
    let Stop::Browser(login) = world.stop.clone() else {
        panic!("{:?}", world.stop);
    };
    assert_eq!(login.expires_at, NOW + 600);
    let pasted = format!("code=abc&state={}", world.query("state"));
    assert_eq!(
        world.flow.handle_callback(&pasted, NOW),
        CallbackVerdict::Taken
    );
    world.run();
    assert_eq!(world.sent("code"), "abc");

    let mut world = World::new(config());
    world.challenged("Bearer");
    world.flow.handle_timeout(NOW + 600);
    world.run();
    assert_eq!(
        world.error(),
        "authorization: timed out; check the network and try again"
    );

    let mut alone = config();
    alone.interactive = false;
    let mut world = World::new(alone);
    world.challenged("Bearer");
    assert!(
        world.error().contains("a login is needed"),
        "{}",
        world.error()
    );
    assert_eq!(world.saved.len(), 0);
}

#[test]
fn a_declined_login_says_so() {
    let mut world = World::new(config());
    world.challenged("Bearer");
    let callback = format!(
        "?error=access_denied&error_description=no&state={}",
        world.query("state")
    );
    world.flow.handle_callback(&callback, NOW);
    world.run();
    assert_eq!(
        world.error(),
        "answer of the authorization server: refused: access_denied (no); the login was declined"
    );
}

#[test]
fn c186_resource_can_be_replaced_or_left_out_for_one_server() {
    for (parameter, expected) in [
        (ResourceParameter::Fixed("urn:x".to_owned()), "urn:x"),
        (ResourceParameter::Omit, "-"),
    ] {
        let mut config = config();
        config.policy.resource_parameter = parameter;
        let mut world = World::new(config);
        world.challenged("Bearer");
        assert_eq!(world.query("resource"), expected);
        world.call_back("");
        assert_eq!(world.sent("resource"), expected);
        let Stop::Done(authorized) = &world.stop else {
            panic!();
        };
        assert_eq!(authorized.overrides, [Override::ResourceParameter]);
        // What the token is for does not change by that.
        assert_eq!(authorized.tokens.resource, ENDPOINT);
    }
    let mut world = World::new(config());
    world.answer(
        TOKEN,
        HttpResponse::new(400, r#"{"error":"invalid_target"}"#),
    );
    world.challenged("Bearer");
    world.call_back("");
    assert!(
        world.error().contains("resource_parameter"),
        "{}",
        world.error()
    );
}

#[test]
fn auth_21_the_clients_metadata_is_its_id_where_that_is_taken() {
    let mut config = config();
    config.identity.metadata_document = Some("https://app.example/client.json".to_owned());
    let mut world = World::new(config);
    let mut document = server_document();
    document["client_id_metadata_document_supported"] = true.into();
    world.answer(AS, ok(document));
    world.challenged("Bearer");
    assert_eq!(world.asked(), [PRM, AS]);
    assert_eq!(world.query("client_id"), "https://app.example/client.json");
}

#[test]
fn auth_25_a_registered_secret_is_sent_as_the_server_wants_it() {
    for (listed, has_header, in_body) in [
        ("client_secret_basic", true, false),
        ("client_secret_post", false, true),
        ("none", false, false),
    ] {
        let mut config = config();
        let mut own = Registration::pre_registered("mine");
        own.client_secret = Some(Secret::new("CANARY-secret"));
        config.identity.pre_registered = Some(own);
        let mut world = World::new(config);
        let mut document = server_document();
        document["token_endpoint_auth_methods_supported"] = json!([listed]);
        world.answer(AS, ok(document));
        world.challenged("Bearer");
        assert_eq!(world.query("client_id"), "mine");
        world.call_back("");
        assert_eq!(
            world
                .asked
                .last()
                .unwrap()
                .header("authorization")
                .is_some(),
            has_header,
            "{listed}"
        );
        assert_eq!(world.sent("client_secret") != "-", in_body, "{listed}");
        let Stop::Done(authorized) = &world.stop else {
            panic!();
        };
        // Kept: tied to its issuer, with the method that worked.
        let kept = authorized.registration.as_ref().unwrap();
        assert_eq!(kept.issuer.as_deref(), Some(ISSUER));
        assert_eq!(kept.auth_method, ClientAuthMethod::by_name(listed));
    }
}

#[test]
fn auth_20_a_person_gives_the_id_when_nothing_else_does() {
    let closed = HttpResponse::new(403, "closed");
    for endpoint in [None, Some(closed)] {
        let mut world = World::new(config());
        match endpoint {
            Some(response) => world.answer(REGISTER, response),
            None => {
                let mut document = server_document();
                document
                    .as_object_mut()
                    .unwrap()
                    .remove("registration_endpoint");
                world.answer(AS, ok(document));
            }
        }
        world.challenged("Bearer");
        assert!(matches!(&world.stop, Stop::NeedClientId(issuer) if issuer == ISSUER));
        world
            .flow
            .handle_client(Some(Registration::pre_registered("typed")), NOW);
        world.run();
        assert_eq!(world.query("client_id"), "typed");
        assert_eq!(world.saved, ["typed"]);
    }
    let mut world = World::new(config());
    world.answer(REGISTER, HttpResponse::new(403, "closed"));
    world.challenged("Bearer");
    world.flow.handle_client(None, NOW);
    world.run();
    assert_eq!(world.error(), "client registration: status 403: closed");
}

#[test]
fn c194_a_step_up_is_a_login_with_all_scopes() {
    let mut world = World::new(config());
    let mut start = Start::new(Reason::StepUp(ScopeSet::parse("mcp:basic mcp:write")));
    start.challenge =
        TokenChallenge::read([r#"Bearer error="insufficient_scope", scope="mcp:write""#]);
    let mut tokens = refresh::stored();
    tokens.requested_scope = ScopeSet::parse("mcp:basic");
    start.tokens = Some(tokens);
    world.start(start);
    assert_eq!(world.query("scope"), "mcp:basic mcp:write");
    world.call_back("");
    assert_eq!(world.sent("grant_type"), "authorization_code");
    assert_eq!(
        world.tokens().requested_scope,
        ScopeSet::parse("mcp:basic mcp:write")
    );
}

#[test]
fn c202_c203_odd_answers_of_the_token_endpoint() {
    for (response, expected) in [
        (
            HttpResponse::new(200, "<html>Sign in</html>").with_header("Content-Type", "text/html"),
            "token request: not a JSON object but text/html: <html>Sign in</html> (https://as.example/token); is there a \
             login page or a proxy in front of it?",
        ),
        (
            HttpResponse::new(
                200,
                r#"{"error":"invalid_grant","error_description":"CANARY-code used"}"#,
            ),
            "token request: refused: invalid_grant (*** used) (https://as.example/token); log in again",
        ),
        (
            HttpResponse::new(200, r#"{"token":"CANARY"}"#),
            "token request: `access_token` is missing or no text (https://as.example/token)",
        ),
    ] {
        let mut world = World::new(config());
        world.answer(TOKEN, response);
        world.challenged("Bearer");
        world.call_back("");
        assert_eq!(world.error(), expected);
    }
}
