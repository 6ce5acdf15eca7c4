//! HTTP+SSE, the transport of 2024-11-05.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::http::{EraMemory, HttpConnector, HttpTransport, connect_with};
use mcp_client::{ErrorKind, Sent};
use mcp_testkit::http::{HttpPeer, Push, Reply, Request};
use serde_json::{Value, json};

use super::{chain, connect, connect_to, echo, methods, options, server};

const SECOND: Duration = Duration::from_secs(1);

/// A server of the old kind: `/mcp` is the stream, `/messages` takes what we say, with this status.
fn old_server(endpoint: &'static str, refusal: u16, taken: u16) -> (HttpPeer, Arc<Mutex<Push>>) {
    let push = Arc::new(Mutex::new(Push::new()));
    let current = Arc::clone(&push);
    let peer =
        HttpPeer::memory(
            move |request: Request| match (request.method.as_str(), request.path()) {
                ("GET", "/mcp") => {
                    // A new stream is a new session.
                    let push = Push::new();
                    *current.lock().unwrap() = push.clone();
                    let reply = push.reply();
                    push.step(mcp_testkit::http::Step::Chunk(
                        format!("event: endpoint\ndata: {endpoint}\n\n").into_bytes(),
                    ));
                    reply
                }
                ("POST", "/messages") => {
                    if let (200..300, Some(answer)) = (taken, answer(&request)) {
                        current.lock().unwrap().event(None, &answer);
                    }
                    Reply::status(taken)
                }
                _ => Reply::status(refusal),
            },
        );
    (peer, push)
}

fn answer(request: &Request) -> Option<Value> {
    let result = match request.rpc_method()?.as_str() {
        "initialize" => json!({"protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
            "serverInfo": {"name": "old", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text":
            request.json()["params"]["arguments"]["text"]}]}),
        _ => return None,
    };
    Some(super::result(request, &result))
}

#[tokio::test(start_paused = true)]
async fn c133_old_servers_are_found_and_used() {
    for refusal in [400, 404, 405] {
        for taken in [200, 202, 204] {
            let (peer, _) = old_server("/messages?sid=1", refusal, taken);
            let client = connect(&peer).await;
            assert_eq!(client.agreement().version.as_str(), "2024-11-05");
            assert!(
                client
                    .channel_facts()
                    .contains(&("transport", "HTTP+SSE".to_owned()))
            );
            assert_eq!(client.tools().await.unwrap().tools.len(), 1);
            assert_eq!(echo(&client, "hi").await, Ok("hi".to_owned()));
            client.close().await;
            peer.wait_aborted(1, SECOND).await;
            for request in peer.requests() {
                if request.path() == "/messages" {
                    assert_eq!(request.target, "/messages?sid=1");
                    // SSE24-05.
                    assert_eq!(request.header("mcp-protocol-version"), None);
                    assert_eq!(request.header("mcp-session-id"), None);
                }
            }
            assert!(!methods(&peer).contains(&"DELETE".to_owned()));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn other_refusals_do_not_lead_there() {
    for refusal in [401, 403, 406, 429, 500, 503] {
        let (peer, _) = old_server("/messages", refusal, 202);
        let error = connect_to(server(&peer), options()).await.unwrap_err();
        assert!(
            chain(&error).contains(&format!("HTTP {refusal}")),
            "{}",
            chain(&error)
        );
        assert!(!methods(&peer).contains(&"GET".to_owned()), "{refusal}");
    }
    let (peer, _) = old_server("/messages", 405, 202);
    let streamable = server(&peer).transport(HttpTransport::Streamable);
    assert!(connect_to(streamable, options()).await.is_err());
    assert!(!methods(&peer).contains(&"GET".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn c133_a_foreign_endpoint_is_refused() {
    for endpoint in [
        "https://other.example/m",
        "//other.example/m",
        "http://peer.test:81/m",
    ] {
        let (peer, _) = old_server(endpoint, 405, 202);
        let error = connect_to(server(&peer), options()).await.unwrap_err();
        let shown = chain(&error);
        assert!(shown.contains("is not on http://peer.test"), "{shown}");
        assert!(
            shown.contains("HTTP 405"),
            "the first cause is kept: {shown}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn streams_without_an_endpoint_are_told() {
    type Make = fn() -> Reply;
    let cases: &[(Make, &str)] = &[
        (
            || Reply::sse().step(mcp_testkit::http::Step::Never),
            "limit endpoint_timeout",
        ),
        (|| Reply::sse(), "it ended"),
        (|| Reply::sse().chunk("data: {}\n\n"), "it began with {}"),
        (|| Reply::status(404), "HTTP 404"),
        (
            || {
                Reply::status(200)
                    .header("Content-Type", "text/html")
                    .body("<p>")
            },
            "HTML",
        ),
    ];
    for (make, part) in cases {
        let peer = HttpPeer::memory(|request: Request| match request.method.as_str() {
            "GET" => make(),
            _ => Reply::status(405),
        });
        let error = connect_to(server(&peer), options()).await.unwrap_err();
        assert!(chain(&error).contains(part), "{part}: {}", chain(&error));
    }
}

#[tokio::test(start_paused = true)]
async fn the_stream_is_the_session() {
    // SSE24-05: its end fails what is in flight, and the connection.
    let (peer, push) = old_server("/messages", 405, 202);
    let client = connect(&peer).await;
    let call = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .request_raw("tools/none", None, Default::default())
                .await
        }
    });
    peer.wait_request("what the client sends", SECOND, |request| {
        request.rpc_method().as_deref() == Some("tools/none")
    })
    .await;
    push.lock().unwrap().end();
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent()),
        (ErrorKind::ConnectionLost, Sent::Unknown),
        "{}",
        chain(&error)
    );
    client.closed().await;
    assert!(client.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_not_taken_fails_its_own_call() {
    let (peer, _) = old_server("/messages", 405, 500);
    let mut start = options();
    start.config.start_timeout = 5 * SECOND;
    let error = connect_to(server(&peer), start).await.unwrap_err();
    assert!(chain(&error).contains("HTTP 500"), "{}", chain(&error));
}

#[tokio::test(start_paused = true)]
async fn what_was_found_is_remembered() {
    let memory = EraMemory::new();
    let (peer, _) = old_server("/messages", 405, 202);
    for expected in [
        vec![
            "server/discover",
            "initialize",
            "GET",
            "initialize",
            "notifications/initialized",
        ],
        vec!["GET", "initialize", "notifications/initialized"],
    ] {
        let before = peer.requests().len();
        let connector = HttpConnector::new(server(&peer)).with_memory(Some(memory.clone()));
        let client = connect_with(connector, options()).await.unwrap();
        peer.wait_request("what the client sends", SECOND, |request| {
            request.sequence >= before as u64
                && request.rpc_method().as_deref() == Some("notifications/initialized")
        })
        .await;
        assert_eq!(methods(&peer)[before..], expected);
        client.close().await;
    }
    // A wrong memory costs a round, not the connection.
    let modern = HttpPeer::memory(mcp_testkit::http::ModernServer::new().handler());
    let connector = HttpConnector::new(server(&modern)).with_memory(Some(memory.clone()));
    let client = connect_with(connector, options()).await.unwrap();
    assert_eq!(client.agreement().version.as_str(), "2026-07-28");
    let before = modern.requests().len();
    let connector = HttpConnector::new(server(&modern)).with_memory(Some(memory));
    connect_with(connector, options()).await.unwrap();
    assert_eq!(methods(&modern)[before..], ["server/discover"]);
}
