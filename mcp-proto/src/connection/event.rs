//! What a connection tells its driver.

use std::sync::Arc;
use std::time::Instant;

use mcp_jsonrpc::{ErrorObject, MessageFault, RawJson, RequestId};

use super::outbound::Outbound;
use super::server_request::ServerRequest;
use crate::error::{CallFailure, Violation};
use crate::http::HttpFailure;
use crate::lifecycle::{Agreement, HandshakeError, ReopenAs};
use crate::model::deprecated::logging::LogMessage;
use crate::model::progress::Progress;
use crate::model::subscription::ListenFilter;
use crate::model::task::TaskState;
use crate::quirk::Quirk;

/// One output of [`poll_output`](super::ClientConnection::poll_output).
#[derive(Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a driver must handle each kind of output"
)]
pub enum Output<T> {
    /// Abandon this request's exchange: close its stream. Only with [`ChannelKind::PerExchange`](super::ChannelKind).
    Abort(RequestId),
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
    /// Another channel is wanted: close this one, open it, then call
    /// [`handle_channel_opened`](super::ClientConnection::handle_channel_opened) or
    /// [`handle_reopen_failed`](super::ClientConnection::handle_reopen_failed) (C048).
    Reopen(ReopenAs),
    /// The server asks for something: answer it with [`answer`](super::ClientConnection::answer). Legacy era only; in the
    /// modern one the server asks in its answer to a request: [`Answer::InputRequired`].
    ServerRequest(ServerRequest<T>),
    /// The answer to this [`Event::ServerRequest`] is not wanted any more.
    ServerRequestCancelled(RequestId),
    /// The server has forgotten the session. Another one is being opened; requests are refused until
    /// [`Event::Ready`] comes again (HTTPL-12).
    SessionLost,
    /// A request is over. Each request settles exactly once, unless it was cancelled.
    Settled {
        /// The request.
        id: RequestId,
        /// What the caller of the request handed in.
        token: T,
        /// How the server answered, or why there is no answer.
        outcome: Result<Answer, CallFailure>,
    },
    /// Something happened to a subscription.
    Subscription {
        /// Which one.
        id: SubscriptionId,
        /// What the caller of [`listen`](super::ClientConnection::listen) handed in.
        token: T,
        /// What happened.
        change: SubscriptionChange,
    },
}

/// How the server answered a request.
///
/// In the legacy era every answer is complete (JR-43).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Answer {
    /// With the result.
    Complete(RawJson),
    /// With questions: the request is over, and is to be made again with the answers (MRTR-03). The result as it came:
    /// see [`InputRound`](crate::rounds::InputRound).
    InputRequired(RawJson),
    /// With a result of a type that an extension adds: one of [`ClientConfig::result_types`](super::ClientConfig::result_types).
    Extension {
        /// Its `resultType`.
        result_type: String,
        /// The result.
        result: RawJson,
    },
}

impl Answer {
    /// The result as it came, of whatever type.
    pub fn result(&self) -> &RawJson {
        match self {
            Self::Complete(result)
            | Self::InputRequired(result)
            | Self::Extension { result, .. } => result,
        }
    }
}

/// A subscription of a connection. It outlives the requests that carry it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct SubscriptionId(pub(crate) u64);

/// What happened to a subscription.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SubscriptionChange {
    /// The server acknowledged it; from here on changes are told. After an interruption changes may have been missed:
    /// [`ServerNotification::MissedChanges`] follows (SUB-17).
    Open {
        /// What was asked for and is not given (SUB-13).
        missing: ListenFilter,
    },
    /// It was cut off; it is opened again after a while (SUB-16).
    Interrupted {
        /// Why.
        reason: String,
    },
    /// It is over. Nothing follows.
    Ended(SubscriptionEnd),
}

/// Why a subscription is over.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SubscriptionEnd {
    /// The server ended it in order (SUB-15).
    Graceful,
    /// The server does not offer it (SUB-21), or refuses it.
    Refused {
        /// What it said.
        reason: String,
    },
    /// The connection is over.
    ConnectionClosed,
}

/// A notification of the server that is for the host.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ServerNotification {
    /// `notifications/message`. Deprecated by the protocol in 2026-07-28.
    Log(LogMessage),
    /// Changes may have been missed: a session or a subscription was lost and opened again. Whatever was kept of the server
    /// is to be taken as old (SUB-17, C175). Not a message of the server.
    MissedChanges,
    /// `notifications/prompts/list_changed`.
    PromptsListChanged,
    /// `notifications/resources/list_changed`.
    ResourcesListChanged,
    /// `notifications/tasks`, or `notifications/tasks/status` of 2025-11-25: a task changed.
    TaskChanged(TaskState),
    /// `notifications/tools/list_changed`.
    ToolsListChanged,
    /// `notifications/elicitation/complete`: what the person was sent to a web page for is done there (ELIC-23).
    ElicitationComplete {
        /// As the elicitation said.
        elicitation_id: String,
    },
    /// `notifications/resources/updated`.
    ResourceUpdated {
        /// Which one; it may be a part of the resource that was subscribed to.
        uri: String,
    },
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
    /// Something of a lost session could not be restored in the new one.
    NotRestored {
        /// The method that was to restore it.
        method: &'static str,
        /// Why not.
        reason: String,
    },
    /// A notification or an answer of ours that the server did not take (HTTP-05).
    NotTaken(HttpFailure),
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
