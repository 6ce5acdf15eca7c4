//! Sessions that are lost, refused or forgotten at the worst moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use mcp_client::ErrorKind;
use mcp_testkit::http::{Gate, HttpPeer, LegacyServer, Push, Reply, Request, Step};
use serde_json::json;
use tokio::time::Instant;

use super::{SECOND, count};
use crate::http::{chain, connect, connect_to, echo, methods, options, server};

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
                Some(Reply::sse().event(None, &crate::http::result(&request, &result)))
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
                Reply::json(200, &crate::http::result(request, &result))
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
