//! Streams of events: every cut, every oddity, resumption, sizes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::http::HttpServer;
use mcp_client::{ErrorKind, Sent};
use mcp_testkit::http::{HttpPeer, LegacyServer, ModernServer, Reply, Request, Step, sse_event};
use serde_json::json;

use super::{chain, connect, connect_to, echo, methods, options, server, text};

const SECOND: Duration = Duration::from_secs(1);

/// A modern server whose calls are answered by this.
fn modern(make: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> HttpPeer {
    HttpPeer::memory(
        ModernServer::new()
            .on("tools/call", move |request| Some(make(request)))
            .handler(),
    )
}

#[tokio::test(start_paused = true)]
async fn c128_c131_every_cut_of_a_stream_means_the_same() {
    let body = |request: &Request| {
        format!(
            "\u{feff}: hello\r\nid: 1\r\nretry: 10\r\ndata:\r\n\r\nevent: ping\rdata: {{}}\r\rdata: {{\"jsonrpc\":\"2.0\",\ndata: \
             \"id\":{},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"€ grüße\"}}]}}}}\r\n\r\n",
            request.rpc_id()
        )
    };
    // The handler cuts at the place that the call names.
    let peer = modern(move |request| {
        let whole = body(request).into_bytes();
        let at = request.json()["params"]["arguments"]["text"]
            .as_str()
            .unwrap_or("0")
            .to_owned();
        let at: usize = at.parse().unwrap_or(0);
        let (first, second) = whole.split_at(at.min(whole.len()));
        Reply::sse()
            .chunk(first)
            .wait(Duration::from_millis(1))
            .chunk(second)
    });
    let client = connect(&peer).await;
    for at in 1..240 {
        assert_eq!(
            echo(&client, &at.to_string()).await,
            Ok("€ grüße".to_owned()),
            "cut at {at}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn c130_events_that_are_no_messages_are_passed_over() {
    let peer = modern(|request| {
        Reply::sse()
            .chunk("event: ping\ndata: {}\n\ndata: {\"type\":\"heartbeat\"}\n\ndata: not json\n\n")
            .chunk(": comment\n\n")
            .event(None, &text(request, "hi"))
    });
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()));
    assert_eq!(client.diagnostics().noise, 2);
}

#[tokio::test(start_paused = true)]
async fn c137_an_unterminated_answer_at_an_orderly_end_counts() {
    let peer = modern(|request| Reply::sse().chunk(format!("data: {}\n", text(request, "hi"))));
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()));
    assert!(format!("{:?}", client.diagnostics().quirks).contains("UnterminatedEvent"));
    // Not at a cut (C125).
    let peer = modern(|request| {
        Reply::sse()
            .chunk(format!("data: {}\n", text(request, "hi")))
            .step(Step::CloseConnection)
    });
    let client = connect(&peer).await;
    assert!(echo(&client, "a").await.unwrap_err().contains("lost"));
}

#[tokio::test(start_paused = true)]
async fn c135_the_call_is_done_at_the_answer() {
    let peer = modern(|request| {
        Reply::sse()
            .event(None, &text(request, "hi"))
            .event(
                None,
                &json!({"jsonrpc": "2.0", "method": "notifications/vendor/late"}),
            )
            .step(Step::Never)
    });
    let client = connect(&peer).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()));
    assert_eq!(begun.elapsed(), Duration::ZERO);
    // The stream is closed soon.
    peer.wait_aborted(1, 2 * SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn c079_a_quiet_stream_is_waited_for() {
    let peer = modern(|request| {
        Reply::sse()
            .wait(50 * SECOND)
            .event(None, &text(request, "hi"))
    });
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_drips_is_read() {
    let peer = modern(|request| {
        let bytes = sse_event(None, &text(request, "hi"));
        let mut reply = Reply::sse();
        for byte in bytes {
            reply = reply.chunk([byte]).wait(Duration::from_millis(10));
        }
        reply
    });
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("hi".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn c136_one_limit_for_every_form_of_answer() {
    let big = |request: &Request, bytes: usize| text(request, &"x".repeat(bytes));
    // Far above what a hidden limit of a line would let through.
    let peer = modern(move |request| {
        let bytes = request.json()["params"]["arguments"]["text"]
            .as_str()
            .map_or(0, |n| n.parse().unwrap_or(0));
        Reply::sse().event(None, &big(request, bytes))
    });
    let client = connect(&peer).await;
    for bytes in [200 * 1024, 1024 * 1024] {
        assert_eq!(
            echo(&client, &bytes.to_string()).await.unwrap().len(),
            bytes
        );
    }
    let mut small = options();
    small.config.limits.max_message_bytes = 10_000;
    let client = connect_to(server(&peer), small.clone()).await.unwrap();
    assert!(echo(&client, "5000").await.is_ok());
    let error = echo(&client, "50000").await.unwrap_err();
    assert!(error.contains("max_message_bytes 10000"), "{error}");
    assert!(echo(&client, "5000").await.is_ok());
    // A line without an end.
    let peer = modern(|_| {
        let mut reply = Reply::sse().chunk("data: ");
        for _ in 0..100 {
            reply = reply.chunk(vec![b'A'; 1000]);
        }
        reply
    });
    let client = connect_to(server(&peer), small).await.unwrap();
    let error = echo(&client, "a").await.unwrap_err();
    assert!(error.contains("ended without an answer"), "{error}");
}

/// A legacy server whose calls are answered by `call`, and whose streams are resumed by `resume`, told how often.
fn legacy(
    call: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    resume: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static,
) -> HttpPeer {
    let resumed = AtomicUsize::new(0);
    HttpPeer::memory(
        LegacyServer::new()
            .on("tools/call", move |request| Some(call(request)))
            .on("GET", move |request| {
                request
                    .header("last-event-id")
                    .map(|_| resume(request, resumed.fetch_add(1, Ordering::Relaxed)))
            })
            .handler(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_the_server_closes_is_resumed_after_its_delay() {
    // HTTPL-32, HTTPL-33: several times, each stream where it ended.
    let call = std::sync::Mutex::new(None);
    let call = Arc::new(call);
    let seen = Arc::clone(&call);
    let peer = legacy(
        move |request| {
            *seen.lock().unwrap() = Some(request.clone());
            Reply::sse().chunk("id: s-0\nretry: 1500\ndata:\n\n")
        },
        move |_, count| match count {
            0 => Reply::sse().chunk(
                "id: s-1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/vendor/x\"}\n\n",
            ),
            1 => Reply::sse().chunk("id: s-2\ndata:\n\n"),
            _ => {
                let call = call.lock().unwrap().clone().unwrap();
                Reply::sse().event(Some("s-3"), &text(&call, "at last"))
            }
        },
    );
    let client = connect(&peer).await;
    let begun = tokio::time::Instant::now();
    assert_eq!(echo(&client, "a").await, Ok("at last".to_owned()));
    assert_eq!(begun.elapsed(), Duration::from_millis(4500));
    let ids: Vec<_> = peer
        .requests()
        .iter()
        .filter_map(|request| request.header("last-event-id").map(str::to_owned))
        .collect();
    assert_eq!(ids, ["s-0", "s-1", "s-2"]);
    for request in peer.requests() {
        if request.header("last-event-id").is_some() {
            assert!(request.header("mcp-session-id").is_some());
            assert_eq!(request.header("mcp-protocol-version"), Some("2025-11-25"));
            assert_eq!(request.header("accept"), Some("text/event-stream"));
        }
    }
    // C084: the call itself was made once.
    assert_eq!(
        methods(&peer)
            .iter()
            .filter(|method| *method == "tools/call")
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn every_cut_of_a_legacy_stream_is_resumed_or_told() {
    // The first stream is cut at every byte; the second brings all that follows the last whole event.
    let events = |request: &Request| -> Vec<Vec<u8>> {
        vec![
            sse_event(
                Some("1"),
                &json!({"jsonrpc": "2.0", "method": "notifications/vendor/a"}),
            ),
            sse_event(
                Some("2"),
                &json!({"jsonrpc": "2.0", "method": "notifications/vendor/b"}),
            ),
            sse_event(Some("3"), &text(request, "hi")),
        ]
    };
    let call = Arc::new(std::sync::Mutex::new(None));
    let seen = Arc::clone(&call);
    let peer = legacy(
        move |request| {
            *seen.lock().unwrap() = Some(request.clone());
            let whole = events(request).concat();
            let at = request.json()["params"]["arguments"]["text"]
                .as_str()
                .unwrap_or("0")
                .to_owned();
            let at: usize = at.parse().unwrap_or(0);
            Reply::sse()
                .chunk(&whole[..at.min(whole.len())])
                .step(Step::CloseConnection)
        },
        move |request, _| {
            let call = call.lock().unwrap().clone().unwrap();
            let last: usize = request.header("last-event-id").unwrap().parse().unwrap();
            let rest = events(&call).split_off(last).concat();
            Reply::sse().chunk(rest)
        },
    );
    let client = connect(&peer).await;
    let first = sse_event(
        Some("1"),
        &json!({"jsonrpc": "2.0", "method": "notifications/vendor/a"}),
    )
    .len();
    for at in 1..330 {
        let outcome = echo(&client, &at.to_string()).await;
        if at < first {
            // Nothing whole came, so there is nothing to resume at (HTTPL-34).
            let error = outcome.unwrap_err();
            assert!(error.contains("lost"), "cut at {at}: {error}");
        } else {
            assert_eq!(outcome, Ok("hi".to_owned()), "cut at {at}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn streams_that_can_not_be_resumed_are_told() {
    type Resume = fn(&Request, usize) -> Reply;
    let cases: &[(Resume, &str, usize)] = &[
        (|_, _| Reply::status(405), "HTTP 405", 1),
        (|_, _| Reply::status(400).body("too old"), "too old", 1),
        (|_, _| Reply::sse(), "limit max_resumptions", 5),
        (|_, _| Reply::status(503), "limit max_resumptions", 5),
        (|_, _| Reply::hang_up(), "limit max_resumptions", 5),
    ];
    for (resume, part, tries) in cases {
        let peer = legacy(|_| Reply::sse().chunk("id: 1\ndata:\n\n"), resume);
        let client = connect(&peer).await;
        let error = client.call_tool("echo", &json!({})).await.unwrap_err();
        let shown = chain(&error);
        assert!(shown.contains(part), "{shown}");
        assert_eq!(
            (error.kind(), error.was_sent()),
            (ErrorKind::Unavailable, Sent::Unknown)
        );
        let asked = peer
            .requests()
            .iter()
            .filter(|request| request.header("last-event-id").is_some())
            .count();
        assert_eq!(asked, *tries, "{part}");
    }
    // No event id was seen.
    let peer = legacy(|_| Reply::sse().chunk(": x\n\n"), |_, _| Reply::status(500));
    let client = connect(&peer).await;
    let error = echo(&client, "a").await.unwrap_err();
    assert!(
        error.contains("the stream ended without an answer"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn c127_an_empty_stream_ends_the_call_and_the_probe() {
    let peer = modern(|_| Reply::sse());
    let client = connect(&peer).await;
    let error = echo(&client, "a").await.unwrap_err();
    assert!(
        error.contains("the stream ended without an answer"),
        "{error}"
    );
    let legacy = LegacyServer::new().on("server/discover", |_| Some(Reply::sse()));
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    assert_eq!(client.agreement().version.as_str(), "2025-11-25");
}

#[tokio::test(start_paused = true)]
async fn d3_calls_do_not_wait_for_each_other() {
    let peer = modern(|request| {
        let slow = request.json()["params"]["arguments"]["text"] == "slow";
        let answer = text(request, "hi");
        if slow {
            Reply::sse().wait(30 * SECOND).event(None, &answer)
        } else {
            Reply::json(200, &answer)
        }
    });
    let client = connect(&peer).await;
    let slow = tokio::spawn({
        let client = client.clone();
        async move { echo(&client, "slow").await }
    });
    let begun = tokio::time::Instant::now();
    let calls = (0..64).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { echo(&client, "quick").await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap(), Ok("hi".to_owned()));
    }
    assert!(begun.elapsed() < SECOND);
    assert_eq!(slow.await.unwrap(), Ok("hi".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn requests_past_the_limit_wait_their_turn() {
    let gate = mcp_testkit::http::Gate::new();
    let wait = gate.clone();
    let inner = ModernServer::new();
    let peer = HttpPeer::memory(move |request: Request| {
        let (inner, wait) = (inner.clone(), wait.clone());
        Box::pin(async move {
            if request.rpc_method().as_deref() == Some("tools/call") {
                wait.wait().await;
            }
            inner.reply(&request)
        })
    });
    let mut server = server(&peer);
    server.limits.max_requests = 10;
    let client = connect_to(server, options()).await.unwrap();
    let mut calls: Vec<_> = (0..100)
        .map(|number| {
            let client = client.clone();
            tokio::spawn(async move { echo(&client, &number.to_string()).await })
        })
        .collect();
    gate.reached(10).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(peer.open_connections(), 10);
    // One that waits can be given up, and one that does not makes room.
    for index in [50, 0] {
        calls.remove(index).abort();
    }
    gate.open();
    for call in calls {
        assert!(call.await.unwrap().is_ok());
    }
    let made = methods(&peer)
        .iter()
        .filter(|method| *method == "tools/call")
        .count();
    assert!((98..=99).contains(&made), "{made}");
}

#[tokio::test]
async fn a_thousand_calls_use_one_connection() {
    for style in [
        mcp_testkit::http::Style::Json,
        mcp_testkit::http::Style::Sse,
    ] {
        let peer = HttpPeer::tcp(ModernServer::new().style(style).handler()).await;
        let server = HttpServer::new(&peer.url("/mcp")).unwrap();
        let mut quiet = options();
        quiet.watch_lists = false;
        let client = connect_to(server, quiet).await.unwrap();
        for _ in 0..1000 {
            echo(&client, "a").await.unwrap();
        }
        assert_eq!(peer.connections(), 1, "{style:?}");
        client.close().await;
    }
}
