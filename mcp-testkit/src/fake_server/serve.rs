//! The loop: reads lines, answers them, each call in a thread of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _, Write as _};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::output::{Output, complain, flood};
use super::switches::Switches;
use super::tools;

/// How many answers `--shuffle` collects, and how long it waits for more.
const SHUFFLED: usize = 64;
const SHUFFLE_QUIET: Duration = Duration::from_millis(50);

/// The server while it runs.
pub(super) struct Server {
    pub(super) switches: Switches,
    pub(super) output: Output,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    received: BTreeMap<String, u64>,
    cancelled: BTreeSet<String>,
    pongs: u64,
    pings: u64,
    refusals: u32,
    /// Answers that wait to be shuffled, and when the newest came.
    waiting: Vec<(Value, Answer)>,
    newest: Option<Instant>,
}

pub(super) fn run(switches: Switches) -> ExitCode {
    if switches.ignore_term && std::env::var_os("FAKE_SERVER_TRAPPED").is_none() {
        return run_trapped();
    }
    if let Some(text) = &switches.say {
        complain(text);
    }
    flood(switches.stderr);
    if switches.grandchild {
        let sleeper = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .spawn();
        match sleeper {
            Ok(child) => complain(&format!("grandchild pid={}", child.id())),
            Err(error) => complain(&format!("no grandchild: {error}")),
        }
    }
    std::thread::sleep(switches.start_delay);
    if switches.never_read {
        loop {
            std::thread::park();
        }
    }
    let server = Arc::new(Server {
        output: Output::new(switches.clone()),
        state: Mutex::new(State {
            refusals: 1,
            ..State::default()
        }),
        changed: Condvar::new(),
        switches,
    });
    if let Some(banner) = &server.switches.banner {
        server.output.raw(format!("{banner}\n").as_bytes());
    }
    if server.switches.shuffle.is_some() {
        let server = Arc::clone(&server);
        std::thread::spawn(move || server.shuffle());
    }
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        server.log(&line);
        match serde_json::from_str(&line) {
            Ok(message) => handle(&server, message),
            Err(error) => complain(&format!("fake-server: bad line: {error}")),
        }
    }
    if server.switches.ignore_eof {
        loop {
            std::thread::park();
        }
    }
    ExitCode::SUCCESS
}

/// Runs the same again where TERM is ignored: a shell's trap does that without unsafe code, and it is inherited.
fn run_trapped() -> ExitCode {
    let Ok(own) = std::env::current_exe() else {
        return ExitCode::FAILURE;
    };
    let mut shell = Command::new("/bin/sh");
    shell
        .args(["-c", "trap '' TERM; exec \"$0\" \"$@\""])
        .arg(own)
        .args(std::env::args().skip(1));
    shell.env("FAKE_SERVER_TRAPPED", "1");
    #[cfg(unix)]
    {
        use std::os::unix::process::CommandExt as _;
        complain(&format!("fake-server: {}", shell.exec()));
    }
    ExitCode::FAILURE
}

fn handle(server: &Arc<Server>, message: Value) {
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    if method.is_empty() {
        let mut state = server.state();
        if message["id"]
            .as_str()
            .is_some_and(|id| id.starts_with("ping-"))
        {
            state.pongs += 1;
        }
        drop(state);
        server.changed.notify_all();
        return;
    }
    *server.state().received.entry(method.clone()).or_default() += 1;
    if method == "notifications/cancelled" {
        server
            .state()
            .cancelled
            .insert(message["params"]["requestId"].to_string());
        server.changed.notify_all();
        return;
    }
    let Some(id) = message.get("id").cloned() else {
        return;
    };
    let params = message["params"].clone();
    if method != "tools/call" || server.switches.single {
        if let Some(answer) = server.decide(&method, &id, &params) {
            server.answer(&id, answer);
        }
        server.after(&method);
        return;
    }
    let server = Arc::clone(server);
    std::thread::spawn(move || {
        let answer = server.decide("tools/call", &id, &params);
        if server.switches.shuffle.is_some() {
            if let Some(answer) = answer {
                let mut state = server.state();
                state.waiting.push((id, answer));
                state.newest = Some(Instant::now());
                drop(state);
                server.changed.notify_all();
            }
            return;
        }
        if let Some(answer) = answer {
            server.answer_call(&id, answer);
        }
        server.after("tools/call");
    });
}

impl Server {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, method: &str, id: &Value, params: &Value) -> Option<Answer> {
        let switches = &self.switches;
        let modern = switches.era == "modern"
            || (switches.era == "dual"
                && params["_meta"]
                    .get("io.modelcontextprotocol/protocolVersion")
                    .is_some());
        if method == "server/discover" {
            flood(switches.stderr_on_probe);
            if let Some(kind) = &switches.probe {
                return self.answer_probe(kind);
            }
        }
        if modern
            && method != "initialize"
            && let Err(error) = answer::check_meta(params)
        {
            return Some(Err(error));
        }
        let mut answer = match method {
            "initialize" => {
                if switches.early_ping {
                    self.output
                        .send(&json!({"jsonrpc": "2.0", "id": "ping-0", "method": "ping"}));
                }
                match switches.init.as_deref() {
                    Some("silent") => return None,
                    Some(kind) if kind.starts_with("exit") => exit(kind),
                    Some(kind) if kind.starts_with("error=") => answer::error(
                        kind.trim_start_matches("error=").parse().unwrap_or(-32603),
                        "on purpose",
                    ),
                    _ => answer::initialize(switches, params),
                }
            }
            "server/discover" => answer::discover(switches),
            "ping" if !modern => Ok(json!({})),
            "tools/list" => answer::list_tools(switches, params, &mut self.state().refusals),
            "tools/call" => tools::call(self, id, params)?,
            _ => answer::error(-32601, "method not found"),
        };
        if modern && let Ok(Value::Object(result)) = &mut answer {
            result.insert("resultType".to_owned(), "complete".into());
            result.insert("_meta".to_owned(), json!({"io.modelcontextprotocol/serverInfo": {"name": "fake-server", "version": "1"}}));
        }
        Some(answer)
    }

    fn answer_probe(&self, kind: &str) -> Option<Answer> {
        let (kind, value) = kind.split_once('=').unwrap_or((kind, ""));
        Some(match kind {
            "not-found" => answer::error(-32601, "method not found"),
            "invalid-params" => answer::error(-32602, "server not initialized"),
            "code" => answer::error(value.parse().unwrap_or(0), "no"),
            "empty" => Ok(json!({})),
            "unsupported" => Err((
                -32022,
                "version".to_owned(),
                Some(json!({"supported": [value]})),
            )),
            "legacy-only" => Ok(json!({"supportedVersions": [value], "capabilities": {}})),
            "header-mismatch" => answer::error(-32020, "headers"),
            "missing-capability" => answer::error(-32021, "capability"),
            "late" => {
                std::thread::sleep(Duration::from_millis(value.parse().unwrap_or(0)));
                answer::discover(&self.switches)
            }
            "plain-text" => {
                self.output.raw(b"unknown method server/discover\n");
                return None;
            }
            "silent" => return None,
            "exit" => exit(&format!("exit={value}")),
            other => answer::error(-32603, &format!("fake-server: no probe answer {other:?}")),
        })
    }

    /// Answers `tools/call`, with all that can go wrong there.
    fn answer_call(&self, id: &Value, answer: Answer) {
        if let Some(bytes) = self.switches.huge_line {
            self.output
                .raw(format!("{}\n", "#".repeat(bytes)).as_bytes());
        }
        let text = self.envelope(id, &answer);
        if self.switches.half_line {
            self.output.raw(&text.as_bytes()[..text.len() / 2]);
            exit::<()>("exit=0");
        }
        if self.switches.no_last_newline {
            self.output.raw(text.as_bytes());
            exit::<()>("exit=0");
        }
        self.answer(id, answer);
    }

    pub(super) fn answer(&self, id: &Value, answer: Answer) {
        let text = self.envelope(id, &answer);
        match self.switches.answers.as_deref() {
            Some("extra") => {
                self.output
                    .send(&json!({"jsonrpc": "2.0", "id": 424_242, "result": {}}));
                self.output.send(&json!({"jsonrpc": "2.0", "id": "nobody", "error": {"code": 1, "message": "?"}}));
            }
            Some("double") => {
                self.output.send_text(&text);
                let again = json!({"content": [{"type": "text", "text": "the second answer"}]});
                self.output.send_text(&self.envelope(id, &Ok(again)));
                return;
            }
            _ => {}
        }
        self.output.send_text(&text);
        for _ in 0..self.switches.list_changed {
            self.output
                .send(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        }
    }

    /// A response, with the id as the switches want it.
    fn envelope(&self, id: &Value, answer: &Answer) -> String {
        let id_text = match self.switches.id.as_deref() {
            Some("text") if id.is_number() => format!("\"{id}\""),
            Some("float") if id.is_number() => format!("{id}.0"),
            Some("wrong") => "987654321".to_owned(),
            Some("null") => "null".to_owned(),
            _ => id.to_string(),
        };
        let error = |code: &i64, message: &str, data: &Option<Value>| {
            let mut error = json!({"code": code, "message": message});
            if let Some(data) = data {
                error["data"] = data.clone();
            }
            error
        };
        let on_purpose = r#"{"code":-32000,"message":"both"}"#;
        let payload = match (answer, self.switches.answers.as_deref()) {
            (_, Some("neither")) => String::new(),
            (Ok(result), Some("both")) => format!(r#","result":{result},"error":{on_purpose}"#),
            (Ok(result), Some("error-null")) => format!(r#","result":{result},"error":null"#),
            (Ok(result), _) => format!(r#","result":{result}"#),
            (Err((code, message, data)), _) => {
                format!(r#","error":{}"#, error(code, message, data))
            }
        };
        if self.switches.id.as_deref() == Some("last") {
            format!(r#"{{"jsonrpc":"2.0"{payload},"id":{id_text}}}"#)
        } else {
            format!(r#"{{"jsonrpc":"2.0","id":{id_text}{payload}}}"#)
        }
    }

    fn after(&self, method: &str) {
        if let Some((wanted, status)) = &self.switches.exit_after
            && wanted == method
        {
            std::process::exit(*status);
        }
    }

    /// Waits, unless the request is cancelled; `true` if it was.
    pub(super) fn wait(&self, id: &Value, time: Duration) -> bool {
        let by = Instant::now() + time;
        let id = id.to_string();
        let mut state = self.state();
        loop {
            if state.cancelled.contains(&id) {
                return true;
            }
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Pings the client; `true` if it answers in time.
    pub(super) fn ping_client(&self, within: Duration) -> bool {
        let mut state = self.state();
        state.pings += 1;
        let (number, before) = (state.pings, state.pongs);
        drop(state);
        self.output
            .send(&json!({"jsonrpc": "2.0", "id": format!("ping-{number}"), "method": "ping"}));
        let by = Instant::now() + within;
        let mut state = self.state();
        while state.pongs == before {
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    pub(super) fn stats(&self) -> Value {
        let state = self.state();
        json!({"received": state.received, "cancelled": state.cancelled})
    }

    /// Sends collected answers in random order.
    fn shuffle(&self) {
        let mut random = self.switches.shuffle.unwrap_or(0) | 1;
        let mut state = self.state();
        loop {
            let quiet = state
                .newest
                .is_some_and(|newest| newest.elapsed() >= SHUFFLE_QUIET);
            if state.waiting.len() >= SHUFFLED || (quiet && !state.waiting.is_empty()) {
                let mut answers = std::mem::take(&mut state.waiting);
                drop(state);
                while !answers.is_empty() {
                    // xorshift: any order will do, the same for the same seed.
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let at = usize::try_from(random % answers.len() as u64).unwrap_or(0);
                    let (id, answer) = answers.swap_remove(at);
                    self.answer(&id, answer);
                }
                state = self.state();
            }
            state = self
                .changed
                .wait_timeout(state, SHUFFLE_QUIET)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    fn log(&self, line: &str) {
        if let Some(file) = &self.switches.log
            && let Ok(mut file) = std::fs::OpenOptions::new()
                .create(true)
                .append(true)
                .open(file)
        {
            let _ = writeln!(file, "{line}");
        }
    }
}

/// Exits with the status behind `=`, or 1.
fn exit<T>(kind: &str) -> T {
    let status = kind
        .split_once('=')
        .and_then(|(_, status)| status.parse().ok())
        .unwrap_or(1);
    std::process::exit(status);
}
