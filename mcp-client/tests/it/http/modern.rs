//! The modern era: stateless POSTs, headers from the body, streams of one request, subscriptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::mcp_proto::Era;
use mcp_client::mcp_proto::connection::ServerNotification;
use mcp_client::{
    CallOptions, ErrorKind, ListenFilter, Notice, Sent, SubscriptionChange, progress_channel,
};
use mcp_testkit::http::{HttpPeer, ModernServer, Push, Reply, Style};
use serde_json::json;

use super::{connect, connect_to, echo, methods, options, server, text};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn both_forms_of_answers_are_understood() {
    for style in [Style::Json, Style::Sse] {
        let peer = HttpPeer::memory(ModernServer::new().style(style).handler());
        let client = connect(&peer).await;
        assert_eq!(client.agreement().era, Era::Modern);
        assert_eq!(client.tools().await.unwrap().tools.len(), 1);
        assert!(echo(&client, "grüße").await.unwrap().contains("grüße"));
        client.close().await;
        assert_eq!(peer.faults(), [""; 0]);
        // HTTPM-06: nothing of sessions.
        for request in peer.requests() {
            assert_eq!(request.method, "POST", "{request:?}");
            assert_eq!(request.header("mcp-session-id"), None);
            assert_eq!(request.header("last-event-id"), None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c168_every_post_has_its_headers() {
    let peer = HttpPeer::memory(ModernServer::new().handler());
    let client = connect(&peer).await;
    let _ = client.call_tool("größe ", &()).await;
    let call = peer.requests().pop().unwrap();
    let expected = [
        ("accept", "application/json, text/event-stream"),
        ("content-type", "application/json"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "tools/call"),
        ("mcp-name", "=?base64?Z3LDtsOfZSA=?="),
    ];
    for (name, value) in expected {
        assert_eq!(call.header(name), Some(value), "{name}");
    }
    assert_eq!(call.header("origin"), None);
}

#[tokio::test(start_paused = true)]
async fn c169_a_header_mismatch_costs_one_look_at_the_list() {
    let tool = |name: &str| {
        json!({"name": "echo", "inputSchema": {"type": "object", "properties": {
            "text": {"type": "string", "x-mcp-header": name}}}})
    };
    let modern = ModernServer::new().tools(vec![tool("Old")]);
    let peer = HttpPeer::memory(modern.clone().handler());
    let mut quiet = options();
    quiet.watch_lists = false;
    let client = connect_to(server(&peer), quiet.clone()).await.unwrap();
    client.tools().await.unwrap();
    assert!(echo(&client, "a").await.is_ok());
    modern.set_tools(vec![tool("New")]);
    assert!(echo(&client, "b").await.is_ok());
    let calls: Vec<_> = peer
        .requests()
        .into_iter()
        .filter(|request| request.rpc_method().as_deref() == Some("tools/call"))
        .map(|request| {
            (
                request.header("mcp-param-old").map(str::to_owned),
                request.header("mcp-param-new").map(str::to_owned),
            )
        })
        .collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        calls,
        [(some("a"), None), (some("b"), None), (None, some("b"))]
    );

    // A server that is never content is asked twice, not for ever.
    let stubborn = ModernServer::new().on("tools/call", |request| {
        let error = json!({"jsonrpc": "2.0", "id": request.rpc_id(),
            "error": {"code": -32020, "message": "no"}});
        Some(Reply::json(400, &error))
    });
    let peer = HttpPeer::memory(stubborn.handler());
    let client = connect_to(server(&peer), quiet).await.unwrap();
    let error = echo(&client, "a").await.unwrap_err();
    assert!(error.contains("-32020"), "{error}");
    let calls = methods(&peer)
        .into_iter()
        .filter(|method| method == "tools/call")
        .count();
    assert_eq!(calls, 2);
}

#[tokio::test(start_paused = true)]
async fn tools_with_invalid_headers_are_left_out_and_named() {
    let peer = HttpPeer::memory(
        ModernServer::new()
            .tools(vec![
                json!({"name": "good", "inputSchema": {"type": "object"}}),
                json!({"name": "bad", "inputSchema": {"type": "object", "properties": {
                    "a": {"type": "number", "x-mcp-header": "A"}}}}),
            ])
            .handler(),
    );
    let client = connect(&peer).await;
    let list = client.tools().await.unwrap();
    let names: Vec<_> = list.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["good"]);
    assert_eq!(
        list.notes[0].to_string(),
        "the tool \"bad\" is left out: x-mcp-header of a, whose type is \"number\" and not string, integer or boolean"
    );
}

#[tokio::test(start_paused = true)]
async fn c082_cancelling_closes_the_stream_and_sends_nothing() {
    let peer = HttpPeer::memory(
        ModernServer::new()
            .on("tools/call", |_| {
                Some(Reply::sse().step(mcp_testkit::http::Step::Never))
            })
            .handler(),
    );
    let client = connect(&peer).await;
    let before = peer.requests().len();
    let deadline = CallOptions::default().with_deadline(Deadline::total(5 * SECOND));
    let error = client
        .call_tool_with("echo", &json!({"text": "a"}), deadline)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert_eq!(error.was_sent(), Sent::Unknown);
    let aborted = peer.wait_aborted(1, 5 * SECOND).await;
    assert_eq!(aborted[0].rpc_method().as_deref(), Some("tools/call"));
    assert_eq!(peer.requests().len(), before + 1, "{:?}", methods(&peer));
    // The connection goes on.
    client.ping(CallOptions::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn progress_comes_on_the_stream_of_its_request() {
    let push = Push::new();
    let reply = push.clone();
    let peer = HttpPeer::memory(
        ModernServer::new()
            .on("tools/call", move |_| Some(reply.reply()))
            .handler(),
    );
    let client = connect(&peer).await;
    let (sender, mut progress) = progress_channel();
    let call = tokio::spawn({
        let client = client.clone();
        async move {
            let options = CallOptions::default().with_progress(sender);
            client.call_tool_with("echo", &json!({}), options).await
        }
    });
    let request = peer
        .wait_request("what the client sends", SECOND, |request| {
            request.rpc_method().as_deref() == Some("tools/call")
        })
        .await;
    let token = &request.json()["params"]["_meta"]["progressToken"];
    for step in 1..=3 {
        push.event(
            None,
            &json!({"jsonrpc": "2.0", "method": "notifications/progress",
                "params": {"progressToken": token, "progress": step}}),
        );
        assert_eq!(progress.recv().await.unwrap().progress, f64::from(step));
    }
    push.event(None, &text(&request, "done"));
    push.end();
    assert_eq!(call.await.unwrap().unwrap().text(), "done");
}

#[tokio::test(start_paused = true)]
async fn a_lost_stream_is_not_resumed_and_nothing_is_done_twice() {
    // HTTPM-08, C084: event ids mean nothing in this era.
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let peer = HttpPeer::memory(
        ModernServer::new()
            .on("tools/call", move |_| {
                counted.fetch_add(1, Ordering::Relaxed);
                Some(Reply::sse().chunk("id: 7\nretry: 1\ndata:\n\n"))
            })
            .handler(),
    );
    let client = connect(&peer).await;
    let error = client.call_tool("echo", &json!({})).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent()),
        (ErrorKind::Unavailable, Sent::Unknown),
        "{}",
        super::chain(&error)
    );
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    // Unless the host says that it may be.
    let repeatable = CallOptions::default().repeatable();
    client
        .call_tool_with("echo", &json!({}), repeatable)
        .await
        .unwrap_err();
    assert_eq!(calls.load(Ordering::Relaxed), 3);
    // What only reads is repeated by itself (HTTPM-09).
    let lists = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lists);
    let peer = HttpPeer::memory(
        ModernServer::new()
            .on("tools/list", move |_| {
                (counted.fetch_add(1, Ordering::Relaxed) == 0).then(Reply::sse)
            })
            .handler(),
    );
    let client = connect(&peer).await;
    assert_eq!(client.tools().await.unwrap().tools.len(), 1);
    assert_eq!(lists.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn c180_changes_of_the_list_are_told() {
    let push = Push::new();
    let reply = push.clone();
    let modern = ModernServer::new().on("subscriptions/listen", move |_| Some(reply.reply()));
    let peer = HttpPeer::memory(modern.clone().handler());
    let client = connect(&peer).await;
    let mut notifications = client.notifications();
    assert_eq!(client.tools().await.unwrap().tools.len(), 1);
    let listen = peer
        .wait_request("what the client sends", SECOND, |request| {
            request.rpc_method().as_deref() == Some("subscriptions/listen")
        })
        .await;
    assert_eq!(listen.header("mcp-method"), Some("subscriptions/listen"));
    let tag = json!({"io.modelcontextprotocol/subscriptionId": listen.rpc_id()});
    push.event(
        None,
        &json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": tag, "notifications": {"toolsListChanged": true}}}),
    );
    modern.set_tools(Vec::new());
    // C176: long after any request would have timed out.
    tokio::time::sleep(3600 * SECOND).await;
    push.event(
        None,
        &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": tag}}),
    );
    let notice = notifications.next().await.unwrap();
    assert!(
        matches!(
            notice,
            Notice::Notification(ServerNotification::ToolsListChanged)
        ),
        "{notice:?}"
    );
    assert_eq!(client.tools().await.unwrap().tools.len(), 0);
    assert_eq!(client.in_flight(), 0);
    client.close().await;
    peer.wait_aborted(1, SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_host_can_listen() {
    let push = Push::new();
    let reply = push.clone();
    let modern = ModernServer::new().on("subscriptions/listen", move |_| Some(reply.reply()));
    let peer = HttpPeer::memory(modern.handler());
    let client = connect(&peer).await;
    let mut subscription = client.listen(&ListenFilter::default().tools()).unwrap();
    let listen = peer
        .wait_request("what the client sends", SECOND, |request| {
            request.rpc_method().as_deref() == Some("subscriptions/listen")
        })
        .await;
    let tag = json!({"io.modelcontextprotocol/subscriptionId": listen.rpc_id()});
    push.event(
        None,
        &json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": tag, "notifications": {"toolsListChanged": true}}}),
    );
    let change = subscription.next().await.unwrap();
    assert!(
        matches!(&change, SubscriptionChange::Open { missing } if missing.is_empty()),
        "{change:?}"
    );
    drop(subscription);
    peer.wait_aborted(1, SECOND).await;
}
