//! What servers send: requests, notifications, batches, odd answers.

use mcp_proto::connection::RequestOptions;
use mcp_proto::lifecycle::EraPolicy;
use mcp_proto::method::CallTool;
use mcp_proto::model::tool::CallToolParams;
use mcp_proto::{CallFailure, PeerFault};
use mcp_testkit::pair::{Act, Pair, Peer, say};
use serde_json::value::RawValue;
use std::time::Duration;

use crate::{config, with_policy};

fn legacy(version: &str) -> Pair {
    Pair::started(
        with_policy(EraPolicy::Legacy),
        Peer::legacy(version).script(),
    )
}

fn modern() -> Pair {
    Pair::started(config(), Peer::modern().script())
}

fn call(pair: &mut Pair, label: &'static str) {
    let arguments = RawValue::from_string("{}".to_owned()).unwrap();
    let params = CallToolParams::new("t", &arguments).unwrap();
    let mut options = RequestOptions::default();
    options.progress = true;
    let now = pair.now();
    pair.connection
        .request::<CallTool>(&params, &options, label, now)
        .unwrap();
    pair.run();
}

/// The lines of the transcript that `lines` adds, without times, payload lines joined to their heads.
fn after(pair: &mut Pair, lines: &[&str]) -> Vec<String> {
    let before = pair.transcript().len();
    pair.peer_acts(lines.iter().map(|line| say(*line)));
    let added = pair.transcript()[before..].replace("\n           ", " ");
    added
        .lines()
        .map(|line| {
            line.split_once("s ")
                .map_or(line, |(_, rest)| rest)
                .to_owned()
        })
        .filter(|line| !line.starts_with("S>C"))
        .collect()
}

#[test]
fn jr_10_jr_11_legacy_requests_are_answered_once() {
    let mut pair = legacy("2025-11-25");
    let added = after(
        &mut pair,
        &[
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#,
            r#"{"jsonrpc":"2.0","id":8,"method":"vendor/x","params":[1]}"#,
        ],
    );
    let refusal = r#"error {"code":-32601,"message":"this client does not offer that method"}"#;
    assert_eq!(
        added,
        [
            "C>S id=1 result {}".to_owned(),
            r#"C>S id="1" result {}"#.to_owned(),
            format!("C>S id=7 {refusal}"),
            format!("C>S id=8 {refusal}"),
        ]
    );
}

#[test]
fn c088_a_request_with_the_id_of_a_call_is_not_its_answer() {
    let mut pair = legacy("2025-11-25");
    call(&mut pair, "mine");
    let added = after(
        &mut pair,
        &[
            r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":2,"result":{"mine":true}}"#,
        ],
    );
    assert_eq!(
        added,
        ["C>S id=2 result {}", r#"* settled mine: {"mine":true}"#]
    );
}

#[test]
fn jr_12_modern_requests_are_not_answered() {
    let mut pair = modern();
    let added = after(&mut pair, &[r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#]);
    assert_eq!(
        added,
        [
            r#"* note: violation: the server sent the request "ping" (id 1), which the modern era forbids"#
        ]
    );
}

#[test]
fn ping_01_a_ping_is_answered_before_the_handshake_is_done() {
    let ping = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;
    let peer =
        Peer::legacy("2025-11-25")
            .without("initialize")
            .say("initialize", Duration::ZERO, ping);
    let pair = Pair::started(with_policy(EraPolicy::Legacy), peer.script());
    assert!(
        pair.transcript()
            .contains("C>S id=\"p\"\n           result {}"),
        "{}",
        pair.transcript()
    );
    // VER-15: between the handshake's answer and our notification, too; log messages then disturb nothing.
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"up"}}"#;
    let peer = Peer::legacy("2025-11-25")
        .say("initialize", Duration::ZERO, ping)
        .say("initialize", Duration::ZERO, log);
    let pair = Pair::started(config(), peer.script());
    assert!(
        pair.transcript().contains("* ready: legacy"),
        "{}",
        pair.transcript()
    );
    assert!(pair.transcript().contains("Log("), "{}", pair.transcript());
}

#[test]
fn a_server_that_asks_without_reading_is_not_answered_for_ever() {
    let mut settings = with_policy(EraPolicy::Legacy);
    settings.limits.max_queued_answers = 3;
    let mut pair = Pair::started(settings, Peer::legacy("2025-11-25").script());
    let now = pair.now();
    for id in 0..10 {
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        pair.connection.handle_message(line.into(), now);
    }
    let mut answers = 0;
    while pair.connection.poll_transmit().is_some() {
        answers += 1;
    }
    assert_eq!(answers, 3);
    pair.run();
    assert_eq!(
        pair.transcript()
            .matches("while it does not read 3 earlier answers")
            .count(),
        7
    );
}

#[test]
fn answers_to_long_ids_are_bounded_in_bytes_and_take_nothing_from_the_host() {
    let mut pair = legacy("2025-11-25");
    let now = pair.now();
    for n in 0..10 {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":"{n}{}","method":"ping"}}"#,
            "x".repeat(600_000)
        );
        pair.connection.handle_message(line.into(), now);
    }
    call(&mut pair, "mine");
    let notes: Vec<_> = pair
        .transcript()
        .lines()
        .filter(|line| line.contains("earlier answers"))
        .collect();
    assert_eq!(notes.len(), 8);
    assert!(
        notes.iter().all(|note| note.len() < 400),
        "no id is shown whole"
    );
}

#[test]
fn a_line_of_very_many_messages_is_cut() {
    let mut pair = legacy("2025-11-25");
    let now = pair.now();
    pair.connection
        .handle_message("{}".repeat(100_000).into(), now);
    let mut events = 0;
    while pair.connection.poll_event().is_some() {
        events += 1;
    }
    assert!(events <= 1025, "{events}");
}

#[test]
fn c075_c087_c090_notifications_in_order() {
    let mut pair = legacy("2025-11-25");
    call(&mut pair, "watched");
    let progress = |value: u64| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":2,"progress":{value}}}}}"#
        )
    };
    let reports: Vec<_> = (1..=100).map(progress).collect();
    let added = after(
        &mut pair,
        &reports.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    assert_eq!(
        added,
        (1..=100)
            .map(|value| format!("* progress of watched: {value}"))
            .collect::<Vec<_>>()
    );
    let added = after(
        &mut pair,
        &[
            r#"{"jsonrpc":"2.0","method":"notifications/vendor/foo"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99,"progress":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#,
        ],
    );
    assert_eq!(
        added,
        [
            "* notification notifications/vendor/foo",
            "* notification ToolsListChanged",
            "* note: progress of nothing in flight",
            "* note: progress of nothing in flight",
        ]
    );
}

#[test]
fn c060_c061_odd_ids_still_match() {
    let cases = [
        (r#""2""#, "* note: quirk: a numeric id echoed as a string"),
        ("2.0", "* note: quirk: an integer id written as a float"),
    ];
    for (id, note) in cases {
        let mut pair = legacy("2025-11-25");
        call(&mut pair, "mine");
        let added = after(
            &mut pair,
            &[&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)],
        );
        assert_eq!(added, [note, "* settled mine: {}"], "{id}");
    }
    for id in [r#""02""#, r#""two""#, "3", "-2", "99"] {
        let mut pair = legacy("2025-11-25");
        call(&mut pair, "mine");
        let added = after(
            &mut pair,
            &[&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)],
        );
        assert!(
            added.len() == 1 && added[0].starts_with("* note: answer to unknown"),
            "{id}: {added:?}"
        );
    }
}

#[test]
fn broken_answers_fail_their_own_call_only() {
    let cases = [
        (r#"{"jsonrpc":"2.0","id":2}"#, "neither result nor error"), // C065
        (r#"{"jsonrpc":"2.0","id":2,"error":"x"}"#, "no error object"),
        (r#"{"jsonrpc":"2.0","id":2,"result":{"#, "not JSON"),
        (r#"{"jsonrpc":"2.0","result":{"a":1,},"id":2}"#, "not JSON"),
        (
            r#"[{"jsonrpc":"2.0","id":2,"result":{}}]"#,
            "inside a batch",
        ), // JR-23
    ];
    for (answer, text) in cases {
        let mut pair = legacy("2025-11-25");
        call(&mut pair, "broken");
        call(&mut pair, "fine");
        after(
            &mut pair,
            &[answer, r#"{"jsonrpc":"2.0","id":3,"result":{}}"#],
        );
        let [(first, Err(CallFailure::Peer(fault))), (second, Ok(_))] = pair.settled() else {
            panic!("{answer}: {:?}", pair.settled());
        };
        assert_eq!((*first, *second), ("broken", "fine"), "{answer}");
        assert!(fault.to_string().contains(text), "{answer}: {fault}");
    }
}

#[test]
fn d15_an_answer_above_the_limit_fails_its_own_call() {
    let mut settings = with_policy(EraPolicy::Legacy);
    settings.limits.max_message_bytes = 1000;
    let line = |id: u64, length: usize| {
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"x":""#);
        let tail = r#""}}"#;
        format!(
            "{head}{}{tail}\n",
            "x".repeat(length - head.len() - tail.len())
        )
    };
    let mut pair = Pair::started(settings, Peer::legacy("2025-11-25").script());
    for label in ["below", "at", "above", "after"] {
        call(&mut pair, label);
    }
    let bytes = [line(2, 999), line(3, 1000), line(4, 1001), line(5, 500)].concat();
    pair.peer_acts([(Duration::ZERO, Act::Bytes(bytes.into_bytes()))]);
    let outcomes: Vec<_> = pair
        .settled()
        .iter()
        .map(|(label, outcome)| (*label, outcome.is_ok()))
        .collect();
    assert_eq!(
        outcomes,
        [
            ("below", true),
            ("at", true),
            ("above", false),
            ("after", true)
        ]
    );
    let (
        _,
        Err(CallFailure::Peer(PeerFault::TooLong {
            bytes: 1001,
            limit_bytes: 1000,
        })),
    ) = &pair.settled()[2]
    else {
        panic!("{:?}", pair.settled()[2]);
    };
}

#[test]
fn jr_20_jr_22_batches_where_the_version_has_them() {
    let batch = concat!(
        r#"[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":2,"result":{"n":1}},"#,
        r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"},{"jsonrpc":"2.0","id":"b","method":"x"},5]"#
    );
    for version in ["2024-11-05", "2025-03-26"] {
        let mut pair = legacy(version);
        call(&mut pair, "mine");
        let now = pair.now();
        pair.connection.handle_message(batch.into(), now);
        let answer = pair.connection.poll_transmit().unwrap().body();
        assert_eq!(
            std::str::from_utf8(&answer).unwrap(),
            concat!(
                r#"[{"jsonrpc":"2.0","id":"a","result":{}},"#,
                r#"{"jsonrpc":"2.0","id":"b","error":{"code":-32601,"message":"this client does not offer that method"}}]"#
            )
        );
        pair.run();
        assert!(
            pair.transcript().contains("* settled mine: {\"n\":1}"),
            "{}",
            pair.transcript()
        );
        assert!(
            pair.transcript()
                .contains("* notification ToolsListChanged"),
            "{}",
            pair.transcript()
        );
        // All notifications: no answer. Empty: malformed.
        let added = after(&mut pair, &[r#"[{"jsonrpc":"2.0","method":"n"}]"#, "[]"]);
        assert_eq!(
            added,
            ["* notification n", r#"* note: noise: an empty batch: "[]""#]
        );
    }
    let mut pair = legacy("2025-06-18");
    let added = after(
        &mut pair,
        &[r#"[{"jsonrpc":"2.0","id":"a","method":"ping"}]"#],
    );
    assert_eq!(
        added,
        ["* note: violation: the server sent a batch, which 2025-06-18 does not allow"]
    );
}

#[test]
fn jr_40_to_jr_43_result_types() {
    let cases = [
        ("{}", true),
        (r#"{"resultType":"complete"}"#, true),
        (r#"{"content":[],"resultType":"complete"}"#, true),
        (r#"{"resultType":null}"#, true),
        (r#"{"content":[],"resultType":"task"}"#, false),
        (r#"{"resultType":7}"#, false),
    ];
    for (result, ok) in cases {
        for (mut pair, era_cares) in [(modern(), true), (legacy("2025-11-25"), false)] {
            call(&mut pair, "mine");
            after(
                &mut pair,
                &[&format!(r#"{{"jsonrpc":"2.0","id":2,"result":{result}}}"#)],
            );
            assert_eq!(pair.settled()[0].1.is_ok(), ok || !era_cares, "{result}");
        }
    }
}

#[test]
fn noise_is_noted_and_skipped() {
    let mut pair = legacy("2025-11-25");
    call(&mut pair, "mine");
    let added = after(
        &mut pair,
        &[
            "Server v1.2 starting on stdio...",             // C001
            "\u{1b}[33m[warn] token expires soon\u{1b}[0m", // C004
            r#"{"level":"info","msg":"structured log"}"#,
            "Content-Length: 52",
            r#"{"jsonrpc":"2.0","result":{}}"#, // C094
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"can't read you"}}"#, // JR-07
            r#"{"jsonrpc":"2.0","id":2,"result":{}}"#,
        ],
    );
    assert_eq!(added.len(), 7);
    assert_eq!(
        added[0],
        r#"* note: noise: not JSON: "Server v1.2 starting on stdio...""#
    );
    assert!(!added[1].contains('\u{1b}'), "{}", added[1]);
    assert!(added[3].contains("as LSP does"), "{}", added[3]);
    assert_eq!(added[5], "* note: peer error: error -32700: can't read you");
    assert_eq!(added[6], "* settled mine: {}");
}
