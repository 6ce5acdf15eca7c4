//! The demo servers as a table: a message in, messages out. No I/O, no clock: [`Moment`] is an argument.
//!
//! Must not know: processes, pipes, and anything of the client. Rules of the two eras: VER-10 to VER-14 for `notes`,
//! VER-30 to VER-42 for `clock`.

use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::civil::utc_text;

const LEGACY_VERSIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
const MODERN_VERSION: &str = "2026-07-28";
/// Most countdowns at a time; a further one is refused.
const MAX_COUNTDOWNS: usize = 64;
/// A picture of a blue dot, 16 by 16.
const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAABAAAAAQCAIAAACQkWg2AAAAOklEQVR42mP4TyJgQOPr5txHQ/g0YKrG1MNAUDWaHgZiVCPrYSBSNVzPiNVAcrCSE3HkJA1yEh8xAAAzkBATrmp3dAAAAABJRU5ErkJggg==";
/// What `crash` exits with.
const CRASH_STATUS: u8 = 17;

const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const PARSE_ERROR: i64 = -32700;
const UNSUPPORTED_VERSION: i64 = -32022;

/// Which of the two servers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    /// Modern era; counts down and tells the time.
    Clock,
    /// Legacy era; adds, echoes, and fails in several ways.
    Notes,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Clock => "clock",
            Self::Notes => "notes",
        }
    }
}

/// The time, as far as a server needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    /// Since the server started.
    pub(super) up: Duration,
    /// Seconds since 1970.
    pub(super) unix_seconds: u64,
}

/// What a message or a moment leads to.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Messages for the client, one line each.
    pub(super) messages: Vec<String>,
    /// A line for the error output.
    pub(super) complaint: Option<&'static str>,
    /// End the process with this status.
    pub(super) exit: Option<u8>,
}

impl Step {
    fn send(message: &Value) -> Self {
        Self {
            messages: vec![message.to_string()],
            ..Self::default()
        }
    }
}

/// One of the two servers.
#[derive(Debug)]
pub(super) struct Server {
    kind: Kind,
    countdowns: Vec<Countdown>,
}

#[derive(Debug)]
struct Countdown {
    id: Value,
    token: Option<Value>,
    from: u64,
    done: u64,
    step: Duration,
    next: Duration,
}

/// A JSON-RPC error: code, message, data.
type Refusal = (i64, String, Option<Value>);

fn refusal(code: i64, message: impl Into<String>) -> Refusal {
    (code, message.into(), None)
}

impl Server {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            kind,
            countdowns: Vec::new(),
        }
    }

    /// A line came in.
    pub(super) fn handle(&mut self, line: &str, now: Moment) -> Step {
        let message: Value = match serde_json::from_str(line) {
            Ok(message) => message,
            Err(_) => return Step::send(&error(&Value::Null, &refusal(PARSE_ERROR, "not JSON"))),
        };
        let id = message.get("id").cloned();
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            // An answer, to a server that asks nothing.
            return match id {
                Some(_)
                    if message
                        .get("result")
                        .or_else(|| message.get("error"))
                        .is_some() =>
                {
                    Step::default()
                }
                id => Step::send(&error(
                    &id.unwrap_or_default(),
                    &refusal(INVALID_REQUEST, "no method"),
                )),
            };
        };
        let empty = Map::new();
        let params = message
            .get("params")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        let Some(id) = id else {
            return self.handle_notification(method, params);
        };
        let outcome = match self.kind {
            Kind::Clock => check_meta(params).and_then(|()| self.modern(method, &id, params, now)),
            Kind::Notes => legacy(method, params),
        };
        match outcome {
            Ok(Reply::Result(result)) => Step::send(&self.result(&id, result)),
            Ok(Reply::Later) => Step::default(),
            Ok(Reply::Crash) => Step {
                complaint: Some("kaboom at line 42"),
                exit: Some(CRASH_STATUS),
                ..Step::default()
            },
            Err(refusal) => Step::send(&error(&id, &refusal)),
        }
    }

    fn handle_notification(&mut self, method: &str, params: &Map<String, Value>) -> Step {
        if method != "notifications/cancelled" {
            return Step::default();
        }
        let before = self.countdowns.len();
        self.countdowns
            .retain(|countdown| Some(&countdown.id) != params.get("requestId"));
        Step {
            complaint: (self.countdowns.len() < before).then_some("countdown cancelled"),
            ..Step::default()
        }
    }

    /// When [`Server::tick`] has something to do.
    pub(super) fn next_tick(&self) -> Option<Duration> {
        self.countdowns.iter().map(|countdown| countdown.next).min()
    }

    /// Time passed.
    pub(super) fn tick(&mut self, now: Moment) -> Step {
        let mut step = Step::default();
        let mut finished = Vec::new();
        self.countdowns.retain_mut(|countdown| {
            while countdown.next <= now.up && countdown.done < countdown.from {
                countdown.done += 1;
                countdown.next += countdown.step;
                step.messages.extend(countdown.progress());
            }
            if countdown.done == countdown.from {
                finished.push((countdown.id.clone(), countdown.from));
            }
            countdown.done < countdown.from
        });
        for (id, from) in finished {
            let numbers = (1..=from).rev().map(|number| number.to_string());
            let text = numbers.chain(["go".to_owned()]).collect::<Vec<_>>();
            let result = self.result(&id, text_result(&text.join(" ")));
            step.messages.push(result.to_string());
        }
        step
    }

    fn modern(
        &mut self,
        method: &str,
        id: &Value,
        params: &Map<String, Value>,
        now: Moment,
    ) -> Result<Reply, Refusal> {
        match method {
            "server/discover" => Ok(Reply::Result(json!({
                "supportedVersions": [MODERN_VERSION],
                "capabilities": {"tools": {}},
                "instructions": "A demo server: it counts down and tells the time.",
                "ttlMs": 60_000,
                "cacheScope": "public",
            }))),
            "tools/list" => Ok(Reply::Result(json!({
                "tools": clock_tools(), "ttlMs": 60_000, "cacheScope": "public",
            }))),
            "tools/call" => {
                let (name, arguments) = called(params)?;
                match name {
                    "countdown" => self.start_countdown(id, params, arguments, now),
                    "now" => Ok(Reply::Result(text_result(&utc_text(now.unix_seconds)))),
                    _ => Err(refusal(INVALID_PARAMS, format!("unknown tool: {name}"))),
                }
            }
            _ => Err(refusal(
                METHOD_NOT_FOUND,
                format!("no such method: {method}"),
            )),
        }
    }

    fn start_countdown(
        &mut self,
        id: &Value,
        params: &Map<String, Value>,
        arguments: &Map<String, Value>,
        now: Moment,
    ) -> Result<Reply, Refusal> {
        let from = arguments.get("from").and_then(Value::as_u64);
        let step = match arguments.get("step_ms") {
            None => Some(100),
            Some(step) => step.as_u64(),
        };
        let (Some(from @ 1..=3600), Some(step @ 1..=60_000)) = (from, step) else {
            let text = "from must be an integer from 1 to 3600, step_ms from 1 to 60000";
            return Ok(Reply::Result(failed_result(text)));
        };
        if self.countdowns.len() >= MAX_COUNTDOWNS {
            return Ok(Reply::Result(failed_result("too many countdowns")));
        }
        let step = Duration::from_millis(step);
        let token = params
            .get("_meta")
            .and_then(|meta| meta.get("progressToken"));
        self.countdowns.push(Countdown {
            id: id.clone(),
            token: token.cloned(),
            from,
            done: 0,
            step,
            next: now.up + step,
        });
        Ok(Reply::Later)
    }

    fn result(&self, id: &Value, mut result: Value) -> Value {
        if let (Kind::Clock, Some(members)) = (self.kind, result.as_object_mut()) {
            members.insert("resultType".to_owned(), json!("complete"));
            members.insert(
                "_meta".to_owned(),
                json!({"io.modelcontextprotocol/serverInfo": info(self.kind)}),
            );
        }
        json!({"jsonrpc": "2.0", "id": id, "result": result})
    }
}

impl Countdown {
    fn progress(&self) -> Option<String> {
        let token = self.token.as_ref()?;
        let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
            "progressToken": token, "progress": self.done, "total": self.from,
            "message": format!("{} left", self.from - self.done),
        }});
        Some(message.to_string())
    }
}

/// How a request is answered.
enum Reply {
    /// Not at all: the process ends.
    Crash,
    /// When its time has come.
    Later,
    Result(Value),
}

fn legacy(method: &str, params: &Map<String, Value>) -> Result<Reply, Refusal> {
    match method {
        "initialize" => {
            let asked = params.get("protocolVersion").and_then(Value::as_str);
            let known = LEGACY_VERSIONS
                .into_iter()
                .find(|version| Some(*version) == asked);
            Ok(Reply::Result(json!({
                "protocolVersion": known.unwrap_or(LEGACY_VERSIONS[3]),
                "capabilities": {"tools": {}},
                "serverInfo": info(Kind::Notes),
                "instructions": "A demo server: it adds, echoes, and fails on purpose.",
            })))
        }
        "ping" => Ok(Reply::Result(json!({}))),
        "tools/list" => Ok(Reply::Result(json!({"tools": notes_tools()}))),
        "tools/call" => {
            let (name, arguments) = called(params)?;
            notes_call(name, arguments)
        }
        _ => Err(refusal(
            METHOD_NOT_FOUND,
            format!("no such method: {method}"),
        )),
    }
}

fn notes_call(name: &str, arguments: &Map<String, Value>) -> Result<Reply, Refusal> {
    let text = |key: &str| arguments.get(key).and_then(Value::as_str);
    let number = |key: &str| arguments.get(key).and_then(Value::as_f64);
    let result = match name {
        "add" => match (number("a"), number("b")) {
            (Some(a), Some(b)) => text_result(&(a + b).to_string()),
            _ => failed_result("a and b must be numbers"),
        },
        "echo" => match text("message") {
            Some(message) => text_result(message),
            None => failed_result("message must be a string"),
        },
        "report" => match text("month") {
            Some(month) => {
                let report = json!({"month": month, "total": 4711, "open": 3});
                let mut result = text_result(&report.to_string());
                result["structuredContent"] = report;
                result
            }
            None => failed_result("month must be a string"),
        },
        "picture" => json!({"content": [
            {"type": "text", "text": "A blue dot."},
            {"type": "image", "data": PICTURE, "mimeType": "image/png"},
        ]}),
        "fail" => failed_result("disk is full (this is on purpose)"),
        "crash" => return Ok(Reply::Crash),
        _ => return Err(refusal(INVALID_PARAMS, format!("unknown tool: {name}"))),
    };
    Ok(Reply::Result(result))
}

/// The name and arguments of a `tools/call`.
fn called(params: &Map<String, Value>) -> Result<(&str, &Map<String, Value>), Refusal> {
    static NONE: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);
    let name = params.get("name").and_then(Value::as_str);
    let name = name.ok_or_else(|| refusal(INVALID_PARAMS, "name must be a string"))?;
    match params.get("arguments") {
        None => Ok((name, &NONE)),
        Some(Value::Object(arguments)) => Ok((name, arguments)),
        Some(_) => Err(refusal(INVALID_PARAMS, "arguments must be an object")),
    }
}

/// What each modern request must carry (VER-30).
fn check_meta(params: &Map<String, Value>) -> Result<(), Refusal> {
    let meta = |key: &str| {
        let key = format!("io.modelcontextprotocol/{key}");
        params.get("_meta").and_then(|meta| meta.get(&key))
    };
    let Some(version) = meta("protocolVersion").and_then(Value::as_str) else {
        let asked = params.get("protocolVersion").and_then(Value::as_str);
        return match asked {
            // A handshake: say what is spoken here, so that a client of both eras can go on (VER-58).
            Some(asked) => Err(unsupported(asked)),
            None => Err(refusal(
                INVALID_PARAMS,
                "_meta lacks io.modelcontextprotocol/protocolVersion",
            )),
        };
    };
    if version != MODERN_VERSION {
        return Err(unsupported(version));
    }
    if !meta("clientCapabilities").is_some_and(Value::is_object) {
        return Err(refusal(
            INVALID_PARAMS,
            "_meta lacks io.modelcontextprotocol/clientCapabilities",
        ));
    }
    Ok(())
}

fn unsupported(asked: &str) -> Refusal {
    let data = json!({"supported": [MODERN_VERSION], "requested": asked});
    (
        UNSUPPORTED_VERSION,
        "unsupported protocol version".to_owned(),
        Some(data),
    )
}

fn info(kind: Kind) -> Value {
    json!({"name": kind.name(), "version": env!("CARGO_PKG_VERSION")})
}

fn error(id: &Value, (code, message, data): &Refusal) -> Value {
    let mut error = json!({"code": code, "message": message});
    if let Some(data) = data {
        error["data"] = data.clone();
    }
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn failed_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}

fn notes_tools() -> Value {
    let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
    json!([
        {
            "name": "add", "description": "Add two numbers.",
            "inputSchema": {
                "type": "object", "required": ["a", "b"], "additionalProperties": false,
                "properties": {
                    "a": {"type": "number", "description": "the first number"},
                    "b": {"type": "number", "description": "the second number"},
                },
            },
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "echo", "description": "Send the text back.",
            "inputSchema": {
                "type": "object", "required": ["message"], "additionalProperties": false,
                "properties": {"message": {"type": "string", "description": "what to send back"}},
            },
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "report", "description": "Count the notes of a month. The result is structured.",
            "inputSchema": {
                "type": "object", "required": ["month"], "additionalProperties": false,
                "properties": {
                    "month": {"type": "string", "description": "year and month", "examples": ["2026-11"]},
                    "format": {
                        "type": "string", "enum": ["short", "long"], "default": "short",
                        "description": "how much to tell",
                    },
                    "limit": {
                        "type": "integer", "minimum": 1, "maximum": 50, "default": 10,
                        "description": "how many notes to list",
                    },
                },
            },
            "outputSchema": {
                "type": "object", "required": ["month", "total"],
                "properties": {
                    "month": {"type": "string"}, "total": {"type": "integer"}, "open": {"type": "integer"},
                },
            },
            "annotations": {"readOnlyHint": true},
        },
        {
            "name": "picture", "description": "Draw a blue dot.",
            "inputSchema": none, "annotations": {"readOnlyHint": true},
        },
        {
            "name": "fail", "description": "Fail, and say so in the result.",
            "inputSchema": none, "annotations": {"readOnlyHint": true},
        },
        {
            "name": "crash", "description": "End the server's process at once.",
            "inputSchema": none, "annotations": {"destructiveHint": true},
        },
    ])
}

fn clock_tools() -> Value {
    json!([
        {
            "name": "countdown", "description": "Count down, with progress. Can be cancelled.",
            "inputSchema": {
                "type": "object", "required": ["from"], "additionalProperties": false,
                "properties": {
                    "from": {
                        "type": "integer", "minimum": 1, "maximum": 3600, "description": "the first number",
                        "examples": [3],
                    },
                    "step_ms": {
                        "type": "integer", "minimum": 1, "maximum": 60000, "default": 100,
                        "description": "milliseconds per number",
                    },
                },
            },
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        },
        {
            "name": "now", "description": "Tell the time in UTC.",
            "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false},
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Moment {
        Moment {
            up: Duration::from_millis(millis),
            unix_seconds: 0,
        }
    }

    fn modern(method: &str, id: u64, params: Value) -> String {
        let mut params = params;
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN_VERSION);
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    }

    fn parsed(step: &Step) -> Vec<Value> {
        let parse = |text: &String| serde_json::from_str(text).unwrap();
        step.messages.iter().map(parse).collect()
    }

    #[test]
    fn notes_answers_row_by_row() {
        let cases = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}"#,
                json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no such method: server/discover"}}),
            ),
            (
                r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#,
                json!({"jsonrpc": "2.0", "id": "p", "result": {}}),
            ),
            (
                r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":2,"b":3}}}"#,
                json!({"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "5"}]}}),
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"add","arguments":{"a":"2"}}}"#,
                json!({"jsonrpc": "2.0", "id": 3, "result": {
                    "content": [{"type": "text", "text": "a and b must be numbers"}], "isError": true}}),
            ),
            (
                r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"ad"}}"#,
                json!({"jsonrpc": "2.0", "id": 4, "error": {"code": -32602, "message": "unknown tool: ad"}}),
            ),
            (
                "nonsense",
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "not JSON"}}),
            ),
            (
                r#"{"jsonrpc":"2.0","id":5}"#,
                json!({"jsonrpc": "2.0", "id": 5, "error": {"code": -32600, "message": "no method"}}),
            ),
        ];
        for (line, answer) in cases {
            let step = Server::new(Kind::Notes).handle(line, at(0));
            assert_eq!(parsed(&step), [answer], "{line}");
        }
        for silent in [
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        ] {
            let step = Server::new(Kind::Notes).handle(silent, at(0));
            assert!(step.messages.is_empty(), "{silent}");
        }
    }

    #[test]
    fn notes_keeps_a_version_it_knows() {
        for (asked, answered) in [
            ("2024-11-05", "2024-11-05"),
            ("2025-11-25", "2025-11-25"),
            ("1999-01-01", "2025-11-25"),
        ] {
            let line = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": asked}});
            let step = Server::new(Kind::Notes).handle(&line.to_string(), at(0));
            assert_eq!(parsed(&step)[0]["result"]["protocolVersion"], answered);
        }
    }

    #[test]
    fn crash_ends_the_process() {
        let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"crash"}}"#;
        let step = Server::new(Kind::Notes).handle(line, at(0));
        assert_eq!((step.exit, step.messages.len()), (Some(CRASH_STATUS), 0));
    }

    #[test]
    fn ver_30_clock_wants_meta() {
        let cases = [
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
                INVALID_PARAMS,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#,
                UNSUPPORTED_VERSION,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
                INVALID_PARAMS,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2027-01-01"}}}"#,
                UNSUPPORTED_VERSION,
            ),
            (&modern("ping", 1, json!({})), METHOD_NOT_FOUND),
        ];
        for (line, code) in cases {
            let step = Server::new(Kind::Clock).handle(line, at(0));
            assert_eq!(parsed(&step)[0]["error"]["code"], code, "{line}");
        }
        let step = Server::new(Kind::Clock).handle(&modern("server/discover", 1, json!({})), at(0));
        let result = &parsed(&step)[0]["result"];
        assert_eq!(result["supportedVersions"], json!([MODERN_VERSION]));
        assert_eq!(result["resultType"], "complete");
    }

    #[test]
    fn a_countdown_reports_and_ends() {
        let mut server = Server::new(Kind::Clock);
        let params =
            json!({"name": "countdown", "arguments": {"from": 2}, "_meta": {"progressToken": 9}});
        assert!(
            server
                .handle(&modern("tools/call", 7, params), at(50))
                .messages
                .is_empty()
        );
        assert_eq!(server.next_tick(), Some(Duration::from_millis(150)));
        assert!(server.tick(at(149)).messages.is_empty());
        let first = parsed(&server.tick(at(150)));
        assert_eq!(
            first[0]["params"],
            json!({"progressToken": 9, "progress": 1, "total": 2, "message": "1 left"})
        );
        let last = parsed(&server.tick(at(400)));
        assert_eq!(last.len(), 2);
        assert_eq!(last[1]["id"], 7);
        assert_eq!(last[1]["result"]["content"][0]["text"], "2 1 go");
        assert_eq!(server.next_tick(), None);
    }

    #[test]
    fn a_cancelled_countdown_says_nothing_more() {
        let mut server = Server::new(Kind::Clock);
        let params = json!({"name": "countdown", "arguments": {"from": 2}});
        server.handle(&modern("tools/call", 7, params), at(0));
        let cancel = |id: u64| {
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
                .to_string()
        };
        assert!(server.handle(&cancel(8), at(10)).complaint.is_none());
        let step = server.handle(&cancel(7), at(20));
        assert_eq!(step.complaint, Some("countdown cancelled"));
        assert!(step.messages.is_empty() && server.next_tick().is_none());
    }
}
