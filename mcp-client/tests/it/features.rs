//! Resources, prompts, completion and log levels, in both eras.

use std::collections::BTreeMap;

use mcp_client::mcp_proto::connection::ServerNotification;
use mcp_client::mcp_proto::model::completion::CompletionReference;
use mcp_client::mcp_proto::model::deprecated::logging::LoggingLevel;
use mcp_client::{Client, ErrorKind, ListNote, Notice};
use mcp_testkit::pair::{Peer, Reaction, say};
use serde_json::{Value, json};

use crate::scripted::{VERSIONS, connect};

/// The handshake of a version, and a server that has everything.
fn server(version: &'static str) -> impl FnMut(&Value) -> Vec<Reaction> + Send + 'static {
    let capabilities =
        json!({"resources": {}, "prompts": {}, "completions": {}, "logging": {}, "tools": {}});
    let base = if version == "2026-07-28" {
        Peer::silent().result(
            "server/discover",
            &json!({"resultType": "complete", "supportedVersions": [version], "capabilities": capabilities}),
        )
    } else {
        Peer::silent()
            .error("server/discover", -32601, "method not found")
            .result(
                "initialize",
                &json!({"protocolVersion": version, "capabilities": capabilities,
                    "serverInfo": {"name": "peer", "version": "1"}}),
            )
    };
    let mut base = base
        .result(
            "resources/read",
            &json!({"contents": [{"uri": "note://1", "text": "high at noon"}]}),
        )
        .result(
            "prompts/get",
            &json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hello"}}]}),
        )
        .result(
            "completion/complete",
            &json!({"completion": {"values": ["Ada", "Alan"], "total": 2}}),
        )
        .result("logging/setLevel", &json!({}))
        .result("tools/call", &json!({"content": []}))
        .script();
    move |message| {
        let pages = match message["method"].as_str() {
            Some("resources/list") => json!([
                {"resources": [{"uri": "note://1", "name": "one"}, {"name": "broken"}], "nextCursor": "2"},
                {"resources": [{"uri": "note://2", "name": "two"}, {"uri": "note://1", "name": "again"}]}
            ]),
            Some("resources/templates/list") => {
                json!([{"resourceTemplates": [{"uriTemplate": "note://{id}", "name": "notes"}]}])
            }
            Some("prompts/list") => json!([
                {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": true}]}]}
            ]),
            _ => return base(message),
        };
        let page = usize::from(message["params"]["cursor"] == "2");
        vec![say(
            json!({"jsonrpc": "2.0", "id": message["id"], "result": pages[page]}).to_string(),
        )]
    }
}

fn params(log: &crate::scripted::Log, method: &str) -> Value {
    let received = log.received.lock().unwrap();
    let message = received.iter().rfind(|message| message["method"] == method);
    message.unwrap()["params"].clone()
}

#[tokio::test(start_paused = true)]
async fn lists_are_walked_and_read_in_every_version() {
    for version in VERSIONS {
        let (client, log) = connect(server(version)).await;
        assert_eq!(client.agreement().version.as_str(), version);
        let resources = client.resources().await.unwrap();
        let uris: Vec<_> = resources.entries.iter().map(|r| r.uri.as_str()).collect();
        assert_eq!(uris, ["note://1", "note://2"]);
        let notes: Vec<_> = resources.notes.iter().map(ToString::to_string).collect();
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("can't be told from others"), "{notes:?}");
        assert!(notes[1].contains("twice"), "{notes:?}");
        let templates = client.resource_templates().await.unwrap();
        assert_eq!(templates.entries[0].uri_template, "note://{id}");
        let prompts = client.prompts().await.unwrap();
        let nothing = BTreeMap::new();
        let missing: Vec<_> = prompts.entries[0].missing(&nothing).collect();
        assert_eq!(missing, ["who"]);
        assert_eq!(log.count("resources/list"), 2);

        let read = client.read_resource("note://%31 ä").await.unwrap();
        assert_eq!(read.text(), "high at noon");
        // RES-07: not a byte of it was changed.
        assert_eq!(params(&log, "resources/read")["uri"], "note://%31 ä");
        let who = BTreeMap::from([("who".to_owned(), "Ada".to_owned())]);
        let prompt = client.get_prompt("greet", &who).await.unwrap();
        assert_eq!(prompt.messages.len(), 1);
        assert_eq!(
            params(&log, "prompts/get")["arguments"],
            json!({"who": "Ada"})
        );
    }
}

#[tokio::test(start_paused = true)]
async fn comp_03_older_versions_get_no_context() {
    for version in VERSIONS {
        let (client, log) = connect(server(version)).await;
        let chosen = BTreeMap::from([("lang".to_owned(), "en".to_owned())]);
        let values = client
            .complete(CompletionReference::prompt("greet"), "who", "A", &chosen)
            .await
            .unwrap();
        assert_eq!((values.values.len(), values.total), (2, Some(2)));
        let sent = params(&log, "completion/complete");
        assert_eq!(sent["ref"], json!({"type": "ref/prompt", "name": "greet"}));
        assert_eq!(
            sent.get("context").is_some(),
            version >= "2025-06-18",
            "{version}: {sent}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn log_01_log_03_levels_are_set_as_the_era_wants_it() {
    for version in VERSIONS {
        let (client, log) = connect(server(version)).await;
        let mut notifications = client.notifications();
        client.set_log_level(LoggingLevel::Warning).await.unwrap();
        client.call_tool("t", &json!({})).await.unwrap();
        let meta = params(&log, "tools/call")["_meta"]["io.modelcontextprotocol/logLevel"].clone();
        if version == "2026-07-28" {
            assert_eq!((meta, log.count("logging/setLevel")), (json!("warning"), 0));
        } else {
            assert_eq!((meta, log.count("logging/setLevel")), (Value::Null, 1));
            assert_eq!(params(&log, "logging/setLevel")["level"], "warning");
        }
        log.say(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":"x"}}"#);
        let notice = notifications.next().await.unwrap();
        assert!(
            matches!(&notice, Notice::Notification(ServerNotification::Log(log)) if log.level == LoggingLevel::Error),
            "{notice:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_offered_is_not_asked_for() {
    let (client, log) = connect(Peer::legacy("2025-11-25").script()).await;
    let not_offered = |notes: &[ListNote], name: &str| {
        assert!(
            matches!(notes, [ListNote::NotOffered { capability }] if *capability == name),
            "{notes:?}"
        );
    };
    not_offered(&client.resources().await.unwrap().notes, "resources");
    not_offered(
        &client.resource_templates().await.unwrap().notes,
        "resources",
    );
    not_offered(&client.prompts().await.unwrap().notes, "prompts");
    let refused = |outcome: Result<(), mcp_client::Error>| {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Usage);
    };
    let nothing = BTreeMap::new();
    refused(client.read_resource("x:").await.map(drop));
    refused(client.get_prompt("x", &nothing).await.map(drop));
    refused(client.set_log_level(LoggingLevel::Info).await);
    // In the oldest version nothing tells whether it is there (COMP-01), so the server is asked.
    let asked = complete(&client);
    log_has(&log, asked).await;
}

/// A completion that nobody answers is under way.
async fn complete(client: &Client) {
    let nothing = BTreeMap::new();
    let reference = CompletionReference::resource("note://{id}");
    let _ = tokio::time::timeout(
        std::time::Duration::from_secs(1),
        client.complete(reference, "id", "", &nothing),
    )
    .await;
}

async fn log_has(log: &crate::scripted::Log, asked: impl Future<Output = ()>) {
    asked.await;
    assert_eq!(log.count("completion/complete"), 1);
    assert_eq!(log.count("resources/list") + log.count("prompts/list"), 0);
}
