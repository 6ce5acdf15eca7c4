//! Floods, waits and sizes: whatever never ends is bounded.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::http::HttpServer;
use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::{CallOptions, ErrorKind};
use mcp_testkit::http::raw::{SSE_HEAD, raw_discovery, raw_server};
use mcp_testkit::http::{
    HttpPeer, LegacyServer, ModernServer, Reply, Request, Step, Style, sse_event,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{SECOND, call_within};
use crate::http::{connect, connect_to, echo, options, server, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_comments_holds_up_neither_deadlines_nor_the_end() {
    let url = raw_server(|_, body, stream| {
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        if message["method"] == "server/discover" {
            return raw_discovery(stream, &message["id"]);
        }
        stream.write_all(SSE_HEAD)?;
        let comments = ":\n\n".repeat(100_000);
        loop {
            stream.write_all(comments.as_bytes())?;
        }
    });
    let client = connect_to(HttpServer::new(&url).unwrap(), options())
        .await
        .unwrap();
    let call = tokio::time::timeout(20 * SECOND, call_within(&client, SECOND)).await;
    let (kind, _) = call.expect("the call's limit holds").unwrap_err();
    assert_eq!(kind, ErrorKind::Timeout);
    let other = tokio::spawn({
        let client = client.clone();
        async move { call_within(&client, 600 * SECOND).await }
    });
    tokio::time::sleep(SECOND / 2).await;
    tokio::time::timeout(10 * SECOND, client.close())
        .await
        .expect("closing ends");
    assert!(other.await.unwrap().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_calls_total_limit_includes_the_wait_for_a_new_session() {
    let slow = Arc::new(AtomicBool::new(false));
    let is_slow = Arc::clone(&slow);
    let legacy = LegacyServer::new();
    let inner = legacy.clone();
    let peer = HttpPeer::memory(move |request: Request| {
        let (inner, is_slow) = (inner.clone(), Arc::clone(&is_slow));
        Box::pin(async move {
            let pause = match request.rpc_method().as_deref() {
                _ if !is_slow.load(Ordering::Relaxed) => 0,
                Some("initialize" | "tools/call") => 8,
                _ => 0,
            };
            let reply = inner.reply(&request);
            tokio::time::sleep(pause * SECOND).await;
            reply
        })
    });
    let client = connect(&peer).await;
    assert!(echo(&client, "a").await.is_ok());
    legacy.forget_sessions();
    let _ = client.ping(CallOptions::default()).await;
    slow.store(true, Ordering::Relaxed);
    legacy.forget_sessions();
    // Loses the session.
    let lost = tokio::spawn({
        let client = client.clone();
        async move { client.refresh_tools().await.map(drop) }
    });
    peer.wait_until("a third session", 5 * SECOND, |record| {
        let requests = record.requests.iter();
        requests
            .filter(|request| request.rpc_method().as_deref() == Some("initialize"))
            .count()
            == 3
    })
    .await;
    let begun = Instant::now();
    let outcome = call_within(&client, 10 * SECOND).await;
    assert!(
        begun.elapsed() <= 10 * SECOND,
        "{:?}: {outcome:?}",
        begun.elapsed()
    );
    assert_eq!(outcome.unwrap_err().0, ErrorKind::Timeout);
    lost.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_calls_total_limit_includes_the_look_at_the_list() {
    let inner = ModernServer::new();
    let tools = inner.clone();
    let slow = Arc::new(AtomicBool::new(false));
    let is_slow = Arc::clone(&slow);
    let peer = HttpPeer::memory(move |request: Request| {
        let inner = inner.clone();
        let pause = match request.rpc_method().as_deref() {
            _ if !is_slow.load(Ordering::Relaxed) => 0,
            Some("tools/list" | "tools/call") => 8,
            _ => 0,
        };
        Box::pin(async move {
            tokio::time::sleep(pause * SECOND).await;
            inner.reply(&request)
        })
    });
    let mut quiet = options();
    quiet.watch_lists = false;
    tools.set_tools(Vec::new());
    let client = connect_to(server(&peer), quiet).await.unwrap();
    assert_eq!(client.tools().await.unwrap().tools.len(), 0);
    tools.set_tools(vec![
        json!({"name": "echo", "inputSchema": {"type": "object"}}),
    ]);
    slow.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let outcome = call_within(&client, 10 * SECOND).await;
    assert!(
        begun.elapsed() <= 10 * SECOND,
        "{:?}: {outcome:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_pings_makes_no_flood_of_connections() {
    // The server asks and asks, and never takes an answer.
    let legacy = LegacyServer::new().on("tools/call", |_| {
        let mut reply = Reply::sse();
        for number in 0..5000 {
            let ping = json!({"jsonrpc": "2.0", "id": number, "method": "ping"});
            reply = reply.event(None, &ping);
        }
        Some(reply.step(Step::Never))
    });
    let peer = HttpPeer::memory(move |request: Request| {
        if request.method == "POST" && request.rpc_method().is_none() {
            return Reply::never();
        }
        legacy.reply(&request)
    });
    let client = connect(&peer).await;
    let _ = call_within(&client, 5 * SECOND).await;
    let open = peer.open_connections();
    assert!(open <= 300, "{open} connections");
    // What is ours to ask still works.
    assert!(client.ping(CallOptions::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_given_up_make_no_flood_of_connections() {
    // A server that is stuck, and a host that does not wait for it.
    let legacy = LegacyServer::new();
    let peer = HttpPeer::memory(
        move |request: Request| match request.rpc_method().as_deref() {
            Some("tools/call" | "notifications/cancelled") => Reply::never(),
            _ => legacy.reply(&request),
        },
    );
    let client = connect(&peer).await;
    for _ in 0..2000 {
        let _ = call_within(&client, Duration::from_millis(10)).await;
    }
    let open = peer.open_connections();
    assert!(open <= 300, "{open} connections");
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_host_may_set_every_limit_to_the_longest_time() {
    for style in [Style::Json, Style::Sse] {
        let legacy = LegacyServer::new().style(style);
        let peer = HttpPeer::memory(legacy.handler());
        let mut server = server(&peer);
        let limits = &mut server.limits;
        for limit in [
            &mut limits.error_timeout,
            &mut limits.notification_timeout,
            &mut limits.old_request_timeout,
            &mut limits.drain_timeout,
            &mut limits.longest_wait,
            &mut limits.longest_resume_wait,
            &mut limits.delete_timeout,
            &mut limits.endpoint_timeout,
            &mut limits.header_timeout,
        ] {
            *limit = Duration::MAX;
        }
        let mut options = options();
        options.call_deadline = Deadline::new(Some(Duration::MAX), Some(Duration::MAX));
        options.config.start_timeout = Duration::MAX;
        options.config.probe_timeout = Duration::MAX;
        options.config.listen_timeout = Duration::MAX;
        let client = connect_to(server, options).await.unwrap();
        assert_eq!(echo(&client, "a").await, Ok("a".to_owned()));
        tokio::time::sleep(5 * SECOND).await;
        client.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_came_of_an_errors_body_counts_although_it_never_ends() {
    let peer = HttpPeer::memory(
        ModernServer::new()
            .on("tools/call", |request| {
                let error = json!({"jsonrpc": "2.0", "id": request.rpc_id(),
                    "error": {"code": -32602, "message": "no such thing"}});
                let reply = Reply::status(400).header("Content-Type", "application/json");
                Some(reply.chunk(error.to_string()).step(Step::Never))
            })
            .handler(),
    );
    let client = connect(&peer).await;
    let error = echo(&client, "a").await.unwrap_err();
    assert!(error.contains("no such thing"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_never_answers_holds_up_neither_limits_nor_the_end() {
    use mcp_client::http::HeaderProvider;
    let stuck = Arc::new(AtomicBool::new(false));
    let is_stuck = Arc::clone(&stuck);
    let provider = HeaderProvider::new(move |_| {
        let is_stuck = is_stuck.load(Ordering::Relaxed);
        async move {
            if is_stuck {
                std::future::pending::<()>().await;
            }
            Ok(Vec::new())
        }
    });
    let peer = HttpPeer::memory(LegacyServer::new().handler());
    let server = server(&peer).header_provider(provider);
    let client = connect_to(server.clone(), options()).await.unwrap();
    stuck.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let (kind, _) = call_within(&client, 5 * SECOND).await.unwrap_err();
    assert_eq!((kind, begun.elapsed()), (ErrorKind::Timeout, 5 * SECOND));
    let begun = Instant::now();
    client.close().await;
    assert!(begun.elapsed() <= 3 * SECOND, "{:?}", begun.elapsed());
    // In the middle of connecting.
    let begun = Instant::now();
    assert!(connect_to(server, options()).await.is_err());
    assert!(begun.elapsed() <= 70 * SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_calls_total_limit_holds_in_every_wait() {
    type Make = fn(&Request) -> Reply;
    let waits: &[(&str, Make)] = &[
        ("429", |_| Reply::status(429).header("Retry-After", "7")),
        ("429 without a time", |_| Reply::status(429)),
        ("a drip of space", |_| {
            let mut reply = Reply::status(200).header("Content-Type", "application/json");
            for _ in 0..100 {
                reply = reply.chunk(" ").wait(SECOND);
            }
            reply
        }),
        ("comments", |_| {
            let mut reply = Reply::sse();
            for _ in 0..100 {
                reply = reply.chunk(":\n\n").wait(SECOND);
            }
            reply
        }),
        ("a slow error", |_| {
            let mut reply = Reply::status(500);
            for _ in 0..100 {
                reply = reply.chunk("x").wait(SECOND);
            }
            reply
        }),
        ("resumption", |_| {
            Reply::sse().chunk(
                "id: 1\nretry: 99999999999999999999\ndata:\n\nid: 2\nretry: 99999999\ndata:\n\n",
            )
        }),
        ("a head byte by byte", |_| {
            let raw = format!("HTTP/1.1 200 OK\r\nX-A: {}", "a".repeat(1000));
            let mut reply = Reply::nothing();
            for byte in raw.bytes() {
                reply = reply
                    .step(Step::Bytes(vec![byte]))
                    .step(Step::Wait(SECOND / 2));
            }
            reply
        }),
        ("hints without end", |_| {
            let mut reply = Reply::nothing();
            for _ in 0..1000 {
                reply = reply
                    .step(Step::Bytes(b"HTTP/1.1 103 Early Hints\r\n\r\n".to_vec()))
                    .step(Step::Wait(SECOND / 2));
            }
            reply
        }),
    ];
    for (name, make) in waits {
        for legacy in [false, true] {
            let on = move |request: &Request| Some(make(request));
            let peer = if legacy {
                HttpPeer::memory(LegacyServer::new().on("tools/call", on).handler())
            } else {
                HttpPeer::memory(ModernServer::new().on("tools/call", on).handler())
            };
            let client = connect(&peer).await;
            let begun = Instant::now();
            let outcome = call_within(&client, 10 * SECOND).await;
            let took = begun.elapsed();
            assert!(outcome.is_err(), "{name}: {outcome:?}");
            assert!(took <= 10 * SECOND, "{name}: {took:?}");
            client.close().await;
            peer.wait_closed(5 * SECOND).await;
        }
    }
}

#[tokio::test]
async fn ten_thousand_notifications_that_nobody_reads_are_bounded() {
    let legacy = LegacyServer::new().on("tools/call", |request| {
        let note = json!({"jsonrpc": "2.0", "method": "notifications/vendor/x",
            "params": {"x": "y".repeat(10_000)}});
        let events = sse_event(None, &note).repeat(100);
        let mut reply = Reply::sse();
        for _ in 0..100 {
            reply = reply.chunk(events.clone());
        }
        Some(reply.event(None, &text(request, "hi")))
    });
    let peer = HttpPeer::tcp(legacy.handler()).await;
    let client = connect_to(HttpServer::new(&peer.url("/mcp")).unwrap(), options())
        .await
        .unwrap();
    let mut unread: Vec<_> = (0..4).map(|_| client.notifications()).collect();
    assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()));
    for notifications in &mut unread {
        let first = notifications.next().await.unwrap();
        assert!(matches!(first, mcp_client::Notice::Lagged(lost) if lost > 9_000));
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_panics_ends_calls_and_connecting() {
    use mcp_client::http::HeaderProvider;
    let asked = Arc::new(AtomicUsize::new(0));
    for at in [0, 1, 2, 3] {
        asked.store(0, Ordering::Relaxed);
        let asked = Arc::clone(&asked);
        let provider = HeaderProvider::new(move |_| {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            async move {
                assert!(number < at, "a provider that panics");
                Ok(Vec::new())
            }
        });
        let peer = HttpPeer::memory(LegacyServer::new().handler());
        let server = server(&peer).header_provider(provider);
        if let Ok(client) = connect_to(server, options()).await {
            let _ = echo(&client, "a").await;
            assert!(echo(&client, "b").await.is_err());
            tokio::time::timeout(10 * SECOND, client.close())
                .await
                .expect("closing ends");
        }
        peer.wait_closed(5 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn schemas_and_answers_of_any_depth_are_survived() {
    let deep = |levels: usize| {
        let open = "{\"properties\":{\"a\":".repeat(levels);
        let close = "}}".repeat(levels);
        format!("{open}{{\"type\":\"string\",\"x-mcp-header\":\"A\"}}{close}")
    };
    let raw = move |request: &Request, result: &str| {
        let id = request.rpc_id();
        let body = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
        let reply = Reply::status(200).header("Content-Type", "application/json");
        Some(reply.body(body))
    };
    for levels in [10, 100, 100_000] {
        let peer = HttpPeer::memory(
            ModernServer::new()
                .on("tools/list", move |request| {
                    let schema = deep(levels);
                    let tools = format!(
                        "{{\"resultType\":\"complete\",\"ttlMs\":0,\"cacheScope\":\"private\",\"tools\":[{{\"name\":\"echo\",\"inputSchema\":{schema}}}]}}"
                    );
                    raw(request, &tools)
                })
                .on("tools/call", move |request| {
                    let nested = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
                    let result = format!(
                        "{{\"resultType\":\"complete\",\"content\":[{{\"type\":\"text\",\"text\":\"hi\"}}],\"structuredContent\":{{\"x\":{nested}}},\"_meta\":{{\"y\":{nested}}}}}"
                    );
                    raw(request, &result)
                })
                .handler(),
        );
        let client = connect(&peer).await;
        let _ = client.tools().await;
        let _ = echo(&client, "a").await;
        assert!(!client.is_closed());
        assert_ne!(echo(&client, "a").await, Err("hangs".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_never_ends_is_bounded_in_time_and_memory() {
    // A start, and what is repeated for ever.
    let floods: &[(&str, &str, &str)] = &[
        ("headers", "HTTP/1.1 200 OK\r\n", "X-A: b\r\n"),
        ("one header", "HTTP/1.1 200 OK\r\nX-A: ", "aaaaaaaaaaaaaaaa"),
        (
            "a chunk's extension",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
            "a",
        ),
        (
            "trailers",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
            "X-A: b\r\n",
        ),
        (
            "JSON",
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[",
            "1,",
        ),
        (
            "a page",
            "HTTP/1.1 500 No\r\nContent-Type: text/html\r\n\r\n",
            "<p>",
        ),
        (
            "an event",
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: ",
            "x",
        ),
        (
            "an id",
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: ",
            "x",
        ),
        (
            "ids",
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
            "id: 1\ndata:\n\n",
        ),
        ("a 202", "HTTP/1.1 202 OK\r\n\r\n", " "),
        (
            "a redirect",
            "HTTP/1.1 307 Go\r\nLocation: /mcp\r\n\r\n",
            "x",
        ),
    ];
    let number = Arc::new(AtomicUsize::new(0));
    let current = Arc::clone(&number);
    let url = raw_server(move |_, body, stream| {
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        if message["method"] == "server/discover" {
            return raw_discovery(stream, &message["id"]);
        }
        let (_, start, part) = floods[current.load(Ordering::Relaxed)];
        stream.write_all(start.as_bytes())?;
        let part = part.repeat(10_000);
        loop {
            stream.write_all(part.as_bytes())?;
        }
    });
    let client = connect_to(HttpServer::new(&url).unwrap(), options())
        .await
        .unwrap();
    let before = resident_bytes();
    for (index, (name, ..)) in floods.iter().enumerate() {
        number.store(index, Ordering::Relaxed);
        let call = call_within(&client, SECOND);
        let outcome = tokio::time::timeout(20 * SECOND, call).await;
        let outcome = outcome.unwrap_or_else(|_| panic!("{name}: the call's limit holds"));
        assert!(outcome.is_err(), "{name}");
        let grown = resident_bytes().saturating_sub(before) / 1024 / 1024;
        assert!(grown < 300, "{name}: {grown} MiB");
    }
    tokio::time::timeout(10 * SECOND, client.close())
        .await
        .expect("closing ends");
}

/// What this process holds, by the system's word.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    resident.unwrap_or(0_u64) * 4096
}
