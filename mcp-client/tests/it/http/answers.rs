//! Statuses, content types and bodies of every kind: each has a named outcome, for its own request only.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::http::{HeaderProvider, HttpServer};
use mcp_client::{ErrorKind, Sent};
use mcp_testkit::http::{HttpPeer, LegacyServer, ModernServer, Reply, Request, Step};
use serde_json::json;

use super::{chain, connect, connect_to, echo, json_reply, methods, options, server, text};

const SECOND: Duration = Duration::from_secs(1);

fn html(status: u16) -> Reply {
    Reply::status(status)
        .header("Content-Type", "text/html")
        .body("<html><h1>Sign in</h1></html>")
}

#[tokio::test(start_paused = true)]
async fn every_answer_to_a_call_has_a_named_outcome() {
    type Make = fn(&Request) -> Reply;
    use ErrorKind::{InvalidAnswer, Refused, Rpc, Unauthorized, Unavailable};
    let cases: &[(&str, Make, ErrorKind, Sent, &str)] = &[
        (
            "204",
            |_| Reply::status(204),
            InvalidAnswer,
            Sent::Unknown,
            "accepted, but not answered",
        ),
        (
            "202",
            |_| Reply::status(202),
            InvalidAnswer,
            Sent::Unknown,
            "accepted, but not answered",
        ),
        (
            "202 with a body",
            |_| Reply::status(202).body("thanks"),
            InvalidAnswer,
            Sent::Unknown,
            "(thanks)",
        ),
        (
            "200 empty",
            |_| Reply::status(200),
            InvalidAnswer,
            Sent::Unknown,
            "the answer is empty",
        ),
        (
            "200 empty JSON",
            |_| Reply::status(200).header("Content-Type", "application/json"),
            InvalidAnswer,
            Sent::Unknown,
            "the answer is empty",
        ),
        (
            "C114 200 HTML",
            |_| html(200),
            InvalidAnswer,
            Sent::Unknown,
            "an HTML page",
        ),
        (
            "200 image",
            |_| {
                Reply::status(200)
                    .header("Content-Type", "image/png")
                    .body("x")
            },
            InvalidAnswer,
            Sent::Unknown,
            "neither JSON nor a stream",
        ),
        (
            "200 not JSON",
            |_| {
                Reply::status(200)
                    .header("Content-Type", "application/json")
                    .body("oops")
            },
            InvalidAnswer,
            Sent::Yes,
            "oops",
        ),
        (
            "another id",
            |_| json_reply(&json!({"jsonrpc": "2.0", "id": 4711, "result": {}})),
            InvalidAnswer,
            Sent::Unknown,
            "answers another request",
        ),
        (
            "400",
            |_| Reply::status(400).body("bad"),
            InvalidAnswer,
            Sent::No,
            "HTTP 400",
        ),
        (
            "401",
            |_| Reply::status(401),
            Unauthorized,
            Sent::No,
            "who is asking",
        ),
        (
            "403",
            |_| Reply::status(403),
            Unauthorized,
            Sent::No,
            "forbidden",
        ),
        (
            "404",
            |_| html(404),
            InvalidAnswer,
            Sent::No,
            "no MCP server at this URL",
        ),
        (
            "405",
            |_| Reply::status(405),
            InvalidAnswer,
            Sent::No,
            "does not take POST",
        ),
        (
            "C106 406",
            |_| Reply::status(406),
            InvalidAnswer,
            Sent::No,
            "application/json, text/event-stream",
        ),
        (
            "413",
            |_| Reply::status(413),
            Refused,
            Sent::No,
            "too large",
        ),
        (
            "431",
            |_| Reply::status(431),
            Refused,
            Sent::No,
            "headers are too large",
        ),
        (
            "500",
            |_| Reply::status(500).body("boom"),
            Unavailable,
            Sent::Unknown,
            "boom",
        ),
        (
            "C113 502",
            |_| html(502),
            Unavailable,
            Sent::Unknown,
            "HTTP 502: something in front of the server",
        ),
        (
            "503",
            |_| Reply::status(503),
            Unavailable,
            Sent::Unknown,
            "not available",
        ),
        (
            "C113 504",
            |_| html(504),
            Unavailable,
            Sent::Unknown,
            "HTTP 504",
        ),
        (
            "302",
            |_| Reply::status(302).header("Location", "https://other.example/x?k=s3cret"),
            InvalidAnswer,
            Sent::No,
            "to https://other.example/x",
        ),
        (
            "C049 error in 400",
            |_| {
                let error = json!({"jsonrpc": "2.0", "id": "server-error", "error": {"code": -32602, "message": "no"}});
                Reply::json(400, &error)
            },
            Rpc,
            Sent::Yes,
            "-32602",
        ),
        (
            "C125 cut",
            |request| {
                let body = text(request, "half").to_string();
                Reply::status(200)
                    .header("Content-Type", "application/json")
                    .header("Content-Length", &(body.len() + 100).to_string())
                    .chunk("")
                    .step(Step::Bytes(body.into_bytes()))
                    .step(Step::CloseConnection)
            },
            Unavailable,
            Sent::Unknown,
            "lost before the answer was whole",
        ),
        (
            "closed",
            |_| Reply::hang_up(),
            Unavailable,
            Sent::Unknown,
            "lost before the answer was whole",
        ),
    ];
    for (name, make, kind, sent, part) in cases {
        let peer = HttpPeer::memory(
            ModernServer::new()
                .on("tools/call", |request| {
                    let text = request.json()["params"]["arguments"]["text"].clone();
                    (text == "bad").then(|| make(request))
                })
                .handler(),
        );
        let client = connect(&peer).await;
        let arguments = json!({"text": "bad"});
        let call = client.call_tool("echo", &arguments);
        let error = tokio::time::timeout(600 * SECOND, call)
            .await
            .unwrap_or_else(|_| panic!("{name} hangs"))
            .unwrap_err();
        let shown = chain(&error);
        assert_eq!(
            (error.kind(), error.was_sent()),
            (*kind, *sent),
            "{name}: {shown}"
        );
        assert!(shown.contains(part), "{name}: {shown}");
        assert!(!shown.contains("s3cret"), "{name}: {shown}");
        // C084: one try.
        let calls = methods(&peer)
            .iter()
            .filter(|method| *method == "tools/call")
            .count();
        assert_eq!(calls, 1, "{name}");
        // The others are not disturbed.
        assert!(echo(&client, "good").await.is_ok(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn c107_c108_odd_labels_are_understood() {
    type Make = fn(&Request) -> Reply;
    let cases: &[(&str, Make)] = &[
        ("odd case", |request| {
            Reply::status(200)
                .header("content-type", "Application/JSON; charset=UTF-8")
                .body(text(request, "hi").to_string())
        }),
        ("none, JSON", |request| {
            Reply::status(200).body(text(request, "hi").to_string())
        }),
        ("plain text", |request| {
            Reply::status(200)
                .header("Content-Type", "text/plain")
                .body(format!("\n {}", text(request, "hi")))
        }),
        ("none, events", |request| {
            Reply::status(200).body(format!(": x\n\ndata: {}\n\n", text(request, "hi")))
        }),
        ("events with parameters", |request| {
            Reply::status(200)
                .header("Content-Type", "text/event-stream;charset=utf-8")
                .body(format!("data: {}\n\n", text(request, "hi")))
        }),
        ("201", |request| {
            Reply::status(201)
                .header("Content-Type", "application/json")
                .body(text(request, "hi").to_string())
        }),
    ];
    for (name, make) in cases {
        let peer = HttpPeer::memory(
            ModernServer::new()
                .on("tools/call", |request| Some(make(request)))
                .handler(),
        );
        let client = connect(&peer).await;
        assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()), "{name}");
        let odd = client.diagnostics().quirks.len();
        assert_eq!(
            odd,
            usize::from(matches!(
                *name,
                "none, JSON" | "plain text" | "none, events"
            )),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn c112_refusals_for_now_are_waited_out() {
    for (retry_after, least, most) in [(Some("2"), 2, 2), (None, 0, 1)] {
        let count = AtomicUsize::new(0);
        let modern = ModernServer::new().on("tools/call", move |_| {
            (count.fetch_add(1, Ordering::Relaxed) == 0).then(|| {
                let reply = Reply::status(429).body("slow down");
                match retry_after {
                    Some(value) => reply.header("Retry-After", value),
                    None => reply,
                }
            })
        });
        let peer = HttpPeer::memory(modern.handler());
        let client = connect(&peer).await;
        let begun = tokio::time::Instant::now();
        assert!(echo(&client, "a").await.is_ok());
        let waited = begun.elapsed();
        assert!(
            waited >= least * SECOND && waited <= (most + 1) * SECOND,
            "{waited:?}"
        );
    }
    // For ever, or for too long: told with what was asked for.
    for (value, tries) in [("1", 4), ("3600", 1)] {
        let modern = ModernServer::new().on("tools/call", move |_| {
            Some(Reply::status(429).header("Retry-After", value))
        });
        let peer = HttpPeer::memory(modern.handler());
        let client = connect(&peer).await;
        let error = client.call_tool("echo", &json!({})).await.unwrap_err();
        assert_eq!(
            (
                error.kind(),
                error.was_sent(),
                error.as_http().unwrap().retry_after
            ),
            (
                ErrorKind::Refused,
                Sent::No,
                Some(value.parse::<u32>().unwrap() * SECOND)
            )
        );
        let calls = methods(&peer)
            .iter()
            .filter(|method| *method == "tools/call")
            .count();
        assert_eq!(calls, tries, "{value}");
    }
}

#[tokio::test(start_paused = true)]
async fn unavailable_servers_are_asked_again_only_for_what_is_safe() {
    for (method, tries) in [("tools/call", 1), ("tools/list", 2)] {
        let count = AtomicUsize::new(0);
        let modern = ModernServer::new().on(method, move |_| {
            (count.fetch_add(1, Ordering::Relaxed) == 0)
                .then(|| Reply::status(503).header("Retry-After", "1"))
        });
        let peer = HttpPeer::memory(modern.handler());
        let client = connect(&peer).await;
        if method == "tools/list" {
            assert!(client.tools().await.is_ok());
        } else {
            assert!(echo(&client, "a").await.is_err());
        }
        let asked = methods(&peer).iter().filter(|name| *name == method).count();
        assert_eq!(asked, tries, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn c094_whatever_a_notification_is_answered_with_is_success() {
    type Make = fn() -> Reply;
    let replies: &[Make] = &[
        || Reply::json(200, &json!({"jsonrpc": "2.0", "result": {}})),
        || Reply::status(200),
        || Reply::status(204),
        || html(200),
        || Reply::sse(),
    ];
    for make in replies {
        let legacy = LegacyServer::new().on("notifications/initialized", |_| Some(make()));
        let peer = HttpPeer::memory(legacy.handler());
        let client = connect(&peer).await;
        assert!(echo(&client, "a").await.is_ok());
        assert_eq!(client.diagnostics().violations, 0);
    }
    // A refusal is told, and the connection goes on (HTTP-05).
    let legacy = LegacyServer::new().on("notifications/initialized", |_| {
        Some(Reply::status(500).body("no"))
    });
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    assert!(echo(&client, "a").await.is_ok());
    assert_eq!(client.diagnostics().violations, 1);
}

#[tokio::test(start_paused = true)]
async fn c110_redirects_keep_method_and_body_or_are_told() {
    let moved = |status: u16, location: &'static str, tries: usize| {
        let count = AtomicUsize::new(0);
        let modern = ModernServer::new().on("tools/call", move |request| {
            (request.path() == "/mcp" || count.fetch_add(1, Ordering::Relaxed) < tries)
                .then(|| Reply::status(status).header("Location", location))
        });
        HttpPeer::memory(modern.handler())
    };
    for (status, location) in [(307, "/new"), (308, "http://peer.test/new?x=1")] {
        let peer = moved(status, location, 0);
        let client = connect(&peer).await;
        assert!(echo(&client, "a").await.is_ok(), "{status} {location}");
        let call = peer.requests().pop().unwrap();
        assert_eq!((call.method.as_str(), call.path()), ("POST", "/new"));
        assert_eq!(call.header("mcp-method"), Some("tools/call"));
    }
    let refused = [
        (301, "/new"),
        (302, "/new"),
        (303, "/new"),
        (307, "https://peer.test/mcp"),
        (307, "http://other.test/mcp"),
        (308, "http://peer.test:8080/mcp"),
        (307, "javascript:alert(1)"),
    ];
    for (status, location) in refused {
        let peer = moved(status, location, 0);
        let client = connect(&peer).await;
        let error = echo(&client, "a").await.unwrap_err();
        assert!(
            error.contains(&format!("HTTP {status}")) && error.contains(location),
            "{error}"
        );
    }
    // At most once.
    let peer = moved(307, "/new", 1);
    let client = connect(&peer).await;
    let error = echo(&client, "a").await.unwrap_err();
    assert!(error.contains("HTTP 307"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn static_headers_go_with_every_request() {
    let peer = HttpPeer::memory(LegacyServer::new().handler());
    let server = server(&peer)
        .header("Authorization", "Bearer s3cret-token")
        .unwrap()
        .header("X-Tenant", "acme")
        .unwrap();
    let client = connect_to(server, options()).await.unwrap();
    let _ = echo(&client, "a").await;
    client.close().await;
    let requests = peer.requests();
    assert!(requests.iter().any(|request| request.method == "DELETE"));
    for request in requests {
        assert_eq!(
            request.header("authorization"),
            Some("Bearer s3cret-token"),
            "{request:?}"
        );
        assert_eq!(request.header("x-tenant"), Some("acme"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_asked_before_each_request_and_again_after_401() {
    let valid = std::sync::Arc::new(AtomicUsize::new(1));
    let wanted = std::sync::Arc::clone(&valid);
    let modern = ModernServer::new();
    let peer = HttpPeer::memory(move |request: Request| {
        let token = format!("Bearer t{}", wanted.load(Ordering::Relaxed));
        if request.header("authorization") == Some(&token) {
            modern.reply(&request)
        } else {
            Reply::status(401)
        }
    });
    let kept = Mutex::new(0);
    let newest = std::sync::Arc::clone(&valid);
    let provider = HeaderProvider::new(move |request| {
        let mut kept = kept.lock().unwrap();
        if request.refused {
            *kept = newest.load(Ordering::Relaxed);
        }
        let headers = vec![("Authorization".to_owned(), format!("Bearer t{kept}"))];
        async move { Ok(headers) }
    });
    let server = server(&peer).header_provider(provider);
    let client = connect_to(server, options()).await.unwrap();
    assert!(echo(&client, "a").await.is_ok());
    valid.store(2, Ordering::Relaxed);
    assert!(echo(&client, "b").await.is_ok());

    let failing = HeaderProvider::new(|_| async { Err("the vault is closed".into()) });
    let server = super::server(&peer).header_provider(failing);
    let error = connect_to(server, options()).await.unwrap_err();
    assert!(
        chain(&error).contains("the vault is closed"),
        "{}",
        chain(&error)
    );
    let reserved =
        HeaderProvider::new(|_| async { Ok(vec![("Mcp-Session-Id".to_owned(), "x".to_owned())]) });
    let server = super::server(&peer).header_provider(reserved);
    let error = connect_to(server, options()).await.unwrap_err();
    assert!(
        chain(&error).contains("set by the protocol"),
        "{}",
        chain(&error)
    );
}

#[tokio::test(start_paused = true)]
async fn answers_may_be_packed() {
    use std::io::Write as _;
    for pieces in [1, 7, 100_000] {
        let modern = ModernServer::new().on("tools/call", move |request| {
            let long = "ä".repeat(50_000);
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed
                .write_all(text(request, &long).to_string().as_bytes())
                .unwrap();
            let mut reply = Reply::status(200)
                .header("Content-Type", "application/json")
                .header("Content-Encoding", "gzip")
                .chunked();
            for chunk in packed.finish().unwrap().chunks(pieces) {
                reply = reply.chunk(chunk);
            }
            Some(reply)
        });
        let peer = HttpPeer::memory(modern.handler());
        let client = connect(&peer).await;
        assert_eq!(echo(&client, "a").await.unwrap(), "ä".repeat(50_000));
    }
    for (encoding, body, part) in [
        ("br", &b"x"[..], "content encoding br"),
        ("gzip", b"no gzip at all", "gzip data is broken"),
    ] {
        let modern = ModernServer::new().on("tools/call", move |_| {
            Some(
                Reply::status(200)
                    .header("Content-Type", "application/json")
                    .header("Content-Encoding", encoding)
                    .body(body),
            )
        });
        let peer = HttpPeer::memory(modern.handler());
        let client = connect(&peer).await;
        let error = echo(&client, "a").await.unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_packed_bomb_is_stopped_at_the_limit() {
    use std::io::Write as _;
    let modern = ModernServer::new().on("tools/call", |_| {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let zeros = vec![b' '; 1024 * 1024];
        for _ in 0..100 {
            packed.write_all(&zeros).unwrap();
        }
        Some(
            Reply::status(200)
                .header("Content-Type", "application/json")
                .header("Content-Encoding", "gzip")
                .body(packed.finish().unwrap()),
        )
    });
    let peer = HttpPeer::memory(modern.handler());
    let client = connect(&peer).await;
    let error = echo(&client, "a").await.unwrap_err();
    assert!(error.contains("limit max_message_bytes"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_told_as_such() {
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = HttpServer::new(&format!("http://{address}/mcp")).unwrap();
    let error = connect_to(server, options()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent()),
        (ErrorKind::Start, Sent::No)
    );
    let shown = chain(&error);
    assert!(
        shown.contains(&address.to_string()) && shown.contains("refused"),
        "{shown}"
    );
}
