//! The legacy era over Streamable HTTP: sessions, their loss, requests of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mcp_client::mcp_proto::connection::ServerNotification;
use mcp_client::{ErrorKind, Notice, Sent};
use mcp_testkit::http::{HttpPeer, LegacyServer, Push, Reply, Style};
use serde_json::{Value, json};

use super::{chain, connect, connect_to, echo, methods, options, result, server, text};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn c101_c124_a_session_is_kept_and_deleted() {
    for style in [Style::Json, Style::Sse] {
        let legacy = LegacyServer::new().style(style);
        let peer = HttpPeer::memory(legacy.clone().handler());
        let client = connect(&peer).await;
        assert_eq!(client.agreement().version.as_str(), "2025-11-25");
        assert!(echo(&client, "hi").await.unwrap().contains("hi"));
        let facts = client.channel_facts();
        assert!(facts.contains(&("session", "held".to_owned())), "{facts:?}");
        let [session] = &legacy.sessions()[..] else {
            panic!("{:?}", legacy.sessions());
        };
        // SEC-09: it is shown nowhere.
        assert!(!format!("{facts:?}{client:?}").contains(session));
        let report = client.close().await;
        assert_eq!(report.summary, "the session was deleted");
        assert_eq!(legacy.deleted(), std::slice::from_ref(session));
        for request in peer.requests() {
            let (after, version) = match request.rpc_method().as_deref() {
                Some("server/discover" | "initialize") => (None, None),
                _ => (Some(session.as_str()), Some("2025-11-25")),
            };
            assert_eq!(request.header("mcp-session-id"), after, "{request:?}");
            if request.rpc_method().as_deref() != Some("server/discover") {
                assert_eq!(
                    request.header("mcp-protocol-version"),
                    version,
                    "{request:?}"
                );
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c101_sessions_that_can_not_be_deleted_are_left() {
    let cases: Vec<(Reply, &str)> = vec![
        (
            Reply::status(405),
            "the server does not let sessions be deleted",
        ),
        (Reply::status(500), "HTTP 500"),
        (Reply::never(), "no answer within 2s (limit delete_timeout)"),
        (Reply::hang_up(), "HTTP"),
    ];
    for (reply, expected) in cases {
        let reply = std::sync::Mutex::new(Some(reply));
        let legacy = LegacyServer::new().on("DELETE", move |_| reply.lock().unwrap().take());
        let peer = HttpPeer::memory(legacy.handler());
        let client = connect(&peer).await;
        let begun = tokio::time::Instant::now();
        let report = client.close().await;
        assert!(
            report.summary.contains(expected) || expected == "HTTP",
            "{}",
            report.summary
        );
        assert!(
            report
                .summary
                .starts_with("the session was left to the server"),
            "{report:?}"
        );
        assert!(begun.elapsed() <= 3 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn the_handshake_ends_before_anything_follows() {
    // HTTPL-15: the first request waits until the notification was accepted.
    let legacy = LegacyServer::new().on("notifications/initialized", |_| {
        Some(Reply::status(202).wait(5 * SECOND))
    });
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    let calls = async { tokio::join!(echo(&client, "a"), echo(&client, "b")) };
    let (a, b) = calls.await;
    assert!(a.is_ok() && b.is_ok());
    let order = methods(&peer);
    let at = |name: &str| order.iter().position(|method| method == name).unwrap();
    assert!(
        at("notifications/initialized") < at("tools/call"),
        "{order:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn c099_c100_a_forgotten_session_is_opened_anew() {
    let legacy = LegacyServer::new();
    let peer = HttpPeer::memory(legacy.clone().handler());
    let client = connect(&peer).await;
    let mut notifications = client.notifications();
    assert!(echo(&client, "a").await.is_ok());
    legacy.forget_sessions();
    // The call that met it was refused, which is told; what only reads is repeated by itself.
    let error = client
        .call_tool("echo", &json!({"text": "b"}))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent(), error.http_status()),
        (ErrorKind::Unavailable, Sent::No, Some(404)),
        "{}",
        chain(&error)
    );
    assert!(echo(&client, "c").await.is_ok());
    let notice = notifications.next().await.unwrap();
    assert!(
        matches!(
            notice,
            Notice::Notification(ServerNotification::MissedChanges)
        ),
        "{notice:?}"
    );
    legacy.forget_sessions();
    assert_eq!(client.tools().await.unwrap().tools.len(), 1);
    let initializes: Vec<_> = peer
        .requests()
        .into_iter()
        .filter(|request| request.rpc_method().as_deref() == Some("initialize"))
        .collect();
    assert_eq!(initializes.len(), 3);
    for request in initializes {
        assert_eq!(request.header("mcp-session-id"), None);
    }
    // C084: no call was made twice.
    let calls: Vec<_> = peer
        .requests()
        .into_iter()
        .filter(|request| request.rpc_method().as_deref() == Some("tools/call"))
        .map(|request| request.json()["params"]["arguments"]["text"].clone())
        .collect();
    assert_eq!(calls, ["a", "b", "c"]);
    client.close().await;
    assert_eq!(
        legacy.deleted().len(),
        1,
        "only the last one is left to delete"
    );
}

#[tokio::test(start_paused = true)]
async fn c099_words_tell_a_lost_session_too() {
    let lost = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lost);
    let legacy = LegacyServer::new().on("tools/list", move |request| {
        let error = json!({"jsonrpc": "2.0", "id": null,
            "error": {"code": -32000, "message": "Bad Request: No valid session ID provided"}});
        (counted.fetch_add(1, Ordering::Relaxed) == 0 && request.rpc_id() != Value::Null)
            .then(|| Reply::json(400, &error))
    });
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    assert_eq!(client.tools().await.unwrap().tools.len(), 1);
    let quirks = format!("{:?}", client.diagnostics().quirks);
    assert!(quirks.contains("SessionLostInWords"), "{quirks}");
}

#[tokio::test(start_paused = true)]
async fn a_server_without_sessions_needs_no_delete() {
    let legacy = LegacyServer::new().without_sessions();
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    assert!(echo(&client, "a").await.is_ok());
    assert_eq!(client.close().await.summary, "there was no session to end");
    assert!(!methods(&peer).contains(&"DELETE".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn requests_of_the_server_are_answered_on_posts_of_their_own() {
    // HTTPL-23: while the stream of the call stays open.
    let push = Push::new();
    let reply = push.clone();
    let legacy = LegacyServer::new().on("tools/call", move |_| Some(reply.reply()));
    let peer = HttpPeer::memory(legacy.handler());
    let client = connect(&peer).await;
    let call = tokio::spawn({
        let client = client.clone();
        async move { echo(&client, "a").await }
    });
    let request = peer
        .wait_request("what the client sends", SECOND, |request| {
            request.rpc_method().as_deref() == Some("tools/call")
        })
        .await;
    // C088: with the id of the call itself.
    let id = request.rpc_id();
    push.event(None, &json!({"jsonrpc": "2.0", "id": id, "method": "ping"}));
    push.event(
        None,
        &json!({"jsonrpc": "2.0", "id": "r1", "method": "roots/list"}),
    );
    let answered = |wanted: Value| {
        move |request: &mcp_testkit::http::Request| {
            request.rpc_method().is_none() && request.method == "POST" && request.rpc_id() == wanted
        }
    };
    let pong = peer
        .wait_request("what the client sends", SECOND, answered(id))
        .await;
    assert_eq!(pong.json()["result"], json!({}));
    let refusal = peer
        .wait_request("what the client sends", SECOND, answered(json!("r1")))
        .await;
    assert_eq!(refusal.json()["error"]["code"], -32601);
    assert!(refusal.header("mcp-session-id").is_some());
    push.event(None, &text(&request, "done"));
    push.end();
    assert_eq!(call.await.unwrap(), Ok("done".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn versions_without_the_header_do_not_get_it() {
    for (version, header) in [
        ("2025-03-26", None),
        ("2025-06-18", Some("2025-06-18")),
        ("2024-11-05", None),
    ] {
        let peer = HttpPeer::memory(LegacyServer::new().version(version).handler());
        let client = connect(&peer).await;
        let _ = echo(&client, "a").await;
        let call = peer
            .requests()
            .into_iter()
            .find(|request| request.rpc_method().as_deref() == Some("tools/call"))
            .unwrap();
        assert_eq!(call.header("mcp-protocol-version"), header, "{version}");
    }
}

#[tokio::test(start_paused = true)]
async fn session_ids_are_checked() {
    // HTTPL-11.
    let legacy = LegacyServer::new().on("initialize", |request| {
        let answer = result(
            request,
            &json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "serverInfo": {"name": "x", "version": "1"}}),
        );
        Some(Reply::json(200, &answer).header("Mcp-Session-Id", "a b"))
    });
    let peer = HttpPeer::memory(legacy.handler());
    let error = connect_to(server(&peer), options()).await.unwrap_err();
    assert!(
        chain(&error).contains("not visible ASCII"),
        "{}",
        chain(&error)
    );
}
