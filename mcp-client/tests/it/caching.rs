//! Results that a modern server allows to be used again.

use std::time::Duration;

use mcp_client::CallOptions;
use mcp_client::mcp_proto::method::ReadResource;
use mcp_client::mcp_proto::model::resource::ResourceParams;
use mcp_testkit::pair::Reaction;
use serde_json::{Value, json};

use crate::scripted::{connect, connect_with, options, result};

/// A server of this version whose results may be used for a minute; those of `note://asks` after a question.
fn server(version: &'static str) -> impl FnMut(&Value) -> Vec<Reaction> + Send {
    let capabilities = json!({"tools": {}, "prompts": {}, "resources": {"subscribe": true}});
    move |message| {
        let id = &message["id"];
        let kept = |mut value: Value| {
            value["ttlMs"] = json!(60_000);
            result(id, &value)
        };
        let params = &message["params"];
        match message["method"].as_str() {
            Some("server/discover") => vec![result(
                id,
                &json!({"supportedVersions": [version], "capabilities": capabilities}),
            )],
            Some("initialize") => vec![result(
                id,
                &json!({"protocolVersion": version, "capabilities": capabilities,
                    "serverInfo": {"name": "peer", "version": "1"}}),
            )],
            Some("resources/read") if params["uri"] == "note://asks" => {
                match params.get("requestState") {
                    None => vec![result(
                        id,
                        &json!({"resultType": "input_required", "requestState": "s"}),
                    )],
                    Some(_) => vec![kept(json!({"contents": []}))],
                }
            }
            Some("resources/read") => vec![kept(json!({"contents": []}))],
            Some("prompts/list") => match params.get("cursor") {
                None => vec![kept(json!({"prompts": [{"name": "a"}], "nextCursor": "2"}))],
                Some(_) => vec![kept(json!({"prompts": [{"name": "b"}]}))],
            },
            Some("tools/list") => vec![kept(json!({"tools": []}))],
            _ => vec![],
        }
    }
}

#[tokio::test(start_paused = true)]
async fn c151_what_is_fresh_is_not_asked_for_again() {
    let (client, log) = connect(server("2026-07-28")).await;
    for _ in 0..3 {
        client.read_resource("note://1").await.unwrap();
        client.tools().await.unwrap();
        let prompts = client.prompts().await.unwrap();
        assert_eq!(prompts.entries.len(), 2);
    }
    let counts =
        || ["resources/read", "tools/list", "prompts/list"].map(|method| log.count(method));
    assert_eq!(counts(), [1, 1, 2]);
    // CACHE-03: another question has another answer.
    client.read_resource("note://2").await.unwrap();
    assert_eq!(counts(), [2, 1, 2]);
    let read = |options| {
        let client = client.clone();
        async move {
            let params = ResourceParams::new("note://1");
            client
                .request::<ReadResource>(&params, options)
                .await
                .unwrap()
        }
    };
    read(CallOptions::default().refresh()).await;
    assert_eq!(counts(), [3, 1, 2]);
    // CACHE-05.
    log.say(
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"note://1"}}"#,
    );
    client.ping(CallOptions::default()).await.unwrap();
    read(CallOptions::default()).await;
    client.read_resource("note://2").await.unwrap();
    assert_eq!(counts(), [4, 1, 2]);
    // CACHE-02: and CACHE-04, for another's authorization.
    for age in [Duration::from_secs(61), Duration::ZERO] {
        let before = counts();
        tokio::time::advance(age).await;
        if age.is_zero() {
            client.authorization_changed();
        }
        client.read_resource("note://1").await.unwrap();
        client.tools().await.unwrap();
        client.prompts().await.unwrap();
        let after = counts();
        assert_eq!(
            [
                after[0] - before[0],
                after[1] - before[1],
                after[2] - before[2]
            ],
            [1, 1, 2]
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_kept_is_asked_for_each_time() {
    // CACHE-09: a result that answers made.
    let (client, log) = connect(server("2026-07-28")).await;
    for _ in 0..2 {
        client.read_resource("note://asks").await.unwrap();
    }
    assert_eq!(log.count("resources/read"), 4);
    // CACHE-11: a legacy result carries no hints.
    let (client, log) = connect(server("2025-11-25")).await;
    for _ in 0..2 {
        client.read_resource("note://1").await.unwrap();
    }
    assert_eq!(log.count("resources/read"), 2);
    // The host does not want it.
    let mut off = options();
    off.cache_limits.max_entries = 0;
    let (client, log) = connect_with(off, server("2026-07-28")).await;
    for _ in 0..2 {
        client.read_resource("note://1").await.unwrap();
    }
    assert_eq!(log.count("resources/read"), 2);
}
