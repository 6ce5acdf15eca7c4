//! The tool list: kept, refreshed, walked through.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::{CallOptions, ErrorKind, Sent};
use mcp_testkit::pair::{Peer, Reaction, say, say_after};
use serde_json::{Value, json};

use crate::scripted::connect;

/// A legacy server whose tool list is whatever `names` holds, one tool per page.
fn listing(
    names: Arc<Mutex<Vec<&'static str>>>,
) -> impl FnMut(&Value) -> Vec<Reaction> + Send + 'static {
    let mut base = Peer::legacy("2025-11-25")
        .result("tools/call", &json!({}))
        .script();
    move |message| {
        if message["method"] != "tools/list" {
            return base(message);
        }
        let names = names.lock().unwrap();
        let at: usize = message["params"]["cursor"]
            .as_str()
            .map_or(0, |cursor| cursor.parse().unwrap());
        let tools: Vec<_> = names
            .get(at)
            .map(|name| json!({"name": name, "inputSchema": {"type": "object"}}))
            .into_iter()
            .collect();
        let mut result = json!({"tools": tools});
        if at + 1 < names.len() {
            result["nextCursor"] = json!((at + 1).to_string());
        }
        vec![say(
            json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string(),
        )]
    }
}

#[tokio::test(start_paused = true)]
async fn d4_the_list_is_kept_until_it_changes() {
    let names = Arc::new(Mutex::new(vec!["b", "a", "b"]));
    let (client, log) = connect(listing(Arc::clone(&names))).await;
    // A call needs no list before it.
    client.call_tool("anything", &json!({})).await.unwrap();
    assert_eq!(log.count("tools/list"), 0);

    let list = client.tools().await.unwrap();
    assert_eq!(
        list.tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect::<Vec<_>>(),
        ["b", "a"]
    ); // TOOL-04, C158
    assert_eq!(list.notes.len(), 1);
    let (first, second) = tokio::join!(client.tools(), client.tools());
    assert!(Arc::ptr_eq(&first.unwrap(), &list) && Arc::ptr_eq(&second.unwrap(), &list));
    assert_eq!(log.count("tools/list"), 3);

    // C142: honoured although the server declared no listChanged.
    names.lock().unwrap().push("c");
    log.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
    client.call_tool("a", &json!({})).await.unwrap();
    assert_eq!(log.count("tools/list"), 3, "a change alone fetches nothing");
    assert!(client.tools().await.unwrap().get("c").is_some());
    assert_eq!(log.count("tools/list"), 7);
}

#[tokio::test(start_paused = true)]
async fn d4_an_unknown_name_is_looked_up_once_more() {
    let names = Arc::new(Mutex::new(vec!["a"]));
    let (client, log) = connect(listing(Arc::clone(&names))).await;
    client.tools().await.unwrap();
    names.lock().unwrap().push("new");
    client.call_tool("new", &json!({})).await.unwrap();
    assert_eq!(log.count("tools/list"), 3);
    let error = client.call_tool("missing", &json!({})).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent()),
        (ErrorKind::UnknownTool, Sent::No)
    );
    assert_eq!(log.count("tools/list"), 5);
    assert_eq!(log.count("tools/call"), 1);
}

#[tokio::test(start_paused = true)]
async fn concurrent_callers_share_one_fetch() {
    let names = Arc::new(Mutex::new(vec!["a"]));
    let (client, log) = connect(listing(names)).await;
    let lists = (0..10).map(|_| {
        let client = client.clone();
        tokio::spawn(async move { client.tools().await.unwrap().tools.len() })
    });
    for list in lists.collect::<Vec<_>>() {
        assert_eq!(list.await.unwrap(), 1);
    }
    assert_eq!(log.count("tools/list"), 1);
}

#[tokio::test(start_paused = true)]
async fn page_05_a_refused_cursor_starts_over_once() {
    let mut refusals = 1;
    let names = Arc::new(Mutex::new(vec!["a", "b"]));
    let mut base = listing(names);
    let (client, log) = connect(move |message: &Value| {
        if message["params"]["cursor"] == "1" && refusals > 0 {
            refusals -= 1;
            let error = json!({"code": -32602, "message": "stale cursor"});
            return vec![say(
                json!({"jsonrpc": "2.0", "id": message["id"], "error": error}).to_string(),
            )];
        }
        base(message)
    })
    .await;
    let list = client.tools().await.unwrap();
    assert_eq!(
        list.tools
            .iter()
            .map(|tool| tool.name.as_str())
            .collect::<Vec<_>>(),
        ["a", "b"]
    );
    assert_eq!(log.count("tools/list"), 4);
}

#[tokio::test(start_paused = true)]
async fn c140_endless_pages_end() {
    let page = json!({"tools": [{"name": "x", "inputSchema": {}}], "nextCursor": "p1"});
    let (client, log) = connect(
        Peer::legacy("2025-11-25")
            .result("tools/list", &page)
            .script(),
    )
    .await;
    let list = client.tools().await.unwrap();
    assert_eq!((list.tools.len(), log.count("tools/list")), (1, 2));
    let mut count = 0;
    let mut base = Peer::legacy("2025-11-25").script();
    let (client, log) = connect(move |message: &Value| {
        if message["method"] != "tools/list" {
            return base(message);
        }
        count += 1;
        let result = json!({"tools": [{"name": format!("t{count}"), "inputSchema": {}}], "nextCursor": count.to_string()});
        vec![say(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string())]
    })
    .await;
    let list = client.tools().await.unwrap();
    assert_eq!((list.tools.len(), log.count("tools/list")), (100, 100));
    assert!(
        list.notes[0].to_string().contains("max_pages"),
        "{}",
        list.notes[0]
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_without_tools_has_an_empty_list() {
    let peer = Peer::silent()
        .error("server/discover", -32601, "no")
        .result(
            "initialize",
            &json!({"protocolVersion": "2025-11-25", "capabilities": {}}),
        );
    let (client, log) = connect(peer.script()).await;
    let list = client.tools().await.unwrap();
    assert!(list.tools.is_empty());
    assert_eq!(list.notes[0].to_string(), "the server does not offer tools");
    assert_eq!(log.count("tools/list"), 0);
    let error = client.call_tool("x", &json!({})).await.unwrap_err();
    assert_eq!(error.was_sent(), Sent::No);
}

#[tokio::test(start_paused = true)]
async fn a_look_for_an_unknown_name_keeps_the_calls_own_limit_and_is_shared() {
    let mut lists = 0;
    let mut base = Peer::legacy("2025-11-25").script();
    let (client, log) = connect(move |message: &Value| {
        if message["method"] != "tools/list" {
            return base(message);
        }
        lists += 1;
        let delay = Duration::from_secs(if lists == 1 { 0 } else { 3 });
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}});
        vec![say_after(delay, answer.to_string())]
    })
    .await;
    client.tools().await.unwrap();
    let start = tokio::time::Instant::now();
    let short = Deadline::total(Duration::from_millis(200));
    let options = CallOptions::default().with_deadline(short);
    let error = client
        .call_tool_with("x", &json!({}), options)
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent(), start.elapsed()),
        (ErrorKind::Timeout, Sent::No, Duration::from_millis(200))
    );
    let before = log.count("tools/list");
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.call_tool("x", &json!({})).await.unwrap_err().kind() })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), ErrorKind::UnknownTool);
    }
    assert_eq!(log.count("tools/list") - before, 1);
}
