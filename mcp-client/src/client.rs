//! The handle: typed calls on one server.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_jsonrpc::{Deadline, RawJson, TimedOut, TimeoutKind};
use mcp_proto::connection::read_result;
use mcp_proto::http::{HttpFailure, HttpFailureKind, MirroredParams, ToolHeaders};
use mcp_proto::lifecycle::Agreement;
use mcp_proto::method::{CallTool, ListTools, Method, NoParams, Ping, is_safe_to_repeat};
use mcp_proto::model::page::{ListParams, PageStep, PageWalk};
use mcp_proto::model::subscription::ListenFilter;
use mcp_proto::model::tool::{CallToolParams, CallToolResult, Tool};
use mcp_proto::{CallFailure, ChannelEnd, Era, UsageError};
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::catalogue::{ToolList, ToolListNote};
use crate::diagnostics::Diagnostics;
use crate::driver::Driver;
use crate::error::{Error, Stage};
use crate::evidence::Evidence;
use crate::notify::Notifications;
use crate::options::{CallOptions, ClientOptions};
use crate::shared::{Call, Phase, Shared, StartFailure, now};
use crate::subscription::Subscription;
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
        let agreement = self.agreement();
        let mut headers = HeaderCheck::new(
            agreement.era == Era::Modern && shared.lock().has_exchanges(),
            &shared.server,
        );
        if agreement.capabilities.has("tools") {
            let mut seen = HashSet::new();
            let mut walk = PageWalk::new(shared.options.page_limits, agreement.era);
            let mut cursor = None;
            loop {
                let params = ListParams::at(cursor.take());
                let options = CallOptions {
                    deadline,
                    ..CallOptions::default()
                };
                let about = About {
                    stage: Stage::List,
                    subject: ListTools::NAME,
                    method: ListTools::NAME,
                };
                let page = self.outcome(about, &options, |options| {
                    shared.start_call::<ListTools>(&params, options)
                });
                let raw = match page.await {
                    Ok(raw) => raw,
                    // PAGE-05: the pages no longer fit together; once more from the first.
                    Err(error) if is_invalid_params(&error) && walk.cursor_refused() => {
                        list = ToolList::default();
                        headers.tools.clear();
                        seen.clear();
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let bytes = raw.len_bytes();
                let page = read_result::<ListTools>(Ok(raw))
                    .map_err(|failure| self.call_error(Stage::List, ListTools::NAME, failure))?;
                let count = page.tools.len() + page.skipped.len();
                let tools = page.tools.into_iter();
                let tools: Vec<_> = tools
                    .filter_map(|tool| headers.check(tool, &mut list.notes))
                    .collect();
                list.add(tools, page.skipped, &mut seen, walk.remaining_entries());
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
        shared.update(|state| {
            state.catalogue.store(Arc::clone(&list), changes);
            state.connection.set_tool_headers(headers.tools);
            state.watch_lists(&agreement, &shared.options);
        });
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
        let limits = options.deadline.unwrap_or(shared.options.call_deadline);
        let begun = Instant::now();
        let mut options = options;
        if known == Some(false) {
            if !self.appears(name, &options).await? {
                return Err(Error::unknown_tool(&shared.server, name));
            }
            let left = left(limits, begun)
                .ok_or_else(|| self.call_error(Stage::Call, name, out_of_time(limits)))?;
            options.deadline = Some(left);
        }
        let about = About {
            stage: Stage::Call,
            subject: name,
            method: CallTool::NAME,
        };
        let start = |options: &CallOptions| shared.start_call::<CallTool>(&params, options);
        let mut outcome = self.outcome(about, &options, start).await;
        // The server wants other headers than the list said: it did nothing yet, and a newer list says more (HTTPM-30).
        if outcome.as_ref().is_err_and(is_header_mismatch)
            && shared.lock().has_exchanges()
            && let Some(now) = left(limits, begun)
        {
            let within = now.total.unwrap_or(Duration::MAX);
            let newer = tokio::time::timeout(within, self.newer_tools(now)).await;
            if newer.is_ok_and(|list| list.is_ok())
                && let Some(limits) = left(limits, begun)
            {
                let options = options.with_deadline(limits);
                outcome = self.outcome(about, &options, start).await;
            }
        }
        self.read::<CallTool>(about, outcome?)
    }

    /// Whether a name that the list lacks is in a newer one. The call's own limits hold for that, too.
    async fn appears(&self, name: &str, options: &CallOptions) -> Result<bool, Error> {
        let shared = &self.0.shared;
        let deadline = options.deadline.unwrap_or(shared.options.call_deadline);
        let limit = deadline.total.or(deadline.idle).unwrap_or(Duration::MAX);
        match tokio::time::timeout(limit, self.newer_tools(deadline)).await {
            Ok(list) => Ok(list?.get(name).is_some()),
            Err(_) => {
                let limits = Deadline::total(limit);
                Err(self.call_error(Stage::Call, name, out_of_time(limits)))
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
        let about = About {
            stage,
            subject: M::NAME,
            method: M::NAME,
        };
        let raw = self
            .outcome(about, &options, |options| {
                self.0.shared.start_call::<M>(params, options)
            })
            .await?;
        self.read::<M>(about, raw)
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
        self.outcome(about, &options, |options| {
            self.0.shared.start_raw_call(method, params, options)
        })
        .await
    }

    /// Subscribes to changes, in the modern era: they come as [`Client::notifications`] while the subscription is kept. It is
    /// opened again when it is cut off; then [`MissedChanges`](mcp_proto::connection::ServerNotification::MissedChanges) is
    /// told first.
    ///
    /// # Errors
    /// When the server promises none of it, in the legacy era, and when the connection is over.
    pub fn listen(&self, filter: &ListenFilter) -> Result<Subscription, Error> {
        let shared = &self.0.shared;
        let (outcome, _) = shared.update(|state| {
            let id = state.connection.listen(filter, NO_SLOT, now())?;
            state.subscriptions.open(id);
            Ok(id)
        });
        let id = outcome.map_err(|error| {
            Error::usage(&shared.server, Stage::Call, "subscriptions/listen", error)
        })?;
        // There may be an earlier deadline now.
        shared.attention.notify_one();
        Ok(Subscription::new(Arc::clone(shared), id))
    }

    fn read<M: Method>(&self, about: About<'_>, raw: RawJson) -> Result<M::Result, Error> {
        read_result::<M>(Ok(raw))
            .map_err(|failure| self.call_error(about.stage, about.subject, failure))
    }

    /// One logical call, from its start to its outcome.
    ///
    /// While a new session is being opened it waits. What was lost on the way is repeated once if that is safe: by the
    /// method, or by the host's word (D2, HTTPM-09). All of it happens within one budget of time.
    async fn outcome(
        &self,
        about: About<'_>,
        options: &CallOptions,
        start: impl Fn(&CallOptions) -> Result<Call, UsageError>,
    ) -> Result<RawJson, Error> {
        let shared = &self.0.shared;
        let About {
            stage,
            subject,
            method,
        } = about;
        let limits = options.deadline.unwrap_or(shared.options.call_deadline);
        let begun = Instant::now();
        let mut may_repeat = options.repeatable || is_safe_to_repeat(method);
        let mut shortened: Option<CallOptions> = None;
        loop {
            let failure = match start(shortened.as_ref().unwrap_or(options)) {
                Ok(call) => match call.await {
                    Ok(raw) => return Ok(raw),
                    Err(failure) => failure,
                },
                Err(UsageError::NotReady) => {
                    self.ready_again(limits, begun)
                        .await
                        .map_err(|failure| self.call_error(stage, subject, failure))?;
                    // That time is spent.
                    let left = left(limits, begun)
                        .ok_or_else(|| self.call_error(stage, subject, out_of_time(limits)))?;
                    shortened = Some(options.clone().with_deadline(left));
                    continue;
                }
                Err(UsageError::Closed) => return Err(self.not_connected(stage, subject)),
                Err(error) => return Err(Error::usage(&shared.server, stage, subject, error)),
            };
            match left(limits, begun) {
                Some(limits) if may_repeat && was_lost(&failure) => {
                    may_repeat = false;
                    shortened = Some(options.clone().with_deadline(limits));
                }
                _ => return Err(self.call_error(stage, subject, failure)),
            }
        }
    }

    /// Waits until requests can be sent again, or the connection is over.
    async fn ready_again(&self, limits: Deadline, begun: Instant) -> Result<(), CallFailure> {
        let shared = &self.0.shared;
        let ready = shared.phase(|phase| !matches!(phase, Phase::Restoring | Phase::Starting));
        let total = limits.total.unwrap_or(Duration::MAX);
        let time = total.saturating_sub(begun.elapsed());
        match tokio::time::timeout(time, ready).await {
            Ok(_) => Ok(()),
            Err(_) => Err(out_of_time(limits)),
        }
    }

    fn not_connected(&self, stage: Stage, subject: &str) -> Error {
        let state = self.0.shared.lock();
        let end = state
            .ended
            .clone()
            .unwrap_or_else(|| ChannelEnd::new("the connection was closed"));
        let evidence = state.evidence.clone();
        drop(state);
        Error::not_connected(&self.0.shared.server, stage, subject, end).with_evidence(evidence)
    }

    fn call_error(&self, stage: Stage, subject: &str, failure: CallFailure) -> Error {
        let evidence = match &failure {
            CallFailure::ChannelEnded { .. } => self.0.shared.lock().evidence.clone(),
            _ => Evidence::default(),
        };
        Error::call(&self.0.shared.server, stage, subject, failure).with_evidence(evidence)
    }
}

/// What a call is about, for errors and policies.
#[derive(Clone, Copy)]
struct About<'a> {
    stage: Stage,
    subject: &'a str,
    method: &'a str,
}

/// The token of what belongs to no call.
pub(crate) const NO_SLOT: usize = usize::MAX;

/// What is left of a budget; `None` when there is nothing.
fn left(limits: Deadline, begun: Instant) -> Option<Deadline> {
    let Some(total) = limits.total else {
        return Some(limits);
    };
    let total = total.saturating_sub(begun.elapsed());
    (!total.is_zero()).then_some(Deadline::new(limits.idle, Some(total)))
}

/// The budget was used up before the request was made.
fn out_of_time(limits: Deadline) -> CallFailure {
    let total = limits.total.unwrap_or(Duration::MAX);
    CallFailure::TimedOut {
        timed_out: TimedOut::new(TimeoutKind::Total, total),
        sent: false,
    }
}

/// Whether the answer was lost on the way, while the connection goes on.
fn was_lost(failure: &CallFailure) -> bool {
    matches!(
        failure,
        CallFailure::Http(HttpFailure {
            kind: HttpFailureKind::Cut
                | HttpFailureKind::SessionLost
                | HttpFailureKind::StreamEnded,
            ..
        })
    )
}

fn is_header_mismatch(error: &Error) -> bool {
    error
        .as_rpc()
        .is_some_and(|error| error.code == mcp_proto::code::HEADER_MISMATCH)
}

/// Looks at what tools want as header fields, where there are headers (HTTPM-26, HTTPM-29).
struct HeaderCheck<'a> {
    applies: bool,
    server: &'a str,
    tools: ToolHeaders,
}

impl<'a> HeaderCheck<'a> {
    fn new(applies: bool, server: &'a str) -> Self {
        Self {
            applies,
            server,
            tools: ToolHeaders::new(),
        }
    }

    /// The tool, unless what it wants is not valid.
    fn check(&mut self, tool: Tool, notes: &mut Vec<ToolListNote>) -> Option<Tool> {
        if !self.applies {
            return Some(tool);
        }
        match MirroredParams::read(&tool.input_schema) {
            Ok(mirrored) if mirrored.is_empty() => Some(tool),
            Ok(mirrored) => {
                self.tools.insert(tool.name.clone(), mirrored);
                Some(tool)
            }
            Err(reason) => {
                tracing::warn!(target: "mcp_client", server = self.server, tool = tool.name, %reason, "a tool is left out");
                notes.push(ToolListNote::InvalidHeaders {
                    name: tool.name,
                    reason,
                });
                None
            }
        }
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
