//! What a conversion lost or could not understand.

use std::fmt;

/// Something that a conversion changed or left out. `block` counts the result's content blocks from 0.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// A block became a raw part or nothing.
    Dropped {
        /// Which block.
        block: usize,
        /// Its type or media type.
        kind: String,
        /// Its size as it came, in bytes.
        bytes: usize,
        /// Why.
        reason: DropReason,
    },
    /// A text was cut.
    TextCut {
        /// Which block; `None` for the structured result shown as text.
        block: Option<usize>,
        /// Bytes kept.
        kept_bytes: usize,
        /// Bytes there were.
        total_bytes: usize,
    },
    /// There was no text, so the structured result was added as one.
    StructuredAsText,
    /// A block was not understood and is kept raw.
    Unknown {
        /// Which block.
        block: usize,
        /// Its type, if it has one.
        kind: Option<String>,
    },
}

/// Why a block was dropped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DropReason {
    /// It is meant for another audience.
    Audience,
    /// Its bytes are not valid Base64.
    InvalidBase64,
    /// The policy does not take its media type.
    MediaType,
    /// It is larger than the policy allows.
    TooLarge,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dropped {
                block,
                kind,
                bytes,
                reason,
            } => {
                let reason = match reason {
                    DropReason::Audience => "it is meant for another audience",
                    DropReason::InvalidBase64 => "its data is not valid Base64",
                    DropReason::MediaType => "its media type is not accepted",
                    DropReason::TooLarge => "it is too large",
                };
                write!(
                    f,
                    "block {block} ({kind}, {bytes} bytes) was dropped: {reason}"
                )
            }
            Self::TextCut {
                block: Some(block),
                kept_bytes,
                total_bytes,
            } => {
                write!(
                    f,
                    "the text of block {block} was cut to {kept_bytes} of {total_bytes} bytes"
                )
            }
            Self::TextCut {
                block: None,
                kept_bytes,
                total_bytes,
            } => {
                write!(
                    f,
                    "the structured result was cut to {kept_bytes} of {total_bytes} bytes"
                )
            }
            Self::StructuredAsText => {
                f.write_str("the result had no text, so the structured result is shown")
            }
            Self::Unknown {
                block,
                kind: Some(kind),
            } => write!(f, "block {block} is of a kind not understood: {kind:?}"),
            Self::Unknown { block, kind: None } => write!(f, "block {block} has no type"),
        }
    }
}
