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
//! An event without data is no message, but its id and delay count (HTTP-09). An id is in force once its event is whole:
//! a client that resumed behind an event it only saw half would never get the other half. What stands behind the last
//! empty line when the stream ends is no event; its data is handed over as [`SseFrame::Unterminated`], since a whole
//! answer may be in it (C137). A line or event past the limit is skipped, and the next event is read normally (C136).

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};

use super::ndjson::{Head, TooLong};
use crate::salvage::EnvelopeScanner;

/// Longest event id and event name kept, in bytes; a longer id is ignored, a longer name is cut.
pub const MAX_FIELD_BYTES: usize = 4096;

/// What the decoder found.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SseFrame {
    /// A comment line.
    Comment,
    /// An event with data.
    Event(SseEvent),
    /// An event without data: a sign of life, and its id and delay count.
    Primer {
        /// The last event id in force.
        id: Option<String>,
        /// How long to wait before reconnecting.
        retry: Option<Duration>,
    },
    /// An event longer than the limit. It was skipped; the next one is read normally.
    TooLong(TooLong),
    /// An event that the end of the stream cut off before its empty line. Its own id does not count.
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

/// A line.
enum Line {
    /// Without its end.
    Whole(Bytes),
    /// Too long to be kept.
    Long(LongLine),
}

/// What kind of line was too long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum LongLine {
    Comment,
    /// It makes its event too long.
    Data,
    /// A field that nobody wants at this length.
    Other,
}

/// The event being read.
#[derive(Debug, Default)]
struct Pending {
    data: Data,
    /// The data is past the limit: from here on it is counted and looked through, and no longer kept.
    overflow: Option<Box<Overflow>>,
    kind: Option<String>,
    id: Option<String>,
    retry: Option<Duration>,
}

#[derive(Debug, Default)]
enum Data {
    #[default]
    None,
    /// One line, as it came: the usual event is not copied.
    Line(Bytes),
    /// Several lines, joined.
    Lines(BytesMut),
}

#[derive(Debug, Default)]
struct Overflow {
    bytes: u64,
    head: Head,
    scanner: EnvelopeScanner,
}

impl Overflow {
    fn push(&mut self, part: &[u8]) {
        self.bytes += part.len() as u64;
        self.head.push(part);
        self.scanner.push(part);
    }
}

impl Data {
    fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Line(line) => line.len(),
            Self::Lines(lines) => lines.len(),
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            Self::None => Bytes::new(),
            Self::Line(line) => line,
            Self::Lines(lines) => lines.freeze(),
        }
    }
}

impl Pending {
    fn has_data(&self) -> bool {
        self.overflow.is_some() || !matches!(self.data, Data::None)
    }

    /// What stands between the data so far and the next line of it.
    fn separator(&self) -> &'static [u8] {
        if self.has_data() { b"\n" } else { b"" }
    }

    fn push_line(&mut self, line: Bytes, max_bytes: usize) {
        let separator = self.separator();
        if self.overflow.is_some() || self.data.len() + separator.len() + line.len() > max_bytes {
            self.overflow(separator).push(&line);
            return;
        }
        let (first, mut lines) = match std::mem::take(&mut self.data) {
            Data::None => {
                self.data = Data::Line(line);
                return;
            }
            Data::Line(first) => (first, BytesMut::new()),
            Data::Lines(lines) => (Bytes::new(), lines),
        };
        for part in [&first[..], separator, &line[..]] {
            lines.extend_from_slice(part);
        }
        self.data = Data::Lines(lines);
    }

    /// Gives up what is held, then the separator.
    fn overflow(&mut self, separator: &[u8]) -> &mut Overflow {
        let held = std::mem::take(&mut self.data).into_bytes();
        let overflow = self.overflow.get_or_insert_default();
        overflow.push(&held);
        overflow.push(separator);
        overflow
    }
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

    /// The id of the last whole event that had one: where to resume.
    pub fn last_event_id(&self) -> Option<&str> {
        self.last_id.as_deref()
    }

    /// How many bytes were looked at so far, each byte counted as often as it was looked at.
    pub fn scanned_bytes(&self) -> u64 {
        self.scanned
    }

    /// The next frame; `None` when more bytes are needed.
    ///
    /// Takes from the front of `src`. Bytes may be appended to it between calls, but nothing else may be changed.
    pub fn decode(&mut self, src: &mut BytesMut) -> Option<SseFrame> {
        loop {
            let frame = match self.next_line(src)? {
                Line::Whole(line) => self.line(&line),
                Line::Long(LongLine::Comment) => Some(SseFrame::Comment),
                Line::Long(LongLine::Data | LongLine::Other) => None,
            };
            if frame.is_some() {
                return frame;
            }
        }
    }

    /// At the end of the stream: what is left. Call until `None`.
    pub fn finish(&mut self, src: &mut BytesMut) -> Option<SseFrame> {
        if let Some(frame) = self.decode(src) {
            return Some(frame);
        }
        let line = src.split().freeze();
        self.searched = 0;
        if self.skipping.take() == Some(LongLine::Comment) || line.starts_with(b":") {
            return Some(SseFrame::Comment);
        }
        // Half a line of data may still hold a whole answer. Half a name, id or delay is worse than none.
        if strip_field(&line, b"data").is_some() {
            self.line(&line);
        }
        self.event.id = None;
        match self.dispatch() {
            Some(SseFrame::Event(event)) => Some(SseFrame::Unterminated(event)),
            Some(frame @ SseFrame::TooLong(_)) => Some(frame),
            _ => None,
        }
    }

    /// Takes the next line. The bytes of an over-long one are dropped as they come.
    fn next_line(&mut self, src: &mut BytesMut) -> Option<Line> {
        const BOM: &[u8] = b"\xef\xbb\xbf";
        if self.at_start {
            if src.len() < BOM.len() && BOM.starts_with(src) {
                return None;
            }
            if src.starts_with(BOM) {
                src.advance(BOM.len());
            }
            self.at_start = false;
        }
        if let (true, Some(&first)) = (self.after_cr, src.first()) {
            self.after_cr = false;
            if first == b'\n' {
                src.advance(1);
            }
        }
        let unsearched = src.get(self.searched..).unwrap_or_default();
        let found = memchr::memchr2(b'\n', b'\r', unsearched);
        self.scanned += found.map_or(unsearched.len(), |at| at + 1) as u64;
        let Some(at) = found else {
            self.searched = src.len();
            if self.skipping.is_some() || self.is_too_long(src.len()) {
                self.searched = 0;
                // A buffer that grew to the limit is given back here.
                let part = src.split();
                self.skip(&part);
            }
            return None;
        };
        let length = self.searched + at;
        self.searched = 0;
        let mut line = src.split_to(length + 1);
        self.after_cr = line.last() == Some(&b'\r');
        line.truncate(length);
        if self.skipping.is_some() || self.is_too_long(length) {
            self.skip(&line);
            return self.skipping.take().map(Line::Long);
        }
        Some(Line::Whole(line.freeze()))
    }

    /// Whether a line of this length can't be part of an event within the limit: `data: ` and the data.
    fn is_too_long(&self, line_bytes: usize) -> bool {
        line_bytes > self.max_event_bytes.saturating_add(b"data: ".len())
    }

    /// Takes part of a line that is too long. The first part is longer than any prefix that is looked for here.
    fn skip(&mut self, part: &[u8]) {
        let event = &mut self.event;
        let Some(line) = self.skipping else {
            self.skipping = Some(if part.starts_with(b":") {
                LongLine::Comment
            } else if let Some(data) = strip_field(part, b"data") {
                let separator = event.separator();
                event.overflow(separator).push(data);
                LongLine::Data
            } else {
                if let Some(name) = strip_field(part, b"event") {
                    // Still no message, so it keeps a name, of a length that does not depend on how the line is cut.
                    event.kind = Some(kind(&name[..name.len().min(self.max_event_bytes)]));
                }
                LongLine::Other
            });
            return;
        };
        if line == LongLine::Data {
            event.overflow(b"").push(part);
        }
    }

    fn line(&mut self, line: &Bytes) -> Option<SseFrame> {
        let (name, value) = match memchr::memchr(b':', line) {
            None if line.is_empty() => return self.dispatch(),
            Some(0) => return Some(SseFrame::Comment),
            Some(at) => (&line[..at], line.slice(at + 1..)),
            None => (&line[..], Bytes::new()),
        };
        let value = if value.starts_with(b" ") {
            value.slice(1..)
        } else {
            value
        };
        let event = &mut self.event;
        match name {
            b"data" => event.push_line(value, self.max_event_bytes),
            b"event" => event.kind = Some(kind(&value)).filter(|kind| !kind.is_empty()),
            b"id" if value.len() <= MAX_FIELD_BYTES && !value.contains(&0) => {
                event.id = Some(String::from_utf8_lossy(&value).into_owned());
            }
            b"retry" if value.iter().all(u8::is_ascii_digit) => {
                // No digits, or more than the number holds: as if the line were not there.
                let millis = std::str::from_utf8(&value)
                    .ok()
                    .and_then(|digits| digits.parse().ok());
                event.retry = millis.map(Duration::from_millis).or(event.retry);
            }
            _ => {}
        }
        None
    }

    /// An empty line: the event is whole.
    fn dispatch(&mut self) -> Option<SseFrame> {
        let event = std::mem::take(&mut self.event);
        let has_fields =
            event.has_data() || event.kind.is_some() || event.id.is_some() || event.retry.is_some();
        self.last_id = event.id.or_else(|| self.last_id.take());
        if let Some(overflow) = event.overflow {
            let found = overflow.scanner.found().clone();
            return Some(SseFrame::TooLong(TooLong {
                bytes: overflow.bytes,
                limit_bytes: self.max_event_bytes,
                id: found.id,
                is_call: found.has_method,
                head: overflow.head.into(),
            }));
        }
        let data = event.data.into_bytes();
        if data.is_empty() {
            return has_fields.then(|| SseFrame::Primer {
                id: self.last_id.clone(),
                retry: event.retry,
            });
        }
        Some(SseFrame::Event(SseEvent {
            kind: event.kind,
            data,
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

/// An event's name; bad UTF-8 is replaced.
fn kind(value: &[u8]) -> String {
    String::from_utf8_lossy(&value[..value.len().min(MAX_FIELD_BYTES)]).into_owned()
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
            assert!(frames.len() < 100, "the end comes");
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
            (b"data: \n\n", &["primer None None"]),
            (b"event: ping\n\n", &["primer None None"]),
            (b"\n\n", &[]),
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
            (b"data: a\nevent: mess", &["cut a"]),
            // The id of an event that was cut is not in force, else a client would resume behind it.
            (
                b"id: 1\ndata: a\n\nid: 2\ndata: b\n",
                &["a id=1", "cut b id=1"],
            ),
            (b"id: 1\ndata: a\n\nid: 2", &["a id=1"]),
            (b"id: 1\n", &[]),
            (b": cut", &[":"]),
            (
                b"data: 1234567890123456789012345678901",
                &["long 31 id None call false"],
            ),
            (b": a comment that is longer than any event", &[":"]),
            (b"nonsense that is longer than any event", &[]),
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
                b"data: 1\ndata: 1234567890123456789012345678901\ndata\nid: 2\n\ndata: b\n\n",
                &["long 34 id None call false", "b id=2"],
            ),
            (
                b": a comment that is longer than any event may be\n\ndata: a\n\n",
                &[":", "a"],
            ),
            (
                b"nonsense that is longer than any event may be\ndata: a\n\n",
                &["a"],
            ),
            // A name we can't keep is still no `message`.
            (
                b"event: 1234567890123456789012345678901\ndata: a\n\n",
                &["a kind=123456789012345678901234"],
            ),
        ];
        for (bytes, expected) in cases {
            let shown = bytes.escape_ascii().to_string();
            assert_eq!(&frames(&[bytes]), expected, "{shown}");
            let single: Vec<_> = bytes.chunks(1).collect();
            assert_eq!(&frames(&single), expected, "{shown}, byte by byte");
            for at in 0..bytes.len() {
                let (head, tail) = bytes.split_at(at);
                assert_eq!(&frames(&[head, tail]), expected, "{shown}, split at {at}");
            }
            // With a whole event behind it: what stood unfinished is finished by the blank line.
            if bytes.ends_with(b"\n\n") {
                let more = [bytes, &b"data: z\n\n"[..]].concat();
                let shown_more = frames(&[&more]);
                let (last, before) = shown_more.split_last().unwrap();
                assert_eq!(before, *expected, "{shown}, with trailing bytes");
                assert!(last.starts_with('z'), "{shown}: {last}");
            }
        }
    }

    #[test]
    fn an_id_is_in_force_once_its_event_is_whole() {
        let mut decoder = SseDecoder::new(LIMIT);
        let mut buffer = BytesMut::from(&b"id: 1\n\nid: 2\ndata: b\n"[..]);
        while decoder.decode(&mut buffer).is_some() {}
        assert_eq!(decoder.last_event_id(), Some("1"));
        buffer.extend_from_slice(b"\n");
        assert!(decoder.decode(&mut buffer).is_some());
        assert_eq!(decoder.last_event_id(), Some("2"));
        buffer.extend_from_slice(b"id\n\n");
        assert!(decoder.decode(&mut buffer).is_some());
        assert_eq!(decoder.last_event_id(), Some(""), "an empty id resets it");
    }

    #[test]
    fn one_line_of_data_is_not_copied() {
        let mut decoder = SseDecoder::new(LIMIT);
        let mut buffer = BytesMut::from(&b"data: 0123456789\n\n"[..]);
        let range = buffer.as_ptr_range();
        let Some(SseFrame::Event(event)) = decoder.decode(&mut buffer) else {
            panic!("no event")
        };
        assert!(range.contains(&event.data.as_ptr()));
    }
}
