//! Why no agreement came about.

use std::fmt;

use mcp_jsonrpc::{ErrorObject, MessageFault, TimedOut};
use thiserror::Error;

use super::agreement::ProbeOutcome;
use crate::error::ChannelEnd;
use crate::http::HttpFailure;
use crate::version::{ProtocolVersion, join};

/// No agreement with the server. Keeps what both the handshake and the probe before it met with.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HandshakeError {
    /// What ended it.
    pub failure: HandshakeFailure,
    /// What came of the probe before it.
    pub probe: Option<ProbeOutcome>,
}

/// What ended a handshake.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum HandshakeFailure {
    /// The connection ended.
    #[error("the connection ended before {awaited} was answered: {end}")]
    ChannelEnded {
        /// The method in flight.
        awaited: &'static str,
        /// How it ended.
        end: ChannelEnd,
    },
    /// The answer to `initialize` was no valid message.
    #[error("the answer to initialize is not valid: {0}")]
    Fault(MessageFault),
    /// HTTP brought no answer.
    #[error("{method} was not answered: {failure}")]
    Http {
        /// The method in flight.
        method: &'static str,
        /// What HTTP brought.
        failure: HttpFailure,
    },
    /// The result of `initialize` has not the right shape.
    #[error("the result of initialize is not valid: {reason}")]
    InvalidResult {
        /// Why not.
        reason: &'static str,
    },
    /// No version in common.
    #[error(
        "no protocol version in common: the server speaks {}, this client {}",
        join(theirs),
        join(ours)
    )]
    NoCommonVersion {
        /// What this client would have taken.
        ours: Vec<ProtocolVersion>,
        /// What the server named.
        theirs: Vec<ProtocolVersion>,
    },
    /// The server does not speak the modern era, and nothing else was allowed.
    #[error("the server does not speak the modern era, and the era is pinned to it")]
    NotModern,
    /// Neither Streamable HTTP nor the transport before it.
    #[error("{refusal}; HTTP+SSE, the transport of 2024-11-05, was tried as well: {reason}")]
    OldTransport {
        /// How Streamable HTTP failed.
        refusal: Box<Self>,
        /// How the old transport failed.
        reason: String,
    },
    /// The server refused with an error.
    #[error("the server answered {method} with {error}")]
    Refused {
        /// The method refused.
        method: &'static str,
        /// The server's error.
        error: ErrorObject,
    },
    /// The channel could not be opened again after the probe had ended it.
    #[error("the server could not be started again: {reason}")]
    ReopenFailed {
        /// What the driver said.
        reason: String,
    },
    /// No answer in time.
    #[error("{method} {timed_out}")]
    TimedOut {
        /// The method not answered.
        method: &'static str,
        /// Which limit.
        timed_out: TimedOut,
    },
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.failure)?;
        if let Some(probe) = &self.probe {
            write!(f, " (the server/discover probe before it: {probe})")?;
        }
        Ok(())
    }
}

impl std::error::Error for HandshakeError {}
