//! Random interleavings with all that a driver and a host can do: answers to the server's requests, pauses, messages that are
//! taken one by one, channels that end and are opened again, batches, sessions that are lost at any moment.
//!
//! Beside what `random_exchanges` asks for: nothing happens after the end; no answer is sent in the modern era; nothing but
//! `initialize` goes before `notifications/initialized`; the connection is ready only while nothing else is in flight; each
//! request of the server is answered at most once and never after it was taken back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp_jsonrpc::{Deadline, ErrorCode, ErrorObject, RequestId};
use mcp_proto::connection::{
    ChannelKind, ClientConnection, Event, ExchangeMessage, Outbound, OutboundKind, Output,
    RequestOptions, SubscriptionChange, SubscriptionId,
};
use mcp_proto::http::{Delivery, HttpFailure, HttpFailureKind};
use mcp_proto::lifecycle::{EraPolicy, ReopenAs};
use mcp_proto::method::{Ping, SetLogLevel, SubscribeResource};
use mcp_proto::model::deprecated::logging::{LoggingLevel, SetLevelParams};
use mcp_proto::model::resource::ResourceParams;
use mcp_proto::model::subscription::ListenFilter;
use mcp_proto::version::Era;
use mcp_proto::{CallFailure, ChannelEnd};
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::config;

#[derive(Clone, Debug)]
enum Step {
    /// The server says something: about the request that was sent as the `which`th from the end, on that exchange, on the one
    /// before it or on none.
    Say {
        which: usize,
        shape: usize,
        origin: usize,
        last: bool,
        status: Option<u16>,
    },
    End {
        which: usize,
        failure: usize,
        origin: usize,
    },
    Answer {
        which: usize,
        good: bool,
    },
    Cancel(usize),
    Close,
    EndChannel,
    Level(bool),
    Listen,
    Missed,
    Pass(u64),
    Pause(usize, bool),
    Request {
        method: usize,
        idle: u64,
        total: u64,
        progress: bool,
    },
    Take(usize),
    Typed(usize),
    Unlisten(usize),
}

const METHODS: &[(&str, &str)] = &[
    ("tools/call", r#"{"name":"größe ","arguments":{}}"#),
    ("tools/list", "{}"),
    ("resources/subscribe", r#"{"uri":"note://1"}"#),
    ("resources/subscribe", r#"{"uri":"note://2"}"#),
    ("logging/setLevel", r#"{"level":"debug"}"#),
    ("subscriptions/listen", r#"{"notifications":{}}"#),
    ("ping", "{}"),
];

/// `ID` becomes the id of a request, `NEW` the newest number.
const SHAPES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"logging":{},"resources":{"subscribe":true}},"supportedVersions":["2026-07-28"]}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-03-26","capabilities":{"logging":{},"resources":{"subscribe":true}}}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"logging":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32020,"message":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"x","data":{"supported":["2026-07-28","2025-11-25"]}}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"x","data":{"supported":["2025-06-18"]}}}"#,
    r#"{"jsonrpc":"2.0","id":"ID","result":{}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":NEW,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":"sID","method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":"sID","method":"roots/list"}"#,
    r#"{"jsonrpc":"2.0","id":"sNEW","method":"elicitation/create","params":{}}"#,
    r#"{"jsonrpc":"2.0","id":"sID","method":"elicitation/create","params":{}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"sID"}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"ID"},"notifications":{"toolsListChanged":true}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":NEW}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#,
    r#"[{"jsonrpc":"2.0","id":"sNEW","method":"ping"},{"jsonrpc":"2.0","id":ID,"result":{}},{"jsonrpc":"2.0","id":"sID","method":"elicitation/create"}]"#,
    r#"[{"jsonrpc":"2.0","id":"sNEW","method":"ping"},{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"x"}},{"jsonrpc":"2.0","id":"sID","method":"ping"}]"#,
    r#"{"jsonrpc":"2.0","id":ID}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{}}{"jsonrpc":"2.0","id":"sID","method":"ping"}"#,
    "noise",
];

const KINDS: &[HttpFailureKind] = &[
    HttpFailureKind::Accepted,
    HttpFailureKind::Connect,
    HttpFailureKind::Cut,
    HttpFailureKind::Html,
    HttpFailureKind::NoAnswer,
    HttpFailureKind::SessionId,
    HttpFailureKind::StreamEnded,
    HttpFailureKind::SessionLost,
];
const STATUSES: &[u16] = &[302, 400, 401, 404, 405, 429, 500, 503];
const FAILURES: usize = KINDS.len() + STATUSES.len() + 3;

fn failure(which: usize) -> HttpFailure {
    if let Some(kind) = KINDS.get(which) {
        return HttpFailure::new(*kind, Delivery::Unknown, "");
    }
    match STATUSES.get(which - KINDS.len()) {
        Some(status) => HttpFailure::of_status(*status, false, ""),
        None => HttpFailure::of_status(404, true, ""),
    }
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop_oneof![6 => Just(None), 1 => Just(Some(400)), 1 => Just(Some(404)), 1 => Just(Some(503))];
    let origin = || prop_oneof![6 => Just(0_usize), 1 => Just(1), 1 => Just(2)];
    let which = || prop_oneof![3 => Just(0_usize), 3 => 1..5_usize];
    prop_oneof![
        16 => (which(), 0..SHAPES.len(), origin(), prop::bool::weighted(0.3), status).prop_map(
            |(which, shape, origin, last, status)| Step::Say { which, shape, origin, last, status }
        ),
        5 => (which(), 0..FAILURES, origin()).prop_map(|(which, failure, origin)| Step::End { which, failure, origin }),
        7 => (0..METHODS.len(), 0..5000_u64, 0..9000_u64, any::<bool>())
            .prop_map(|(method, idle, total, progress)| Step::Request { method, idle, total, progress }),
        14 => prop_oneof![1 => 1..6_usize, 2 => Just(99)].prop_map(Step::Take),
        4 => prop_oneof![3 => 0..4000_u64, 1 => 0..70_000_u64].prop_map(Step::Pass),
        3 => (0..3_usize, any::<bool>()).prop_map(|(which, good)| Step::Answer { which, good }),
        2 => (0..4_usize).prop_map(Step::Cancel),
        2 => (0..4_usize, any::<bool>()).prop_map(|(which, on)| Step::Pause(which, on)),
        2 => (0..3_usize).prop_map(Step::Typed),
        2 => Just(Step::Listen),
        1 => (0..3_usize).prop_map(Step::Unlisten),
        1 => any::<bool>().prop_map(Step::Level),
        1 => Just(Step::Missed),
        1 => Just(Step::EndChannel),
        1 => prop::bool::weighted(0.3).prop_map(|close| if close { Step::Close } else { Step::Missed }),
    ]
}

struct Model {
    next_token: u32,
    open: BTreeMap<u32, RequestId>,
    listening: BTreeMap<u32, SubscriptionId>,
    /// Requests of the server that the host was told of and did not answer.
    asked: BTreeSet<RequestId>,
    /// Ids of requests that were handed over, newest last.
    sent: Vec<i64>,
    aborted: BTreeSet<i64>,
    era: Option<Era>,
    /// What is spoken now.
    spoken: Option<Era>,
    ready: bool,
    /// `notifications/initialized` was sent in this session.
    shaken: bool,
    over: bool,
    shared: bool,
    reopens: bool,
    /// Since everything was taken out.
    steps: usize,
}

impl Model {
    /// Takes so many outputs.
    fn take(
        &mut self,
        connection: &mut ClientConnection<u32>,
        count: usize,
        now: Instant,
    ) -> Result<(), TestCaseError> {
        for _ in 0..count {
            // Events are told last.
            self.spoken = connection.agreement().map(|agreement| agreement.era);
            match connection.poll_output() {
                Output::Transmit(message) => self.transmitted(&message)?,
                Output::Abort(RequestId::Number(id)) => {
                    prop_assert!(!self.shared, "an abort on a shared channel");
                    prop_assert!(self.sent.contains(&id), "{id} was never sent");
                    prop_assert!(self.aborted.insert(id), "{id} is abandoned twice");
                }
                Output::Abort(id) => prop_assert!(false, "not an id of ours: {id}"),
                Output::Event(event) => self.happened(connection, event, now)?,
                Output::Wait(_) => {
                    self.steps = 0;
                    return Ok(());
                }
            }
        }
        prop_assert!(count < 10_000, "the connection never waits");
        Ok(())
    }

    fn transmitted(&mut self, message: &Outbound) -> Result<(), TestCaseError> {
        let body: Value = serde_json::from_slice(&message.body()).expect("JSON");
        let method = body["method"].as_str().unwrap_or_default();
        prop_assert!(!self.over, "sent after the end: {body}");
        prop_assert_eq!(message.head().is_none(), self.shared);
        if let Some(RequestId::Number(id)) = message.request_id() {
            prop_assert!(!self.sent.contains(id), "id {id} was used twice");
            prop_assert_eq!(body["id"].as_i64(), Some(*id));
            self.sent.push(*id);
        }
        match method {
            "initialize" => self.shaken = false,
            "notifications/initialized" => self.shaken = true,
            _ => {}
        }
        if self.spoken == Some(Era::Modern) {
            prop_assert!(
                *message.kind() != OutboundKind::Response,
                "an answer in the modern era: {body}"
            );
            prop_assert!(
                !matches!(
                    method,
                    "initialize"
                        | "ping"
                        | "notifications/initialized"
                        | "logging/setLevel"
                        | "resources/subscribe"
                ),
                "{method}"
            );
            let version = &body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
            if message.request_id().is_some() {
                prop_assert_eq!(version.as_str(), Some("2026-07-28"), "{}", body);
            }
        }
        let modern =
            self.spoken == Some(Era::Modern) || matches!(method, "server/discover" | "initialize");
        if message.request_id().is_some() && !modern {
            prop_assert!(self.shaken, "{method} before the handshake was done");
        }
        if let Some(head) = message.head() {
            prop_assert_eq!(&head.method, method);
            let modern = self.spoken == Some(Era::Modern) || method == "server/discover";
            prop_assert_eq!(head.era == Era::Modern, modern, "{}", body);
        }
        Ok(())
    }

    fn happened(
        &mut self,
        connection: &mut ClientConnection<u32>,
        event: Event<u32>,
        now: Instant,
    ) -> Result<(), TestCaseError> {
        prop_assert!(!self.over, "after the end: {event:?}");
        match event {
            Event::Settled { id, token, outcome } => {
                let unsent = match &outcome {
                    Err(
                        CallFailure::ChannelEnded { sent, .. }
                        | CallFailure::Closed { sent }
                        | CallFailure::TimedOut { sent, .. },
                    ) => !sent,
                    Err(CallFailure::Http(failure)) => failure.delivery == Delivery::NotSent,
                    _ => false,
                };
                let was_sent = matches!(id, RequestId::Number(id) if self.sent.contains(&id));
                prop_assert!(!(unsent && was_sent), "{id} was sent, whatever is said");
                prop_assert!(
                    self.open.remove(&token).is_some(),
                    "token {token} settled twice or after its cancellation"
                );
            }
            // One that was in the queue already may follow the cancellation of its request.
            Event::Progress { token, .. } => prop_assert!(token < self.next_token),
            Event::Subscription { token, change, .. } => {
                let known = if matches!(change, SubscriptionChange::Ended(_)) {
                    self.listening.remove(&token).is_some()
                } else {
                    self.listening.contains_key(&token)
                };
                prop_assert!(known, "subscription {token}: {change:?}");
            }
            Event::Ready(agreement) => {
                prop_assert!(!self.ready, "ready twice");
                prop_assert!(self.era.is_none_or(|era| era == agreement.era), "VER-02");
                prop_assert!(!(self.shared && self.reopens && agreement.era == Era::Modern));
                self.era = Some(agreement.era);
                self.ready = true;
                // Nothing else can have happened since.
                if self.steps <= 1 {
                    prop_assert_eq!(connection.in_flight(), self.open.len());
                }
            }
            Event::SessionLost => {
                prop_assert!(self.ready, "a session is lost that there was not");
                prop_assert!(self.asked.is_empty(), "left over: {:?}", self.asked);
                self.ready = false;
            }
            Event::Reopen(channel) => {
                prop_assert_eq!(self.era, None);
                if channel == ReopenAs::OldHttp {
                    prop_assert!(!self.reopens, "two times");
                    self.shared = true;
                    self.reopens = true;
                    connection.set_channel(ChannelKind::Shared);
                }
                connection.handle_channel_opened(now);
            }
            Event::ServerRequest(request) => {
                prop_assert!(self.asked.insert(request.id), "asked twice");
            }
            Event::ServerRequestCancelled(id) => {
                prop_assert!(self.asked.remove(&id), "{id} was not asked");
            }
            Event::Failed(_) | Event::Closed => {
                prop_assert!(self.asked.is_empty(), "left over: {:?}", self.asked);
                prop_assert!(self.open.is_empty(), "never settled: {:?}", self.open);
                prop_assert!(self.listening.is_empty());
                self.over = true;
            }
            _ => {}
        }
        Ok(())
    }

    fn id(&self, which: usize) -> i64 {
        let sent = self.sent.iter().rev().nth(which);
        sent.copied().unwrap_or(which as i64)
    }

    fn origin(&self, which: usize, origin: usize) -> Option<RequestId> {
        (origin < 2).then(|| RequestId::Number(self.id(which + origin)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn sessions_keep_their_promises(
        shared in prop::bool::weighted(0.25),
        policy in prop_oneof![3 => Just(EraPolicy::Auto), 2 => Just(EraPolicy::Legacy), 1 => Just(EraPolicy::Modern)],
        hint in prop_oneof![2 => Just(None), 1 => Just(Some(Era::Legacy)), 1 => Just(Some(Era::Modern))],
        opened in prop::bool::weighted(0.7),
        loses in prop::bool::weighted(0.4),
        silent in prop::bool::weighted(0.2),
        first in 0..SHAPES.len(),
        second in 0..3_usize,
        steps in prop::collection::vec(step(), 0..100),
    ) {
        let mut now = Instant::now();
        let mut config = config();
        config.policy = policy;
        config.hint = hint;
        config.limits.max_subscriptions = 2;
        config.limits.max_server_requests = 3;
        config.answers.insert("elicitation/create".to_owned());
        let mut connection = ClientConnection::<u32>::new(config);
        connection.set_channel(if shared { ChannelKind::Shared } else { ChannelKind::PerExchange });
        let mut model = Model {
            next_token: 0, open: BTreeMap::new(), listening: BTreeMap::new(), asked: BTreeSet::new(), sent: Vec::new(),
            aborted: BTreeSet::new(), era: None, spoken: None, ready: false, shaken: false, over: false, shared, reopens: false, steps: 0,
        };
        connection.start(now);
        model.take(&mut connection, 10_000, now)?;
        let say = |shape, last| Step::Say { which: 0, shape, origin: 0, last, status: None };
        let opening = [if silent { Step::Pass(3000) } else { say(first, true) }, Step::Take(99), say(second, true), Step::Take(99)];
        // The others are about the start.
        let opening = opening.into_iter().filter(|_| opened);
        // In some the session is lost at once, with something to be restored.
        let told = [Step::Request { method: 2, idle: 0, total: 0, progress: false }, Step::Take(99), say(3, true), Step::Take(99)];
        let lost = [Step::End { which: 0, failure: KINDS.len() - 1, origin: 2 }, Step::Take(99)];
        let lost = told.into_iter().chain(lost).filter(|_| opened && loses);
        for step in opening.chain(lost).chain(steps) {
            model.steps += usize::from(!matches!(step, Step::Take(_)));
            match step {
                Step::Say { which, shape, origin, last, status } => {
                    let text = SHAPES[shape]
                        .replace("ID", &model.id(which).to_string())
                        .replace("NEW", &(model.sent.last().copied().unwrap_or_default() + 1).to_string());
                    if model.shared {
                        connection.handle_message(Bytes::from(text), now);
                    } else {
                        let mut message = ExchangeMessage::new(model.origin(which, origin), Bytes::from(text));
                        message.is_last = last;
                        message.http_status = status;
                        connection.handle_exchange_message(message, now);
                    }
                }
                Step::End { which, failure: kind, origin } => {
                    if !model.shared {
                        connection.handle_exchange_end(model.origin(which, origin), failure(kind), now);
                    }
                }
                Step::Answer { which, good } => {
                    // A server may take a request back and use its id again.
                    model.take(&mut connection, 10_000, now)?;
                    if let Some(id) = model.asked.iter().nth(which).cloned() {
                        let result = RawValue::from_string("{}".to_owned()).expect("JSON");
                        let error = ErrorObject::new(ErrorCode::INTERNAL_ERROR, "no");
                        let outcome = if good { Ok(&*result) } else { Err(&error) };
                        let wanted = connection.answer(&id, outcome, now);
                        prop_assert!(wanted, "the answer to {} is not wanted", id);
                        model.asked.remove(&id);
                        prop_assert!(!connection.answer(&id, Ok(&result), now), "answered twice");
                    }
                }
                Step::Request { method, idle, total, progress } => {
                    let limit = |millis: u64| (millis > 0).then(|| Duration::from_millis(millis));
                    let mut options = RequestOptions::default();
                    options.deadline = Deadline::new(limit(idle), limit(total));
                    options.progress = progress;
                    let (method, params) = METHODS[method];
                    let params = RawValue::from_string(params.to_owned()).expect("JSON");
                    let token = model.next_token;
                    model.next_token += 1;
                    if let Ok(id) = connection.request_raw(method, Some(&params), &options, token, now) {
                        model.open.insert(token, id);
                    }
                }
                Step::Typed(which) => {
                    let (options, token) = (RequestOptions::default(), model.next_token);
                    model.next_token += 1;
                    let level = SetLevelParams::new(LoggingLevel::Error);
                    let resource = ResourceParams::new("note://3");
                    let sent = match which {
                        0 => connection.request::<Ping>(&Default::default(), &options, token, now),
                        1 => connection.request::<SetLogLevel>(&level, &options, token, now),
                        _ => connection.request::<SubscribeResource>(&resource, &options, token, now),
                    };
                    if let Ok(id) = sent {
                        model.open.insert(token, id);
                    }
                }
                Step::Level(on) => connection.set_log_level(on.then_some(LoggingLevel::Debug)),
                Step::Pause(which, on) => {
                    if let Some(id) = model.open.values().nth(which) {
                        if on { connection.pause(id, now) } else { connection.resume(id, now) }
                    }
                }
                Step::Cancel(which) => {
                    if let Some((&token, id)) = model.open.iter().nth(which)
                        && let Some(cancelled) = connection.cancel(id, "test")
                    {
                        prop_assert_eq!(cancelled, token);
                        model.open.remove(&token);
                    }
                }
                Step::Listen => {
                    let token = model.next_token;
                    model.next_token += 1;
                    if let Ok(id) = connection.listen(&ListenFilter::default().tools(), token, now) {
                        model.listening.insert(token, id);
                    }
                }
                Step::Unlisten(which) => {
                    // Events that are in the queue still are told all the same, so that there must be none.
                    model.take(&mut connection, 10_000, now)?;
                    if let Some((&token, &id)) = model.listening.iter().nth(which) {
                        prop_assert_eq!(connection.unlisten(id), Some(token));
                        model.listening.remove(&token);
                    }
                }
                Step::Missed => connection.handle_missed_changes(),
                Step::Pass(millis) => {
                    now += Duration::from_millis(millis);
                    connection.handle_timeout(now);
                    if let Some(next) = connection.next_deadline() {
                        prop_assert!(next > now, "a deadline was left behind that is due already");
                    }
                }
                Step::Take(count) => model.take(&mut connection, count, now)?,
                Step::EndChannel => connection.handle_channel_end(ChannelEnd::new("test"), now),
                Step::Close => connection.close(now),
            }
            // The lifecycle has one request of its own, a new session four.
            let own = if model.ready && model.steps == 0 { 0 } else { 5 };
            prop_assert!(connection.in_flight() <= model.open.len() + own);
        }
        connection.close(now);
        model.take(&mut connection, 10_000, now)?;
        prop_assert!(model.over);
        prop_assert_eq!(connection.in_flight(), 0);
        prop_assert_eq!(connection.next_deadline(), None);
        prop_assert!(!connection.has_transmits());
    }
}
