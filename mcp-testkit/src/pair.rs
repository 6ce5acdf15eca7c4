//! A [`ClientConnection`] and a scripted peer on a virtual clock, and the transcript of what passed between them.
//!
//! Nothing waits for real: the pair steps from one due moment to the next. The peer is a function from what it receives
//! to what it does and when, so that a test reads as a script.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp_jsonrpc::RequestId;
use mcp_jsonrpc::frame::{NdjsonDecoder, NdjsonFrame};
use mcp_proto::connection::{
    Answer, ChannelKind, ClientConfig, ClientConnection, Diagnostic, Event, ExchangeMessage,
    Outbound, Output, ServerNotification,
};
use mcp_proto::http::HttpFailure;
use mcp_proto::lifecycle::ReopenAs;
use mcp_proto::{CallFailure, ChannelEnd};
use serde_json::Value;

/// Most steps of one run: a script that never ends is a failure, not a hang.
const MAX_STEPS: usize = 100_000;

/// What a peer does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Act {
    /// Sends this text as one line.
    Say(String),
    /// Sends these bytes as they are, through the framing.
    Bytes(Vec<u8>),
    /// Ends the channel.
    End(&'static str),
    /// Sends a message on an exchange.
    Exchange(ExchangeMessage),
    /// Ends an exchange without an answer.
    ExchangeEnd(Option<RequestId>, HttpFailure),
}

/// A peer's reaction: what, and how long after.
pub type Reaction = (Duration, Act);

/// Says something at once.
pub fn say(text: impl Into<String>) -> Reaction {
    (Duration::ZERO, Act::Say(text.into()))
}

/// Says something later.
pub fn say_after(delay: Duration, text: impl Into<String>) -> Reaction {
    (delay, Act::Say(text.into()))
}

/// Ends the channel at once.
pub fn end(why: &'static str) -> Reaction {
    (Duration::ZERO, Act::End(why))
}

/// Whether the connection had something to do.
enum Step {
    Did,
    Waits(Option<Instant>),
}

type Script = Box<dyn FnMut(&Value) -> Vec<Reaction>>;

/// A connection, a peer and a clock.
pub struct Pair {
    /// The connection under test. Its tokens are labels.
    pub connection: ClientConnection<&'static str>,
    start: Instant,
    now: Instant,
    peer: Script,
    due: BTreeMap<(Instant, u64), Act>,
    sequence: u64,
    decoder: NdjsonDecoder,
    open: bool,
    transcript: String,
    settled: Vec<(&'static str, Result<String, CallFailure>)>,
}

impl Pair {
    /// A pair whose connection was not started yet.
    pub fn new(config: ClientConfig, peer: impl FnMut(&Value) -> Vec<Reaction> + 'static) -> Self {
        let start = Instant::now();
        Self {
            decoder: NdjsonDecoder::new(config.limits.max_message_bytes),
            connection: ClientConnection::new(config),
            start,
            now: start,
            peer: Box::new(peer),
            due: BTreeMap::new(),
            sequence: 0,
            open: true,
            transcript: String::new(),
            settled: Vec::new(),
        }
    }

    /// A pair whose connection is started and ran until nothing more happens.
    pub fn started(
        config: ClientConfig,
        peer: impl FnMut(&Value) -> Vec<Reaction> + 'static,
    ) -> Self {
        let mut pair = Self::new(config, peer);
        pair.start();
        pair
    }

    /// A pair whose messages have an exchange each, started as [`Pair::started`]. Whatever the peer says goes to the exchange
    /// of the request that it reacts to, unless it names another.
    pub fn started_per_exchange(
        config: ClientConfig,
        peer: impl FnMut(&Value) -> Vec<Reaction> + 'static,
    ) -> Self {
        let mut pair = Self::new(config, peer);
        pair.connection.set_channel(ChannelKind::PerExchange);
        pair.start();
        pair
    }

    /// Starts the connection and runs.
    pub fn start(&mut self) {
        self.connection.start(self.now);
        self.run();
    }

    /// The virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What passed so far, one line each, with the time since the start.
    pub fn transcript(&self) -> &str {
        &self.transcript
    }

    /// The requests that settled so far, in order.
    pub fn settled(&self) -> &[(&'static str, Result<String, CallFailure>)] {
        &self.settled
    }

    /// The peer does something by itself.
    pub fn peer_acts(&mut self, reactions: impl IntoIterator<Item = Reaction>) {
        for (delay, act) in reactions {
            self.schedule(delay, act);
        }
        self.run();
    }

    /// Lets time pass, with all that falls due in it.
    pub fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        self.run_until(until);
        self.now = until;
        self.connection.handle_timeout(self.now);
        self.run_until(until);
    }

    /// Runs until nothing more can happen without input.
    pub fn run(&mut self) {
        self.run_until(self.now + Duration::from_secs(365 * 24 * 3600));
    }

    fn run_until(&mut self, until: Instant) {
        for _ in 0..MAX_STEPS {
            let Step::Waits(deadline) = self.take_output() else {
                continue;
            };
            let acting = self.due.keys().next().copied();
            let next = acting.map(|(at, _)| at).into_iter().chain(deadline).min();
            let Some(next) = next.filter(|next| *next <= until) else {
                return;
            };
            let before = self.now;
            self.now = self.now.max(next);
            match acting.filter(|(at, _)| *at <= self.now) {
                Some(key) => {
                    if let Some(act) = self.due.remove(&key) {
                        self.act(act);
                    }
                }
                None => {
                    self.connection.handle_timeout(self.now);
                    let left = self.connection.next_deadline();
                    assert!(
                        left.is_none_or(|left| left > self.now),
                        "a deadline was left behind that is due already"
                    );
                    if let Step::Waits(_) = self.take_output() {
                        // Woken too early, which is allowed: as if no time had passed.
                        self.now = before;
                    }
                }
            }
        }
        panic!(
            "the conversation did not end within {MAX_STEPS} steps:\n{}",
            self.transcript
        );
    }

    /// Takes one output and carries it out.
    fn take_output(&mut self) -> Step {
        match self.connection.poll_output() {
            Output::Abort(id) => self.line(&format!("C>S closes the stream of {id}")),
            Output::Transmit(message) => self.transmitted(&message),
            Output::Event(event) => self.happened(event),
            Output::Wait(deadline) => return Step::Waits(deadline),
        }
        Step::Did
    }

    fn schedule(&mut self, delay: Duration, act: Act) {
        self.sequence += 1;
        self.due.insert((self.now + delay, self.sequence), act);
    }

    fn transmitted(&mut self, outbound: &Outbound) {
        let message: Value =
            serde_json::from_slice(&outbound.body()).expect("what the connection sends is JSON");
        self.note("C>S", &message);
        for field in outbound.head().into_iter().flat_map(|head| &head.fields) {
            self.line(&format!("      {}: {}", field.name, field.value));
        }
        for (delay, act) in (self.peer)(&message) {
            let act = match act {
                Act::Say(text) if outbound.head().is_some() => {
                    let body = Bytes::from(text);
                    Act::Exchange(ExchangeMessage::new(outbound.request_id().cloned(), body))
                }
                act => act,
            };
            self.schedule(delay, act);
        }
    }

    fn act(&mut self, act: Act) {
        if !self.open {
            return;
        }
        match act {
            Act::Say(text) => {
                match serde_json::from_str(&text) {
                    Ok(message) => self.note("S>C", &message),
                    Err(_) => self.line(&format!("S>C noise {text:?}")),
                }
                self.connection
                    .handle_frame(NdjsonFrame::Line(Bytes::from(text)), self.now);
            }
            Act::Bytes(bytes) => {
                let mut buffer = bytes::BytesMut::from(&bytes[..]);
                self.line(&format!("S>C {} bytes", bytes.len()));
                while let Some(frame) = self.decoder.decode(&mut buffer) {
                    self.connection.handle_frame(frame, self.now);
                }
            }
            Act::Exchange(message) => {
                let on = message
                    .origin
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), ToString::to_string);
                match serde_json::from_slice(&message.body) {
                    Ok(value) => self.note(&format!("S>C[{on}]"), &value),
                    Err(_) => self.line(&format!("S>C[{on}] noise {:?}", message.body)),
                }
                self.connection.handle_exchange_message(message, self.now);
            }
            Act::ExchangeEnd(origin, failure) => {
                let on = origin
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), ToString::to_string);
                self.line(&format!("S>C[{on}] {failure}"));
                self.connection
                    .handle_exchange_end(origin, failure, self.now);
            }
            Act::End(why) => {
                self.open = false;
                self.due.clear();
                self.line(&format!("S>C end: {why}"));
                self.connection
                    .handle_channel_end(ChannelEnd::new(why), self.now);
            }
        }
    }

    fn happened(&mut self, event: Event<&'static str>) {
        let text = match event {
            Event::Ready(agreement) => format!("ready: {}, {}", agreement.era, agreement.version),
            Event::Failed(error) => format!("failed: {error}"),
            Event::Closed => "closed".to_owned(),
            Event::Progress {
                token, progress, ..
            } => format!("progress of {token}: {}", progress.progress),
            Event::Notification(ServerNotification::Other { method, .. }) => {
                format!("notification {method}")
            }
            Event::Notification(notification) => format!("notification {notification:?}"),
            Event::Settled { token, outcome, .. } => {
                let shown = match &outcome {
                    Ok(Answer::InputRequired(round)) => {
                        format!("asked by {token}: {}", short(round.as_str()))
                    }
                    Ok(answer) => format!("settled {token}: {}", short(answer.result().as_str())),
                    Err(failure) => format!("settled {token}: failed: {failure}"),
                };
                self.settled.push((
                    token,
                    outcome.map(|answer| answer.result().as_str().to_owned()),
                ));
                shown
            }
            Event::Diagnostic(diagnostic) => format!("note: {}", describe(&diagnostic)),
            Event::Reopen(channel) => {
                if channel == ReopenAs::OldHttp {
                    self.line("* reopen as HTTP+SSE");
                    self.connection.set_channel(ChannelKind::Shared);
                } else {
                    self.line("* reopen");
                }
                self.open = true;
                self.connection.handle_channel_opened(self.now);
                return;
            }
            Event::ServerRequest(request) => {
                format!(
                    "asked {} id={} because of {:?}",
                    request.method, request.id, request.cause
                )
            }
            Event::ServerRequestCancelled(id) => format!("not asked any more: {id}"),
            Event::SessionLost => "session lost".to_owned(),
            Event::Subscription { token, change, .. } => {
                format!("subscription {token}: {change:?}")
            }
            other => format!("{other:?}"),
        };
        self.line(&format!("* {text}"));
    }

    /// A message: its head on one line, its payload below when there is one.
    fn note(&mut self, direction: &str, message: &Value) {
        let mut head = direction.to_owned();
        if let Some(method) = message.get("method").and_then(Value::as_str) {
            let _ = write!(head, " {method}");
        }
        if let Some(id) = message.get("id") {
            let _ = write!(head, " id={id}");
        }
        let payload = ["params", "result", "error"]
            .iter()
            .find_map(|name| Some((name, message.get(name)?)));
        match payload {
            Some((name, payload)) => self.line(&format!(
                "{head}\n           {name} {}",
                short(&payload.to_string())
            )),
            None => self.line(&head),
        }
    }

    fn line(&mut self, text: &str) {
        let at = self.now.duration_since(self.start);
        let _ = writeln!(self.transcript, "+{:.3}s {text}", at.as_secs_f64());
    }
}

fn describe(diagnostic: &Diagnostic) -> String {
    match diagnostic {
        Diagnostic::Noise(fault) => format!("noise: {fault}"),
        Diagnostic::Quirk(quirk) => format!("quirk: {quirk}"),
        Diagnostic::Violation(violation) => format!("violation: {violation}"),
        Diagnostic::PeerError(error) => format!("peer error: {error}"),
        Diagnostic::LateAnswer(id) => format!("late answer to {id}"),
        Diagnostic::DuplicateAnswer(id) => format!("second answer to {id}"),
        Diagnostic::UnknownAnswer(id) => format!("answer to unknown {id}"),
        Diagnostic::UnknownProgress => "progress of nothing in flight".to_owned(),
        other => format!("{other:?}"),
    }
}

fn short(text: &str) -> String {
    const MAX: usize = 400;
    match text.char_indices().nth(MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A peer in the making: what it answers to each method.
///
/// ```
/// use mcp_testkit::pair::{Pair, Peer};
/// use mcp_proto::connection::ClientConfig;
/// use mcp_proto::model::implementation::Implementation;
///
/// let config = ClientConfig::new(Implementation::new("test", "1"));
/// let pair = Pair::started(config, Peer::legacy("2025-11-25").script());
/// assert!(pair.transcript().ends_with("* ready: legacy, 2025-11-25\n"));
/// ```
#[derive(Debug, Default)]
pub struct Peer {
    answers: Vec<(String, Vec<Template>)>,
}

/// One thing that a [`Peer`] does about a request.
#[derive(Clone, Debug)]
struct Template {
    delay: Duration,
    act: Act,
}

impl Peer {
    /// A peer that answers nothing.
    pub fn silent() -> Self {
        Self::default()
    }

    /// A legacy server that says so to a probe, shakes hands at this version and has tools.
    pub fn legacy(version: &str) -> Self {
        Self::silent()
            .error("server/discover", -32601, "method not found")
            .result(
                "initialize",
                &serde_json::json!({
                    "protocolVersion": version, "capabilities": {"tools": {}},
                    "serverInfo": {"name": "peer", "version": "1"}
                }),
            )
    }

    /// A modern server with tools.
    pub fn modern() -> Self {
        Self::silent().result(
            "server/discover",
            &serde_json::json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "peer", "version": "1"}}
            }),
        )
    }

    /// Answers a method with a result.
    #[must_use]
    pub fn result(self, method: &str, result: &Value) -> Self {
        self.say(
            method,
            Duration::ZERO,
            &format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{result}}}"#),
        )
    }

    /// Answers a method with an error.
    #[must_use]
    pub fn error(self, method: &str, code: i64, message: &str) -> Self {
        let message = Value::from(message);
        self.say(
            method,
            Duration::ZERO,
            &format!(
                r#"{{"jsonrpc":"2.0","id":ID,"error":{{"code":{code},"message":{message}}}}}"#
            ),
        )
    }

    /// Says a line some time after a method was called; `ID` in it becomes the request's id. Replaces nothing: several
    /// lines for one method are all said.
    #[must_use]
    pub fn say(self, method: &str, delay: Duration, line: &str) -> Self {
        self.does(method, delay, Act::Say(line.to_owned()))
    }

    /// Ends the channel when a method is called.
    #[must_use]
    pub fn ends(self, method: &str, why: &'static str) -> Self {
        self.does(method, Duration::ZERO, Act::End(why))
    }

    /// Forgets what was answered to a method.
    #[must_use]
    pub fn without(mut self, method: &str) -> Self {
        self.answers.retain(|(name, _)| name != method);
        self
    }

    fn does(mut self, method: &str, delay: Duration, act: Act) -> Self {
        let template = Template { delay, act };
        match self.answers.iter_mut().find(|(name, _)| name == method) {
            Some((_, templates)) => templates.push(template),
            None => self.answers.push((method.to_owned(), vec![template])),
        }
        self
    }

    /// The peer as a script for a [`Pair`].
    pub fn script(self) -> impl FnMut(&Value) -> Vec<Reaction> + 'static {
        move |message| {
            let method = message
                .get("method")
                .and_then(Value::as_str)
                .unwrap_or_default();
            let id = message
                .get("id")
                .map(ToString::to_string)
                .unwrap_or_default();
            let templates = self
                .answers
                .iter()
                .find(|(name, _)| name == method)
                .map(|(_, templates)| templates);
            let react = |template: &Template| match &template.act {
                Act::Say(line) => (template.delay, Act::Say(line.replace("ID", &id))),
                other => (template.delay, other.clone()),
            };
            templates.into_iter().flatten().map(react).collect()
        }
    }
}
