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
    /// An HTTP answer without a content type that says what it is; its first bytes did (C108).
    UnlabelledAnswer,
    /// The last event of a stream without the empty line behind it; a whole answer was in it (C137).
    UnterminatedEvent,
    /// A lost session told by words in an error instead of 404 (C099).
    SessionLostInWords,
    /// The server's answers come only while the stream for its own messages is closed; it stays closed (C045).
    ServerStreamBlocks,
    /// No stream for the server's own messages: it was refused, or what came was none (C096, C097).
    NoServerStream,
    /// The stream for the server's own messages ended at once too often; it is not opened again (C098).
    ServerStreamEnds,
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
            Self::UnlabelledAnswer => f.write_str("an HTTP answer without a usable content type"),
            Self::UnterminatedEvent => f.write_str("a stream whose last event was not terminated"),
            Self::SessionLostInWords => f.write_str("a lost session without HTTP status 404"),
            Self::ServerStreamBlocks => {
                f.write_str("an open stream for the server's messages that holds up its answers")
            }
            Self::NoServerStream => f.write_str("no stream for the server's own messages"),
            Self::ServerStreamEnds => {
                f.write_str("a stream for the server's own messages that ends at once")
            }
            Self::ProgressNotGrowing => f.write_str("progress that does not grow"),
            Self::OddCapability => f.write_str("a capability whose value is no object"),
            Self::NoServerInfo => f.write_str("a handshake answer without serverInfo"),
            Self::UnknownOlderVersion => f.write_str("an unknown older protocol version"),
        }
    }
}
