//! The `_meta` member of requests.
//!
//! Rules: VER-30 to VER-33 (what a modern request always carries), JR-50 to JR-54 (key names), PROG-01.

use std::fmt;

use bytes::{BufMut, BytesMut};
use serde_json::{Map, Value};

use crate::error::UsageError;
use crate::model::capability::ClientCapabilities;
use crate::model::deprecated::logging::LoggingLevel;
use crate::model::implementation::Implementation;
use crate::version::ProtocolVersion;

/// Prefix of the keys that the protocol keeps for itself.
const RESERVED_PREFIX: &str = "io.modelcontextprotocol/";
/// The version of a modern request.
pub const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// Who sends a modern request.
pub const CLIENT_INFO: &str = "io.modelcontextprotocol/clientInfo";
/// What the client of a modern request can do.
pub const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// Who sent a modern result.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// Which log messages a modern request asks for (LOG-03).
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// The subscription that a modern notification belongs to.
pub const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// The token that ties progress notifications to a request.
pub const PROGRESS_TOKEN: &str = "progressToken";

/// What a host adds to the `_meta` of a request: trace context and entries of its own.
///
/// Keys of the protocol itself (`io.modelcontextprotocol/…`, `progressToken`) are refused: the core writes those.
#[derive(Clone, Default, PartialEq)]
pub struct RequestMeta(Map<String, Value>);

impl RequestMeta {
    /// Nothing to add.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the W3C trace context under its unprefixed names (JR-54).
    #[must_use]
    pub fn with_trace_context(mut self, traceparent: &str, tracestate: Option<&str>) -> Self {
        self.0.insert("traceparent".to_owned(), traceparent.into());
        if let Some(tracestate) = tracestate {
            self.0.insert("tracestate".to_owned(), tracestate.into());
        }
        self
    }

    /// Adds W3C baggage.
    #[must_use]
    pub fn with_baggage(mut self, baggage: &str) -> Self {
        self.0.insert("baggage".to_owned(), baggage.into());
        self
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// [`UsageError::ReservedMetaKey`] for a key that the protocol keeps for itself.
    pub fn insert(&mut self, key: impl Into<String>, value: Value) -> Result<(), UsageError> {
        let key = key.into();
        check_key(&key)?;
        self.0.insert(key, value);
        Ok(())
    }

    /// Whether there is nothing to add.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Shows the keys and not the values: baggage may hold secrets.
impl fmt::Debug for RequestMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// Refuses keys that only the core may write (JR-51, JR-53).
pub(crate) fn check_key(key: &str) -> Result<(), UsageError> {
    if key.starts_with(RESERVED_PREFIX) || key == PROGRESS_TOKEN {
        return Err(UsageError::ReservedMetaKey {
            key: key.to_owned(),
        });
    }
    Ok(())
}

/// The members that every modern request of a connection carries, ready to be copied in.
pub(crate) fn modern_members(
    version: &ProtocolVersion,
    info: Option<&Implementation>,
    capabilities: &ClientCapabilities,
) -> String {
    let mut members =
        serde_json::json!({ PROTOCOL_VERSION: version, CLIENT_CAPABILITIES: capabilities });
    if let (Some(info), Some(map)) = (info, members.as_object_mut()) {
        map.insert(CLIENT_INFO.to_owned(), serde_json::json!(info));
    }
    let text = members.to_string();
    // The members without the braces around them.
    text.get(1..text.len() - 1).unwrap_or_default().to_owned()
}

/// What goes into the `_meta` of one request.
#[derive(Clone, Copy, Default)]
pub(crate) struct MetaParts<'a> {
    /// Members for every request of the era, as JSON text without braces.
    pub(crate) era_members: &'a str,
    pub(crate) progress_token: Option<i64>,
    /// Modern requests only.
    pub(crate) log_level: Option<LoggingLevel>,
    pub(crate) host: Option<&'a RequestMeta>,
}

impl MetaParts<'_> {
    fn is_empty(&self) -> bool {
        self.era_members.is_empty()
            && self.progress_token.is_none()
            && self.log_level.is_none()
            && self.host.is_none_or(RequestMeta::is_empty)
    }

    /// Adds `"_meta":{…}` to the object that `out` ends with, which starts at `start`.
    ///
    /// `own` is the text of entries that the parameters had already, without braces.
    pub(crate) fn splice(&self, out: &mut BytesMut, start: usize, own: &str) {
        if self.is_empty() && own.is_empty() {
            return;
        }
        // The closing brace is written again below.
        out.truncate(out.len() - 1);
        if out.len() > start + 1 {
            out.put_u8(b',');
        }
        out.put_slice(b"\"_meta\":{");
        let mut separate = Separator { first: true };
        for members in [self.era_members, own] {
            if !members.is_empty() {
                separate.before(out);
                out.put_slice(members.as_bytes());
            }
        }
        if let Some(token) = self.progress_token {
            separate.before(out);
            out.put_slice(b"\"progressToken\":");
            out.put_slice(token.to_string().as_bytes());
        }
        if let Some(level) = self.log_level {
            separate.before(out);
            out.put_slice(format!("\"{LOG_LEVEL}\":\"{level}\"").as_bytes());
        }
        for (key, value) in self.host.into_iter().flat_map(|host| &host.0) {
            separate.before(out);
            out.put_slice(Value::from(key.as_str()).to_string().as_bytes());
            out.put_u8(b':');
            out.put_slice(value.to_string().as_bytes());
        }
        out.put_slice(b"}}");
    }
}

struct Separator {
    first: bool,
}

impl Separator {
    fn before(&mut self, out: &mut BytesMut) {
        if !std::mem::take(&mut self.first) {
            out.put_u8(b',');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_is_spliced_into_any_object() {
        let mut host = RequestMeta::new().with_trace_context("00-ab", None);
        host.insert("com.example/x", 1.into()).unwrap();
        let full = MetaParts {
            era_members: "\"e\":1",
            progress_token: Some(7),
            log_level: Some(LoggingLevel::Warning),
            host: Some(&host),
        };
        let none = MetaParts::default();
        let cases = [
            ("{}", none, "", "{}"),
            ("{}", none, "\"o\":2", r#"{"_meta":{"o":2}}"#),
            (
                "{}",
                MetaParts {
                    progress_token: Some(7),
                    ..none
                },
                "",
                r#"{"_meta":{"progressToken":7}}"#,
            ),
            (
                r#"{"a":1}"#,
                full,
                "\"o\":2",
                r#"{"a":1,"_meta":{"e":1,"o":2,"progressToken":7,"io.modelcontextprotocol/logLevel":"warning","com.example/x":1,"traceparent":"00-ab"}}"#,
            ),
        ];
        for (params, parts, own, expected) in cases {
            let mut out = BytesMut::from(format!("xx{params}").as_bytes());
            parts.splice(&mut out, 2, own);
            assert_eq!(std::str::from_utf8(&out[2..]).unwrap(), expected);
        }
    }

    #[test]
    fn reserved_keys_are_refused() {
        let mut meta = RequestMeta::new();
        for key in ["progressToken", "io.modelcontextprotocol/protocolVersion"] {
            assert!(meta.insert(key, Value::Null).is_err(), "{key}");
        }
    }
}
