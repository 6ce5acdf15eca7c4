//! Random interleavings of a host, a server, time and the channel.
//!
//! Whatever happens: each request settles exactly once unless it was cancelled, no deadline is left behind that is due,
//! nothing forbidden in the era is sent, and the connection ends in `Wait`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp_jsonrpc::frame::NdjsonFrame;
use mcp_jsonrpc::{Deadline, RequestId};
use mcp_proto::ChannelEnd;
use mcp_proto::connection::{ClientConnection, Event, OutboundKind, Output, RequestOptions};
use mcp_proto::lifecycle::EraPolicy;
use mcp_proto::version::Era;
use proptest::prelude::*;

use crate::with_policy;

#[derive(Clone, Debug)]
enum Step {
    Answer {
        which: usize,
        shape: usize,
    },
    Cancel {
        which: usize,
    },
    Close,
    EndChannel,
    Pass {
        millis: u64,
    },
    Pause {
        which: usize,
    },
    Raw(usize),
    Request {
        idle: u64,
        total: u64,
        progress: bool,
    },
    Resume {
        which: usize,
    },
}

/// Lines that a server may send out of the blue. `ID` becomes the id of some request.
const RAW: &[&str] = &[
    "noise",
    "{",
    "[]",
    "[[]]",
    r#"{"jsonrpc":"2.0","id":ID,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":ID,"method":"roots/list"}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":ID,"progress":1}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":ID}}"#,
    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}"#,
    r#"[{"jsonrpc":"2.0","id":ID,"result":{}},{"jsonrpc":"2.0","id":"p","method":"ping"}]"#,
    r#"{"jsonrpc":"2.0","id":ID,"id":ID,"result":{}}"#,
];

/// Shapes of an answer. `ID` becomes the id.
const ANSWERS: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":{},"supportedVersions":["2026-07-28"]}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-03-26","capabilities":{}}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{"supportedVersions":["2026-07-28"]}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"x"}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32022,"message":"x","data":{"supported":["2026-07-28","2025-11-25"]}}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32602,"message":"x","data":{"supported":["2025-06-18"]}}}"#,
    r#"{"jsonrpc":"2.0","id":"ID","result":{}}"#,
    r#"{"jsonrpc":"2.0","id":ID.0,"result":null}"#,
    r#"{"jsonrpc":"2.0","id":ID}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{"resultType":"odd"}}"#,
];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..6usize, 0..ANSWERS.len()).prop_map(|(which, shape)| Step::Answer { which, shape }),
        5 => (0..4000u64, 0..4000u64, any::<bool>()).prop_map(|(idle, total, progress)| Step::Request { idle, total, progress }),
        4 => (0..6000u64).prop_map(|millis| Step::Pass { millis }),
        3 => (0..RAW.len()).prop_map(Step::Raw),
        2 => (0..6usize).prop_map(|which| Step::Cancel { which }),
        1 => (0..6usize).prop_map(|which| Step::Pause { which }),
        1 => (0..6usize).prop_map(|which| Step::Resume { which }),
        1 => Just(Step::EndChannel),
        1 => Just(Step::Close),
    ]
}

#[derive(Default)]
struct Model {
    next_token: u32,
    /// Requests of the host that are neither settled nor cancelled.
    open: BTreeMap<u32, RequestId>,
    /// Ids seen on the wire, newest last.
    seen: Vec<i64>,
    era: Option<Era>,
}

impl Model {
    fn drain(
        &mut self,
        connection: &mut ClientConnection<u32>,
        now: Instant,
    ) -> Result<(), TestCaseError> {
        for _ in 0..10_000 {
            match connection.poll_output() {
                Output::Transmit(message) => {
                    let body: serde_json::Value =
                        serde_json::from_slice(&message.body()).expect("JSON");
                    // C070: no id is ever used again.
                    if let Some(RequestId::Number(id)) = message.request_id() {
                        prop_assert!(!self.seen.contains(id), "id {id} was used twice");
                        self.seen.push(*id);
                    }
                    if self.era == Some(Era::Modern) {
                        prop_assert!(
                            *message.kind() != OutboundKind::Response,
                            "an answer in the modern era: {body}"
                        );
                        let method = body["method"].as_str().unwrap_or_default();
                        prop_assert!(
                            !matches!(method, "initialize" | "ping" | "notifications/initialized"),
                            "{method}"
                        );
                    }
                }
                Output::Event(Event::Settled { token, .. }) => {
                    prop_assert!(
                        self.open.remove(&token).is_some(),
                        "token {token} settled twice or after its cancellation"
                    );
                }
                Output::Event(Event::Ready(agreement)) => self.era = Some(agreement.era),
                Output::Event(Event::Reopen(_)) => connection.handle_channel_opened(now),
                Output::Event(_) => {}
                Output::Abort(_) => prop_assert!(false, "nothing to abort on a shared channel"),
                Output::Wait(_) => return Ok(()),
            }
        }
        Err(TestCaseError::fail("the connection never waits"))
    }

    fn id(&self, which: usize) -> i64 {
        self.seen
            .iter()
            .rev()
            .nth(which)
            .copied()
            .unwrap_or(which as i64)
    }
}

proptest! {
    #[test]
    fn every_request_settles_exactly_once(
        policy in prop_oneof![Just(EraPolicy::Auto), Just(EraPolicy::Legacy), Just(EraPolicy::Modern)],
        first in 0..6usize,
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let mut now = Instant::now();
        let mut connection = ClientConnection::<u32>::new(with_policy(policy));
        let mut model = Model::default();
        connection.start(now);
        model.drain(&mut connection, now)?;
        // Most scripts should get past the start.
        let opening = [Step::Answer { which: 0, shape: first }, Step::Answer { which: 0, shape: 0 }];
        for step in opening.into_iter().chain(steps) {
            match step {
                Step::Answer { which, shape } => {
                    let line = ANSWERS[shape].replace("ID", &model.id(which).to_string());
                    connection.handle_frame(NdjsonFrame::Line(Bytes::from(line)), now);
                }
                Step::Raw(which) => {
                    let line = RAW[which].replace("ID", &model.id(0).to_string());
                    connection.handle_frame(NdjsonFrame::Line(Bytes::from(line)), now);
                }
                Step::Request { idle, total, progress } => {
                    let mut options = RequestOptions::default();
                    let limit = |millis: u64| (millis > 0).then(|| Duration::from_millis(millis));
                    options.deadline = Deadline::new(limit(idle), limit(total));
                    options.progress = progress;
                    let token = model.next_token;
                    if let Ok(id) = connection.request_raw("x/y", None, &options, token, now) {
                        model.open.insert(token, id);
                    }
                    model.next_token += 1;
                }
                Step::Cancel { which } => {
                    if let Some((&token, id)) = model.open.iter().nth(which) {
                        prop_assert_eq!(connection.cancel(id, "test"), Some(token));
                        model.open.remove(&token);
                    }
                }
                Step::Pause { which } => {
                    if let Some(id) = model.open.values().nth(which) {
                        connection.pause(id, now);
                    }
                }
                Step::Resume { which } => {
                    if let Some(id) = model.open.values().nth(which) {
                        connection.resume(id, now);
                    }
                }
                Step::Pass { millis } => {
                    now += Duration::from_millis(millis);
                    connection.handle_timeout(now);
                    if let Some(next) = connection.next_deadline() {
                        prop_assert!(next > now, "a deadline was left behind that is due already");
                    }
                }
                Step::EndChannel => connection.handle_channel_end(ChannelEnd::new("test"), now),
                Step::Close => connection.close(now),
            }
            model.drain(&mut connection, now)?;
            // The lifecycle has at most one request of its own in flight.
            let lifecycle = usize::from(model.era.is_none());
            prop_assert!(connection.in_flight() <= model.open.len() + lifecycle);
        }
        connection.close(now);
        model.drain(&mut connection, now)?;
        prop_assert!(model.open.is_empty(), "never settled: {:?}", model.open);
        prop_assert_eq!(connection.in_flight(), 0);
    }

    #[test]
    fn arbitrary_lines_never_panic(lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..200), 0..20)) {
        let now = Instant::now();
        let mut connection = ClientConnection::<u32>::new(with_policy(EraPolicy::Auto));
        connection.start(now);
        for line in lines {
            connection.handle_frame(NdjsonFrame::Line(Bytes::from(line)), now);
        }
        Model::default().drain(&mut connection, now)?;
    }
}
