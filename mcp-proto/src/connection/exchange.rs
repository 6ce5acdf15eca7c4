//! Channels with an exchange for each message, as HTTP has them: what arrives on an exchange, and how one ends.
//!
//! On such a channel an answer is still found by its id, since legacy servers may send it on any stream (HTTPL-22). The
//! exchange decides only where the message itself does not: an error without a usable id belongs to the request whose
//! exchange it came on.

use std::time::Instant;

use bytes::Bytes;
use mcp_jsonrpc::RequestId;

use super::client::{ClientConnection, Pending};
use super::event::{Diagnostic, Event, ServerNotification};
use super::inbound::Reply;
use crate::error::CallFailure;
use crate::http::{Delivery, HttpFailure, HttpFailureKind};
use crate::quirk::Quirk;

/// How a channel carries messages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "messages share a channel or have one each"
)]
pub enum ChannelKind {
    /// All messages in one stream per direction: pipes, sockets.
    #[default]
    Shared,
    /// Each message opens an exchange of its own, on which answers to it arrive: HTTP.
    PerExchange,
}

/// A message that arrived on an exchange.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExchangeMessage {
    /// The request that opened the exchange; `None` if that was no request, or a stream for whatever the server has to say.
    pub origin: Option<RequestId>,
    /// The message.
    pub body: Bytes,
    /// The HTTP status, if it is one of failure.
    pub http_status: Option<u16>,
    /// Whether nothing follows on this exchange: then the origin must be answered by now (HTTP-07).
    pub is_last: bool,
}

impl ExchangeMessage {
    /// A message on the exchange of `origin`, with more to follow.
    pub fn new(origin: Option<RequestId>, body: Bytes) -> Self {
        Self {
            origin,
            body,
            http_status: None,
            is_last: false,
        }
    }

    /// It is all that the exchange brought.
    #[must_use]
    pub fn last(mut self) -> Self {
        self.is_last = true;
        self
    }

    /// It came with a status of failure.
    #[must_use]
    pub fn with_failure_status(mut self, status: u16) -> Self {
        self.http_status = Some(status);
        self
    }
}

/// Where the message being handled came from.
#[derive(Debug, Default)]
pub(super) struct Arrival {
    pub(super) origin: Option<RequestId>,
    pub(super) http_status: Option<u16>,
    /// Whether it is all that the exchange brought.
    pub(super) is_answer: bool,
}

impl<T: Clone> ClientConnection<T> {
    /// A message arrived on an exchange.
    pub fn handle_exchange_message(&mut self, message: ExchangeMessage, now: Instant) {
        const MAX_SHOWN_BYTES: usize = 160;
        let ExchangeMessage {
            origin,
            body,
            http_status,
            is_last,
        } = message;
        self.arrival = Arrival {
            origin: origin.clone(),
            http_status,
            is_answer: is_last,
        };
        let shown = body.slice(..body.len().min(MAX_SHOWN_BYTES));
        self.handle_message(body, now);
        self.arrival = Arrival::default();
        if let Some(origin) =
            origin.filter(|origin| is_last && self.in_flight.get(origin).is_some())
        {
            let detail = mcp_jsonrpc::clean_excerpt(&shown, MAX_SHOWN_BYTES);
            let mut failure =
                HttpFailure::new(HttpFailureKind::NoAnswer, Delivery::Unknown, detail);
            failure.status = http_status;
            self.handle_exchange_end(Some(origin), failure, now);
        }
    }

    /// An exchange ended without bringing what it was for. `origin` as in [`ExchangeMessage::origin`]. Harmless for a
    /// request that is settled already.
    pub fn handle_exchange_end(
        &mut self,
        origin: Option<RequestId>,
        failure: HttpFailure,
        now: Instant,
    ) {
        if failure.kind == HttpFailureKind::SessionLost && self.may_lose_session(origin.as_ref()) {
            self.lose_session(origin.as_ref(), &failure, now);
            return;
        }
        let Some(id) = origin else {
            self.note(Diagnostic::NotTaken(failure));
            return;
        };
        if self.in_flight.get(&id).is_some() {
            self.answered(id, Reply::Http(failure), now);
        }
    }

    /// The transport tolerated something.
    pub fn handle_quirk(&mut self, quirk: Quirk) {
        self.note(Diagnostic::Quirk(quirk));
    }

    /// The transport had a gap in what the server says by itself.
    pub fn handle_missed_changes(&mut self) {
        if !self.is_over() {
            self.events
                .push_back(Event::Notification(ServerNotification::MissedChanges));
        }
    }

    /// Takes over a request's exchange that nobody needs any more.
    pub(super) fn abort(&mut self, id: &RequestId) {
        // A server may answer or cancel what it can't know yet; then it need not be sent any more.
        let was_sent = !self.queue.take_back(id);
        if was_sent && self.channel == ChannelKind::PerExchange {
            self.aborts.push_back(id.clone());
        }
    }

    /// The next exchange to abandon. Only with [`ChannelKind::PerExchange`]; unknown ids are to be ignored.
    pub fn poll_abort(&mut self) -> Option<RequestId> {
        self.aborts.pop_front()
    }

    /// Settles all calls in flight for one that lost the session, and takes their exchanges back.
    pub(super) fn settle_for_lost_session(
        &mut self,
        origin: Option<&RequestId>,
        failure: &HttpFailure,
    ) {
        self.forget_server_requests();
        self.session.restoring = 0;
        for (id, pending) in self.in_flight.drain() {
            let Pending::Call(call) = pending else {
                if origin != Some(&id) {
                    self.abort(&id);
                }
                continue;
            };
            let mut failure = failure.clone();
            failure.delivery = match (origin == Some(&id), call.sent) {
                (true, _) => failure.delivery,
                (false, true) => Delivery::Unknown,
                (false, false) => Delivery::NotSent,
            };
            if call.sent && origin != Some(&id) {
                self.abort(&id);
            }
            self.settled(id, call.token, Err(CallFailure::Http(failure)));
        }
        self.queue.clear();
    }
}
