//! The tools of the fake server.

use std::io::{self, Write as _};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::answer::{Answer, error};
use super::serve::Server;
use super::switches::Switches;

/// All tools, as they are listed.
pub(super) fn all(switches: &Switches) -> Vec<Value> {
    let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});
    let none = || object(json!({}), &[]);
    let tool = |name: &str, what: &str, input: Value| json!({"name": name, "description": what, "inputSchema": input});
    let mut tools = vec![
        tool(
            "echo",
            "Sends the text back",
            object(json!({"text": {"type": "string"}}), &["text"]),
        ),
        tool(
            "add",
            "Adds two numbers",
            object(
                json!({"a": {"type": "number"}, "b": {"type": "number"}}),
                &["a", "b"],
            ),
        ),
        tool(
            "slow",
            "Waits",
            object(json!({"ms": {"type": "integer"}}), &["ms"]),
        ),
        tool(
            "countdown",
            "Counts with progress",
            object(
                json!({"from": {"type": "integer"}, "interval_ms": {"type": "integer"}}),
                &["from"],
            ),
        ),
        tool(
            "big",
            "A text of so many bytes",
            object(
                json!({"bytes": {"type": "integer"}, "escapes": {"type": "boolean"}}),
                &["bytes"],
            ),
        ),
        tool("fail", "Reports a tool error", none()),
        tool(
            "rpc_error",
            "Answers with an error",
            object(json!({"code": {"type": "integer"}}), &["code"]),
        ),
        tool(
            "crash",
            "Writes to the error output and exits",
            object(json!({"code": {"type": "integer"}}), &[]),
        ),
        tool("picture", "An image", none()),
        tool("everything", "All kinds of content", none()),
        tool(
            "env",
            "The value of a variable",
            object(json!({"name": {"type": "string"}}), &["name"]),
        ),
        tool("no_answer", "Never answers", none()),
        tool("stats", "What the server received", none()),
        tool(
            "ping_back",
            "Pings the client and waits for the answer",
            none(),
        ),
    ];
    tools[1]["outputSchema"] = object(json!({"sum": {"type": "number"}}), &["sum"]);
    tools[1]["annotations"] = json!({"readOnlyHint": true, "idempotentHint": true});
    let more = (1..=switches.tools).map(|n| tool(&format!("t{n}"), "One of many", none()));
    tools.extend(more);
    tools
}

fn text(text: impl Into<Value>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

/// Runs a tool. `None` means no answer.
pub(super) fn call(server: &Server, id: &Value, params: &Value) -> Option<Answer> {
    let arguments = &params["arguments"];
    let millis = |name: &str| Duration::from_millis(arguments[name].as_u64().unwrap_or(0));
    Some(match params["name"].as_str().unwrap_or_default() {
        "echo" => match arguments["text"].as_str() {
            Some(words) => Ok(text(words)),
            None => error(-32602, "text must be a string"),
        },
        "add" => {
            let sum =
                arguments["a"].as_f64().unwrap_or(0.0) + arguments["b"].as_f64().unwrap_or(0.0);
            let mut result = text(sum.to_string());
            result["structuredContent"] = json!({"sum": sum});
            Ok(result)
        }
        "slow" => {
            if server.wait(id, millis("ms")) {
                return None;
            }
            Ok(text("waited"))
        }
        "countdown" => return countdown(server, id, params),
        "big" => {
            let bytes = usize::try_from(arguments["bytes"].as_u64().unwrap_or(0)).unwrap_or(0);
            let piece = if arguments["escapes"] == true {
                "\""
            } else {
                "x"
            };
            Ok(text(piece.repeat(bytes)))
        }
        "fail" => Ok(
            json!({"isError": true, "content": [{"type": "text", "text": "disk is full (this is on purpose)"}]}),
        ),
        "rpc_error" => error(
            arguments["code"].as_i64().unwrap_or(-32603),
            "this is on purpose",
        ),
        "crash" => {
            let _ = writeln!(io::stderr().lock(), "kaboom at line 42");
            std::process::exit(
                arguments["code"]
                    .as_i64()
                    .and_then(|code| i32::try_from(code).ok())
                    .unwrap_or(17),
            );
        }
        "picture" => Ok(
            json!({"content": [{"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}]}),
        ),
        "everything" => Ok(json!({"content": [
            {"type": "text", "text": "text"},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "image", "data": "%%%", "mimeType": "image/png"},
            {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "x://1", "name": "link"},
            {"type": "resource", "resource": {"uri": "x://2", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "x://3", "blob": "AAE="}},
            {"type": "hologram", "v": 1}
        ]})),
        "env" => Ok(text(
            std::env::var(arguments["name"].as_str().unwrap_or_default())
                .map_or_else(|_| Value::from("(not set)"), Value::from),
        )),
        "no_answer" => return None,
        "stats" => Ok(json!({"content": [], "structuredContent": server.stats()})),
        "ping_back" => {
            let answered = server.ping_client(Duration::from_secs(5));
            Ok(text(if answered {
                "the client answered"
            } else {
                "the client did not answer"
            }))
        }
        name if name.starts_with('t') && name[1..].parse::<usize>().is_ok() => Ok(text(name)),
        name => error(-32602, &format!("unknown tool {name:?}")),
    })
}

/// Counts down with progress, until done or cancelled.
fn countdown(server: &Server, id: &Value, params: &Value) -> Option<Answer> {
    let from = params["arguments"]["from"].as_u64().unwrap_or(3);
    let interval = Duration::from_millis(params["arguments"]["interval_ms"].as_u64().unwrap_or(1));
    let token = params["_meta"].get("progressToken");
    let report = |done: u64| {
        if let Some(token) = token {
            server.output.send(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                "progressToken": token, "progress": done, "total": from, "message": format!("{} left", from - done)
            }}));
        }
    };
    let started = Instant::now();
    for done in 1..=from {
        if server.wait(id, interval) {
            return None;
        }
        report(done);
    }
    if server.switches.late_progress {
        server.answer(id, Ok(text("done")));
        report(from);
        return None;
    }
    Some(Ok(text(format!(
        "counted for {} ms",
        started.elapsed().as_millis()
    ))))
}
