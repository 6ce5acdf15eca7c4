//! The parts of a converted result.

use serde_json::value::RawValue;

/// One part of a converted result.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Part {
    /// Sound.
    Audio {
        /// The media type.
        mime_type: String,
        /// The decoded bytes.
        bytes: Vec<u8>,
    },
    /// A picture.
    Image {
        /// The media type.
        mime_type: String,
        /// The decoded bytes.
        bytes: Vec<u8>,
    },
    /// A resource that can be read later.
    Link {
        /// Its address.
        uri: String,
        /// Its name; may be empty.
        name: String,
        /// A name for people.
        title: Option<String>,
        /// What it is.
        description: Option<String>,
        /// Its media type.
        mime_type: Option<String>,
        /// Its size in bytes.
        size: Option<u64>,
    },
    /// A block that was not understood, as it came; a note says why.
    Raw {
        /// The block's `type`, if there is one.
        kind: Option<String>,
        /// The block.
        raw: Box<RawValue>,
    },
    /// A resource with its contents.
    Resource {
        /// Its address.
        uri: String,
        /// Its media type.
        mime_type: Option<String>,
        /// Its contents.
        body: ResourcePartBody,
    },
    /// Text.
    Text {
        /// The text; if it was cut, the head directly followed by the tail.
        text: String,
        /// Where something was left out.
        cut: Option<TextCut>,
    },
}

/// The contents of a resource part.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ResourcePartBody {
    /// Decoded bytes.
    Bytes(Vec<u8>),
    /// Text.
    Text {
        /// The text; if it was cut, the head directly followed by the tail.
        text: String,
        /// Where something was left out.
        cut: Option<TextCut>,
    },
}

/// A gap in a text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TextCut {
    /// Where the gap is: the length of the head in bytes.
    pub at_byte: usize,
    /// How many bytes were left out there.
    pub left_out_bytes: usize,
}
