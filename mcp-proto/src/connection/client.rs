//! [`ClientConnection`]: commands of the host, time, and output. What the server sends is handled in `inbound`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use mcp_jsonrpc::{Deadline, InFlight, RequestId};
use serde_json::value::RawValue;

use super::config::ClientConfig;
use super::event::{Answer, Diagnostic, Event, Output, SubscriptionId};
use super::exchange::{Arrival, ChannelKind};
use super::outbound::{Outbound, Queue};
use super::send::{write_params, write_raw_params};
use super::server_request::ServerRequests;
use super::session::{SessionChange, SessionState};
use super::subscription::Subscriptions;
use crate::error::{CallFailure, ChannelEnd, PeerFault, UsageError};
use crate::http::ToolHeaders;
use crate::lifecycle::{Action, Agreement, HandshakeError, Input, Lifecycle, LifecycleOptions};
use crate::meta::RequestMeta;
use crate::method::{self, Method};
use crate::model::deprecated::logging::LoggingLevel;
use crate::quirk::Quirk;
use crate::rounds::InputAnswers;
use crate::version::Era;

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
    pub(super) server_requests: ServerRequests,
    pub(super) tool_headers: ToolHeaders,
    /// What modern requests ask for.
    pub(super) log_level: Option<LoggingLevel>,
    pub(super) scratch: BytesMut,
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
    /// Whether its answer may ask for input (MRTR-01).
    pub(super) may_be_asked: bool,
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
    /// Answers to what the server asked when the same request was made before. Default: none.
    pub input: InputAnswers,
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
            server_requests: ServerRequests::default(),
            tool_headers: ToolHeaders::new(),
            log_level: None,
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

    /// Says which log messages modern requests ask for from now on; `None`: none (LOG-03). The legacy era has a
    /// [method](crate::method::SetLogLevel) for it. Deprecated by the protocol, with all of logging.
    pub fn set_log_level(&mut self, level: Option<LoggingLevel>) {
        self.log_level = level;
    }

    /// Tells the server that the roots changed, if that was declared and the era has a notification for it (ROOT-05).
    pub fn notify_roots_changed(&mut self) {
        let legacy = self
            .ready()
            .is_ok_and(|agreement| agreement.era == Era::Legacy);
        if legacy && self.config.capabilities.has("roots", Some("listChanged")) {
            self.send_notification("notifications/roots/list_changed", None);
        }
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
        let agreement = self.ready_for(M::NAME)?;
        if let Some(capability) = M::CAPABILITY
            && !agreement.capabilities.offers(capability)
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
        self.ready_for(method)?;
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

    /// As [`ready`](Self::ready), for a method that must exist in the era (VER-34).
    fn ready_for(&self, method: &str) -> Result<&Arc<Agreement>, UsageError> {
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
        Ok(agreement)
    }

    pub(super) fn settled(
        &mut self,
        id: RequestId,
        token: T,
        outcome: Result<Answer, CallFailure>,
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
                self.session_began(now);
                self.send_notification("notifications/initialized", None);
                // A probe that was never answered (VER-56).
                if let Some(id) = self.probe_id.take() {
                    self.abort(&id);
                }
            }
            Era::Modern => {
                self.era_members = self.modern_members(&agreement.version);
                // Answers to what the server asked before its era was known (JR-12), a handshake that is needless by now.
                self.queue.clear();
            }
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

    /// What is left of the time to start.
    pub(super) fn time_to_start(&self, now: Instant) -> Duration {
        self.start_by
            .map_or(Duration::MAX, |by| by.saturating_duration_since(now))
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
        self.forget_server_requests();
    }

    fn forget_lifecycle_requests(&mut self) {
        // Nothing of the host's can be in flight here: requests are refused before the connection is ready, and
        // everything was settled when it ended.
        for (id, _) in self.in_flight.drain() {
            self.abort(&id);
        }
        self.queue.clear();
        self.session.restoring = 0;
        self.forget_server_requests();
    }
}

/// Reads the outcome of a request as the result of its method.
///
/// # Errors
/// The failure itself, or [`PeerFault::InvalidResult`] when the result does not have the method's shape.
pub fn read_result<M: Method>(
    outcome: Result<Answer, CallFailure>,
) -> Result<M::Result, CallFailure> {
    let read = match outcome? {
        Answer::Complete(raw) => M::read(raw.as_str()),
        Answer::InputRequired(_) => return Err(CallFailure::Peer(PeerFault::InputNotAllowed)),
        Answer::Extension {
            result_type,
            result,
        } => match M::read_extension(&result_type, result.as_str()) {
            Some(read) => read,
            None => {
                return Err(CallFailure::Peer(PeerFault::UnknownResultType {
                    result_type,
                }));
            }
        },
    };
    read.map_err(|reason| {
        CallFailure::Peer(PeerFault::InvalidResult {
            method: M::NAME.to_owned(),
            reason,
        })
    })
}
