//! A header field, and how text becomes a value that every intermediary passes on unchanged.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const PREFIX: &str = "=?base64?";
const SUFFIX: &str = "?=";

/// A header field of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct HeaderField {
    /// The name; compared without regard to case (HTTP-10).
    pub name: Cow<'static, str>,
    /// The value: visible ASCII and inner spaces only.
    pub value: String,
}

impl HeaderField {
    /// A field whose value is encoded where it must be.
    pub(crate) fn new(name: impl Into<Cow<'static, str>>, value: &str) -> Self {
        Self {
            name: name.into(),
            value: encode_value(value).into_owned(),
        }
    }
}

/// Text as a header value (HTTPM-23): as it is, or base64 between markers where it would not survive, or would be taken
/// for such a marked value.
///
/// ```
/// use mcp_proto::http::encode_value;
///
/// assert_eq!(encode_value("read_file"), "read_file");
/// assert_eq!(encode_value("größe "), "=?base64?Z3LDtsOfZSA=?=");
/// ```
pub fn encode_value(text: &str) -> Cow<'_, str> {
    let is_visible = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
    let has_edges = text.starts_with(' ') || text.ends_with(' ');
    let is_marked = text.starts_with(PREFIX) && text.ends_with(SUFFIX);
    if is_visible && !has_edges && !is_marked {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{PREFIX}{}{SUFFIX}", STANDARD.encode(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c168_values_survive_every_intermediary() {
        let cases = [
            ("", ""),
            ("add", "add"),
            ("a b", "a b"),
            ("note://42", "note://42"),
            ("größe ", "=?base64?Z3LDtsOfZSA=?="),
            (" add", "=?base64?IGFkZA==?="),
            ("add ", "=?base64?YWRkIA==?="),
            ("a\tb", "=?base64?YQli?="),
            ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?="),
            ("\u{7f}", "=?base64?fw==?="),
            ("=?base64?YQ==?=", "=?base64?PT9iYXNlNjQ/WVE9PT89?="),
            ("=?base64?YQ==", "=?base64?YQ=="),
            ("=?BASE64?YQ==?=", "=?BASE64?YQ==?="),
        ];
        for (text, value) in cases {
            assert_eq!(encode_value(text), value, "{text:?}");
        }
    }
}
