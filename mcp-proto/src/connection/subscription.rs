//! Subscriptions of the modern era: `subscriptions/listen`, kept open.
//!
//! | State | Input | Next |
//! |---|---|---|
//! | Opening | acknowledged | Open; after an interruption changes may have been missed (SUB-17) |
//! | Opening, Open | a result, or `notifications/cancelled` for it | Ended, in order (SUB-15) |
//! | Opening, Open | a JSON-RPC error, HTTP 4xx other than 429 | Ended, refused (SUB-21) |
//! | Opening | no acknowledgement in time (SUB-18) | Waiting |
//! | Opening, Open | any other end of its stream | Waiting, longer each time (SUB-16, C176) |
//! | Waiting | time | Opening, with a new request |
//!
//! The wait starts over once a stream has brought something, or has lived for a while (C098).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::BufMut;
use mcp_jsonrpc::{RawJson, RequestId};

use super::client::{ClientConnection, Pending};
use super::event::{
    Diagnostic, Event, ServerNotification, SubscriptionChange, SubscriptionEnd, SubscriptionId,
};
use super::inbound::Reply;
use crate::backoff::Backoff;
use crate::error::{UsageError, Violation};
use crate::http::HttpFailure;
use crate::members::Members;
use crate::meta;
use crate::model::subscription::ListenFilter;
use crate::version::Era;

const METHOD: &str = "subscriptions/listen";

/// Waits between attempts: from the first to the longest.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A stream that lived so long was a good one, even if it brought nothing.
const GOOD_LIFE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) struct Subscriptions<T> {
    entries: BTreeMap<SubscriptionId, Subscription<T>>,
    next: u64,
}

impl<T> Default for Subscriptions<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            next: 0,
        }
    }
}

#[derive(Debug)]
struct Subscription<T> {
    token: T,
    /// What is asked for.
    filter: ListenFilter,
    /// What the host wanted and the server does not promise.
    unpromised: ListenFilter,
    state: State,
    backoff: Backoff,
    interrupted: bool,
}

#[derive(Debug)]
enum State {
    Opening(RequestId),
    Open {
        request: RequestId,
        since: Instant,
        /// Whether anything came on it.
        heard: bool,
    },
    Waiting(Instant),
}

impl State {
    fn request(&self) -> Option<&RequestId> {
        match self {
            Self::Opening(request) | Self::Open { request, .. } => Some(request),
            Self::Waiting(_) => None,
        }
    }
}

impl<T> Subscriptions<T> {
    fn find(&mut self, request: &RequestId) -> Option<(SubscriptionId, &mut Subscription<T>)> {
        self.entries
            .iter_mut()
            .find(|(_, entry)| entry.state.request() == Some(request))
            .map(|(id, entry)| (*id, entry))
    }

    /// When the next attempt is due.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let waiting = |entry: &Subscription<T>| match entry.state {
            State::Waiting(until) => Some(until),
            State::Opening(_) | State::Open { .. } => None,
        };
        self.entries.values().filter_map(waiting).min()
    }

    /// How many have a request in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.entries
            .values()
            .filter(|entry| entry.state.request().is_some())
            .count()
    }
}

impl<T: Clone> ClientConnection<T> {
    /// Subscribes to changes. What happens comes as [`Event::Subscription`] with `token`, the changes themselves as
    /// [`Event::Notification`]. The subscription is opened again after interruptions until it is ended by
    /// [`unlisten`](Self::unlisten), the server or the connection.
    ///
    /// # Errors
    /// In the legacy era, while the connection is not ready, with too many subscriptions, and when the server promises
    /// nothing of what is asked for.
    pub fn listen(
        &mut self,
        wanted: &ListenFilter,
        token: T,
        now: Instant,
    ) -> Result<SubscriptionId, UsageError> {
        let agreement = self.ready()?;
        if agreement.era != Era::Modern {
            return Err(UsageError::NotInEra {
                method: METHOD.to_owned(),
                era: agreement.era,
            });
        }
        let filter = wanted.promised_by(&agreement.capabilities);
        if filter.is_empty() {
            return Err(UsageError::CapabilityMissing {
                method: METHOD.to_owned(),
                capability: "listChanged or subscribe",
            });
        }
        let limit = self.config.limits.max_subscriptions;
        if self.subscriptions.entries.len() >= limit {
            return Err(UsageError::TooManySubscriptions { limit });
        }
        let id = SubscriptionId(self.subscriptions.next);
        self.subscriptions.next += 1;
        let seed = self.config.jitter_seed.wrapping_add(id.0);
        let request = self.send_listen(id, &filter, now);
        self.subscriptions.entries.insert(
            id,
            Subscription {
                token,
                unpromised: wanted.without(&filter),
                filter,
                state: State::Opening(request),
                backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT, seed),
                interrupted: false,
            },
        );
        Ok(id)
    }

    /// Ends a subscription: the server is told. Returns its token; `None` when it is over already.
    pub fn unlisten(&mut self, id: SubscriptionId) -> Option<T> {
        let entry = self.subscriptions.entries.remove(&id)?;
        if let Some(request) = entry.state.request() {
            self.give_up_listen(request.clone());
        }
        Some(entry.token)
    }

    fn give_up_listen(&mut self, request: RequestId) {
        if self.in_flight.abandon(&request).is_some() {
            let sent = !self.queue.holds(&request);
            self.withdraw(&request, sent, "the subscription is not wanted any more");
        }
    }

    fn send_listen(
        &mut self,
        id: SubscriptionId,
        filter: &ListenFilter,
        now: Instant,
    ) -> RequestId {
        let params = serde_json::json!({ "notifications": filter }).to_string();
        let era_members = std::mem::take(&mut self.era_members);
        let parts = meta::MetaParts {
            era_members: &era_members,
            ..meta::MetaParts::default()
        };
        let limit = self.config.listen_timeout;
        let request = self.send_own_request(Pending::Listen(id), METHOD, limit, now, |out| {
            let start = out.len();
            out.put_slice(params.as_bytes());
            parts.splice(out, start, "");
        });
        self.era_members = era_members;
        request
    }

    /// Opens what was waited for.
    pub(super) fn reopen_subscriptions(&mut self, now: Instant) {
        let due: Vec<_> = self
            .subscriptions
            .entries
            .iter()
            .filter(|(_, entry)| matches!(entry.state, State::Waiting(until) if until <= now))
            .map(|(id, entry)| (*id, entry.filter.clone()))
            .collect();
        for (id, filter) in due {
            let request = self.send_listen(id, &filter, now);
            if let Some(entry) = self.subscriptions.entries.get_mut(&id) {
                entry.state = State::Opening(request);
            }
        }
    }

    /// `notifications/subscriptions/acknowledged`.
    pub(super) fn acknowledged(&mut self, params: Option<&RawJson>, now: Instant) {
        let members = params.and_then(|params| Members::read(params.as_str()));
        let request = self.subscription_of(members.as_ref());
        let granted = members
            .and_then(|members| members.parse::<ListenFilter>("notifications"))
            .unwrap_or_default();
        let Some((id, entry)) = request
            .as_ref()
            .and_then(|request| self.subscriptions.find(request))
        else {
            return;
        };
        let State::Opening(request) = &entry.state else {
            return;
        };
        let request = request.clone();
        let mut missing = entry.filter.without(&granted);
        missing.tools_list_changed |= entry.unpromised.tools_list_changed;
        missing.prompts_list_changed |= entry.unpromised.prompts_list_changed;
        missing.resources_list_changed |= entry.unpromised.resources_list_changed;
        missing
            .resource_subscriptions
            .extend(entry.unpromised.resource_subscriptions.iter().cloned());
        entry.state = State::Open {
            request: request.clone(),
            since: now,
            heard: false,
        };
        let missed = std::mem::take(&mut entry.interrupted);
        let token = entry.token.clone();
        // From here on it may be silent for as long as nothing changes (SUB-18, C176).
        self.in_flight.pause(&request, now);
        self.events.push_back(Event::Subscription {
            id,
            token,
            change: SubscriptionChange::Open { missing },
        });
        if missed {
            self.events
                .push_back(Event::Notification(ServerNotification::MissedChanges));
        }
    }

    /// A notification came that may belong to a subscription.
    pub(super) fn heard_of_subscription(&mut self, method: &str, params: Option<&RawJson>) {
        if self.subscriptions.entries.is_empty() {
            return;
        }
        let members = params.and_then(|params| Members::read(params.as_str()));
        let Some(request) = self.subscription_of(members.as_ref()) else {
            return;
        };
        match self.subscriptions.find(&request) {
            Some((
                _,
                Subscription {
                    state: State::Open { heard, .. },
                    ..
                },
            )) => *heard = true,
            // SUB-12. It is delivered all the same.
            Some(_) => self.note(Diagnostic::Violation(Violation::NotAcknowledged {
                method: method.to_owned(),
            })),
            None => {}
        }
    }

    /// The listen request that a message belongs to: by its own word (SUB-14), else by the stream it came on.
    fn subscription_of(&self, members: Option<&Members<'_>>) -> Option<RequestId> {
        let named = members
            .and_then(|members| Members::read(members.get("_meta")?.get()))
            .and_then(|meta| RequestId::from_json(meta.get(meta::SUBSCRIPTION_ID)?.get()));
        let id = named.or_else(|| self.arrival.origin.clone())?;
        Some(id.canonical_number().map_or(id, RequestId::Number))
    }

    /// `notifications/cancelled`: about a request of the server in the legacy era (CAN-04), about a subscription in the
    /// modern one (CAN-05).
    pub(super) fn cancelled_by_server(&mut self, params: Option<&RawJson>, now: Instant) {
        let id = params
            .and_then(|params| Members::read(params.as_str()))
            .and_then(|members| RequestId::from_json(members.get("requestId")?.get()));
        let Some(id) = id else {
            return;
        };
        if self.server_took_back(&id, now) {
            return;
        }
        let id = id.canonical_number().map_or(id, RequestId::Number);
        if let Some((subscription, _)) = self.subscriptions.find(&id) {
            self.in_flight.abandon(&id);
            self.abort(&id);
            self.end_subscription(subscription, SubscriptionEnd::Graceful);
        }
    }

    /// The listen request was answered, or its stream ended.
    pub(super) fn listen_answered(&mut self, id: SubscriptionId, reply: Reply, now: Instant) {
        let refused = |reason: String| SubscriptionEnd::Refused { reason };
        match reply {
            Reply::Result(_) => self.end_subscription(id, SubscriptionEnd::Graceful),
            Reply::Error(error, Some(429 | 500..=599)) => {
                self.interrupt(id, &error.to_string(), now);
            }
            Reply::Error(error, _) => self.end_subscription(id, refused(error.to_string())),
            Reply::Http(failure) if is_refusal(&failure) => {
                self.end_subscription(id, refused(failure.to_string()));
            }
            Reply::Http(failure) => self.interrupt(id, &failure.to_string(), now),
            Reply::Fault(fault) => self.interrupt(id, &fault.to_string(), now),
        }
    }

    /// The stream is gone; another one is opened later.
    pub(super) fn interrupt(&mut self, id: SubscriptionId, reason: &str, now: Instant) {
        let Some(entry) = self.subscriptions.entries.get_mut(&id) else {
            return;
        };
        if let State::Open { since, heard, .. } = &entry.state
            && (*heard || now.saturating_duration_since(*since) >= GOOD_LIFE)
        {
            entry.backoff.reset();
        }
        // A clock that can't go on so far would end the subscription for good.
        let until = now.checked_add(entry.backoff.next_delay()).unwrap_or(now);
        entry.state = State::Waiting(until);
        entry.interrupted = true;
        let token = entry.token.clone();
        self.events.push_back(Event::Subscription {
            id,
            token,
            change: SubscriptionChange::Interrupted {
                reason: reason.to_owned(),
            },
        });
    }

    fn end_subscription(&mut self, id: SubscriptionId, end: SubscriptionEnd) {
        if let Some(entry) = self.subscriptions.entries.remove(&id) {
            self.events.push_back(Event::Subscription {
                id,
                token: entry.token,
                change: SubscriptionChange::Ended(end),
            });
        }
    }

    /// The connection is over.
    pub(super) fn end_subscriptions(&mut self) {
        for (id, entry) in std::mem::take(&mut self.subscriptions.entries) {
            self.events.push_back(Event::Subscription {
                id,
                token: entry.token,
                change: SubscriptionChange::Ended(SubscriptionEnd::ConnectionClosed),
            });
        }
    }
}

/// Whether asking again would bring the same.
fn is_refusal(failure: &HttpFailure) -> bool {
    failure
        .status
        .is_some_and(|status| (300..500).contains(&status) && status != 429)
}
