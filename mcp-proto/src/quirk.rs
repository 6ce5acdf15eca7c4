//! Every tolerance towards servers that break a rule, named, with who needs it.
//!
//! A tolerance never works in silence: the connection reports each use as a diagnostic.

use std::fmt;

use mcp_jsonrpc::Oddity;

/// A deviation that was tolerated.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum Quirk {
    /// An oddity of the JSON-RPC layer.
    Message(Oddity),
    /// A numeric id echoed as a string: servers that keep ids as text (C060).
    IdAsText,
    /// Progress that does not grow (PROG-03); the report was dropped.
    ProgressNotGrowing,
    /// A capability whose value is no object (C059).
    OddCapability,
    /// A handshake answer without `serverInfo`.
    NoServerInfo,
    /// A version older than any known one was accepted, since the host allowed it (C052).
    UnknownOlderVersion,
}

impl fmt::Display for Quirk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(oddity) => oddity.fmt(f),
            Self::IdAsText => f.write_str("a numeric id echoed as a string"),
            Self::ProgressNotGrowing => f.write_str("progress that does not grow"),
            Self::OddCapability => f.write_str("a capability whose value is no object"),
            Self::NoServerInfo => f.write_str("a handshake answer without serverInfo"),
            Self::UnknownOlderVersion => f.write_str("an unknown older protocol version"),
        }
    }
}
