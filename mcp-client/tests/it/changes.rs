//! Changes, told in one way in both eras.

use mcp_client::mcp_proto::model::subscription::ListenFilter;
use mcp_client::{Change, ErrorKind};
use mcp_testkit::pair::{Reaction, say};
use serde_json::{Value, json};

use crate::scripted::{Log, VERSIONS, connect, result};

/// A server of this version that offers these capabilities, and subscriptions to all but `note://secret`.
fn server(
    version: &'static str,
    capabilities: Value,
) -> impl FnMut(&Value) -> Vec<Reaction> + Send {
    move |message| {
        let id = &message["id"];
        let refusal = || {
            say(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
                    .to_string(),
            )
        };
        match message["method"].as_str() {
            Some("server/discover") if version == "2026-07-28" => vec![result(
                id,
                &json!({"supportedVersions": [version], "capabilities": capabilities}),
            )],
            Some("initialize") => vec![result(
                id,
                &json!({"protocolVersion": version, "capabilities": capabilities,
                    "serverInfo": {"name": "peer", "version": "1"}}),
            )],
            Some("resources/subscribe") if message["params"]["uri"] != "note://secret" => {
                vec![result(id, &json!({}))]
            }
            Some("resources/unsubscribe") => vec![result(id, &json!({}))],
            Some("subscriptions/listen") => {
                let mut granted = message["params"]["notifications"].clone();
                if granted["resourceSubscriptions"] == json!(["note://secret"]) {
                    return vec![refusal()];
                }
                granted["promptsListChanged"] = Value::Null;
                vec![say(
                    json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": id}, "notifications": granted}})
                    .to_string(),
                )]
            }
            Some("server/discover") | Some("resources/subscribe") => vec![refusal()],
            _ => vec![],
        }
    }
}

fn everything() -> Value {
    json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true},
        "resources": {"listChanged": true, "subscribe": true}})
}

fn updated(log: &Log, uri: &str) {
    let params = json!({"uri": uri});
    log.say(
        &json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params})
            .to_string(),
    );
}

fn changed(log: &Log, list: &str) {
    let method = format!("notifications/{list}/list_changed");
    log.say(&json!({"jsonrpc": "2.0", "method": method}).to_string());
}

#[tokio::test(start_paused = true)]
async fn one_stream_of_changes_in_every_version() {
    for version in VERSIONS {
        let (client, log) = connect(server(version, everything())).await;
        let wanted = ListenFilter::default().tools().resource("note://1");
        let mut changes = client.watch(&wanted).await.unwrap();
        assert!(changes.missing().is_empty(), "{version}");
        changed(&log, "prompts");
        changed(&log, "tools");
        // SUB-22: told twice, heard once.
        changed(&log, "tools");
        updated(&log, "note://2");
        updated(&log, "note://1/part");
        assert_eq!(changes.next().await, Some(Change::ToolsList), "{version}");
        let part = "note://1/part".to_owned();
        assert_eq!(changes.next().await, Some(Change::Resource { uri: part }));
        log.end("gone");
        assert_eq!(changes.next().await, None);
    }
}

/// SUB-01: the server is told of the first watcher and of the last one.
#[tokio::test(start_paused = true)]
async fn a_legacy_server_is_asked_once_for_each_resource() {
    let (client, log) = connect(server("2025-11-25", everything())).await;
    let first = client.subscribe("note://1").await.unwrap();
    let second = client.subscribe("note://1").await.unwrap();
    assert_eq!(log.count("resources/subscribe"), 1);
    drop(first);
    let third = client.subscribe("note://3").await.unwrap();
    assert_eq!(log.count("resources/unsubscribe"), 0);
    drop(second);
    drop(third);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(log.count("resources/subscribe"), 2);
    assert_eq!(log.count("resources/unsubscribe"), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_offered_is_told_at_once() {
    for version in ["2025-11-25", "2026-07-28"] {
        let (client, log) = connect(server(version, json!({"tools": {}}))).await;
        let error = client.subscribe("note://1").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage, "{error}");
        assert_eq!(
            log.count("resources/subscribe") + log.count("subscriptions/listen"),
            0
        );

        let (client, log) = connect(server(version, everything())).await;
        let error = client.subscribe("note://secret").await.unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Rpc | ErrorKind::Refused),
            "{error}"
        );
        client.close().await;
        assert_eq!(
            log.count("resources/unsubscribe"),
            0,
            "nothing to take back"
        );
    }
    // SUB-13: a part is better than nothing, and told.
    let (client, _) = connect(server("2026-07-28", everything())).await;
    let wanted = ListenFilter::default().prompts().resource("note://1");
    let changes = client.watch(&wanted).await.unwrap();
    assert_eq!(*changes.missing(), ListenFilter::default().prompts());
    let (client, _) = connect(server(
        "2025-11-25",
        json!({"tools": {"listChanged": true}}),
    ))
    .await;
    let changes = client.watch(&wanted.clone().tools()).await.unwrap();
    assert_eq!(*changes.missing(), wanted);
}

/// SUB-15, SUB-17: gaps and ends are visible.
#[tokio::test(start_paused = true)]
async fn gaps_and_ends_are_told() {
    let (client, log) = connect(server("2026-07-28", everything())).await;
    let mut changes = client.subscribe("note://1").await.unwrap();
    // An answer that is none cuts it off.
    log.say(r#"{"jsonrpc":"2.0","id":2,"result":7,"error":7}"#);
    let change = changes.next().await.unwrap();
    assert!(matches!(change, Change::Interrupted { .. }), "{change:?}");
    assert_eq!(changes.next().await, Some(Change::Missed));
    log.say(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#);
    let change = changes.next().await.unwrap();
    assert!(matches!(change, Change::Ended { .. }), "{change:?}");
    assert_eq!(changes.next().await, None);
}
