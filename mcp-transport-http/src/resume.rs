//! Resuming a legacy stream where it broke: when, how often, and with what (HTTPL-30 to HTTPL-35).

use std::collections::VecDeque;
use std::time::Duration;

use http::HeaderName;
use http::header::WWW_AUTHENTICATE;
use mcp_jsonrpc::RequestId;
use mcp_jsonrpc::salvage::EnvelopeScanner;
use mcp_proto::backoff::Backoff;
use mcp_proto::http::{AnswerForm, HttpFailure, HttpFailureKind, names_lost_session};

use crate::body::Body;
use crate::exchange::last_event_id;
use crate::request::{Ask, Context, form};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Waits where the server named none.
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Shortest wait, whatever the server asks for.
const SHORTEST_WAIT: Duration = Duration::from_millis(100);

/// What is known of one stream.
#[derive(Debug)]
pub(crate) struct Resumption<'a> {
    context: &'a Context,
    /// The id of the newest whole event.
    last_id: Option<String>,
    retry: Option<Duration>,
    backoff: Backoff,
    /// Attempts since anything new came.
    attempts: u32,
    replays: Replays,
}

/// How many of the server's requests are remembered for each stream.
const MAX_REMEMBERED_REQUESTS: usize = 64;

/// Which of the server's requests came on a stream: once it is resumed, they may come again (HTTPL-35).
///
/// Each is expected again once for each time, so that a server that never changes its ids is still answered.
#[derive(Debug, Default)]
pub(crate) struct Replays {
    seen: VecDeque<RequestId>,
    expected: Vec<RequestId>,
}

impl Replays {
    /// The stream is about to be resumed.
    pub(crate) fn resumed(&mut self) {
        self.expected = self.seen.iter().cloned().collect();
    }

    /// Whether a message is a request that came before the stream was resumed.
    pub(crate) fn is_replay(&mut self, message: &[u8]) -> bool {
        let mut scanner = EnvelopeScanner::new();
        scanner.push(message);
        let found = scanner.found();
        let (true, Some(id)) = (found.has_method, &found.id) else {
            return false;
        };
        if let Some(at) = self.expected.iter().position(|known| known == id) {
            self.expected.swap_remove(at);
            return true;
        }
        if !self.seen.contains(id) {
            if self.seen.len() == MAX_REMEMBERED_REQUESTS {
                self.seen.pop_front();
            }
            self.seen.push_back(id.clone());
        }
        false
    }
}

impl<'a> Resumption<'a> {
    pub(crate) fn new(context: &'a Context) -> Self {
        Self {
            context,
            last_id: None,
            retry: None,
            backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT, context.jitter_seed()),
            attempts: 0,
            replays: Replays::default(),
        }
    }

    /// As [`Replays::is_replay`].
    pub(crate) fn is_replay(&mut self, message: &[u8]) -> bool {
        self.replays.is_replay(message)
    }

    /// An event came.
    pub(crate) fn note(&mut self, id: Option<String>, retry: Option<Duration>) {
        if id.is_some() && id != self.last_id {
            self.last_id = id;
            self.attempts = 0;
            self.backoff.reset();
        }
        if retry.is_some() {
            self.retry = retry;
        }
    }

    /// How long to wait: what the server asked for at first, and longer each time that nothing new came (HTTPL-32).
    pub(crate) fn wait(&mut self) -> Duration {
        let own = self.backoff.next_delay();
        let wait = match self.retry {
            Some(retry) if self.attempts <= 1 => retry.max(SHORTEST_WAIT),
            Some(retry) => retry.max(own),
            None => own,
        };
        wait.min(self.context.server.limits.longest_resume_wait)
    }

    /// Waits and opens the stream again behind the last event. `failure` is how it broke, and stays the reason when it can't
    /// be resumed.
    pub(crate) async fn resume(&mut self, failure: HttpFailure) -> Result<Body, HttpFailure> {
        let mut failure = failure;
        let Some(id) = self.last_id.as_deref().and_then(last_event_id) else {
            return Err(failure);
        };
        loop {
            let limit = self.context.server.limits.max_resumptions;
            if self.attempts >= limit {
                failure.kind = HttpFailureKind::StreamEnded;
                failure.detail = format!(
                    "and was resumed {limit} times without anything new (limit max_resumptions)"
                );
                return Err(failure);
            }
            self.attempts += 1;
            tokio::time::sleep(self.wait()).await;
            let mut ask = Ask::events();
            self.context.session.add_to(&mut ask.headers);
            let in_session = self.context.session.id().is_some();
            ask.headers.insert(LAST_EVENT_ID, id.clone());
            let Ok(response) = self.context.ask(&ask).await else {
                // Not reached: the network may come back.
                continue;
            };
            let status = response.status().as_u16();
            match form(&response) {
                AnswerForm::EventStream | AnswerForm::Unlabelled => {
                    self.replays.resumed();
                    let (head, incoming) = response.into_parts();
                    return Body::new(&head.headers, incoming)
                        .map_err(|error| self.context.broken(error, status));
                }
                // In front of the server something is broken, or it is just starting again.
                AnswerForm::Error if matches!(status, 429 | 502 | 503 | 504) => {
                    self.context.discard(response).await;
                }
                _ => {
                    let wants_token = response.headers().contains_key(WWW_AUTHENTICATE);
                    let (refusal, body) = self.context.refusal(response, in_session).await;
                    // The session is gone, and what became of the request is unknown.
                    let lost = refusal.kind == HttpFailureKind::SessionLost
                        || (in_session && !wants_token && names_lost_session(status, &body));
                    failure.kind = if lost {
                        HttpFailureKind::SessionLost
                    } else {
                        HttpFailureKind::StreamEnded
                    };
                    failure.detail = format!("and resuming it was answered with {refusal}");
                    return Err(failure);
                }
            }
        }
    }
}
