//! How connections end: in order, by the server, by a lost runtime, before they began.

use std::time::Duration;

use mcp_client::{Client, ErrorKind, Sent, Stage};
use mcp_testkit::pair::{Peer, Reaction};
use serde_json::{Value, json};

use crate::scripted::{Scripted, connect, options};

/// A server that shakes hands and then says nothing.
fn mute() -> impl FnMut(&Value) -> Vec<Reaction> + Send + 'static {
    Peer::legacy("2025-11-25").script()
}

#[tokio::test(start_paused = true)]
async fn closing_fails_what_is_in_flight_and_everybody_gets_the_report() {
    let (client, log) = connect(mute()).await;
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", &json!({})).await.unwrap_err() }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (one, two, three) = tokio::join!(client.close(), client.close(), client.closed());
    assert_eq!(one.summary, "the scripted server was closed");
    assert!(one == two && two == three);
    let error = call.await.unwrap();
    assert_eq!(
        (error.kind(), error.was_sent()),
        (ErrorKind::Closed, Sent::Unknown)
    );
    let error = client.call_tool("t", &json!({})).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent()),
        (ErrorKind::Closed, Sent::No)
    );
    assert_eq!(log.closed(), 1);
    assert!(client.is_closed());
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_closes_the_connection() {
    let (client, log) = connect(mute()).await;
    let other = client.clone();
    drop(client);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.closed(), 0);
    drop(other);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(log.closed(), 1);
}

#[tokio::test(start_paused = true)]
async fn d2_c084_a_lost_connection_says_that_the_outcome_is_unknown_and_repeats_nothing() {
    let (client, log) = connect(mute()).await;
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("t", &json!({})).await.unwrap_err() }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    log.end("the server exited with status 3");
    let error = call.await.unwrap();
    assert_eq!(
        (error.kind(), error.was_sent(), error.stage()),
        (ErrorKind::ConnectionLost, Sent::Unknown, Stage::Call)
    );
    assert!(
        std::error::Error::source(&error)
            .unwrap()
            .to_string()
            .contains("exited with status 3")
    );
    client.closed().await;
    assert_eq!((log.count("tools/call"), log.closed()), (1, 1));
    let error = client.tools().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.stage()),
        (ErrorKind::Closed, Stage::List)
    );
    assert!(
        std::error::Error::source(&error)
            .unwrap()
            .to_string()
            .contains("exited with status 3")
    );
}

#[tokio::test(start_paused = true)]
async fn c048_a_server_that_exits_on_the_probe_is_started_again() {
    let peer = Peer::legacy("2025-06-18")
        .without("server/discover")
        .ends("server/discover", "it exited");
    let (client, log) = connect(peer.script()).await;
    assert_eq!(client.agreement().version.as_str(), "2025-06-18");
    assert_eq!((*log.opened.lock().unwrap(), log.closed()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn failed_starts_close_the_channel_and_tell_both_causes() {
    let peer = Peer::silent()
        .error("server/discover", -32601, "unknown")
        .error("initialize", -32603, "broken");
    let (connector, log) = Scripted::new(peer.script());
    let error = Client::connect(connector, options()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.stage()),
        (ErrorKind::Handshake, Stage::Handshake)
    );
    assert_eq!(error.to_string(), "scripted: no agreement with the server");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(
        cause.contains("-32603: broken") && cause.contains("-32601: unknown"),
        "{cause}"
    );
    assert_eq!(log.closed(), 1);

    let (connector, _) = Scripted::new(Peer::silent().script());
    let start = tokio::time::Instant::now();
    let error = Client::connect(connector, options()).await.unwrap_err();
    assert_eq!(
        (error.kind(), start.elapsed()),
        (ErrorKind::Timeout, Duration::from_secs(30))
    );
}

#[tokio::test(start_paused = true)]
async fn c040_c239_dropping_the_connect_future_closes_what_was_opened() {
    let (connector, log) = Scripted::new(Peer::silent().script());
    let late = tokio::time::timeout(
        Duration::from_secs(1),
        Client::connect(connector, options()),
    )
    .await;
    assert!(late.is_err());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((*log.opened.lock().unwrap(), log.closed()), (1, 1));
}

#[test]
fn c236_calls_fail_fast_when_the_runtime_is_gone() {
    let first = tokio::runtime::Runtime::new().unwrap();
    let (client, _) = first.block_on(connect(mute()));
    let second = tokio::runtime::Runtime::new().unwrap();
    let pending = second.spawn({
        let client = client.clone();
        async move { client.call_tool("t", &json!({})).await.unwrap_err() }
    });
    while client.in_flight() == 0 {
        std::thread::yield_now();
    }
    first.shutdown_background();
    let within = Duration::from_secs(10);
    let error = second
        .block_on(async { tokio::time::timeout(within, pending).await })
        .unwrap()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::ConnectionLost);
    assert!(
        std::error::Error::source(&error)
            .unwrap()
            .to_string()
            .contains("runtime")
    );
    let error = second
        .block_on(async { tokio::time::timeout(within, client.call_tool("t", &json!({}))).await });
    assert_eq!(error.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    second
        .block_on(async { tokio::time::timeout(within, client.close()).await })
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn c235_there_is_no_hidden_session_timer() {
    let peer = Peer::legacy("2025-11-25").result("tools/call", &json!({}));
    let (client, log) = connect(peer.script()).await;
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_secs(3600)).await;
        client.call_tool("t", &json!({})).await.unwrap();
    }
    assert_eq!(
        (log.count("tools/call"), *log.opened.lock().unwrap()),
        (10, 1)
    );
}

#[test]
fn c236_connecting_on_a_runtime_that_is_gone_fails_at_once() {
    let gone = tokio::runtime::Runtime::new().unwrap();
    let handle = gone.handle().clone();
    gone.shutdown_background();
    let (connector, _) = Scripted::new(mute());
    let connecting = {
        let _inside = handle.enter();
        Client::connect(connector, options())
    };
    // The task is spawned when the future is first polled, inside the runtime that is gone.
    let live = tokio::runtime::Runtime::new().unwrap();
    let connecting = async move {
        let mut connecting = std::pin::pin!(connecting);
        std::future::poll_fn(move |context| {
            let _inside = handle.enter();
            connecting.as_mut().poll(context)
        })
        .await
    };
    let outcome =
        live.block_on(async { tokio::time::timeout(Duration::from_secs(10), connecting).await });
    assert_eq!(outcome.unwrap().unwrap_err().kind(), ErrorKind::Closed);
}
