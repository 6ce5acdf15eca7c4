//! Errors, sorted by whose fault they are.
//!
//! [`UsageError`] is our caller's mistake, [`PeerFault`] the server's breach of the protocol, and [`CallFailure`] the
//! ways in which one request can end without a result. A locally made error never looks like one that the server sent
//! (JR-32).

use mcp_jsonrpc::{ErrorObject, MessageFault, RequestId, TimedOut};
use thiserror::Error;

use crate::http::{Delivery, HttpFailure};
use crate::version::{Era, ProtocolVersion};

/// The caller asked for something that can't be done; nothing was sent.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum UsageError {
    /// The server did not declare what the method needs (TOOL-01, VER-38).
    #[error("the server does not offer {capability:?}, which {method} needs")]
    CapabilityMissing {
        /// The method asked for.
        method: String,
        /// The capability's name.
        capability: &'static str,
    },
    /// The connection was closed, or its channel ended.
    #[error("the connection is closed")]
    Closed,
    /// The parameters could not be written as JSON.
    #[error("the parameters of {method} can't be written as JSON: {reason}")]
    Encode {
        /// The method asked for.
        method: String,
        /// What the serializer said.
        reason: String,
    },
    /// The method does not exist in the era that was agreed on (VER-34).
    #[error("{method} does not exist in the {era} era that this server speaks")]
    NotInEra {
        /// The method asked for.
        method: String,
        /// The era agreed on.
        era: Era,
    },
    /// The handshake has not finished.
    #[error("the connection is not ready yet")]
    NotReady,
    /// Too many bytes wait to be sent: the server does not read.
    #[error(
        "{queued_bytes} bytes wait to be sent already (limit max_queued_bytes {limit_bytes}): the server does not read"
    )]
    OutgoingFull {
        /// Bytes waiting.
        queued_bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// The parameters are no JSON object.
    #[error("the parameters of {method} must be a JSON object")]
    ParamsNotAnObject {
        /// The method asked for.
        method: String,
    },
    /// A `_meta` key that the protocol keeps for itself.
    #[error("the _meta key {key:?} belongs to the protocol and can't be set")]
    ReservedMetaKey {
        /// The key.
        key: String,
    },
    /// The request is longer than a message may be.
    #[error("the request has {bytes} bytes (limit max_message_bytes {limit_bytes})")]
    RequestTooLarge {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit_bytes: usize,
    },
    /// An argument that the tool wants as a header field can't be one (HTTPM-22).
    #[error("{tool}: the argument {argument} goes into a header, but {reason}")]
    UnfitHeaderArgument {
        /// The tool.
        tool: String,
        /// The argument, its keys joined by dots.
        argument: String,
        /// What is wrong with its value.
        reason: &'static str,
    },
    /// There are too many subscriptions.
    #[error("there are {limit} subscriptions already (limit max_subscriptions)")]
    TooManySubscriptions {
        /// The limit.
        limit: usize,
    },
    /// Too many requests are in flight.
    #[error("{limit} requests are in flight already (limit max_in_flight)")]
    TooManyInFlight {
        /// The limit.
        limit: usize,
    },
}

/// The server broke the protocol in its answer to one request.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum PeerFault {
    /// An answer inside an array, in a version without batches (JR-23).
    #[error("the answer came inside a batch, which {version} does not allow")]
    BatchNotAllowed {
        /// The version agreed on.
        version: ProtocolVersion,
    },
    /// A question in a place that has none: its method can't be asked back (MRTR-01).
    #[error("the server asks for input in answer to a method that can't be asked back")]
    InputNotAllowed,
    /// A question that was not declared to be answered here (MRTR-05).
    #[error("the server asks for {what}, which this client did not declare it could give")]
    InputNotDeclared {
        /// What it asks for.
        what: String,
    },
    /// A round of questions that is none (MRTR-02).
    #[error("the server asks for input in a way that is not valid: {reason}")]
    InvalidRound {
        /// What is wrong.
        reason: String,
    },
    /// The result does not have the method's shape.
    #[error("the result of {method} is not valid: {reason}")]
    InvalidResult {
        /// The method asked for.
        method: String,
        /// What is wrong.
        reason: String,
    },
    /// The answer is no message.
    #[error("the answer is not valid: {0}")]
    Message(MessageFault),
    /// The answer was longer than a message may be; it was skipped, the connection goes on.
    #[error("the answer has {bytes} bytes (limit max_message_bytes {limit_bytes})")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        limit_bytes: usize,
    },
    /// A `resultType` that nothing declared (JR-42).
    #[error("the result is of unknown type {result_type:?}")]
    UnknownResultType {
        /// The value, cut to an excerpt.
        result_type: String,
    },
}

/// How a channel ended.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{detail}")]
#[non_exhaustive]
pub struct ChannelEnd {
    /// What the driver saw, as a lower-case fragment: `the server closed its output`.
    pub detail: String,
}

impl ChannelEnd {
    /// An end with what the driver saw.
    pub fn new(detail: impl Into<String>) -> Self {
        Self {
            detail: detail.into(),
        }
    }
}

/// Why a request ended without a result.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum CallFailure {
    /// The channel ended first.
    #[error("the connection ended before the answer: {end}")]
    ChannelEnded {
        /// How it ended.
        end: ChannelEnd,
        /// Whether the request may have reached the server. If so its outcome is unknown (D2).
        sent: bool,
    },
    /// The connection was closed on our side first.
    #[error("the connection was closed before the answer")]
    Closed {
        /// Whether the request may have reached the server.
        sent: bool,
    },
    /// HTTP brought no answer.
    #[error(transparent)]
    Http(HttpFailure),
    /// The server's answer breaks the protocol.
    #[error(transparent)]
    Peer(PeerFault),
    /// The server answered with an error.
    #[error("{error}")]
    Rpc {
        /// The server's error.
        error: ErrorObject,
        /// The HTTP status that it came with, if that was one of failure (HTTP-06).
        http_status: Option<u16>,
    },
    /// Time ran out; the server was told, if the request had been sent.
    #[error("{timed_out}")]
    TimedOut {
        /// Which limit.
        timed_out: TimedOut,
        /// Whether the request may have reached the server.
        sent: bool,
    },
}

impl CallFailure {
    /// Whether the request may have reached the server.
    pub fn sent(&self) -> bool {
        match self {
            Self::Peer(_) | Self::Rpc { .. } => true,
            Self::Http(failure) => failure.delivery == Delivery::Unknown,
            Self::ChannelEnded { sent, .. }
            | Self::Closed { sent }
            | Self::TimedOut { sent, .. } => *sent,
        }
    }
}

/// Something that the server did wrong, outside of any answer; the connection goes on.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum Violation {
    /// A batch in a version without batches (JR-23).
    #[error("the server sent a batch, which {version} does not allow")]
    Batch {
        /// The version agreed on.
        version: ProtocolVersion,
    },
    /// A notification on a subscription that the server did not acknowledge yet (SUB-12).
    #[error(
        "the server sent {} before it acknowledged the subscription",
        shown(method)
    )]
    NotAcknowledged {
        /// Its method.
        method: String,
    },
    /// A request in the modern era, where servers must not send any. It is not answered (JR-12).
    #[error(
        "the server sent the request {} (id {id}), which the modern era forbids",
        shown(method)
    )]
    RequestInModernEra {
        /// Its method.
        method: String,
        /// Its id.
        id: RequestId,
    },
    /// A request with the id of one that is not answered yet (JR-03). It is not answered.
    #[error(
        "the server sent the request {} with the id {id}, whose first use is not answered yet",
        shown(method)
    )]
    RepeatedRequest {
        /// Its method.
        method: String,
        /// Its id.
        id: RequestId,
    },
    /// A request that could not be answered, since too many answers wait to be sent already.
    #[error(
        "the server sent the request {} (id {id}) while it does not read {waiting} earlier answers",
        shown(method)
    )]
    UnreadAnswers {
        /// Its method.
        method: String,
        /// Its id.
        id: RequestId,
        /// Answers waiting.
        waiting: usize,
    },
}

/// A method's name as a peer wrote it: quoted, cut to what a log line bears.
fn shown(method: &str) -> String {
    const MAX_SHOWN_BYTES: usize = 128;
    format!(
        "{:?}",
        mcp_jsonrpc::clean_excerpt(method.as_bytes(), MAX_SHOWN_BYTES)
    )
}
