//! Tasks in both designs, behind one handle.

use std::time::Duration;

use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::mcp_proto::model::elicitation::FormAnswer;
use mcp_client::mcp_proto::model::task::TaskStatus;
use mcp_client::{CallOptions, ClientOptions, ErrorKind, ToolOutcome};
use mcp_testkit::pair::{Reaction, say};
use serde_json::{Value, json};

use crate::scripted::{Log, connect_with, options, result};

const EXTENSION: &str = "2026-07-28";
const EXPERIMENTAL: &str = "2025-11-25";

fn with_tasks() -> ClientOptions {
    options()
        .with_tasks()
        .with_form_elicitation(|_| async { Ok(FormAnswer::Decline) })
}

fn error(id: &Value, code: i64) -> Reaction {
    say(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}).to_string())
}

fn task(status: &str) -> Value {
    json!({"taskId": "t1", "status": status, "pollInterval": 2000, "pollIntervalMs": 2000})
}

/// A server of this version; `polls` answers the questions after the task, one after the other, the last one for ever.
fn server(version: &'static str, polls: Vec<Value>) -> impl FnMut(&Value) -> Vec<Reaction> + Send {
    let mut polls = polls.into_iter().peekable();
    let mut waiting = Value::Null;
    move |message| {
        let id = &message["id"];
        let extension = version == EXTENSION;
        let capabilities = json!({"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}});
        match message["method"].as_str() {
            Some("server/discover") if extension => vec![result(
                id,
                &json!({"supportedVersions": [version], "capabilities": {"tools": {}}}),
            )],
            Some("initialize") => vec![result(
                id,
                &json!({"protocolVersion": version, "capabilities": capabilities,
                    "serverInfo": {"name": "peer", "version": "1"}}),
            )],
            Some("tools/list") => vec![result(
                id,
                &json!({"tools": [
                    {"name": "must", "inputSchema": {}, "execution": {"taskSupport": "required"}},
                    {"name": "may", "inputSchema": {}, "execution": {"taskSupport": "optional"}},
                    {"name": "plain", "inputSchema": {}}]}),
            )],
            Some("tools/call") if extension => {
                let mut begun = task("working");
                begun["resultType"] = json!("task");
                vec![result(id, &begun)]
            }
            Some("tools/call") => {
                let name = message["params"]["name"].as_str().unwrap();
                match (message["params"].get("task"), name) {
                    (Some(_), "must" | "may") => {
                        vec![result(id, &json!({"task": task("working")}))]
                    }
                    (Some(_), _) | (None, "must") => vec![error(id, -32601)],
                    (None, _) => vec![result(
                        id,
                        &json!({"content": [{"type": "text", "text": "done"}]}),
                    )],
                }
            }
            Some("tasks/get") => {
                let poll = polls.next().unwrap();
                if polls.peek().is_none() {
                    polls = vec![poll.clone(), poll.clone()].into_iter().peekable();
                }
                match poll {
                    Value::Number(code) => vec![error(id, code.as_i64().unwrap())],
                    Value::Null => vec![],
                    state => vec![result(id, &state)],
                }
            }
            Some("tasks/result") => {
                waiting = id.clone();
                let meta = json!({"io.modelcontextprotocol/related-task": {"taskId": "t1"}});
                vec![say(
                    json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create",
                        "params": {"message": "?", "requestedSchema": {}, "_meta": meta}})
                    .to_string(),
                )]
            }
            Some("tasks/update" | "tasks/cancel") => vec![result(id, &json!({}))],
            Some("tasks/list") => vec![result(id, &json!({"tasks": [task("working")]}))],
            Some("server/discover") => vec![error(id, -32601)],
            Some(_) => vec![],
            None => {
                let text = message["result"].to_string();
                vec![result(
                    &waiting,
                    &json!({"content": [{"type": "text", "text": text}], "isError": true}),
                )]
            }
        }
    }
}

fn params(log: &Log, method: &str) -> Vec<Value> {
    let received = log.received.lock().unwrap();
    let sent = received
        .iter()
        .filter(|message| message["method"] == method);
    sent.map(|message| message["params"].clone()).collect()
}

fn asking(keys: &[&str]) -> Value {
    let mut state = task("input_required");
    for key in keys {
        state["inputRequests"][*key] = json!({"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}});
    }
    state
}

fn completed() -> Value {
    let mut state = task("completed");
    state["result"] = json!({"content": [{"type": "text", "text": "at last"}]});
    state
}

/// TASK-20 to TASK-28: the host sees one call.
#[tokio::test(start_paused = true)]
async fn a_call_that_becomes_a_task_is_one_call() {
    let polls = vec![
        task("working"),
        asking(&["a"]),
        asking(&["a", "b"]),
        task("working"),
        completed(),
    ];
    let (client, log) = connect_with(with_tasks(), server(EXTENSION, polls)).await;
    let begun = tokio::time::Instant::now();
    let called = client.call_tool("plain", &json!({})).await.unwrap();
    assert_eq!(called.text(), "at last");
    // TASK-23: as often as the server likes.
    assert_eq!(begun.elapsed(), Duration::from_secs(10));
    // TASK-26: each question is answered once.
    let updates = params(&log, "tasks/update");
    let answers: Vec<_> = updates
        .iter()
        .map(|update| &update["inputResponses"])
        .collect();
    let decline = json!({"action": "decline"});
    assert_eq!(answers, [&json!({"a": decline}), &json!({"b": decline})]);
    // TASK-20: declared on every request.
    for request in [
        params(&log, "tools/call"),
        params(&log, "tasks/get"),
        updates,
    ]
    .concat()
    {
        let declared = &request["_meta"]["io.modelcontextprotocol/clientCapabilities"];
        assert!(declared["extensions"]["io.modelcontextprotocol/tasks"].is_object());
    }
    assert_eq!(params(&log, "tools/call")[0].get("task"), None, "TASK-33");
}

/// TASK-01 to TASK-04.
#[tokio::test(start_paused = true)]
async fn a_tool_that_must_be_a_task_is_called_as_one() {
    for list_first in [true, false] {
        let polls = vec![task("working"), task("input_required")];
        let (client, log) = connect_with(with_tasks(), server(EXPERIMENTAL, polls)).await;
        if list_first {
            client.tools().await.unwrap();
        }
        let called = client.call_tool("must", &json!({})).await.unwrap();
        assert!(called.is_error);
        let answer: Value = serde_json::from_str(&called.text()).unwrap();
        let related = &answer["_meta"]["io.modelcontextprotocol/related-task"];
        assert_eq!(answer["action"], "decline");
        assert_eq!(*related, json!({"taskId": "t1"}), "TASK-04");
        let calls = params(&log, "tools/call");
        assert_eq!(calls.len(), if list_first { 1 } else { 2 });
        assert_eq!(calls.last().unwrap()["task"], json!({}));

        // What may be one is one where the host asks for it.
        assert_eq!(
            client.call_tool("may", &json!({})).await.unwrap().text(),
            "done"
        );
        let started = client
            .start_tool("plain", &json!({}), CallOptions::default())
            .await;
        assert!(matches!(started.unwrap(), ToolOutcome::Done(_)));
        let started = client
            .start_tool("may", &json!({}), CallOptions::default())
            .await;
        assert!(matches!(started.unwrap(), ToolOutcome::Task(_)));
        assert_eq!(client.tasks().await.unwrap().entries[0].id, "t1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_can_be_left_and_found_again() {
    let polls = vec![task("working"), completed()];
    let (client, _) = connect_with(with_tasks(), server(EXTENSION, polls.clone())).await;
    let started = client
        .start_tool("plain", &json!({}), CallOptions::default())
        .await;
    let ToolOutcome::Task(task) = started.unwrap() else {
        panic!("it is a task");
    };
    let id = task.id().to_owned();
    client.close().await;
    // TASK-24.
    let (client, log) = connect_with(with_tasks(), server(EXTENSION, polls)).await;
    let task = client.task(&id).unwrap();
    assert_eq!(task.state().await.unwrap().status, TaskStatus::Working);
    assert_eq!(
        task.wait(CallOptions::default()).await.unwrap().text(),
        "at last"
    );
    task.cancel().await.unwrap();
    drop(task);
    client.close().await;
    assert_eq!(log.count("tasks/cancel"), 1);
}

/// TASK-28 to TASK-30, and C082: nobody works on for a caller that is gone.
#[tokio::test(start_paused = true)]
async fn tasks_end_in_every_way() {
    let mut failed = task("failed");
    failed["error"] = json!({"code": -32050, "message": "no space"});
    let mut gone = task("cancelled");
    gone["statusMessage"] = json!("by an operator");
    let cases = [
        (vec![failed], ErrorKind::Rpc, "no space", 0),
        (vec![gone], ErrorKind::Cancelled, "by an operator", 0),
        (vec![json!(-32602)], ErrorKind::Rpc, "no", 0),
        (
            vec![task("completed")],
            ErrorKind::InvalidAnswer,
            "without a result",
            0,
        ),
        (
            vec![json!({"taskId": "t1"})],
            ErrorKind::InvalidAnswer,
            "no status",
            0,
        ),
        (vec![task("working")], ErrorKind::Timeout, "in time", 1),
    ];
    for (polls, kind, expected, cancelled) in cases {
        let (client, log) = connect_with(with_tasks(), server(EXTENSION, polls)).await;
        let limit = CallOptions::default().with_deadline(Deadline::total(Duration::from_secs(30)));
        let outcome = client.call_tool_with("plain", &json!({}), limit).await;
        let error = outcome.unwrap_err();
        let text = format!(
            "{error}: {:?}",
            std::error::Error::source(&error).map(ToString::to_string)
        );
        assert_eq!(error.kind(), kind, "{text}");
        assert!(text.contains(expected), "{text}");
        client.ping(CallOptions::default()).await.unwrap();
        assert_eq!(log.count("tasks/cancel"), cancelled, "{text}");
    }
    // A caller that goes away.
    let (client, log) = connect_with(with_tasks(), server(EXTENSION, vec![task("working")])).await;
    {
        let arguments = json!({});
        let call = client.call_tool("plain", &arguments);
        assert!(
            tokio::time::timeout(Duration::from_secs(9), call)
                .await
                .is_err()
        );
    }
    client.ping(CallOptions::default()).await.unwrap();
    assert_eq!(log.count("tasks/cancel"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_question_after_a_task_may_get_lost() {
    let mut limited = with_tasks();
    limited.call_deadline =
        Deadline::new(Some(Duration::from_secs(5)), Some(Duration::from_secs(600)));
    let polls = vec![Value::Null, Value::Null, task("working"), completed()];
    let (client, _) = connect_with(limited.clone(), server(EXTENSION, polls)).await;
    let options = CallOptions::default().with_deadline(limited.call_deadline);
    let called = client
        .call_tool_with("plain", &json!({}), options)
        .await
        .unwrap();
    assert_eq!(called.text(), "at last");
}

/// TASK-31: the server may say it first.
#[tokio::test(start_paused = true)]
async fn a_notification_is_faster_than_a_question() {
    let (client, log) = connect_with(with_tasks(), server(EXTENSION, vec![task("working")])).await;
    let caller = client.clone();
    let call = tokio::spawn(async move { caller.call_tool("plain", &json!({})).await });
    while log.count("tasks/get") == 0 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let begun = tokio::time::Instant::now();
    let params = completed();
    log.say(
        &json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": params}).to_string(),
    );
    assert_eq!(call.await.unwrap().unwrap().text(), "at last");
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

/// EXT-05, JR-42, TASK-33: off until the host switches them on.
#[tokio::test(start_paused = true)]
async fn tasks_are_off_by_default() {
    let (client, _) = connect_with(options(), server(EXTENSION, vec![completed()])).await;
    let error = client.call_tool("plain", &json!({})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidAnswer);
    assert_eq!(client.task("t1").unwrap_err().kind(), ErrorKind::Usage);
    let (client, log) = connect_with(options(), server(EXPERIMENTAL, vec![])).await;
    client.tools().await.unwrap();
    assert_eq!(
        client
            .call_tool("must", &json!({}))
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::Rpc
    );
    assert_eq!(params(&log, "tools/call")[0].get("task"), None);
    // Older versions have none, whatever the host wants.
    let (client, _) = connect_with(with_tasks(), server("2025-06-18", vec![])).await;
    assert_eq!(client.task("t1").unwrap_err().kind(), ErrorKind::Usage);
}
