//! An extension that the workspace does not know, added from outside: capability, method, result type, `_meta`, a request of
//! the server, a listen filter and notifications.

use mcp_client::mcp_proto::connection::ServerNotification;
use mcp_client::mcp_proto::meta::RequestMeta;
use mcp_client::mcp_proto::method::Method;
use mcp_client::{CallOptions, ClientOptions, ErrorKind, ListenFilter, Notice};
use mcp_testkit::pair::{Reaction, say};
use serde_json::value::to_raw_value;
use serde_json::{Map, Value, json};

use crate::scripted::{connect_with, options, result};

const EXTENSION: &str = "com.example/doors";

/// `com.example/open`: opens a door, now or later.
struct OpenDoor;

#[derive(serde::Serialize)]
struct Door<'a> {
    door: &'a str,
}

#[derive(Debug, PartialEq)]
enum Opened {
    Now,
    Later(u64),
}

impl Method for OpenDoor {
    const NAME: &'static str = "com.example/open";
    type Params<'a> = Door<'a>;
    type Result = Opened;

    fn read(_: &str) -> Result<Opened, String> {
        Ok(Opened::Now)
    }

    fn read_extension(result_type: &str, result: &str) -> Option<Result<Opened, String>> {
        (result_type == "com.example/later").then(|| {
            let result: Value = serde_json::from_str(result).map_err(|error| error.to_string())?;
            result["minutes"]
                .as_u64()
                .map(Opened::Later)
                .ok_or_else(|| "when?".to_owned())
        })
    }
}

fn with_doors() -> ClientOptions {
    let mut options = options().with_extension_handler("com.example/ring", |asked| async move {
        let params: Value = asked.params.unwrap().parse().unwrap();
        Ok(to_raw_value(&json!({"heard": params["bell"]})).unwrap())
    });
    let capabilities = std::mem::take(&mut options.config.capabilities);
    options.config.capabilities = capabilities.with_extension(EXTENSION, Map::new());
    options
        .config
        .result_types
        .insert("com.example/later".to_owned());
    options
}

fn server(version: &'static str) -> impl FnMut(&Value) -> Vec<Reaction> + Send {
    let mut call = Value::Null;
    move |message| {
        let id = &message["id"];
        let capabilities = json!({"extensions": {EXTENSION: {}}, "tools": {"listChanged": true}});
        let params = &message["params"];
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
            Some("com.example/open") if params["door"] == "bell" => {
                call = id.clone();
                vec![say(
                    json!({"jsonrpc": "2.0", "id": 1, "method": "com.example/ring", "params": {"bell": "dong"}})
                        .to_string(),
                )]
            }
            Some("com.example/open") => match params["door"].as_str() {
                Some("left") => vec![result(id, &json!({}))],
                Some(_) => vec![result(
                    id,
                    &json!({"resultType": "com.example/later", "minutes": 5}),
                )],
                None => vec![],
            },
            Some("subscriptions/listen") => {
                let subscription = json!({"io.modelcontextprotocol/subscriptionId": id});
                let granted = &params["notifications"];
                vec![
                    say(json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                        "params": {"_meta": subscription, "notifications": granted}}).to_string()),
                    say(json!({"jsonrpc": "2.0", "method": "notifications/com.example/door",
                        "params": {"_meta": subscription, "door": granted["com.example/doors"][0]}}).to_string()),
                ]
            }
            Some("server/discover") => vec![say(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}})
                    .to_string(),
            )],
            Some(_) => vec![],
            None => {
                assert_eq!(message["result"], json!({"heard": "dong"}));
                vec![result(&call, &json!({}))]
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn ext_09_an_extension_can_add_everything() {
    let (client, log) = connect_with(with_doors(), server("2026-07-28")).await;
    let mut meta = RequestMeta::new();
    meta.insert("com.example/key", json!("k")).unwrap();
    let options = CallOptions::default().with_meta(meta);
    let opened = client
        .request::<OpenDoor>(&Door { door: "left" }, options)
        .await;
    assert_eq!(opened.unwrap(), Opened::Now);
    let later = client
        .request::<OpenDoor>(&Door { door: "right" }, CallOptions::default())
        .await;
    assert_eq!(later.unwrap(), Opened::Later(5));
    let sent = log.received.lock().unwrap()[1].clone();
    assert_eq!(sent["params"]["_meta"]["com.example/key"], "k");
    let declared = &sent["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*declared, json!({"extensions": {EXTENSION: {}}}));

    let mut notifications = client.notifications();
    let filter = ListenFilter::default()
        .tools()
        .extension("com.example/doors", json!(["left"]));
    let changes = client.watch(&filter).await.unwrap();
    assert!(changes.missing().is_empty());
    let notice = notifications.next().await.unwrap();
    let Notice::Notification(ServerNotification::Other { method, params }) = notice else {
        panic!("{notice:?}");
    };
    assert_eq!(method, "notifications/com.example/door");
    assert!(params.unwrap().as_str().contains("left"));
}

/// EXT-03: the legacy era declares it once, and its servers ask by themselves.
#[tokio::test(start_paused = true)]
async fn ext_03_legacy_servers_may_ask_too() {
    let (client, log) = connect_with(with_doors(), server("2025-11-25")).await;
    let opened = client
        .request::<OpenDoor>(&Door { door: "bell" }, CallOptions::default())
        .await;
    assert_eq!(opened.unwrap(), Opened::Now);
    let received = log.received.lock().unwrap();
    let initialize = received
        .iter()
        .find(|message| message["method"] == "initialize");
    let declared = &initialize.unwrap()["params"]["capabilities"];
    assert_eq!(*declared, json!({"extensions": {EXTENSION: {}}}));
}

/// EXT-05: nothing of it without the host's word.
#[tokio::test(start_paused = true)]
async fn ext_05_extensions_are_off_by_default() {
    let (client, log) = connect_with(options(), server("2026-07-28")).await;
    let later = client
        .request::<OpenDoor>(&Door { door: "right" }, CallOptions::default())
        .await;
    assert_eq!(later.unwrap_err().kind(), ErrorKind::InvalidAnswer);
    let sent = log.received.lock().unwrap()[1].clone();
    let declared = &sent["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(*declared, json!({}));
}
