//! Random interleavings on a channel with an exchange per message: a host, a server, time, lost sessions, subscriptions.
//!
//! Whatever happens: each request settles exactly once unless it was cancelled; each subscription ends exactly once unless the
//! host ended it; headers say what the body says; nothing forbidden in the era is sent; only exchanges that were opened are
//! abandoned; a new session is asked for by one `initialize` at a time; no deadline is left behind that is due.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp_jsonrpc::{Deadline, RequestId};
use mcp_proto::ChannelEnd;
use mcp_proto::connection::{
    ChannelKind, ClientConnection, Event, ExchangeMessage, Outbound, OutboundKind, Output,
    RequestOptions, SubscriptionChange, SubscriptionId,
};
use mcp_proto::http::{Delivery, HttpFailure, HttpFailureKind};
use mcp_proto::lifecycle::{EraPolicy, ReopenAs};
use mcp_proto::model::subscription::ListenFilter;
use mcp_proto::quirk::Quirk;
use mcp_proto::version::Era;
use proptest::prelude::*;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::config;

#[derive(Clone, Debug)]
enum Step {
    Answer {
        which: usize,
        shape: usize,
        origin: Origin,
        last: bool,
        status: Option<u16>,
    },
    Cancel(usize),
    Close,
    End {
        which: usize,
        failure: usize,
        origin: Origin,
    },
    EndChannel,
    Listen,
    Missed,
    Pass(u64),
    Request {
        method: usize,
        millis: u64,
        /// Whether it stays in the queue for a while.
        held: bool,
    },
    Unlisten(usize),
}

/// On which exchange something arrives.
#[derive(Clone, Copy, Debug)]
enum Origin {
    Own,
    Other,
    None,
}

/// What the host asks for.
const METHODS: &[(&str, &str)] = &[
    ("tools/call", r#"{"name":"größe ","arguments":{}}"#),
    ("tools/list", "{}"),
    ("resources/read", r#"{"uri":"note://1"}"#),
    ("resources/subscribe", r#"{"uri":"note://1"}"#),
    ("resources/unsubscribe", r#"{"uri":"note://1"}"#),
    ("logging/setLevel", r#"{"level":"debug"}"#),
    ("x/y", "{}"),
];

/// Shapes of what arrives. `ID` becomes the id.
const SHAPES: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":{"resources":{"subscribe":true}},"supportedVersions":["2026-07-28"]}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}}}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"x","data":{"supported":["2026-07-28","2025-11-25"]}}}"#,
    r#"{"jsonrpc":"2.0","id":"ID","result":{}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID},"notifications":{"toolsListChanged":true}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":ID}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}"#,
    r#"[{"jsonrpc":"2.0","id":ID,"result":{}}]"#,
    "noise",
    "",
];

fn failure(which: usize) -> HttpFailure {
    use HttpFailureKind as Kind;
    let statuses = [400, 401, 403, 404, 405, 406, 413, 429, 500, 502, 503];
    let kinds = [
        Kind::Connect,
        Kind::Cut,
        Kind::Empty,
        Kind::Html,
        Kind::StreamEnded,
        Kind::TooLong,
    ];
    match which {
        0..=10 => HttpFailure::of_status(statuses[which], false, ""),
        11..=13 => HttpFailure::of_status(404, true, ""),
        _ => HttpFailure::new(kinds[which - 14], Delivery::Unknown, ""),
    }
}

const FAILURES: usize = 20;

fn origin() -> impl Strategy<Value = Origin> {
    prop_oneof![6 => Just(Origin::Own), 1 => Just(Origin::Other), 1 => Just(Origin::None)]
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop_oneof![5 => Just(None), 1 => Just(Some(400)), 1 => Just(Some(404))];
    prop_oneof![
        10 => (0..4usize, 0..SHAPES.len(), origin(), any::<bool>(), status).prop_map(
            |(which, shape, origin, last, status)| Step::Answer { which, shape, origin, last, status }
        ),
        6 => (0..METHODS.len(), 0..4000u64, any::<bool>()).prop_map(|(method, millis, held)| Step::Request { method, millis, held }),
        5 => (0..4usize, 0..FAILURES, origin())
            .prop_map(|(which, failure, origin)| Step::End { which, failure, origin }),
        4 => (0..40_000u64).prop_map(Step::Pass),
        2 => (0..4usize).prop_map(Step::Cancel),
        2 => Just(Step::Listen),
        1 => (0..3usize).prop_map(Step::Unlisten),
        1 => Just(Step::Missed),
        1 => Just(Step::EndChannel),
        1 => Just(Step::Close),
    ]
}

#[derive(Default)]
struct Model {
    next_token: u32,
    /// Requests of the host that are neither settled nor cancelled.
    open: BTreeMap<u32, RequestId>,
    /// Subscriptions of the host that are not over.
    listening: BTreeMap<u32, SubscriptionId>,
    /// Ids of requests that were handed over, newest last.
    sent: Vec<i64>,
    aborted: BTreeSet<i64>,
    initializing: bool,
    era: Option<Era>,
    /// Requests may be made.
    ready: bool,
    over: bool,
    old_transport: bool,
}

impl Model {
    fn drain(
        &mut self,
        connection: &mut ClientConnection<u32>,
        now: Instant,
    ) -> Result<(), TestCaseError> {
        for _ in 0..10_000 {
            match connection.poll_output() {
                Output::Transmit(message) => self.transmitted(&message)?,
                Output::Abort(RequestId::Number(id)) => {
                    prop_assert!(!self.old_transport, "an abort on a shared channel");
                    prop_assert!(self.sent.contains(&id), "{id} was never sent");
                    prop_assert!(self.aborted.insert(id), "{id} is abandoned twice");
                }
                Output::Abort(id) => prop_assert!(false, "not an id of ours: {id}"),
                Output::Event(event) => self.happened(connection, event, now)?,
                Output::Wait(_) => return Ok(()),
            }
        }
        Err(TestCaseError::fail("the connection never waits"))
    }

    fn transmitted(&mut self, message: &Outbound) -> Result<(), TestCaseError> {
        let body: Value = serde_json::from_slice(&message.body()).expect("JSON");
        let method = body["method"].as_str().unwrap_or_default();
        prop_assert!(!self.over, "sent after the end: {body}");
        if let Some(RequestId::Number(id)) = message.request_id() {
            prop_assert!(!self.sent.contains(id), "id {id} was used twice");
            self.sent.push(*id);
        }
        if method == "initialize" {
            prop_assert!(!self.initializing || self.old_transport, "two at a time");
            self.initializing = true;
        }
        if self.old_transport {
            prop_assert!(message.head().is_none());
            return Ok(());
        }
        let head = message.head().expect("an exchange has a head");
        prop_assert_eq!(&head.method, method);
        let field = |name: &str| {
            let field = head.fields.iter().find(|field| field.name == name);
            field.map(|field| field.value.as_str())
        };
        for field in &head.fields {
            prop_assert!(field.value.bytes().all(|byte| (0x20..0x7f).contains(&byte)));
        }
        if head.era == Era::Modern {
            prop_assert_eq!(message.kind() == &OutboundKind::Response, false, "{}", body);
            prop_assert!(
                !matches!(
                    method,
                    "initialize" | "ping" | "notifications/initialized" | "notifications/cancelled"
                ),
                "{method}"
            );
            let version = &body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
            prop_assert_eq!(field("MCP-Protocol-Version"), version.as_str());
            prop_assert_eq!(field("Mcp-Method"), Some(method));
            let named = matches!(method, "tools/call" | "resources/read");
            prop_assert_eq!(field("Mcp-Name").is_some(), named, "{}", method);
        } else {
            prop_assert_eq!(field("Mcp-Method"), None);
        }
        Ok(())
    }

    fn happened(
        &mut self,
        connection: &mut ClientConnection<u32>,
        event: Event<u32>,
        now: Instant,
    ) -> Result<(), TestCaseError> {
        match event {
            Event::Settled { token, .. } => {
                prop_assert!(
                    self.open.remove(&token).is_some(),
                    "token {token} settled twice or after its cancellation"
                );
            }
            Event::Subscription {
                token,
                change: SubscriptionChange::Ended(_),
                ..
            } => {
                prop_assert!(
                    self.listening.remove(&token).is_some(),
                    "subscription {token} ended twice"
                );
            }
            Event::Subscription { token, .. } => {
                prop_assert!(self.listening.contains_key(&token));
            }
            Event::Ready(agreement) => {
                prop_assert!(!self.ready, "ready twice");
                prop_assert!(self.era.is_none_or(|era| era == agreement.era), "VER-02");
                self.era = Some(agreement.era);
                self.ready = true;
                self.initializing = false;
            }
            Event::SessionLost => {
                prop_assert!(self.ready, "a session is lost that there was not");
                self.ready = false;
                self.initializing = false;
            }
            Event::Reopen(channel) => {
                prop_assert_eq!(self.era, None);
                if channel == ReopenAs::OldHttp {
                    self.old_transport = true;
                    connection.set_channel(ChannelKind::Shared);
                }
                self.initializing = false;
                connection.handle_channel_opened(now);
            }
            Event::Failed(_) | Event::Closed => {
                prop_assert!(!self.over, "over twice");
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

    fn origin(&self, which: usize, origin: Origin) -> Option<RequestId> {
        match origin {
            Origin::Own => Some(RequestId::Number(self.id(which))),
            Origin::Other => Some(RequestId::Number(self.id(which + 1))),
            Origin::None => None,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn exchanges_keep_their_promises(
        policy in prop_oneof![2 => Just(EraPolicy::Auto), 1 => Just(EraPolicy::Legacy), 1 => Just(EraPolicy::Modern)],
        hint in prop_oneof![2 => Just(None), 1 => Just(Some(Era::Legacy)), 1 => Just(Some(Era::Modern))],
        first in 0..SHAPES.len(),
        subscribed in any::<bool>(),
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let mut now = Instant::now();
        let mut config = config();
        config.policy = policy;
        config.hint = hint;
        config.limits.max_subscriptions = 2;
        let mut connection = ClientConnection::<u32>::new(config);
        connection.set_channel(ChannelKind::PerExchange);
        let mut model = Model::default();
        connection.start(now);
        model.drain(&mut connection, now)?;
        // Most scripts should get past the start.
        let opening = [first, 0].map(|shape| Step::Answer { which: 0, shape, origin: Origin::Own, last: true, status: None });
        // Half of them have something that a new session must be told.
        let told = [
            Step::Request { method: 3, millis: 0, held: false },
            Step::Answer { which: 0, shape: 2, origin: Origin::Own, last: true, status: None },
        ];
        let told = told.into_iter().filter(|_| subscribed);
        for step in opening.into_iter().chain(told).chain(steps) {
            let mut hold = false;
            match step {
                Step::Answer { which, shape, origin, last, status } => {
                    let text = SHAPES[shape].replace("ID", &model.id(which).to_string());
                    let mut message = ExchangeMessage::new(model.origin(which, origin), Bytes::from(text));
                    message.is_last = last;
                    message.http_status = status;
                    connection.handle_exchange_message(message, now);
                }
                Step::End { which, failure: kind, origin } => {
                    connection.handle_exchange_end(model.origin(which, origin), failure(kind), now);
                }
                Step::Request { method, millis, held } => {
                    hold = held;
                    let mut options = RequestOptions::default();
                    options.deadline = Deadline::new(None, (millis > 0).then(|| Duration::from_millis(millis)));
                    let (method, params) = METHODS[method];
                    let params = RawValue::from_string(params.to_owned()).expect("JSON");
                    let token = model.next_token;
                    model.next_token += 1;
                    if let Ok(id) = connection.request_raw(method, Some(&params), &options, token, now) {
                        prop_assert!(model.ready, "{method} is taken while the connection is not ready");
                        model.open.insert(token, id);
                    }
                }
                Step::Cancel(which) => {
                    if let Some((&token, id)) = model.open.iter().nth(which) {
                        prop_assert_eq!(connection.cancel(id, "test"), Some(token));
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
                    if let Some((&token, &id)) = model.listening.iter().nth(which) {
                        prop_assert_eq!(connection.unlisten(id), Some(token));
                        model.listening.remove(&token);
                    }
                }
                Step::Missed => {
                    connection.handle_missed_changes();
                    connection.handle_quirk(Quirk::NoServerStream);
                }
                Step::Pass(millis) => {
                    now += Duration::from_millis(millis);
                    connection.handle_timeout(now);
                    if let Some(next) = connection.next_deadline() {
                        prop_assert!(next > now, "a deadline was left behind that is due already");
                    }
                }
                Step::EndChannel => connection.handle_channel_end(ChannelEnd::new("test"), now),
                Step::Close => connection.close(now),
            }
            if !hold {
                model.drain(&mut connection, now)?;
            }
            prop_assert!(model.listening.len() <= 2);
        }
        connection.close(now);
        model.drain(&mut connection, now)?;
        prop_assert!(model.open.is_empty(), "never settled: {:?}", model.open);
        prop_assert!(model.listening.is_empty(), "never ended: {:?}", model.listening);
        prop_assert_eq!(connection.in_flight(), 0);
        prop_assert!(model.over);
    }
}
