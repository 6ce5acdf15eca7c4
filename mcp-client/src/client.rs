//! The handle: typed calls on one server.

use std::fmt;
use std::sync::Arc;

use mcp_jsonrpc::RawJson;
use mcp_proto::connection::Answer;
use mcp_proto::lifecycle::Agreement;
use mcp_proto::method::{Method, NoParams, Ping};
use mcp_proto::rounds::InputRound;
use mcp_proto::{CallFailure, ChannelEnd, Era};
use serde_json::value::RawValue;

use crate::diagnostics::Diagnostics;
use crate::driver::Driver;
use crate::error::{Error, Stage};
use crate::logical_call::{About, LogicalCall};
use crate::notify::Notifications;
use crate::options::{CallOptions, ClientOptions};
use crate::shared::{Phase, Shared, StartFailure};
use crate::transport::{CloseReport, Connector};

/// A connection to one MCP server.
///
/// Cheap to clone; all clones are the same connection. Requests are multiplexed: one slow call delays no other. When the
/// last clone is dropped, the connection is closed in the background; [`Client::close`] waits for that.
#[derive(Clone)]
pub struct Client(Arc<Handle>);

/// Closes the connection when the last clone goes.
struct Handle {
    shared: Arc<Shared>,
    agreement: Arc<Agreement>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.request_close();
    }
}

/// Closes a connection that nobody waits for any more (C040, C239).
struct StartGuard(Option<Arc<Shared>>);

impl Drop for StartGuard {
    fn drop(&mut self) {
        if let Some(shared) = &self.0 {
            shared.request_close();
        }
    }
}

impl Client {
    /// Connects: opens a channel and agrees with the server on how to talk. Must run on a tokio runtime, where a task
    /// drives the connection until it is closed.
    ///
    /// # Errors
    /// When the server could not be started or reached, or no agreement came about. By then the channel is closed.
    ///
    /// # Cancel safety
    /// Dropping the future ends the attempt: whatever was opened is closed in the background.
    pub async fn connect<C: Connector>(
        connector: C,
        options: ClientOptions,
    ) -> Result<Self, Error> {
        let server: Arc<str> = options
            .name
            .clone()
            .unwrap_or_else(|| connector.target())
            .into();
        let shared = Arc::new(Shared::new(server, options, connector.redactor()));
        let mut guard = StartGuard(Some(Arc::clone(&shared)));
        tokio::spawn(Driver::new(Arc::clone(&shared), connector).run());
        let phase = shared
            // A session that is lost at once is opened anew first.
            .phase(|phase| !matches!(phase, Phase::Starting | Phase::Restoring))
            .await;
        let error = match phase {
            Phase::Ready(agreement) => {
                guard.0 = None;
                tracing::debug!(
                    target: "mcp_client", server = %shared.server, era = %agreement.era, version = %agreement.version, "ready"
                );
                return Ok(Self(Arc::new(Handle { shared, agreement })));
            }
            Phase::Failed(StartFailure::Open(error)) => Error::open(&shared.server, error),
            Phase::Failed(StartFailure::Handshake(error)) => {
                Error::handshake(&shared.server, error)
            }
            Phase::Starting | Phase::Restoring | Phase::Closed(_) => {
                let end = shared.lock().ended.clone();
                let end =
                    end.unwrap_or_else(|| ChannelEnd::new("it was closed while it was starting"));
                Error::closed_while_starting(&shared.server, end)
            }
        };
        let state = shared.lock();
        Err(error
            .with_evidence(state.evidence.clone())
            .with_diagnostics(state.diagnostics.clone()))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }

    /// The server's name in errors and logs.
    pub fn name(&self) -> &str {
        &self.0.shared.server
    }

    /// What was agreed on: era, version, what the server can do and says about itself. A new session, opened after the
    /// server forgot the last one, may change all but the era.
    pub fn agreement(&self) -> Arc<Agreement> {
        let newest = self.0.shared.lock().agreement.clone();
        newest.unwrap_or_else(|| Arc::clone(&self.0.agreement))
    }

    /// What there is to know about the channel, in words: `("transport", "Streamable HTTP")`, `("session", "held")`.
    pub fn channel_facts(&self) -> Vec<(&'static str, String)> {
        self.0.shared.lock().facts.clone()
    }

    /// What was odd about the connection so far.
    pub fn diagnostics(&self) -> Diagnostics {
        self.0.shared.lock().diagnostics.clone()
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.0.shared.lock().connection.in_flight()
    }

    /// Whether the connection is over.
    pub fn is_closed(&self) -> bool {
        self.0.shared.lock().connection.agreement().is_none()
    }

    /// Waits until the connection is over and its channel closed, for whatever reason.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn closed(&self) -> CloseReport {
        match self
            .0
            .shared
            .phase(|phase| matches!(phase, Phase::Closed(_) | Phase::Failed(_)))
            .await
        {
            Phase::Closed(report) => report,
            Phase::Starting | Phase::Ready(_) | Phase::Restoring | Phase::Failed(_) => {
                CloseReport::default()
            }
        }
    }

    /// Closes the connection in order: what is in flight fails as closed, the channel is closed, a process is stopped
    /// with its descendants. Bounded, idempotent, safe from several places at once; each gets the report.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the closing.
    pub async fn close(&self) -> CloseReport {
        self.0.shared.request_close();
        self.closed().await
    }

    /// A stream of the server's notifications from now on.
    pub fn notifications(&self) -> Notifications {
        let shared = &self.0.shared;
        shared
            .lock()
            .subscribers
            .subscribe(shared.options.notification_limits)
    }

    /// Makes sure that the server answers: `ping` in the legacy era, `server/discover` in the modern one, which has no
    /// `ping`.
    ///
    /// # Errors
    /// As every request.
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`].
    pub async fn ping(&self, options: CallOptions) -> Result<(), Error> {
        match self.0.agreement.era {
            Era::Legacy => self.request::<Ping>(&NoParams::default(), options).await,
            Era::Modern => self
                .request_raw("server/discover", None, options)
                .await
                .map(drop),
        }
    }

    /// Makes a typed request: also of a [`Method`] that the host defines.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`].
    pub async fn request<M: Method>(
        &self,
        params: &M::Params<'_>,
        options: CallOptions,
    ) -> Result<M::Result, Error> {
        let stage = if M::NAME.ends_with("/list") {
            Stage::List
        } else {
            Stage::Call
        };
        let about = About {
            stage,
            subject: M::NAME,
            method: M::NAME,
        };
        let answer = self.answer_to::<M>(about, params, &options).await?;
        self.read::<M>(about, answer)
    }

    /// As [`Client::request`], but when the server asks for input first, what it asks is returned, for a host that answers in
    /// its own time, maybe after a restart (MRTR-17): make the same request with [`CallOptions::with_input`] then. Modern era
    /// only; a legacy server asks the handlers.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`].
    pub async fn request_round<M: Method>(
        &self,
        params: &M::Params<'_>,
        options: CallOptions,
    ) -> Result<Round<M::Result>, Error> {
        let about = About {
            stage: Stage::Call,
            subject: M::NAME,
            method: M::NAME,
        };
        let answer = LogicalCall::new(self, about, &options)
            .round(|attempt| self.0.shared.start_call::<M>(params, attempt))
            .await?;
        let Answer::InputRequired(round) = answer else {
            return self.read::<M>(about, answer).map(Round::Complete);
        };
        InputRound::read(&round, &self.0.shared.options.config.answers)
            .map(Round::InputRequired)
            .map_err(|fault| self.call_error(about.stage, about.subject, CallFailure::Peer(fault)))
    }

    /// Makes a request given as raw JSON and returns the raw result.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`].
    pub async fn request_raw(
        &self,
        method: &str,
        params: Option<&RawValue>,
        options: CallOptions,
    ) -> Result<RawJson, Error> {
        let about = About {
            stage: Stage::Call,
            subject: method,
            method,
        };
        let answer = LogicalCall::new(self, about, &options)
            .run(|attempt| self.0.shared.start_raw_call(method, params, attempt))
            .await?;
        Ok(answer.result().clone())
    }
}

/// How one round of a request ended: see [`Client::request_round`].
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a request is done, or waits for input"
)]
pub enum Round<T> {
    /// With the result.
    Complete(T),
    /// With questions.
    InputRequired(InputRound),
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("name", &self.name())
            .field("era", &self.0.agreement.era)
            .field("version", &self.0.agreement.version)
            .finish_non_exhaustive()
    }
}
