//! One message of ours and all that comes back on it.
//!
//! A request's exchange ends with its answer, with a failure that says why there is none, or when it is dropped, which
//! closes the stream. In the legacy era a stream that breaks is resumed where it broke (HTTPL-30 to HTTPL-35); in the modern
//! one it is lost (HTTPM-08).

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, Response};
use hyper::body::Incoming;
use mcp_jsonrpc::frame::{SseEvent, SseFrame};
use mcp_jsonrpc::{Incoming as Received, Message, Messages, RequestId, Response as RpcResponse};
use mcp_proto::Era;
use mcp_proto::connection::{ExchangeMessage, Outbound, OutboundKind};
use mcp_proto::http::{
    AnswerForm, Delivery, HttpFailure, HttpFailureKind, names_lost_session, sniff,
};
use mcp_proto::method::is_safe_to_repeat;
use mcp_proto::quirk::Quirk;
use tokio::sync::mpsc;

use crate::body::Body;
use crate::events::Events;
use crate::request::{Ask, Context, form};
use crate::resume::Resumption;
use crate::session::{SESSION_ID, add_fields};

/// What a channel tells the connection that it serves.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever drives the channel must handle each kind"
)]
pub enum HttpEvent {
    /// A message on an exchange.
    Message(ExchangeMessage),
    /// An exchange ended without bringing what it was for.
    Failed {
        /// The request that opened it, if it was one.
        origin: Option<RequestId>,
        /// Why.
        failure: HttpFailure,
    },
    /// A message on the stream of the old transport.
    Frame(mcp_jsonrpc::frame::NdjsonFrame),
    /// A rule was broken in a way that is tolerated.
    Quirk(Quirk),
    /// The stream for the server's own messages was interrupted; changes may have been missed.
    MissedChanges,
    /// The channel is over.
    End(mcp_proto::ChannelEnd),
}

/// Where events go; it holds few, so that a server is read only as fast as its messages are handled.
pub(crate) type Teller = mpsc::Sender<HttpEvent>;

/// Sends a message and hands over all that comes back.
pub(crate) async fn exchange(context: Arc<Context>, outbound: Outbound, events: Teller) {
    let exchange = Exchange {
        context: &context,
        outbound: &outbound,
        events: &events,
    };
    let failed = match outbound.kind() {
        OutboundKind::Request(_) => exchange.request().await,
        OutboundKind::Notification | OutboundKind::Response => {
            let limit = context.server.limits.notification_timeout;
            let timed_out = |_| {
                let detail = format!("not accepted within {limit:?} (limit notification_timeout)");
                HttpFailure::new(HttpFailureKind::Cut, Delivery::Unknown, detail)
            };
            tokio::time::timeout(limit, exchange.one_way())
                .await
                .map_err(timed_out)
                .flatten()
        }
    };
    if let Err(failure) = failed {
        let origin = outbound.request_id().cloned();
        exchange.tell(HttpEvent::Failed { origin, failure }).await;
    }
}

struct Exchange<'a> {
    context: &'a Context,
    outbound: &'a Outbound,
    events: &'a Teller,
}

impl Exchange<'_> {
    fn method(&self) -> &str {
        self.outbound.head().map_or("", |head| &head.method)
    }

    fn era(&self) -> Era {
        self.outbound.head().map_or(Era::Legacy, |head| head.era)
    }

    async fn tell(&self, event: HttpEvent) {
        // Nobody listens any more when the channel is dropped, and then this future is, too.
        let _ = self.events.send(event).await;
    }

    async fn message(&self, message: ExchangeMessage) {
        self.tell(HttpEvent::Message(message)).await;
    }

    /// Posts the message. The second value is the session that it named.
    async fn post(&self) -> Result<(Response<Incoming>, Option<HeaderValue>), HttpFailure> {
        let mut ask = Ask::post(self.outbound.body());
        ask.is_safe = is_safe_to_repeat(self.method());
        if let Some(head) = self.outbound.head() {
            add_fields(&head.fields, &mut ask.headers);
        }
        let mut session = None;
        // A new session is asked for without the old one (HTTPL-12), and the modern era has none (HTTPM-06).
        if self.method() == "initialize" {
            self.context.session.forget();
        } else if self.era() == Era::Legacy
            && let Some(id) = self.context.session.id()
        {
            ask.headers.insert(SESSION_ID, id.clone());
            session = Some(id);
        }
        Ok((self.context.ask(&ask).await?, session))
    }

    /// A notification, or an answer of ours: accepted or not (HTTP-05, C094).
    async fn one_way(&self) -> Result<(), HttpFailure> {
        let (response, session) = self.post().await?;
        if response.status().is_success() {
            // Others wait behind this (HTTPL-15), and a stream here may never end.
            if form(&response) != AnswerForm::EventStream {
                self.context.discard(response).await;
            }
            return Ok(());
        }
        Err(self.judged(response, session).await.0)
    }

    /// A request.
    async fn request(&self) -> Result<(), HttpFailure> {
        let (response, session) = self.post().await?;
        let status = response.status().as_u16();
        if response.status().is_success()
            && self.method() == "initialize"
            && self.context.session.begin(response.headers()).is_err()
        {
            return Err(
                HttpFailure::new(HttpFailureKind::SessionId, Delivery::Unknown, "")
                    .with_status(status),
            );
        }
        let form = form(&response);
        if form == AnswerForm::Error {
            return self.refused(response, session).await;
        }
        let (head, incoming) = response.into_parts();
        let broken = |error| self.context.broken(error, status);
        let mut body = Body::new(&head.headers, incoming).map_err(broken)?;
        let form = if form == AnswerForm::Unlabelled {
            let form = look(&mut body).await.map_err(broken)?;
            if matches!(form, AnswerForm::Json | AnswerForm::EventStream) {
                self.tell(HttpEvent::Quirk(Quirk::UnlabelledAnswer)).await;
            }
            form
        } else {
            form
        };
        let unusable = |kind, body: Bytes| {
            Err(
                HttpFailure::new(kind, Delivery::Unknown, self.context.shown(&body))
                    .with_status(status),
            )
        };
        match form {
            AnswerForm::Json => {
                let limit = self.context.server.limits.max_message_bytes;
                let text = body.collect(limit).await.map_err(broken)?;
                if text.iter().all(u8::is_ascii_whitespace) {
                    return unusable(HttpFailureKind::Empty, text);
                }
                let origin = self.outbound.request_id().cloned();
                self.message(ExchangeMessage::new(origin, text).last())
                    .await;
                Ok(())
            }
            AnswerForm::EventStream => self.stream(body, status).await,
            AnswerForm::Unusable(kind) => unusable(kind, self.excerpt(&mut body).await),
            _ => unusable(HttpFailureKind::Accepted, self.excerpt(&mut body).await),
        }
    }

    async fn excerpt(&self, body: &mut Body) -> Bytes {
        let limits = &self.context.server.limits;
        body.start(limits.max_error_bytes, limits.error_timeout)
            .await
    }

    /// An error status: its body may hold the JSON-RPC error of this request (HTTP-06, C049).
    async fn refused(
        &self,
        response: Response<Incoming>,
        session: Option<HeaderValue>,
    ) -> Result<(), HttpFailure> {
        let (failure, body) = self.judged(response, session).await;
        if failure.kind == HttpFailureKind::SessionLost || !holds_error(&body) {
            return Err(failure);
        }
        let origin = self.outbound.request_id().cloned();
        let message = ExchangeMessage::new(origin, body)
            .with_failure_status(failure.status.unwrap_or_default());
        self.message(message.last()).await;
        Ok(())
    }

    /// What an error status means, and its body. A session may be lost although the status does not say so (C099).
    async fn judged(
        &self,
        response: Response<Incoming>,
        session: Option<HeaderValue>,
    ) -> (HttpFailure, Bytes) {
        let in_session = session.is_some();
        let wants_token = response.headers().contains_key(WWW_AUTHENTICATE);
        let (mut failure, body) = self.context.refusal(response, in_session).await;
        // Who was not let in, or was answered, was understood: then the words mean something else.
        let is_answered = !body.is_empty() && self.is_answered_by(&body);
        if in_session
            && !wants_token
            && !is_answered
            && names_lost_session(failure.status.unwrap_or_default(), &body)
        {
            self.tell(HttpEvent::Quirk(Quirk::SessionLostInWords)).await;
            failure.kind = HttpFailureKind::SessionLost;
        }
        // That an earlier session is gone is known, and says nothing about the one that took its place (C100).
        if failure.kind == HttpFailureKind::SessionLost && session != self.context.session.id() {
            failure.kind = HttpFailureKind::Status;
        }
        (failure, body)
    }

    /// A stream of events, resumed where it breaks as long as the era allows it.
    async fn stream(&self, body: Body, status: u16) -> Result<(), HttpFailure> {
        let max_event_bytes = self.context.server.limits.max_message_bytes;
        let mut resumption = Resumption::new(self.context);
        let mut events = Events::new(body, max_event_bytes);
        loop {
            let failure = match self.read(&mut events, &mut resumption, status).await? {
                Ended::Answered => return Ok(()),
                Ended::Early(failure) => failure,
            };
            if self.era() == Era::Modern {
                return Err(failure);
            }
            let body = resumption.resume(failure).await?;
            events = Events::new(body, max_event_bytes);
        }
    }

    /// Reads a stream to its end, or for a bounded time after the answer (C135).
    async fn read(
        &self,
        events: &mut Events,
        resumption: &mut Resumption<'_>,
        status: u16,
    ) -> Result<Ended, HttpFailure> {
        let failed = |kind, detail: String| {
            HttpFailure::new(kind, Delivery::Unknown, detail).with_status(status)
        };
        // Begins anew with the answer.
        let drain = tokio::time::sleep(Duration::ZERO);
        let mut drain = std::pin::pin!(drain);
        let mut answered = false;
        loop {
            let next = tokio::select! {
                biased;
                next = events.next() => next,
                () = &mut drain, if answered => return Ok(Ended::Answered),
            };
            let (event, is_whole) = match next {
                Some(Ok(SseFrame::Event(event))) => (event, true),
                Some(Ok(SseFrame::Unterminated(event))) => (event, false),
                Some(Ok(SseFrame::Primer { id, retry })) => {
                    resumption.note(id, retry);
                    continue;
                }
                Some(Ok(SseFrame::TooLong(long))) => {
                    let limit = long.limit_bytes;
                    if !answered && !long.is_call && self.is_own(long.id.as_ref()) {
                        let detail =
                            format!("{} bytes (limit max_message_bytes {limit})", long.bytes);
                        return Err(failed(HttpFailureKind::TooLong, detail));
                    }
                    continue;
                }
                Some(Ok(_)) => continue,
                _ if answered => return Ok(Ended::Answered),
                Some(Err(error)) => {
                    return Ok(Ended::Early(self.context.broken(error, status)));
                }
                None => {
                    let failure = failed(HttpFailureKind::StreamEnded, String::new());
                    return Ok(Ended::Early(failure));
                }
            };
            resumption.note(event.id.clone(), event.retry);
            if !is_message(&event) {
                continue;
            }
            let is_answer = self.is_answered_by(&event.data);
            if !is_whole {
                // Half an answer is none: the stream may be resumed where it comes whole.
                if !is_answer || !is_complete(&event.data) {
                    continue;
                }
                self.tell(HttpEvent::Quirk(Quirk::UnterminatedEvent)).await;
            }
            if !is_answer && resumption.is_replay(&event.data) {
                continue;
            }
            let origin = self.outbound.request_id().cloned();
            self.message(ExchangeMessage::new(origin, event.data)).await;
            if is_answer && !answered {
                answered = true;
                let limit = self.context.server.limits.drain_timeout;
                // A limit without end is one, too.
                drain.set(tokio::time::sleep(limit));
            }
        }
    }

    /// Whether the answer is in this data, by itself or in a batch; it may be broken.
    fn is_answered_by(&self, data: &Bytes) -> bool {
        if !data.trim_ascii_start().starts_with(b"[") {
            return self.is_own(mcp_jsonrpc::salvage::salvage_answer(data).as_ref());
        }
        let is_own = |member| matches!(member, Ok(Message::Response(RpcResponse { id, .. })) if self.is_own(id.as_ref()));
        Messages::new(data.clone()).any(|received| match received {
            Received::Batch(members) => members.into_iter().any(is_own),
            _ => false,
        })
    }

    fn is_own(&self, id: Option<&RequestId>) -> bool {
        let own = self.outbound.request_id();
        id.is_some_and(|id| {
            Some(id) == own || id.canonical_number().map(RequestId::Number).as_ref() == own
        })
    }
}

/// How a stream ended.
enum Ended {
    Answered,
    /// Without the answer.
    Early(HttpFailure),
}

/// Whether data is a message to its end.
fn is_complete(data: &Bytes) -> bool {
    Messages::new(data.clone()).all(|received| !matches!(received, Received::Fault(_)))
}

/// Whether an event is a message: one with another name is not (HTTP-08, C130).
pub(crate) fn is_message(event: &SseEvent) -> bool {
    matches!(event.kind.as_deref(), None | Some("" | "message"))
}

/// How far into a body its form is looked for.
const MAX_LOOKED_AT_BYTES: usize = 64 * 1024;

/// Looks at the start of a body whose label does not tell its form, and gives it back.
async fn look(body: &mut Body) -> Result<AnswerForm, crate::body::BodyError> {
    let mut start = BytesMut::new();
    loop {
        let chunk = body.chunk().await.transpose()?;
        let is_all = chunk.is_none();
        start.extend_from_slice(&chunk.unwrap_or_default());
        let form = sniff(&start, is_all).or_else(|| {
            // Space without end.
            (start.len() > MAX_LOOKED_AT_BYTES)
                .then_some(AnswerForm::Unusable(HttpFailureKind::ContentType))
        });
        if let Some(form) = form {
            body.unread(start.freeze());
            return Ok(form);
        }
    }
}

/// Whether a body is a JSON-RPC error.
fn holds_error(body: &Bytes) -> bool {
    let is_error = |received| {
        matches!(
            received,
            Received::Message(
                Message::Response(RpcResponse {
                    outcome: Err(_),
                    ..
                }),
                _
            )
        )
    };
    Messages::new(body.clone()).any(is_error)
}

/// The value of `Last-Event-ID`; an id that can't be a header's value can't be resumed at. An empty one takes the last back.
pub(crate) fn last_event_id(id: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(id.as_bytes())
        .ok()
        .filter(|id| !id.is_empty())
}
