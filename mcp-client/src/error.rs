//! What can go wrong, in one opaque type.
//!
//! [`Error::kind`] says what to do about it, [`Error::stage`] where it happened, [`Error::was_sent`] whether the server
//! may have acted, [`Error::evidence`] what there is to show. `Display` is one line; causes are in `source()`.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use mcp_jsonrpc::ErrorObject;
use mcp_proto::connection::{SubscriptionChange, SubscriptionEnd};
use mcp_proto::http::{Delivery, HttpFailure, HttpFailureKind};
use mcp_proto::lifecycle::{HandshakeError, HandshakeFailure};
use mcp_proto::{CallFailure, ChannelEnd, PeerFault, UsageError};

use crate::diagnostics::Diagnostics;
use crate::evidence::Evidence;

/// Something that did not work, with one server.
pub struct Error(Box<Inner>);

struct Inner {
    server: Arc<str>,
    stage: Stage,
    /// The tool or method in question.
    subject: Option<String>,
    cause: Cause,
    evidence: Evidence,
    diagnostics: Diagnostics,
}

#[derive(Debug)]
enum Cause {
    Call(CallFailure),
    Handshake(HandshakeError),
    /// The channel ended or was closed before the request was made.
    NotConnected(ChannelEnd),
    Open(Arc<crate::transport::OpenError>),
    /// The server asked for something, and there was no answer.
    NotAnswered {
        what: String,
        reason: String,
    },
    /// The task that the call became was given up; what the server said about it.
    TaskCancelled(Option<String>),
    /// A subscription did not come about.
    NotSubscribed(SubscriptionChange),
    UnknownTool,
    Usage(UsageError),
}

/// What kind of failure.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The task that the call became was given up.
    Cancelled,
    /// The connection was closed by this side.
    Closed,
    /// The connection ended while the request was under way. If [`Error::was_sent`] says so, its outcome is unknown.
    ConnectionLost,
    /// No agreement with the server on how to talk.
    Handshake,
    /// The server's answer breaks the protocol.
    InvalidAnswer,
    /// The server asked for something before it would go on, and the host had no answer.
    NotAnswered,
    /// The server refused the request as it is: too large, or too many, or a subscription.
    Refused,
    /// The server answered with a JSON-RPC error.
    Rpc,
    /// The server could not be started or reached.
    Start,
    /// Time ran out.
    Timeout,
    /// The server, or something in front of it, wants to know who is asking, or does not let them in.
    Unauthorized,
    /// The answer to this request was lost, or something in front of the server could not reach it; the connection goes on.
    Unavailable,
    /// The server has no tool of that name; nothing was sent.
    UnknownTool,
    /// The request can't be made as asked; nothing was sent.
    Usage,
}

/// Where in the life of a connection something happened.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Stage {
    /// Calling a tool, or another request of the host.
    Call,
    /// Agreeing on how to talk.
    Handshake,
    /// Listing what the server offers.
    List,
    /// Starting the server's process, or reaching it.
    Start,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Call => "call",
            Self::Handshake => "handshake",
            Self::List => "list",
            Self::Start => "start",
        })
    }
}

/// Whether a request reached the server.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a request was sent, was not, or may have been"
)]
pub enum Sent {
    /// It certainly did not: to repeat it is safe.
    No,
    /// It may have, and what it did there is unknown: repeating it may do it twice (D2 in the project's design).
    Unknown,
    /// It did: the server answered.
    Yes,
}

impl Error {
    fn new(server: &Arc<str>, stage: Stage, subject: Option<String>, cause: Cause) -> Self {
        Self(Box::new(Inner {
            server: Arc::clone(server),
            stage,
            subject,
            cause,
            evidence: Evidence::default(),
            diagnostics: Diagnostics::default(),
        }))
    }

    pub(crate) fn call(
        server: &Arc<str>,
        stage: Stage,
        subject: &str,
        failure: CallFailure,
    ) -> Self {
        Self::new(
            server,
            stage,
            Some(subject.to_owned()),
            Cause::Call(failure),
        )
    }

    pub(crate) fn usage(server: &Arc<str>, stage: Stage, subject: &str, error: UsageError) -> Self {
        Self::new(server, stage, Some(subject.to_owned()), Cause::Usage(error))
    }

    pub(crate) fn task_cancelled(
        server: &Arc<str>,
        subject: &str,
        message: Option<String>,
    ) -> Self {
        let subject = Some(subject.to_owned());
        Self::new(server, Stage::Call, subject, Cause::TaskCancelled(message))
    }

    pub(crate) fn not_subscribed(server: &Arc<str>, why: SubscriptionChange) -> Self {
        let subject = Some("subscriptions/listen".to_owned());
        Self::new(server, Stage::Call, subject, Cause::NotSubscribed(why))
    }

    pub(crate) fn not_answered(
        server: &Arc<str>,
        stage: Stage,
        subject: &str,
        what: &str,
        reason: String,
    ) -> Self {
        let what = what.to_owned();
        Self::new(
            server,
            stage,
            Some(subject.to_owned()),
            Cause::NotAnswered { what, reason },
        )
    }

    pub(crate) fn unknown_tool(server: &Arc<str>, tool: &str) -> Self {
        Self::new(
            server,
            Stage::Call,
            Some(tool.to_owned()),
            Cause::UnknownTool,
        )
    }

    pub(crate) fn not_connected(
        server: &Arc<str>,
        stage: Stage,
        subject: &str,
        end: ChannelEnd,
    ) -> Self {
        Self::new(
            server,
            stage,
            Some(subject.to_owned()),
            Cause::NotConnected(end),
        )
    }

    pub(crate) fn open(server: &Arc<str>, error: Arc<crate::transport::OpenError>) -> Self {
        Self::new(server, Stage::Start, None, Cause::Open(error))
    }

    pub(crate) fn handshake(server: &Arc<str>, error: HandshakeError) -> Self {
        Self::new(server, Stage::Handshake, None, Cause::Handshake(error))
    }

    pub(crate) fn closed_while_starting(server: &Arc<str>, end: ChannelEnd) -> Self {
        Self::new(server, Stage::Start, None, Cause::NotConnected(end))
    }

    #[must_use]
    pub(crate) fn with_evidence(mut self, evidence: Evidence) -> Self {
        self.0.evidence = evidence;
        self
    }

    #[must_use]
    pub(crate) fn with_diagnostics(mut self, diagnostics: Diagnostics) -> Self {
        self.0.diagnostics = diagnostics;
        self
    }

    /// What kind of failure.
    pub fn kind(&self) -> ErrorKind {
        match &self.0.cause {
            Cause::Usage(UsageError::Closed | UsageError::NotReady)
            | Cause::Call(CallFailure::Closed { .. })
            | Cause::NotConnected(_) => ErrorKind::Closed,
            Cause::Usage(_) => ErrorKind::Usage,
            Cause::NotAnswered { .. } => ErrorKind::NotAnswered,
            Cause::TaskCancelled(_) => ErrorKind::Cancelled,
            Cause::NotSubscribed(SubscriptionChange::Ended(SubscriptionEnd::ConnectionClosed)) => {
                ErrorKind::ConnectionLost
            }
            Cause::NotSubscribed(SubscriptionChange::Interrupted { .. }) => ErrorKind::Unavailable,
            Cause::NotSubscribed(_) => ErrorKind::Refused,
            Cause::UnknownTool => ErrorKind::UnknownTool,
            Cause::Open(_) => ErrorKind::Start,
            Cause::Handshake(HandshakeError {
                failure: HandshakeFailure::TimedOut { .. },
                ..
            }) => ErrorKind::Timeout,
            Cause::Handshake(HandshakeError {
                failure: HandshakeFailure::ReopenFailed { .. },
                ..
            }) => ErrorKind::Start,
            Cause::Handshake(HandshakeError {
                failure: HandshakeFailure::Http { failure, .. },
                ..
            }) if kind_of_http(failure) != ErrorKind::InvalidAnswer => kind_of_http(failure),
            Cause::Handshake(_) => ErrorKind::Handshake,
            Cause::Call(CallFailure::Rpc { .. }) => ErrorKind::Rpc,
            Cause::Call(CallFailure::Http(failure)) => kind_of_http(failure),
            Cause::Call(CallFailure::TimedOut { .. }) => ErrorKind::Timeout,
            Cause::Call(CallFailure::Peer(_)) => ErrorKind::InvalidAnswer,
            Cause::Call(_) => ErrorKind::ConnectionLost,
        }
    }

    /// The server's name.
    pub fn server(&self) -> &str {
        &self.0.server
    }

    /// Where it happened.
    pub fn stage(&self) -> Stage {
        self.0.stage
    }

    /// The tool or method in question, if there is one.
    pub fn subject(&self) -> Option<&str> {
        self.0.subject.as_deref()
    }

    /// Whether the request reached the server.
    pub fn was_sent(&self) -> Sent {
        match &self.0.cause {
            Cause::Call(CallFailure::Rpc { .. } | CallFailure::Peer(_))
            | Cause::NotAnswered { .. }
            | Cause::TaskCancelled(_) => Sent::Yes,
            Cause::Call(failure) if failure.sent() => Sent::Unknown,
            _ => Sent::No,
        }
    }

    /// What there is to show about the server: exit status, error output.
    pub fn evidence(&self) -> &Evidence {
        &self.0.evidence
    }

    /// What was odd about the connection until then; empty for errors of single calls.
    pub fn diagnostics(&self) -> &Diagnostics {
        &self.0.diagnostics
    }

    /// The server's own JSON-RPC error.
    pub fn as_rpc(&self) -> Option<&ErrorObject> {
        match &self.0.cause {
            Cause::Call(CallFailure::Rpc { error, .. })
            | Cause::Handshake(HandshakeError {
                failure: HandshakeFailure::Refused { error, .. },
                ..
            }) => Some(error),
            _ => None,
        }
    }

    /// What HTTP brought in place of an answer.
    pub fn as_http(&self) -> Option<&HttpFailure> {
        match &self.0.cause {
            Cause::Call(CallFailure::Http(failure))
            | Cause::Handshake(HandshakeError {
                failure: HandshakeFailure::Http { failure, .. },
                ..
            }) => Some(failure),
            Cause::Handshake(HandshakeError {
                failure: HandshakeFailure::OldTransport { refusal, .. },
                ..
            }) => match &**refusal {
                HandshakeFailure::Http { failure, .. } => Some(failure),
                _ => None,
            },
            _ => None,
        }
    }

    /// The HTTP status that the failure came with.
    pub fn http_status(&self) -> Option<u16> {
        match &self.0.cause {
            Cause::Call(CallFailure::Rpc { http_status, .. }) => *http_status,
            _ => self.as_http()?.status,
        }
    }

    /// Why the handshake failed.
    pub fn as_handshake(&self) -> Option<&HandshakeError> {
        match &self.0.cause {
            Cause::Handshake(error) => Some(error),
            _ => None,
        }
    }

    /// What the server did wrong in its answer.
    pub fn as_peer_fault(&self) -> Option<&PeerFault> {
        match &self.0.cause {
            Cause::Call(CallFailure::Peer(fault)) => Some(fault),
            _ => None,
        }
    }

    /// Whether time ran out.
    pub fn is_timeout(&self) -> bool {
        self.kind() == ErrorKind::Timeout
    }

    /// Whether the connection is gone: every later request on it fails too.
    pub fn is_closed(&self) -> bool {
        matches!(self.kind(), ErrorKind::Closed | ErrorKind::ConnectionLost)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.0.server)?;
        if let Some(subject) = &self.0.subject {
            // A tool's name is whatever a server or a model wrote.
            write!(
                f,
                "{}: ",
                mcp_jsonrpc::clean_excerpt(subject.as_bytes(), MAX_SHOWN_SUBJECT_BYTES)
            )?;
        }
        match &self.0.cause {
            Cause::Usage(_) => f.write_str("the request can't be made"),
            Cause::NotAnswered { what, reason } => write!(
                f,
                "the server asked for {what}, and there is no answer: {reason}"
            ),
            Cause::TaskCancelled(None) => f.write_str("the task was cancelled"),
            Cause::TaskCancelled(Some(message)) => {
                let message =
                    mcp_jsonrpc::clean_excerpt(message.as_bytes(), MAX_SHOWN_SUBJECT_BYTES);
                write!(f, "the task was cancelled: {message}")
            }
            Cause::NotSubscribed(why) => match why {
                SubscriptionChange::Interrupted { reason }
                | SubscriptionChange::Ended(SubscriptionEnd::Refused { reason }) => {
                    write!(f, "no subscription came about: {reason}")
                }
                _ => f.write_str("no subscription came about: it was ended at once"),
            },
            Cause::UnknownTool => f.write_str("the server has no tool of that name"),
            Cause::NotConnected(_) => f.write_str("there is no connection"),
            Cause::Open(_) => f.write_str("the server could not be started"),
            Cause::Handshake(HandshakeError {
                failure: HandshakeFailure::TimedOut { .. },
                ..
            }) => f.write_str("the server did not answer in time"),
            Cause::Handshake(_) => f.write_str(match self.kind() {
                ErrorKind::Start => "the server could not be reached",
                ErrorKind::Unauthorized => "the server does not let this client in",
                ErrorKind::Refused | ErrorKind::Unavailable => "the server is not available",
                _ => "no agreement with the server",
            }),
            Cause::Call(CallFailure::Rpc { .. }) => {
                f.write_str("the server answered with an error")
            }
            Cause::Call(CallFailure::Http(failure)) => f.write_str(match failure.delivery {
                Delivery::NotSent => "the server could not be reached; nothing was sent",
                Delivery::Refused => "the server refused the request; it was not carried out",
                Delivery::Unknown => {
                    "no usable answer; whether the call was carried out is unknown"
                }
            }),
            Cause::Call(CallFailure::Peer(_)) => {
                f.write_str("the server's answer breaks the protocol")
            }
            Cause::Call(CallFailure::TimedOut { .. }) => f.write_str("no answer in time"),
            Cause::Call(_) if self.was_sent() == Sent::Unknown => {
                f.write_str("the connection was lost; whether the call was carried out is unknown")
            }
            Cause::Call(_) => f.write_str("the connection was lost before the call was sent"),
        }
    }
}

fn kind_of_http(failure: &HttpFailure) -> ErrorKind {
    match failure.kind {
        HttpFailureKind::Connect | HttpFailureKind::HeaderProvider => ErrorKind::Start,
        HttpFailureKind::Unauthorized | HttpFailureKind::Forbidden => ErrorKind::Unauthorized,
        HttpFailureKind::Cut
        | HttpFailureKind::Gateway
        | HttpFailureKind::ServerError
        | HttpFailureKind::SessionLost
        | HttpFailureKind::StreamEnded
        | HttpFailureKind::Unavailable => ErrorKind::Unavailable,
        HttpFailureKind::HeadersTooLarge
        | HttpFailureKind::RateLimited
        | HttpFailureKind::TooLarge => ErrorKind::Refused,
        _ => ErrorKind::InvalidAnswer,
    }
}

/// How much of a tool's name an error shows.
const MAX_SHOWN_SUBJECT_BYTES: usize = 128;

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.cause {
            Cause::Call(CallFailure::Http(failure)) => Some(failure),
            Cause::Call(failure) => Some(failure),
            Cause::Handshake(error) => Some(error),
            Cause::NotConnected(end) => Some(end),
            Cause::Open(error) => Some(error.as_ref()),
            Cause::Usage(error) => Some(error),
            Cause::NotAnswered { .. }
            | Cause::NotSubscribed(_)
            | Cause::TaskCancelled(_)
            | Cause::UnknownTool => None,
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("server", &self.0.server)
            .field("stage", &self.0.stage)
            .field("subject", &self.0.subject)
            .field("cause", &self.0.cause)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_can_cross_threads() {
        fn check<T: Send + Sync + 'static>() {}
        check::<Error>();
    }

    #[test]
    fn what_may_have_been_sent_says_so() {
        let server: Arc<str> = "notes".into();
        let error = |failure| Error::call(&server, Stage::Call, "add", failure);
        let end = || ChannelEnd::new("the server exited with status 3");
        let cases = [
            (
                error(CallFailure::ChannelEnded {
                    end: end(),
                    sent: true,
                }),
                ErrorKind::ConnectionLost,
                Sent::Unknown,
                "notes: add: the connection was lost; whether the call was carried out is unknown",
            ),
            (
                error(CallFailure::ChannelEnded {
                    end: end(),
                    sent: false,
                }),
                ErrorKind::ConnectionLost,
                Sent::No,
                "notes: add: the connection was lost before the call was sent",
            ),
            (
                error(CallFailure::Rpc {
                    error: ErrorObject::new(mcp_jsonrpc::ErrorCode::INVALID_PARAMS, "no"),
                    http_status: None,
                }),
                ErrorKind::Rpc,
                Sent::Yes,
                "notes: add: the server answered with an error",
            ),
            (
                Error::unknown_tool(&server, "a\u{1b}[2J"),
                ErrorKind::UnknownTool,
                Sent::No,
                "notes: a\u{241b}[2J: the server has no tool of that name",
            ),
        ];
        for (error, kind, sent, text) in cases {
            assert_eq!(
                (error.kind(), error.was_sent(), error.to_string().as_str()),
                (kind, sent, text)
            );
        }
    }
}
