//! [`ClientConnection`]: commands of the host, time, and output. What the server sends is handled in `inbound`.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use mcp_jsonrpc::{Deadline, InFlight, RawJson, RequestId, encode};
use serde::Serialize;
use serde_json::value::RawValue;

use super::config::ClientConfig;
use super::event::{Diagnostic, Event, Output, SubscriptionId};
use super::exchange::{Arrival, ChannelKind};
use super::outbound::{ExchangeHead, Outbound, OutboundKind, Queue};
use super::session::{SessionChange, SessionState};
use super::subscription::Subscriptions;
use crate::error::{CallFailure, ChannelEnd, PeerFault, UsageError};
use crate::http::{self, ToolHeaders};
use crate::lifecycle::{
    Action, Agreement, EraPolicy, HandshakeError, Input, Lifecycle, LifecycleOptions,
};
use crate::members::Members;
use crate::meta::{self, MetaParts, RequestMeta};
use crate::method::{self, Method, RawParams};
use crate::model::lifecycle::InitializeParams;
use crate::quirk::Quirk;
use crate::version::{Era, ProtocolVersion};

/// A connection to one server, without what carries its bytes.
///
/// `T` is what a caller wants back with the answer to a request: a slot of a table, a label, a channel's end.
/// See the [crate documentation](crate) for the loop that drives it.
#[derive(Debug)]
pub struct ClientConnection<T> {
    pub(super) config: ClientConfig,
    pub(super) lifecycle: Lifecycle,
    pub(super) agreement: Option<Arc<Agreement>>,
    pub(super) in_flight: InFlight<Pending<T>>,
    pub(super) queue: Queue,
    pub(super) events: VecDeque<Event<T>>,
    /// The newest probe: a late answer to it still counts (VER-56).
    pub(super) probe_id: Option<RequestId>,
    /// When all of the start must be done.
    pub(super) start_by: Option<Instant>,
    /// The `_meta` members of every request of the era, without braces.
    pub(super) era_members: String,
    pub(super) channel: ChannelKind,
    /// Where the message being handled came from.
    pub(super) arrival: Arrival,
    /// Exchanges that nobody needs any more.
    pub(super) aborts: VecDeque<RequestId>,
    pub(super) session: SessionState,
    /// Why the connection gave up by itself.
    pub(super) own_end: Option<ChannelEnd>,
    pub(super) subscriptions: Subscriptions<T>,
    tool_headers: ToolHeaders,
    scratch: BytesMut,
}

/// What a request in flight is for.
#[derive(Debug)]
pub(super) enum Pending<T> {
    Call(Call<T>),
    Initialize,
    /// The stream of a subscription.
    Listen(SubscriptionId),
    Probe,
    /// Tells a new session what the lost one was told.
    Restore {
        method: &'static str,
    },
}

#[derive(Debug)]
pub(super) struct Call<T> {
    pub(super) token: T,
    /// Whether it was handed to the driver, so that it may have reached the server.
    pub(super) sent: bool,
    /// Whether it asked for progress.
    pub(super) reports: bool,
    /// The newest progress.
    pub(super) progress: Option<f64>,
    /// What it changes about a session that can be lost.
    pub(super) changes: Option<Box<SessionChange>>,
}

/// Options of one request.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RequestOptions {
    /// How long it may take. Default: no limit.
    pub deadline: Deadline,
    /// Whether the server is asked to report progress. Default: no.
    pub progress: bool,
    /// What the host adds to `_meta`. Default: nothing.
    pub meta: RequestMeta,
}

impl<T: Clone> ClientConnection<T> {
    /// A connection that was not started yet.
    pub fn new(config: ClientConfig) -> Self {
        Self {
            lifecycle: Lifecycle::Idle,
            agreement: None,
            in_flight: InFlight::starting_at(config.first_request_id),
            queue: Queue::default(),
            events: VecDeque::new(),
            probe_id: None,
            start_by: None,
            era_members: String::new(),
            channel: ChannelKind::Shared,
            arrival: Arrival::default(),
            aborts: VecDeque::new(),
            session: SessionState::default(),
            own_end: None,
            subscriptions: Subscriptions::default(),
            tool_headers: ToolHeaders::new(),
            scratch: BytesMut::new(),
            config,
        }
    }

    /// Says how the channel carries messages; call before [`start`](Self::start) or
    /// [`handle_channel_opened`](Self::handle_channel_opened). Without it the channel is shared.
    pub fn set_channel(&mut self, channel: ChannelKind) {
        self.channel = channel;
        // Of exchanges on the channel before.
        self.aborts.clear();
    }

    /// How the channel carries messages.
    pub fn channel(&self) -> ChannelKind {
        self.channel
    }

    /// Says which arguments of which tools are repeated as header fields, from the newest list of tools (HTTPM-28).
    /// Without effect where there are no headers.
    pub fn set_tool_headers(&mut self, tools: ToolHeaders) {
        self.tool_headers = tools;
    }

    /// Begins: the channel is open.
    pub fn start(&mut self, now: Instant) {
        self.start_by = now.checked_add(self.config.start_timeout);
        self.step(Input::Start, now);
    }

    /// What was agreed on; `None` before the connection is ready and after it ended.
    pub fn agreement(&self) -> Option<&Arc<Agreement>> {
        self.agreement.as_ref()
    }

    /// Why no agreement came about; `None` unless it failed.
    pub fn handshake_error(&self) -> Option<&HandshakeError> {
        self.lifecycle.failure()
    }

    /// Why the connection gave up by itself although its channel goes on; `None` unless it did.
    pub fn own_end(&self) -> Option<&ChannelEnd> {
        self.own_end.as_ref()
    }

    /// How many requests are in flight, subscriptions not counted.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len() - self.subscriptions.in_flight()
    }

    /// The id of the next request: a later connection to the same server may start there (C070).
    pub fn next_request_id(&self) -> RequestId {
        self.in_flight.next_id()
    }

    /// The next thing to do. Call until it is [`Output::Wait`].
    ///
    /// A driver that sends and handles events in different places may call the three parts of this by themselves:
    /// [`poll_transmit`](Self::poll_transmit), [`poll_event`](Self::poll_event), [`next_deadline`](Self::next_deadline).
    pub fn poll_output(&mut self) -> Output<T> {
        if let Some(id) = self.poll_abort() {
            return Output::Abort(id);
        }
        if let Some(message) = self.poll_transmit() {
            return Output::Transmit(message);
        }
        self.poll_event()
            .map_or_else(|| Output::Wait(self.next_deadline()), Output::Event)
    }

    /// The next message to send. From here on it counts as possibly sent, so take no more than can be written.
    pub fn poll_transmit(&mut self) -> Option<Outbound> {
        let message = self.queue.pop()?;
        if let Some(id) = message.request_id()
            && let Some(Pending::Call(call)) = self.in_flight.get_mut(id)
        {
            call.sent = true;
        }
        Some(message)
    }

    /// Whether [`ClientConnection::poll_transmit`] or [`ClientConnection::poll_abort`] has something.
    pub fn has_transmits(&self) -> bool {
        !self.queue.is_empty() || !self.aborts.is_empty()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event<T>> {
        self.events.pop_front()
    }

    /// When to call [`ClientConnection::handle_timeout`] next. It may be too early, never too late.
    pub fn next_deadline(&self) -> Option<Instant> {
        let requests = self.in_flight.next_deadline();
        let subscriptions = self.subscriptions.next_deadline();
        requests.into_iter().chain(subscriptions).min()
    }

    /// Sends a request. Its answer comes as [`Event::Settled`] with `token`.
    ///
    /// # Errors
    /// When it can't be sent as asked; nothing was queued then.
    pub fn request<M: Method>(
        &mut self,
        params: &M::Params<'_>,
        options: &RequestOptions,
        token: T,
        now: Instant,
    ) -> Result<RequestId, UsageError> {
        let agreement = self.ready()?;
        if let Some(capability) = M::CAPABILITY
            && !agreement.capabilities.has(capability)
        {
            return Err(UsageError::CapabilityMissing {
                method: M::NAME.to_owned(),
                capability,
            });
        }
        self.send_request(
            M::NAME,
            |out| write_params(out, M::NAME, params),
            options,
            token,
            now,
        )
    }

    /// Sends a request given as raw JSON: any method, also one that this crate does not know.
    ///
    /// `params` may carry a `_meta` of its own, to which the connection's entries are added.
    ///
    /// # Errors
    /// When it can't be sent as asked; nothing was queued then.
    pub fn request_raw(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        options: &RequestOptions,
        token: T,
        now: Instant,
    ) -> Result<RequestId, UsageError> {
        let agreement = self.ready()?;
        let era = agreement.era;
        if method::only_in(method).is_some_and(|only| only != era)
            || method::belongs_to_lifecycle(method)
        {
            return Err(UsageError::NotInEra {
                method: method.to_owned(),
                era,
            });
        }
        self.send_request(
            method,
            |out| write_raw_params(out, method, params),
            options,
            token,
            now,
        )
    }

    /// Gives a request up: the server is told (CAN-01), and a late answer is ignored. A request that was not handed to
    /// the driver yet is never sent. Returns its token; `None` when it was not in flight.
    pub fn cancel(&mut self, id: &RequestId, reason: &str) -> Option<T> {
        // `initialize` can't be cancelled (VER-16), and nobody outside has its id.
        if !matches!(self.in_flight.get(id), Some(Pending::Call(_))) {
            return None;
        }
        let Some(Pending::Call(call)) = self.in_flight.abandon(id) else {
            return None;
        };
        self.withdraw(id, call.sent, reason);
        Some(call.token)
    }

    /// Stops the clocks of a request while a person answers on its behalf (VER-24). Pauses nest.
    pub fn pause(&mut self, id: &RequestId, now: Instant) {
        self.in_flight.pause(id, now);
    }

    /// Ends one [`ClientConnection::pause`].
    pub fn resume(&mut self, id: &RequestId, now: Instant) {
        self.in_flight.resume(id, now);
    }

    /// Time has passed. Calls that come too early are harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some((id, pending, timed_out)) = self.in_flight.expire(now) {
            match pending {
                Pending::Probe => self.step(Input::ProbeSilent(timed_out), now),
                Pending::Initialize => {
                    self.abort(&id);
                    self.step(Input::InitializeSilent(timed_out), now);
                }
                Pending::Restore { method } => {
                    self.abort(&id);
                    self.restore_timed_out(method, timed_out);
                }
                Pending::Listen(subscription) => {
                    let sent = !self.queue.holds(&id);
                    self.withdraw(&id, sent, &timed_out.to_string());
                    self.interrupt(subscription, &timed_out.to_string(), now);
                }
                Pending::Call(call) => {
                    // C082: the server should not go on working for nobody.
                    self.withdraw(&id, call.sent, &timed_out.to_string());
                    let outcome = Err(CallFailure::TimedOut {
                        timed_out,
                        sent: call.sent,
                    });
                    self.settled(id, call.token, outcome);
                }
            }
        }
        self.reopen_subscriptions(now);
    }

    /// The channel ended. All that is in flight settles, or the channel is to be opened again.
    pub fn handle_channel_end(&mut self, end: ChannelEnd, now: Instant) {
        self.settle_all(|sent| CallFailure::ChannelEnded {
            end: end.clone(),
            sent,
        });
        self.step(Input::ChannelEnded(end), now);
    }

    /// The channel was opened again after [`Event::Reopen`].
    pub fn handle_channel_opened(&mut self, now: Instant) {
        self.step(Input::ChannelOpened, now);
    }

    /// The channel could not be opened again after [`Event::Reopen`].
    pub fn handle_reopen_failed(&mut self, reason: &str, now: Instant) {
        self.step(Input::ReopenFailed(reason.to_owned()), now);
    }

    /// Ends the connection: all that is in flight settles as closed. The driver closes the channel.
    pub fn close(&mut self, now: Instant) {
        self.settle_all(|sent| CallFailure::Closed { sent });
        self.step(Input::Close, now);
    }

    /// Runs the lifecycle one step and carries out what it says.
    pub(super) fn step(&mut self, input: Input, now: Instant) {
        let options = LifecycleOptions {
            policy: self.config.policy,
            hint: self.config.hint,
            tolerate_older_version: self.config.tolerate_older_version,
            old_transport: self.channel == ChannelKind::PerExchange
                && self.config.old_http_transport,
        };
        let (lifecycle, action) =
            std::mem::replace(&mut self.lifecycle, Lifecycle::Closed).step(input, &options);
        self.lifecycle = lifecycle;
        match action {
            Action::None => {}
            Action::Probe(version) => self.send_probe(&version, now),
            Action::Initialize(version) => self.send_initialize(&version, now),
            Action::Reopen(channel) => {
                self.forget_lifecycle_requests();
                self.events.push_back(Event::Reopen(channel));
            }
            Action::Ready => self.become_ready(now),
            Action::Failed => {
                self.forget_lifecycle_requests();
                self.agreement = None;
                self.end_subscriptions();
                if let Some(error) = self.lifecycle.failure() {
                    self.events.push_back(Event::Failed(error.clone()));
                }
            }
            Action::Closed => {
                self.forget_lifecycle_requests();
                self.agreement = None;
                self.end_subscriptions();
                self.events.push_back(Event::Closed);
            }
        }
    }

    pub(super) fn ready(&self) -> Result<&Arc<Agreement>, UsageError> {
        match (&self.agreement, &self.lifecycle) {
            (Some(agreement), Lifecycle::Ready(_)) if self.session.restoring == 0 => Ok(agreement),
            (_, Lifecycle::Closed | Lifecycle::Failed(_)) => Err(UsageError::Closed),
            _ => Err(UsageError::NotReady),
        }
    }

    fn send_request(
        &mut self,
        method: &str,
        write: impl FnOnce(&mut BytesMut) -> Result<String, UsageError>,
        options: &RequestOptions,
        token: T,
        now: Instant,
    ) -> Result<RequestId, UsageError> {
        let limits = self.config.limits;
        if self.in_flight.len() >= limits.max_in_flight {
            return Err(UsageError::TooManyInFlight {
                limit: limits.max_in_flight,
            });
        }
        if self.queue.bytes() >= limits.max_queued_bytes {
            let queued_bytes = self.queue.bytes();
            return Err(UsageError::OutgoingFull {
                queued_bytes,
                limit_bytes: limits.max_queued_bytes,
            });
        }
        let id = self.in_flight.next_id();
        let parts = MetaParts {
            era_members: &self.era_members,
            progress_token: match &id {
                RequestId::Number(number) if options.progress => Some(*number),
                _ => None,
            },
            host: Some(&options.meta),
        };
        self.scratch.clear();
        let mut params = 0..0;
        encode::request(&mut self.scratch, &id, method, |out| {
            params.start = out.len();
            let own = write(out)?;
            parts.splice(out, params.start, &own);
            params.end = out.len();
            Ok(())
        })?;
        if self.scratch.len() > limits.max_message_bytes {
            let bytes = self.scratch.len();
            // Don't hold on to a buffer of that size.
            self.scratch = BytesMut::new();
            return Err(UsageError::RequestTooLarge {
                bytes,
                limit_bytes: limits.max_message_bytes,
            });
        }
        let params = self.scratch.get(params).unwrap_or_default();
        let params = std::str::from_utf8(params).unwrap_or_default();
        let head = self.head(self.spoken(), method, params)?;
        let legacy = head.as_ref().is_some_and(|head| head.era == Era::Legacy);
        let changes = legacy.then(|| SessionChange::of(method, params)).flatten();
        let call = Call {
            token,
            sent: false,
            reports: options.progress,
            progress: None,
            changes: changes.map(Box::new),
        };
        let id = self
            .in_flight
            .insert(Pending::Call(call), options.deadline, now);
        let line = self.scratch.split().freeze();
        self.queue
            .push(Outbound::new(line, OutboundKind::Request(id.clone())).with_head(head));
        Ok(id)
    }

    /// What is spoken now: the era, and the version once it is agreed on.
    fn spoken(&self) -> (Era, Option<&ProtocolVersion>) {
        self.agreement
            .as_ref()
            .map_or((Era::Legacy, None), |agreement| {
                (agreement.era, Some(&agreement.version))
            })
    }

    /// What the exchange of a message needs; `None` where messages share a channel.
    fn head(
        &self,
        (era, version): (Era, Option<&ProtocolVersion>),
        method: &str,
        params: &str,
    ) -> Result<Option<ExchangeHead>, UsageError> {
        if self.channel == ChannelKind::Shared {
            return Ok(None);
        }
        let fields = match (era, version) {
            (Era::Modern, Some(version)) => {
                http::modern_fields(version, method, params, &self.tool_headers)?
            }
            (Era::Legacy, Some(version)) => http::legacy_fields(version),
            (_, None) => Vec::new(),
        };
        Ok(Some(ExchangeHead {
            era,
            method: method.to_owned(),
            fields,
        }))
    }

    fn send_probe(&mut self, version: &ProtocolVersion, now: Instant) {
        // Where nothing can follow the probe, it may take all the time there is.
        let limit = match self.config.policy {
            EraPolicy::Auto => self.config.probe_timeout,
            EraPolicy::Legacy | EraPolicy::Modern => Duration::MAX,
        };
        // Where a handshake may follow, it gets at least half of what is left.
        let left = self.time_to_start(now);
        let limit = limit.min(if self.config.policy == EraPolicy::Auto {
            left / 2
        } else {
            left
        });
        let members = self.modern_members(version);
        let parts = MetaParts {
            era_members: &members,
            ..MetaParts::default()
        };
        let spoken = (Era::Modern, Some(version));
        let id = self.send_as(
            spoken,
            Pending::Probe,
            "server/discover",
            limit,
            now,
            |out| {
                out.put_slice(b"{}");
                parts.splice(out, out.len() - 2, "");
            },
        );
        self.probe_id = Some(id);
    }

    fn send_initialize(&mut self, version: &ProtocolVersion, now: Instant) {
        let limit = self.time_to_start(now);
        let params = serde_json::json!(InitializeParams {
            protocol_version: version,
            capabilities: &self.config.capabilities,
            client_info: &self.config.client_info,
        });
        // Its version is an offer, not yet agreed on (HTTPL-02).
        let spoken = (Era::Legacy, None);
        self.send_as(
            spoken,
            Pending::Initialize,
            "initialize",
            limit,
            now,
            |out| {
                out.put_slice(params.to_string().as_bytes());
            },
        );
    }

    /// Sends a request of the connection's own, in what was agreed on.
    pub(super) fn send_own_request(
        &mut self,
        pending: Pending<T>,
        method: &str,
        limit: Duration,
        now: Instant,
        write: impl FnOnce(&mut BytesMut),
    ) -> RequestId {
        let agreement = self.agreement.clone();
        let spoken = agreement.as_ref().map_or((Era::Legacy, None), |agreement| {
            (agreement.era, Some(&agreement.version))
        });
        self.send_as(spoken, pending, method, limit, now, write)
    }

    fn send_as(
        &mut self,
        spoken: (Era, Option<&ProtocolVersion>),
        pending: Pending<T>,
        method: &str,
        limit: Duration,
        now: Instant,
        write: impl FnOnce(&mut BytesMut),
    ) -> RequestId {
        let id = self.in_flight.insert(pending, Deadline::total(limit), now);
        self.scratch.clear();
        let Ok(()) = encode::request(&mut self.scratch, &id, method, |out| {
            write(out);
            Ok::<_, std::convert::Infallible>(())
        });
        let line = self.scratch.split().freeze();
        // None of these methods has a parameter that goes into a header.
        let head = self.head(spoken, method, "{}").unwrap_or_default();
        self.queue
            .push(Outbound::new(line, OutboundKind::Request(id.clone())).with_head(head));
        id
    }

    pub(super) fn send_notification(&mut self, method: &str, params: Option<&serde_json::Value>) {
        self.scratch.clear();
        let Ok(()) = encode::notification(&mut self.scratch, method, |out| {
            if let Some(params) = params {
                out.put_slice(params.to_string().as_bytes());
            }
            Ok::<_, std::convert::Infallible>(())
        });
        let line = self.scratch.split().freeze();
        let head = self.head(self.spoken(), method, "{}").unwrap_or_default();
        self.queue
            .push(Outbound::new(line, OutboundKind::Notification).with_head(head));
    }

    /// Sends an answer, or several in an array, to the server's own requests.
    pub(super) fn send_response(&mut self, line: Bytes) {
        let head = self.head(self.spoken(), "", "{}").unwrap_or_default();
        self.queue
            .push(Outbound::new(line, OutboundKind::Response).with_head(head));
    }

    pub(super) fn settled(
        &mut self,
        id: RequestId,
        token: T,
        outcome: Result<RawJson, CallFailure>,
    ) {
        self.events.push_back(Event::Settled { id, token, outcome });
    }

    fn become_ready(&mut self, now: Instant) {
        let Some(agreement) = self.lifecycle.agreement() else {
            return;
        };
        let agreement = Arc::new(agreement.clone());
        self.agreement = Some(Arc::clone(&agreement));
        match agreement.era {
            // Before any other traffic (VER-14).
            Era::Legacy => {
                self.send_notification("notifications/initialized", None);
                // A probe that was never answered (VER-56).
                if let Some(id) = self.probe_id.take() {
                    self.abort(&id);
                }
            }
            Era::Modern => self.era_members = self.modern_members(&agreement.version),
        }
        let quirks = [
            (
                agreement.capabilities.oddly_typed().next().is_some(),
                Quirk::OddCapability,
            ),
            (
                agreement.era == Era::Legacy && agreement.server_info.is_none(),
                Quirk::NoServerInfo,
            ),
            (!agreement.version.is_known(), Quirk::UnknownOlderVersion),
        ];
        for (_, quirk) in quirks.into_iter().filter(|(found, _)| *found) {
            self.events
                .push_back(Event::Diagnostic(Diagnostic::Quirk(quirk)));
        }
        if self.session.lost {
            self.restore_session(now);
        }
        self.announce_ready();
    }

    fn modern_members(&self, version: &ProtocolVersion) -> String {
        let info = self
            .config
            .send_client_info
            .then_some(&self.config.client_info);
        meta::modern_members(version, info, &self.config.capabilities)
    }

    /// What is left of the time to start.
    pub(super) fn time_to_start(&self, now: Instant) -> Duration {
        self.start_by
            .map_or(Duration::MAX, |by| by.saturating_duration_since(now))
    }

    /// A request is not wanted any more: takes it back, or tells the server.
    pub(super) fn withdraw(&mut self, id: &RequestId, sent: bool, reason: &str) {
        if sent {
            // In the modern era closing the stream says it all, and nothing else is allowed (HTTPM-10, CAN-08).
            let per_exchange = self.channel == ChannelKind::PerExchange;
            if !(per_exchange && self.spoken().0 == Era::Modern) {
                let params = serde_json::json!({ "requestId": id, "reason": reason });
                self.send_notification("notifications/cancelled", Some(&params));
            }
            self.abort(id);
        } else {
            self.queue.take_back(id);
        }
    }

    /// Settles every request of the host; the lifecycle's own are for [`ClientConnection::step`] to judge.
    fn settle_all(&mut self, failure: impl Fn(bool) -> CallFailure) {
        self.queue.clear();
        for (id, pending) in self.in_flight.drain() {
            if let Pending::Call(call) = pending {
                let outcome = Err(failure(call.sent));
                self.settled(id, call.token, outcome);
            }
        }
        self.session.restoring = 0;
    }

    fn forget_lifecycle_requests(&mut self) {
        // Nothing of the host's can be in flight here: requests are refused before the connection is ready, and
        // everything was settled when it ended.
        self.queue.clear();
        for (id, _) in self.in_flight.drain() {
            self.abort(&id);
        }
        self.session.restoring = 0;
    }
}

/// Reads the outcome of a request as the result of its method.
///
/// # Errors
/// The failure itself, or [`PeerFault::InvalidResult`] when the result does not have the method's shape.
pub fn read_result<M: Method>(
    outcome: Result<RawJson, CallFailure>,
) -> Result<M::Result, CallFailure> {
    let raw = outcome?;
    M::read(raw.as_str()).map_err(|reason| {
        CallFailure::Peer(PeerFault::InvalidResult {
            method: M::NAME.to_owned(),
            reason,
        })
    })
}

/// Writes typed parameters, which have no `_meta` of their own.
fn write_params<P: Serialize>(
    out: &mut BytesMut,
    method: &str,
    params: &P,
) -> Result<String, UsageError> {
    let start = out.len();
    serde_json::to_writer(out.writer(), params).map_err(|error| UsageError::Encode {
        method: method.to_owned(),
        reason: error.to_string(),
    })?;
    if out.get(start) == Some(&b'{') {
        Ok(String::new())
    } else {
        Err(UsageError::ParamsNotAnObject {
            method: method.to_owned(),
        })
    }
}

/// Writes raw parameters without their `_meta`, and returns its entries as text without braces.
fn write_raw_params(
    out: &mut BytesMut,
    method: &str,
    params: RawParams<'_>,
) -> Result<String, UsageError> {
    let Some(params) = params.filter(|params| params.get() != "null") else {
        // Also where a method takes none: a modern request always has parameters (VER-33), and some servers stumble
        // over their absence (C085).
        out.put_slice(b"{}");
        return Ok(String::new());
    };
    let not_an_object = || UsageError::ParamsNotAnObject {
        method: method.to_owned(),
    };
    let members = Members::read(params.get()).ok_or_else(not_an_object)?;
    let mut own = String::new();
    if let Some(raw) = members.get("_meta") {
        let entries = Members::read(raw.get()).ok_or_else(not_an_object)?;
        for (key, _) in &entries.0 {
            meta::check_key(key)?;
        }
        own = join(&entries, None);
    }
    out.put_u8(b'{');
    out.put_slice(join(&members, Some("_meta")).as_bytes());
    out.put_u8(b'}');
    Ok(own)
}

/// The members as text without braces.
fn join(members: &Members<'_>, except: Option<&str>) -> String {
    let kept = members
        .0
        .iter()
        .filter(|(key, _)| Some(Cow::as_ref(key)) != except);
    let texts: Vec<_> = kept
        .map(|(key, raw)| format!("{}:{}", serde_json::Value::from(key.as_ref()), raw.get()))
        .collect();
    texts.join(",")
}
