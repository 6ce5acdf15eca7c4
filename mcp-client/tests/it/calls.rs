//! Calls: multiplexing, cancelling, deadlines, progress, notifications.

use std::time::Duration;

use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::mcp_proto::connection::ServerNotification;
use mcp_client::{CallOptions, ErrorKind, Notice, Sent, progress_channel};
use mcp_testkit::pair::{Peer, Reaction, say_after};
use serde_json::{Value, json};

use crate::scripted::connect;

const SECOND: Duration = Duration::from_secs(1);

/// A legacy server whose tool `wait` answers with its own argument after that many milliseconds.
fn waiting() -> impl FnMut(&Value) -> Vec<Reaction> + Send + 'static {
    let mut base = Peer::legacy("2025-11-25").script();
    move |message| {
        if message["method"] != "tools/call" {
            return base(message);
        }
        let (id, millis) = (
            &message["id"],
            message["params"]["arguments"]["ms"].as_u64().unwrap(),
        );
        let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": millis.to_string()}]}});
        vec![say_after(Duration::from_millis(millis), answer.to_string())]
    }
}

#[tokio::test(start_paused = true)]
async fn d3_64_calls_in_flight_each_get_their_own_answer() {
    let (client, _) = connect(waiting()).await;
    let slow = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .call_tool("wait", &json!({"ms": 5000}))
                .await
                .unwrap()
                .text()
        }
    });
    let start = tokio::time::Instant::now();
    // A fixed shuffle: 37 and 64 have no common divisor.
    let calls = (0..64u64).map(|n| {
        let client = client.clone();
        let millis = (n * 37) % 64 + 1;
        tokio::spawn(async move {
            (
                millis,
                client
                    .call_tool("wait", &json!({"ms": millis}))
                    .await
                    .unwrap()
                    .text(),
            )
        })
    });
    for call in calls.collect::<Vec<_>>() {
        let (millis, text) = call.await.unwrap();
        assert_eq!(text, millis.to_string());
    }
    assert!(
        start.elapsed() <= Duration::from_millis(100),
        "the slow call delayed the others: {:?}",
        start.elapsed()
    );
    assert_eq!(slow.await.unwrap(), "5000");
    assert_eq!(client.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_cancels_it_and_nothing_else() {
    let (client, log) = connect(waiting()).await;
    let dropped =
        tokio::time::timeout(SECOND, client.call_tool("wait", &json!({"ms": 60_000}))).await;
    assert!(dropped.is_err());
    let result = client.call_tool("wait", &json!({"ms": 1})).await.unwrap();
    assert_eq!(result.text(), "1");
    assert_eq!(log.count("notifications/cancelled"), 1);
    assert_eq!(client.in_flight(), 0);
    // A call that was never polled was never sent.
    drop(client.call_tool("wait", &json!({"ms": 1})));
    assert_eq!(log.count("tools/call"), 2);
}

#[tokio::test(start_paused = true)]
async fn c078_deadlines_are_kept_and_the_connection_lives() {
    let (client, log) = connect(waiting()).await;
    let start = tokio::time::Instant::now();
    // The default: 60 s of silence.
    let error = client
        .call_tool("wait", &json!({"ms": 1_000_000}))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent(), start.elapsed()),
        (ErrorKind::Timeout, Sent::Unknown, 60 * SECOND)
    );
    let options = CallOptions::default().with_deadline(Deadline::total(2 * SECOND));
    let error = client
        .call_tool_with("wait", &json!({"ms": 1_000_000}), options)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), start.elapsed()),
        (ErrorKind::Timeout, 62 * SECOND)
    );
    assert_eq!(error.to_string(), "scripted: wait: no answer in time");
    assert_eq!(
        std::error::Error::source(&error).unwrap().to_string(),
        "timed out after 2s in all"
    );
    // Longer than any hidden limit.
    let options = CallOptions::default().with_deadline(Deadline::total(1000 * SECOND));
    assert!(
        client
            .call_tool_with("wait", &json!({"ms": 900_000}), options)
            .await
            .is_ok()
    );
    assert_eq!(log.count("notifications/cancelled"), 2);
}

#[tokio::test(start_paused = true)]
async fn progress_arrives_in_order_and_ends_with_the_call() {
    let report = |value: u64| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":ID,"progress":{value}}}}}"#
        )
    };
    let mut peer = Peer::legacy("2025-11-25");
    for value in 1..=3 {
        peer = peer.say("tools/call", SECOND * value, &report(value.into()));
    }
    let peer = peer.say(
        "tools/call",
        4 * SECOND,
        r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#,
    );
    let (client, _) = connect(peer.script()).await;
    let (sender, mut progress) = progress_channel();
    let watch = tokio::spawn(async move {
        let mut seen = Vec::new();
        while let Some(report) = progress.recv().await {
            seen.push(report.progress);
        }
        seen
    });
    client
        .call_tool_with(
            "t",
            &json!({}),
            CallOptions::default().with_progress(sender),
        )
        .await
        .unwrap();
    assert_eq!(watch.await.unwrap(), [1.0, 2.0, 3.0]);
}

#[tokio::test(start_paused = true)]
async fn slow_readers_of_notifications_lose_them_visibly_and_never_answers() {
    let (client, log) = connect(waiting()).await;
    let mut notifications = client.notifications();
    for n in 0..300 {
        log.say(&format!(r#"{{"jsonrpc":"2.0","method":"n/{n}"}}"#));
    }
    assert_eq!(
        client
            .call_tool("wait", &json!({"ms": 1}))
            .await
            .unwrap()
            .text(),
        "1"
    );
    assert!(matches!(
        notifications.next().await,
        Some(Notice::Lagged(44))
    ));
    let Some(Notice::Notification(ServerNotification::Other { method, .. })) =
        notifications.next().await
    else {
        panic!("no notification");
    };
    assert_eq!(method, "n/44");
    client.close().await;
    let mut left = 0;
    while notifications.next().await.is_some() {
        left += 1;
    }
    assert_eq!(left, 255);
}

#[tokio::test(start_paused = true)]
async fn errors_of_the_server_and_tool_errors_are_told_apart() {
    let peer = Peer::legacy("2025-11-25").say("tools/call", Duration::ZERO, r#"{"jsonrpc":"2.0","id":ID,"result":{"isError":true,"content":[{"type":"text","text":"disk full"}]}}"#);
    let (client, _) = connect(peer.script()).await;
    let result = client.call_tool("t", &json!(null)).await.unwrap();
    assert!(result.is_error);
    assert_eq!(result.text(), "disk full");

    let (client, _) = connect(
        Peer::legacy("2025-11-25")
            .error("tools/call", -32602, "unknown tool")
            .script(),
    )
    .await;
    let error = client.call_tool("t", &json!({})).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent()),
        (ErrorKind::Rpc, Sent::Yes)
    );
    assert_eq!(error.as_rpc().unwrap().code.value(), -32602);

    let error = client.call_tool("t", &json!([1])).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent()),
        (ErrorKind::Usage, Sent::No)
    );

    let (client, _) = connect(
        Peer::legacy("2025-11-25")
            .result("tools/call", &json!([]))
            .script(),
    )
    .await;
    let error = client.call_tool("t", &json!({})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidAnswer);
}

#[tokio::test(start_paused = true)]
async fn c085_a_call_without_arguments_sends_an_empty_object() {
    let (client, log) = connect(
        Peer::legacy("2025-11-25")
            .result("tools/call", &json!({}))
            .script(),
    )
    .await;
    client.call_tool("t", &()).await.unwrap();
    let sent = log.received.lock().unwrap().last().cloned().unwrap();
    assert_eq!(sent["params"], json!({"name": "t", "arguments": {}}));
}

#[tokio::test(start_paused = true)]
async fn ping_asks_what_the_era_has() {
    let (client, log) = connect(
        Peer::legacy("2025-11-25")
            .result("ping", &json!({}))
            .script(),
    )
    .await;
    client.ping(CallOptions::default()).await.unwrap();
    assert_eq!(log.count("ping"), 1);
    let (client, log) = connect(Peer::modern().script()).await;
    client.ping(CallOptions::default()).await.unwrap();
    assert_eq!((log.count("ping"), log.count("server/discover")), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn odd_input_is_counted_and_disturbs_nothing() {
    let (client, log) = connect(waiting()).await;
    log.say("noise on the channel");
    log.say(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#);
    client.call_tool("wait", &json!({"ms": 1})).await.unwrap();
    let diagnostics = client.diagnostics();
    assert_eq!((diagnostics.noise, diagnostics.stray_answers), (1, 1));
}
