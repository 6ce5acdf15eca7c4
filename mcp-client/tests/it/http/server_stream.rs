//! The optional stream for the server's own messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::Notice;
use mcp_client::mcp_proto::connection::ServerNotification;
use mcp_testkit::http::{HttpPeer, LegacyServer, Push, Reply, Request, Step};
use serde_json::json;
use tokio::sync::Semaphore;

use super::{connect, connect_to, echo, methods, options, server};

const SECOND: Duration = Duration::from_secs(1);

fn gets(peer: &HttpPeer) -> usize {
    methods(peer)
        .iter()
        .filter(|method| *method == "GET")
        .count()
}

fn is_get(request: &Request) -> bool {
    request.method == "GET"
}

#[tokio::test(start_paused = true)]
async fn what_the_server_says_by_itself_arrives() {
    let push = Push::new();
    let reply = push.clone();
    let legacy = LegacyServer::new().on("GET", move |_| Some(reply.reply()));
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    let mut notifications = client.notifications();
    assert_eq!(client.tools().await.unwrap().tools.len(), 1);
    let get = peer
        .wait_request("what the client sends", 5 * SECOND, is_get)
        .await;
    assert_eq!(get.header("accept"), Some("text/event-stream"));
    assert!(get.header("mcp-session-id").is_some());
    assert_eq!(get.header("mcp-protocol-version"), Some("2025-11-25"));
    push.event(
        None,
        &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
    );
    let notice = notifications.next().await.unwrap();
    assert!(
        matches!(
            notice,
            Notice::Notification(ServerNotification::ToolsListChanged)
        ),
        "{notice:?}"
    );
    // A request of the server on it is answered by a POST.
    push.event(None, &json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}));
    peer.wait_request("what the client sends", SECOND, |request| {
        request.rpc_method().is_none() && request.method == "POST"
    })
    .await;
    client.close().await;
    peer.wait_aborted(1, SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn c045_it_never_blocks_the_start() {
    // A server that takes the stream and never answers it, and one that is slow with everything.
    let legacy = LegacyServer::new().on("GET", |_| Some(Reply::never()));
    let peer = HttpPeer::memory(legacy.handler());
    let begun = tokio::time::Instant::now();
    let client = connect(&peer).await;
    assert!(echo(&client, "a").await.is_ok());
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn c045_a_server_with_one_slot_gets_it_back() {
    // It answers POSTs only while no stream is open.
    let streams = Arc::new(Semaphore::new(1));
    let inner = LegacyServer::new();
    let slot = Arc::clone(&streams);
    let peer = HttpPeer::memory(move |request: Request| {
        let (slot, inner) = (Arc::clone(&slot), inner.clone());
        Box::pin(async move {
            if request.method == "GET" {
                // Taken until the test sees that the client closed the stream.
                slot.acquire().await.unwrap().forget();
                return Reply::sse().step(Step::Never);
            }
            drop(slot.acquire().await);
            inner.reply(&request)
        })
    });
    let client = connect(&peer).await;
    assert!(echo(&client, "a").await.is_ok());
    for round in 1..=2 {
        peer.wait_until("the stream", 30 * SECOND, |record| {
            record
                .requests
                .iter()
                .filter(|request| is_get(request))
                .count()
                == round
        })
        .await;
        let call = tokio::spawn({
            let client = client.clone();
            async move { echo(&client, "b").await }
        });
        peer.wait_aborted(round, 20 * SECOND).await;
        streams.add_permits(1);
        assert!(call.await.unwrap().is_ok());
    }
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(gets(&peer), 2, "it stays closed");
    assert!(echo(&client, "c").await.is_ok());
    let quirks = format!("{:?}", client.diagnostics().quirks);
    assert!(quirks.contains("ServerStreamBlocks"), "{quirks}");
}

#[tokio::test(start_paused = true)]
async fn c096_c097_what_is_no_stream_is_not_asked_for_again() {
    type Make = fn() -> Reply;
    let replies: &[Make] = &[
        || Reply::status(405),
        || Reply::status(404),
        || Reply::status(406),
        || Reply::status(400),
        || Reply::status(401),
        || Reply::status(501),
        || {
            Reply::status(200)
                .header("Content-Type", "text/html")
                .body("<html>landing</html>")
        },
        || Reply::status(200).body("hello"),
        || Reply::status(204),
        || Reply::json(200, &json!({"ok": true})),
        || Reply::status(302).header("Location", "/x"),
    ];
    for make in replies {
        let legacy = LegacyServer::new().on("GET", |_| Some(make()));
        let peer = HttpPeer::memory(legacy.handler());
        let client = connect(&peer).await;
        assert!(echo(&client, "a").await.is_ok());
        peer.wait_request("what the client sends", 5 * SECOND, is_get)
            .await;
        tokio::time::sleep(3600 * SECOND).await;
        assert_eq!(gets(&peer), 1, "{:?}", make());
        // A 404 here is no lost session.
        assert!(echo(&client, "b").await.is_ok());
        let initializes = methods(&peer)
            .iter()
            .filter(|method| *method == "initialize")
            .count();
        assert_eq!(initializes, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn c098_a_stream_that_ends_at_once_is_opened_ever_more_slowly_and_given_up() {
    let legacy = LegacyServer::new().on("GET", |_| Some(Reply::sse()));
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    assert!(echo(&client, "a").await.is_ok());
    tokio::time::sleep(60 * SECOND).await;
    assert!(gets(&peer) <= 7, "{} in a minute", gets(&peer));
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(gets(&peer), 9);
    let quirks = format!("{:?}", client.diagnostics().quirks);
    assert!(quirks.contains("ServerStreamEnds"), "{quirks}");
    assert!(echo(&client, "b").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn c117_a_stream_that_is_cut_now_and_then_is_opened_again() {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let legacy = LegacyServer::new().on("GET", move |request| {
        counted.fetch_add(1, Ordering::Relaxed);
        let resumed = request.header("last-event-id").is_some();
        let reply = Reply::sse();
        let reply = if resumed {
            reply
        } else {
            reply.chunk("id: 5\ndata:\n\n")
        };
        Some(reply.wait(125 * SECOND).step(Step::Reset))
    });
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    assert!(echo(&client, "a").await.is_ok());
    tokio::time::sleep(3600 * SECOND).await;
    let opened = count.load(Ordering::Relaxed);
    assert!((25..=30).contains(&opened), "{opened}");
    // Where it ended (HTTPL-31).
    let resumed = peer
        .requests()
        .iter()
        .filter(|request| request.header("last-event-id") == Some("5"))
        .count();
    assert_eq!(resumed, opened - 1);
    assert!(echo(&client, "b").await.is_ok());
    assert!(!client.is_closed());
}

#[tokio::test(start_paused = true)]
async fn it_can_be_turned_off() {
    let peer = HttpPeer::memory(LegacyServer::new().handler());
    let mut server = server(&peer);
    server.server_stream = false;
    let client = connect_to(server, options()).await.unwrap();
    assert!(echo(&client, "a").await.is_ok());
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(gets(&peer), 0);
}

#[tokio::test(start_paused = true)]
async fn c100_a_new_session_gets_a_stream_of_its_own() {
    let legacy = LegacyServer::new();
    let on = legacy
        .clone()
        .on("GET", |_| Some(Reply::sse().step(Step::Never)));
    let peer = HttpPeer::memory(on.handler());
    let client = connect(&peer).await;
    assert!(echo(&client, "a").await.is_ok());
    let first = peer
        .wait_request("what the client sends", 5 * SECOND, is_get)
        .await;
    legacy.forget_sessions();
    assert!(client.refresh_tools().await.is_ok());
    peer.wait_aborted(1, 5 * SECOND).await;
    peer.wait_until("what the client sends", 5 * SECOND, |record| {
        record
            .requests
            .iter()
            .filter(|request| is_get(request))
            .count()
            == 2
    })
    .await;
    let second = peer.requests().into_iter().rfind(is_get).unwrap();
    assert_ne!(
        first.header("mcp-session-id"),
        second.header("mcp-session-id")
    );
}
