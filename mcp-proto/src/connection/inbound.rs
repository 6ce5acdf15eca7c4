//! What the server sends.
//!
//! Rules: JR-07 to JR-14, JR-20 to JR-23 (batches), JR-40 to JR-43 (`resultType`), PING-01, PROG-03, CAN-04, CAN-05.

use std::borrow::Cow;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use mcp_jsonrpc::frame::NdjsonFrame;
use mcp_jsonrpc::{
    ErrorObject, FaultKind, Incoming, Message, MessageFault, Messages, Notification, RawJson,
    RequestId, Response, Settled, encode,
};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::{Call, ClientConnection, Pending};
use super::event::{Answer, Diagnostic, Event, ServerNotification};
use crate::error::{CallFailure, PeerFault, Violation};
use crate::http::HttpFailure;
use crate::lifecycle::{Input, Lifecycle, Unanswered};
use crate::members::Members;
use crate::model::progress::Progress;
use crate::model::task::TaskState;
use crate::quirk::Quirk;
use crate::version::Era;

/// How a request was answered.
pub(super) enum Reply {
    /// An error, and the HTTP status that it came with if that was one of failure.
    Error(ErrorObject, Option<u16>),
    Fault(PeerFault),
    Http(HttpFailure),
    Result(RawJson),
}

impl<T: Clone> ClientConnection<T> {
    /// A frame arrived on the channel.
    pub fn handle_frame(&mut self, frame: NdjsonFrame, now: Instant) {
        match frame {
            NdjsonFrame::Line(line) | NdjsonFrame::Unterminated(line) => {
                self.handle_message(line, now)
            }
            NdjsonFrame::TooLong(long) => {
                if let (Some(id), false) = (&long.id, long.is_call) {
                    let fault = PeerFault::TooLong {
                        bytes: long.bytes,
                        limit_bytes: long.limit_bytes,
                    };
                    self.answered(id.clone(), Reply::Fault(fault), now);
                } else {
                    let fault = MessageFault::new(FaultKind::TooLong, &long.head, None);
                    self.note(Diagnostic::Noise(fault));
                }
            }
            _ => {}
        }
    }

    /// A message arrived without framing: the body of an HTTP answer, the data of an event.
    pub fn handle_message(&mut self, message: Bytes, now: Instant) {
        for incoming in Messages::new(message) {
            if self.is_over() {
                return;
            }
            match incoming {
                Incoming::Message(message, oddities) => {
                    for oddity in oddities.iter() {
                        self.note(Diagnostic::Quirk(Quirk::Message(oddity)));
                    }
                    if let Some(answer) = self.handle_one(message, (0, 0), now) {
                        self.send_response(answer);
                    }
                }
                Incoming::Batch(members) => self.handle_batch(members, now),
                Incoming::Fault(fault) => self.handle_fault(fault, now),
                _ => {}
            }
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.lifecycle, Lifecycle::Closed | Lifecycle::Failed(_))
    }

    fn handle_fault(&mut self, fault: MessageFault, now: Instant) {
        // What came as the whole answer to a request is that request's trouble.
        let origin = self.arrival.origin.clone();
        let answers = fault.answers.clone();
        match answers.or_else(|| origin.filter(|_| self.arrival.is_answer)) {
            Some(id) => self.answered(id, Reply::Fault(PeerFault::Message(fault)), now),
            None => self.note(Diagnostic::Noise(fault)),
        }
    }

    fn handle_batch(&mut self, members: Vec<Result<Message, MessageFault>>, now: Instant) {
        if let Some(agreement) = self.agreement.clone()
            && agreement.version.accepts_batches()
        {
            let mut answers: Vec<Bytes> = Vec::new();
            for member in members {
                // The member before it may have ended a handshake for a new session.
                if self.is_over() {
                    return;
                }
                match member {
                    Ok(message) => {
                        let waiting = (answers.len(), answers.iter().map(Bytes::len).sum());
                        answers.extend(self.handle_one(message, waiting, now));
                    }
                    Err(fault) => self.handle_fault(fault, now),
                }
            }
            if !answers.is_empty() && !self.is_over() {
                // JR-22: one array of responses.
                let mut line = BytesMut::new();
                encode::response_batch(&mut line, answers.iter().map(AsRef::as_ref));
                self.send_response(line.freeze());
            }
            return;
        }
        // Malformed in this version (JR-23); but nobody may wait for ever for an answer that was inside.
        let version = match (&self.agreement, &self.lifecycle) {
            (Some(agreement), _) => agreement.version.clone(),
            (None, _) => crate::version::ProtocolVersion::NEWEST_LEGACY,
        };
        self.note(Diagnostic::Violation(Violation::Batch {
            version: version.clone(),
        }));
        for member in members {
            if let Ok(Message::Response(Response { id: Some(id), .. })) = member {
                let fault = PeerFault::BatchNotAllowed {
                    version: version.clone(),
                };
                self.answered(id, Reply::Fault(fault), now);
            }
        }
    }

    /// Handles a message; returns the answer's line if it was a request that wants one. `waiting`: answers, and their
    /// bytes, that are not in the queue yet.
    fn handle_one(
        &mut self,
        message: Message,
        waiting: (usize, usize),
        now: Instant,
    ) -> Option<Bytes> {
        match message {
            Message::Request(request) => self.asked(request, waiting, now),
            Message::Notification(notification) => {
                self.handle_notification(notification, now);
                None
            }
            Message::Response(Response { id, outcome, .. }) => {
                let status = self.arrival.http_status;
                // An error whose id is no request's of ours belongs to the request that it came on (HTTP-06, C049).
                let known = |id: &RequestId| self.in_flight.get(id).is_some();
                let id = match (&outcome, &self.arrival.origin) {
                    (Err(_), Some(origin))
                        if id.is_none()
                            || (status.is_some() && !id.as_ref().is_some_and(known)) =>
                    {
                        Some(origin.clone())
                    }
                    _ => id,
                };
                match (id, outcome) {
                    (Some(id), Ok(result)) => self.answered(id, Reply::Result(result), now),
                    (Some(id), Err(error)) => self.answered(id, Reply::Error(error, status), now),
                    (None, Err(error)) => self.note(Diagnostic::PeerError(error)),
                    (None, Ok(_)) => {}
                }
                None
            }
        }
    }

    pub(super) fn answered(&mut self, id: RequestId, reply: Reply, now: Instant) {
        // All ids of ours are numbers, so a text can only be one of them spelled out (C060).
        let (id, as_text) = match id.canonical_number() {
            Some(number) => (RequestId::Number(number), true),
            None => (id, false),
        };
        match self.in_flight.settle(&id) {
            Settled::Matched(pending) => {
                if as_text {
                    self.note(Diagnostic::Quirk(Quirk::IdAsText));
                }
                // Another stream brought it: nobody waits for its own any more (HTTPL-22).
                if !matches!(pending, Pending::Probe | Pending::Initialize)
                    && self.arrival.origin.as_ref() != Some(&id)
                    && !matches!(reply, Reply::Http(_))
                {
                    self.abort(&id);
                }
                match pending {
                    Pending::Probe => self.step(Input::Probe(reply.into_lifecycle_answer()), now),
                    Pending::Initialize => {
                        self.step(Input::Initialize(reply.into_lifecycle_answer()), now)
                    }
                    Pending::Call(call) => self.settle_call(id, call, reply),
                    Pending::Listen(subscription) => self.listen_answered(subscription, reply, now),
                    Pending::Restore { method } => self.restored(method, reply.failure()),
                }
            }
            Settled::Late
                if self.probe_id.as_ref() == Some(&id)
                    && matches!(self.lifecycle, Lifecycle::Initializing(_)) =>
            {
                self.step(Input::Probe(reply.into_lifecycle_answer()), now);
            }
            Settled::Late => self.note(Diagnostic::LateAnswer(id)),
            Settled::Duplicate => self.note(Diagnostic::DuplicateAnswer(id)),
            Settled::Unknown => self.note(Diagnostic::UnknownAnswer(id)),
        }
    }

    fn settle_call(&mut self, id: RequestId, call: Call<T>, reply: Reply) {
        if !matches!(reply, Reply::Http(_)) {
            self.session_works();
        }
        let modern = self
            .agreement
            .as_ref()
            .is_some_and(|agreement| agreement.era == Era::Modern);
        let outcome = match reply {
            Reply::Error(error, http_status) => Err(CallFailure::Rpc { error, http_status }),
            Reply::Fault(fault) => Err(CallFailure::Peer(fault)),
            Reply::Http(failure) => Err(CallFailure::Http(failure)),
            // In the legacy era `resultType` is a member like any other (JR-43).
            Reply::Result(result) if modern => self
                .classify(result, call.may_be_asked)
                .map_err(CallFailure::Peer),
            Reply::Result(result) => Ok(Answer::Complete(result)),
        };
        if let (Ok(_), Some(change)) = (&outcome, call.changes) {
            self.session_changed(&id, *change);
        }
        self.settled(id, call.token, outcome);
    }

    /// What a modern result is (JR-40 to JR-42).
    fn classify(&self, result: RawJson, may_be_asked: bool) -> Result<Answer, PeerFault> {
        let Some(named) = result_type(&result).map(Cow::into_owned) else {
            return Ok(Answer::Complete(result));
        };
        if named == "input_required" {
            return if may_be_asked {
                Ok(Answer::InputRequired(result))
            } else {
                Err(PeerFault::InputNotAllowed)
            };
        }
        if self.config.result_types.contains(&named) {
            return Ok(Answer::Extension {
                result_type: named,
                result,
            });
        }
        let excerpt = mcp_jsonrpc::clean_excerpt(named.as_bytes(), mcp_jsonrpc::MAX_EVIDENCE_BYTES);
        Err(PeerFault::UnknownResultType {
            result_type: excerpt,
        })
    }

    fn handle_notification(&mut self, notification: Notification, now: Instant) {
        let Notification { method, params, .. } = notification;
        // Parameters by position don't occur in this protocol.
        let params = params.filter(RawJson::is_object);
        match method.as_str() {
            "notifications/progress" => return self.handle_progress(params.as_ref(), now),
            "notifications/cancelled" => return self.cancelled_by_server(params.as_ref(), now),
            "notifications/subscriptions/acknowledged" => {
                return self.acknowledged(params.as_ref(), now);
            }
            _ => self.heard_of_subscription(&method, params.as_ref()),
        }
        let text = |member: &str| Members::read(params.as_ref()?.as_str())?.text(member);
        let event = match method.as_str() {
            "notifications/elicitation/complete" => text("elicitationId")
                .map(|elicitation_id| ServerNotification::ElicitationComplete { elicitation_id }),
            "notifications/tasks" | "notifications/tasks/status" => params
                .as_ref()
                .and_then(|params| TaskState::read(params.as_str()).ok())
                .map(|task| ServerNotification::TaskChanged(Box::new(task))),
            "notifications/resources/updated" => {
                text("uri").map(|uri| ServerNotification::ResourceUpdated { uri })
            }
            "notifications/tools/list_changed" => Some(ServerNotification::ToolsListChanged),
            "notifications/prompts/list_changed" => Some(ServerNotification::PromptsListChanged),
            "notifications/resources/list_changed" => {
                Some(ServerNotification::ResourcesListChanged)
            }
            "notifications/message" => params
                .as_ref()
                .and_then(|params| params.parse().ok())
                .map(ServerNotification::Log),
            _ => None,
        };
        let event = event.unwrap_or(ServerNotification::Other { method, params });
        self.events.push_back(Event::Notification(event));
    }

    fn handle_progress(&mut self, params: Option<&RawJson>, now: Instant) {
        let members = params.and_then(|params| Members::read(params.as_str()));
        let token = members
            .as_ref()
            .and_then(|members| RequestId::from_json(members.get("progressToken")?.get()));
        let progress = params.and_then(|params| params.parse::<Progress>().ok());
        let (Some(token), Some(progress)) = (token, progress) else {
            self.note(Diagnostic::UnknownProgress);
            return;
        };
        let id = token.canonical_number().map_or(token, RequestId::Number);
        let Some(Pending::Call(call)) = self.in_flight.get_mut(&id) else {
            self.note(Diagnostic::UnknownProgress);
            return;
        };
        if !call.reports {
            self.note(Diagnostic::UnknownProgress);
            return;
        }
        let grows = call
            .progress
            .is_none_or(|before| progress.progress > before);
        if grows {
            call.progress = Some(progress.progress);
            let token = call.token.clone();
            self.events.push_back(Event::Progress {
                id: id.clone(),
                token,
                progress,
            });
        } else {
            self.note(Diagnostic::Quirk(Quirk::ProgressNotGrowing));
        }
        // Even a report that says nothing new is a sign of life.
        self.in_flight.progress(&id, now);
    }

    pub(super) fn note(&mut self, diagnostic: Diagnostic) {
        // The end is the last event.
        if !self.is_over() {
            self.events.push_back(Event::Diagnostic(diagnostic));
        }
    }
}

impl Reply {
    /// What is wrong, if it is no result.
    fn failure(&self) -> Option<String> {
        match self {
            Self::Result(_) => None,
            Self::Error(error, _) => Some(error.to_string()),
            Self::Fault(fault) => Some(fault.to_string()),
            Self::Http(failure) => Some(failure.to_string()),
        }
    }

    fn into_lifecycle_answer(self) -> Result<RawJson, Unanswered> {
        match self {
            Self::Result(result) => Ok(result),
            Self::Error(error, status) => Err(Unanswered::Error(error, status)),
            Self::Http(failure) => Err(Unanswered::Http(failure)),
            Self::Fault(PeerFault::Message(fault)) => Err(Unanswered::Fault(fault)),
            Self::Fault(PeerFault::TooLong { .. }) => Err(Unanswered::Fault(MessageFault::new(
                FaultKind::TooLong,
                b"",
                None,
            ))),
            Self::Fault(_) => Err(Unanswered::Fault(MessageFault::new(
                FaultKind::NotAMessage,
                b"",
                None,
            ))),
        }
    }
}

/// The `resultType` of a modern result; `None` means complete, also when it is absent (JR-41). Raw, if it is no text.
fn result_type(result: &RawJson) -> Option<Cow<'_, str>> {
    #[derive(Deserialize)]
    struct Peek<'a> {
        #[serde(rename = "resultType", default, borrow)]
        result_type: Option<&'a RawValue>,
    }
    // Most servers write it first; then the rest need not be searched.
    if result
        .as_bytes()
        .starts_with(br#"{"resultType":"complete""#)
    {
        return None;
    }
    let raw = result.parse_borrowed::<Peek<'_>>().ok()?.result_type?;
    let named = serde_json::from_str::<Cow<'_, str>>(raw.get())
        .unwrap_or_else(|_| Cow::Borrowed(raw.get()));
    Some(named).filter(|named| named != "complete")
}
