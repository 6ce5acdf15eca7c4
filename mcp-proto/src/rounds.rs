//! Multi round-trip requests: the modern server asks in its answer, and is asked again with answers.
//!
//! One round: the result of a request is `input_required`; the request is over (MRTR-03). Every question is answered, and
//! the same request is made again, under a new id, with this round's answers and this round's state and nothing of earlier
//! ones (MRTR-04 to MRTR-09). A round without questions is a request to come back later (MRTR-11).
//!
//! ```json
//! {"resultType": "input_required",
//!  "inputRequests": {"confirm": {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": {…}}}},
//!  "requestState": "b3BhcXVl"}
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use bytes::{BufMut, BytesMut};
use mcp_jsonrpc::RawJson;
use serde_json::value::RawValue;

use crate::backoff::Backoff;
use crate::error::PeerFault;
use crate::members::Members;

/// Most questions in one round.
pub const MAX_QUESTIONS: usize = 64;

/// Waits before a round without questions is followed up, and before the same page is asked about again: from the first to
/// the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// The waits between rounds that a person does not slow down (MRTR-11, ELIC-24).
pub fn pace(seed: u64) -> Backoff {
    Backoff::new(FIRST_WAIT, LONGEST_WAIT, seed)
}

/// What a server wants to know before it goes on.
///
/// [`InputRound::state`] and what the questions say are all that is needed to go on after a restart (MRTR-17).
#[derive(Clone)]
#[non_exhaustive]
pub struct InputRound {
    /// The questions, in the server's order.
    pub questions: Vec<Question>,
    /// `requestState` as the JSON token that came, never looked into (MRTR-07).
    state: Option<Box<RawValue>>,
}

/// One question of a round.
#[derive(Clone)]
#[non_exhaustive]
pub struct Question {
    /// The server's name for it, which the answer must carry.
    pub key: String,
    /// What is asked for: `elicitation/create`, `sampling/createMessage`, `roots/list`.
    pub method: String,
    /// The parameters; an object.
    pub params: Option<RawJson>,
}

/// Shows no contents: what a server asks and remembers may be secret.
impl fmt::Debug for InputRound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InputRound")
            .field("questions", &self.questions)
            .field("state", &self.state.as_ref().map(|_| "***"))
            .finish()
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("method", &self.method)
            .finish_non_exhaustive()
    }
}

impl Question {
    /// A question; `params` must be an object.
    pub fn new(key: impl Into<String>, method: impl Into<String>, params: Option<RawJson>) -> Self {
        Self {
            key: key.into(),
            method: method.into(),
            params,
        }
    }
}

impl InputRound {
    /// Reads an `input_required` result. `answered`: methods that this client declared to answer (MRTR-05).
    ///
    /// # Errors
    /// When it has neither questions nor a state (MRTR-02), is not of that shape, or asks for what was not declared.
    pub fn read(result: &RawJson, answered: &BTreeSet<String>) -> Result<Self, PeerFault> {
        let invalid = |reason: &str| PeerFault::InvalidRound {
            reason: reason.to_owned(),
        };
        let members =
            Members::read(result.as_str()).ok_or_else(|| invalid("the result is no object"))?;
        let state = members.get("requestState");
        if state.is_some_and(|state| !state.get().starts_with('"')) {
            return Err(invalid("requestState is no string"));
        }
        let asked = members.get("inputRequests");
        if asked.is_none() && state.is_none() {
            return Err(invalid("it has neither inputRequests nor requestState"));
        }
        Ok(Self {
            questions: asked.map_or(Ok(Vec::new()), |asked| questions(asked, answered))?,
            state: state.map(ToOwned::to_owned),
        })
    }

    /// What the server wants to be told again, as a JSON string token. Keep it secret.
    pub fn state(&self) -> Option<&RawValue> {
        self.state.as_deref()
    }

    /// Joins the answers to the state of this round. `answers`: each question's key and its bare result, every question
    /// answered (MRTR-04).
    pub fn answered<'a>(
        &self,
        answers: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
    ) -> InputAnswers {
        InputAnswers::new(answers, self.state())
    }
}

/// Reads an `inputRequests` object: of a round, or of a task that asks.
pub(crate) fn questions(
    asked: &RawValue,
    answered: &BTreeSet<String>,
) -> Result<Vec<Question>, PeerFault> {
    let invalid = |reason: String| PeerFault::InvalidRound { reason };
    let entries = Members::read(asked.get())
        .ok_or_else(|| invalid("inputRequests is no object".to_owned()))?
        .0;
    if entries.len() > MAX_QUESTIONS {
        return Err(invalid(format!(
            "it asks {} questions (limit {MAX_QUESTIONS})",
            entries.len()
        )));
    }
    let mut keys = BTreeSet::new();
    let mut questions = Vec::with_capacity(entries.len());
    for (key, raw) in entries {
        let entry = Members::read(raw.get());
        let method = entry.as_ref().and_then(|entry| entry.text("method"));
        let (Some(entry), Some(method)) = (entry, method) else {
            return Err(invalid(
                "an entry of inputRequests has no method".to_owned(),
            ));
        };
        if !answered.contains(&method) {
            let shown = mcp_jsonrpc::clean_excerpt(method.as_bytes(), MAX_SHOWN_METHOD_BYTES);
            return Err(PeerFault::InputNotDeclared { what: shown });
        }
        if !keys.insert(key.clone()) {
            return Err(invalid("a key of inputRequests comes twice".to_owned()));
        }
        let params = entry.get("params").map(RawJson::from);
        let params = params.filter(RawJson::is_object);
        questions.push(Question::new(key, method, params));
    }
    Ok(questions)
}

const MAX_SHOWN_METHOD_BYTES: usize = 128;

/// What the next attempt of a request carries besides its own parameters. Nothing by default.
///
/// Belongs to the one request whose round it answers (MRTR-10); see
/// [`RequestOptions::input`](crate::connection::RequestOptions::input).
#[derive(Clone, Default, Eq, PartialEq)]
pub struct InputAnswers(String);

/// Shows no contents: answers of persons are theirs.
impl fmt::Debug for InputAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if self.is_empty() { "none" } else { "***" };
        f.debug_tuple("InputAnswers")
            .field(&format_args!("{shown}"))
            .finish()
    }
}

impl InputAnswers {
    /// Answers by key, and the state of the round that asked: present or absent as it was there (MRTR-07, MRTR-08).
    pub fn new<'a>(
        answers: impl IntoIterator<Item = (&'a str, &'a RawValue)>,
        state: Option<&RawValue>,
    ) -> Self {
        let answers = responses(answers);
        let answers = (!answers.is_empty()).then(|| format!("\"inputResponses\":{{{answers}}}"));
        let state = state.map(|state| format!("\"requestState\":{}", state.get()));
        let members: Vec<_> = answers.into_iter().chain(state).collect();
        Self(members.join(","))
    }

    /// Whether there is nothing: a first attempt.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the members to the object that `out` ends with, which starts at `start`.
    pub(crate) fn splice(&self, out: &mut BytesMut, start: usize) {
        if self.is_empty() {
            return;
        }
        // The closing brace is written again below.
        out.truncate(out.len() - 1);
        if out.len() > start + 1 {
            out.put_u8(b',');
        }
        out.put_slice(self.0.as_bytes());
        out.put_u8(b'}');
    }
}

/// The members of an `inputResponses` object, without braces.
pub(crate) fn responses<'a>(answers: impl IntoIterator<Item = (&'a str, &'a RawValue)>) -> String {
    let members = answers.into_iter().map(|(key, answer)| {
        let key = serde_json::Value::from(key);
        format!("{key}:{}", answer.get())
    });
    members.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<InputRound, PeerFault> {
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        let answered = ["elicitation/create", "roots/list"].map(str::to_owned);
        InputRound::read(&RawJson::from(&*raw), &answered.into())
    }

    #[test]
    fn rounds_are_read() {
        let round = read(
            r#"{"resultType":"input_required","inputRequests":{"b":{"method":"roots/list"},
                "a":{"method":"elicitation/create","params":{"message":"?"}}},"requestState":""}"#,
        )
        .unwrap();
        let asked: Vec<_> = round
            .questions
            .iter()
            .map(|question| (question.key.as_str(), question.method.as_str()))
            .collect();
        assert_eq!(asked, [("b", "roots/list"), ("a", "elicitation/create")]);
        assert_eq!(round.state().unwrap().get(), "\"\"");
        assert!(!format!("{round:?}").contains("message"));
        // Nothing to answer: come back later.
        assert!(
            read(r#"{"requestState":"s"}"#)
                .unwrap()
                .questions
                .is_empty()
        );
        assert!(read(r#"{"inputRequests":{}}"#).unwrap().state().is_none());
    }

    #[test]
    fn mrtr_02_and_05_bad_rounds_are_told() {
        let cases = [
            ("{}", "neither"),
            (r#"{"inputRequests":null,"requestState":null}"#, "neither"),
            (r#"{"requestState":7}"#, "no string"),
            (r#"{"inputRequests":[]}"#, "no object"),
            (r#"{"inputRequests":{"a":{}}}"#, "no method"),
            (r#"{"inputRequests":{"a":7}}"#, "no method"),
            (
                r#"{"inputRequests":{"a":{"method":"sampling/createMessage"}}}"#,
                "sampling/createMessage",
            ),
            (
                r#"{"inputRequests":{"a":{"method":"roots/list"},"a":{"method":"roots/list"}}}"#,
                "twice",
            ),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let many: Vec<_> = (0..=MAX_QUESTIONS)
            .map(|n| format!("\"{n}\":{{\"method\":\"roots/list\"}}"))
            .collect();
        let many = format!("{{\"inputRequests\":{{{}}}}}", many.join(","));
        assert!(read(&many).unwrap_err().to_string().contains("limit 64"));
    }

    /// MRTR-07: byte for byte, whatever escapes it is written with; MRTR-08: absent when it was absent.
    #[test]
    fn the_state_is_sent_back_as_it_came() {
        let yes: Box<RawValue> = serde_json::from_str(r#"{"action":"decline"}"#).unwrap();
        let cases = [
            (
                r#"{"requestState":"\u0061\/é\ud83d\ude00 "}"#,
                "{}",
                r#"{"requestState":"\u0061\/é\ud83d\ude00 "}"#,
            ),
            (
                r#"{"requestState":""}"#,
                r#"{"n":1}"#,
                r#"{"n":1,"requestState":""}"#,
            ),
            (
                r#"{"inputRequests":{"k\"":{"method":"roots/list"}}}"#,
                r#"{"n":1}"#,
                r#"{"n":1,"inputResponses":{"k\"":{"action":"decline"}}}"#,
            ),
        ];
        for (round, params, expected) in cases {
            let round = read(round).unwrap();
            let answers = round.answered(
                round
                    .questions
                    .iter()
                    .map(|question| (question.key.as_str(), &*yes)),
            );
            let mut out = BytesMut::from(format!("xx{params}").as_bytes());
            answers.splice(&mut out, 2);
            assert_eq!(std::str::from_utf8(&out[2..]).unwrap(), expected);
            assert!(!format!("{answers:?}").contains("decline"));
        }
    }
}
