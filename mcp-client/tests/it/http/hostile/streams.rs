//! Streams that are cut, repeated, resumed and held up.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::ErrorKind;
use mcp_client::http::HttpServer;
use mcp_testkit::http::{
    HttpPeer, LegacyServer, ModernServer, Push, Reply, Request, Step, sse_event,
};
use serde_json::json;
use tokio::time::Instant;

use super::{SECOND, call_within, count};
use crate::http::{connect, connect_to, echo, options, server, text};

#[tokio::test(start_paused = true)]
async fn an_unlabelled_answer_of_nothing_but_space_is_bounded() {
    let peer = HttpPeer::memory(
        ModernServer::new()
            .on("tools/call", |_| {
                let mut reply = Reply::status(200);
                for _ in 0..100 {
                    reply = reply.chunk(vec![b' '; 1000]);
                }
                Some(reply.step(Step::Never))
            })
            .handler(),
    );
    let client = connect(&peer).await;
    let error = echo(&client, "a").await.unwrap_err();
    assert!(error.contains("neither JSON nor a stream"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn c125_a_stream_without_framing_is_resumed_at_every_cut() {
    // Close-delimited, as from HTTP/1.0 or some proxies: a cut looks like an orderly end.
    let events = |request: &Request| {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/vendor/a"});
        vec![
            sse_event(Some("1"), &note),
            sse_event(Some("2"), &text(request, "hi")),
        ]
    };
    let call: Arc<Mutex<Option<Request>>> = Arc::default();
    let seen = Arc::clone(&call);
    let peer = HttpPeer::memory(
        LegacyServer::new()
            .on("tools/call", move |request| {
                *seen.lock().unwrap() = Some(request.clone());
                let whole = events(request).concat();
                let at = request.json()["params"]["arguments"]["text"].clone();
                let at: usize = at.as_str().unwrap().parse().unwrap();
                Some(
                    Reply::sse()
                        .unframed()
                        .body(&whole[..at.min(whole.len())])
                        .step(Step::CloseConnection),
                )
            })
            .on("GET", move |request| {
                let last: usize = request.header("last-event-id")?.parse().unwrap();
                let call = call.lock().unwrap().clone().unwrap();
                Some(Reply::sse().chunk(events(&call).split_off(last).concat()))
            })
            .handler(),
    );
    let client = connect(&peer).await;
    for at in 70..250 {
        assert_eq!(
            echo(&client, &at.to_string()).await,
            Ok("hi".to_owned()),
            "cut at {at}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn httpl_35_a_replayed_request_of_the_server_is_answered_once() {
    let call: Arc<Mutex<Option<Request>>> = Arc::default();
    let seen = Arc::clone(&call);
    let ping = || json!({"jsonrpc": "2.0", "id": "p-1", "method": "ping"});
    let peer = HttpPeer::memory(
        LegacyServer::new()
            .on("tools/call", move |request| {
                *seen.lock().unwrap() = Some(request.clone());
                Some(Reply::sse().chunk("id: 1\ndata:\n\n").event(None, &ping()))
            })
            .on("GET", move |request| {
                request.header("last-event-id")?;
                let call = call.lock().unwrap().clone().unwrap();
                let reply = Reply::sse().event(Some("2"), &ping());
                Some(reply.event(Some("3"), &text(&call, "hi")))
            })
            .handler(),
    );
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()));
    tokio::time::sleep(5 * SECOND).await;
    let requests = peer.requests();
    let pongs = requests
        .iter()
        .filter(|request| request.json()["id"] == "p-1");
    assert_eq!(pongs.count(), 1);
}

#[tokio::test]
async fn resuming_is_no_busy_loop_whatever_the_server_asks_for() {
    let number = AtomicUsize::new(0);
    let next = move || {
        let number = number.fetch_add(1, Ordering::Relaxed);
        Reply::sse().chunk(format!("id: {number}\nretry: 0\ndata:\n\n"))
    };
    let next = Arc::new(next);
    let again = Arc::clone(&next);
    let peer = HttpPeer::tcp(
        LegacyServer::new()
            .on("tools/call", move |_| Some(next()))
            .on("GET", move |request| {
                request.header("last-event-id").map(|_| again())
            })
            .handler(),
    )
    .await;
    let mut server = HttpServer::new(&peer.url("/mcp")).unwrap();
    server.server_stream = false;
    let client = connect_to(server, options()).await.unwrap();
    let (kind, _) = call_within(&client, 2 * SECOND).await.unwrap_err();
    assert_eq!(kind, ErrorKind::Timeout);
    let asked = count(&peer, "GET");
    assert!(asked <= 40, "{asked} in two seconds");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_again_is_given_time_also_with_a_short_delay() {
    // It asks to be resumed soon, and then is away for five seconds.
    let call: Arc<Mutex<Option<(Request, Instant)>>> = Arc::default();
    let seen = Arc::clone(&call);
    let peer = HttpPeer::memory(
        LegacyServer::new()
            .on("tools/call", move |request| {
                *seen.lock().unwrap() = Some((request.clone(), Instant::now()));
                Some(Reply::sse().chunk("id: 1\nretry: 10\ndata:\n\n"))
            })
            .on("GET", move |request| {
                request.header("last-event-id")?;
                let (call, at) = call.lock().unwrap().clone().unwrap();
                if at.elapsed() < 5 * SECOND {
                    return Some(Reply::status(502));
                }
                Some(Reply::sse().event(Some("2"), &text(&call, "hi")))
            })
            .handler(),
    );
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_a_batch_ends_its_stream() {
    let legacy = LegacyServer::new()
        .version("2025-03-26")
        .on("tools/call", |request| {
            let note = json!({"jsonrpc": "2.0", "method": "notifications/vendor/a"});
            let batch = json!([note, text(request, "hi")]);
            Some(Reply::sse().event(Some("1"), &batch).step(Step::Never))
        });
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()));
    peer.wait_aborted(1, 5 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn c117_a_good_stream_of_the_server_outlives_a_restart_behind_a_proxy() {
    // It is cut when the server restarts, and for a while the proxy in front of it says so.
    let begun = Arc::new(Mutex::new(None::<Instant>));
    let legacy = LegacyServer::new().on("GET", move |_| {
        let mut begun = begun.lock().unwrap();
        let since = begun.get_or_insert_with(Instant::now).elapsed();
        Some(if since < 120 * SECOND {
            Reply::sse().wait(120 * SECOND).step(Step::Reset)
        } else if since < 130 * SECOND {
            Reply::status(502)
        } else {
            Reply::sse().step(Step::Never)
        })
    });
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    assert!(echo(&client, "a").await.is_ok());
    tokio::time::sleep(300 * SECOND).await;
    let quirks = format!("{:?}", client.diagnostics().quirks);
    assert!(!quirks.contains("NoServerStream"), "{quirks}");
    assert!(count(&peer, "GET") >= 3);
}

#[tokio::test(start_paused = true)]
async fn c180_a_list_is_not_kept_for_good_when_its_changes_are_told_no_more() {
    // The stream works once, is cut, and is refused from then on.
    let streams = AtomicUsize::new(0);
    let legacy = LegacyServer::new().on("GET", move |_| {
        Some(match streams.fetch_add(1, Ordering::Relaxed) {
            0 => Reply::sse()
                .chunk("id: 1\ndata:\n\n")
                .wait(100 * SECOND)
                .step(Step::Reset),
            _ => Reply::status(405),
        })
    });
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    let mut notifications = client.notifications();
    client.tools().await.unwrap();
    let told = tokio::time::timeout(200 * SECOND, notifications.next()).await;
    assert!(told.is_ok(), "the host is told that changes may be missed");
    client.tools().await.unwrap();
    assert_eq!(count(&peer, "tools/list"), 2);
}

#[tokio::test(start_paused = true)]
async fn an_empty_event_id_is_nothing_to_resume_at() {
    // WHATWG: it takes the last one back.
    let peer = HttpPeer::memory(
        LegacyServer::new()
            .on("tools/call", |_| {
                Some(Reply::sse().chunk("id: 1\ndata:\n\nid:\ndata:\n\n"))
            })
            .handler(),
    );
    let mut server = server(&peer);
    server.server_stream = false;
    let client = connect_to(server, options()).await.unwrap();
    let error = echo(&client, "a").await.unwrap_err();
    assert!(error.contains("ended without an answer"), "{error}");
    assert_eq!(count(&peer, "GET"), 0);
}

#[tokio::test(start_paused = true)]
async fn subscriptions_come_and_go_without_a_trace() {
    use mcp_client::{ListenFilter, SubscriptionChange};
    let modern = ModernServer::new().on("subscriptions/listen", |_| Some(Reply::never()));
    let peer = HttpPeer::memory(modern.handler());
    let mut quiet = options();
    quiet.watch_lists = false;
    let client = connect_to(server(&peer), quiet.clone()).await.unwrap();
    let filter = ListenFilter::default().tools();
    for round in 0..5000 {
        let subscription = client.listen(&filter).unwrap();
        if round % 3 == 0 {
            tokio::task::yield_now().await;
        }
        if round % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(subscription);
    }
    assert_eq!(echo(&client, "a").await, Ok("a".to_owned()));
    tokio::time::sleep(SECOND).await;
    let open = peer.open_connections();
    assert!(open <= 40, "{open} connections");
    // No more than the limit at a time.
    let kept: Vec<_> = (0..64).map(|_| client.listen(&filter).unwrap()).collect();
    assert!(client.listen(&filter).is_err());
    assert_eq!(echo(&client, "a").await, Ok("a".to_owned()));
    drop(kept);
    client.close().await;
    peer.wait_closed(5 * SECOND).await;

    // Streams that end at once.
    let modern = ModernServer::new().on("subscriptions/listen", |request| {
        let tag = json!({"io.modelcontextprotocol/subscriptionId": request.rpc_id()});
        let open = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": tag, "notifications": {"toolsListChanged": true}}});
        let change = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
            "params": {"_meta": tag}});
        Some(Reply::sse().event(None, &open).event(None, &change))
    });
    let peer = HttpPeer::memory(modern.handler());
    let client = connect_to(server(&peer), quiet).await.unwrap();
    let mut subscription = client.listen(&filter).unwrap();
    for _ in 0..60 {
        assert_eq!(echo(&client, "a").await, Ok("a".to_owned()));
        tokio::time::sleep(SECOND).await;
    }
    let listens = count(&peer, "subscriptions/listen");
    assert!((2..=85).contains(&listens), "{listens} in a minute");
    assert!(matches!(
        subscription.next().await,
        Some(SubscriptionChange::Open { .. } | SubscriptionChange::Interrupted { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn a_slow_call_does_not_cost_the_servers_stream() {
    // Answered in JSON after six seconds, which has nothing to do with the stream.
    let push = Push::new();
    let stream = push.clone();
    let inner = LegacyServer::new();
    let peer = HttpPeer::memory(move |request: Request| {
        let (inner, stream) = (inner.clone(), stream.clone());
        Box::pin(async move {
            if request.method == "GET" {
                return stream.reply();
            }
            let reply = inner.reply(&request);
            if request.rpc_method().as_deref() == Some("tools/call") {
                tokio::time::sleep(6 * SECOND).await;
            }
            reply
        })
    });
    let client = connect(&peer).await;
    client.tools().await.unwrap();
    peer.wait_request("the stream", 5 * SECOND, |request| request.method == "GET")
        .await;
    assert!(echo(&client, "a").await.is_ok());
    tokio::time::sleep(600 * SECOND).await;
    let quirks = format!("{:?}", client.diagnostics().quirks);
    assert!(!quirks.contains("ServerStreamBlocks"), "{quirks}");
}
