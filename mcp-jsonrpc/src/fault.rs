//! What a frame is when it is no message: data, never an `Err` (JR-14).

use std::fmt;

use crate::RequestId;

/// Longest excerpt of a bad frame that is kept as evidence, in bytes.
///
/// Enough for a log line; small enough that a flood of noise costs little.
pub const MAX_EVIDENCE_BYTES: usize = 160;

/// Why a frame, or a part of one, is no JSON-RPC message.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct MessageFault {
    /// What is wrong with it.
    pub kind: FaultKind,
    /// The request that this would have answered, as far as that can be told: just that call fails (C007).
    pub answers: Option<RequestId>,
    evidence: Box<str>,
}

impl MessageFault {
    /// A fault with an excerpt of `frame` as evidence.
    pub fn new(kind: FaultKind, frame: &[u8], answers: Option<RequestId>) -> Self {
        Self {
            kind,
            answers,
            evidence: clean_excerpt(frame, MAX_EVIDENCE_BYTES).into_boxed_str(),
        }
    }

    /// The start of the frame, at most [`MAX_EVIDENCE_BYTES`], with control characters shown as marks (C004).
    ///
    /// It is text that the peer wrote; a host that redacts secrets must do so here too.
    pub fn evidence(&self) -> &str {
        &self.evidence
    }
}

impl fmt::Display for MessageFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        if !self.evidence.is_empty() {
            write!(f, ": {:?}", self.evidence)?;
        }
        Ok(())
    }
}

/// The kinds of [`MessageFault`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum FaultKind {
    /// The `error` member is no object with an integer `code`.
    BadErrorObject,
    /// The `id` is neither a string nor a 64-bit integer (JR-02).
    BadId,
    /// The `method` is no string.
    BadMethod,
    /// More messages in one array than are taken.
    BatchTooLong,
    /// An array with nothing in it (JR-22).
    EmptyBatch,
    /// A member stands twice.
    DuplicateMember,
    /// A `Content-Length:` header: the peer frames its messages as LSP does, not as lines.
    LspHeader,
    /// Neither `result` nor `error` (JR-05, C065).
    NeitherResultNorError,
    /// An array inside an array.
    NestedBatch,
    /// JSON, but no JSON-RPC message: for example a structured log line.
    NotAMessage,
    /// Not JSON: for example a banner or a log line (C001, C004).
    NotJson,
    /// A request whose id is `null`.
    NullRequestId,
    /// A `result` without an id: it answers nothing (C094).
    ResultWithoutId,
    /// Longer than the frame limit.
    TooLong,
    /// Something after the last message on a line (C013).
    TrailingText,
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadErrorObject => "the error member is no error object",
            Self::BadId => "the id is neither a string nor an integer",
            Self::BadMethod => "the method is no string",
            Self::BatchTooLong => "a batch of too many messages",
            Self::EmptyBatch => "an empty batch",
            Self::DuplicateMember => "a member stands twice",
            Self::LspHeader => {
                "a Content-Length header (the peer frames messages as LSP does, not as lines)"
            }
            Self::NeitherResultNorError => "a response with neither result nor error",
            Self::NestedBatch => "a batch inside a batch",
            Self::NotAMessage => "no JSON-RPC message",
            Self::NotJson => "not JSON",
            Self::NullRequestId => "a request whose id is null",
            Self::ResultWithoutId => "a result without an id",
            Self::TooLong => "a message longer than the limit",
            Self::TrailingText => "text after the message",
        })
    }
}

/// The first `max_bytes` of some peer's bytes as one line of text: lossy UTF-8, control characters as visible marks.
///
/// ```
/// assert_eq!(mcp_jsonrpc::clean_excerpt(b"\x1b[33mwarn\x1b[0m\n", 80), "\u{241b}[33mwarn\u{241b}[0m");
/// ```
pub fn clean_excerpt(bytes: &[u8], max_bytes: usize) -> String {
    let bytes = bytes.trim_ascii();
    let cut = &bytes[..bytes.len().min(max_bytes)];
    let mut text = String::with_capacity(cut.len());
    for chunk in cut.utf8_chunks() {
        text.extend(chunk.valid().chars().map(visible));
        // A character that the cut split is left out; bad bytes inside are shown.
        let cut_here = cut.len() < bytes.len() && is_tail_of(chunk.invalid(), cut);
        if !chunk.invalid().is_empty() && !cut_here {
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }
    if cut.len() < bytes.len() {
        text.push('…');
    }
    text
}

/// Whether `part`, a subslice of `whole`, reaches its end.
fn is_tail_of(part: &[u8], whole: &[u8]) -> bool {
    part.as_ptr_range().end == whole.as_ptr_range().end
}

/// Control characters as their Unicode pictures; bidirectional overrides and the like as the replacement character.
fn visible(character: char) -> char {
    match character {
        '\u{0}'..='\u{1f}' => {
            char::from_u32(0x2400 + character as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2069}'
        | '\u{feff}' => char::REPLACEMENT_CHARACTER,
        '\u{e0000}'..='\u{e007f}' => char::REPLACEMENT_CHARACTER,
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excerpts_are_one_clean_line() {
        let cases: &[(&[u8], usize, &str)] = &[
            (b"plain", 80, "plain"),
            (b"  spaced \r\n", 80, "spaced"),
            (b"a\tb\x00c", 80, "a\u{2409}b\u{2400}c"),
            (b"caf\xe9", 80, "caf\u{fffd}"),
            ("größe".as_bytes(), 3, "gr…"), // the cut falls inside the second letter
            ("a\u{202e}b\u{e0049}".as_bytes(), 80, "a\u{fffd}b\u{fffd}"), // C223
            (b"abcdef", 3, "abc…"),
            (b"", 80, ""),
        ];
        for (bytes, max, expected) in cases {
            assert_eq!(&clean_excerpt(bytes, *max), expected, "{bytes:?}");
        }
    }
}
