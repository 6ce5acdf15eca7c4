//! A piece of JSON text that nobody has looked into yet.
//!
//! Payloads stay raw until somebody knows their type: a large result is neither copied nor parsed twice.

use std::fmt;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

/// One JSON value as text, a cheap clone that shares the buffer of the frame it came in.
///
/// The text is well-formed JSON when it came out of [`Messages`](crate::Messages). Keeping a `RawJson` keeps its frame's
/// buffer alive; call [`RawJson::detached`] for something to store for long.
#[derive(Clone, Eq, PartialEq)]
pub struct RawJson(Bytes);

impl RawJson {
    /// The value `{}`.
    pub const EMPTY_OBJECT: Self = Self(Bytes::from_static(b"{}"));
    /// The value `null`.
    pub const NULL: Self = Self(Bytes::from_static(b"null"));

    /// Takes the part of `frame` that `raw` borrows from.
    pub(crate) fn slice_of(frame: &Bytes, raw: &RawValue) -> Self {
        Self(frame.slice_ref(raw.get().as_bytes()))
    }

    /// Serializes a value.
    ///
    /// # Errors
    /// When `value` refuses to be serialized, for example a map whose keys are no strings.
    pub fn from_value<T: Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Ok(Self(serde_json::to_vec(value)?.into()))
    }

    /// The JSON text.
    pub fn as_str(&self) -> &str {
        // Built from `str` only; the fallback is unreachable and still valid JSON.
        std::str::from_utf8(&self.0).unwrap_or("null")
    }

    /// The JSON text as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Length of the text in bytes.
    pub fn len_bytes(&self) -> usize {
        self.0.len()
    }

    /// Whether this is a JSON object.
    pub fn is_object(&self) -> bool {
        self.0.trim_ascii_start().first() == Some(&b'{')
    }

    /// Whether this is the JSON value `null`.
    pub fn is_null(&self) -> bool {
        self.0.trim_ascii() == b"null"
    }

    /// A copy that does not keep the frame's buffer alive.
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// The value as an owned [`RawValue`].
    ///
    /// # Errors
    /// When the text is no well-formed JSON, which can't happen for text from [`Messages`](crate::Messages).
    pub fn to_raw_value(&self) -> Result<Box<RawValue>, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Parses into a type.
    ///
    /// # Errors
    /// When the value does not have the shape of `T`, or nests deeper than 128 levels (JR-15).
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }

    /// Parses into a type that may borrow from this value.
    ///
    /// # Errors
    /// As [`RawJson::parse`].
    pub fn parse_borrowed<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.as_str())
    }
}

/// Shows the length and not the content: payloads may hold secrets.
impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawJson({} bytes)", self.0.len())
    }
}

impl From<&RawValue> for RawJson {
    fn from(raw: &RawValue) -> Self {
        Self(Bytes::copy_from_slice(raw.get().as_bytes()))
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.as_str()).map_err(S::Error::custom)?;
        raw.serialize(serializer)
    }
}
