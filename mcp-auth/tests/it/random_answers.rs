//! Whatever servers answer, a flow ends, within its limits, without a secret in what it says.

use mcp_auth::http::HttpResponse;
use proptest::prelude::*;
use serde_json::json;

use super::*;

/// Answers that are right, nearly right, or anything.
fn answer() -> impl Strategy<Value = HttpResponse> {
    let mut headless = server_document();
    headless["authorization_endpoint"] = json!(null);
    let documents = prop::sample::select(vec![
        resource_document(),
        server_document(),
        headless,
        json!({ "client_id": "given" }),
        json!({ "access_token": "CANARY-access", "token_type": "DPoP" }),
        json!({ "access_token": "CANARY-access", "expires_in": "1" }),
        json!({ "error": "invalid_grant" }),
        json!({ "error": "use_dpop_nonce" }),
        json!([]),
    ]);
    let bodies = prop_oneof![
        4 => documents.prop_map(|document| document.to_string()),
        1 => "\\PC{0,40}",
    ];
    let statuses = prop_oneof![
        6 => Just(200_u16),
        1 => prop::sample::select(vec![201, 302, 307, 400, 401, 403, 404, 429, 500, 503]),
    ];
    let targets = prop::sample::select(vec![
        "",
        "/",
        AS,
        PRM,
        "https://10.0.0.1/",
        "http://h.example/",
    ]);
    (statuses, bodies, targets).prop_map(|(status, body, target)| {
        HttpResponse::new(status, body)
            .with_header("Location", target)
            .with_header("DPoP-Nonce", "n")
    })
}

proptest! {
    #[test]
    fn every_flow_ends(
        answers in prop::collection::vec(answer(), 0..60),
        reason in prop::sample::select(vec![Reason::Login, Reason::Unauthorized, Reason::Expired]),
        legacy in any::<bool>(),
    ) {
        let mut config = config();
        config.policy.legacy_discovery = legacy;
        let max = config.limits.max_fetches as usize;
        let mut flow = AuthFlow::new(config, counting());
        let mut start = Start::new(reason);
        start.tokens = Some(refresh::stored());
        flow.start(start, NOW);
        let mut answers = answers.into_iter();
        let (mut fetches, mut ends, mut now) = (0, 0, NOW);
        for _ in 0..500 {
            match flow.poll_output() {
                Output::Fetch(request) => {
                    fetches += 1;
                    let url = request.url.as_str();
                    prop_assert!(url.starts_with("https://h.example/") || url.starts_with(ISSUER), "{}", url);
                    if let Some(answer) = answers.next() {
                        flow.handle_response(&answer, now);
                    }
                }
                Output::OpenBrowser(login) => {
                    let state = login.url.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
                    flow.handle_callback(&format!("?code=CANARY-code&state={state}"), now);
                }
                Output::NeedClientId { .. } => flow.handle_client(None, now),
                Output::ReloadTokens(_) => flow.handle_stored(Some(refresh::stored()), now),
                Output::Done(_) => ends += 1,
                Output::Failed(error) => {
                    ends += 1;
                    let shown = format!("{error} {error:?}");
                    prop_assert!(!shown.contains("CANARY"), "{}", shown);
                }
                Output::Wait { deadline: Some(deadline) } => {
                    prop_assert!(deadline > now);
                    now = deadline;
                    flow.handle_timeout(now);
                }
                Output::Wait { deadline: None } => {
                    prop_assert!(flow.is_finished());
                    break;
                }
                _ => {}
            }
        }
        prop_assert_eq!(ends, 1);
        prop_assert!(fetches <= max);
    }
}
