//! Ways without a browser, and tokens that are bound to a key.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_auth::credentials::Registration;
use mcp_auth::flow::{EnterpriseLogin, Way};
use mcp_auth::http::{FetchKind, HttpResponse};
use mcp_auth::secret::Secret;
use mcp_auth::signing::SigningKey;
use mcp_auth::token::{Client, ClientAuth, ID_JAG, ID_TOKEN};
use mcp_auth::www_authenticate::TokenScheme;
use serde_json::{Value, json};

use super::*;

const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

fn with_secret(way: Way) -> FlowConfig {
    let mut config = config();
    config.way = way;
    config.interactive = false;
    let mut own = Registration::pre_registered("me");
    own.client_secret = Some(Secret::new("CANARY-secret"));
    config.identity.pre_registered = Some(own);
    config
}

/// The claims of a JWT, its signature unchecked.
fn claims(jwt: &str) -> Value {
    let part = jwt.split('.').nth(1).expect("a JWT has three parts");
    let claims = URL_SAFE_NO_PAD.decode(part).expect("base64url");
    serde_json::from_slice(&claims).expect("JSON")
}

#[test]
fn auth_60_client_credentials_by_secret() {
    let mut world = World::new(with_secret(Way::ClientCredentials));
    // Code protection is about codes; there are none here.
    let mut document = server_document();
    document
        .as_object_mut()
        .unwrap()
        .remove("code_challenge_methods_supported");
    world.answer(AS, ok(document));
    world.challenged("Bearer scope=a");
    assert_eq!(world.asked(), [PRM, AS, TOKEN]);
    for (name, expected) in [
        ("grant_type", "client_credentials"),
        ("resource", ENDPOINT),
        ("scope", "a"),
        ("client_secret", "-"),
    ] {
        assert_eq!(world.sent(name), expected, "{name}");
    }
    assert!(
        world.asked[2]
            .header("authorization")
            .unwrap()
            .starts_with("Basic ")
    );
    assert_eq!(world.tokens().access_token.reveal(), "CANARY-access");
}

#[test]
fn auth_60_client_credentials_by_a_signed_statement() {
    let mut config = config();
    config.way = Way::ClientCredentials;
    config.identity.pre_registered = Some(Registration::pre_registered("me"));
    let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
    config.client_key = Some((key, None));
    let mut world = World::new(config);
    let mut document = server_document();
    document["token_endpoint_auth_methods_supported"] = json!(["private_key_jwt"]);
    world.answer(AS, ok(document));
    world.challenged("Bearer");
    let claims = claims(&world.sent("client_assertion"));
    assert_eq!(
        (&claims["iss"], &claims["sub"], &claims["aud"]),
        (&json!("me"), &json!("me"), &json!(ISSUER))
    );
    assert_eq!(world.tokens().client_id, "me");
}

#[test]
fn auth_60_a_client_without_an_id_is_not_registered() {
    let mut config = config();
    config.way = Way::ClientCredentials;
    let mut world = World::new(config);
    world.challenged("Bearer");
    assert_eq!(world.asked(), [PRM, AS]);
    assert!(world.error().contains("no client id"), "{}", world.error());
}

#[test]
fn auth_61_an_identity_provider_vouches_for_the_user() {
    let idp = "https://idp.corp/token";
    let client = Client::new("at-idp", ClientAuth::None);
    let login = EnterpriseLogin::new(
        idp,
        "https://idp.corp",
        client,
        Secret::new("CANARY-id-token"),
    );
    let mut world = World::new(with_secret(Way::Enterprise(Box::new(login.clone()))));
    world.answer(
        idp,
        ok(json!({ "access_token": "CANARY-jag", "issued_token_type": ID_JAG, "token_type": "N_A", "expires_in": 300 })),
    );
    world.challenged("Bearer scope=a");
    assert_eq!(world.asked(), [PRM, AS, idp, TOKEN]);
    let exchange = world.asked[2].body.as_ref().unwrap().reveal().to_owned();
    let exchange: BTreeMap<_, _> = form_urlencoded::parse(exchange.as_bytes())
        .into_owned()
        .collect();
    for (name, expected) in [
        (
            "grant_type",
            "urn:ietf:params:oauth:grant-type:token-exchange",
        ),
        ("subject_token", "CANARY-id-token"),
        ("subject_token_type", ID_TOKEN),
        ("requested_token_type", ID_JAG),
        ("audience", ISSUER),
        ("resource", ENDPOINT),
        ("client_id", "at-idp"),
    ] {
        assert_eq!(exchange[name], expected, "{name}");
    }
    assert_eq!(world.asked[2].kind, FetchKind::IdentityProvider);
    // The id token stays at the identity provider.
    assert_eq!(
        (world.sent("grant_type"), world.sent("assertion")),
        (JWT_BEARER.to_owned(), "CANARY-jag".to_owned())
    );
    assert_eq!(world.sent("resource"), ENDPOINT);
    assert!(world.asked[3].header("authorization").is_some());
    assert_eq!(world.tokens().client_id, "me");

    let mut world = World::new(with_secret(Way::Enterprise(Box::new(login))));
    world.answer(
        idp,
        ok(json!({ "access_token": "CANARY", "issued_token_type": ID_TOKEN })),
    );
    world.challenged("Bearer");
    assert_eq!(world.asked(), [PRM, AS, idp]);
    assert!(
        world
            .error()
            .starts_with("token exchange at the identity provider: `issued_token_type`"),
        "{}",
        world.error()
    );
}

#[test]
fn a_workload_is_vouched_for_and_a_refusal_is_the_end() {
    let way = || Way::WorkloadIdentity {
        assertion: Secret::new("CANARY-statement"),
    };
    let mut config = config();
    config.way = way();
    config.identity.pre_registered = Some(Registration::pre_registered("workload"));
    let mut world = World::new(config.clone());
    world.challenged("Bearer");
    for (name, expected) in [
        ("grant_type", JWT_BEARER),
        ("assertion", "CANARY-statement"),
        ("client_id", "workload"),
        ("resource", ENDPOINT),
    ] {
        assert_eq!(world.sent(name), expected, "{name}");
    }
    assert_eq!(world.tokens().client_id, "workload");

    let mut world = World::new(config);
    let refusal =
        json!({ "error": "invalid_grant", "error_description": "CANARY-statement ended" });
    world.answer(TOKEN, HttpResponse::new(400, refusal.to_string()));
    world.challenged("Bearer");
    assert_eq!(world.asked(), [PRM, AS, TOKEN]);
    assert_eq!(
        world.error(),
        "token request: refused: invalid_grant (*** ended) (https://as.example/token); log in again"
    );
}

fn with_dpop() -> FlowConfig {
    let mut config = config();
    config.dpop_key = Some(SigningKey::generate().expect("random numbers"));
    config
}

#[test]
fn a_token_is_bound_to_a_key_where_the_servers_speak_of_it() {
    let mut world = World::new(with_dpop());
    world.answer(
        TOKEN,
        ok(json!({ "access_token": "t", "token_type": "DPoP" })),
    );
    world.challenged(r#"DPoP algs="ES256""#);
    world.call_back("");
    let proof = claims(world.asked.last().unwrap().header("DPoP").unwrap());
    assert_eq!(
        (&proof["htm"], &proof["htu"], &proof["iat"]),
        (&json!("POST"), &json!(TOKEN), &json!(NOW))
    );
    assert_eq!(world.tokens().scheme, TokenScheme::Dpop);
    assert_eq!(world.tokens().authorization().reveal(), "DPoP t");
    assert!(world.tokens().dpop_key.is_some());

    // Nobody speaks of it: no proof.
    let mut world = World::new(with_dpop());
    world.challenged("Bearer");
    world.call_back("");
    assert_eq!(world.asked.last().unwrap().header("DPoP"), None);
    assert_eq!(world.tokens().dpop_key, None);
}

#[test]
fn a_nonce_is_asked_for_once() {
    let refusal =
        || HttpResponse::new(400, r#"{"error":"use_dpop_nonce"}"#).with_header("DPoP-Nonce", "n1");
    let mut world = World::new(with_dpop());
    let token = ok(json!({ "access_token": "t", "token_type": "DPoP" }));
    world.answer_in_turn(TOKEN, vec![refusal(), token]);
    world.challenged("DPoP");
    world.call_back("");
    let proofs: Vec<Value> = world.asked[3..]
        .iter()
        .map(|request| claims(request.header("DPoP").unwrap()))
        .collect();
    assert_eq!(proofs.len(), 2);
    assert_eq!(
        (proofs[0].get("nonce"), &proofs[1]["nonce"]),
        (None, &json!("n1"))
    );
    assert_ne!(proofs[0]["jti"], proofs[1]["jti"]);
    assert_eq!(world.tokens().scheme, TokenScheme::Dpop);

    let mut world = World::new(with_dpop());
    let other =
        HttpResponse::new(400, r#"{"error":"use_dpop_nonce"}"#).with_header("DPoP-Nonce", "n2");
    world.answer_in_turn(TOKEN, vec![refusal(), other]);
    world.challenged("DPoP");
    world.call_back("");
    assert!(
        world.error().contains("use_dpop_nonce"),
        "{}",
        world.error()
    );
    assert_eq!(world.asked.len(), 5);
}

#[test]
fn a_server_that_wants_bound_tokens_gets_them_or_an_error() {
    let mut document = resource_document();
    document["dpop_bound_access_tokens_required"] = true.into();
    let mut world = World::new(config());
    world.answer(PRM, ok(document));
    world.challenged("Bearer");
    assert!(
        world.error().contains("no `dpop_key` is set"),
        "{}",
        world.error()
    );

    let mut world = World::new(config());
    world.answer(
        TOKEN,
        ok(json!({ "access_token": "CANARY", "token_type": "DPoP" })),
    );
    world.challenged("Bearer");
    world.call_back("");
    assert!(
        world.error().contains("a key that was never shown"),
        "{}",
        world.error()
    );
}
