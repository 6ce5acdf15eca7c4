//! `text/event-stream` framing, after the WHATWG grammar.
//!
//! | input | meaning |
//! |---|---|
//! | LF, CR or CRLF, also cut between chunks | the end of a line |
//! | a byte order mark at the start | ignored |
//! | an empty line | the end of an event |
//! | `: text` | a comment: a sign of life (HTTP-17) |
//! | `data: text` | a line of data; one space after the colon is dropped |
//! | `event: name` | the event's type |
//! | `id: value` | the last event id from here on, unless the value holds a NUL |
//! | `retry: digits` | how long to wait before reconnecting |
//! | any other name | ignored |
//!
//! An event without data is no message, but its id and delay count (HTTP-09). What stands behind the last empty line
//! when the stream ends is no event; it is handed over as [`SseFrame::Unterminated`], since a whole answer may be in it
//! (C137). A line or event past the limit is skipped, and the next event is read normally (C136).

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::ndjson::{Head, TooLong};
use crate::salvage::EnvelopeScanner;

/// Longest event id and event name kept, in bytes; a longer id is ignored, a longer name is no name we know.
pub const MAX_FIELD_BYTES: usize = 4096;

/// What the decoder found.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SseFrame {
    /// A comment line.
    Comment,
    /// An event with data.
    Event(SseEvent),
    /// An event without data: only its id or delay count.
    Primer {
        /// The last event id in force.
        id: Option<String>,
        /// How long to wait before reconnecting.
        retry: Option<Duration>,
    },
    /// An event longer than the limit. It was skipped; the next one is read normally.
    TooLong(TooLong),
    /// An event that the end of the stream cut off before its empty line.
    Unterminated(SseEvent),
}

/// An event.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct SseEvent {
    /// Its type; `None` means `message`.
    pub kind: Option<String>,
    /// Its data, lines joined by LF.
    pub data: Bytes,
    /// The last event id in force.
    pub id: Option<String>,
    /// How long to wait before reconnecting, if the event says so.
    pub retry: Option<Duration>,
}

/// Cuts a byte stream into events.
///
/// ```
/// use bytes::BytesMut;
/// use mcp_jsonrpc::frame::{SseDecoder, SseFrame};
///
/// let mut decoder = SseDecoder::new(1024);
/// let mut buffer = BytesMut::from(&b"id: 7\ndata: {\"a\":\ndata: 1}\n\n"[..]);
/// let Some(SseFrame::Event(event)) = decoder.decode(&mut buffer) else { panic!() };
/// assert_eq!((&event.data[..], event.id.as_deref()), (&b"{\"a\":\n1}"[..], Some("7")));
/// ```
#[derive(Debug)]
pub struct SseDecoder {
    max_event_bytes: usize,
    /// How many bytes at the start of the buffer hold no line end.
    searched: usize,
    at_start: bool,
    /// The last line ended in CR: an LF right behind it belongs to it.
    after_cr: bool,
    /// The rest of this line is skipped.
    skipping: Option<LongLine>,
    last_id: Option<String>,
    event: Pending,
    scanned: u64,
}

/// A line too long to be kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LongLine {
    /// Data: it makes its event too long.
    Data,
    /// A comment or an unknown field: nobody wants it.
    Other,
}

/// The event being read.
#[derive(Debug, Default)]
struct Pending {
    data: BytesMut,
    has_data: bool,
    kind: Option<String>,
    retry: Option<Duration>,
    has_id: bool,
    /// The event is past the limit; how many bytes of data it had.
    too_long: Option<(u64, Box<EnvelopeScanner>, Head)>,
}

impl SseDecoder {
    /// A decoder for events of at most so many bytes of data.
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            searched: 0,
            at_start: true,
            after_cr: false,
            skipping: None,
            last_id: None,
            event: Pending::default(),
            scanned: 0,
        }
    }

    /// The last event id seen on this stream.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How many bytes were looked at so far.
    pub fn scanned_bytes(&self) -> u64 {
        self.scanned
    }

    /// The next frame; `None` when more bytes are needed. Takes from the front of `src`.
    pub fn decode(&mut self, src: &mut BytesMut) -> Option<SseFrame> {
        loop {
            let line = self.next_line(src)?;
            if let Some(frame) = self.line(&line) {
                return Some(frame);
            }
        }
    }

    /// At the end of the stream: what is left. Call until `None`.
    pub fn finish(&mut self, src: &mut BytesMut) -> Option<SseFrame> {
        if let Some(frame) = self.decode(src) {
            return Some(frame);
        }
        let skipped = self.skipping.take().is_some();
        let rest = src.split().freeze();
        self.searched = 0;
        if !rest.is_empty()
            && !skipped
            && let Some(frame) = self.line(&rest)
        {
            return Some(frame);
        }
        match self.dispatch() {
            Some(SseFrame::Event(event)) => Some(SseFrame::Unterminated(event)),
            Some(frame @ SseFrame::TooLong(_)) => Some(frame),
            _ => None,
        }
    }

    /// Takes a whole line without its end; over-long ones are counted to the event and skipped.
    fn next_line(&mut self, src: &mut BytesMut) -> Option<Bytes> {
        loop {
            if self.after_cr && !src.is_empty() {
                self.after_cr = false;
                if src[0] == b'\n' {
                    src.advance(1);
                    self.searched = 0;
                }
            }
            if self.at_start {
                const BOM: &[u8] = b"\xef\xbb\xbf";
                if src.len() < BOM.len() && BOM.starts_with(src) {
                    return None;
                }
                if src.starts_with(BOM) {
                    src.advance(BOM.len());
                }
                self.at_start = false;
            }
            let unsearched = src.get(self.searched..).unwrap_or_default();
            let found = memchr::memchr2(b'\n', b'\r', unsearched);
            self.scanned += found.map_or(unsearched.len(), |at| at + 1) as u64;
            let Some(at) = found else {
                self.searched = src.len();
                if self.skipping.is_some() || self.is_too_long(src.len()) {
                    let part = src.split();
                    self.searched = 0;
                    self.skip(&part);
                }
                return None;
            };
            let length = self.searched + at;
            self.searched = 0;
            self.after_cr = src[length] == b'\r';
            let line = src.split_to(length + 1).freeze().slice(..length);
            if self.skipping.is_some() || self.is_too_long(length) {
                self.skip(&line);
                self.skipping = None;
                continue;
            }
            return Some(line);
        }
    }

    /// Whether a line of this length can't be part of an event within the limit: `data: ` and the data.
    fn is_too_long(&self, line_bytes: usize) -> bool {
        line_bytes > self.max_event_bytes.saturating_add(b"data: ".len())
    }

    /// Part of a line that is too long.
    fn skip(&mut self, part: &[u8]) {
        let (kind, data) = match (self.skipping, strip_field(part, b"data")) {
            (Some(kind), _) => (kind, part),
            (None, Some(data)) => (LongLine::Data, data),
            (None, None) => (LongLine::Other, part),
        };
        self.skipping = Some(kind);
        if kind == LongLine::Data {
            self.overflow(data);
        }
    }

    fn overflow(&mut self, more: &[u8]) {
        let event = &mut self.event;
        let (bytes, scanner, head) = event.too_long.get_or_insert_default();
        for part in [&event.data[..], more] {
            *bytes += part.len() as u64;
            scanner.push(part);
            head.push(part);
        }
        event.data = BytesMut::new();
        event.has_data = true;
    }

    fn line(&mut self, line: &Bytes) -> Option<SseFrame> {
        if line.is_empty() {
            return self.dispatch();
        }
        if line[0] == b':' {
            return Some(SseFrame::Comment);
        }
        let (name, value) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], line.slice(at + 1..)),
            None => (&line[..], Bytes::new()),
        };
        let value = if value.first() == Some(&b' ') {
            value.slice(1..)
        } else {
            value
        };
        match name {
            b"data" => self.data(&value),
            b"event" => self.event.kind = text(&value).filter(|kind| !kind.is_empty()),
            b"id" if !value.contains(&0) => {
                if let Some(id) = text(&value) {
                    self.last_id = Some(id);
                    self.event.has_id = true;
                }
            }
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let millis = std::str::from_utf8(&value)
                    .ok()
                    .and_then(|digits| digits.parse().ok());
                self.event.retry = millis.map(Duration::from_millis).or(self.event.retry);
            }
            _ => {}
        }
        None
    }

    fn data(&mut self, value: &[u8]) {
        let event = &mut self.event;
        let separator = usize::from(event.has_data);
        if event.too_long.is_some()
            || event.data.len() + separator + value.len() > self.max_event_bytes
        {
            if separator == 1 {
                self.overflow(b"\n");
            }
            self.overflow(value);
            return;
        }
        if separator == 1 {
            event.data.extend_from_slice(b"\n");
        }
        event.data.extend_from_slice(value);
        event.has_data = true;
    }

    /// An empty line: the event is whole.
    fn dispatch(&mut self) -> Option<SseFrame> {
        let event = std::mem::take(&mut self.event);
        if let Some((bytes, scanner, head)) = event.too_long {
            let found = scanner.found();
            return Some(SseFrame::TooLong(TooLong {
                bytes,
                limit_bytes: self.max_event_bytes,
                id: found.id.clone(),
                is_call: found.has_method,
                head: head.into(),
            }));
        }
        if event.data.is_empty() {
            let said = event.has_id || event.retry.is_some();
            return said.then(|| SseFrame::Primer {
                id: self.last_id.clone(),
                retry: event.retry,
            });
        }
        Some(SseFrame::Event(SseEvent {
            kind: event.kind,
            data: event.data.freeze(),
            id: self.last_id.clone(),
            retry: event.retry,
        }))
    }
}

/// The value of a field of this name, if the line begins with one.
fn strip_field<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(name)?.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

/// A short field as text; bad UTF-8 is replaced.
fn text(value: &[u8]) -> Option<String> {
    (value.len() <= MAX_FIELD_BYTES).then(|| String::from_utf8_lossy(value).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 24;

    fn frames(chunks: &[&[u8]]) -> Vec<String> {
        let mut decoder = SseDecoder::new(LIMIT);
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        for chunk in chunks {
            buffer.extend_from_slice(chunk);
            while let Some(frame) = decoder.decode(&mut buffer) {
                frames.push(show(&frame));
            }
            assert!(buffer.len() <= LIMIT + 6, "the buffer is bounded");
        }
        while let Some(frame) = decoder.finish(&mut buffer) {
            frames.push(show(&frame));
        }
        frames
    }

    fn show(frame: &SseFrame) -> String {
        let event = |event: &SseEvent| {
            let mut text = event.data.escape_ascii().to_string();
            for (name, value) in [("kind", &event.kind), ("id", &event.id)] {
                text += &value
                    .as_ref()
                    .map_or_else(String::new, |value| format!(" {name}={value}"));
            }
            text + &event
                .retry
                .map_or_else(String::new, |retry| format!(" retry={retry:?}"))
        };
        match frame {
            SseFrame::Comment => ":".to_owned(),
            SseFrame::Event(whole) => event(whole),
            SseFrame::Primer { id, retry } => format!("primer {id:?} {retry:?}"),
            SseFrame::TooLong(long) => {
                format!("long {} id {:?} call {}", long.bytes, long.id, long.is_call)
            }
            SseFrame::Unterminated(cut) => format!("cut {}", event(cut)),
        }
    }

    #[test]
    fn events_however_they_are_cut() {
        let cases: &[(&[u8], &[&str])] = &[
            (b"", &[]),
            (b"data: a\n\n", &["a"]),
            (b"data:a\r\rdata:  b\r\n\r\n", &["a", " b"]),
            (b"\xef\xbb\xbfdata: a\n\n", &["a"]),
            (b"\xef\xbbdata: a\n\n", &[]), // an unknown field
            // C128: several lines, no space, ends of all kinds.
            (
                b"data:{\"id\":1,\r\ndata: \"x\":2}\r\n\r\n",
                &["{\\\"id\\\":1,\\n\\\"x\\\":2}"],
            ),
            (b"data\ndata\n\n", &["\\n"]),
            (b"data: \n\n", &[]),
            (b"event: ping\ndata: {}\n\n", &["{} kind=ping"]), // C130
            (b": keep-alive\n\ndata: a\n\n", &[":", "a"]),
            (b"id: 1\ndata: a\n\ndata: b\n\n", &["a id=1", "b id=1"]),
            (b"id: x\0y\ndata: a\n\n", &["a"]),
            (b"id\ndata: a\n\n", &["a id="]),
            // HTTP-09: the priming event of 2025-11-25.
            (
                b"id: s7-0\nretry: 1500\ndata:\n\n",
                &["primer Some(\"s7-0\") Some(1.5s)"],
            ),
            (b"retry: 10x\ndata: a\n\n", &["a"]),
            (b"retry: 99999999999999999999999\ndata: a\n\n", &["a"]),
            (b"foo: bar\n\n", &[]),
            (b"data: \xe2\x82\xac\n\n", &["\\xe2\\x82\\xac"]), // C131
            (b"data: a\n", &["cut a"]),                        // C137
            (b"data: a", &["cut a"]),
            (
                b"data: 123456789012345678901234\n\n",
                &["123456789012345678901234"],
            ), // at the limit
            (
                b"data: 1234567890123456789012345\n\ndata: b\n\n",
                &["long 25 id None call false", "b"],
            ), // above it
            (
                b"data: 123456789012\ndata: 12345678901\n\n",
                &["123456789012\\n12345678901"],
            ),
            (
                b"data: 123456789012\ndata: 123456789012\n\ndata: b\n\n",
                &["long 25 id None call false", "b"],
            ),
            (
                b"data: {\"id\":7,\"result\":\"xxxxxxxxxxxxxx\"}\n\n",
                &["long 34 id Some(Number(7)) call false"],
            ), // C136
            (
                b"data: {\"method\":\"m\",\ndata: \"id\":7,\"params\":{}}\n\n",
                &["long 34 id Some(Number(7)) call true"],
            ),
            (
                b": a comment that is longer than any event may be\n\ndata: a\n\n",
                &["a"],
            ),
        ];
        for (bytes, expected) in cases {
            let shown = bytes.escape_ascii().to_string();
            let ignore_comments = |frames: Vec<String>| {
                let skip = shown.starts_with(": a comment that");
                frames
                    .into_iter()
                    .filter(|frame| !(skip && frame == ":"))
                    .collect::<Vec<_>>()
            };
            assert_eq!(&ignore_comments(frames(&[bytes])), expected, "{shown}");
            let single: Vec<_> = bytes.chunks(1).collect();
            assert_eq!(
                &ignore_comments(frames(&single)),
                expected,
                "{shown}, byte by byte"
            );
            for at in 0..bytes.len() {
                let (head, tail) = bytes.split_at(at);
                assert_eq!(
                    &ignore_comments(frames(&[head, tail])),
                    expected,
                    "{shown}, split at {at}"
                );
            }
        }
    }
}
