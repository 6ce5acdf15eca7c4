//! What client and server agreed on, and how they got there.

use std::fmt;
use std::time::Duration;

use mcp_jsonrpc::{ErrorObject, MessageFault};

use crate::error::ChannelEnd;
use crate::http::HttpFailure;
use crate::model::capability::ServerCapabilities;
use crate::model::implementation::Implementation;
use crate::version::{Era, ProtocolVersion};

/// Which eras a client may speak with a server (VER-03).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "there are two eras and the choice between them"
)]
pub enum EraPolicy {
    /// Find out: probe for the modern era, fall back to a handshake.
    #[default]
    Auto,
    /// Handshake only.
    Legacy,
    /// Modern only; a server that does not speak it is refused.
    Modern,
}

/// What was agreed on with a server.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Agreement {
    /// The era; all that follows on this connection keeps to it (VER-02).
    pub era: Era,
    /// The version.
    pub version: ProtocolVersion,
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// Who the server says it is: for display only (VER-37).
    pub server_info: Option<Implementation>,
    /// Text for the model, written by the server: untrusted.
    pub instructions: Option<String>,
    /// What came of the probe, if there was one and it did not lead to the modern era.
    pub probe: Option<ProbeOutcome>,
}

/// What a probe for the modern era met with, other than a usable discovery.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ProbeOutcome {
    /// The channel ended: servers that accept nothing but `initialize` first (C048).
    Ended(ChannelEnd),
    /// The server answered with an error.
    Error(ErrorObject),
    /// The answer was no valid message.
    Fault(MessageFault),
    /// An HTTP answer without a message in it.
    Http(HttpFailure),
    /// The answer was a result, but no discovery.
    NoDiscovery {
        /// Why not.
        reason: &'static str,
    },
    /// A discovery without a modern version of ours.
    OtherVersions(Vec<ProtocolVersion>),
    /// No answer in time (C047).
    Silence {
        /// How long was waited.
        waited: Duration,
    },
}

impl fmt::Display for ProbeOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(end) => write!(f, "the connection ended ({end})"),
            Self::Error(error) => write!(f, "the server answered with {error}"),
            Self::Fault(fault) => write!(f, "the answer was no valid message ({fault})"),
            Self::Http(failure) => failure.fmt(f),
            Self::NoDiscovery { reason } => write!(f, "the answer was no discovery ({reason})"),
            Self::OtherVersions(versions) => {
                write!(f, "the server speaks {}", crate::version::join(versions))
            }
            Self::Silence { waited } => write!(f, "no answer within {waited:?}"),
        }
    }
}
