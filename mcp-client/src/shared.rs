//! What handles, calls and the driver share: the protocol's state behind a short lock that is never held across an await.
//!
//! A call occupies a slot in a table here; no task, channel or timer is made for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use mcp_jsonrpc::{RawJson, RequestId};
use mcp_proto::cache::ResultCache;
use mcp_proto::connection::{
    Answer, ChannelKind, ClientConnection, Diagnostic, Event, Outbound, RequestOptions,
    ServerNotification, SubscriptionId,
};
use mcp_proto::lifecycle::{Agreement, HandshakeError, ReopenAs};
use mcp_proto::method::Method;
use mcp_proto::{CallFailure, ChannelEnd, ProtocolVersion, UsageError};
use serde_json::value::RawValue;
use slab::Slab;
use tokio::sync::Notify;

use crate::catalogue::CatalogueState;
use crate::changes::WatchedResources;
use crate::diagnostics::Diagnostics;
use crate::evidence::Evidence;
use crate::handlers::{Asked, Occasion};
use crate::logical_call::Attempt;
use crate::notify::Subscribers;
use crate::options::ClientOptions;
use crate::progress::ProgressSender;
use crate::redact::Redactor;
use crate::subscription::SubscriptionSlots;
use crate::transport::{CloseReport, OpenError};

/// The table slot of a call.
pub(crate) type Slot = usize;

/// The token of what belongs to no call.
pub(crate) const NO_SLOT: Slot = usize::MAX;

/// Shared by everything that belongs to one client.
pub(crate) struct Shared {
    pub(crate) server: Arc<str>,
    pub(crate) options: ClientOptions,
    state: Mutex<State>,
    /// There may be something to send.
    pub(crate) outgoing: Notify,
    /// The driver should look at the state again: an earlier deadline, or a wish to close.
    pub(crate) attention: Notify,
    /// The phase changed.
    pub(crate) progress: Notify,
    /// Lets one refresh of the tool list run at a time.
    pub(crate) refresh: tokio::sync::Mutex<()>,
    /// Lets one legacy subscription come about at a time.
    pub(crate) subscribing: tokio::sync::Mutex<()>,
    /// The server asks for something, or takes that back: see [`State::asking`].
    asked: AtomicBool,
    /// An agreement came about that the channel was not told of yet.
    newly_agreed: AtomicBool,
}

pub(crate) struct State {
    pub(crate) connection: ClientConnection<Slot>,
    pub(crate) phase: Phase,
    /// The newest agreement, also when the connection is over.
    pub(crate) agreement: Option<Arc<Agreement>>,
    /// What the channel says about itself.
    pub(crate) facts: Vec<(&'static str, String)>,
    pub(crate) subscriptions: SubscriptionSlots,
    pub(crate) watched_resources: WatchedResources,
    /// The subscription that keeps lists fresh in the modern era (C180).
    pub(crate) watch: Option<SubscriptionId>,
    /// What the server asks for by requests of its own, until the driver takes it.
    asking: Vec<Asking>,
    pub(crate) close_requested: bool,
    pub(crate) diagnostics: Diagnostics,
    pub(crate) catalogue: CatalogueState,
    pub(crate) cache: ResultCache,
    pub(crate) subscribers: Subscribers,
    /// About the channel as it was when it ended.
    pub(crate) evidence: Evidence,
    /// How the channel ended, once it did.
    pub(crate) ended: Option<ChannelEnd>,
    calls: Slab<CallSlot>,
    redactor: Redactor,
    /// What the driver's timer is set to.
    armed: Option<Instant>,
}

/// How far the client's life has come.
#[derive(Clone)]
pub(crate) enum Phase {
    Starting,
    Ready(Arc<Agreement>),
    /// The session was lost, and another one is being opened.
    Restoring,
    /// It never became ready; the channel is closed.
    Failed(StartFailure),
    /// It was ready, or was closed before; the channel is closed.
    Closed(CloseReport),
}

#[derive(Clone)]
pub(crate) enum StartFailure {
    Handshake(HandshakeError),
    Open(Arc<OpenError>),
}

#[derive(Default)]
struct CallSlot {
    waker: Option<Waker>,
    outcome: Option<Result<Answer, CallFailure>>,
    progress: Option<ProgressSender>,
    /// What the call is about; only where the server may ask because of it.
    occasion: Option<Box<Occasion>>,
}

/// A request of the server for the host.
pub(crate) enum Asking {
    /// Answer it.
    Request(RequestId, String, Asked<Option<RawJson>>),
    /// The answer is not wanted any more.
    Cancelled(RequestId),
}

/// What the driver must do next.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Directive {
    /// Go on.
    Continue,
    /// Close the channel: the connection failed, ended, or was told to close.
    Close,
    /// Close this channel and open another.
    Reopen(ReopenAs),
}

/// The protocol's clock; follows tokio's, so that tests can pause it.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl Shared {
    pub(crate) fn new(server: Arc<str>, mut options: ClientOptions, redactor: Redactor) -> Self {
        options.detach_roots();
        let state = State {
            connection: ClientConnection::new(options.config.clone()),
            phase: Phase::Starting,
            agreement: None,
            facts: Vec::new(),
            subscriptions: SubscriptionSlots::default(),
            watched_resources: WatchedResources::default(),
            watch: None,
            asking: Vec::new(),
            close_requested: false,
            diagnostics: Diagnostics::default(),
            catalogue: CatalogueState::default(),
            cache: ResultCache::new(options.cache_limits),
            subscribers: Subscribers::default(),
            evidence: Evidence::default(),
            ended: None,
            calls: Slab::new(),
            redactor,
            armed: None,
        };
        Self {
            server,
            options,
            state: Mutex::new(state),
            outgoing: Notify::new(),
            attention: Notify::new(),
            progress: Notify::new(),
            refresh: tokio::sync::Mutex::new(()),
            subscribing: tokio::sync::Mutex::new(()),
            asked: AtomicBool::new(false),
            newly_agreed: AtomicBool::new(false),
        }
    }

    /// Looks at the state. A panic of another holder is no reason to stop: every change is complete before it can panic.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `change` on the state, settles what came of it, and wakes whoever waits for that.
    pub(crate) fn update<R>(&self, change: impl FnOnce(&mut State) -> R) -> (R, Directive) {
        let mut later = Later::default();
        let mut state = self.lock();
        let before = state.phase_number();
        let result = change(&mut state);
        let directive = state.take_events(&self.server, &mut later);
        if later.agreed {
            self.newly_agreed.store(true, Ordering::Relaxed);
        }
        if !state.asking.is_empty() {
            self.asked.store(true, Ordering::Relaxed);
            // It may be somebody else than the driver who took the events.
            self.attention.notify_one();
        }
        let phase_changed = state.phase_number() != before;
        let outgoing = state.connection.has_transmits();
        drop(state);
        later.run();
        if phase_changed {
            self.progress.notify_waiters();
        }
        if outgoing {
            self.outgoing.notify_one();
        }
        (result, directive)
    }

    /// Takes all messages that are ready to be sent. From here on they count as possibly sent.
    pub(crate) fn take_transmits(
        &self,
        batch: &mut VecDeque<Outbound>,
        aborts: &mut Vec<RequestId>,
    ) {
        let mut state = self.lock();
        aborts.extend(std::iter::from_fn(|| state.connection.poll_abort()));
        while let Some(message) = state.connection.poll_transmit() {
            batch.push_back(message);
        }
    }

    /// The agreement, if the channel was not told of it yet. Only the driver asks.
    pub(crate) fn newly_agreed(&self) -> Option<Arc<Agreement>> {
        if !self.newly_agreed.swap(false, Ordering::Relaxed) {
            return None;
        }
        self.lock().agreement.clone()
    }

    /// What the server asks for. Only the driver asks.
    pub(crate) fn take_asking(&self) -> Vec<Asking> {
        if !self.asked.swap(false, Ordering::Relaxed) {
            return Vec::new();
        }
        std::mem::take(&mut self.lock().asking)
    }

    /// When the driver's timer must ring next.
    pub(crate) fn arm(&self) -> Option<Instant> {
        let mut state = self.lock();
        state.armed = state.connection.next_deadline();
        state.armed
    }

    /// Starts a typed request.
    pub(crate) fn start_call<M: Method>(
        self: &Arc<Self>,
        params: &M::Params<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Call, UsageError> {
        self.start(attempt, |connection, options, slot, now| {
            connection.request::<M>(params, options, slot, now)
        })
    }

    /// Starts a raw request.
    pub(crate) fn start_raw_call(
        self: &Arc<Self>,
        method: &str,
        params: Option<&RawValue>,
        attempt: Attempt<'_>,
    ) -> Result<Call, UsageError> {
        self.start(attempt, |connection, options, slot, now| {
            connection.request_raw(method, params, options, slot, now)
        })
    }

    fn start(
        self: &Arc<Self>,
        attempt: Attempt<'_>,
        send: impl FnOnce(
            &mut ClientConnection<Slot>,
            &RequestOptions,
            Slot,
            Instant,
        ) -> Result<RequestId, UsageError>,
    ) -> Result<Call, UsageError> {
        let options = attempt.options;
        let mut request = RequestOptions::default();
        request.deadline = attempt.limits;
        request.progress = options.progress.is_some();
        request.meta = options.meta.clone();
        request.input = attempt.input.clone();
        let may_be_asked = !self.options.config.answers.is_empty();
        let mut state = self.lock();
        let slot = state.calls.insert(CallSlot {
            progress: options.progress.clone(),
            occasion: may_be_asked.then(|| Box::new(Occasion::of(attempt.about))),
            ..CallSlot::default()
        });
        let id = match send(&mut state.connection, &request, slot, now()) {
            Ok(id) => id,
            Err(error) => {
                state.calls.remove(slot);
                return Err(error);
            }
        };
        let sooner = match (state.connection.next_deadline(), state.armed) {
            (Some(next), Some(armed)) => next < armed,
            (next, _) => next.is_some(),
        };
        drop(state);
        self.outgoing.notify_one();
        if sooner {
            self.attention.notify_one();
        }
        Ok(Call {
            shared: Arc::clone(self),
            slot,
            id,
            settled: false,
        })
    }

    /// Asks the driver to close the channel.
    pub(crate) fn request_close(&self) {
        self.lock().close_requested = true;
        self.attention.notify_one();
    }

    /// Waits until the phase is one that `wanted` takes.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub(crate) async fn phase(&self, wanted: impl Fn(&Phase) -> bool) -> Phase {
        loop {
            let mut changed = std::pin::pin!(self.progress.notified());
            // Listen before looking, or a change in between would be missed.
            changed.as_mut().enable();
            let phase = self.lock().phase.clone();
            if wanted(&phase) {
                return phase;
            }
            changed.await;
        }
    }
}

/// What is done when the lock is free again: a waker may run anything.
#[derive(Default)]
struct Later {
    agreed: bool,
    wakers: Vec<Waker>,
    /// Dropping these wakes their readers.
    ended: Vec<ProgressSender>,
}

impl Later {
    fn run(self) {
        self.wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    /// Acts on all events of the connection.
    fn take_events(&mut self, server: &Arc<str>, later: &mut Later) -> Directive {
        let mut directive = Directive::Continue;
        while let Some(event) = self.connection.poll_event() {
            match event {
                Event::Settled { token, outcome, .. } => {
                    if let Some(call) = self.calls.get_mut(token) {
                        call.outcome = Some(outcome);
                        // Progress ends with the call.
                        later.ended.extend(call.progress.take());
                        later.wakers.extend(call.waker.take());
                    }
                }
                Event::Progress {
                    token, progress, ..
                } => {
                    if let Some(sender) = self
                        .calls
                        .get(token)
                        .and_then(|call| call.progress.as_ref())
                    {
                        later.wakers.extend(sender.push(progress));
                    }
                }
                Event::Notification(notification) => {
                    if matches!(
                        notification,
                        ServerNotification::ToolsListChanged | ServerNotification::MissedChanges
                    ) {
                        self.catalogue.invalidate();
                    }
                    self.cache.heard(&notification);
                    self.subscribers.publish(notification, &mut later.wakers);
                }
                Event::Diagnostic(diagnostic) => {
                    // What the server wrote may hold secrets, so only its kind is logged.
                    tracing::debug!(target: "mcp_client", kind = kind(&diagnostic), "odd input from the server");
                    self.diagnostics.record(&diagnostic, &self.redactor);
                }
                Event::Ready(agreement) => {
                    self.agreement = Some(Arc::clone(&agreement));
                    self.phase = Phase::Ready(agreement);
                    later.agreed = true;
                }
                Event::ServerRequest(request) => {
                    let call = request.cause.and_then(|slot| self.calls.get(slot));
                    let asked = Asked {
                        server: Arc::clone(server),
                        occasion: call.and_then(|call| call.occasion.as_deref().cloned()),
                        version: self
                            .connection
                            .agreement()
                            .map_or(ProtocolVersion::NEWEST_LEGACY, |agreement| {
                                agreement.version.clone()
                            }),
                        params: request.params,
                    };
                    self.asking
                        .push(Asking::Request(request.id, request.method, asked));
                }
                Event::ServerRequestCancelled(id) => self.asking.push(Asking::Cancelled(id)),
                Event::SessionLost => {
                    // All that was kept belongs to the lost session (C100).
                    self.catalogue.invalidate();
                    self.phase = Phase::Restoring;
                }
                Event::Subscription { id, change, .. } => {
                    if self.watch == Some(id) {
                        self.watched(&change);
                    } else {
                        later.wakers.extend(self.subscriptions.push(id, change));
                    }
                }
                Event::Failed(error) => {
                    // Of a connection that was ready: it is told to all that come later.
                    if self.agreement.is_some() {
                        let end = format!("no new session: {}", chain(&error));
                        self.ended.get_or_insert_with(|| ChannelEnd::new(end));
                    }
                    directive = Directive::Close;
                }
                Event::Closed => {
                    if let Some(end) = self.connection.own_end() {
                        self.ended.get_or_insert_with(|| end.clone());
                    }
                    directive = Directive::Close;
                }
                Event::Reopen(channel) => directive = Directive::Reopen(channel),
                _ => {}
            }
        }
        directive
    }

    /// Whether messages have an exchange each.
    pub(crate) fn has_exchanges(&self) -> bool {
        self.connection.channel() == ChannelKind::PerExchange
    }

    /// Ends it: nothing is answered any more. Returns who waits for notifications.
    pub(crate) fn finish(&mut self, phase: Phase) -> Vec<Waker> {
        self.phase = phase;
        let mut wake = Vec::new();
        self.subscribers.close(&mut wake);
        wake.extend(self.subscriptions.close());
        wake
    }

    fn phase_number(&self) -> u8 {
        match self.phase {
            Phase::Starting => 0,
            Phase::Ready(_) => 1,
            Phase::Restoring => 2,
            Phase::Failed(_) | Phase::Closed(_) => 3,
        }
    }
}

/// An error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |error| error.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// The kind of a diagnostic, without anything that the server wrote.
fn kind(diagnostic: &Diagnostic) -> &'static str {
    match diagnostic {
        Diagnostic::DuplicateAnswer(_) => "second answer",
        Diagnostic::LateAnswer(_) => "late answer",
        Diagnostic::Noise(_) => "noise",
        Diagnostic::NotRestored { .. } => "not restored",
        Diagnostic::NotTaken(_) => "not taken",
        Diagnostic::PeerError(_) => "error without an id",
        Diagnostic::Quirk(_) => "quirk",
        Diagnostic::UnknownAnswer(_) => "answer to nothing",
        Diagnostic::UnknownProgress => "progress of nothing",
        Diagnostic::Violation(_) => "violation",
        _ => "other",
    }
}

/// A request under way. Dropping it gives the request up: the server is told, the connection goes on.
pub(crate) struct Call {
    shared: Arc<Shared>,
    slot: Slot,
    id: RequestId,
    settled: bool,
}

impl Future for Call {
    type Output = Result<Answer, CallFailure>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let call = &mut *self;
        let mut state = call.shared.lock();
        let Some(entry) = state.calls.get_mut(call.slot) else {
            // Polled again after it was done.
            return std::task::Poll::Pending;
        };
        match entry.outcome.take() {
            Some(outcome) => {
                state.calls.remove(call.slot);
                call.settled = true;
                std::task::Poll::Ready(outcome)
            }
            None => {
                match &mut entry.waker {
                    Some(waker) => waker.clone_from(context.waker()),
                    none => *none = Some(context.waker().clone()),
                }
                std::task::Poll::Pending
            }
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        let mut state = self.shared.lock();
        let entry = state.calls.try_remove(self.slot);
        state
            .connection
            .cancel(&self.id, "the caller no longer waits");
        drop(state);
        // A progress sender's end wakes its reader, which must not happen under the lock.
        drop(entry);
        self.shared.outgoing.notify_one();
    }
}
