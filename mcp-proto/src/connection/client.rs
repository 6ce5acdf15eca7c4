//! [`ClientConnection`]: commands of the host, time, and output. What the server sends is handled in `inbound`.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, BytesMut};
use mcp_jsonrpc::{Deadline, InFlight, RawJson, RequestId, encode};
use serde::Serialize;
use serde_json::value::RawValue;

use super::config::ClientConfig;
use super::event::{Diagnostic, Event, Output};
use super::outbound::{Outbound, OutboundKind, Queue};
use crate::error::{CallFailure, ChannelEnd, PeerFault, UsageError};
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
    start_by: Option<Instant>,
    /// The `_meta` members of every request of the era, without braces.
    era_members: String,
    scratch: BytesMut,
}

/// What a request in flight is for.
#[derive(Debug)]
pub(super) enum Pending<T> {
    Call(Call<T>),
    Initialize,
    Probe,
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
            scratch: BytesMut::new(),
            config,
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

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
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

    /// Whether [`ClientConnection::poll_transmit`] has something.
    pub fn has_transmits(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event<T>> {
        self.events.pop_front()
    }

    /// When to call [`ClientConnection::handle_timeout`] next. It may be too early, never too late.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.in_flight.next_deadline()
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
                Pending::Initialize => self.step(Input::InitializeSilent(timed_out), now),
                Pending::Call(call) => {
                    // C082: the server should not go on working for nobody.
                    self.withdraw(&id, call.sent, &timed_out.to_string());
                    let outcome = Err(CallFailure::TimedOut {
                        timed_out,
                        sent: call.sent,
                    });
                    self.events.push_back(Event::Settled {
                        id,
                        token: call.token,
                        outcome,
                    });
                }
            }
        }
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
        };
        let (lifecycle, action) =
            std::mem::replace(&mut self.lifecycle, Lifecycle::Closed).step(input, &options);
        self.lifecycle = lifecycle;
        match action {
            Action::None => {}
            Action::Probe(version) => self.send_probe(&version, now),
            Action::Initialize(version) => self.send_initialize(&version, now),
            Action::Reopen => {
                self.forget_lifecycle_requests();
                self.events.push_back(Event::Reopen);
            }
            Action::Ready => self.become_ready(),
            Action::Failed => {
                self.forget_lifecycle_requests();
                if let Some(error) = self.lifecycle.failure() {
                    self.events.push_back(Event::Failed(error.clone()));
                }
            }
            Action::Closed => {
                self.forget_lifecycle_requests();
                self.agreement = None;
                self.events.push_back(Event::Closed);
            }
        }
    }

    fn ready(&self) -> Result<&Arc<Agreement>, UsageError> {
        match (&self.agreement, &self.lifecycle) {
            (Some(agreement), _) => Ok(agreement),
            (None, Lifecycle::Closed | Lifecycle::Failed(_)) => Err(UsageError::Closed),
            (None, _) => Err(UsageError::NotReady),
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
        encode::request(&mut self.scratch, &id, method, |out| {
            let start = out.len();
            let own = write(out)?;
            parts.splice(out, start, &own);
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
        let call = Call {
            token,
            sent: false,
            reports: options.progress,
            progress: None,
        };
        let id = self
            .in_flight
            .insert(Pending::Call(call), options.deadline, now);
        let line = self.scratch.split().freeze();
        self.queue
            .push(Outbound::new(line, OutboundKind::Request(id.clone())));
        Ok(id)
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
        let id =
            self.send_lifecycle_request(Pending::Probe, "server/discover", limit, now, |out| {
                out.put_slice(b"{}");
                parts.splice(out, out.len() - 2, "");
            });
        self.probe_id = Some(id);
    }

    fn send_initialize(&mut self, version: &ProtocolVersion, now: Instant) {
        let limit = self.time_to_start(now);
        let params = serde_json::json!(InitializeParams {
            protocol_version: version,
            capabilities: &self.config.capabilities,
            client_info: &self.config.client_info,
        });
        self.send_lifecycle_request(Pending::Initialize, "initialize", limit, now, |out| {
            out.put_slice(params.to_string().as_bytes());
        });
    }

    fn send_lifecycle_request(
        &mut self,
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
        self.queue
            .push(Outbound::new(line, OutboundKind::Request(id.clone())));
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
        self.queue
            .push(Outbound::new(line, OutboundKind::Notification));
    }

    fn become_ready(&mut self) {
        let Some(agreement) = self.lifecycle.agreement() else {
            return;
        };
        let agreement = Arc::new(agreement.clone());
        match agreement.era {
            // Before any other traffic (VER-14).
            Era::Legacy => self.send_notification("notifications/initialized", None),
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
        self.agreement = Some(Arc::clone(&agreement));
        self.events.push_back(Event::Ready(agreement));
    }

    fn modern_members(&self, version: &ProtocolVersion) -> String {
        let info = self
            .config
            .send_client_info
            .then_some(&self.config.client_info);
        meta::modern_members(version, info, &self.config.capabilities)
    }

    /// What is left of the time to start.
    fn time_to_start(&self, now: Instant) -> Duration {
        self.start_by
            .map_or(Duration::MAX, |by| by.saturating_duration_since(now))
    }

    /// A request is not wanted any more: takes it back, or tells the server.
    fn withdraw(&mut self, id: &RequestId, sent: bool, reason: &str) {
        if sent {
            let params = serde_json::json!({ "requestId": id, "reason": reason });
            self.send_notification("notifications/cancelled", Some(&params));
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
                self.events.push_back(Event::Settled {
                    id,
                    token: call.token,
                    outcome,
                });
            }
        }
    }

    fn forget_lifecycle_requests(&mut self) {
        // Nothing of the host's can be in flight here: requests are refused before the connection is ready, and
        // everything was settled when it ended.
        self.queue.clear();
        self.in_flight.drain().for_each(drop);
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
