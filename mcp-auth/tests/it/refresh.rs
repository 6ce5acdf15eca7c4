//! Tokens that end, tokens that are refused, and servers that move.

use mcp_auth::credentials::{Registration, TokenSet};
use mcp_auth::http::HttpResponse;
use mcp_auth::scope::ScopeSet;
use serde_json::json;

use super::*;

/// Tokens of the store. They are read as a store reads them, since others can't be made outside of the crate.
pub(crate) fn stored() -> TokenSet {
    serde_json::from_value(json!({
        "endpoint": ENDPOINT, "resource": ENDPOINT, "issuer": ISSUER, "token_endpoint": TOKEN, "client_id": "given",
        "access_token": "CANARY-old", "obtained_at": NOW - 3600, "expires_at": NOW - 1,
        "refresh_token": "CANARY-old-refresh", "requested_scope": "a b", "granted_scope": null,
    }))
    .expect("as it is stored")
}

fn registration(issuer: &str, id: &str) -> Registration {
    serde_json::from_value(json!({
        "source": "dynamic", "issuer": issuer, "client_id": id, "auth_method": "none", "redirect_uris": [REDIRECT],
    }))
    .expect("as it is stored")
}

fn start(reason: Reason) -> Start {
    let mut start = Start::new(reason);
    start.tokens = Some(stored());
    start.registrations = vec![registration(ISSUER, "given")];
    start
}

fn refusal(error: &str) -> HttpResponse {
    HttpResponse::new(400, json!({ "error": error }).to_string())
}

#[test]
fn c183_an_expired_token_is_renewed_where_it_came_from_and_the_old_refresh_token_stays() {
    for (answer, refresh_token) in [
        (
            json!({ "access_token": "n", "token_type": "bearer", "expires_in": 60 }),
            "CANARY-old-refresh",
        ),
        (
            json!({ "access_token": "n", "refresh_token": "rotated", "expires_in": 60 }),
            "rotated",
        ),
    ] {
        let mut world = World::new(config());
        world.answer(TOKEN, ok(answer));
        world.start(start(Reason::Expired));
        assert_eq!(world.asked(), [TOKEN]);
        for (name, expected) in [
            ("grant_type", "refresh_token"),
            ("refresh_token", "CANARY-old-refresh"),
            ("client_id", "given"),
            // AUTH-31: also here.
            ("resource", ENDPOINT),
            ("scope", "-"),
        ] {
            assert_eq!(world.sent(name), expected, "{name}");
        }
        let tokens = world.tokens();
        assert_eq!(tokens.access_token.reveal(), "n");
        assert_eq!(
            tokens.refresh_token.as_ref().unwrap().reveal(),
            refresh_token
        );
        assert_eq!(tokens.expires_at, Some(NOW + 60));
        assert_eq!(tokens.requested_scope, ScopeSet::parse("a b"));
    }
}

#[test]
fn auth_45_a_refused_token_is_refreshed_before_anybody_is_asked() {
    let mut world = World::new(config());
    world.start(start(Reason::Unauthorized));
    assert_eq!(world.asked(), [PRM, TOKEN]);
    assert_eq!(world.sent("grant_type"), "refresh_token");
    assert_eq!(world.tokens().access_token.reveal(), "CANARY-access");
}

#[test]
fn auth_24_a_server_that_moved_sees_nothing_of_the_old_place() {
    let mut world = World::new(config());
    let moved = "https://new.example";
    world.answer(
        PRM,
        ok(json!({ "resource": ENDPOINT, "authorization_servers": [moved] })),
    );
    let mut document = server_document();
    for member in [
        "issuer",
        "authorization_endpoint",
        "token_endpoint",
        "registration_endpoint",
    ] {
        let address = document[member].as_str().unwrap().replace(ISSUER, moved);
        document[member] = address.into();
    }
    world.answer(
        "https://new.example/.well-known/oauth-authorization-server",
        ok(document),
    );
    world.answer(
        "https://new.example/register",
        ok(json!({ "client_id": "new" })),
    );
    world.answer(
        "https://new.example/token",
        ok(json!({ "access_token": "t" })),
    );
    world.start(start(Reason::Unauthorized));
    assert_eq!(world.query("client_id"), "new");
    // Nor the scopes that were asked for there.
    assert_eq!(world.query("scope"), "-");
    world.call_back("");
    assert_eq!(world.tokens().issuer, moved);
    assert_eq!(world.tokens().refresh_token, None);
    for request in &world.asked {
        let body = request.body.as_ref().map_or("", |body| body.reveal());
        assert!(
            !body.contains("given") && !body.contains("CANARY-old"),
            "{body}"
        );
        assert_ne!(request.url.as_str(), TOKEN);
    }
}

#[test]
fn auth_43_tokens_of_another_server_are_none() {
    let mut world = World::new(config());
    let mut start = start(Reason::Expired);
    let mut tokens = stored();
    tokens.endpoint = "https://h.example/other".to_owned();
    start.tokens = Some(tokens);
    world.start(start);
    assert_eq!(world.asked(), [PRM, AS]);
    assert!(matches!(world.stop, Stop::Browser(_)));
}

#[test]
fn c181_after_a_refused_refresh_the_store_is_read_before_anything_else() {
    // Another process was faster: its token is used.
    let mut world = World::new(config());
    world.answer(TOKEN, refusal("invalid_grant"));
    world.start(start(Reason::Expired));
    assert!(matches!(world.stop, Stop::Reload));
    let mut newer = stored();
    newer.refresh_token = Some("newer".into());
    newer.expires_at = Some(NOW + 100);
    world.flow.handle_stored(Some(newer.clone()), NOW);
    world.run();
    assert_eq!(world.tokens(), &newer);
    assert_eq!(world.asked(), [TOKEN]);

    // Its token ended as well: its refresh token is tried.
    let mut world = World::new(config());
    world.answer_in_turn(
        TOKEN,
        vec![refusal("invalid_grant"), ok(json!({ "access_token": "t" }))],
    );
    world.start(start(Reason::Expired));
    newer.expires_at = Some(NOW - 1);
    world.flow.handle_stored(Some(newer), NOW);
    world.run();
    assert_eq!(world.sent("refresh_token"), "newer");
    assert_eq!(world.tokens().access_token.reveal(), "t");

    // Nothing new there: a login, with the scopes that were asked for before.
    for stored_tokens in [Some(stored()), None] {
        let mut world = World::new(config());
        world.answer_in_turn(
            TOKEN,
            vec![refusal("invalid_grant"), ok(json!({ "access_token": "t" }))],
        );
        world.start(start(Reason::Expired));
        world.flow.handle_stored(stored_tokens, NOW);
        world.run();
        assert_eq!(world.asked(), [TOKEN, PRM, AS]);
        assert_eq!(world.query("client_id"), "given");
        assert_eq!(world.query("scope"), "a b");
        world.call_back("");
        assert_eq!(world.tokens().access_token.reveal(), "t");
    }
}

#[test]
fn c181_a_store_that_changes_for_ever_ends() {
    let mut world = World::new(config());
    world.answer(TOKEN, refusal("invalid_grant"));
    world.start(start(Reason::Expired));
    let mut reloads = 0;
    while matches!(world.stop, Stop::Reload) {
        reloads += 1;
        let mut newer = stored();
        newer.refresh_token = Some(format!("newer {reloads}").into());
        world.flow.handle_stored(Some(newer), NOW);
        world.run();
    }
    assert_eq!(reloads, 2);
    assert!(matches!(world.stop, Stop::Browser(_)));
}

#[test]
fn a_server_in_trouble_costs_no_login() {
    for response in [
        HttpResponse::new(503, "later"),
        HttpResponse::new(500, r#"{"error":"server_error"}"#),
        HttpResponse::new(200, "<html>"),
        HttpResponse::new(429, "slow down"),
    ] {
        let mut world = World::new(config());
        world.answer(TOKEN, response.clone());
        world.start(start(Reason::Expired));
        assert!(
            world.error().starts_with("token refresh: "),
            "{}",
            world.error()
        );
        assert_eq!(world.asked(), [TOKEN]);
    }
}

#[test]
fn a_client_that_was_forgotten_registers_again() {
    let mut world = World::new(config());
    world.answer_in_turn(
        TOKEN,
        vec![
            refusal("invalid_client"),
            ok(json!({ "access_token": "t" })),
        ],
    );
    world.answer(REGISTER, ok(json!({ "client_id": "again" })));
    world.start(start(Reason::Unauthorized));
    assert_eq!(world.asked(), [PRM, TOKEN, AS, REGISTER]);
    assert_eq!(world.query("client_id"), "again");
}

#[test]
fn c184_a_token_without_an_end_is_used_until_it_is_refused() {
    let mut world = World::new(config());
    world.answer(TOKEN, ok(json!({ "access_token": "t" })));
    world.challenged("Bearer");
    world.call_back("");
    assert_eq!(world.tokens().expires_at, None);
    assert!(!world.tokens().is_due(u64::MAX));
}
