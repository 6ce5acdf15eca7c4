//! Newline-delimited framing: one message per line.
//!
//! Pure bytes: whether a line is a message, or valid UTF-8, is not this layer's business. The decoder remembers how far
//! it searched, so that small chunks stay cheap, and hands lines out without copying them.
//!
//! Rules: STDIO-02 to STDIO-04 (`\n` ends a line, one `\r` before it and blank lines are ignored, no BOM), C003, C010,
//! C014 (padding around a line), D15 (a line past the limit is skipped and fails only the call that it answers).

use bytes::{Buf, Bytes, BytesMut};

use crate::RequestId;
use crate::salvage::EnvelopeScanner;

/// How much of an over-long line is kept as evidence, in bytes.
pub const MAX_HEAD_BYTES: usize = 128;

/// What the decoder found.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum NdjsonFrame {
    /// A line without its end and the padding around it; never empty.
    Line(Bytes),
    /// A line longer than the limit. It was skipped; the next one is read normally.
    TooLong(TooLong),
    /// What stood behind the last line break when the stream ended; never empty.
    Unterminated(Bytes),
}

/// About a line that was longer than the limit.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TooLong {
    /// Its length in bytes, without the line break.
    pub bytes: u64,
    /// The limit.
    pub limit_bytes: usize,
    /// The message's id, as far as it could be found.
    pub id: Option<RequestId>,
    /// Whether it is a request or notification, not an answer.
    pub is_call: bool,
    /// Its first bytes, at most [`MAX_HEAD_BYTES`].
    pub head: Bytes,
}

/// Cuts a byte stream into lines.
///
/// ```
/// use bytes::BytesMut;
/// use mcp_jsonrpc::frame::{NdjsonDecoder, NdjsonFrame};
///
/// let mut decoder = NdjsonDecoder::new(1024);
/// let mut buffer = BytesMut::from(&b"{}\r\n\n{\"half"[..]);
/// assert_eq!(decoder.decode(&mut buffer), Some(NdjsonFrame::Line("{}".into())));
/// assert_eq!(decoder.decode(&mut buffer), None);
/// assert_eq!(decoder.finish(&mut buffer), Some(NdjsonFrame::Unterminated("{\"half".into())));
/// ```
#[derive(Debug)]
pub struct NdjsonDecoder {
    max_frame_bytes: usize,
    /// How many bytes at the start of the buffer hold no line break.
    searched: usize,
    /// The over-long line that is being skipped.
    skipping: Option<Box<Skipping>>,
    at_start: bool,
    scanned: u64,
}

#[derive(Debug, Default)]
struct Skipping {
    bytes: u64,
    /// Whether the last byte skipped was a `\r`, which belongs to the line break if that follows.
    ends_in_cr: bool,
    head: Head,
    scanner: EnvelopeScanner,
}

/// The first bytes of something that is skipped.
#[derive(Debug, Default)]
pub(super) struct Head(Vec<u8>);

impl Head {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let room = MAX_HEAD_BYTES - self.0.len();
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl From<Head> for Bytes {
    fn from(head: Head) -> Self {
        head.0.into()
    }
}

impl NdjsonDecoder {
    /// A decoder for lines of at most so many bytes, not counting the line break.
    pub fn new(max_frame_bytes: usize) -> Self {
        Self {
            max_frame_bytes,
            searched: 0,
            skipping: None,
            at_start: true,
            scanned: 0,
        }
    }

    /// The next line; `None` when more bytes are needed.
    ///
    /// Takes from the front of `src`. Bytes may be appended to it between calls, but nothing else may be changed.
    pub fn decode(&mut self, src: &mut BytesMut) -> Option<NdjsonFrame> {
        loop {
            self.skip_bom(src);
            let unsearched = src.get(self.searched..).unwrap_or_default();
            let found = memchr::memchr(b'\n', unsearched);
            self.scanned += found.map_or(unsearched.len(), |at| at + 1) as u64;
            let Some(at) = found else {
                self.searched = src.len();
                // A `\r` may still turn out to belong to the line break.
                if self.skipping.is_some() || src.len() > self.max_frame_bytes.saturating_add(1) {
                    self.skip(src);
                }
                return None;
            };
            let length = self.searched + at;
            self.searched = 0;
            self.at_start = false;
            if self.skipping.is_some() || content(&src[..length]).len() > self.max_frame_bytes {
                let mut line = src.split_to(length);
                self.skip(&mut line);
                src.advance(1);
                return self.skipped();
            }
            let line = src.split_to(length + 1).freeze();
            if let Some(line) = trimmed(&line) {
                return Some(NdjsonFrame::Line(line));
            }
        }
    }

    /// At the end of the stream: what is left. Call until `None`.
    pub fn finish(&mut self, src: &mut BytesMut) -> Option<NdjsonFrame> {
        if let Some(frame) = self.decode(src) {
            return Some(frame);
        }
        self.searched = 0;
        if self.skipping.is_some() || content(src).len() > self.max_frame_bytes {
            self.skip(src);
            return self.skipped();
        }
        let rest = src.split().freeze();
        trimmed(&rest).map(NdjsonFrame::Unterminated)
    }

    /// How many bytes were looked at so far, each byte counted as often as it was looked at.
    pub fn scanned_bytes(&self) -> u64 {
        self.scanned
    }

    /// A byte order mark at the start of the stream is no part of the first line.
    fn skip_bom(&mut self, src: &mut BytesMut) {
        const BOM: &[u8] = b"\xef\xbb\xbf";
        if self.at_start && src.starts_with(BOM) {
            src.advance(BOM.len());
            self.searched = 0;
            self.at_start = false;
        }
    }

    /// Drops all of `src` as part of an over-long line.
    fn skip(&mut self, src: &mut BytesMut) {
        let is_first = self.skipping.is_none();
        let skipping = self.skipping.get_or_insert_default();
        skipping.bytes += src.len() as u64;
        if let Some(last) = src.last() {
            skipping.ends_in_cr = *last == b'\r';
        }
        skipping.scanner.push(src);
        skipping.head.push(src);
        if is_first {
            // It grew to the limit. The small ones that follow are used again.
            *src = BytesMut::new();
        } else {
            src.clear();
        }
        self.searched = 0;
        self.at_start = false;
    }

    /// The over-long line is over.
    fn skipped(&mut self) -> Option<NdjsonFrame> {
        let skipping = self.skipping.take()?;
        let found = skipping.scanner.found();
        Some(NdjsonFrame::TooLong(TooLong {
            bytes: skipping.bytes - u64::from(skipping.ends_in_cr),
            limit_bytes: self.max_frame_bytes,
            id: found.id.clone(),
            is_call: found.has_method,
            head: skipping.head.into(),
        }))
    }
}

/// A line without the `\r` of its line break.
fn content(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// A line without the white space and NUL around it; `None` when nothing is left.
fn trimmed(line: &Bytes) -> Option<Bytes> {
    let is_padding = |byte: &u8| byte.is_ascii_whitespace() || *byte == 0;
    let start = line.iter().position(|byte| !is_padding(byte))?;
    let end = line.iter().rposition(|byte| !is_padding(byte))? + 1;
    Some(line.slice(start..end))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: usize = 12;

    /// Feeds the chunks and finishes; one word per frame.
    fn frames(chunks: &[&[u8]]) -> Vec<String> {
        let mut decoder = NdjsonDecoder::new(LIMIT);
        let mut buffer = BytesMut::new();
        let mut frames = Vec::new();
        for chunk in chunks {
            buffer.extend_from_slice(chunk);
            while let Some(frame) = decoder.decode(&mut buffer) {
                frames.push(show(&frame));
            }
            assert!(buffer.len() <= LIMIT + 1, "the buffer is bounded");
        }
        while let Some(frame) = decoder.finish(&mut buffer) {
            frames.push(show(&frame));
            assert!(frames.len() < 100, "the end comes");
        }
        frames
    }

    fn show(frame: &NdjsonFrame) -> String {
        match frame {
            NdjsonFrame::Line(line) => format!("line {}", line.escape_ascii()),
            NdjsonFrame::Unterminated(line) => format!("rest {}", line.escape_ascii()),
            NdjsonFrame::TooLong(long) => {
                let id = long
                    .id
                    .as_ref()
                    .map_or_else(String::new, |id| format!(" id {id}"));
                format!(
                    "long {}{id}{}",
                    long.bytes,
                    if long.is_call { " call" } else { "" }
                )
            }
        }
    }

    #[test]
    fn lines_however_they_are_cut() {
        let cases: &[(&[u8], &[&str])] = &[
            (b"", &[]),
            (b"a\n", &["line a"]),
            (b"a\nb\n", &["line a", "line b"]),
            (b"a\r\n\r\nb\r\n", &["line a", "line b"]), // C003
            (b"\n\n \t\n\0\n", &[]),
            (
                b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n",
                &["line a", "line \\xef\\xbb\\xbfb"],
            ),
            (b"a\0\n\0b\n", &["line a", "line b"]), // C014
            (b"a\xe9\n", &["line a\\xe9"]),         // C007: not decided here
            (b"a\xe2\x80\xa8b\n", &["line a\\xe2\\x80\\xa8b"]), // STDIO-04: U+2028 ends no line
            (b"a\rb\n", &["line a\\rb"]),
            (b"a\nrest", &["line a", "rest rest"]), // C010
            (b"a\nrest\r", &["line a", "rest rest"]),
            (b"123456789012\n", &["line 123456789012"]), // at the limit
            (b"123456789012\r\n", &["line 123456789012"]),
            (b"1234567890123\nb\n", &["long 13", "line b"]), // above it
            (b"1234567890123\r\nb\n", &["long 13", "line b"]),
            (b"12345678901234567890", &["long 20"]),
            (
                b"{\"id\":7,\"result\":{\"id\":1}}\nb\n",
                &["long 26 id 7", "line b"],
            ),
            (b"{\"result\":{\"id\":1},\"id\":7}\n", &["long 26 id 7"]),
            (b"{\"id\":7,\"method\":\"x\"}\n", &["long 21 id 7 call"]),
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
            if bytes.ends_with(b"\n") {
                let more = [bytes, &b"z\n"[..]].concat();
                let expected: Vec<_> = expected.iter().copied().chain(["line z"]).collect();
                assert_eq!(frames(&[&more]), expected, "{shown}, with trailing bytes");
            }
        }
    }

    #[test]
    fn each_byte_is_looked_at_once() {
        let mut decoder = NdjsonDecoder::new(1_000_000);
        let mut buffer = BytesMut::new();
        for _ in 0..10_000 {
            buffer.extend_from_slice(b"0123456789");
            assert_eq!(decoder.decode(&mut buffer), None);
        }
        assert_eq!(decoder.scanned_bytes(), 100_000);
    }
}
