//! Legacy sessions: what is restored when the server has forgotten one.
//!
//! A lost session costs the requests in flight; nothing is sent twice. The new session gets the log level and the
//! subscriptions of the old one before the host may go on (HTTPL-12, SUB-04, C099, C100, C175).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bytes::BufMut;
use mcp_jsonrpc::{RequestId, TimedOut};

use super::client::{ClientConnection, Pending};
use super::event::{Diagnostic, Event, ServerNotification};
use crate::error::ChannelEnd;
use crate::http::HttpFailure;
use crate::lifecycle::{Input, Lifecycle};
use crate::members::Members;
use crate::version::Era;

/// How often in a row a session may be lost before anything was answered in it, or it has lived for a while.
pub const MAX_SESSION_LOSSES: u32 = 3;

/// A session that lived so long was a good one, even if nothing was asked in it.
const GOOD_LIFE: Duration = Duration::from_secs(60);

/// What the server was told that lasts as long as a session.
#[derive(Debug, Default)]
pub(super) struct SessionState {
    /// The newest `logging/setLevel` that went well, and its parameters. Answers come in any order.
    log_level: Option<(RequestId, String)>,
    /// URIs.
    subscriptions: BTreeSet<String>,
    /// Requests that restore the session and were not answered yet.
    pub(super) restoring: usize,
    /// The session was lost, and the new one is not ready yet.
    pub(super) lost: bool,
    /// Losses since a session was a good one.
    losses: u32,
    /// Since when there is a session.
    since: Option<Instant>,
}

/// What a request changes about a session, if it goes well.
#[derive(Debug)]
pub(super) enum SessionChange {
    LogLevel(String),
    Subscribe(String),
    Unsubscribe(String),
}

impl SessionChange {
    /// What a request with these parameters changes.
    pub(super) fn of(method: &str, params: &str) -> Option<Self> {
        let uri = || Members::read(params)?.text("uri");
        match method {
            "logging/setLevel" => {
                let level = Members::read(params)?.get("level")?;
                Some(Self::LogLevel(format!(r#"{{"level":{}}}"#, level.get())))
            }
            "resources/subscribe" => Some(Self::Subscribe(uri()?)),
            "resources/unsubscribe" => Some(Self::Unsubscribe(uri()?)),
            _ => None,
        }
    }
}

impl<T: Clone> ClientConnection<T> {
    /// A request that changes the session went well.
    pub(super) fn session_changed(&mut self, id: &RequestId, change: SessionChange) {
        let session = &mut self.session;
        match change {
            SessionChange::LogLevel(params) => {
                if session
                    .log_level
                    .as_ref()
                    .is_none_or(|(before, _)| before < id)
                {
                    session.log_level = Some((id.clone(), params));
                }
            }
            SessionChange::Subscribe(uri) => {
                if session.subscriptions.len() < self.config.limits.max_restored_subscriptions {
                    session.subscriptions.insert(uri);
                }
            }
            SessionChange::Unsubscribe(uri) => {
                session.subscriptions.remove(&uri);
            }
        }
    }

    /// The server answered something: the session works.
    pub(super) fn session_works(&mut self) {
        self.session.losses = 0;
    }

    pub(super) fn session_began(&mut self, now: Instant) {
        self.session.since = Some(now);
    }

    /// Whether a lost session is news: not while a new one is opened already, unless it is the new one that was lost.
    pub(super) fn may_lose_session(&self, origin: Option<&RequestId>) -> bool {
        let pending = |id| self.in_flight.get(id);
        let ours = origin.is_none_or(|id| pending(id).is_some());
        let restores = origin.and_then(pending);
        let is_new = matches!(restores, Some(Pending::Restore { .. }));
        let legacy = self
            .agreement
            .as_ref()
            .is_some_and(|agreement| agreement.era == Era::Legacy);
        ours && legacy
            && (self.session.restoring == 0 || is_new)
            && matches!(self.lifecycle, Lifecycle::Ready(_))
    }

    pub(super) fn lose_session(
        &mut self,
        origin: Option<&RequestId>,
        failure: &HttpFailure,
        now: Instant,
    ) {
        self.settle_for_lost_session(origin, failure);
        let lived = |since| now.saturating_duration_since(since);
        if self
            .session
            .since
            .is_some_and(|since| lived(since) >= GOOD_LIFE)
        {
            self.session.losses = 0;
        }
        self.session.losses += 1;
        if self.session.losses > MAX_SESSION_LOSSES {
            let end = ChannelEnd::new(format!(
                "the server forgot {MAX_SESSION_LOSSES} sessions in a row before it answered anything"
            ));
            self.own_end = Some(end.clone());
            self.handle_channel_end(end, now);
            return;
        }
        self.start_by = now.checked_add(self.config.start_timeout);
        // While one is restored, the host waits already.
        if !std::mem::replace(&mut self.session.lost, true) {
            self.events.push_back(Event::SessionLost);
        }
        self.step(Input::SessionLost, now);
    }

    /// Tells a new session what the old one was told, as far as the server still offers it (VER-17).
    pub(super) fn restore_session(&mut self, now: Instant) {
        let level = self.session.log_level.clone();
        let level = level.map(|(_, params)| ("logging/setLevel", params));
        let subscriptions = self.session.subscriptions.iter().map(|uri| {
            let params = serde_json::json!({ "uri": uri }).to_string();
            ("resources/subscribe", params)
        });
        let requests: Vec<_> = level.into_iter().chain(subscriptions).collect();
        let limit = self.time_to_start(now);
        let agreement = self.agreement.clone();
        let offers = |capability| {
            let agreement = agreement.as_ref();
            agreement.is_some_and(|agreement| agreement.capabilities.offers(capability))
        };
        for (method, params) in requests {
            let capability = match method {
                "logging/setLevel" => "logging",
                _ => "resources.subscribe",
            };
            if !offers(capability) {
                let reason = format!("the server does not offer {capability}");
                self.note(Diagnostic::NotRestored { method, reason });
                continue;
            }
            self.session.restoring += 1;
            let pending = Pending::Restore { method };
            self.send_own_request(pending, method, limit, now, |out| {
                out.put_slice(params.as_bytes());
            });
        }
    }

    /// A request that restores the session was answered, or was not.
    pub(super) fn restored(&mut self, method: &'static str, failed: Option<String>) {
        if let Some(reason) = failed {
            self.note(Diagnostic::NotRestored { method, reason });
        }
        self.session.restoring = self.session.restoring.saturating_sub(1);
        self.announce_ready();
    }

    pub(super) fn restore_timed_out(&mut self, method: &'static str, timed_out: TimedOut) {
        self.restored(method, Some(timed_out.to_string()));
    }

    /// Tells the host that it may go on, once nothing is left to restore.
    pub(super) fn announce_ready(&mut self) {
        if self.session.restoring > 0 {
            return;
        }
        let Some(agreement) = self.agreement.clone() else {
            return;
        };
        self.events.push_back(Event::Ready(agreement));
        if std::mem::take(&mut self.session.lost) {
            self.events
                .push_back(Event::Notification(ServerNotification::MissedChanges));
        }
    }
}
