//! The `error` member of a response.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{ErrorCode, RawJson};

/// An error that a peer sent: code, message and raw data (JR-06).
///
/// ```json
/// {"code": -32601, "message": "method not found", "data": {"method": "x/y"}}
/// ```
///
/// The message is the peer's text: untrusted, of any length. `Display` cuts it and shows control characters escaped.
#[derive(Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ErrorObject {
    /// What kind of error.
    pub code: ErrorCode,
    /// The peer's own words; empty when it sent none.
    pub message: String,
    /// Anything the peer added, untouched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<RawJson>,
}

impl ErrorObject {
    /// An error without data.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    /// Reads an `error` member; `None` when it is no object with an integer code.
    pub(crate) fn read(frame: &Bytes, raw: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Wire<'a> {
            #[serde(borrow)]
            code: &'a RawValue,
            #[serde(default, borrow)]
            message: Option<&'a RawValue>,
            #[serde(default, borrow)]
            data: Option<&'a RawValue>,
        }
        // The derived reader would also take an array of the members in order.
        if !raw.get().starts_with('{') {
            return None;
        }
        let wire: Wire<'_> = serde_json::from_str(raw.get()).ok()?;
        let crate::RequestId::Number(code) = crate::RequestId::from_json(wire.code.get())? else {
            return None;
        };
        let message = wire.message.map_or_else(String::new, |raw| {
            // A message that is no string is still evidence, so its text is kept.
            serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
        });
        Some(Self {
            code: ErrorCode::new(code),
            message,
            data: wire.data.map(|raw| RawJson::slice_of(frame, raw)),
        })
    }
}

/// As `Display`, and the size of the data: both may be as long as a message.
impl fmt::Debug for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ErrorObject({self}, data {:?})", self.data)
    }
}

impl fmt::Display for ErrorObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}", self.code)?;
        if !self.message.is_empty() {
            write!(
                f,
                ": {}",
                crate::clean_excerpt(self.message.as_bytes(), MAX_SHOWN_MESSAGE_BYTES)
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for ErrorObject {}

/// How much of a peer's error message `Display` shows.
const MAX_SHOWN_MESSAGE_BYTES: usize = 512;
