//! The transport of 2024-11-05 with hostile servers.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::http::HttpServer;
use mcp_testkit::http::raw::{SSE_HEAD, raw_server};
use mcp_testkit::http::{HttpPeer, Push, Reply, Request, Step, sse_event};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{SECOND, call_within};
use crate::http::{chain, connect, connect_to, echo, options, server};

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
            stream.event(None, &crate::http::result(&request, &result));
            Reply::status(200)
        })
    });
    let client = connect(&peer).await;
    assert_eq!(echo(&client, "a").await, Ok("slow".to_owned()));
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
        stream.event(None, &crate::http::result(&request, &result));
        Reply::status(202)
    });
    let client = connect(&peer).await;
    assert!(call_within(&client, SECOND).await.is_err());
    let begun = Instant::now();
    assert_eq!(echo(&client, "b").await, Ok("b".to_owned()));
    assert!(begun.elapsed() <= SECOND, "{:?}", begun.elapsed());
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
            stream.event(None, &crate::http::result(&request, &result));
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
