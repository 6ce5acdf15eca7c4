//! `subscriptions/listen`: acknowledgement, ends of every kind, opening again.

use std::time::Duration;

use bytes::Bytes;
use mcp_jsonrpc::RequestId;
use mcp_proto::UsageError;
use mcp_proto::connection::{ExchangeMessage, SubscriptionId};
use mcp_proto::http::{Delivery, HttpFailure, HttpFailureKind};
use mcp_proto::lifecycle::EraPolicy;
use mcp_proto::model::subscription::ListenFilter;
use mcp_testkit::pair::{Act, Pair, Peer, Reaction, say, say_after};
use serde_json::{Value, json};

use crate::{config, with_policy};

const SECOND: Duration = Duration::from_secs(1);

fn discovered(message: &Value) -> Vec<Reaction> {
    vec![say(
        json!({"jsonrpc": "2.0", "id": message["id"], "result": {
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}},
        }})
        .to_string(),
    )]
}

fn acknowledged(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "_meta": {"io.modelcontextprotocol/subscriptionId": id}, "notifications": {"toolsListChanged": true},
    }})
    .to_string()
}

fn changed(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {
        "_meta": {"io.modelcontextprotocol/subscriptionId": id},
    }})
    .to_string()
}

fn graceful(id: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "result": {
        "resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": id},
    }})
    .to_string()
}

/// A modern server on a channel of either kind, with what it does about `subscriptions/listen`.
fn server(per_exchange: bool, mut listen: impl FnMut(&Value) -> Vec<Reaction> + 'static) -> Pair {
    let script = move |message: &Value| match message["method"].as_str() {
        Some("server/discover") => discovered(message),
        Some("subscriptions/listen") => listen(message),
        _ => Vec::new(),
    };
    if per_exchange {
        Pair::started_per_exchange(config(), script)
    } else {
        Pair::started(config(), script)
    }
}

fn listen(pair: &mut Pair, filter: &ListenFilter) -> SubscriptionId {
    let now = pair.now();
    let id = pair.connection.listen(filter, "watch", now).unwrap();
    pair.advance(Duration::ZERO);
    id
}

/// What happened from a certain place on, without what was sent.
fn events(transcript: &str) -> Vec<&str> {
    transcript
        .lines()
        .filter_map(|line| Some(line.split_once(" * ")?.1))
        .filter(|line| !line.starts_with("ready"))
        .collect()
}

#[test]
fn changes_are_told_over_both_kinds_of_channel() {
    for per_exchange in [false, true] {
        let mut pair = server(per_exchange, |message| {
            let id = &message["id"];
            vec![
                say(acknowledged(id)),
                // C176: silent for longer than any request may be.
                say_after(600 * SECOND, changed(id)),
                say_after(601 * SECOND, graceful(id)),
            ]
        });
        listen(
            &mut pair,
            &ListenFilter::default().tools().resource("note://1"),
        );
        pair.run();
        assert_eq!(
            events(pair.transcript()),
            [
                r#"subscription watch: Open { missing: {"resourceSubscriptions":["note://1"]} }"#,
                "notification ToolsListChanged",
                "subscription watch: Ended(Graceful)",
            ],
            "{}",
            pair.transcript()
        );
        assert_eq!(pair.connection.in_flight(), 0);
    }
}

#[test]
fn only_what_the_server_promises_is_asked_for() {
    let mut pair = server(true, |message| vec![say(acknowledged(&message["id"]))]);
    listen(&mut pair, &ListenFilter::default().tools().prompts());
    let transcript = pair.transcript();
    assert!(
        transcript.contains(r#""notifications":{"toolsListChanged":true}"#),
        "{transcript}"
    );
    assert!(
        transcript.contains(r#"missing: {"promptsListChanged":true}"#),
        "{transcript}"
    );
    let now = pair.now();
    let nothing = pair
        .connection
        .listen(&ListenFilter::default().prompts(), "x", now);
    assert!(matches!(nothing, Err(UsageError::CapabilityMissing { .. })));
    let mut legacy = Pair::started(
        with_policy(EraPolicy::Legacy),
        Peer::legacy("2025-11-25").script(),
    );
    let now = legacy.now();
    let error = legacy
        .connection
        .listen(&ListenFilter::default().tools(), "x", now);
    assert!(matches!(error, Err(UsageError::NotInEra { .. })));
}

#[test]
fn c176_interruptions_are_waited_out_longer_and_longer() {
    // Each stream ends at once.
    let mut pair = server(true, |message| {
        let id = message["id"].as_i64().map(RequestId::Number);
        let cut = HttpFailure::new(HttpFailureKind::StreamEnded, Delivery::Unknown, "");
        vec![
            say(acknowledged(&message["id"])),
            (Duration::ZERO, Act::ExchangeEnd(id, cut)),
        ]
    });
    listen(&mut pair, &ListenFilter::default().tools());
    pair.advance(3600 * SECOND);
    let opened: Vec<f64> = pair
        .transcript()
        .lines()
        .filter(|line| line.contains("C>S subscriptions/listen"))
        .filter_map(|line| line.split_once('s')?.0.parse().ok())
        .collect();
    let waits: Vec<f64> = opened.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (wait, about) in waits
        .iter()
        .zip([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0])
    {
        assert!(*wait <= about && *wait >= about * 0.74, "{waits:?}");
    }
    assert!(opened.len() < 90, "{} streams in an hour", opened.len());
    // SUB-17: each gap is told.
    let told = pair.transcript().matches("MissedChanges").count();
    assert_eq!(told, opened.len() - 1);
}

#[test]
fn c098_a_stream_that_brought_something_starts_the_waits_over() {
    let mut pair = server(true, |message| {
        let id = message["id"].as_i64().map(RequestId::Number);
        let cut = HttpFailure::new(HttpFailureKind::Cut, Delivery::Unknown, "");
        vec![
            say(acknowledged(&message["id"])),
            say(changed(&message["id"])),
            (Duration::ZERO, Act::ExchangeEnd(id, cut)),
        ]
    });
    listen(&mut pair, &ListenFilter::default().tools());
    pair.advance(100 * SECOND);
    let opened = pair
        .transcript()
        .matches("C>S subscriptions/listen")
        .count();
    assert!((95..140).contains(&opened), "{opened}");
}

#[test]
fn ends_of_every_kind_are_understood() {
    let of = |status| HttpFailure::of_status(status, false, "");
    let ends: Vec<(&str, Act)> = vec![
        ("Ended(Graceful)", Act::Say(graceful(&json!("ID")))),
        (
            "Ended(Graceful)",
            Act::Say(
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}"#
                    .to_owned(),
            ),
        ),
        (
            "Ended(Refused",
            Act::Say(
                r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}"#.to_owned(),
            ),
        ),
        ("Ended(Refused", Act::ExchangeEnd(None, of(404))),
        ("Interrupted", Act::ExchangeEnd(None, of(429))),
        ("Interrupted", Act::ExchangeEnd(None, of(502))),
        (
            "Interrupted",
            Act::Say(r#"{"jsonrpc":"2.0","id":ID}"#.to_owned()),
        ),
    ];
    for (expected, act) in ends {
        for acknowledge in [false, true] {
            let act = act.clone();
            let mut pair = server(true, move |message| {
                let id = message["id"].to_string();
                let origin = message["id"].as_i64().map(RequestId::Number);
                let act = match act.clone() {
                    Act::Say(text) => Act::Say(text.replace("\"ID\"", &id).replace("ID", &id)),
                    Act::ExchangeEnd(_, failure) => Act::ExchangeEnd(origin, failure),
                    act => act,
                };
                let ack = acknowledge.then(|| say(acknowledged(&message["id"])));
                ack.into_iter().chain([(Duration::ZERO, act)]).collect()
            });
            listen(&mut pair, &ListenFilter::default().tools());
            let last = *events(pair.transcript()).last().unwrap();
            assert!(last.contains(expected), "{expected}: {}", pair.transcript());
        }
    }
}

#[test]
fn without_an_acknowledgement_it_is_tried_again() {
    let mut count = 0;
    let mut pair = server(false, move |message| {
        count += 1;
        if count == 1 {
            Vec::new()
        } else {
            vec![say(acknowledged(&message["id"]))]
        }
    });
    listen(&mut pair, &ListenFilter::default().tools());
    pair.advance(40 * SECOND);
    let transcript = pair.transcript();
    assert!(
        transcript.contains("+30.000s C>S notifications/cancelled"),
        "{transcript}"
    );
    assert!(transcript.contains("Interrupted"), "{transcript}");
    assert!(
        transcript.trim_end().ends_with("MissedChanges"),
        "{transcript}"
    );
}

#[test]
fn unlisten_tells_the_server_as_the_channel_wants_it() {
    for per_exchange in [false, true] {
        let mut pair = server(per_exchange, |message| {
            vec![say(acknowledged(&message["id"]))]
        });
        let id = listen(&mut pair, &ListenFilter::default().tools());
        let before = pair.transcript().len();
        assert_eq!(pair.connection.unlisten(id), Some("watch"));
        assert_eq!(pair.connection.unlisten(id), None);
        pair.run();
        let after = &pair.transcript()[before..];
        let expected = if per_exchange {
            "closes the stream of 2"
        } else {
            "notifications/cancelled"
        };
        assert!(
            after.contains(expected) && after.lines().count() <= 2,
            "{after}"
        );
    }
}

#[test]
fn a_notification_before_the_acknowledgement_is_reported_and_delivered() {
    // SUB-12. Also without an id of its own: the stream says whose it is.
    let mut pair = server(true, |message| {
        vec![
            say(changed(&message["id"])),
            say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#),
            say(acknowledged(&message["id"])),
        ]
    });
    listen(&mut pair, &ListenFilter::default().tools());
    let transcript = pair.transcript();
    assert_eq!(
        transcript.matches("note: violation").count(),
        2,
        "{transcript}"
    );
    assert_eq!(
        transcript.matches("notification ToolsListChanged").count(),
        2
    );
    assert!(
        transcript.contains("subscription watch: Open"),
        "{transcript}"
    );
}

#[test]
fn subscriptions_end_with_the_connection_and_are_limited() {
    let mut config = config();
    config.limits.max_subscriptions = 2;
    let mut pair = Pair::started_per_exchange(config, |message| match message["method"].as_str() {
        Some("server/discover") => discovered(message),
        _ => vec![say(acknowledged(&message["id"]))],
    });
    let filter = ListenFilter::default().tools();
    listen(&mut pair, &filter);
    listen(&mut pair, &filter);
    let now = pair.now();
    assert_eq!(
        pair.connection.listen(&filter, "third", now),
        Err(UsageError::TooManySubscriptions { limit: 2 })
    );
    pair.connection.close(now);
    pair.run();
    assert_eq!(
        pair.transcript().matches("Ended(ConnectionClosed)").count(),
        2
    );
}

#[test]
fn an_exchange_message_without_an_origin_is_no_answer() {
    // A stream for whatever the server has to say carries notifications (HTTPL-21).
    let mut pair = server(true, |_| Vec::new());
    let message = ExchangeMessage::new(
        None,
        Bytes::from_static(br#"{"jsonrpc":"2.0","id":77,"result":{}}"#),
    );
    pair.peer_acts([(Duration::ZERO, Act::Exchange(message))]);
    assert!(pair.transcript().contains("answer to unknown 77"));
}
