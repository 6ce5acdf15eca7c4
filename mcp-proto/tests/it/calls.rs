//! Requests of the host: encoding, deadlines, cancelling, closing.

use std::time::Duration;

use mcp_jsonrpc::Deadline;
use mcp_proto::connection::RequestOptions;
use mcp_proto::lifecycle::EraPolicy;
use mcp_proto::meta::RequestMeta;
use mcp_proto::method::{CallTool, ListTools};
use mcp_proto::model::page::ListParams;
use mcp_proto::model::tool::CallToolParams;
use mcp_proto::{CallFailure, UsageError};
use mcp_testkit::pair::{Pair, Peer, end, say, say_after};
use serde_json::json;
use serde_json::value::RawValue;

use crate::{config, with_policy};

const SECOND: Duration = Duration::from_secs(1);

fn legacy() -> Pair {
    Pair::started(
        with_policy(EraPolicy::Legacy),
        Peer::legacy("2025-11-25").script(),
    )
}

fn modern() -> Pair {
    Pair::started(config(), Peer::modern().script())
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn call(pair: &mut Pair, label: &'static str, options: &RequestOptions) -> mcp_jsonrpc::RequestId {
    let arguments = raw("{}");
    let params = CallToolParams::new("t", &arguments).unwrap();
    let now = pair.now();
    let id = pair
        .connection
        .request::<CallTool>(&params, options, label, now)
        .unwrap();
    pair.run_outputs();
    id
}

/// What the pair has to hand over now, without letting time pass.
trait RunOutputs {
    fn run_outputs(&mut self);
}

impl RunOutputs for Pair {
    fn run_outputs(&mut self) {
        self.advance(Duration::ZERO);
    }
}

fn options(deadline: Deadline) -> RequestOptions {
    let mut options = RequestOptions::default();
    options.deadline = deadline;
    options
}

fn last_lines(pair: &Pair, count: usize) -> String {
    let lines: Vec<_> = pair.transcript().lines().collect();
    lines[lines.len() - count..].join("\n")
}

#[test]
fn ver_30_ver_33_modern_requests_carry_their_metadata() {
    let mut pair = modern();
    let mut options = RequestOptions::default();
    options.progress = true;
    options.meta = RequestMeta::new().with_trace_context("00-aa-bb-01", Some("k=v"));
    let arguments = raw("{ \"a\":\n 1 }");
    let params = CallToolParams::new("größe", &arguments).unwrap();
    let now = pair.now();
    pair.connection
        .request::<CallTool>(&params, &options, "call", now)
        .unwrap();
    let line = pair.connection.poll_transmit().unwrap().line().clone();
    assert_eq!(
        std::str::from_utf8(&line).unwrap(),
        concat!(
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"größe","arguments":{ "a":  1 },"_meta":{"#,
            r#""io.modelcontextprotocol/clientCapabilities":{},"#,
            r#""io.modelcontextprotocol/clientInfo":{"name":"test","version":"1.0"},"#,
            r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#,
            r#""progressToken":2,"traceparent":"00-aa-bb-01","tracestate":"k=v"}}}"#,
            "\n"
        )
    );
    let now = pair.now();
    pair.connection
        .request::<ListTools>(
            &ListParams::default(),
            &RequestOptions::default(),
            "list",
            now,
        )
        .unwrap();
    let body = pair.connection.poll_transmit().unwrap().body();
    let message: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(
        message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"],
        "2026-07-28"
    );
}

#[test]
fn legacy_requests_carry_only_what_was_asked_for() {
    let mut pair = legacy();
    let now = pair.now();
    pair.connection
        .request::<ListTools>(
            &ListParams::default(),
            &RequestOptions::default(),
            "list",
            now,
        )
        .unwrap();
    let line = pair.connection.poll_transmit().unwrap().line().clone();
    assert_eq!(
        &line[..],
        b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{}}\n"
    );
}

#[test]
fn raw_requests_keep_their_own_meta() {
    let mut pair = legacy();
    let now = pair.now();
    let mut options = RequestOptions::default();
    options.progress = true;
    let params = raw(r#"{"z":1.0e2,"_meta":{"com.example/k":[1]},"a":"x"}"#);
    pair.connection
        .request_raw("x/y", Some(&params), &options, "raw", now)
        .unwrap();
    let line = pair.connection.poll_transmit().unwrap().body();
    assert_eq!(
        std::str::from_utf8(&line).unwrap(),
        r#"{"jsonrpc":"2.0","id":2,"method":"x/y","params":{"z":1.0e2,"a":"x","_meta":{"com.example/k":[1],"progressToken":2}}}"#
    );
}

#[test]
fn mistakes_of_the_caller_send_nothing() {
    let mut fresh = Pair::new(config(), Peer::silent().script());
    let now = fresh.now();
    let refused = |pair: &mut Pair, method: &str, params: &str| {
        let params = raw(params);
        pair.connection
            .request_raw(method, Some(&params), &RequestOptions::default(), "x", now)
            .unwrap_err()
    };
    assert_eq!(refused(&mut fresh, "ping", "{}"), UsageError::NotReady);
    let cases: &[(&str, &str, &str)] = &[
        ("tools/call", "[1]", "must be a JSON object"),
        ("tools/call", "7", "must be a JSON object"),
        ("tools/call", r#"{"_meta":7}"#, "must be a JSON object"),
        (
            "tools/call",
            r#"{"_meta":{"progressToken":1}}"#,
            "belongs to the protocol",
        ),
        ("initialize", "{}", "does not exist in the legacy era"),
        ("server/discover", "{}", "does not exist in the legacy era"),
        (
            "subscriptions/listen",
            "{}",
            "does not exist in the legacy era",
        ),
    ];
    let mut pair = legacy();
    for (method, params, text) in cases {
        let error = refused(&mut pair, method, params).to_string();
        assert!(error.contains(text), "{method} {params}: {error}");
    }
    for method in [
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "initialize",
    ] {
        assert!(
            refused(&mut modern(), method, "{}")
                .to_string()
                .contains("does not exist in the modern era"),
            "{method}"
        );
    }
    assert!(!pair.connection.has_transmits());
    assert_eq!(pair.connection.in_flight(), 0);

    // TOOL-01: what the server did not declare is not asked for.
    let bare = Peer::silent().result(
        "initialize",
        &json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
    );
    let mut pair = Pair::started(with_policy(EraPolicy::Legacy), bare.script());
    let now = pair.now();
    let error = pair.connection.request::<ListTools>(
        &ListParams::default(),
        &RequestOptions::default(),
        "x",
        now,
    );
    assert!(matches!(
        error,
        Err(UsageError::CapabilityMissing {
            capability: "tools",
            ..
        })
    ));

    let now = pair.now();
    pair.connection.close(now);
    assert_eq!(refused(&mut pair, "x", "{}"), UsageError::Closed);
}

#[test]
fn limits_at_below_and_above() {
    let mut settings = with_policy(EraPolicy::Legacy);
    settings.limits.max_in_flight = 2;
    settings.limits.max_queued_bytes = 300;
    settings.limits.max_message_bytes = 200;
    let mut pair = Pair::started(settings, Peer::legacy("2025-11-25").script());
    let now = pair.now();
    let send = |pair: &mut Pair, bytes: usize| {
        // `{"jsonrpc":"2.0","id":2,"method":"x","params":{"p":""}}` and the line break.
        let params = raw(&format!(r#"{{"p":"{}"}}"#, "x".repeat(bytes - 56)));
        pair.connection
            .request_raw("x", Some(&params), &RequestOptions::default(), "x", now)
    };
    assert!(send(&mut pair, 199).is_ok());
    assert!(send(&mut pair, 200).is_ok());
    assert!(matches!(
        send(&mut pair, 200),
        Err(UsageError::TooManyInFlight { limit: 2 })
    ));
    let first = 2.into();
    pair.connection.cancel(&first, "x");
    assert!(matches!(
        send(&mut pair, 201),
        Err(UsageError::RequestTooLarge {
            bytes: 201,
            limit_bytes: 200
        })
    ));
    assert!(send(&mut pair, 200).is_ok());
    pair.connection.cancel(&3.into(), "x");
    pair.connection.cancel(&4.into(), "x");

    let mut settings = with_policy(EraPolicy::Legacy);
    settings.limits.max_queued_bytes = 300;
    let mut pair = Pair::started(settings, Peer::legacy("2025-11-25").script());
    assert!(send(&mut pair, 299).is_ok());
    assert!(send(&mut pair, 100).is_ok());
    assert!(matches!(
        send(&mut pair, 100),
        Err(UsageError::OutgoingFull {
            queued_bytes: 399,
            limit_bytes: 300
        })
    ));
}

#[test]
fn c082_a_timeout_tells_the_server_once() {
    let mut pair = legacy();
    call(&mut pair, "slow", &options(Deadline::total(2 * SECOND)));
    pair.run();
    assert_eq!(
        last_lines(&pair, 3),
        "+2.000s C>S notifications/cancelled\n           params {\"reason\":\"timed out after 2s in all\",\"requestId\":2}\n\
         +2.000s * settled slow: failed: timed out after 2s in all"
    );
}

#[test]
fn c067_a_late_answer_disturbs_nothing() {
    let mut pair = legacy();
    call(&mut pair, "slow", &options(Deadline::total(SECOND)));
    pair.peer_acts([say_after(
        2 * SECOND,
        r#"{"jsonrpc":"2.0","id":2,"result":{}}"#,
    )]);
    call(&mut pair, "next", &RequestOptions::default());
    pair.peer_acts([
        say(r#"{"jsonrpc":"2.0","id":3,"result":{"ok":1}}"#),
        say(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#),
    ]);
    assert!(
        pair.transcript()
            .contains("+2.000s * note: late answer to 2"),
        "{}",
        pair.transcript()
    );
    assert!(
        pair.transcript().contains("* note: second answer to 3"),
        "{}",
        pair.transcript()
    ); // C069
    let outcomes: Vec<_> = pair
        .settled()
        .iter()
        .map(|(label, outcome)| (*label, outcome.is_ok()))
        .collect();
    assert_eq!(outcomes, [("slow", false), ("next", true)]);
}

#[test]
fn progress_keeps_a_call_alive_up_to_its_total() {
    let mut pair = legacy();
    let mut with_progress = options(Deadline::new(Some(2 * SECOND), Some(5 * SECOND)));
    with_progress.progress = true;
    call(&mut pair, "long", &with_progress);
    let report = |at: u32, progress: u64| {
        let line = format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":2,"progress":{progress},"total":9}}}}"#
        );
        say_after(SECOND * at, line)
    };
    pair.peer_acts([report(1, 1), report(2, 2), report(3, 2), report(4, 3)]);
    let text = pair.transcript();
    assert!(text.contains("+1.000s * progress of long: 1"), "{text}");
    assert!(
        text.contains("+3.000s * note: quirk: progress that does not grow"),
        "{text}"
    ); // PROG-03
    assert!(
        text.contains("+5.000s * settled long: failed: timed out after 5s in all"),
        "{text}"
    );
    // C074: what comes after the end is ignored.
    pair.peer_acts([report(1, 9)]);
    assert!(
        pair.transcript()
            .ends_with("* note: progress of nothing in flight\n"),
        "{}",
        pair.transcript()
    );
}

#[test]
fn cancelling_before_and_after_the_message_left() {
    let mut pair = legacy();
    let arguments = raw("{}");
    let params = CallToolParams::new("t", &arguments).unwrap();
    let now = pair.now();
    // Not handed over yet: nothing is ever sent.
    let id = pair
        .connection
        .request::<CallTool>(&params, &RequestOptions::default(), "unsent", now)
        .unwrap();
    assert_eq!(pair.connection.cancel(&id, "why"), Some("unsent"));
    assert!(!pair.connection.has_transmits());
    // Handed over: the server is told, once.
    let id = call(&mut pair, "sent", &RequestOptions::default());
    assert_eq!(pair.connection.cancel(&id, "why"), Some("sent"));
    assert_eq!(pair.connection.cancel(&id, "why"), None);
    pair.peer_acts([say(
        r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32800,"message":"cancelled"}}"#,
    )]); // C068
    assert_eq!(
        last_lines(&pair, 5)
            .lines()
            .filter(|line| line.contains("C>S") || line.contains('*'))
            .collect::<Vec<_>>(),
        [
            "+0.000s C>S notifications/cancelled",
            "+0.000s * note: late answer to 3"
        ]
    );
    assert!(pair.settled().is_empty());
}

#[test]
fn ver_16_initialize_can_not_be_cancelled() {
    let mut pair = Pair::new(with_policy(EraPolicy::Legacy), Peer::silent().script());
    let now = pair.now();
    pair.connection.start(now);
    pair.advance(Duration::ZERO);
    assert_eq!(pair.connection.cancel(&1.into(), "x"), None);
    assert!(!pair.connection.has_transmits());
}

#[test]
fn d2_a_lost_channel_says_what_was_sent() {
    let mut pair = legacy();
    call(&mut pair, "sent", &RequestOptions::default());
    let arguments = raw("{}");
    let params = CallToolParams::new("t", &arguments).unwrap();
    let now = pair.now();
    pair.connection
        .request::<CallTool>(&params, &RequestOptions::default(), "unsent", now)
        .unwrap();
    pair.connection
        .handle_channel_end(mcp_proto::ChannelEnd::new("it exited"), now);
    pair.run();
    let sent: Vec<_> = pair
        .settled()
        .iter()
        .map(|(label, outcome)| match outcome {
            Err(CallFailure::ChannelEnded { sent, .. }) => (*label, *sent),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sent, [("sent", true), ("unsent", false)]);
    assert!(pair.transcript().ends_with("* closed\n"));
    assert!(
        !pair.transcript().contains("\"name\":\"t\"},\"id\":3"),
        "{}",
        pair.transcript()
    );
    pair.peer_acts([end("again")]);
    assert_eq!(pair.settled().len(), 2);
}

#[test]
fn ver_24_clocks_stop_while_a_person_answers() {
    let mut pair = legacy();
    let id = call(&mut pair, "asking", &options(Deadline::total(2 * SECOND)));
    let now = pair.now();
    pair.connection.pause(&id, now + SECOND);
    pair.advance(100 * SECOND);
    assert!(pair.settled().is_empty());
    let now = pair.now();
    pair.connection.resume(&id, now);
    pair.run();
    assert!(
        pair.transcript()
            .contains("+101.000s * settled asking: failed: timed out"),
        "{}",
        pair.transcript()
    );
}
