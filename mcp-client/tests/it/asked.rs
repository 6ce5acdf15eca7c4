//! What servers ask of the host, in both eras: one handler, one answer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::mcp_proto::method::CallTool;
use mcp_client::mcp_proto::model::deprecated::roots::Root;
use mcp_client::mcp_proto::model::deprecated::sampling::CreateMessageResult;
use mcp_client::mcp_proto::model::elicitation::{FormAnswer, UrlAnswer};
use mcp_client::mcp_proto::model::tool::CallToolParams;
use mcp_client::{CallOptions, Client, ClientOptions, Error, ErrorKind, HandlerError, Round, Sent};
use mcp_testkit::pair::{Reaction, say};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::scripted::{Log, VERSIONS, connect_with, options, result};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A server that asks this before it carries a call out, in its version's way. The result of the call repeats the answer, or
/// the error.
fn asking(
    version: &'static str,
    method: &'static str,
    params: Value,
) -> impl FnMut(&Value) -> Vec<Reaction> + Send + 'static {
    let mut call = Value::Null;
    let done = |id: &Value, answer: &Value| {
        let text = answer.to_string();
        result(id, &json!({"content": [{"type": "text", "text": text}]}))
    };
    move |message| {
        let id = &message["id"];
        let modern = version == MODERN;
        let capabilities = json!({"tools": {}});
        match message["method"].as_str() {
            Some("server/discover") if modern => vec![result(
                id,
                &json!({"supportedVersions": [version], "capabilities": capabilities}),
            )],
            Some("server/discover") => vec![say(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "?"}})
                    .to_string(),
            )],
            Some("initialize") => vec![result(
                id,
                &json!({"protocolVersion": version, "capabilities": capabilities,
                    "serverInfo": {"name": "peer", "version": "1"}}),
            )],
            Some("tools/call") if modern => {
                let Some(answers) = message["params"].get("inputResponses") else {
                    let question = json!({"method": method, "params": params});
                    return vec![result(
                        id,
                        &json!({"resultType": "input_required", "requestState": "at \u{e9}",
                            "inputRequests": {"q": question}}),
                    )];
                };
                assert_eq!(message["params"]["requestState"], "at \u{e9}");
                vec![done(id, &answers["q"])]
            }
            Some("tools/call") => {
                call = id.clone();
                vec![say(
                    json!({"jsonrpc": "2.0", "id": "q", "method": method, "params": params})
                        .to_string(),
                )]
            }
            Some(_) => vec![],
            None => {
                assert_eq!(*id, "q");
                let answer = message.get("result").or_else(|| message.get("error"));
                vec![done(&call, answer.unwrap())]
            }
        }
    }
}

/// What came of a call to a server that asks.
async fn outcome(
    options: ClientOptions,
    version: &'static str,
    method: &'static str,
    params: Value,
) -> (Result<Value, Error>, Arc<Log>) {
    let (client, log) = connect_with(options, asking(version, method, params)).await;
    let called = client.call_tool("archive", &json!({"tag": "old"})).await;
    let answer = called.map(|result| serde_json::from_str(&result.text()).unwrap());
    client.close().await;
    (answer, log)
}

fn form() -> Value {
    json!({"message": "Archive 3 notes?", "requestedSchema": {"type": "object", "required": ["ok"],
        "properties": {"ok": {"type": "boolean"}, "why": {"type": "string", "default": "tidy"}}}})
}

/// Each version in which the question exists.
fn from(first: &str) -> impl Iterator<Item = &'static str> {
    VERSIONS
        .into_iter()
        .filter(move |version| *version >= first)
}

#[tokio::test(start_paused = true)]
async fn one_form_handler_serves_every_version() {
    for version in from("2025-06-18") {
        let seen = Arc::new(Mutex::new(None));
        let log = Arc::clone(&seen);
        let options = options().with_form_elicitation(move |asked| {
            let occasion = asked.occasion.as_ref().unwrap();
            *log.lock().unwrap() = Some(format!(
                "{} {} {} {}",
                asked.server, occasion.method, occasion.subject, asked.params.message
            ));
            async move {
                let content = asked.params.schema.defaults().with("ok", true);
                Ok(FormAnswer::Accept(content))
            }
        });
        let (answer, log) = outcome(options, version, "elicitation/create", form()).await;
        assert_eq!(
            answer.unwrap(),
            json!({"action": "accept", "content": {"ok": true, "why": "tidy"}}),
            "{version}"
        );
        let seen = seen.lock().unwrap().clone();
        assert_eq!(
            seen.unwrap(),
            "scripted tools/call archive Archive 3 notes?"
        );
        // MRTR-09: a new id; each request repeats everything.
        let received = log.received.lock().unwrap();
        let calls: Vec<_> = received
            .iter()
            .filter(|message| message["method"] == "tools/call")
            .collect();
        let expected = if version == MODERN { 2 } else { 1 };
        assert_eq!(calls.len(), expected, "{version}");
        for call in &calls {
            assert_eq!(call["params"]["arguments"], json!({"tag": "old"}));
        }
        assert_ne!(
            calls[0]["id"],
            calls.get(1).map_or(Value::Null, |call| call["id"].clone())
        );
    }
}

#[tokio::test(start_paused = true)]
async fn elic_04_what_a_person_did_is_told_exactly() {
    for version in [LEGACY, MODERN] {
        for (answer, expected) in [
            (FormAnswer::Decline, json!({"action": "decline"})),
            (FormAnswer::Cancel, json!({"action": "cancel"})),
        ] {
            let options = options().with_form_elicitation(move |_| {
                let answer = answer.clone();
                async move { Ok(answer) }
            });
            let (answer, _) = outcome(options, version, "elicitation/create", form()).await;
            assert_eq!(answer.unwrap(), expected);
        }
        let options = options().with_url_elicitation(|asked| async move {
            assert_eq!(asked.params.host, "pay.example");
            Ok(UrlAnswer::Accept)
        });
        let page = json!({"mode": "url", "message": "Pay", "url": "https://pay.example/7", "elicitationId": "e"});
        let (answer, _) = outcome(options, version, "elicitation/create", page).await;
        assert_eq!(answer.unwrap(), json!({"action": "accept"}));
    }
}

#[tokio::test(start_paused = true)]
async fn sampling_and_roots_work_in_every_version() {
    for version in VERSIONS {
        let question = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "A tree?"}}], "maxTokens": 9});
        let with_model = options().with_sampling(|asked| async move {
            let said = format!("{} oaks", asked.params.messages.len());
            Ok(CreateMessageResult::text("m", said))
        });
        let (answer, _) = outcome(with_model, version, "sampling/createMessage", question).await;
        assert_eq!(answer.unwrap()["content"]["text"], "1 oaks", "{version}");

        let with_roots = options().with_roots(vec![Root::new("file:///srv").unwrap()]);
        let (answer, log) = outcome(with_roots, version, "roots/list", json!({})).await;
        assert_eq!(
            answer.unwrap(),
            json!({"roots": [{"uri": "file:///srv"}]}),
            "{version}"
        );
        // ROOT-01: what is declared depends on the era.
        let received = log.received.lock().unwrap();
        let declared = received.iter().find_map(|message| {
            let params = &message["params"];
            let modern = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            match message["method"].as_str()? {
                "initialize" => Some(params["capabilities"].clone()),
                "tools/call" => Some(modern.clone()),
                _ => None,
            }
        });
        let expected = if version == MODERN {
            json!({"roots": {}})
        } else {
            json!({"roots": {"listChanged": true}})
        };
        assert_eq!(declared.unwrap(), expected, "{version}");
    }
}

/// JR-11, ELIC-03, MRTR-05, SAMP-07: what was not declared is refused, in the way that the era has for it.
#[tokio::test(start_paused = true)]
async fn c173_what_was_not_declared_is_refused() {
    let forms = || options().with_form_elicitation(|_| async { Ok(FormAnswer::Decline) });
    let model =
        || options().with_sampling(|_| async { Ok(CreateMessageResult::text("m", "never asked")) });
    let page = json!({"mode": "url", "message": "?", "url": "https://a.example/"});
    let tools = json!({"messages": [], "maxTokens": 1, "tools": []});
    let unsafe_page = json!({"mode": "url", "message": "?", "url": "http://a.example/"});
    let pages = || options().with_url_elicitation(|_| async { Ok(UrlAnswer::Accept) });
    let cases = [
        (options(), "elicitation/create", form(), -32601),
        (forms(), "sampling/createMessage", json!({}), -32601),
        (forms(), "elicitation/create", page, -32602),
        (forms(), "elicitation/create", json!({}), -32602),
        (model(), "sampling/createMessage", tools, -32602),
        (pages(), "elicitation/create", unsafe_page, -32602),
    ];
    for (options, method, params, code) in cases {
        let (answer, _) = outcome(options.clone(), LEGACY, method, params.clone()).await;
        assert_eq!(answer.unwrap()["code"], code, "{method} {params}");
        // In the modern era there is no place for an error: the call fails, and is not made again (MRTR-13).
        let (answer, log) = outcome(options, MODERN, method, params.clone()).await;
        let error = answer.unwrap_err();
        let expected = if code == -32601 {
            ErrorKind::InvalidAnswer
        } else {
            ErrorKind::NotAnswered
        };
        assert_eq!(error.kind(), expected, "{error}");
        assert_eq!(error.was_sent(), Sent::Yes);
        assert_eq!(log.count("tools/call"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn handlers_that_fail_harm_one_call_only() {
    let failing =
        || options().with_form_elicitation(|_| async { Err(HandlerError::failed("no UI")) });
    let refusing =
        || options().with_sampling(|_| async { Err(HandlerError::refused("the person said no")) });
    let panicking = || {
        options().with_form_elicitation(|asked| async move {
            assert!(asked.server.is_empty(), "a bug in the handler");
            Ok(FormAnswer::Decline)
        })
    };
    let misfit = || {
        options().with_form_elicitation(|asked| async move {
            Ok(FormAnswer::Accept(asked.params.schema.defaults()))
        })
    };
    let question = json!({"messages": [], "maxTokens": 1});
    let cases = [
        (failing(), "elicitation/create", form(), -32603, "no UI"),
        (
            refusing(),
            "sampling/createMessage",
            question,
            -1,
            "said no",
        ),
        (
            panicking(),
            "elicitation/create",
            form(),
            -32603,
            "panicked",
        ),
        (
            misfit(),
            "elicitation/create",
            form(),
            -32603,
            "\"ok\" is required",
        ),
    ];
    for (options, method, params, code, reason) in cases {
        let (answer, _) = outcome(options.clone(), LEGACY, method, params.clone()).await;
        let answer = answer.unwrap();
        assert_eq!(answer["code"], code, "{answer}");
        assert!(
            answer["message"].as_str().unwrap().contains(reason),
            "{answer}"
        );
        let (answer, log) = outcome(options, MODERN, method, params).await;
        let error = answer.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotAnswered);
        assert!(error.to_string().contains(reason), "{error}");
        assert_eq!(log.count("tools/call"), 1);
    }
}

/// VER-24, MRTR-18: a person may take longer than the call; a limit there is all the same.
#[tokio::test(start_paused = true)]
async fn a_person_who_thinks_costs_the_call_no_time() {
    for version in [LEGACY, MODERN] {
        let slow = |minutes: u64| {
            options().with_form_elicitation(move |_| async move {
                tokio::time::sleep(Duration::from_secs(minutes * 60)).await;
                Ok(FormAnswer::Decline)
            })
        };
        for (minutes, expected) in [(9, "decline"), (11, "cancel")] {
            let mut options = slow(minutes);
            options.call_deadline =
                Deadline::new(Some(Duration::from_secs(5)), Some(Duration::from_secs(20)));
            let (answer, _) = outcome(options, version, "elicitation/create", form()).await;
            assert_eq!(answer.unwrap(), json!({"action": expected}), "{version}");
        }
    }
}

/// Counts its instances that were dropped.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A handler that never answers; how many of its futures were dropped; and a signal that it was asked.
fn never_answering() -> (ClientOptions, Arc<AtomicUsize>, Arc<tokio::sync::Notify>) {
    let dropped = Arc::new(AtomicUsize::new(0));
    let asked = Arc::new(tokio::sync::Notify::new());
    let (count, notify) = (Arc::clone(&dropped), Arc::clone(&asked));
    let options = options().with_form_elicitation(move |_| {
        let guard = Counted(Arc::clone(&count));
        notify.notify_one();
        async move {
            let _guard = guard;
            std::future::pending().await
        }
    });
    (options, dropped, asked)
}

async fn until(what: impl Fn() -> bool) {
    for _ in 0..1000 {
        if what() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it never happened");
}

/// CAN-04, CAN-07: nobody is asked on behalf of a call that is over.
#[tokio::test(start_paused = true)]
async fn questions_end_with_what_they_are_for() {
    // The call is given up, in the modern era.
    let (options, dropped, asked) = never_answering();
    let (client, log) = connect_with(options, asking(MODERN, "elicitation/create", form())).await;
    {
        let arguments = json!({});
        let call = client.call_tool("archive", &arguments);
        tokio::select! {
            _ = call => panic!("it has no answer"),
            () = asked.notified() => {}
        }
    }
    until(|| dropped.load(Ordering::Relaxed) == 1).await;
    assert_eq!(
        log.count("notifications/cancelled"),
        0,
        "nothing is in flight"
    );

    // The server takes its request back, in the legacy era.
    let (options, dropped, asked) = never_answering();
    let (client, log) = connect_with(options, asking(LEGACY, "elicitation/create", form())).await;
    let caller = client.clone();
    let call = tokio::spawn(async move { caller.call_tool("archive", &json!({})).await });
    asked.notified().await;
    log.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"q"}}"#);
    until(|| dropped.load(Ordering::Relaxed) == 1).await;
    log.say(r#"{"jsonrpc":"2.0","id":3,"result":{"content":[]}}"#);
    call.await.unwrap().unwrap();

    // The connection ends.
    let (options, dropped, asked) = never_answering();
    let (client, log) = connect_with(options, asking(LEGACY, "elicitation/create", form())).await;
    let caller = client.clone();
    let call = tokio::spawn(async move { caller.call_tool("archive", &json!({})).await });
    asked.notified().await;
    log.end("the server died");
    assert!(call.await.unwrap().is_err());
    client.closed().await;
    until(|| dropped.load(Ordering::Relaxed) == 1).await;
}

/// A modern server that asks for nothing but to come back, so often.
fn busy(times: usize) -> impl FnMut(&Value) -> Vec<Reaction> + Send + 'static {
    let mut left = times;
    let mut base = asking(MODERN, "roots/list", json!({}));
    move |message| {
        if message["method"] != "tools/call" {
            return base(message);
        }
        let id = &message["id"];
        // MRTR-08: a state of an earlier round is not sent again.
        let state = message["params"].get("requestState");
        if left == 0 {
            assert_eq!(state, None);
            return vec![result(id, &json!({"content": []}))];
        }
        left -= 1;
        match left {
            0 => vec![result(
                id,
                &json!({"resultType": "input_required", "inputRequests": {}}),
            )],
            left => vec![result(
                id,
                &json!({"resultType": "input_required", "requestState": left.to_string()}),
            )],
        }
    }
}

/// MRTR-11, MRTR-12.
#[tokio::test(start_paused = true)]
async fn c171_a_server_that_is_busy_is_asked_again_later_but_not_for_ever() {
    let (client, log) = connect_with(options(), busy(4)).await;
    let begun = tokio::time::Instant::now();
    client.call_tool("t", &json!({})).await.unwrap();
    assert_eq!(log.count("tools/call"), 5);
    let waited = begun.elapsed();
    assert!(
        waited > Duration::from_secs(10) && waited < Duration::from_secs(16),
        "{waited:?}"
    );

    let mut few = options();
    few.max_rounds = 3;
    let (client, log) = connect_with(few, busy(100)).await;
    let error = client.call_tool("t", &json!({})).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAnswered);
    assert!(error.to_string().contains("limit max_rounds"), "{error}");
    assert_eq!(log.count("tools/call"), 4);

    let (client, _) = connect_with(options(), busy(100)).await;
    let options = CallOptions::default().with_deadline(Deadline::total(Duration::from_secs(7)));
    let error = client
        .call_tool_with("t", &json!({}), options)
        .await
        .unwrap_err();
    assert!(error.is_timeout(), "{error}");
}

/// MRTR-17: the host answers by itself, maybe after a restart.
#[tokio::test(start_paused = true)]
async fn rounds_can_be_answered_by_hand() {
    let declared = options().with_form_elicitation(|_| async { Ok(FormAnswer::Cancel) });
    let connected = connect_with(
        declared.clone(),
        asking(MODERN, "elicitation/create", form()),
    );
    let (client, _) = connected.await;
    let arguments = RawValue::from_string("{}".to_owned()).unwrap();
    let params = CallToolParams::new("archive", &arguments).unwrap();
    let round = client.request_round::<CallTool>(&params, CallOptions::default());
    let Round::InputRequired(round) = round.await.unwrap() else {
        panic!("it asks first");
    };
    client.close().await;

    let (client, _) = connect_with(declared, asking(MODERN, "elicitation/create", form())).await;
    let answer = RawValue::from_string(r#"{"action":"decline"}"#.to_owned()).unwrap();
    let input = round.answered([(round.questions[0].key.as_str(), &*answer)]);
    let options = CallOptions::default().with_input(input);
    let Round::Complete(result) = client
        .request_round::<CallTool>(&params, options)
        .await
        .unwrap()
    else {
        panic!("it was answered");
    };
    assert_eq!(result.text(), r#"{"action":"decline"}"#);
}

async fn changed(client: &Client, log: &Log) -> usize {
    client.set_roots(vec![Root::new("file:///new").unwrap()]);
    client.ping(CallOptions::default()).await.ok();
    log.count("notifications/roots/list_changed")
}

/// ROOT-05.
#[tokio::test(start_paused = true)]
async fn legacy_servers_are_told_of_changed_roots() {
    let offered = options().with_roots(vec![Root::new("file:///old").unwrap()]);
    let ping = |version: &'static str| {
        let mut base = asking(version, "roots/list", json!({}));
        move |message: &Value| match message["method"].as_str() {
            Some("ping") => vec![result(&message["id"], &json!({}))],
            _ => base(message),
        }
    };
    let (client, log) = connect_with(offered.clone(), ping(LEGACY)).await;
    assert_eq!(changed(&client, &log).await, 1);
    let answer = client.call_tool("t", &json!({})).await.unwrap().text();
    assert_eq!(answer, r#"{"roots":[{"uri":"file:///new"}]}"#);
    let (client, log) = connect_with(offered, ping(MODERN)).await;
    assert_eq!(changed(&client, &log).await, 0);
    let (client, log) = connect_with(options(), ping(LEGACY)).await;
    assert_eq!(changed(&client, &log).await, 0, "none were offered");
}

/// A server that wants a person to pay before each call, until so many calls were refused.
fn paid(refusals: usize) -> impl FnMut(&Value) -> Vec<Reaction> + Send + 'static {
    let mut left = refusals;
    let mut base = asking(LEGACY, "roots/list", json!({}));
    move |message| {
        if message["method"] != "tools/call" {
            return base(message);
        }
        let id = &message["id"];
        if left == 0 {
            return vec![result(id, &json!({"content": []}))];
        }
        left -= 1;
        let page = json!({"mode": "url", "message": "Pay", "url": "https://pay.example/7", "elicitationId": "e7"});
        let error =
            json!({"code": -32042, "message": "pay first", "data": {"elicitations": [page]}});
        vec![say(
            json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
        )]
    }
}

/// ELIC-23, ELIC-30.
#[tokio::test(start_paused = true)]
async fn a_person_is_sent_to_a_page_once_and_the_call_made_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let options = |answer: UrlAnswer| {
        let asked = Arc::clone(&asked);
        options().with_url_elicitation(move |_| {
            asked.fetch_add(1, Ordering::Relaxed);
            async move { Ok(answer) }
        })
    };
    // The server says when it is done.
    let (client, log) = connect_with(options(UrlAnswer::Accept), paid(1)).await;
    let begun = tokio::time::Instant::now();
    let caller = client.clone();
    let call = tokio::spawn(async move { caller.call_tool("t", &json!({})).await });
    until(|| asked.load(Ordering::Relaxed) == 1).await;
    for id in ["other", "e7"] {
        log.say(
            &json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete",
                "params": {"elicitationId": id}})
            .to_string(),
        );
    }
    call.await.unwrap().unwrap();
    assert_eq!(begun.elapsed(), Duration::ZERO);

    // It does not say: it is asked now and then, the person is not.
    let (client, log) = connect_with(options(UrlAnswer::Accept), paid(4)).await;
    client.call_tool("t", &json!({})).await.unwrap();
    assert_eq!(log.count("tools/call"), 5);
    assert_eq!(asked.load(Ordering::Relaxed), 2);

    // The person does not want to, or the host can't ask.
    for options in [options(UrlAnswer::Decline), crate::scripted::options()] {
        let (client, log) = connect_with(options, paid(4)).await;
        let error = client.call_tool("t", &json!({})).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Rpc);
        assert_eq!(log.count("tools/call"), 1);
    }
}
