//! Where eras, sessions and exchanges meet: orders of things that are rare, and what must hold in them all the same.

use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp_jsonrpc::{Deadline, RequestId};
use mcp_proto::UsageError;
use mcp_proto::connection::{
    ChannelKind, ClientConfig, ClientConnection, Event, ExchangeMessage, Output, RequestOptions,
    SubscriptionChange,
};
use mcp_proto::http::{HttpFailure, HttpFailureKind};
use mcp_proto::lifecycle::{EraPolicy, ReopenAs};
use mcp_proto::method::{Ping, SetLogLevel, SubscribeResource};
use mcp_proto::model::deprecated::logging::{LoggingLevel, SetLevelParams};
use mcp_proto::model::resource::ResourceParams;
use mcp_proto::model::subscription::ListenFilter;
use mcp_proto::version::Era;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::{config, with_policy};

const SECOND: Duration = Duration::from_secs(1);

/// A connection over exchanges whose messages a test moves by hand.
struct Hand {
    connection: ClientConnection<&'static str>,
    now: Instant,
    sent: Vec<Value>,
    aborted: Vec<RequestId>,
    events: Vec<Event<&'static str>>,
}

impl Hand {
    fn started(config: ClientConfig) -> Self {
        let mut connection = ClientConnection::new(config);
        connection.set_channel(ChannelKind::PerExchange);
        let now = Instant::now();
        connection.start(now);
        let mut hand = Self {
            connection,
            now,
            sent: Vec::new(),
            aborted: Vec::new(),
            events: Vec::new(),
        };
        hand.drain();
        hand
    }

    fn legacy(version: &str, capabilities: &Value) -> Self {
        Self::legacy_with(with_policy(EraPolicy::Legacy), version, capabilities)
    }

    fn legacy_with(config: ClientConfig, version: &str, capabilities: &Value) -> Self {
        let mut hand = Self::started(config);
        hand.initialize(version, capabilities);
        hand
    }

    /// The server takes the newest handshake.
    fn initialize(&mut self, version: &str, capabilities: &Value) {
        let result = json!({"protocolVersion": version, "capabilities": capabilities});
        self.answer_last(&result);
    }

    fn modern(capabilities: &Value) -> Self {
        let mut hand = Self::started(config());
        hand.answer_last(
            &json!({"supportedVersions": ["2026-07-28"], "capabilities": capabilities}),
        );
        hand
    }

    fn drain(&mut self) {
        loop {
            match self.connection.poll_output() {
                Output::Transmit(message) => self
                    .sent
                    .push(serde_json::from_slice(&message.body()).unwrap()),
                Output::Abort(id) => self.aborted.push(id),
                Output::Event(event) => self.events.push(event),
                Output::Wait(_) => return,
            }
        }
    }

    fn last_id(&self) -> i64 {
        let newest = self.sent.iter().rev().find_map(|body| body["id"].as_i64());
        newest.unwrap()
    }

    /// Says something on the exchange of `origin`, without taking anything out.
    fn say(&mut self, origin: Option<i64>, text: &str) {
        let body = Bytes::from(text.to_owned());
        let message = ExchangeMessage::new(origin.map(RequestId::Number), body);
        self.connection.handle_exchange_message(message, self.now);
    }

    fn answer(&mut self, id: i64, result: &Value) {
        let text = json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        self.say(Some(id), &text);
        self.drain();
    }

    fn answer_last(&mut self, result: &Value) {
        self.answer(self.last_id(), result);
    }

    /// The whole answer to `id` is this, with a status of failure.
    fn refuse(&mut self, id: i64, status: u16, text: &str) {
        let body = Bytes::from(text.to_owned());
        let message = ExchangeMessage::new(Some(id.into()), body)
            .last()
            .with_failure_status(status);
        self.connection.handle_exchange_message(message, self.now);
        self.drain();
    }

    fn ends(&mut self, origin: Option<i64>, failure: HttpFailure) {
        self.connection
            .handle_exchange_end(origin.map(RequestId::Number), failure, self.now);
        self.drain();
    }

    fn lose_session(&mut self, origin: Option<i64>) {
        self.ends(origin, HttpFailure::of_status(404, true, ""));
    }

    fn pass(&mut self, by: Duration) {
        self.now += by;
        self.connection.handle_timeout(self.now);
        self.drain();
    }

    fn request(&mut self, method: &str, params: &Value) -> i64 {
        let params = serde_json::value::to_raw_value(params).unwrap();
        let options = RequestOptions::default();
        self.connection
            .request_raw(method, Some(&params), &options, "call", self.now)
            .unwrap();
        self.drain();
        self.last_id()
    }

    /// The methods sent since `from`, empty for answers.
    fn methods(&self, from: usize) -> Vec<&str> {
        let bodies = self.sent[from..].iter();
        bodies
            .map(|body| body["method"].as_str().unwrap_or_default())
            .collect()
    }

    fn readies(&self) -> usize {
        let ready = |event: &&Event<_>| matches!(event, Event::Ready(_));
        self.events.iter().filter(ready).count()
    }

    fn shown_events(&self) -> String {
        self.events
            .iter()
            .map(|event| format!("{event:?}\n"))
            .collect()
    }
}

fn refusal(id: i64, code: i64) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}).to_string()
}

#[test]
fn ver_34_typed_methods_keep_to_their_era_too() {
    let mut hand = Hand::modern(&json!({"logging": {}, "resources": {"subscribe": true}}));
    let options = RequestOptions::default();
    let now = hand.now;
    let connection = &mut hand.connection;
    let level = SetLevelParams::new(LoggingLevel::Debug);
    let resource = ResourceParams::new("note://1");
    let outcomes = [
        connection.request::<Ping>(&Default::default(), &options, "a", now),
        connection.request::<SetLogLevel>(&level, &options, "b", now),
        connection.request::<SubscribeResource>(&resource, &options, "c", now),
    ];
    for outcome in outcomes {
        assert!(
            matches!(
                outcome,
                Err(UsageError::NotInEra {
                    era: Era::Modern,
                    ..
                })
            ),
            "{outcome:?}"
        );
    }
}

#[test]
fn a_listen_that_is_answered_before_it_was_sent_is_not_sent_any_more() {
    let mut hand = Hand::modern(&json!({"tools": {"listChanged": true}}));
    let call = hand.request("tools/list", &json!({}));
    let filter = ListenFilter::default().tools();
    hand.connection.listen(&filter, "watch", hand.now).unwrap();
    // A server may guess the id; the message is in the queue still.
    let text = json!({"jsonrpc": "2.0", "id": call + 1, "result": {}}).to_string();
    let before = hand.sent.len();
    hand.say(Some(call), &text);
    hand.drain();
    assert!(hand.shown_events().contains("Ended(Graceful)"));
    assert_eq!(hand.methods(before), [""; 0]);
}

#[test]
fn a_stream_whose_end_is_told_on_another_one_is_closed() {
    let mut hand = Hand::modern(&json!({"tools": {"listChanged": true}}));
    let call = hand.request("tools/list", &json!({}));
    let filter = ListenFilter::default().tools();
    hand.connection.listen(&filter, "watch", hand.now).unwrap();
    hand.drain();
    let listen = hand.last_id();
    let text = json!({"jsonrpc": "2.0", "id": listen, "result": {}}).to_string();
    hand.say(Some(call), &text);
    hand.drain();
    assert!(hand.shown_events().contains("Ended(Graceful)"));
    assert_eq!(hand.aborted, [RequestId::Number(listen)]);
}

#[test]
fn ver_17_a_new_session_is_told_only_what_it_declares() {
    let both = json!({"logging": {}, "resources": {"subscribe": true}});
    let mut hand = Hand::legacy("2025-11-25", &both);
    for (method, params) in [
        ("logging/setLevel", json!({"level": "debug"})),
        ("resources/subscribe", json!({"uri": "note://1"})),
    ] {
        let id = hand.request(method, &params);
        hand.answer(id, &json!({}));
    }
    let call = hand.request("tools/call", &json!({"name": "t"}));
    hand.lose_session(Some(call));
    // The server was replaced by one that can do less.
    let before = hand.sent.len();
    hand.initialize("2025-11-25", &json!({"tools": {}}));
    assert_eq!(hand.methods(before), ["notifications/initialized"]);
    assert_eq!(hand.readies(), 2);
    assert_eq!(hand.shown_events().matches("NotRestored").count(), 2);
}

#[test]
fn statuses_that_say_nothing_about_the_era_say_so_with_a_json_rpc_error_too() {
    // The table of section 2.4: 401, 403, 429 and 5xx are no evidence of the era.
    for status in [401, 403, 429, 500, 502, 503] {
        let mut hand = Hand::started(config());
        let probe = hand.last_id();
        hand.refuse(probe, status, &refusal(probe, -32000));
        assert_eq!(hand.methods(0), ["server/discover"], "{status}");
        let error = hand.connection.handshake_error().map(ToString::to_string);
        let error = error.unwrap_or_default();
        assert!(
            error.contains("server/discover") && error.contains("-32000"),
            "{status}: {error}"
        );
    }
    // Codes of the modern era are known by themselves.
    let mut hand = Hand::started(config());
    let probe = hand.last_id();
    let versions = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"m","data":{"supported":["2025-11-25"]}}}"#;
    hand.refuse(probe, 503, versions);
    assert_eq!(hand.methods(0), ["server/discover", "initialize"]);
}

#[test]
fn sse24_06_the_modern_era_is_not_tried_over_the_old_transport() {
    let mut hand = Hand::started(config());
    for _ in 0..2 {
        let id = hand.last_id();
        hand.ends(Some(id), HttpFailure::of_status(404, false, ""));
    }
    assert!(matches!(
        hand.events.last(),
        Some(Event::Reopen(ReopenAs::OldHttp))
    ));
    hand.connection.set_channel(ChannelKind::Shared);
    hand.connection.handle_channel_opened(hand.now);
    hand.drain();
    // A probe that was met with silence could lead here as well.
    let id = hand.last_id();
    let text = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "m", "data": {"supported": ["2026-07-28"]}}});
    hand.connection
        .handle_message(Bytes::from(text.to_string()), hand.now);
    hand.drain();
    assert_eq!(
        hand.methods(0),
        ["server/discover", "initialize", "initialize"]
    );
    assert!(hand.connection.handshake_error().is_some());
}

#[test]
fn sse24_06_nor_after_a_probe_that_was_met_with_silence() {
    let mut hand = Hand::started(config());
    hand.pass(3 * SECOND);
    let id = hand.last_id();
    hand.ends(Some(id), HttpFailure::of_status(404, false, ""));
    hand.connection.set_channel(ChannelKind::Shared);
    hand.connection.handle_channel_opened(hand.now);
    hand.drain();
    let id = hand.last_id();
    let text = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32022, "message": "m", "data": {"supported": ["2026-07-28"]}}});
    hand.connection
        .handle_message(Bytes::from(text.to_string()), hand.now);
    hand.drain();
    assert_eq!(
        hand.methods(0),
        ["server/discover", "initialize", "initialize"]
    );
    assert!(hand.connection.handshake_error().is_some());
}

#[test]
fn nothing_is_sent_after_a_batch_that_ended_the_connection() {
    let ping = |id: &str| json!({"jsonrpc": "2.0", "id": id, "method": "ping"}).to_string();
    for follows in [true, false] {
        let mut hand = Hand::legacy("2025-03-26", &json!({}));
        let call = hand.request("tools/call", &json!({"name": "t"}));
        hand.lose_session(Some(call));
        let initialize = hand.last_id();
        let before = hand.sent.len();
        let mut members = vec![ping("p"), refusal(initialize, -32603)];
        members.extend(follows.then(|| ping("q")));
        hand.say(Some(initialize), &format!("[{}]", members.join(",")));
        hand.drain();
        assert!(hand.connection.handshake_error().is_some());
        assert_eq!(hand.methods(before), [""; 0], "{:?}", &hand.sent[before..]);
        let last = hand.events.last();
        assert!(matches!(last, Some(Event::Failed(_))), "{last:?}");
    }
}

#[test]
fn a_held_discovery_counts_however_the_handshake_fails() {
    // VER-56: the server was slow to answer the probe, and knows nothing of `initialize`.
    let found = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
    let failures: [Option<HttpFailure>; 4] = [
        Some(HttpFailure::of_status(400, false, "")),
        Some(HttpFailure::of_status(404, false, "")),
        Some(HttpFailure::of_status(500, false, "")),
        // Silence.
        None,
    ];
    for failure in failures {
        let shown = format!("{failure:?}");
        let mut hand = Hand::started(config());
        let probe = hand.last_id();
        hand.pass(3 * SECOND);
        let initialize = hand.last_id();
        hand.answer(probe, &found);
        match failure {
            Some(failure) => hand.ends(Some(initialize), failure),
            None => hand.pass(30 * SECOND),
        }
        let era = hand.connection.agreement().map(|agreement| agreement.era);
        assert_eq!(era, Some(Era::Modern), "{shown}\n{}", hand.shown_events());
    }
}

#[test]
fn a_modern_error_to_a_handshake_after_a_silent_probe_leads_to_a_probe() {
    // A cold start: the probe and the handshake after it are answered at the same moment, the handshake first. Only a modern
    // server sends this code.
    let mut hand = Hand::started(config());
    hand.pass(3 * SECOND);
    let initialize = hand.last_id();
    hand.refuse(initialize, 400, &refusal(initialize, -32020));
    assert_eq!(
        hand.methods(0),
        ["server/discover", "initialize", "server/discover"]
    );
    // The exchange of the first probe is not left open.
    assert_eq!(hand.aborted, [RequestId::Number(1)]);
    hand.answer_last(&json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}));
    let era = hand.connection.agreement().map(|agreement| agreement.era);
    assert_eq!(era, Some(Era::Modern));
}

#[test]
fn httpm_01_a_request_on_the_stream_of_a_probe_is_not_answered() {
    let mut hand = Hand::started(config());
    let probe = hand.last_id();
    hand.say(Some(probe), r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#);
    hand.say(
        Some(probe),
        &json!({"jsonrpc": "2.0", "id": probe, "result": {"supportedVersions": ["2026-07-28"], "capabilities": {}}})
            .to_string(),
    );
    hand.drain();
    assert_eq!(
        hand.methods(0),
        ["server/discover"],
        "{:?}",
        hand.sent.last()
    );
}

#[test]
fn a_session_that_is_lost_while_it_is_restored_is_opened_anew() {
    let mut hand = Hand::legacy("2025-11-25", &json!({"resources": {"subscribe": true}}));
    for uri in ["note://1", "note://2"] {
        let id = hand.request("resources/subscribe", &json!({"uri": uri}));
        hand.answer(id, &json!({}));
    }
    hand.lose_session(None);
    hand.initialize("2025-11-25", &json!({"resources": {"subscribe": true}}));
    assert_eq!(hand.readies(), 1);
    let (first, second) = (hand.last_id() - 1, hand.last_id());
    let before = hand.sent.len();
    hand.lose_session(Some(first));
    // It is gone for the second one, too; that is told once.
    hand.lose_session(Some(second));
    assert_eq!(hand.methods(before), ["initialize"]);
    assert_eq!(
        hand.readies(),
        1,
        "ready on a session that is known to be lost"
    );
    hand.initialize("2025-11-25", &json!({"resources": {"subscribe": true}}));
    let (first, second) = (hand.last_id() - 1, hand.last_id());
    hand.answer(first, &json!({}));
    hand.answer(second, &json!({}));
    assert_eq!(hand.readies(), 2);
    assert_eq!(hand.connection.in_flight(), 0);
}

#[test]
fn sessions_that_lived_long_are_not_lost_in_a_row() {
    // A host that only listens, and a server that is deployed anew each night.
    let mut hand = Hand::legacy("2025-11-25", &json!({}));
    for night in 0..10 {
        hand.pass(24 * 3600 * SECOND);
        hand.lose_session(None);
        hand.initialize("2025-11-25", &json!({}));
        assert!(
            hand.connection.agreement().is_some(),
            "given up in night {night}"
        );
    }
}

#[test]
fn the_newest_log_level_is_restored_in_whatever_order_the_answers_come() {
    let mut hand = Hand::legacy("2025-11-25", &json!({"logging": {}}));
    let first = hand.request("logging/setLevel", &json!({"level": "debug"}));
    let second = hand.request("logging/setLevel", &json!({"level": "error"}));
    hand.answer(second, &json!({}));
    hand.answer(first, &json!({}));
    hand.lose_session(None);
    hand.initialize("2025-11-25", &json!({"logging": {}}));
    assert_eq!(hand.sent.last().unwrap()["params"]["level"], "error");
}

#[test]
fn an_acknowledgement_with_the_id_as_text_counts() {
    let mut hand = Hand::modern(&json!({"tools": {"listChanged": true}}));
    hand.connection
        .listen(&ListenFilter::default().tools(), "watch", hand.now)
        .unwrap();
    hand.drain();
    let id = hand.last_id().to_string();
    let text = json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
        "_meta": {"io.modelcontextprotocol/subscriptionId": id}, "notifications": {"toolsListChanged": true},
    }});
    hand.say(None, &text.to_string());
    hand.drain();
    assert!(hand.events.iter().any(|event| matches!(
        event,
        Event::Subscription {
            change: SubscriptionChange::Open { .. },
            ..
        }
    )));
}

#[test]
fn a_listen_that_is_taken_back_before_it_was_sent_leaves_nothing() {
    let mut hand = Hand::modern(&json!({"tools": {"listChanged": true}}));
    let before = hand.sent.len();
    let filter = ListenFilter::default().tools();
    let id = hand.connection.listen(&filter, "watch", hand.now).unwrap();
    assert_eq!(hand.connection.unlisten(id), Some("watch"));
    hand.drain();
    assert_eq!(hand.methods(before), [""; 0]);
    assert!(hand.aborted.is_empty());
    assert_eq!(hand.connection.in_flight(), 0);
}

#[test]
fn requests_that_wait_in_the_queue_are_not_sent_in_the_next_session() {
    let mut hand = Hand::legacy("2025-11-25", &json!({}));
    let call = hand.request("tools/call", &json!({"name": "t"}));
    let params = RawValue::from_string(r#"{"name":"late"}"#.to_owned()).unwrap();
    let mut options = RequestOptions::default();
    options.deadline = Deadline::total(SECOND);
    let now = hand.now;
    let queued = hand
        .connection
        .request_raw("tools/call", Some(&params), &options, "queued", now)
        .unwrap();
    let before = hand.sent.len();
    hand.lose_session(Some(call));
    assert_eq!(hand.methods(before), ["initialize"]);
    assert!(hand.aborted.is_empty());
    // A late answer of the old session settles nothing.
    let RequestId::Number(queued) = queued else {
        panic!("not a number")
    };
    hand.answer(queued, &json!({}));
    let settled = |event: &&Event<_>| matches!(event, Event::Settled { .. });
    assert_eq!(hand.events.iter().filter(settled).count(), 2);
}

#[test]
fn a_probe_that_is_answered_twice_is_answered_once() {
    let mut hand = Hand::started(config());
    let probe = hand.last_id();
    hand.refuse(probe, 400, &refusal(probe, -32601));
    let found = json!({"supportedVersions": ["2026-07-28"], "capabilities": {}});
    hand.answer(probe, &found);
    hand.initialize("2025-11-25", &json!({}));
    let era = hand.connection.agreement().map(|agreement| agreement.era);
    assert_eq!(era, Some(Era::Legacy));
    assert!(hand.shown_events().contains("DuplicateAnswer"));
}

#[test]
fn a_modern_policy_never_opens_the_old_transport() {
    for status in [400, 404, 405] {
        let mut hand = Hand::started(with_policy(EraPolicy::Modern));
        let probe = hand.last_id();
        hand.ends(Some(probe), HttpFailure::of_status(status, false, ""));
        assert_eq!(hand.methods(0), ["server/discover"]);
        assert!(hand.connection.handshake_error().is_some());
    }
}

#[test]
fn a_lost_session_is_no_word_for_a_modern_server() {
    let mut hand = Hand::modern(&json!({}));
    let call = hand.request("tools/call", &json!({"name": "t"}));
    hand.lose_session(Some(call));
    assert!(hand.connection.agreement().is_some());
    hand.ends(
        None,
        HttpFailure::new(
            HttpFailureKind::SessionLost,
            mcp_proto::http::Delivery::Unknown,
            "",
        ),
    );
    assert!(hand.connection.agreement().is_some());
    let lost = |event: &Event<_>| matches!(event, Event::SessionLost);
    assert!(!hand.events.iter().any(lost));
}

#[test]
fn what_a_lost_session_asks_is_not_answered_in_the_next_one() {
    let mut config = with_policy(EraPolicy::Legacy);
    config.answers.insert("elicitation/create".to_owned());
    let mut hand = Hand::legacy_with(config, "2025-11-25", &json!({}));
    let call = hand.request("tools/call", &json!({"name": "t"}));
    hand.lose_session(None);
    // From the stream of the call, which is being closed.
    let ask = r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{}}"#;
    hand.say(Some(call), ask);
    hand.drain();
    let asked = |event: &Event<_>| matches!(event, Event::ServerRequest(_));
    assert!(!hand.events.iter().any(asked));
    let initialize = hand.sent.iter().rev().find_map(|body| body["id"].as_i64());
    hand.refuse(
        initialize.unwrap(),
        400,
        &refusal(initialize.unwrap(), -32603),
    );
    assert!(hand.connection.handshake_error().is_some());
    let before = hand.sent.len();
    let result = RawValue::from_string("{}".to_owned()).unwrap();
    assert!(!hand.connection.answer(&"q".into(), Ok(&result), hand.now));
    hand.drain();
    assert_eq!(hand.methods(before), [""; 0], "sent after the end");
}

#[test]
fn jr_12_an_answer_from_before_the_era_was_known_does_not_go_to_a_modern_server() {
    let mut connection = ClientConnection::<&str>::new(config());
    let now = Instant::now();
    connection.start(now);
    assert!(connection.poll_transmit().is_some());
    for line in [
        r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}"#,
    ] {
        connection.handle_message(Bytes::from_static(line.as_bytes()), now);
    }
    assert!(connection.agreement().is_some());
    assert!(connection.poll_transmit().is_none());
}

#[test]
fn sub_01_subscribing_needs_the_flag_and_not_just_resources() {
    for (resources, taken) in [
        (json!({}), false),
        (json!({"subscribe": false}), false),
        (json!({"subscribe": true}), true),
    ] {
        let mut hand = Hand::legacy("2025-11-25", &json!({ "resources": resources }));
        let outcome = hand.connection.request::<SubscribeResource>(
            &ResourceParams::new("note://1"),
            &RequestOptions::default(),
            "call",
            hand.now,
        );
        assert_eq!(outcome.is_ok(), taken, "{outcome:?}");
    }
}

#[test]
fn c175_what_the_old_session_still_says_is_not_about_the_new_one() {
    let subscribe = json!({"resources": {"subscribe": true}});
    let mut hand = Hand::legacy("2025-11-25", &subscribe);
    let id = hand.request("resources/subscribe", &json!({"uri": "note://1"}));
    hand.answer(id, &json!({}));
    let old = hand.request("tools/call", &json!({"name": "t"}));
    hand.lose_session(None);
    hand.initialize("2025-11-25", &subscribe);
    let restore = hand.last_id();
    let before = hand.sent.len();
    // While the new session is told what the old one was: of an exchange without a request, and of a call of the old one.
    hand.lose_session(None);
    hand.lose_session(Some(old));
    hand.answer(restore, &json!({}));
    assert_eq!(hand.readies(), 2);
    // And when it is ready.
    hand.lose_session(Some(old));
    hand.answer(old, &json!({}));
    assert_eq!(hand.methods(before), [""; 0]);
    assert!(hand.connection.agreement().is_some());
}
