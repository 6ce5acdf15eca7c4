//! What a connection tells its driver.

use std::sync::Arc;
use std::time::Instant;

use mcp_jsonrpc::{ErrorObject, MessageFault, RawJson, RequestId};

use super::outbound::Outbound;
use crate::error::{CallFailure, Violation};
use crate::lifecycle::{Agreement, HandshakeError};
use crate::model::logging::LogMessage;
use crate::model::progress::Progress;
use crate::quirk::Quirk;

/// One output of [`poll_output`](super::ClientConnection::poll_output).
#[derive(Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver must handle each kind of output"
)]
pub enum Output<T> {
    /// Write this message.
    Transmit(Outbound),
    /// Something happened.
    Event(Event<T>),
    /// Nothing to do until there is input, or until this instant.
    Wait(Option<Instant>),
}

/// Something that happened.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<T> {
    /// The connection ended for good: it was closed, or the channel ended after it was ready.
    Closed,
    /// Something worth a log line; the connection goes on.
    Diagnostic(Diagnostic),
    /// No agreement came about. The channel should be closed.
    Failed(HandshakeError),
    /// A notification of the server.
    Notification(ServerNotification),
    /// A request reported progress.
    Progress {
        /// The request.
        id: RequestId,
        /// What the caller of the request handed in.
        token: T,
        /// How far.
        progress: Progress,
    },
    /// Requests can be sent.
    Ready(Arc<Agreement>),
    /// The server ended the channel over the probe: start it again, then call
    /// [`handle_channel_opened`](super::ClientConnection::handle_channel_opened) or
    /// [`handle_reopen_failed`](super::ClientConnection::handle_reopen_failed) (C048).
    Reopen,
    /// A request is over. Each request settles exactly once, unless it was cancelled.
    Settled {
        /// The request.
        id: RequestId,
        /// What the caller of the request handed in.
        token: T,
        /// The raw result, or why there is none.
        outcome: Result<RawJson, CallFailure>,
    },
}

/// A notification of the server that is for the host.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerNotification {
    /// `notifications/message`. Deprecated by the protocol in 2026-07-28.
    Log(LogMessage),
    /// `notifications/prompts/list_changed`.
    PromptsListChanged,
    /// `notifications/resources/list_changed`.
    ResourcesListChanged,
    /// `notifications/tools/list_changed`.
    ToolsListChanged,
    /// Any other (C087).
    Other {
        /// The method.
        method: String,
        /// The parameters.
        params: Option<RawJson>,
    },
}

/// Something odd that needs no action.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Diagnostic {
    /// A request answered a second time; the first answer counted (C069).
    DuplicateAnswer(RequestId),
    /// An answer to a request that nobody waits for any more (C067, C068).
    LateAnswer(RequestId),
    /// A frame that is no message: noise (JR-14).
    Noise(MessageFault),
    /// An error without an id: about the connection (JR-07).
    PeerError(ErrorObject),
    /// A rule was broken in a way that is tolerated.
    Quirk(Quirk),
    /// An answer to a request that was never sent (JR-08).
    UnknownAnswer(RequestId),
    /// Progress for a request that is not in flight, or reports none (C074).
    UnknownProgress,
    /// A rule was broken.
    Violation(Violation),
}
