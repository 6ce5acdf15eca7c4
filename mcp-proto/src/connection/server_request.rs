//! Requests of the server, in the legacy era: told to the host, answered exactly once (JR-10).
//!
//! | State | Input | Next |
//! |---|---|---|
//! | – | a method that the host answers | Open: the host is told, the clocks of the calls that wait for it stand still |
//! | – | `ping` | answered at once (PING-01) |
//! | – | anything else | refused at once (JR-11) |
//! | Open | the host's answer | sent; the clocks go on |
//! | Open | `notifications/cancelled` | gone, nothing is sent (CAN-04) |
//! | Open | the session or the channel is lost | gone |
//!
//! Which call made the server ask is known where it asked on that call's own stream, and where only one call is in flight.
//! Requests that came inside a batch are answered one by one as the host is done with them.

use std::collections::BTreeMap;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use mcp_jsonrpc::{ErrorCode, ErrorObject, RawJson, Request, RequestId, encode};
use serde_json::value::RawValue;

use super::client::{ClientConnection, Pending};
use super::event::{Diagnostic, Event};
use super::exchange::ChannelKind;
use crate::error::Violation;
use crate::lifecycle::Lifecycle;
use crate::version::Era;

/// A request of the server that waits for the host's answer: see [`ClientConnection::answer`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ServerRequest<T> {
    /// The server's id for it.
    pub id: RequestId,
    /// The method: one of [`ClientConfig::answers`](super::ClientConfig::answers).
    pub method: String,
    /// The parameters, if they are an object.
    pub params: Option<RawJson>,
    /// What the caller of the request handed in that made the server ask; `None` when that is not certain.
    pub cause: Option<T>,
}

/// Requests that the host was told of.
#[derive(Debug, Default)]
pub(super) struct ServerRequests(BTreeMap<RequestId, Vec<RequestId>>);

impl<T: Clone> ClientConnection<T> {
    /// Answers a request of the server, or records why not. Returns the answer if there is one already. The pair: answers, and
    /// their bytes, that are not in the queue yet.
    pub(super) fn asked(
        &mut self,
        request: Request,
        (more, more_bytes): (usize, usize),
        now: Instant,
    ) -> Option<Bytes> {
        let Request {
            id, method, params, ..
        } = request;
        let era = self.agreement.as_ref().map(|agreement| agreement.era);
        if era == Some(Era::Modern) {
            self.note(Diagnostic::Violation(Violation::RequestInModernEra {
                method,
                id,
            }));
            return None;
        }
        // The exchange of a probe is modern, whatever comes of it: no answer goes over it (HTTPM-01, JR-12).
        let on_probe = self.channel == ChannelKind::PerExchange
            && era.is_none()
            && self.arrival.origin.is_some()
            && self.arrival.origin == self.probe_id;
        if on_probe {
            self.note(Diagnostic::Violation(Violation::RequestInModernEra {
                method,
                id,
            }));
            return None;
        }
        let limits = self.config.limits;
        let waiting = self.queue.answers() + more;
        let bytes = self.queue.answer_bytes() + more_bytes;
        // One answer is always allowed, however long its id is.
        if waiting >= limits.max_queued_answers
            || (waiting > 0 && bytes >= limits.max_queued_answer_bytes)
        {
            self.note(Diagnostic::Violation(Violation::UnreadAnswers {
                method,
                id,
                waiting,
            }));
            return None;
        }
        // In every state, also before the handshake is done (PING-01).
        if method == "ping" {
            return Some(line(&id, Ok("{}")));
        }
        // What a lost session still asks can't be answered in the next one.
        let ready = matches!(self.lifecycle, Lifecycle::Ready(_));
        if !ready || !self.config.answers.contains(&method) {
            let error = ErrorObject::new(
                ErrorCode::METHOD_NOT_FOUND,
                "this client does not offer that method",
            );
            return Some(line(&id, Err(&error)));
        }
        if self.server_requests.0.contains_key(&id) {
            // Two answers to one id would be one too many (JR-10).
            self.note(Diagnostic::Violation(Violation::RepeatedRequest {
                method,
                id,
            }));
            return None;
        }
        let limit = limits.max_server_requests;
        if self.server_requests.0.len() >= limit {
            let error = ErrorObject::new(
                ErrorCode::INTERNAL_ERROR,
                format!("{limit} requests wait for this client's answer already"),
            );
            return Some(line(&id, Err(&error)));
        }
        let cause = self.pause_for(&id, now);
        self.events.push_back(Event::ServerRequest(ServerRequest {
            id,
            method,
            params: params.filter(RawJson::is_object),
            cause,
        }));
        None
    }

    /// Stops the clocks of the calls that may wait for this request (VER-24); returns the token of the call that certainly
    /// does.
    fn pause_for(&mut self, id: &RequestId, now: Instant) -> Option<T> {
        let is_call = |pending: Option<&Pending<T>>| matches!(pending, Some(Pending::Call(_)));
        let origin = self.arrival.origin.clone();
        let calls = match origin.filter(|origin| is_call(self.in_flight.get(origin))) {
            Some(origin) => vec![origin],
            None => self
                .in_flight
                .ids_where(|pending| matches!(pending, Pending::Call(_))),
        };
        for call in &calls {
            self.in_flight.pause(call, now);
        }
        let cause = match calls.as_slice() {
            [only] => match self.in_flight.get(only) {
                Some(Pending::Call(call)) => Some(call.token.clone()),
                _ => None,
            },
            _ => None,
        };
        self.server_requests.0.insert(id.clone(), calls);
        cause
    }

    /// Sends the host's answer to an [`Event::ServerRequest`]. Returns whether it was still wanted: not when the server took
    /// its request back, or the session or connection is over.
    pub fn answer(
        &mut self,
        id: &RequestId,
        outcome: Result<&RawValue, &ErrorObject>,
        now: Instant,
    ) -> bool {
        let Some(paused) = self.server_requests.0.remove(id) else {
            return false;
        };
        let mut answer = line(id, outcome.map(RawValue::get));
        let limit = self.config.limits.max_message_bytes;
        if answer.len() > limit {
            let error = ErrorObject::new(
                ErrorCode::INTERNAL_ERROR,
                format!("the answer is longer than {limit} bytes"),
            );
            answer = line(id, Err(&error));
        }
        self.send_response(answer);
        self.resume_all(&paused, now);
        true
    }

    /// `notifications/cancelled` for a request of the server.
    pub(super) fn server_took_back(&mut self, id: &RequestId, now: Instant) -> bool {
        let Some(paused) = self.server_requests.0.remove(id) else {
            return false;
        };
        self.resume_all(&paused, now);
        self.events
            .push_back(Event::ServerRequestCancelled(id.clone()));
        true
    }

    /// Nobody waits for any answer any more.
    pub(super) fn forget_server_requests(&mut self) {
        for (id, _) in std::mem::take(&mut self.server_requests.0) {
            self.events.push_back(Event::ServerRequestCancelled(id));
        }
    }

    fn resume_all(&mut self, paused: &[RequestId], now: Instant) {
        for call in paused {
            self.in_flight.resume(call, now);
        }
    }
}

fn line(id: &RequestId, outcome: Result<&str, &ErrorObject>) -> Bytes {
    let mut line = BytesMut::new();
    match outcome {
        Ok(result) => encode::result(&mut line, id, result),
        Err(error) => encode::error(&mut line, id, error),
    }
    line.freeze()
}
