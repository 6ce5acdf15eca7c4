//! The task that owns a channel: reads, writes, rings the timer, closes.
//!
//! One task per client. Reading and writing are two loops inside it, so that a full pipe in one direction never stops
//! the other (C033). The clock is read anew after every wait; the timer is only a reason to look.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::ChannelEnd;
use mcp_proto::lifecycle::{HandshakeError, ReopenAs};
use tokio::time::Instant;

use crate::answerers::Answerers;
use crate::shared::{Directive, Phase, Shared, StartFailure, State, now};
use crate::transport::{
    Channel, ChannelControl, ChannelOf, CloseReport, Connector, MessageSink, MessageSource,
    OpenError, Received,
};

/// How long answers may still arrive after the server stopped taking requests.
const DRAIN_AFTER_WRITE_ERROR: Duration = Duration::from_millis(500);

/// Most frames handled under one lock, so that a flood of them can't starve callers.
const MAX_FRAMES_PER_LOCK: usize = 64;

/// Drives one client until it is closed.
pub(crate) struct Driver<C> {
    shared: Arc<Shared>,
    connector: C,
    /// From the first moment: the task may be dropped before it ever runs.
    guard: EndGuard,
}

impl<C: Connector> Driver<C> {
    pub(crate) fn new(shared: Arc<Shared>, connector: C) -> Self {
        Self {
            guard: EndGuard(Arc::clone(&shared)),
            shared,
            connector,
        }
    }

    pub(crate) async fn run(mut self) {
        let phase = self.channels().await;
        let Self { shared, guard, .. } = self;
        // An orderly end has nothing left for the guard to do.
        std::mem::forget(guard);
        finish(&shared, phase);
    }

    /// Opens channels one after the other until the connection is over.
    async fn channels(&mut self) -> Phase {
        let mut reopening: Option<ReopenAs> = None;
        loop {
            let shared = Arc::clone(&self.shared);
            let opened = tokio::select! {
                biased;
                () = close_requested(&shared) => None,
                opened = open(&mut self.connector, reopening) => Some(opened),
            };
            let channel = match opened {
                Some(Ok(channel)) => channel,
                Some(Err(error)) if reopening.is_none() => {
                    return Phase::Failed(StartFailure::Open(Arc::new(error)));
                }
                Some(Err(error)) => {
                    self.shared.update(|state| {
                        state
                            .connection
                            .handle_reopen_failed(&error.to_string(), now())
                    });
                    return self.over(CloseReport::default());
                }
                None => {
                    self.shared.update(|state| state.connection.close(now()));
                    return self.over(CloseReport::default());
                }
            };
            let Channel {
                kind,
                sink,
                source,
                control,
            } = channel;
            let ((), mut directive) = self.shared.update(|state| {
                state.connection.set_channel(kind);
                if reopening.is_some() {
                    state.connection.handle_channel_opened(now())
                } else {
                    state.connection.start(now())
                }
            });
            if directive == Directive::Continue {
                directive = run_channel(&self.shared, sink, source, &control).await;
            }
            let report = control.close().await;
            let evidence = control.evidence();
            self.shared.lock().evidence = evidence;
            if let Directive::Reopen(channel) = directive {
                tracing::debug!(target: "mcp_client", server = %self.shared.server, ?channel, "another channel is wanted");
                reopening = Some(channel);
                continue;
            }
            return self.over(report);
        }
    }

    /// The last phase: failed if the connection never became ready, else closed.
    fn over(&self, report: CloseReport) -> Phase {
        let state = self.shared.lock();
        match state.connection.handshake_error() {
            Some(error) => Phase::Failed(StartFailure::Handshake(HandshakeError::clone(error))),
            None => Phase::Closed(report),
        }
    }
}

async fn open<C: Connector>(
    connector: &mut C,
    reopening: Option<ReopenAs>,
) -> Result<ChannelOf<C>, OpenError> {
    match reopening {
        None => connector.open().await,
        Some(channel) => connector.reopen(channel).await,
    }
}

/// Completes when somebody wants the client closed.
async fn close_requested(shared: &Shared) {
    loop {
        if shared.lock().close_requested {
            return;
        }
        shared.attention.notified().await;
    }
}

/// Moves messages until the channel, or the connection on it, is over. The halves are dropped on return.
async fn run_channel<S: MessageSink, R: MessageSource, C: ChannelControl>(
    shared: &Arc<Shared>,
    mut sink: S,
    mut source: R,
    control: &C,
) -> Directive {
    let mut answerers = Answerers::default();
    let writer = write_loop(shared, &mut sink);
    let mut writer = std::pin::pin!(writer);
    let mut write_error: Option<(ChannelEnd, Instant)> = None;
    let mut timer = std::pin::pin!(tokio::time::sleep(Duration::ZERO));
    let end = loop {
        let deadline = shared.arm().map(Instant::from_std);
        let drained = write_error.as_ref().map(|(_, by)| *by);
        let wake_at = deadline.into_iter().chain(drained).min();
        if let Some(at) = wake_at
            && timer.deadline() != at
        {
            timer.as_mut().reset(at);
        }
        // What the host wants comes first: a server that never stops talking must not hold up deadlines, requests or the
        // end. When the task's budget is used up, everything waits for its next turn, which begins here again.
        let directive = tokio::select! {
            biased;
            () = shared.attention.notified() => {
                if shared.lock().close_requested {
                    shared.update(|state| state.connection.close(now())).1
                } else {
                    Directive::Continue
                }
            }
            () = &mut timer, if wake_at.is_some() => {
                if let Some((error, by)) = &write_error
                    && *by <= Instant::now()
                {
                    break error.clone();
                }
                shared.update(|state| state.connection.handle_timeout(now())).1
            }
            error = &mut writer, if write_error.is_none() => {
                write_error = Some((error, Instant::now() + DRAIN_AFTER_WRITE_ERROR));
                Directive::Continue
            }
            received = source.recv() => match received {
                Received::End(end) => break end,
                received => shared.update(|state| {
                    handle(state, received);
                    for _ in 1..MAX_FRAMES_PER_LOCK {
                        let Some(received) = source.try_recv() else { break };
                        handle(state, received);
                    }
                }).1,
            },
        };
        if let Some(agreement) = shared.newly_agreed() {
            let span = tracing::Span::current();
            span.record("mcp.protocol.version", agreement.version.as_str());
            let exchanges = shared.lock().has_exchanges();
            let transport = if exchanges { "tcp" } else { "pipe" };
            span.record("network.transport", transport);
            control.agreed(&agreement);
            shared.lock().facts = control.facts();
        }
        answerers.handle(shared, shared.take_asking());
        if directive != Directive::Continue {
            return directive;
        }
    };
    let end = control.explain_end(end).await;
    tracing::debug!(target: "mcp_client", server = %shared.server, %end, "the channel ended");
    let evidence = control.evidence();
    let ((), directive) = shared.update(|state| {
        state.evidence = evidence;
        state.ended = Some(end.clone());
        state.connection.handle_channel_end(end, now());
    });
    if directive == Directive::Continue {
        Directive::Close
    } else {
        directive
    }
}

/// Hands one input to the connection.
fn handle(state: &mut State, received: Received) {
    let connection = &mut state.connection;
    match received {
        Received::Frame(frame) => connection.handle_frame(frame, now()),
        Received::Message(message) => connection.handle_exchange_message(message, now()),
        Received::ExchangeFailed { origin, failure } => {
            connection.handle_exchange_end(origin, failure, now());
        }
        Received::MissedChanges => connection.handle_missed_changes(),
        Received::Quirk(quirk) => connection.handle_quirk(quirk),
        Received::End(end) => connection.handle_channel_end(end, now()),
    }
}

/// Sends what is ready, again and again; returns why it can't any more.
async fn write_loop<S: MessageSink>(shared: &Shared, sink: &mut S) -> ChannelEnd {
    let mut batch = VecDeque::new();
    let mut aborts = Vec::new();
    loop {
        shared.take_transmits(&mut batch, &mut aborts);
        aborts.drain(..).for_each(|request| sink.abort(request));
        if batch.is_empty() {
            shared.outgoing.notified().await;
        } else if let Err(end) = sink.send(&mut batch).await {
            return end;
        }
    }
}

/// Ends the client when its task is dropped before it is done: its runtime was shut down, or it panicked (C236).
struct EndGuard(Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        let end = ChannelEnd::new("the client's task ended early; was its runtime shut down?");
        self.0.update(|state| {
            state.ended.get_or_insert_with(|| end.clone());
            state
                .connection
                .handle_channel_end(end.clone(), std::time::Instant::now());
            // During a probe that alone would ask for another channel.
            state.connection.close(std::time::Instant::now());
        });
        finish(&self.0, Phase::Closed(CloseReport::default()));
    }
}

fn finish(shared: &Shared, phase: Phase) {
    let (wake, _) = shared.update(|state| state.finish(phase));
    for waker in wake {
        waker.wake();
    }
}
