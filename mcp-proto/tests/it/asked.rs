//! What the server asks of the host: by a request in the legacy era, in its answer in the modern one.

use std::time::Duration;

use mcp_jsonrpc::{Deadline, ErrorCode, ErrorObject, RequestId};
use mcp_proto::connection::{ClientConfig, ExchangeMessage, RequestOptions};
use mcp_proto::lifecycle::EraPolicy;
use mcp_proto::method::{CallTool, ListTools};
use mcp_proto::model::page::ListParams;
use mcp_proto::model::tool::CallToolParams;
use mcp_proto::rounds::InputRound;
use mcp_testkit::pair::{Act, Pair, Peer, end, say};
use serde_json::value::RawValue;

use crate::{config, with_policy};

const ASK: &str =
    r#"{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}"#;

fn answering(mut config: ClientConfig) -> ClientConfig {
    config.answers.insert("elicitation/create".to_owned());
    config
}

fn legacy() -> Pair {
    Pair::started(
        answering(with_policy(EraPolicy::Legacy)),
        Peer::legacy("2025-11-25").script(),
    )
}

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn call(pair: &mut Pair, label: &'static str, options: &RequestOptions) -> RequestId {
    let arguments = raw(r#"{"tag":"old"}"#);
    let params = CallToolParams::new("archive", &arguments).unwrap();
    let now = pair.now();
    let id = pair
        .connection
        .request::<CallTool>(&params, options, label, now)
        .unwrap();
    pair.advance(Duration::ZERO);
    id
}

fn within(seconds: u64) -> RequestOptions {
    let mut options = RequestOptions::default();
    options.deadline = Deadline::total(Duration::from_secs(seconds));
    options
}

/// What the transcript has after its first `from` bytes, without times.
fn added(pair: &Pair, from: usize) -> Vec<String> {
    let text = pair.transcript()[from..].replace("\n           ", " ");
    let without_time = |line: &str| line.split_once("s ").map(|(_, rest)| rest.to_owned());
    text.lines().filter_map(without_time).collect()
}

fn ask(pair: &mut Pair, line: &str) {
    pair.connection
        .handle_message(line.to_owned().into(), pair.now());
    pair.advance(Duration::ZERO);
}

#[test]
fn a_request_of_the_server_waits_for_the_host() {
    let mut pair = legacy();
    call(&mut pair, "mine", &within(60));
    let from = pair.transcript().len();
    ask(&mut pair, ASK);
    let now = pair.now();
    let id = RequestId::from("q");
    assert!(
        pair.connection
            .answer(&id, Ok(&raw(r#"{"action":"decline"}"#)), now)
    );
    // JR-10: once.
    assert!(!pair.connection.answer(&id, Ok(&raw("{}")), now));
    pair.advance(Duration::ZERO);
    assert_eq!(
        added(&pair, from),
        [
            r#"* asked elicitation/create id="q" because of Some("mine")"#,
            r#"C>S id="q" result {"action":"decline"}"#,
        ]
    );
}

#[test]
fn an_error_is_an_answer_too() {
    let mut pair = legacy();
    ask(&mut pair, ASK);
    let from = pair.transcript().len();
    let error = ErrorObject::new(ErrorCode::INVALID_PARAMS, "no such mode");
    let now = pair.now();
    assert!(pair.connection.answer(&"q".into(), Err(&error), now));
    pair.advance(Duration::ZERO);
    assert_eq!(
        added(&pair, from),
        [r#"C>S id="q" error {"code":-32602,"message":"no such mode"}"#]
    );
}

/// VER-24: a person who thinks is no server that hangs.
#[test]
fn clocks_stand_still_while_the_host_answers() {
    for taken_back in [false, true] {
        let mut pair = legacy();
        call(&mut pair, "mine", &within(60));
        pair.advance(Duration::from_secs(50));
        ask(&mut pair, ASK);
        pair.advance(Duration::from_secs(3600));
        assert!(pair.settled().is_empty());
        if taken_back {
            ask(
                &mut pair,
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}"#,
            );
            let transcript = pair.transcript();
            assert!(
                transcript.contains("not asked any more: \"q\""),
                "{transcript}"
            );
            // CAN-04: nothing is sent.
            let now = pair.now();
            assert!(!pair.connection.answer(&"q".into(), Ok(&raw("{}")), now));
        } else {
            let now = pair.now();
            pair.connection.answer(&"q".into(), Ok(&raw("{}")), now);
        }
        pair.advance(Duration::from_secs(9));
        assert!(pair.settled().is_empty());
        pair.advance(Duration::from_secs(2));
        assert_eq!(pair.settled().len(), 1);
    }
}

#[test]
fn which_call_asks_is_told_only_where_it_is_certain() {
    let mut pair = legacy();
    call(&mut pair, "one", &within(60));
    call(&mut pair, "two", &within(60));
    ask(&mut pair, ASK);
    assert!(pair.transcript().contains("because of None"));
    // Both may be the one that waits.
    pair.advance(Duration::from_secs(3600));
    assert!(pair.settled().is_empty());

    let mut pair = Pair::started_per_exchange(
        answering(with_policy(EraPolicy::Legacy)),
        Peer::legacy("2025-11-25").script(),
    );
    let first = call(&mut pair, "one", &within(60));
    call(&mut pair, "two", &within(60));
    let message = ExchangeMessage::new(Some(first), ASK.into());
    pair.peer_acts([(Duration::ZERO, Act::Exchange(message))]);
    assert!(pair.transcript().contains("because of Some(\"one\")"));
    let settled: Vec<_> = pair.settled().iter().map(|(label, _)| *label).collect();
    assert_eq!(settled, ["two"], "the other one's clock goes on");
}

#[test]
fn c067_the_end_takes_all_questions_back() {
    let mut pair = legacy();
    ask(&mut pair, ASK);
    pair.peer_acts([end("gone")]);
    assert!(pair.transcript().contains("not asked any more: \"q\""));
    let now = pair.now();
    assert!(!pair.connection.answer(&"q".into(), Ok(&raw("{}")), now));
}

#[test]
fn questions_have_limits() {
    let mut settings = answering(with_policy(EraPolicy::Legacy));
    settings.limits.max_server_requests = 2;
    settings.limits.max_message_bytes = 2000;
    let mut pair = Pair::started(settings, Peer::legacy("2025-11-25").script());
    for id in ["1", "1", "2", "3"] {
        ask(
            &mut pair,
            &format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create","params":{{}}}}"#
            ),
        );
    }
    let transcript = pair.transcript().to_owned();
    assert!(
        transcript.contains("with the id 1, whose first use is not answered yet"),
        "{transcript}"
    );
    assert!(
        transcript.contains("2 requests wait for this client's answer already"),
        "{transcript}"
    );
    let now = pair.now();
    let long = raw(&format!("\"{}\"", "x".repeat(2000)));
    pair.connection.answer(&1.into(), Ok(&long), now);
    pair.advance(Duration::ZERO);
    assert!(
        pair.transcript()
            .contains("the answer is longer than 2000 bytes"),
        "{}",
        pair.transcript()
    );
}

fn modern() -> Pair {
    Pair::started(answering(config()), Peer::modern().script())
}

/// MRTR-03, MRTR-06 to MRTR-09.
#[test]
fn c172_a_round_is_answered_by_a_new_request() {
    let mut pair = modern();
    call(&mut pair, "first", &RequestOptions::default());
    pair.peer_acts([say(
        r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","requestState":"s\u0031",
            "inputRequests":{"c":{"method":"elicitation/create","params":{}}}}}"#,
    )]);
    let (_, round) = &pair.settled()[0];
    let round = raw(round.as_ref().unwrap());
    let answers = answering(config()).answers;
    let round = InputRound::read(&(&*round).into(), &answers).unwrap();
    let mut options = RequestOptions::default();
    options.input = round.answered([("c", &*raw(r#"{"action":"cancel"}"#))]);
    let from = pair.transcript().len();
    call(&mut pair, "second", &options);
    let sent = added(&pair, from).join(" ");
    let expected = r#"C>S tools/call id=3 params {"_meta":"#;
    assert!(sent.starts_with(expected), "{sent}");
    for part in [
        r#""arguments":{"tag":"old"}"#,
        r#""inputResponses":{"c":{"action":"cancel"}}"#,
        r#""requestState":"s1""#,
    ] {
        assert!(sent.contains(part), "{part}: {sent}");
    }
}

/// MRTR-01, JR-42.
#[test]
fn questions_belong_to_some_methods_and_types_to_extensions() {
    let mut settings = config();
    settings.result_types.insert("task".to_owned());
    let mut pair = Pair::started(settings, Peer::modern().script());
    let now = pair.now();
    pair.connection
        .request::<ListTools>(
            &ListParams::at(None),
            &RequestOptions::default(),
            "list",
            now,
        )
        .unwrap();
    call(&mut pair, "task", &RequestOptions::default());
    call(&mut pair, "other", &RequestOptions::default());
    pair.peer_acts([
        say(r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","requestState":"s"}}"#),
        say(r#"{"jsonrpc":"2.0","id":3,"result":{"resultType":"task","taskId":"t"}}"#),
        say(r#"{"jsonrpc":"2.0","id":4,"result":{"resultType":"tusk"}}"#),
    ]);
    let settled = |label| {
        let settled = pair.settled().iter();
        settled
            .clone()
            .find(|(name, _)| *name == label)
            .unwrap()
            .1
            .clone()
    };
    let error = settled("list").unwrap_err().to_string();
    assert!(error.contains("can't be asked back"), "{error}");
    assert_eq!(
        settled("task").unwrap(),
        r#"{"resultType":"task","taskId":"t"}"#
    );
    let error = settled("other").unwrap_err().to_string();
    assert!(error.contains("unknown type \"tusk\""), "{error}");
}
