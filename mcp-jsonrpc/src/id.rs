//! Request ids: a string or an integer, kept apart by type.
//!
//! Rules: JR-02 (never null, never fractional), JR-04 (`1` and `"1"` differ).

use std::fmt;

use serde::{Serialize, Serializer};

/// The id of a JSON-RPC request: an integer or a string, compared type-exactly.
///
/// `Display` keeps the two apart: `7` is the number, `"7"` the string.
///
/// ```
/// use mcp_jsonrpc::RequestId;
/// assert_eq!(RequestId::from_json("7").unwrap().to_string(), "7");
/// assert_eq!(RequestId::from_json("\"7\"").unwrap().to_string(), "\"7\"");
/// assert_ne!(RequestId::from(7), RequestId::from("7"));
/// ```
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[expect(
    clippy::exhaustive_enums,
    reason = "JSON-RPC knows these two kinds of id and no other"
)]
pub enum RequestId {
    /// An integer id. This client numbers its own requests with these.
    Number(i64),
    /// A string id, without its quotes.
    String(Box<str>),
}

impl RequestId {
    /// Reads an id from its JSON text.
    ///
    /// An integral float (`7.0`) is the integer, since some JSON libraries print every number as a float (C061).
    /// `None` for `null`, fractions, numbers outside 64 bits, and every other kind of value.
    pub fn from_json(text: &str) -> Option<Self> {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        if text.starts_with('"') {
            return serde_json::from_str::<String>(text)
                .ok()
                .map(|id| Self::String(id.into_boxed_str()));
        }
        serde_json::from_str::<i64>(text)
            .map_or_else(|_| integral_float(text), |id| Some(Self::Number(id)))
    }

    /// Whether `text`, a JSON number, is written as a float although it is an integer.
    pub(crate) fn is_float_text(text: &str) -> bool {
        !text.starts_with('"') && text.contains(['.', 'e', 'E'])
    }

    /// The integer that a string id spells in canonical decimal form: `"7"` gives 7, `"07"` and `"x"` give `None`.
    ///
    /// Some servers echo numeric ids as text (C060); a caller may match such an answer after the exact look-up failed.
    pub fn canonical_number(&self) -> Option<i64> {
        match self {
            Self::Number(_) => None,
            Self::String(text) => {
                let number: i64 = text.parse().ok()?;
                (number.to_string() == **text).then_some(number)
            }
        }
    }
}

/// Reads `7.0` or `7e0` as 7; anything that is not exactly an integer gives `None`.
fn integral_float(text: &str) -> Option<RequestId> {
    /// Beyond 2^53 a float no longer names one integer.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let value: f64 = serde_json::from_str(text).ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the value was checked to be an integer below 2^53"
    )]
    (value.fract() == 0.0 && value.abs() <= EXACT).then_some(RequestId::Number(value as i64))
}

/// How much of a string id is shown: a peer may make it as long as a message.
const MAX_SHOWN_CHARS: usize = 128;

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            // `Debug` of a string quotes it and escapes control characters, so a hostile id can't forge log lines.
            Self::String(text) => match text.char_indices().nth(MAX_SHOWN_CHARS) {
                Some((cut, _)) => write!(f, "{:?}…", text.get(..cut).unwrap_or_default()),
                None => write!(f, "{text:?}"),
            },
        }
    }
}

impl From<i64> for RequestId {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for RequestId {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl Serialize for RequestId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_from_json() {
        let cases: &[(&str, Option<RequestId>)] = &[
            ("7", Some(7.into())),
            ("-3", Some((-3).into())),
            (" 7 ", Some(7.into())),
            ("9223372036854775807", Some(i64::MAX.into())),
            ("7.0", Some(7.into())), // C061
            ("7e0", Some(7.into())),
            ("\"7\"", Some("7".into())),
            ("\"\"", Some("".into())),
            (r#""\u0061""#, Some("a".into())),
            ("7.5", None),
            ("1e300", None),
            ("9223372036854775808", None),
            ("null", None),
            ("true", None),
            ("{}", None),
            ("[1]", None),
            ("", None),
            ("\"open", None),
        ];
        for (text, expected) in cases {
            assert_eq!(&RequestId::from_json(text), expected, "{text}");
        }
    }

    #[test]
    fn canonical_numbers_only() {
        let cases = [
            ("7", Some(7)),
            ("-7", Some(-7)),
            ("07", None),
            ("+7", None),
            ("7.0", None),
            ("x", None),
            ("", None),
        ];
        for (text, expected) in cases {
            assert_eq!(RequestId::from(text).canonical_number(), expected, "{text}");
        }
        assert_eq!(RequestId::from(7).canonical_number(), None);
    }
}
