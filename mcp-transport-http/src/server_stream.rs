//! The stream for a legacy server's own messages: the optional GET (HTTPL-20).
//!
//! It is opened in the background once the first answer came, or a moment after the start. Whatever is wrong with it, the
//! connection goes on without (C096, C097, C117). It is dropped while it seems to hold up answers, and stays closed if they
//! come then, twice in a row (C045).

use std::time::Duration;

use mcp_jsonrpc::frame::SseFrame;
use mcp_proto::backoff::Backoff;
use mcp_proto::connection::ExchangeMessage;
use mcp_proto::http::AnswerForm;
use mcp_proto::quirk::Quirk;
use tokio::time::Instant;

use crate::body::Body;
use crate::events::Events;
use crate::exchange::{HttpEvent, Teller, is_message, last_event_id};
use crate::request::{Ask, Context, form};
use crate::resume::Replays;

/// How long the first answer is waited for before the stream is opened.
const OPEN_AFTER: Duration = Duration::from_secs(1);

/// How long an answer may not begin before the stream is suspected; doubled for each wrong suspicion.
const SUSPECT_AFTER: Duration = Duration::from_secs(5);

/// How soon an answer must begin after the stream was dropped to speak for the suspicion, and how often in a row it must: a
/// long call may end in just that moment.
const PROVEN_WITHIN: Duration = Duration::from_millis(500);
const PROOFS: u32 = 2;

/// Waits before it is opened again.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A stream that lived so long was a good one, even if it brought nothing (C098).
const GOOD_LIFE: Duration = Duration::from_secs(60);

/// How many streams in a row may end at once before no more is opened.
const MAX_QUICK_ENDS: u32 = 8;

/// How a stream came to its end.
enum Ended {
    /// None is to be had in this session.
    Refused,
    /// It broke, or was never there.
    Broken {
        /// Whether it was any good.
        was_good: bool,
    },
    /// It seems to hold up the answer to the request of this number.
    Suspected(u64),
}

/// Keeps the stream open until none is to be had.
pub(crate) async fn keep_open(context: &Context, events: &Teller) {
    let had_one = until_given_up(context, events).await;
    // Nothing tells of changes any more, and of those since its end nothing did.
    if had_one {
        let _ = events.send(HttpEvent::MissedChanges).await;
    }
}

/// As [`keep_open`]. Whether there ever was a stream.
async fn until_given_up(context: &Context, events: &Teller) -> bool {
    first_answer(context).await;
    let mut stream = ServerStream {
        context,
        events,
        last_id: None,
        retry: None,
        replays: Replays::default(),
        was_open: false,
        suspect_after: SUSPECT_AFTER,
    };
    let mut backoff = Backoff::new(FIRST_WAIT, LONGEST_WAIT, context.jitter_seed());
    let mut proofs = 0;
    loop {
        match stream.once().await {
            Ended::Refused => {
                let _ = events.send(HttpEvent::Quirk(Quirk::NoServerStream)).await;
                return stream.was_open;
            }
            Ended::Suspected(sequence) => {
                if answered_within(context, sequence, PROVEN_WITHIN).await {
                    proofs += 1;
                    if proofs == PROOFS {
                        let quirk = HttpEvent::Quirk(Quirk::ServerStreamBlocks);
                        let _ = events.send(quirk).await;
                        return stream.was_open;
                    }
                } else {
                    proofs = 0;
                    stream.suspect_after *= 2;
                }
                no_waiting(context).await;
            }
            Ended::Broken { was_good } => {
                if was_good {
                    backoff.reset();
                }
                let wait = backoff.next_delay();
                if backoff.failures() > MAX_QUICK_ENDS {
                    let _ = events.send(HttpEvent::Quirk(Quirk::ServerStreamEnds)).await;
                    return stream.was_open;
                }
                tokio::time::sleep(wait.max(stream.retry.unwrap_or_default())).await;
            }
        }
        // Where it can't be resumed behind the last event, there is a gap.
        if stream.last_id.is_none() && events.send(HttpEvent::MissedChanges).await.is_err() {
            return stream.was_open;
        }
    }
}

struct ServerStream<'a> {
    context: &'a Context,
    events: &'a Teller,
    last_id: Option<String>,
    retry: Option<Duration>,
    replays: Replays,
    /// Whether there ever was one.
    was_open: bool,
    suspect_after: Duration,
}

impl ServerStream<'_> {
    /// One stream from its request to its end.
    async fn once(&mut self) -> Ended {
        let begun = Instant::now();
        let suspect_after = self.suspect_after;
        let context = self.context;
        tokio::select! {
            biased;
            ended = self.read(begun) => ended,
            sequence = held_up(context, suspect_after) => Ended::Suspected(sequence),
        }
    }

    async fn read(&mut self, begun: Instant) -> Ended {
        let mut ask = Ask::events();
        self.context.session.add_to(&mut ask.headers);
        if let Some(id) = self.last_id.as_deref().and_then(last_event_id) {
            ask.headers.insert("last-event-id", id);
            self.replays.resumed();
        }
        let broken = |heard: bool| Ended::Broken {
            was_good: heard || begun.elapsed() >= GOOD_LIFE,
        };
        let Ok(response) = self.context.ask_quietly(&ask).await else {
            return broken(false);
        };
        if form(&response) != AnswerForm::EventStream {
            // In front of the server something is broken, or it is just starting again.
            let for_now = matches!(response.status().as_u16(), 429 | 502 | 503 | 504);
            self.context.discard(response).await;
            return if for_now {
                broken(false)
            } else {
                Ended::Refused
            };
        }
        let (head, incoming) = response.into_parts();
        let Ok(body) = Body::new(&head.headers, incoming) else {
            return Ended::Refused;
        };
        let mut stream = Events::new(body, self.context.server.limits.max_message_bytes);
        self.was_open = true;
        let mut heard = false;
        while let Some(Ok(frame)) = stream.next().await {
            match frame {
                SseFrame::Event(event) => {
                    heard = true;
                    self.note(event.id.clone(), event.retry);
                    if is_message(&event) && !self.replays.is_replay(&event.data) {
                        let message = ExchangeMessage::new(None, event.data);
                        let _ = self.events.send(HttpEvent::Message(message)).await;
                    }
                }
                SseFrame::Primer { id, retry } => self.note(id, retry),
                _ => {}
            }
        }
        broken(heard)
    }

    fn note(&mut self, id: Option<String>, retry: Option<Duration>) {
        if id.is_some() {
            // Only what can be resumed at.
            self.last_id = id.filter(|id| last_event_id(id).is_some());
        }
        if let Some(retry) = retry {
            self.retry = Some(retry.min(self.context.server.limits.longest_resume_wait));
        }
    }
}

async fn first_answer(context: &Context) {
    let answered = async {
        loop {
            let traffic = context.session.traffic.notified();
            // The notification that ends the handshake is answered first; lists come next.
            if context.session.answers() > 1 {
                return;
            }
            traffic.await;
        }
    };
    let _ = tokio::time::timeout(OPEN_AFTER, answered).await;
}

/// Completes when the answer to a request has not begun for so long; says to which.
async fn held_up(context: &Context, limit: Duration) -> u64 {
    loop {
        let mut traffic = std::pin::pin!(context.session.traffic.notified());
        traffic.as_mut().enable();
        let Some((sequence, since)) = context.session.longest_wait() else {
            traffic.await;
            continue;
        };
        tokio::select! {
            () = traffic => {}
            () = tokio::time::sleep_until(since + limit) => return sequence,
        }
    }
}

/// Whether the answer to this request began in time.
async fn answered_within(context: &Context, sequence: u64, limit: Duration) -> bool {
    let answered = async {
        loop {
            let mut traffic = std::pin::pin!(context.session.traffic.notified());
            traffic.as_mut().enable();
            let waiting = context.session.longest_wait();
            if waiting.is_none_or(|(oldest, _)| oldest > sequence) {
                return;
            }
            traffic.await;
        }
    };
    tokio::time::timeout(limit, answered).await.is_ok()
}

/// Completes when no answer is waited for.
async fn no_waiting(context: &Context) {
    loop {
        let mut traffic = std::pin::pin!(context.session.traffic.notified());
        traffic.as_mut().enable();
        if context.session.longest_wait().is_none() {
            return;
        }
        traffic.await;
    }
}
