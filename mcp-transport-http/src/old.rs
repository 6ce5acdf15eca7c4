//! HTTP+SSE, the transport of 2024-11-05: one stream for all that the server says, one URL for all that we say.
//!
//! Deprecated, and the last resort (SSE24-01 to SSE24-06). The stream is the session: when it ends, all ends.

use std::fmt;
use std::sync::Arc;

use http::Uri;
use mcp_jsonrpc::frame::{NdjsonFrame, SseFrame};
use mcp_proto::ChannelEnd;
use mcp_proto::connection::{Outbound, OutboundKind};
use mcp_proto::http::{AnswerForm, Delivery, HttpFailure, HttpFailureKind};
use thiserror::Error;

use crate::body::Body;
use crate::events::Events;
use crate::exchange::{HttpEvent, Teller, is_message};
use crate::request::{Ask, Context, form};

/// Why the old transport could not be opened.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum OldTransportError {
    /// The stream named an endpoint that can't be used (C133).
    #[error("the endpoint that the server named can't be used: {0}")]
    Endpoint(crate::endpoint::EndpointError),
    /// No stream.
    #[error("no stream of events: {0}")]
    NoStream(HttpFailure),
    /// The stream did not begin with an endpoint.
    #[error("the stream of events did not begin with an endpoint: {reason}")]
    NoEndpoint {
        /// What came instead.
        reason: String,
    },
}

/// An open stream, and where messages go.
pub(crate) struct OldStream {
    events: Events,
    pub(crate) target: Uri,
}

/// Without the URL, whose query is the session.
impl fmt::Debug for OldStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OldStream")
    }
}

impl OldStream {
    /// Opens the stream and waits for the endpoint.
    pub(crate) async fn open(context: &Context) -> Result<Self, OldTransportError> {
        let limit = context.server.limits.endpoint_timeout;
        tokio::time::timeout(limit, Self::open_in_time(context))
            .await
            .unwrap_or_else(|_| {
                Err(OldTransportError::NoEndpoint {
                    reason: format!("nothing within {limit:?} (limit endpoint_timeout)"),
                })
            })
    }

    async fn open_in_time(context: &Context) -> Result<Self, OldTransportError> {
        let response = context
            .ask(&Ask::events())
            .await
            .map_err(OldTransportError::NoStream)?;
        let status = response.status().as_u16();
        let failure = |kind, detail: String| {
            let failure = HttpFailure::new(kind, Delivery::Refused, detail).with_status(status);
            OldTransportError::NoStream(failure)
        };
        match form(&response) {
            AnswerForm::EventStream | AnswerForm::Unlabelled => {}
            AnswerForm::Error => {
                let (failure, _) = context.refusal(response, false).await;
                return Err(OldTransportError::NoStream(failure));
            }
            AnswerForm::Unusable(kind) => return Err(failure(kind, String::new())),
            _ => return Err(failure(HttpFailureKind::ContentType, String::new())),
        }
        let (head, incoming) = response.into_parts();
        let body = Body::new(&head.headers, incoming)
            .map_err(|error| OldTransportError::NoStream(context.broken(error, status)))?;
        let mut events = Events::new(body, context.server.limits.max_message_bytes);
        loop {
            let reason = match events.next().await {
                Some(Ok(SseFrame::Event(event))) if event.kind.as_deref() == Some("endpoint") => {
                    let text = String::from_utf8_lossy(&event.data);
                    let endpoint = context
                        .server
                        .endpoint
                        .resolve(&text)
                        .map_err(OldTransportError::Endpoint)?;
                    let target =
                        endpoint
                            .as_str()
                            .parse()
                            .map_err(|error: http::uri::InvalidUri| {
                                OldTransportError::NoEndpoint {
                                    reason: error.to_string(),
                                }
                            })?;
                    return Ok(Self { events, target });
                }
                Some(Ok(SseFrame::Comment | SseFrame::Primer { .. })) => continue,
                Some(Ok(SseFrame::Event(event))) => {
                    format!("it began with {}", context.shown(&event.data))
                }
                Some(Ok(_)) | None => "it ended".to_owned(),
                Some(Err(_)) => "the connection was lost".to_owned(),
            };
            return Err(OldTransportError::NoEndpoint { reason });
        }
    }

    /// The next thing on the stream.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> HttpEvent {
        loop {
            let end = match self.events.next().await {
                Some(Ok(SseFrame::Event(event))) if is_message(&event) => {
                    return HttpEvent::Frame(NdjsonFrame::Line(event.data));
                }
                Some(Ok(SseFrame::TooLong(long))) => {
                    return HttpEvent::Frame(NdjsonFrame::TooLong(long));
                }
                Some(Ok(SseFrame::Unterminated(event))) if is_message(&event) => {
                    return HttpEvent::Frame(NdjsonFrame::Unterminated(event.data));
                }
                Some(Ok(_)) => continue,
                Some(Err(_)) => "the connection with the server's stream was lost",
                None => "the server ended its stream",
            };
            return HttpEvent::End(ChannelEnd::new(end));
        }
    }
}

/// Posts a message to the endpoint. Its answer comes on the stream; here only whether it was taken (SSE24-04, C133).
pub(crate) async fn post(context: Arc<Context>, target: Uri, outbound: Outbound, events: Teller) {
    let mut ask = Ask::post(outbound.body());
    ask.uri = Some(target);
    let limits = &context.server.limits;
    // Some servers are done with a request before they say that they took it.
    let (limit, name) = match outbound.kind() {
        OutboundKind::Request(_) => (limits.old_request_timeout, "old_request_timeout"),
        _ => (limits.notification_timeout, "notification_timeout"),
    };
    let posting = async {
        let response = context.ask(&ask).await?;
        if response.status().is_success() {
            context.discard(response).await;
            return Ok(());
        }
        Err(context.refusal(response, false).await.0)
    };
    let outcome = tokio::time::timeout(limit, posting).await;
    let failure = match outcome {
        Ok(Ok(())) => return,
        Ok(Err(failure)) => failure,
        Err(_) => {
            let detail = format!("not accepted within {limit:?} (limit {name})");
            HttpFailure::new(HttpFailureKind::Cut, Delivery::Unknown, detail)
        }
    };
    let origin = outbound.request_id().cloned();
    let _ = events.send(HttpEvent::Failed { origin, failure }).await;
}
