//! The space of JSON-RPC error codes.
//!
//! Only the standard codes have names here; what the Model Context Protocol adds is named by the crate above.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An error code: any integer, with names for the standard ones.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct ErrorCode(i64);

impl ErrorCode {
    /// `-32700`: the peer could not parse what it got.
    pub const PARSE_ERROR: Self = Self(-32700);
    /// `-32600`: what the peer got is no valid request.
    pub const INVALID_REQUEST: Self = Self(-32600);
    /// `-32601`: the method does not exist or is not available.
    pub const METHOD_NOT_FOUND: Self = Self(-32601);
    /// `-32602`: the parameters are not valid for the method.
    pub const INVALID_PARAMS: Self = Self(-32602);
    /// `-32603`: the peer failed inside.
    pub const INTERNAL_ERROR: Self = Self(-32603);

    /// Wraps any integer.
    pub const fn new(code: i64) -> Self {
        Self(code)
    }

    /// The integer.
    pub const fn value(self) -> i64 {
        self.0
    }

    /// Whether the code lies in `-32768..=-32000`, which JSON-RPC reserves for protocol errors (JR-33).
    pub const fn is_reserved(self) -> bool {
        -32768 <= self.0 && self.0 <= -32000
    }

    /// Whether the code lies in `-32099..=-32000`, where an implementation may define its own meanings.
    pub const fn is_server_defined(self) -> bool {
        -32099 <= self.0 && self.0 <= -32000
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        let cases = [
            (ErrorCode::PARSE_ERROR, true, false),
            (ErrorCode::new(-32768), true, false),
            (ErrorCode::new(-32769), false, false),
            (ErrorCode::new(-32099), true, true),
            (ErrorCode::new(-32000), true, true),
            (ErrorCode::new(-31999), false, false),
            (ErrorCode::new(0), false, false),
        ];
        for (code, reserved, server_defined) in cases {
            assert_eq!(
                (code.is_reserved(), code.is_server_defined()),
                (reserved, server_defined),
                "{code}"
            );
        }
    }
}
