//! Servers that are hostile or sloppy: what must hold whatever they do.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::http::HttpServer;
use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::{CallOptions, ErrorKind};
use mcp_testkit::http::raw::{SSE_HEAD, raw_discovery, raw_server};
use mcp_testkit::http::{
    Gate, HttpPeer, LegacyServer, ModernServer, Push, Reply, Request, Step, Style, sse_event,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{chain, connect, connect_to, echo, methods, options, server, text};

const SECOND: Duration = Duration::from_secs(1);

/// A call with limits of its own, and what came of it.
async fn call_within(
    client: &mcp_client::Client,
    total: Duration,
) -> Result<String, (ErrorKind, String)> {
    let limits = CallOptions::default().with_deadline(Deadline::total(total));
    let arguments = json!({"text": "a"});
    match client.call_tool_with("echo", &arguments, limits).await {
        Ok(result) => Ok(result.text()),
        Err(error) => Err((error.kind(), chain(&error))),
    }
}

fn count(peer: &HttpPeer, method: &str) -> usize {
    let methods = methods(peer);
    methods.iter().filter(|known| *known == method).count()
}

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
async fn c100_a_late_refusal_in_a_lost_session_does_not_cost_the_new_one() {
    // The answer to a ping is still under way when the session is lost and another one opened.
    let (push, gate) = (Push::new(), Gate::new());
    let (reply, late) = (push.clone(), gate.clone());
    let legacy = LegacyServer::new();
    let inner = legacy.clone().on("GET", move |_| Some(reply.reply()));
    let peer = HttpPeer::memory(move |request: Request| {
        let (inner, late) = (inner.clone(), late.clone());
        Box::pin(async move {
            if request.method == "POST" && request.rpc_method().is_none() {
                late.wait().await;
            }
            inner.reply(&request)
        })
    });
    let client = connect(&peer).await;
    assert!(echo(&client, "a").await.is_ok());
    peer.wait_request("the stream", 5 * SECOND, |request| request.method == "GET")
        .await;
    push.event(
        None,
        &json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}),
    );
    gate.reached(1).await;
    legacy.forget_sessions();
    assert!(client.refresh_tools().await.is_ok());
    assert_eq!(count(&peer, "initialize"), 2);
    gate.open();
    tokio::time::sleep(5 * SECOND).await;
    assert!(echo(&client, "b").await.is_ok());
    assert_eq!(count(&peer, "initialize"), 2, "{:?}", methods(&peer));
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
async fn an_old_server_may_take_a_call_as_long_as_the_call_may_take() {
    // Some answer the POST only when they are done with the message (Spring's WebMVC transport blocks until then).
    let push = Push::new();
    let stream = push.clone();
    let peer = HttpPeer::memory(move |request: Request| {
        let stream = stream.clone();
        Box::pin(async move {
            if request.method == "GET" {
                let reply = stream.reply();
                stream.step(Step::Chunk(
                    b"event: endpoint\ndata: /messages\n\n".to_vec(),
                ));
                return reply;
            }
            if request.path() != "/messages" {
                return Reply::status(405);
            }
            let result = match request.rpc_method().as_deref() {
                Some("initialize") => json!({"protocolVersion": "2024-11-05",
                    "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}}),
                Some("tools/call") => {
                    tokio::time::sleep(40 * SECOND).await;
                    json!({"content": [{"type": "text", "text": "slow"}]})
                }
                _ => return Reply::status(202),
            };
            stream.event(None, &super::result(&request, &result));
            Reply::status(200)
        })
    });
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("slow".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn nothing_shows_the_query_of_a_url() {
    use mcp_client::http::{EraMemory, HttpConnector, connect_with};
    use mcp_client::transport::Connector as _;
    let peer = HttpPeer::memory(ModernServer::new().handler());
    let mut secret = HttpServer::new("http://peer.test/mcp?key=s3cret-key").unwrap();
    secret.connect = server(&peer).connect;
    let memory = EraMemory::new();
    let connector = HttpConnector::new(secret.clone()).with_memory(Some(memory.clone()));
    let client = connect_with(connector, options()).await.unwrap();
    let mut connector = HttpConnector::new(secret).with_memory(Some(memory.clone()));
    let channel = connector.open().await.unwrap();
    for shown in [
        format!("{client:?}"),
        format!("{:?}", client.channel_facts()),
        format!("{memory:?}"),
        format!("{connector:?}"),
        format!("{:?}", channel.control),
        format!("{:?}", channel.source),
        format!("{:?}", channel.sink),
    ] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_repeats_of_our_secrets_is_not_shown() {
    use mcp_client::http::HeaderProvider;
    // An error page that quotes the request's headers, as debug pages do.
    let peer = HttpPeer::memory(
        LegacyServer::new()
            .on("tools/call", |request| {
                let value = |name| request.header(name).unwrap_or_default().to_owned();
                let parts = [
                    value("authorization"),
                    value("x-key"),
                    value("mcp-session-id"),
                ];
                Some(Reply::status(403).body(format!("refused: {}", parts.join(", "))))
            })
            .handler(),
    );
    let provider = HeaderProvider::new(|_| async {
        Ok(vec![(
            "Authorization".to_owned(),
            "Bearer s3cret-token".to_owned(),
        )])
    });
    let server = server(&peer)
        .header("X-Key", "s3cret-key")
        .unwrap()
        .header_provider(provider);
    let client = connect_to(server, options()).await.unwrap();
    let error = client.call_tool("echo", &json!({})).await.unwrap_err();
    let shown = format!("{} {error:?} {:?}", chain(&error), client.diagnostics());
    assert!(shown.contains("refused"), "{shown}");
    for secret in ["s3cret-key", "s3cret-token", "session-1"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_packed_answer_may_have_several_members() {
    use flate2::{Compression, write::GzEncoder};
    let pack = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let peer = HttpPeer::memory(
        ModernServer::new()
            .on("tools/call", move |request| {
                let body = text(request, "hi").to_string().into_bytes();
                let (a, b) = body.split_at(20);
                let reply = Reply::status(200)
                    .header("Content-Type", "application/json")
                    .header("Content-Encoding", "gzip");
                let mut packed = [pack(a), pack(b)].concat();
                if request.json()["params"]["arguments"]["text"] == "cut" {
                    packed.truncate(packed.len() - 5);
                }
                Some(reply.body(packed))
            })
            .handler(),
    );
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()));
    let error = echo(&client, "cut").await.unwrap_err();
    assert!(error.contains("gzip data is broken"), "{error}");
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

#[tokio::test]
async fn an_answer_before_the_request_was_read_is_heard() {
    // A refusal of a large body, and the end of the connection, before any of the body was read.
    let peer = HttpPeer::builder(ModernServer::new().handler())
        .on_head(|request| {
            let length = request.header("content-length")?.parse::<usize>().ok()?;
            (length > 100_000).then(|| Reply::status(413).closing().body("too large"))
        })
        .tcp()
        .await;
    let client = connect_to(HttpServer::new(&peer.url("/mcp")).unwrap(), options())
        .await
        .unwrap();
    for _ in 0..20 {
        let error = echo(&client, &"x".repeat(8 * 1024 * 1024))
            .await
            .unwrap_err();
        assert!(error.contains("HTTP 413"), "{error}");
    }
    assert_eq!(echo(&client, "a").await, Ok("a".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn c239_an_attempt_to_connect_that_is_dropped_leaves_nothing_open() {
    type Stage = fn() -> HttpPeer;
    fn stuck(method: &'static str) -> HttpPeer {
        HttpPeer::memory(
            LegacyServer::new()
                .on(method, |_| Some(Reply::never()))
                .handler(),
        )
    }
    let stages: &[Stage] = &[
        || stuck("server/discover"),
        || stuck("initialize"),
        || {
            HttpPeer::memory(|request: Request| match request.method.as_str() {
                "GET" => Reply::sse().step(Step::Never),
                _ => Reply::status(405),
            })
        },
        || {
            let refuse = |_: &Request| Some(Reply::status(429).header("Retry-After", "30"));
            HttpPeer::memory(LegacyServer::new().on("initialize", refuse).handler())
        },
        || {
            let primer = |_: &Request| Some(Reply::sse().chunk("id: 1\nretry: 20000\ndata:\n\n"));
            HttpPeer::memory(LegacyServer::new().on("initialize", primer).handler())
        },
    ];
    for (number, stage) in stages.iter().enumerate() {
        let peer = stage();
        let attempt = connect_to(server(&peer), options());
        let given_up = tokio::time::timeout(2 * SECOND, attempt).await;
        assert!(
            given_up.is_err(),
            "stage {number}: {:?}",
            given_up.map(drop)
        );
        peer.wait_closed(5 * SECOND).await;
        let before = peer.requests().len();
        tokio::time::sleep(600 * SECOND).await;
        assert_eq!(peer.requests().len(), before, "stage {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_frees_its_exchange_at_every_stage() {
    type Make = fn(&Request) -> Reply;
    let stages: &[Make] = &[
        |_| Reply::never(),
        |_| Reply::sse().step(Step::Never),
        |_| Reply::status(200).step(Step::Never),
        |_| {
            Reply::status(200)
                .header("Content-Type", "application/json")
                .chunk("{")
                .step(Step::Never)
        },
        |_| Reply::status(500).chunk("oops").step(Step::Never),
        |_| Reply::status(429).header("Retry-After", "59"),
        |_| Reply::sse().chunk("id: 1\nretry: 59000\ndata:\n\n"),
    ];
    for legacy in [false, true] {
        for (number, make) in stages.iter().enumerate() {
            let peer = if legacy {
                HttpPeer::memory(
                    LegacyServer::new()
                        .on("tools/call", move |request| Some(make(request)))
                        .handler(),
                )
            } else {
                HttpPeer::memory(
                    ModernServer::new()
                        .on("tools/call", move |request| Some(make(request)))
                        .handler(),
                )
            };
            let client = connect(&peer).await;
            tokio::time::sleep(5 * SECOND).await;
            let begun = count(&peer, "tools/call");
            let call = echo(&client, "a");
            let _ = tokio::time::timeout(2 * SECOND, call).await;
            assert_eq!(count(&peer, "tools/call"), begun + 1);
            assert_eq!(client.in_flight(), 0);
            tokio::time::sleep(SECOND).await;
            let record = peer.record();
            let pending = record.with(mcp_testkit::http::Outcome::Pending);
            assert_eq!(pending.count(), 0, "stage {number}: {record}");
            tokio::time::sleep(120 * SECOND).await;
            assert_eq!(count(&peer, "tools/call"), begun + 1, "stage {number}");
            client.close().await;
            drop(client);
            peer.wait_closed(5 * SECOND).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn closing_ends_soon_whatever_is_under_way() {
    let peer = HttpPeer::memory(|request: Request| {
        let inner = LegacyServer::new();
        match (request.method.as_str(), request.rpc_method().as_deref()) {
            (_, Some("server/discover")) => Reply::status(400),
            (_, Some("initialize")) => inner.reply(&request),
            (_, Some("tools/call")) => Reply::sse().chunk("id: 1\nretry: 0\ndata:\n\n"),
            ("GET", _) => Reply::never(),
            ("DELETE", _) => Reply::status(429).header("Retry-After", "1"),
            _ => Reply::never(),
        }
    });
    let client = connect(&peer).await;
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { echo(&client, "a").await })
        })
        .collect();
    tokio::time::sleep(31 * SECOND).await;
    let begun = Instant::now();
    client.close().await;
    assert!(begun.elapsed() <= 3 * SECOND, "{:?}", begun.elapsed());
    for call in calls {
        assert!(call.await.unwrap().is_err());
    }
    peer.wait_closed(5 * SECOND).await;
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
async fn an_accepted_handshake_whose_body_never_ends_holds_up_little() {
    let legacy = LegacyServer::new().on("notifications/initialized", |_| {
        Some(Reply::sse().step(Step::Never))
    });
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    let begun = Instant::now();
    assert!(echo(&client, "a").await.is_ok());
    assert!(begun.elapsed() <= SECOND, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_an_old_server_does_not_take_holds_up_no_call() {
    let push = Push::new();
    let stream = push.clone();
    let peer = HttpPeer::memory(move |request: Request| {
        if request.method == "GET" {
            let reply = stream.reply();
            stream.step(Step::Chunk(
                b"event: endpoint\ndata: /messages\n\n".to_vec(),
            ));
            return reply;
        }
        if request.path() != "/messages" {
            return Reply::status(405);
        }
        let result = match request.rpc_method().as_deref() {
            Some("initialize") => json!({"protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}}),
            Some("tools/call") if request.json()["params"]["arguments"]["text"] == "b" => {
                json!({"content": [{"type": "text", "text": "b"}]})
            }
            Some("notifications/cancelled") => return Reply::never(),
            _ => return Reply::status(202),
        };
        stream.event(None, &super::result(&request, &result));
        Reply::status(202)
    });
    let client = connect(&peer).await;
    assert!(call_within(&client, SECOND).await.is_err());
    let begun = Instant::now();
    assert_eq!(echo(&client, "b").await, Ok("b".to_owned()));
    assert!(begun.elapsed() <= SECOND, "{:?}", begun.elapsed());
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
async fn a_refused_token_is_no_lost_session_whatever_its_page_says() {
    let legacy = LegacyServer::new().on("tools/call", |_| {
        Some(
            Reply::status(401)
                .header("WWW-Authenticate", "Bearer error=\"invalid_token\"")
                .body("{\"error\":\"invalid_token\",\"error_description\":\"session expired\"}"),
        )
    });
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    for _ in 0..5 {
        let error = client.call_tool("echo", &json!({})).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthorized, "{}", chain(&error));
    }
    assert_eq!(count(&peer, "initialize"), 1);
}

#[tokio::test(start_paused = true)]
async fn c100_many_calls_and_a_stream_lose_one_session_once() {
    let (push, gate) = (Push::new(), Gate::new());
    let (reply, held) = (push.clone(), gate.clone());
    let legacy = LegacyServer::new();
    let inner = legacy.clone().on("GET", move |_| Some(reply.reply()));
    let peer = HttpPeer::memory(move |request: Request| {
        let (inner, held) = (inner.clone(), held.clone());
        Box::pin(async move {
            if request.rpc_method().as_deref() == Some("tools/call") {
                held.wait().await;
            }
            inner.reply(&request)
        })
    });
    let client = connect(&peer).await;
    let calls: Vec<_> = (0..64)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool("echo", &json!({"text": "a"})).await })
        })
        .collect();
    gate.reached(64).await;
    peer.wait_request("the stream", 5 * SECOND, |request| request.method == "GET")
        .await;
    legacy.forget_sessions();
    for number in 0..100 {
        push.event(
            Some(&number.to_string()),
            &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
        );
    }
    gate.open();
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{}", chain(&error));
    }
    assert_eq!(echo(&client, "b").await, Ok("b".to_owned()));
    assert_eq!(count(&peer, "initialize"), 2);
    assert_eq!(count(&peer, "tools/call"), 65);
    assert_eq!(client.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_can_not_be_opened_anew_says_why() {
    let started = AtomicUsize::new(0);
    let legacy = LegacyServer::new();
    let inner = legacy.clone().on("initialize", move |_| {
        (started.fetch_add(1, Ordering::Relaxed) > 0).then(|| Reply::status(404).body("gone"))
    });
    let peer = HttpPeer::memory(inner.handler());
    let client = connect(&peer).await;
    legacy.forget_sessions();
    let _ = echo(&client, "a").await;
    let error = echo(&client, "b").await.unwrap_err();
    assert!(error.contains("404"), "{error}");
    client.closed().await;
    peer.wait_closed(5 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn sessions_that_are_refused_at_once_end_the_connection_soon() {
    let legacy = LegacyServer::new().on("notifications/initialized", |_| Some(Reply::status(404)));
    let peer = HttpPeer::memory(legacy.handler());
    let error = match connect_to(server(&peer), options()).await {
        // It was ready for a moment.
        Ok(client) => {
            client.closed().await;
            echo(&client, "a").await.unwrap_err()
        }
        Err(error) => chain(&error),
    };
    assert!(count(&peer, "initialize") <= 5, "{error}");
    assert!(error.contains("sessions in a row"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_error_that_answers_the_request_is_no_lost_session() {
    // Some say it with status 400; that the words match is chance.
    let legacy = LegacyServer::new().on("tools/call", |request| {
        let error = json!({"jsonrpc": "2.0", "id": request.rpc_id(),
            "error": {"code": -32602, "message": "Invalid params: unknown session_type"}});
        Some(Reply::json(400, &error))
    });
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    for _ in 0..5 {
        let error = client.call_tool("echo", &json!({})).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rpc, "{}", chain(&error));
    }
    assert_eq!(count(&peer, "initialize"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_on_the_old_stream_starves_no_post() {
    let flooding = Arc::new(AtomicBool::new(false));
    let is_flooding = Arc::clone(&flooding);
    let answers: Arc<Mutex<Vec<Value>>> = Arc::default();
    let url = raw_server(move |head, body, stream| {
        if head.starts_with("GET") {
            stream.write_all(SSE_HEAD)?;
            stream.write_all(b"event: endpoint\ndata: /messages\n\n")?;
            let note = json!({"jsonrpc": "2.0", "method": "notifications/vendor/x"});
            let flood = sse_event(None, &note).repeat(2000);
            loop {
                for answer in answers.lock().unwrap().drain(..) {
                    stream.write_all(&sse_event(None, &answer))?;
                }
                if is_flooding.load(Ordering::Relaxed) {
                    stream.write_all(&flood)?;
                } else {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        let message: Value = serde_json::from_str(body).unwrap_or_default();
        if !head.starts_with("POST /messages") {
            return stream.write_all(b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n");
        }
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"protocolVersion": "2024-11-05",
                "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}}),
            _ => json!({"content": [{"type": "text", "text": "a"}]}),
        };
        if let Some(id) = message.get("id") {
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": result});
            answers.lock().unwrap().push(answer);
        }
        stream.write_all(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
    });
    let client = connect_to(HttpServer::new(&url).unwrap(), options())
        .await
        .unwrap();
    assert_eq!(echo(&client, "a").await, Ok("a".to_owned()));
    flooding.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        let call = tokio::time::timeout(30 * SECOND, call_within(&client, 20 * SECOND)).await;
        assert_eq!(call.expect("the call's limit holds"), Ok("a".to_owned()));
    }
    tokio::time::timeout(10 * SECOND, client.close())
        .await
        .expect("closing ends");
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

/// Writes all that is logged into one text.
struct Logs(Arc<Mutex<String>>);

impl tracing::Subscriber for Logs {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut Line(&mut self.0.lock().unwrap()));
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut Line(&mut self.0.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = self.0.lock().unwrap();
        text.push_str(&format!("\n{}:", event.metadata().target()));
        event.record(&mut Line(&mut text));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

struct Line<'a>(&'a mut String);

impl tracing::field::Visit for Line<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_secret_is_logged() {
    use mcp_client::http::HeaderProvider;
    let text = Arc::default();
    let _logs = tracing::subscriber::set_default(Logs(Arc::clone(&text)));
    let shown = |request: &Request| {
        let head = format!("{} {:?}", request.target, request.headers);
        Some(Reply::status(429).header("Retry-After", "1").body(head))
    };
    let legacy = LegacyServer::new()
        .on("resources/list", shown)
        .on("GET", |_| Some(Reply::sse().chunk("id: 1\ndata: x\n\n")));
    let peer = HttpPeer::memory(legacy.clone().handler());
    let mut server = HttpServer::new("http://peer.test/mcp?key=s3cret-query")
        .unwrap()
        .header("X-Key", "s3cret-key")
        .unwrap()
        .header_provider(HeaderProvider::new(|_| async {
            let value = "Bearer s3cret-token".to_owned();
            Ok(vec![("Authorization".to_owned(), value)])
        }));
    server.connect = super::server(&peer).connect;
    let client = connect_to(server, options()).await.unwrap();
    assert!(echo(&client, "a").await.is_ok());
    let error = client
        .request_raw("resources/list", None, CallOptions::default())
        .await
        .unwrap_err();
    legacy.forget_sessions();
    let _ = echo(&client, "a").await;
    assert!(echo(&client, "a").await.is_ok());
    tokio::time::sleep(60 * SECOND).await;
    peer.drop_connections().await;
    let _ = echo(&client, "a").await;
    let facts = format!("{:?} {:?}", client.channel_facts(), client.diagnostics());
    let report = client.close().await;
    let text: &Mutex<String> = &text;
    let text = text.lock().unwrap();
    assert!(text.contains("mcp_transport_http"), "{text}");
    let all = format!("{text} {} {error:?} {facts} {report:?}", chain(&error));
    for secret in ["s3cret", "session-1", "session-2"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}

#[tokio::test(start_paused = true)]
async fn odd_but_valid_http_is_understood() {
    type Make = fn(&str) -> String;
    let forms: &[(&str, Make)] = &[
        ("early hints", |body| {
            format!(
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: \
                 application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        }),
        ("HTTP/1.0", |body| {
            format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{body}")
        }),
        ("chunk extensions and trailers", |body| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n{:x};a=\"b\"\r\n\
                 {body}\r\n0;c\r\nX-Sum: 1\r\n\r\n",
                body.len()
            )
        }),
        ("two content types", |body| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        }),
        ("a folded list of types", |body| {
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json, application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        }),
        ("a session id that is none of this answer's", |body| {
            format!(
                "HTTP/1.1 200 OK\r\nMcp-Session-Id: other\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        }),
        ("SSE over HTTP/1.0", |body| {
            format!("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {body}\n\n")
        }),
        ("no reason, odd spaces", |body| {
            format!(
                "HTTP/1.1 200\r\ncontent-type:application/json \r\nCONTENT-LENGTH:  {}\r\n\r\n{body}",
                body.len()
            )
        }),
    ];
    for (name, form) in forms {
        for legacy in [false, true] {
            let make = move |request: &Request| {
                let raw = form(&text(request, "hi").to_string());
                let reply = Reply::raw(raw.clone());
                Some(if raw.contains("HTTP/1.0") {
                    reply.step(Step::CloseConnection)
                } else {
                    reply
                })
            };
            let peer = if legacy {
                HttpPeer::memory(LegacyServer::new().on("tools/call", make).handler())
            } else {
                HttpPeer::memory(ModernServer::new().on("tools/call", make).handler())
            };
            let client = connect(&peer).await;
            for _ in 0..3 {
                assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()), "{name}");
            }
            let sessions: Vec<_> = peer
                .requests()
                .iter()
                .filter_map(|request| request.header("mcp-session-id").map(str::to_owned))
                .collect();
            assert!(sessions.iter().all(|session| session == "session-1"));
        }
    }
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

#[tokio::test(start_paused = true)]
async fn c072_answers_find_their_calls_whatever_stream_they_come_on() {
    // Each of two calls is answered on the other's stream, twice, in either era.
    for legacy in [false, true] {
        let first: Arc<Mutex<Option<Request>>> = Arc::default();
        let gate = Gate::new();
        let handler = move |request: &Request| {
            let mut first = first.lock().unwrap();
            Some(match first.take() {
                None => {
                    *first = Some(request.clone());
                    Reply::sse()
                        .step(Step::Until(gate.clone()))
                        .step(Step::Never)
                }
                Some(other) => {
                    let answer = |request: &Request| {
                        let own = request.json()["params"]["arguments"]["text"].clone();
                        text(request, own.as_str().unwrap())
                    };
                    Reply::sse()
                        .event(None, &answer(&other))
                        .event(None, &answer(&other))
                        .event(None, &answer(request))
                        .event(None, &answer(request))
                }
            })
        };
        let peer = if legacy {
            HttpPeer::memory(LegacyServer::new().on("tools/call", handler).handler())
        } else {
            HttpPeer::memory(ModernServer::new().on("tools/call", handler).handler())
        };
        let client = connect(&peer).await;
        let (a, b) = tokio::join!(echo(&client, "a"), echo(&client, "b"));
        assert_eq!((a, b), (Ok("a".to_owned()), Ok("b".to_owned())));
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(client.diagnostics().stray_answers, 2);
        assert_eq!(client.in_flight(), 0);
        let record = peer.record();
        let pending = record.with(mcp_testkit::http::Outcome::Pending).count();
        assert_eq!(pending, 0, "{record}");
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
async fn a_session_opened_over_a_stream_that_is_cut_is_resumed() {
    let first: Arc<Mutex<Option<Request>>> = Arc::default();
    let seen = Arc::clone(&first);
    let peer = HttpPeer::memory(
        LegacyServer::new()
            .without_sessions()
            .on("initialize", move |request| {
                *seen.lock().unwrap() = Some(request.clone());
                Some(
                    Reply::sse()
                        .header("Mcp-Session-Id", "primed")
                        .chunk("id: ü-1\nretry: 50\ndata:\n\n")
                        .step(Step::Reset),
                )
            })
            .on("GET", move |request| {
                request.header("last-event-id")?;
                assert_eq!(request.header("mcp-session-id"), Some("primed"));
                let request = first.lock().unwrap().clone().unwrap();
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "x", "version": "1"}});
                Some(Reply::sse().event(None, &super::result(&request, &result)))
            })
            .on("DELETE", |_| Some(Reply::status(200)))
            .handler(),
    );
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("a".to_owned()));
    assert_eq!(client.close().await.summary, "the session was deleted");
    assert_eq!(count(&peer, "initialize"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_dropped_leaves_nothing_open() {
    for era in 0..3 {
        let never = |_: &Request| Some(Reply::sse().step(Step::Never));
        let peer = match era {
            0 => HttpPeer::memory(
                ModernServer::new()
                    .on("subscriptions/listen", never)
                    .on("tools/call", never)
                    .handler(),
            ),
            1 => HttpPeer::memory(
                LegacyServer::new()
                    .on("GET", never)
                    .on("tools/call", never)
                    .handler(),
            ),
            _ => HttpPeer::memory(
                LegacyServer::new()
                    .on("GET", |_| Some(Reply::never()))
                    .on("DELETE", |_| Some(Reply::never()))
                    .on("notifications/initialized", |_| Some(Reply::never()))
                    .handler(),
            ),
        };
        let client = connect(&peer).await;
        let call = tokio::spawn({
            let client = client.clone();
            async move { echo(&client, "a").await }
        });
        tokio::time::sleep(5 * SECOND).await;
        call.abort();
        drop(client);
        let _ = call.await;
        peer.wait_closed(5 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_named_twice_or_oddly_sends_nothing_elsewhere() {
    for (endpoint, works) in [
        ("http://user:pass@peer.test/messages", false),
        ("/messages?x=\u{1}", true),
        ("  /messages  ", true),
        ("/messages#fragment", true),
        ("http:///messages", false),
        ("http://[::1", false),
        ("\\\\other.example\\messages", false),
        ("//peer.test:81/messages", false),
    ] {
        let push = Push::new();
        let stream = push.clone();
        let peer = HttpPeer::memory(move |request: Request| {
            if request.method == "GET" {
                let reply = stream.reply();
                let first = format!("event: endpoint\ndata: {endpoint}\n\n");
                stream.step(Step::Chunk(first.into_bytes()));
                return reply;
            }
            if request.path() != "/messages" {
                return Reply::status(405);
            }
            let result = match request.rpc_method().as_deref() {
                Some("initialize") => json!({"protocolVersion": "2024-11-05",
                    "capabilities": {"tools": {}}, "serverInfo": {"name": "old", "version": "1"}}),
                Some("tools/call") => json!({"content": [{"type": "text", "text": "a"}]}),
                _ => {
                    let moved = b"event: endpoint\ndata: https://other.example/m\n\n".to_vec();
                    stream.step(Step::Chunk(moved));
                    return Reply::status(202);
                }
            };
            stream.event(None, &super::result(&request, &result));
            Reply::status(202)
        });
        match connect_to(server(&peer), options()).await {
            Ok(client) => {
                assert!(works, "{endpoint}");
                assert_eq!(echo(&client, "a").await, Ok("a".to_owned()), "{endpoint}");
                assert_eq!(echo(&client, "a").await, Ok("a".to_owned()), "{endpoint}");
            }
            Err(error) => {
                let shown = format!("{} {error:?}", chain(&error));
                assert!(!works, "{endpoint}: {shown}");
                assert!(!shown.contains("user:pass"), "{shown}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_lost_at_once_is_opened_anew_before_connecting_ends() {
    let refusals = AtomicUsize::new(0);
    let starts = AtomicUsize::new(0);
    let legacy = LegacyServer::new()
        .on("notifications/initialized", move |_| {
            (refusals.fetch_add(1, Ordering::Relaxed) == 0).then(|| Reply::status(404))
        })
        .on("initialize", move |request| {
            (starts.fetch_add(1, Ordering::Relaxed) > 0).then(|| {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "x", "version": "1"}});
                Reply::json(200, &super::result(request, &result))
                    .header("Mcp-Session-Id", "session-1")
                    .first(Step::Wait(5 * SECOND))
            })
        });
    let peer = HttpPeer::memory(legacy.handler());
    match connect_to(server(&peer), options()).await {
        Ok(client) => {
            assert_eq!(echo(&client, "a").await, Ok("a".to_owned()));
            client.close().await;
        }
        Err(error) => {
            // Nothing may be left behind by an attempt that failed.
            peer.wait_closed(60 * SECOND).await;
            panic!("{}", chain(&error));
        }
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

#[tokio::test(start_paused = true)]
async fn what_follows_an_answer_on_its_connection_answers_no_other_call() {
    let forged = |request: &Request, wanted: &str| {
        let body = text(request, wanted).to_string();
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let peer = HttpPeer::memory(
        ModernServer::new()
            .on("tools/call", move |request| {
                let mut next = request.clone();
                let mut message = request.json();
                message["id"] = json!(request.rpc_id().as_i64().unwrap() + 1);
                next.body = message.to_string().into_bytes();
                let both = [forged(request, "own"), forged(&next, "forged")].concat();
                Some(Reply::raw(both))
            })
            .handler(),
    );
    let client = connect(&peer).await;
    for _ in 0..10 {
        assert_eq!(echo(&client, "a").await, Ok("own".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn c239_a_session_that_is_half_opened_is_deleted_when_connecting_is_dropped() {
    let legacy = LegacyServer::new()
        .on("initialize", |_| {
            let primer = Reply::sse().header("Mcp-Session-Id", "half");
            Some(primer.chunk("id: 1\ndata:\n\n").step(Step::Never))
        })
        .on("DELETE", |_| Some(Reply::status(200)));
    let peer = HttpPeer::memory(legacy.handler());
    let attempt = connect_to(server(&peer), options());
    assert!(tokio::time::timeout(2 * SECOND, attempt).await.is_err());
    peer.wait_closed(5 * SECOND).await;
    let requests = peer.requests();
    let delete = requests.iter().find(|request| request.method == "DELETE");
    assert_eq!(delete.unwrap().header("mcp-session-id"), Some("half"));
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
