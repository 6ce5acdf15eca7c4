//! MCP servers as handlers: well-behaved and strict, with one method or another taken over by a test.
//!
//! They refuse what a careful server refuses, so that a client that forgets a header fails its test. They are written
//! without the protocol crates.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::reply::Reply;
use super::request::Request;

/// The version without a handshake.
const MODERN: &str = "2026-07-28";
const VERSION_META: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_META: &str = "io.modelcontextprotocol/clientCapabilities";

const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const HEADER_MISMATCH: i64 = -32020;
const UNSUPPORTED_VERSION: i64 = -32022;
/// What servers of the old era say about sessions.
const NO_SESSION: i64 = -32000;

type Override = Arc<dyn Fn(&Request) -> Option<Reply> + Send + Sync>;

/// How answers to requests are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Style {
    /// As one JSON body.
    #[default]
    Json,
    /// As the one event of a stream.
    Sse,
}

impl Style {
    /// Sends an answer so.
    pub fn reply(self, answer: &Value) -> Reply {
        match self {
            Self::Json => Reply::json(200, answer),
            Self::Sse => Reply::sse().event(None, answer),
        }
    }
}

/// The answer to a request with this result.
pub fn rpc_result(request: &Request, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request.rpc_id(), "result": result})
}

/// The answer to a request with this error. Null data is none.
pub fn rpc_error(request: &Request, code: i64, message: &str, data: &Value) -> Value {
    let mut error = json!({"code": code, "message": message});
    if !data.is_null() {
        error["data"] = data.clone();
    }
    json!({"jsonrpc": "2.0", "id": request.rpc_id(), "error": error})
}

/// What both kinds of server have.
#[derive(Clone)]
struct Common {
    style: Style,
    overrides: Vec<(String, Override)>,
}

impl Common {
    fn new() -> Self {
        Self {
            style: Style::Json,
            overrides: Vec::new(),
        }
    }

    fn on(
        &mut self,
        method: &str,
        answer: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) {
        self.overrides.push((method.to_owned(), Arc::new(answer)));
    }

    /// What the latest override says that has something to say.
    fn overridden(&self, request: &Request) -> Option<Reply> {
        let rpc_method = request.rpc_method();
        let name = rpc_method.as_ref().unwrap_or(&request.method);
        let mut overrides = self.overrides.iter().rev();
        overrides.find_map(|(method, answer)| (method == name).then(|| answer(request))?)
    }
}

impl fmt::Debug for Common {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let methods: Vec<_> = self.overrides.iter().map(|(method, _)| method).collect();
        out.debug_struct("Common")
            .field("style", &self.style)
            .field("overrides", &methods)
            .finish()
    }
}

/// A tool that takes a text, which [`ModernServer`] and [`LegacyServer`] have at first.
pub fn echo_tool() -> Value {
    json!({
        "name": "echo",
        "description": "Sends the text back",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}
    })
}

/// The result of any call: the text among the arguments, or else all of them.
fn echo(params: &Value) -> Value {
    let arguments = &params["arguments"];
    let text = arguments["text"]
        .as_str()
        .map_or_else(|| arguments.to_string(), str::to_owned);
    json!({"content": [{"type": "text", "text": text}]})
}

fn find_tool<'a>(tools: &'a [Value], params: &Value) -> Option<&'a Value> {
    tools.iter().find(|tool| tool["name"] == params["name"])
}

/// What is wrong with a POST to any MCP endpoint, or its message.
fn message(request: &Request) -> Result<Value, Reply> {
    let accepts = |wanted: &str| {
        let mut ranges = request.header("accept").unwrap_or_default().split(',');
        ranges.any(|range| range.split(';').next().map(str::trim) == Some(wanted))
    };
    if !accepts("application/json") || !accepts("text/event-stream") {
        return Err(refuse(
            request,
            406,
            INVALID_REQUEST,
            "Accept must name both media types",
        ));
    }
    let media = request.header("content-type").unwrap_or_default();
    if media.split(';').next().map(str::trim) != Some("application/json") {
        return Err(refuse(
            request,
            415,
            INVALID_REQUEST,
            "Content-Type must be application/json",
        ));
    }
    let message = request.json();
    if message["jsonrpc"] != "2.0" {
        return Err(refuse(
            request,
            400,
            INVALID_REQUEST,
            "the body must be one message",
        ));
    }
    Ok(message)
}

fn refuse(request: &Request, status: u16, code: i64, why: &str) -> Reply {
    Reply::json(status, &rpc_error(request, code, why, &Value::Null))
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server of version 2026-07-28. Clones share their tools.
///
/// It checks the headers against the body, those of annotated tool parameters included. Methods that it does not have,
/// `subscriptions/listen` among them, get status 404.
#[derive(Clone, Debug)]
pub struct ModernServer {
    common: Common,
    tools: Arc<Mutex<Vec<Value>>>,
}

impl ModernServer {
    /// A server with one tool, which answers in JSON.
    pub fn new() -> Self {
        Self {
            common: Common::new(),
            tools: Arc::new(Mutex::new(vec![echo_tool()])),
        }
    }

    /// How it answers.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.common.style = style;
        self
    }

    /// Its tools instead. Calls of any are answered with the arguments.
    #[must_use]
    pub fn tools(self, tools: Vec<Value>) -> Self {
        self.set_tools(tools);
        self
    }

    /// Changes the tools while it serves.
    pub fn set_tools(&self, tools: Vec<Value>) {
        *locked(&self.tools) = tools;
    }

    /// Takes over a method of the protocol, or one of HTTP for requests without any, such as GET. `None` leaves the
    /// request to what was set before, and to the server in the end. Nothing of the request was checked yet.
    #[must_use]
    pub fn on(
        mut self,
        method: &str,
        answer: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        self.common.on(method, answer);
        self
    }

    /// The server as a handler.
    pub fn handler(self) -> impl Fn(Request) -> Reply + Clone + Send + Sync + 'static {
        move |request| self.reply(&request)
    }

    /// Answers one request.
    pub fn reply(&self, request: &Request) -> Reply {
        if let Some(reply) = self.common.overridden(request) {
            return reply;
        }
        if request.method != "POST" {
            return Reply::status(405).header("Allow", "POST");
        }
        let message = match message(request) {
            Ok(message) => message,
            Err(reply) => return reply,
        };
        let Some(method) = message["method"].as_str() else {
            return refuse(
                request,
                400,
                INVALID_REQUEST,
                "clients send no responses here",
            );
        };
        if let Err(reply) = self.check(request, method, &message) {
            return reply;
        }
        if message.get("id").is_none() {
            return Reply::status(202);
        }
        let result = match method {
            "server/discover" => json!({
                "supportedVersions": [MODERN],
                "capabilities": {"tools": {"listChanged": true}},
                "ttlMs": 0,
                "cacheScope": "private"
            }),
            "tools/list" => {
                json!({"tools": *locked(&self.tools), "ttlMs": 0, "cacheScope": "private"})
            }
            "tools/call" if find_tool(&locked(&self.tools), &message["params"]).is_some() => {
                echo(&message["params"])
            }
            "tools/call" => {
                let answer = rpc_error(request, INVALID_PARAMS, "unknown tool", &Value::Null);
                return self.common.style.reply(&answer);
            }
            _ => return refuse(request, 404, METHOD_NOT_FOUND, "method not found"),
        };
        self.common
            .style
            .reply(&rpc_result(request, &complete(result)))
    }

    /// Refuses what lacks what it must carry, or says one thing in its headers and another in its body.
    fn check(&self, request: &Request, method: &str, message: &Value) -> Result<(), Reply> {
        let mismatch = |header: &str| {
            let why = format!("the header {header} differs from the body");
            Err(refuse(request, 400, HEADER_MISMATCH, &why))
        };
        let params = &message["params"];
        let meta = &params["_meta"];
        let version = request.header("mcp-protocol-version");
        if message.get("id").is_some() {
            if meta[VERSION_META].as_str().is_none() || !meta[CAPABILITIES_META].is_object() {
                let why = "_meta lacks the version or the capabilities";
                return Err(refuse(request, 400, INVALID_PARAMS, why));
            }
            if version != meta[VERSION_META].as_str() {
                return mismatch("MCP-Protocol-Version");
            }
        }
        if version != Some(MODERN) {
            let data = json!({"supported": [MODERN], "requested": version});
            let why = "version not available";
            let error = rpc_error(request, UNSUPPORTED_VERSION, why, &data);
            return Err(Reply::json(400, &error));
        }
        if request.header("mcp-method") != Some(method) {
            return mismatch("Mcp-Method");
        }
        let name = match method {
            "tools/call" | "prompts/get" => params["name"].as_str(),
            "resources/read" => params["uri"].as_str(),
            "tasks/get" | "tasks/update" | "tasks/cancel" => params["taskId"].as_str(),
            _ => None,
        };
        if header_text(request, "mcp-name").as_deref() != name {
            return mismatch("Mcp-Name");
        }
        if method == "tools/call"
            && let Some(tool) = find_tool(&locked(&self.tools), params)
        {
            for (header, value) in mirrored(&tool["inputSchema"], &params["arguments"]) {
                if header_text(request, &header) != value {
                    return mismatch(&header);
                }
            }
        }
        Ok(())
    }
}

impl Default for ModernServer {
    fn default() -> Self {
        Self::new()
    }
}

fn complete(mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    result["_meta"] =
        json!({"io.modelcontextprotocol/serverInfo": {"name": "peer", "version": "1"}});
    result
}

/// A header's text, decoded if it is encoded.
fn header_text(request: &Request, name: &str) -> Option<String> {
    let value = request.header(name)?;
    let encoded = value
        .strip_prefix("=?base64?")
        .and_then(|rest| rest.strip_suffix("?="));
    let Some(encoded) = encoded else {
        return Some(value.to_owned());
    };
    let bytes = STANDARD.decode(encoded).ok()?;
    String::from_utf8(bytes).ok()
}

/// The headers of annotated parameters, and what they must say; `None` if they must be absent.
fn mirrored(schema: &Value, arguments: &Value) -> Vec<(String, Option<String>)> {
    let mut headers = Vec::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let value = &arguments[name];
        if let Some(header) = property["x-mcp-header"].as_str() {
            let text = match value {
                Value::Null => None,
                Value::String(text) => Some(text.clone()),
                // 42.0 is 42.
                Value::Number(number) if number.is_f64() => value.as_f64().map(|f| format!("{f}")),
                other => Some(other.to_string()),
            };
            headers.push((format!("Mcp-Param-{header}"), text));
        }
        headers.extend(mirrored(property, value));
    }
    headers
}

/// A server with a handshake, of version 2025-11-25 unless told otherwise. Clones share their sessions.
#[derive(Clone, Debug)]
pub struct LegacyServer {
    common: Common,
    version: String,
    has_sessions: bool,
    tools: Vec<Value>,
    sessions: Arc<Mutex<Sessions>>,
}

#[derive(Debug, Default)]
struct Sessions {
    started: u64,
    live: BTreeSet<String>,
    deleted: Vec<String>,
}

impl LegacyServer {
    /// A server with sessions and one tool, which answers in JSON.
    pub fn new() -> Self {
        Self {
            common: Common::new(),
            version: "2025-11-25".to_owned(),
            has_sessions: true,
            tools: vec![echo_tool()],
            sessions: Arc::default(),
        }
    }

    /// The version it agrees to.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        version.clone_into(&mut self.version);
        self
    }

    /// Gives no session ids and wants none: it answers everything at once.
    #[must_use]
    pub fn without_sessions(mut self) -> Self {
        self.has_sessions = false;
        self
    }

    /// How it answers.
    #[must_use]
    pub fn style(mut self, style: Style) -> Self {
        self.common.style = style;
        self
    }

    /// Its tools instead. Calls of any are answered with the arguments.
    #[must_use]
    pub fn tools(mut self, tools: Vec<Value>) -> Self {
        self.tools = tools;
        self
    }

    /// Takes over a method of the protocol, or one of HTTP for requests without any, such as GET. `None` leaves the
    /// request to what was set before, and to the server in the end. Nothing of the request was checked yet.
    #[must_use]
    pub fn on(
        mut self,
        method: &str,
        answer: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        self.common.on(method, answer);
        self
    }

    /// The live sessions: `session-1`, `session-2` and so on.
    pub fn sessions(&self) -> Vec<String> {
        locked(&self.sessions).live.iter().cloned().collect()
    }

    /// The sessions that the client deleted, in order.
    pub fn deleted(&self) -> Vec<String> {
        locked(&self.sessions).deleted.clone()
    }

    /// Loses all sessions, as a restart does.
    pub fn forget_sessions(&self) {
        locked(&self.sessions).live.clear();
    }

    /// The server as a handler.
    pub fn handler(self) -> impl Fn(Request) -> Reply + Clone + Send + Sync + 'static {
        move |request| self.reply(&request)
    }

    /// Answers one request.
    pub fn reply(&self, request: &Request) -> Reply {
        self.common
            .overridden(request)
            .unwrap_or_else(|| self.own_reply(request).unwrap_or_else(|refusal| refusal))
    }

    fn own_reply(&self, request: &Request) -> Result<Reply, Reply> {
        match request.method.as_str() {
            "POST" => self.post(request),
            "DELETE" if self.has_sessions => {
                let session = self.check_session(request)?;
                self.check_version(request)?;
                let mut sessions = locked(&self.sessions);
                sessions.live.remove(&session);
                sessions.deleted.push(session);
                Ok(Reply::status(200))
            }
            _ => Ok(Reply::status(405).header("Allow", "POST, DELETE")),
        }
    }

    fn post(&self, request: &Request) -> Result<Reply, Reply> {
        let message = message(request)?;
        let method = message["method"].as_str();
        if method == Some("initialize") {
            return self.initialize(request);
        }
        if self.has_sessions {
            self.check_session(request)?;
        }
        self.check_version(request)?;
        let (Some(method), Some(_)) = (method, message.get("id")) else {
            return Ok(Reply::status(202));
        };
        let params = &message["params"];
        let answer = match method {
            "ping" => rpc_result(request, &json!({})),
            "tools/list" => rpc_result(request, &json!({"tools": self.tools})),
            "tools/call" if find_tool(&self.tools, params).is_some() => {
                rpc_result(request, &echo(params))
            }
            "tools/call" => rpc_error(request, INVALID_PARAMS, "unknown tool", &Value::Null),
            _ => rpc_error(request, METHOD_NOT_FOUND, "method not found", &Value::Null),
        };
        Ok(self.common.style.reply(&answer))
    }

    fn initialize(&self, request: &Request) -> Result<Reply, Reply> {
        if request.header("mcp-session-id").is_some() {
            let why = "a new session begins without the id of an old one";
            return Err(refuse(request, 400, INVALID_REQUEST, why));
        }
        let result = json!({
            "protocolVersion": self.version,
            "capabilities": {"tools": {"listChanged": true}},
            "serverInfo": {"name": "peer", "version": "1"}
        });
        let reply = self.common.style.reply(&rpc_result(request, &result));
        if !self.has_sessions {
            return Ok(reply);
        }
        let mut sessions = locked(&self.sessions);
        sessions.started += 1;
        let session = format!("session-{}", sessions.started);
        sessions.live.insert(session.clone());
        Ok(reply.header("Mcp-Session-Id", &session))
    }

    /// The session of a request, if it is alive.
    fn check_session(&self, request: &Request) -> Result<String, Reply> {
        let Some(session) = request.header("mcp-session-id") else {
            let error = json!({"code": NO_SESSION, "message": "Bad Request: no session"});
            let body = json!({"jsonrpc": "2.0", "id": null, "error": error});
            return Err(Reply::json(400, &body));
        };
        if !locked(&self.sessions).live.contains(session) {
            let error = json!({"code": NO_SESSION, "message": "Session not found"});
            let body = json!({"jsonrpc": "2.0", "id": null, "error": error});
            return Err(Reply::json(404, &body));
        }
        Ok(session.to_owned())
    }

    /// The header with the version is wanted since 2025-06-18.
    fn check_version(&self, request: &Request) -> Result<(), Reply> {
        let wanted = (self.version.as_str() >= "2025-06-18").then_some(self.version.as_str());
        // A server without sessions can't know a probe from a request of a client that shook hands.
        let probes =
            !self.has_sessions && request.rpc_method().as_deref() == Some("server/discover");
        if request.header("mcp-protocol-version") == wanted || wanted.is_none() || probes {
            return Ok(());
        }
        let error = json!({"code": NO_SESSION, "message": "Bad Request: unsupported version"});
        let body = json!({"jsonrpc": "2.0", "id": null, "error": error});
        Err(Reply::json(400, &body))
    }
}

impl Default for LegacyServer {
    fn default() -> Self {
        Self::new()
    }
}
