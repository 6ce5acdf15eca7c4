//! Channels with an exchange per message: era by HTTP, header fields, lost sessions, cancelling.

use std::time::Duration;

use bytes::Bytes;
use mcp_jsonrpc::{Deadline, RequestId};
use mcp_proto::connection::{
    ClientConfig, ExchangeMessage, MAX_SESSION_LOSSES, RequestOptions, ServerNotification,
};
use mcp_proto::http::{Delivery, HttpFailure, HttpFailureKind, MirroredParams, ToolHeaders};
use mcp_proto::lifecycle::EraPolicy;
use mcp_proto::{CallFailure, Era};
use mcp_testkit::pair::{Act, Pair, Reaction, say};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::{config, with_policy};

const SECOND: Duration = Duration::from_secs(1);

fn id_of(message: &Value) -> Option<RequestId> {
    message["id"].as_i64().map(RequestId::Number)
}

/// The exchange of this message ends without an answer.
fn ends(message: &Value, failure: HttpFailure) -> Vec<Reaction> {
    vec![(Duration::ZERO, Act::ExchangeEnd(id_of(message), failure))]
}

fn status(message: &Value, status: u16) -> Vec<Reaction> {
    ends(message, HttpFailure::of_status(status, false, "evidence"))
}

/// The whole body of an answer with this status.
fn body(message: &Value, status: u16, body: &str) -> Vec<Reaction> {
    let message = ExchangeMessage::new(id_of(message), Bytes::from(body.to_owned())).last();
    let message = match status {
        200 => message,
        status => message.with_failure_status(status),
    };
    vec![(Duration::ZERO, Act::Exchange(message))]
}

fn result(message: &Value, result: &Value) -> Vec<Reaction> {
    vec![say(
        json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string(),
    )]
}

fn initialized(message: &Value) -> Vec<Reaction> {
    result(
        message,
        &json!({
            "protocolVersion": "2025-11-25", "serverInfo": {"name": "peer", "version": "1"},
            "capabilities": {"tools": {}, "logging": {}, "resources": {"subscribe": true}},
        }),
    )
}

fn discovered(message: &Value) -> Vec<Reaction> {
    result(
        message,
        &json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}},
        }),
    )
}

/// A legacy server over HTTP, with what it does about the host's requests.
fn legacy(mut rest: impl FnMut(&Value) -> Vec<Reaction> + 'static) -> Pair {
    Pair::started_per_exchange(with_policy(EraPolicy::Legacy), move |message| {
        match message["method"].as_str() {
            Some("initialize") => initialized(message),
            _ => rest(message),
        }
    })
}

fn modern(config: ClientConfig, mut rest: impl FnMut(&Value) -> Vec<Reaction> + 'static) -> Pair {
    Pair::started_per_exchange(config, move |message| match message["method"].as_str() {
        Some("server/discover") => discovered(message),
        _ => rest(message),
    })
}

fn request(pair: &mut Pair, method: &str, params: &Value, label: &'static str) -> RequestId {
    let params = serde_json::value::to_raw_value(params).unwrap();
    let now = pair.now();
    let mut options = RequestOptions::default();
    options.deadline = Deadline::total(60 * SECOND);
    let id = pair
        .connection
        .request_raw(method, Some(&params), &options, label, now)
        .unwrap();
    pair.advance(Duration::ZERO);
    id
}

#[test]
fn the_era_follows_the_table_of_http_answers() {
    let error = |code: i64, id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"m"}}}}"#)
    };
    let supported = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"m","data":{"supported":["2026-07-28"]}}}"#;
    let cases: Vec<(u16, String, &str)> = vec![
        // C049: a JSON-RPC error with any id, in a 400.
        (400, error(-32600, "\"server-error\""), "legacy"),
        (400, error(-32000, "null"), "legacy"),
        (400, error(-32000, "1"), "legacy"),
        (404, error(-32601, "1"), "legacy"),
        (200, error(-32601, "1"), "legacy"),
        (200, error(-32601, "null"), "legacy"),
        // VER-52: a modern error never leads to a handshake.
        (400, error(-32020, "1"), "failed"),
        (400, error(-32021, "null"), "failed"),
        (200, error(-32020, "1"), "failed"),
        (400, supported.to_owned(), "failed"),
        // An answer to something else is none (HTTP-07).
        (
            200,
            r#"{"jsonrpc":"2.0","id":99,"result":{}}"#.to_owned(),
            "legacy",
        ),
        (200, "[]".to_owned(), "legacy"),
    ];
    for (code, text, expected) in cases {
        let answer = text.clone();
        let pair =
            Pair::started_per_exchange(config(), move |message| match message["method"].as_str() {
                Some("server/discover") => body(message, code, &answer),
                Some("initialize") => initialized(message),
                _ => Vec::new(),
            });
        let found = match pair.connection.agreement() {
            Some(agreement) => agreement.era.to_string(),
            None => "failed".to_owned(),
        };
        assert_eq!(found, expected, "{code} {text}\n{}", pair.transcript());
    }
}

#[test]
fn c050_statuses_without_a_message_are_judged_too() {
    let empty = HttpFailure::new(HttpFailureKind::StreamEnded, Delivery::Unknown, "");
    let html = HttpFailure::new(HttpFailureKind::Html, Delivery::Unknown, "").with_status(200);
    let refused = HttpFailure::new(HttpFailureKind::Connect, Delivery::NotSent, "refused");
    let of = |status| HttpFailure::of_status(status, false, "plain text");
    let cases = [
        (of(400), true),
        (of(404), true),
        (of(405), true),
        (of(406), true),
        (of(415), true),
        (of(422), true),
        (of(401), false),
        (of(403), false),
        (of(429), false),
        (of(500), false),
        (of(502), false),
        (of(503), false),
        (of(302), false),
        // C127.
        (empty, true),
        // C114.
        (html, false),
        (refused, false),
    ];
    for (failure, legacy) in cases {
        let cause = failure.clone();
        let pair =
            Pair::started_per_exchange(config(), move |message| match message["method"].as_str() {
                Some("server/discover") => ends(message, cause.clone()),
                Some("initialize") => initialized(message),
                _ => Vec::new(),
            });
        assert_eq!(
            pair.connection.agreement().map(|agreement| agreement.era),
            legacy.then_some(Era::Legacy),
            "{failure}\n{}",
            pair.transcript()
        );
        let modern_only = Pair::started_per_exchange(with_policy(EraPolicy::Modern), {
            let failure = failure.clone();
            move |message| ends(message, failure.clone())
        });
        let text = modern_only
            .connection
            .handshake_error()
            .unwrap()
            .to_string();
        assert!(text.contains(&failure.to_string()), "{text}");
    }
}

#[test]
fn c050_the_version_header_comes_after_the_agreement_only() {
    let pair = Pair::started_per_exchange(config(), |message| match message["method"].as_str() {
        Some("server/discover") => status(message, 400),
        Some("initialize") => initialized(message),
        _ => Vec::new(),
    });
    insta::assert_snapshot!(pair.transcript(), @r#"
    +0.000s C>S server/discover id=1
               params {"_meta":{"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"test","version":"1.0"},"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}
    +0.000s       MCP-Protocol-Version: 2026-07-28
    +0.000s       Mcp-Method: server/discover
    +0.000s S>C[1] HTTP 400: the request was not accepted (evidence)
    +0.000s C>S initialize id=2
               params {"capabilities":{},"clientInfo":{"name":"test","version":"1.0"},"protocolVersion":"2025-11-25"}
    +0.000s S>C[2] id=2
               result {"capabilities":{"logging":{},"resources":{"subscribe":true},"tools":{}},"protocolVersion":"2025-11-25","serverInfo":{"name":"peer","version":"1"}}
    +0.000s C>S closes the stream of 1
    +0.000s C>S notifications/initialized
    +0.000s       MCP-Protocol-Version: 2025-11-25
    +0.000s * ready: legacy, 2025-11-25
    "#);
}

#[test]
fn the_old_transport_is_the_last_resort() {
    // SSE24-02: only after 400, 404 or 405 to initialize, and without a modern error.
    let error = |code: i64| {
        format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":{code},"message":"m"}}}}"#)
    };
    let cases: Vec<(u16, Option<String>, bool)> = vec![
        (404, None, true),
        (405, None, true),
        (400, None, true),
        (400, Some(error(-32000)), true),
        (400, Some(error(-32022)), false),
        (401, None, false),
        (403, None, false),
        (406, None, false),
        (500, None, false),
        (200, Some(error(-32000)), false),
    ];
    for (code, text, old) in cases {
        let mut initializes = 0;
        let shown = format!("{code} {text:?}");
        let pair = Pair::started_per_exchange(with_policy(EraPolicy::Legacy), move |message| {
            if message["method"] != "initialize" {
                return Vec::new();
            }
            initializes += 1;
            match (&text, initializes) {
                (_, 2) => initialized(message),
                (Some(text), _) => body(message, code, text),
                (None, _) => status(message, code),
            }
        });
        let transcript = pair.transcript();
        assert_eq!(
            transcript.contains("reopen as HTTP+SSE"),
            old,
            "{shown}\n{transcript}"
        );
        assert_eq!(
            pair.connection.agreement().is_some(),
            old,
            "{shown}\n{transcript}"
        );
    }
}

#[test]
fn both_causes_are_kept_when_the_old_transport_fails_too() {
    let mut pair = Pair::new(with_policy(EraPolicy::Legacy), |message| {
        status(message, 405)
    });
    pair.connection
        .set_channel(mcp_proto::connection::ChannelKind::PerExchange);
    let now = pair.now();
    pair.connection.start(now);
    while let Some(message) = pair.connection.poll_transmit() {
        let failure = HttpFailure::of_status(405, false, "");
        pair.connection
            .handle_exchange_end(message.request_id().cloned(), failure, now);
    }
    pair.connection
        .handle_reopen_failed("the GET was answered with 404", now);
    let error = pair.connection.handshake_error().unwrap().to_string();
    assert_eq!(
        error,
        "initialize was not answered: HTTP 405: the URL does not take POST; is this the right URL?; HTTP+SSE, the \
         transport of 2024-11-05, was tried as well: the GET was answered with 404"
    );
}

#[test]
fn a_wrong_hint_is_found_out() {
    // VER-55: the server was legacy the last time, and is modern now.
    let mut config = config();
    config.hint = Some(Era::Legacy);
    let pair = modern(config, |message| match message["method"].as_str() {
        Some("initialize") => status(message, 400),
        _ => Vec::new(),
    });
    assert_eq!(
        pair.connection.agreement().unwrap().era,
        Era::Modern,
        "{}",
        pair.transcript()
    );
}

#[test]
fn errors_in_a_failure_status_reach_their_call() {
    // HTTP-06: with the id, with none, with a foreign one.
    for id in ["ID", "null", "\"server-error\"", "4711"] {
        let mut pair = legacy(move |message| {
            let id = id.replace("ID", &message["id"].to_string());
            let text = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no"}}}}"#
            );
            body(message, 400, &text)
        });
        request(&mut pair, "tools/call", &json!({"name": "t"}), "a");
        let [(_, Err(CallFailure::Rpc { error, http_status }))] = pair.settled() else {
            panic!("{id}: {:?}", pair.settled());
        };
        assert_eq!(
            (error.code.value(), *http_status),
            (-32602, Some(400)),
            "{id}"
        );
    }
}

#[test]
fn what_is_no_answer_fails_its_own_call_only() {
    let texts = [
        r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/vendor/x"}"#,
        "not json",
        "",
        "[]",
        r#"{"jsonrpc":"2.0","id":ID}"#,
    ];
    for text in texts {
        let mut pair = legacy(move |message| match message["params"]["name"].as_str() {
            Some("bad") => body(
                message,
                200,
                &text.replace("ID", &message["id"].to_string()),
            ),
            Some("good") => result(message, &json!({"content": []})),
            _ => Vec::new(),
        });
        request(&mut pair, "tools/call", &json!({"name": "bad"}), "bad");
        request(&mut pair, "tools/call", &json!({"name": "good"}), "good");
        let settled: Vec<_> = pair
            .settled()
            .iter()
            .map(|(label, outcome)| (*label, outcome.is_ok()))
            .collect();
        assert_eq!(settled, [("bad", false), ("good", true)], "{text}");
    }
}

#[test]
fn c082_cancelling_follows_channel_and_era() {
    let name = json!({"name": "t"});
    let mut pair = modern(config(), |_| Vec::new());
    let id = request(&mut pair, "tools/call", &name, "a");
    let before = pair.transcript().len();
    assert_eq!(pair.connection.cancel(&id, "why"), Some("a"));
    pair.advance(Duration::ZERO);
    assert_eq!(
        &pair.transcript()[before..],
        "+0.000s C>S closes the stream of 2\n"
    );

    let mut pair = legacy(|_| Vec::new());
    let id = request(&mut pair, "tools/call", &name, "a");
    let before = pair.transcript().len();
    assert_eq!(pair.connection.cancel(&id, "why"), Some("a"));
    pair.advance(Duration::ZERO);
    let after = &pair.transcript()[before..];
    assert!(after.contains("closes the stream of 2"), "{after}");
    assert!(
        after.contains(
            "notifications/cancelled\n           params {\"reason\":\"why\",\"requestId\":2}"
        ),
        "{after}"
    );

    // A deadline does the same (HTTPM-10).
    let mut pair = modern(config(), |_| Vec::new());
    request(&mut pair, "tools/call", &name, "a");
    pair.advance(60 * SECOND);
    assert!(
        pair.transcript()
            .contains("+60.000s C>S closes the stream of 2")
    );
    assert!(!pair.transcript().contains("notifications/cancelled"));
}

#[test]
fn an_answer_on_another_stream_counts() {
    // HTTPL-22: on the stream of another call; then nobody needs its own stream.
    let mut pair = legacy(|_| Vec::new());
    let first = request(&mut pair, "tools/call", &json!({"name": "t"}), "first");
    let second = request(&mut pair, "tools/call", &json!({"name": "t"}), "second");
    let text = format!(r#"{{"jsonrpc":"2.0","id":{first},"result":{{}}}}"#);
    pair.peer_acts([(
        Duration::ZERO,
        Act::Exchange(ExchangeMessage::new(Some(second), text.into())),
    )]);
    assert_eq!(pair.settled().len(), 2, "{}", pair.transcript());
    assert_eq!(pair.settled()[0], ("first", Ok("{}".to_owned())));
    assert!(
        pair.transcript()
            .contains(&format!("closes the stream of {first}"))
    );
}

#[test]
fn arguments_become_headers_where_the_tool_wants_it() {
    let schema =
        r#"{"type":"object","properties":{"tenant":{"type":"string","x-mcp-header":"Tenant"}}}"#;
    let schema = RawValue::from_string(schema.to_owned()).unwrap();
    let tools: ToolHeaders = [("t".to_owned(), MirroredParams::read(&schema).unwrap())].into();
    let mut pair = modern(config(), |message| result(message, &json!({"content": []})));
    pair.connection.set_tool_headers(tools.clone());
    let params = json!({"name": "t", "arguments": {"tenant": "größe"}});
    request(&mut pair, "tools/call", &params, "a");
    let transcript = pair.transcript();
    for line in [
        "MCP-Protocol-Version: 2026-07-28",
        "Mcp-Method: tools/call",
        "Mcp-Name: t",
        "Mcp-Param-Tenant: =?base64?Z3LDtsOfZQ==?=",
    ] {
        assert!(transcript.contains(line), "{line}\n{transcript}");
    }
    // HTTPM-29: not in the legacy era.
    let mut pair = legacy(|_| Vec::new());
    pair.connection.set_tool_headers(tools);
    request(&mut pair, "tools/call", &params, "a");
    assert!(!pair.transcript().contains("Mcp-"), "{}", pair.transcript());
}

fn lost(message: &Value) -> Vec<Reaction> {
    ends(
        message,
        HttpFailure::of_status(404, true, "Session not found"),
    )
}

#[test]
fn c099_c175_a_lost_session_is_restored_and_nothing_is_repeated() {
    let mut pair = legacy(|message| match message["method"].as_str() {
        Some("logging/setLevel" | "resources/subscribe" | "resources/unsubscribe") => {
            result(message, &json!({}))
        }
        Some("tools/call") if message["params"]["name"] == "late" => lost(message),
        _ => Vec::new(),
    });
    request(
        &mut pair,
        "logging/setLevel",
        &json!({"level": "debug"}),
        "level",
    );
    for uri in ["note://1", "note://2", "note://3"] {
        request(
            &mut pair,
            "resources/subscribe",
            &json!({"uri": uri}),
            "subscribe",
        );
    }
    request(
        &mut pair,
        "resources/unsubscribe",
        &json!({"uri": "note://2"}),
        "unsubscribe",
    );
    request(&mut pair, "tools/call", &json!({"name": "slow"}), "slow");
    let before = pair.transcript().len();
    request(&mut pair, "tools/call", &json!({"name": "late"}), "late");
    insta::assert_snapshot!(&pair.transcript()[before..], @r#"
    +0.000s C>S tools/call id=8
               params {"name":"late"}
    +0.000s       MCP-Protocol-Version: 2025-11-25
    +0.000s S>C[8] HTTP 404: the server has forgotten the session (Session not found)
    +0.000s C>S closes the stream of 7
    +0.000s C>S initialize id=9
               params {"capabilities":{},"clientInfo":{"name":"test","version":"1.0"},"protocolVersion":"2025-11-25"}
    +0.000s * settled slow: failed: HTTP 404: the server has forgotten the session (Session not found)
    +0.000s * settled late: failed: HTTP 404: the server has forgotten the session (Session not found)
    +0.000s * session lost
    +0.000s S>C[9] id=9
               result {"capabilities":{"logging":{},"resources":{"subscribe":true},"tools":{}},"protocolVersion":"2025-11-25","serverInfo":{"name":"peer","version":"1"}}
    +0.000s C>S notifications/initialized
    +0.000s       MCP-Protocol-Version: 2025-11-25
    +0.000s C>S logging/setLevel id=10
               params {"level":"debug"}
    +0.000s       MCP-Protocol-Version: 2025-11-25
    +0.000s C>S resources/subscribe id=11
               params {"uri":"note://1"}
    +0.000s       MCP-Protocol-Version: 2025-11-25
    +0.000s C>S resources/subscribe id=12
               params {"uri":"note://3"}
    +0.000s       MCP-Protocol-Version: 2025-11-25
    +0.000s S>C[10] id=10
               result {}
    +0.000s S>C[11] id=11
               result {}
    +0.000s S>C[12] id=12
               result {}
    +0.000s * ready: legacy, 2025-11-25
    +0.000s * notification MissedChanges
    "#);
    let sent: Vec<_> = pair
        .settled()
        .iter()
        .filter_map(|(label, outcome)| Some((*label, outcome.as_ref().err()?.sent())))
        .collect();
    assert_eq!(sent, [("slow", true), ("late", false)]);
}

#[test]
fn c100_one_lost_session_is_lost_once() {
    // Three calls are told the same; one session is opened.
    let mut pair = legacy(|message| match message["method"].as_str() {
        Some("tools/call") => vec![(
            SECOND,
            Act::ExchangeEnd(id_of(message), HttpFailure::of_status(404, true, "")),
        )],
        _ => Vec::new(),
    });
    for label in ["a", "b", "c"] {
        request(&mut pair, "tools/call", &json!({"name": "t"}), label);
    }
    pair.run();
    assert_eq!(pair.settled().len(), 3);
    assert_eq!(pair.transcript().matches("C>S initialize").count(), 2);
    assert_eq!(pair.transcript().matches("* ready").count(), 2);
}

#[test]
fn a_server_that_forgets_every_session_is_given_up() {
    let pair = legacy(|message| match message["method"].as_str() {
        Some("notifications/initialized") => lost(message),
        _ => Vec::new(),
    });
    let tries = pair.transcript().matches("C>S initialize").count();
    assert_eq!(
        tries,
        MAX_SESSION_LOSSES as usize + 1,
        "{}",
        pair.transcript()
    );
    assert!(pair.connection.agreement().is_none());
}

#[test]
fn a_session_that_can_not_be_restored_is_told() {
    let mut pair = legacy(|message| match message["method"].as_str() {
        Some("resources/subscribe") if message["id"].as_i64() < Some(4) => {
            result(message, &json!({}))
        }
        Some("tools/call") => lost(message),
        // The second subscription is never answered.
        _ => Vec::new(),
    });
    request(
        &mut pair,
        "resources/subscribe",
        &json!({"uri": "note://1"}),
        "s",
    );
    request(&mut pair, "tools/call", &json!({"name": "t"}), "t");
    pair.run();
    let transcript = pair.transcript();
    assert!(transcript.contains("NotRestored"), "{transcript}");
    assert!(
        transcript.ends_with(&format!(
            "* ready: legacy, 2025-11-25\n+30.000s * notification {:?}\n",
            ServerNotification::MissedChanges
        )),
        "{transcript}"
    );
}
