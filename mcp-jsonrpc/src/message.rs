//! Reads one frame into messages, scanning it once.
//!
//! What a message is follows from which of `method`, `id`, `result` and `error` are *present*, `method` first (C075, C088):
//!
//! | `method` | `id` | `result` | `error` | meaning |
//! |---|---|---|---|---|
//! | string | string or integer | any | any | request |
//! | string | absent | any | any | notification |
//! | string | `null` | any | any | fault: null request id |
//! | absent | any | present | absent or `null` | response with a result; without an id a fault |
//! | absent | any | any | object | response with an error (JR-07: the id may be missing) |
//! | absent | present | absent | absent or `null` | fault: neither |
//! | absent | absent | absent | absent | fault: no message |

use std::fmt;

use bytes::Bytes;
use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::{ErrorObject, FaultKind, MessageFault, RawJson, RequestId, salvage};

/// Most messages taken from one batch, or from one line without a batch.
///
/// No server answers as many calls at once; without a limit, one frame of `[0,0,0,…]` would take fifty times its size in
/// memory. What stands behind is reported as one [`FaultKind::BatchTooLong`].
pub const MAX_BATCH_MEMBERS: usize = 1024;

/// One JSON-RPC message with raw payloads.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "JSON-RPC knows these three kinds of message and no other"
)]
pub enum Message {
    /// Something to answer.
    Request(Request),
    /// Something to take note of.
    Notification(Notification),
    /// The answer to a request.
    Response(Response),
}

/// A request from the peer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// The peer's id, to be echoed with the same type.
    pub id: RequestId,
    /// The method's name.
    pub method: String,
    /// The parameters; `null` counts as absent.
    pub params: Option<RawJson>,
}

/// A notification from the peer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Notification {
    /// The method's name.
    pub method: String,
    /// The parameters; `null` counts as absent.
    pub params: Option<RawJson>,
}

/// A response from the peer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Response {
    /// The id it answers. `None` for an error without an id, which is a diagnostic about the connection (JR-07).
    pub id: Option<RequestId>,
    /// The result, raw, or the peer's error.
    pub outcome: Result<RawJson, ErrorObject>,
}

/// What a frame holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Incoming {
    /// A message, and what was odd about it.
    Message(Message, Oddities),
    /// Several messages in one array, at most [`MAX_BATCH_MEMBERS`]. Whether that is allowed depends on the protocol
    /// version (JR-20 to JR-23).
    Batch(Vec<Result<Message, MessageFault>>),
    /// Something that is no message.
    Fault(MessageFault),
}

/// A deviation that was tolerated while reading a message.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
#[repr(u8)]
pub enum Oddity {
    /// Both a result and an error: the error was taken (C066).
    BothResultAndError = 0,
    /// An integer id written as a float, `7.0` (C061).
    FloatId = 1,
    /// Bytes that are no UTF-8, replaced by U+FFFD (C007).
    InvalidUtf8 = 2,
    /// No `"jsonrpc": "2.0"` member.
    NoVersionMember = 3,
    /// More than one message on the line (C013).
    SeveralOnOneLine = 4,
}

impl Oddity {
    const ALL: [Self; 5] = [
        Self::BothResultAndError,
        Self::FloatId,
        Self::InvalidUtf8,
        Self::NoVersionMember,
        Self::SeveralOnOneLine,
    ];
}

impl fmt::Display for Oddity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BothResultAndError => "a response with both a result and an error",
            Self::FloatId => "an integer id written as a float",
            Self::InvalidUtf8 => "bytes that are no UTF-8",
            Self::NoVersionMember => "a message without \"jsonrpc\": \"2.0\"",
            Self::SeveralOnOneLine => "several messages on one line",
        })
    }
}

/// A set of [`Oddity`].
#[derive(Clone, Copy, Default, Eq, PartialEq)]
pub struct Oddities(u8);

impl Oddities {
    /// Nothing odd.
    pub const NONE: Self = Self(0);

    /// Whether nothing was odd.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether `oddity` is in the set.
    pub const fn contains(self, oddity: Oddity) -> bool {
        self.0 & (1 << oddity as u8) != 0
    }

    /// The members, in a fixed order.
    pub fn iter(self) -> impl Iterator<Item = Oddity> {
        Oddity::ALL
            .into_iter()
            .filter(move |oddity| self.contains(*oddity))
    }

    fn add(&mut self, oddity: Oddity) {
        self.0 |= 1 << oddity as u8;
    }
}

impl fmt::Debug for Oddities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The messages of one frame: a line, an event's data or an HTTP body.
///
/// One message is the rule; several complete ones in a row are taken one by one (C013). Lines are never joined.
#[derive(Clone, Debug)]
pub struct Messages {
    /// Valid UTF-8.
    frame: Bytes,
    offset: usize,
    taken: usize,
    oddities: Oddities,
}

impl Messages {
    /// Reads `frame`. Bytes that are no UTF-8 are replaced, this frame only (C007).
    pub fn new(frame: Bytes) -> Self {
        let mut oddities = Oddities::NONE;
        let frame = if std::str::from_utf8(&frame).is_ok() {
            frame
        } else {
            oddities.add(Oddity::InvalidUtf8);
            String::from_utf8_lossy(&frame).into_owned().into()
        };
        Self {
            frame,
            offset: 0,
            taken: 0,
            oddities,
        }
    }

    fn rest(&self) -> &[u8] {
        self.frame.get(self.offset..).unwrap_or_default()
    }

    fn end(&mut self, kind: FaultKind) -> Incoming {
        let rest = self.rest();
        let answers = if rest.starts_with(b"{") {
            salvage::salvage_answer(rest)
        } else {
            None
        };
        let fault = MessageFault::new(kind, rest, answers);
        self.offset = self.frame.len();
        Incoming::Fault(fault)
    }
}

impl Iterator for Messages {
    type Item = Incoming;

    fn next(&mut self) -> Option<Incoming> {
        self.offset += padding_length(self.rest());
        let rest = self.rest();
        if self.taken >= MAX_BATCH_MEMBERS && !rest.is_empty() {
            return Some(self.end(FaultKind::BatchTooLong));
        }
        let item = match rest.first()? {
            b'{' => match read_value::<Envelope<'_>>(rest) {
                Ok((envelope, length)) => {
                    let mut oddities = self.oddities;
                    if self.taken > 0 {
                        oddities.add(Oddity::SeveralOnOneLine);
                    }
                    let read = envelope.classify(&self.frame, &rest[..length], &mut oddities);
                    self.offset += length;
                    match read {
                        Ok(message) => Incoming::Message(message, oddities),
                        Err(fault) => Incoming::Fault(fault),
                    }
                }
                Err(kind) => self.end(kind),
            },
            b'[' => match read_value::<Members<'_>>(rest) {
                Ok((members, length)) => {
                    let read = members.classify(&self.frame, &rest[..length]);
                    self.offset += length;
                    read
                }
                Err(kind) => self.end(kind),
            },
            _ if self.taken > 0 => self.end(FaultKind::TrailingText),
            _ if is_lsp_header(rest) => self.end(FaultKind::LspHeader),
            _ if serde_json::from_slice::<&RawValue>(rest).is_ok() => {
                self.end(FaultKind::NotAMessage)
            }
            _ => self.end(FaultKind::NotJson),
        };
        self.taken += 1;
        Some(item)
    }
}

/// How many bytes at the start of `text` may stand around a message without being part of it (C014).
fn padding_length(text: &[u8]) -> usize {
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let mut rest = text;
    loop {
        rest = match rest {
            [b' ' | b'\t' | b'\r' | b'\n' | 0, rest @ ..] => rest,
            _ => match rest.strip_prefix(BOM) {
                Some(rest) => rest,
                None => return text.len() - rest.len(),
            },
        };
    }
}

fn is_lsp_header(text: &[u8]) -> bool {
    const NAME: &[u8] = b"content-length:";
    text.get(..NAME.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(NAME))
}

/// Reads one value from the start of `text`, with its length in bytes.
fn read_value<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<(T, usize), FaultKind> {
    let mut stream = serde_json::Deserializer::from_slice(text).into_iter::<T>();
    match stream.next() {
        Some(Ok(value)) => {
            let length = stream.byte_offset();
            Ok((value, length))
        }
        // The envelope takes any value for any member, so a data error can only be a repeated member.
        Some(Err(error)) if error.is_data() => Err(FaultKind::DuplicateMember),
        _ => Err(FaultKind::NotJson),
    }
}

/// The members of a batch; past [`MAX_BATCH_MEMBERS`] they are read over.
struct Members<'a> {
    first: Vec<&'a RawValue>,
    are_all: bool,
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MembersVisitor;
        impl<'de> Visitor<'de> for MembersVisitor {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut first = Vec::new();
                while first.len() < MAX_BATCH_MEMBERS {
                    match seq.next_element()? {
                        Some(raw) => first.push(raw),
                        None => {
                            return Ok(Members {
                                first,
                                are_all: true,
                            });
                        }
                    }
                }
                let mut are_all = true;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    are_all = false;
                }
                Ok(Members { first, are_all })
            }
        }
        deserializer.deserialize_seq(MembersVisitor)
    }
}

impl Members<'_> {
    fn classify(self, frame: &Bytes, text: &[u8]) -> Incoming {
        let fault = |kind| MessageFault::new(kind, text, None);
        if self.first.is_empty() {
            return Incoming::Fault(fault(FaultKind::EmptyBatch));
        }
        let rest = (!self.are_all).then(|| Err(fault(FaultKind::BatchTooLong)));
        let members = self.first.into_iter().map(|raw| read_member(frame, raw));
        Incoming::Batch(members.chain(rest).collect())
    }
}

/// Reads one member of a batch.
fn read_member(frame: &Bytes, raw: &RawValue) -> Result<Message, MessageFault> {
    let text = raw.get().as_bytes();
    let fault = |kind| MessageFault::new(kind, text, None);
    if text.starts_with(b"[") {
        return Err(fault(FaultKind::NestedBatch));
    }
    if !text.starts_with(b"{") {
        return Err(fault(FaultKind::NotAMessage));
    }
    let (envelope, _) = read_value::<Envelope<'_>>(text).map_err(|kind| {
        // Only the repetition is wrong; the call it answers fails at once.
        MessageFault::new(kind, text, salvage::salvage_answer(text))
    })?;
    envelope.classify(frame, text, &mut Oddities::default())
}

/// The members that decide what a message is; each one raw, and `null` told from absent.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default, borrow, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(default, borrow)]
    error: Option<&'a RawValue>,
}

/// `Some` also for `null`, which `Option` alone would take for absent.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl Envelope<'_> {
    fn classify(
        self,
        frame: &Bytes,
        text: &[u8],
        oddities: &mut Oddities,
    ) -> Result<Message, MessageFault> {
        let fault = |kind, answers| MessageFault::new(kind, text, answers);
        let has_version = self.jsonrpc.is_some_and(|raw| raw.get() == "\"2.0\"");
        let id = match self.id {
            Some(raw) if raw.get() != "null" => {
                let Some(id) = RequestId::from_json(raw.get()) else {
                    return Err(fault(FaultKind::BadId, None));
                };
                if RequestId::is_float_text(raw.get()) {
                    oddities.add(Oddity::FloatId);
                }
                Some(id)
            }
            _ => None,
        };
        if let Some(method) = self.method {
            // A structured log line may well have a `method`; without the version member it is not for us to answer.
            if !has_version {
                return Err(fault(FaultKind::NotAMessage, None));
            }
            let Ok(method) = serde_json::from_str::<String>(method.get()) else {
                return Err(fault(FaultKind::BadMethod, None));
            };
            let params = self.params.map(|raw| RawJson::slice_of(frame, raw));
            return match (id, self.id) {
                (Some(id), _) => Ok(Message::Request(Request { id, method, params })),
                (None, Some(_)) => Err(fault(FaultKind::NullRequestId, None)),
                (None, None) => Ok(Message::Notification(Notification { method, params })),
            };
        }
        if self.result.is_none() && self.error.is_none() {
            let kind = if id.is_some() && has_version {
                FaultKind::NeitherResultNorError
            } else {
                FaultKind::NotAMessage
            };
            return Err(fault(
                kind,
                if kind == FaultKind::NotAMessage {
                    None
                } else {
                    id
                },
            ));
        }
        if !has_version {
            oddities.add(Oddity::NoVersionMember);
        }
        if let Some(raw) = self.error {
            if self.result.is_some_and(|result| result.get() != "null") {
                oddities.add(Oddity::BothResultAndError);
            }
            return match ErrorObject::read(frame, raw) {
                Some(error) => Ok(Message::Response(Response {
                    id,
                    outcome: Err(error),
                })),
                None if has_version => Err(fault(FaultKind::BadErrorObject, id)),
                None => Err(fault(FaultKind::NotAMessage, None)),
            };
        }
        match (id, self.result) {
            (Some(id), Some(raw)) => Ok(Message::Response(Response {
                id: Some(id),
                outcome: Ok(RawJson::slice_of(frame, raw)),
            })),
            _ => Err(fault(FaultKind::ResultWithoutId, None)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Vec<Incoming> {
        Messages::new(Bytes::copy_from_slice(line.as_bytes())).collect()
    }

    /// One line per item, compact enough for a table.
    fn show(incoming: &Incoming) -> String {
        match incoming {
            Incoming::Message(message, oddities) if oddities.is_empty() => show_message(message),
            Incoming::Message(message, oddities) => {
                format!("{} {oddities:?}", show_message(message))
            }
            Incoming::Batch(members) => {
                let members: Vec<_> = members
                    .iter()
                    .map(|member| member.as_ref().map_or_else(show_fault, show_message))
                    .collect();
                format!("[{}]", members.join(", "))
            }
            Incoming::Fault(fault) => show_fault(fault),
        }
    }

    fn show_fault(fault: &MessageFault) -> String {
        match &fault.answers {
            Some(id) => format!("{:?} answers {id}", fault.kind),
            None => format!("{:?}", fault.kind),
        }
    }

    fn show_message(message: &Message) -> String {
        let payload = |raw: &Option<RawJson>| {
            raw.as_ref()
                .map_or_else(|| "-".to_owned(), |raw| raw.as_str().to_owned())
        };
        match message {
            Message::Request(request) => format!(
                "req {} {} {}",
                request.id,
                request.method,
                payload(&request.params)
            ),
            Message::Notification(note) => {
                format!("note {} {}", note.method, payload(&note.params))
            }
            Message::Response(response) => {
                let id = response
                    .id
                    .as_ref()
                    .map_or_else(|| "-".to_owned(), ToString::to_string);
                match &response.outcome {
                    Ok(result) => format!("ok {id} {}", result.as_str()),
                    Err(error) => format!("err {id} {error}"),
                }
            }
        }
    }

    #[test]
    fn frames_are_classified_by_what_is_present() {
        let cases: &[(&str, &[&str])] = &[
            (r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#, &["req 1 a -"]),
            (
                r#"{"jsonrpc":"2.0","id":"1","method":"a","params":{"x":1}}"#,
                &[r#"req "1" a {"x":1}"#],
            ),
            (
                r#"{"jsonrpc":"2.0","method":"a","params":null}"#,
                &["note a -"],
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#,
                &["NullRequestId"],
            ),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, &["BadId"]),
            (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, &["BadMethod"]),
            // C088: a request of the peer is never an answer of ours, whatever else it carries.
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
                &["req 1 ping -"],
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, &["ok 1 {}"]),
            (
                r#"{"result":{"a":[1]},"jsonrpc":"2.0","id":1}"#,
                &[r#"ok 1 {"a":[1]}"#],
            ),
            // C066: a null error is absent, a null result is a result.
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"error":null}"#,
                &["ok 1 {}"],
            ),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, &["ok 1 null"]),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":5,"message":"m"}}"#,
                &["err 1 error 5: m"],
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":5,"message":"m"}}"#,
                &["err 1 error 5: m {BothResultAndError}"],
            ),
            // C065
            (
                r#"{"jsonrpc":"2.0","id":3}"#,
                &["NeitherResultNorError answers 3"],
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"error":null}"#,
                &["NeitherResultNorError answers 3"],
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"error":"boom"}"#,
                &["BadErrorObject answers 3"],
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"error":{"code":"x"}}"#,
                &["BadErrorObject answers 3"],
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32000.0}}"#,
                &["err 3 error -32000"],
            ),
            // JR-07: errors without an id, C094: results without one.
            (
                r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}"#,
                &["err - error -32700: m"],
            ),
            (
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}"#,
                &["err - error 1: m"],
            ),
            (r#"{"jsonrpc":"2.0","result":{}}"#, &["ResultWithoutId"]),
            // C061
            (
                r#"{"jsonrpc":"2.0","id":7.0,"result":{}}"#,
                &["ok 7 {} {FloatId}"],
            ),
            (r#"{"id":7,"result":{}}"#, &["ok 7 {} {NoVersionMember}"]),
            (
                r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#,
                &["DuplicateMember answers 1"],
            ),
            // Noise.
            ("Server v1.2 starting on stdio...", &["NotJson"]), // C001
            ("\u{1b}[33m[warn] token expires soon\u{1b}[0m", &["NotJson"]), // C004
            (r#"{"level":"info","msg":"hi"}"#, &["NotAMessage"]),
            (
                r#"{"level":"info","id":3,"method":"GET","error":"x"}"#,
                &["NotAMessage"],
            ),
            (r#"{"level":"info","id":3,"error":"x"}"#, &["NotAMessage"]),
            ("42", &["NotAMessage"]),
            ("\"text\"", &["NotAMessage"]),
            ("Content-Length: 38", &["LspHeader"]),
            (
                r#"{"jsonrpc":"2.0","id":4,"result":{"#,
                &["NotJson answers 4"],
            ),
            (
                r#"{"jsonrpc":"2.0","id":4,"result":{},}"#,
                &["NotJson answers 4"],
            ),
            // A log line that quotes a message is not that message.
            (
                r#"debug: got {"jsonrpc":"2.0","id":1,"result":{}}"#,
                &["NotJson"],
            ),
            ("", &[]),
            (" \0\t", &[]),
        ];
        for (line, expected) in cases {
            let shown: Vec<_> = read(line).iter().map(show).collect();
            assert_eq!(&shown, expected, "{line}");
        }
    }

    #[test]
    fn c013_several_messages_on_one_line_are_all_taken() {
        let line = r#"{"jsonrpc":"2.0","method":"n"} {"jsonrpc":"2.0","id":1,"result":{}}Content-Length: 12"#;
        let shown: Vec<_> = read(line).iter().map(show).collect();
        assert_eq!(
            shown,
            ["note n -", "ok 1 {} {SeveralOnOneLine}", "TrailingText"]
        );
    }

    #[test]
    fn c014_nul_and_spaces_around_a_message_are_ignored() {
        let shown: Vec<_> = read(" \0{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\0\r")
            .iter()
            .map(show)
            .collect();
        assert_eq!(shown, ["ok 1 {}"]);
    }

    #[test]
    fn c007_bad_utf8_is_replaced_in_that_line_only() {
        let line = b"{\"jsonrpc\":\"2.0\",\"id\":3,\"result\":{\"text\":\"caf\xe9\"}}";
        let shown: Vec<_> = Messages::new(Bytes::from_static(line))
            .map(|incoming| show(&incoming))
            .collect();
        assert_eq!(shown, ["ok 3 {\"text\":\"caf\u{fffd}\"} {InvalidUtf8}"]);
    }

    #[test]
    fn batches_are_read_member_by_member() {
        let cases: &[(&str, &str)] = &[
            ("[]", "EmptyBatch"),
            (
                r#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"n"}]"#,
                "[ok 1 {}, note n -]",
            ),
            (
                r#"[1,[],{"jsonrpc":"2.0","id":2}]"#,
                "[NotAMessage, NestedBatch, NeitherResultNorError answers 2]",
            ),
            (
                r#"[{"jsonrpc":"2.0","id":2,"id":3}]"#,
                "[DuplicateMember answers 2]",
            ),
            ("[1,", "NotJson"),
        ];
        for (line, expected) in cases {
            let shown: Vec<_> = read(line).iter().map(show).collect();
            assert_eq!(shown, [*expected], "{line}");
        }
    }

    #[test]
    fn an_empty_batch_takes_nothing_with_it() {
        let shown: Vec<_> = read(r#"[] {"jsonrpc":"2.0","id":1,"result":{}}"#)
            .iter()
            .map(show)
            .collect();
        assert_eq!(shown, ["EmptyBatch", "ok 1 {} {SeveralOnOneLine}"]);
    }

    #[test]
    fn batches_are_bounded() {
        for (count, expected) in [
            (MAX_BATCH_MEMBERS, MAX_BATCH_MEMBERS),
            (MAX_BATCH_MEMBERS + 1, MAX_BATCH_MEMBERS + 1),
            (100 * MAX_BATCH_MEMBERS, MAX_BATCH_MEMBERS + 1),
        ] {
            let items = read(&format!("[0{}]", ",0".repeat(count - 1)));
            let [Incoming::Batch(members)] = &items[..] else {
                panic!("no batch")
            };
            assert_eq!(members.len(), expected);
            let last = members.last().unwrap().as_ref().unwrap_err().kind;
            assert_eq!(last == FaultKind::BatchTooLong, count > MAX_BATCH_MEMBERS);
        }
    }

    #[test]
    fn payloads_share_the_frame_and_deep_nesting_is_harmless() {
        let depth = 100_000;
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        );
        let frame = Bytes::from(line);
        let Some(Incoming::Message(Message::Response(response), _)) =
            Messages::new(frame.clone()).next()
        else {
            panic!("no response");
        };
        let result = response.outcome.unwrap();
        assert_eq!(result.len_bytes(), 2 * depth);
        assert!(frame.as_ptr_range().contains(&result.as_bytes().as_ptr()));
        assert!(result.parse::<serde_json::Value>().is_err());
    }
}
