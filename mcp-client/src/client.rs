//! The handle: typed calls on one server.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_jsonrpc::{Deadline, RawJson, TimedOut, TimeoutKind};
use mcp_proto::connection::read_result;
use mcp_proto::lifecycle::Agreement;
use mcp_proto::method::{CallTool, ListTools, Method, NoParams, Ping};
use mcp_proto::model::capability::ServerCapabilities;
use mcp_proto::model::implementation::Implementation;
use mcp_proto::model::page::{ListParams, PageStep, PageWalk};
use mcp_proto::model::tool::{CallToolParams, CallToolResult};
use mcp_proto::{CallFailure, ChannelEnd, Era, UsageError};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::catalogue::{ToolList, ToolListNote};
use crate::diagnostics::Diagnostics;
use crate::driver::Driver;
use crate::error::{Error, Stage};
use crate::evidence::Evidence;
use crate::notify::Notifications;
use crate::options::{CallOptions, ClientOptions};
use crate::shared::{Call, Phase, Shared, StartFailure};
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
            .phase(|phase| !matches!(phase, Phase::Starting))
            .await;
        guard.0 = None;
        let error = match phase {
            Phase::Ready(agreement) => {
                tracing::debug!(
                    target: "mcp_client", server = %shared.server, era = %agreement.era, version = %agreement.version, "ready"
                );
                return Ok(Self(Arc::new(Handle { shared, agreement })));
            }
            Phase::Failed(StartFailure::Open(error)) => Error::open(&shared.server, error),
            Phase::Failed(StartFailure::Handshake(error)) => {
                Error::handshake(&shared.server, error)
            }
            Phase::Starting | Phase::Closed(_) => {
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

    /// The server's name in errors and logs.
    pub fn name(&self) -> &str {
        &self.0.shared.server
    }

    /// What was agreed on.
    pub fn agreement(&self) -> &Agreement {
        &self.0.agreement
    }

    /// Who the server says it is: for display only.
    pub fn server_info(&self) -> Option<&Implementation> {
        self.0.agreement.server_info.as_ref()
    }

    /// The server's text for the model: untrusted.
    pub fn instructions(&self) -> Option<&str> {
        self.0.agreement.instructions.as_deref()
    }

    /// What the server can do.
    pub fn capabilities(&self) -> &ServerCapabilities {
        &self.0.agreement.capabilities
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
            Phase::Starting | Phase::Ready(_) | Phase::Failed(_) => CloseReport::default(),
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

    /// All tools of the server: from memory while the server announces no change, else fetched page by page.
    ///
    /// A server without the `tools` capability has an empty list with a note.
    ///
    /// # Errors
    /// When a page could not be had.
    ///
    /// # Cancel safety
    /// Dropping the future gives the page in flight up; what was kept before stays.
    pub async fn tools(&self) -> Result<Arc<ToolList>, Error> {
        if let Some(list) = self.0.shared.lock().catalogue.fresh() {
            return Ok(Arc::clone(list));
        }
        let _one_at_a_time = self.0.shared.refresh.lock().await;
        // Somebody else may have fetched it in the meantime.
        if let Some(list) = self.0.shared.lock().catalogue.fresh() {
            return Ok(Arc::clone(list));
        }
        self.fetch_tools(None).await
    }

    /// As [`Client::tools`], but always fetched anew.
    ///
    /// # Errors
    /// As [`Client::tools`].
    ///
    /// # Cancel safety
    /// As [`Client::tools`].
    pub async fn refresh_tools(&self) -> Result<Arc<ToolList>, Error> {
        let _one_at_a_time = self.0.shared.refresh.lock().await;
        self.fetch_tools(None).await
    }

    /// A list newer than the one in memory, fetched by this caller or by another one that was faster.
    async fn newer_tools(&self, deadline: Deadline) -> Result<Arc<ToolList>, Error> {
        let shared = &self.0.shared;
        let before = shared.lock().catalogue.fetches();
        let _one_at_a_time = shared.refresh.lock().await;
        if let Some(list) = shared.lock().catalogue.newer_than(before) {
            return Ok(list);
        }
        self.fetch_tools(Some(deadline)).await
    }

    async fn fetch_tools(&self, deadline: Option<Deadline>) -> Result<Arc<ToolList>, Error> {
        let shared = &self.0.shared;
        let changes = shared.lock().catalogue.changes();
        let mut list = ToolList::default();
        if self.capabilities().has("tools") {
            let mut seen = HashSet::new();
            let mut walk = PageWalk::new(shared.options.page_limits, self.0.agreement.era);
            let mut cursor = None;
            loop {
                let params = ListParams::at(cursor.take());
                let options = CallOptions {
                    deadline,
                    ..CallOptions::default()
                };
                let call = shared.start_call::<ListTools>(&params, options);
                let raw = match self.outcome(call, Stage::List, ListTools::NAME).await {
                    Ok(raw) => raw,
                    // PAGE-05: the pages no longer fit together; once more from the first.
                    Err(error) if is_invalid_params(&error) && walk.cursor_refused() => {
                        list = ToolList::default();
                        seen.clear();
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let bytes = raw.len_bytes();
                let page = read_result::<ListTools>(Ok(raw))
                    .map_err(|failure| self.call_error(Stage::List, ListTools::NAME, failure))?;
                let count = page.tools.len() + page.skipped.len();
                list.add(
                    page.tools,
                    page.skipped,
                    &mut seen,
                    walk.remaining_entries(),
                );
                match walk.page(bytes, count, page.next_cursor) {
                    PageStep::Fetch(next) => cursor = Some(next),
                    PageStep::Done(note) => {
                        list.notes.extend(note.map(ToolListNote::Cut));
                        break;
                    }
                }
            }
        } else {
            list.notes.push(ToolListNote::NotOffered);
        }
        let list = Arc::new(list);
        shared.lock().catalogue.store(Arc::clone(&list), changes);
        Ok(list)
    }

    /// Calls a tool with arguments that serialize to a JSON object; `()` or `None` mean `{}`.
    ///
    /// A result with `is_error` is a result: the tool ran and says that it failed. Nothing is ever called twice: when the
    /// connection is lost on the way, the error says whether the call may have been carried out.
    ///
    /// If the tool list is known and lacks the name, it is fetched once more before the call is refused.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// Dropping the future gives the call up: the server is told, its answer is ignored, the connection goes on.
    pub async fn call_tool<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<CallToolResult, Error> {
        self.call_tool_with(name, arguments, CallOptions::default())
            .await
    }

    /// As [`Client::call_tool`], with options.
    ///
    /// # Errors
    /// As [`Client::call_tool`].
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`].
    pub async fn call_tool_with<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: CallOptions,
    ) -> Result<CallToolResult, Error> {
        let shared = &self.0.shared;
        let usage = |error| Error::usage(&shared.server, Stage::Call, name, error);
        let arguments = serde_json::value::to_raw_value(arguments).map_err(|error| {
            usage(UsageError::Encode {
                method: CallTool::NAME.to_owned(),
                reason: error.to_string(),
            })
        })?;
        let params = CallToolParams::new(name, &arguments).ok_or_else(|| {
            usage(UsageError::ParamsNotAnObject {
                method: CallTool::NAME.to_owned(),
            })
        })?;
        let known = shared
            .lock()
            .catalogue
            .fresh()
            .map(|list| list.get(name).is_some());
        if known == Some(false) && !self.appears(name, &options).await? {
            return Err(Error::unknown_tool(&shared.server, name));
        }
        let call = shared.start_call::<CallTool>(&params, options);
        self.finish::<CallTool>(call, Stage::Call, name).await
    }

    /// Whether a name that the list lacks is in a newer one. The call's own limits hold for that, too.
    async fn appears(&self, name: &str, options: &CallOptions) -> Result<bool, Error> {
        let shared = &self.0.shared;
        let deadline = options.deadline.unwrap_or(shared.options.call_deadline);
        let limit = deadline.total.or(deadline.idle).unwrap_or(Duration::MAX);
        match tokio::time::timeout(limit, self.newer_tools(deadline)).await {
            Ok(list) => Ok(list?.get(name).is_some()),
            Err(_) => {
                let timed_out = TimedOut::new(TimeoutKind::Total, limit);
                Err(self.call_error(
                    Stage::Call,
                    name,
                    CallFailure::TimedOut {
                        timed_out,
                        sent: false,
                    },
                ))
            }
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
        let call = self.0.shared.start_call::<M>(params, options);
        self.finish::<M>(call, stage, M::NAME).await
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
        let call = self.0.shared.start_raw_call(method, params, options);
        self.outcome(call, Stage::Call, method).await
    }

    async fn finish<M: Method>(
        &self,
        call: Result<Call, UsageError>,
        stage: Stage,
        subject: &str,
    ) -> Result<M::Result, Error> {
        let raw = self.outcome(call, stage, subject).await?;
        read_result::<M>(Ok(raw)).map_err(|failure| self.call_error(stage, subject, failure))
    }

    async fn outcome(
        &self,
        call: Result<Call, UsageError>,
        stage: Stage,
        subject: &str,
    ) -> Result<RawJson, Error> {
        match call {
            Ok(call) => call
                .await
                .map_err(|failure| self.call_error(stage, subject, failure)),
            Err(UsageError::Closed) => {
                let state = self.0.shared.lock();
                let end = state
                    .ended
                    .clone()
                    .unwrap_or_else(|| ChannelEnd::new("the connection was closed"));
                let evidence = state.evidence.clone();
                drop(state);
                Err(
                    Error::not_connected(&self.0.shared.server, stage, subject, end)
                        .with_evidence(evidence),
                )
            }
            Err(error) => Err(Error::usage(&self.0.shared.server, stage, subject, error)),
        }
    }

    fn call_error(&self, stage: Stage, subject: &str, failure: CallFailure) -> Error {
        let evidence = match &failure {
            CallFailure::ChannelEnded { .. } => self.0.shared.lock().evidence.clone(),
            _ => Evidence::default(),
        };
        Error::call(&self.0.shared.server, stage, subject, failure).with_evidence(evidence)
    }
}

fn is_invalid_params(error: &Error) -> bool {
    error
        .as_rpc()
        .is_some_and(|error| error.code == mcp_jsonrpc::ErrorCode::INVALID_PARAMS)
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
