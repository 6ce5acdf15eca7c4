//! What the host answers when servers ask: one handler for each kind of question, whatever the era.
//!
//! A legacy server asks by a request of its own, a modern one in its answer to a call, and a task while it runs; the same
//! handler is called. What has no handler is not declared to the server, so it should not ask for it.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use mcp_jsonrpc::{ErrorCode, ErrorObject, RawJson};
use mcp_proto::ProtocolVersion;
use mcp_proto::rounds::Question;
use serde_json::value::RawValue;
use tokio::task::JoinSet;

use crate::logical_call::About;
use crate::shared::Shared;

/// A question of a server: who asks, because of what, and what.
///
/// Everything in it is the server's word, to be shown to a person as that (SEC-07).
#[derive(Clone)]
#[non_exhaustive]
pub struct Asked<P> {
    /// The server, as it is called in errors and logs.
    pub server: Arc<str>,
    /// The request of the host that made the server ask; `None` when that is not certain, as on a pipe with several calls
    /// under way.
    pub occasion: Option<Occasion>,
    /// The protocol's version that is spoken with it.
    pub version: ProtocolVersion,
    /// What is asked.
    pub params: P,
}

impl<P> Asked<P> {
    pub(crate) fn split(self) -> (Asked<()>, P) {
        let asked = Asked {
            server: self.server,
            occasion: self.occasion,
            version: self.version,
            params: (),
        };
        (asked, self.params)
    }
}

impl Asked<()> {
    pub(crate) fn with<P>(self, params: P) -> Asked<P> {
        Asked {
            server: self.server,
            occasion: self.occasion,
            version: self.version,
            params,
        }
    }
}

/// A request of the host that made a server ask.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Occasion {
    /// Its method: `tools/call`.
    pub method: String,
    /// What it is about: the name of a tool, or the method again.
    pub subject: String,
}

impl Occasion {
    pub(crate) fn of(about: About<'_>) -> Self {
        Self {
            method: about.method.to_owned(),
            subject: about.subject.to_owned(),
        }
    }
}

/// Shows who asks and why; what is asked may be secret.
impl<P> fmt::Debug for Asked<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked")
            .field("server", &self.server)
            .field("occasion", &self.occasion)
            .finish_non_exhaustive()
    }
}

/// Why a question has no answer.
///
/// A legacy server is told, as a JSON-RPC error; a modern one has no place for it, so the call that made it ask fails
/// (MRTR-13). To decline or cancel an elicitation is an answer, not an error.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{reason}")]
pub struct HandlerError {
    code: ErrorCode,
    reason: String,
}

impl HandlerError {
    /// It can't be answered. The server is told the reason: no secrets in it.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::INTERNAL_ERROR,
            reason: reason.into(),
        }
    }

    /// A person said no (SAMP-12).
    pub fn refused(reason: impl Into<String>) -> Self {
        Self {
            code: mcp_proto::code::USER_REJECTED,
            reason: reason.into(),
        }
    }

    /// The question is not valid.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self {
            code: ErrorCode::INVALID_PARAMS,
            reason: reason.into(),
        }
    }

    pub(crate) fn to_error_object(&self) -> ErrorObject {
        ErrorObject::new(self.code, &*self.reason)
    }
}

/// A future that answers a question with a bare result.
pub(crate) type Answering = Answered<Box<RawValue>>;

/// A future that answers a question.
pub(crate) type Answered<A> = Pin<Box<dyn Future<Output = Result<A, HandlerError>> + Send>>;

type RawHandler = Arc<dyn Fn(Asked<Option<RawJson>>) -> Answering + Send + Sync>;

#[derive(Clone)]
struct Entry {
    handler: RawHandler,
    /// What is answered when the host takes too long; `None`: an error.
    when_late: Option<&'static str>,
}

/// The handlers of a host, by the method of the question.
#[derive(Clone, Default)]
pub(crate) struct Handlers(BTreeMap<String, Entry>);

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Handlers {
    pub(crate) fn insert(
        &mut self,
        method: impl Into<String>,
        when_late: Option<&'static str>,
        handler: impl Fn(Asked<Option<RawJson>>) -> Answering + Send + Sync + 'static,
    ) {
        let handler = Arc::new(handler);
        self.0.insert(method.into(), Entry { handler, when_late });
    }

    /// Answers one question within a limit. Dropping the future drops the handler's.
    async fn answer(
        entry: Entry,
        asked: Asked<Option<RawJson>>,
        limit: Duration,
    ) -> Result<Box<RawValue>, HandlerError> {
        let answering = (entry.handler)(asked);
        match tokio::time::timeout(limit, answering).await {
            Ok(answer) => answer,
            Err(_) => {
                let late = entry
                    .when_late
                    .map(|late| RawValue::from_string(late.to_owned()));
                late.and_then(Result::ok).ok_or_else(|| {
                    HandlerError::failed(format!("no answer within {} s", limit.as_secs()))
                })
            }
        }
    }
}

impl Shared {
    /// Answers one question in a task of its own, so that a handler that panics harms nobody else. Dropping the future ends
    /// the handler.
    pub(crate) async fn answer_one(
        &self,
        method: &str,
        asked: Asked<Option<RawJson>>,
    ) -> Result<Box<RawValue>, HandlerError> {
        let Some(entry) = self.options.handlers.0.get(method).cloned() else {
            return Err(HandlerError::failed("there is no handler for that"));
        };
        let limit = self.options.answer_timeout;
        let mut task = JoinSet::new();
        task.spawn(Handlers::answer(entry, asked, limit));
        match task.join_next().await {
            Some(Ok(answer)) => answer,
            _ => Err(HandlerError::failed("the handler panicked")),
        }
    }

    /// Answers questions at the same time, in their order; fails with the first one that can't be answered (MRTR-14).
    pub(crate) async fn answer_all(
        &self,
        questions: &[Question],
        about: About<'_>,
        version: &ProtocolVersion,
    ) -> Result<Vec<Box<RawValue>>, (String, HandlerError)> {
        let mut tasks = JoinSet::new();
        for (index, question) in questions.iter().enumerate() {
            let Some(entry) = self.options.handlers.0.get(&question.method).cloned() else {
                let error = HandlerError::failed("there is no handler for that");
                return Err((question.method.clone(), error));
            };
            let asked = Asked {
                server: Arc::clone(&self.server),
                occasion: Some(Occasion::of(about)),
                version: version.clone(),
                params: question.params.clone(),
            };
            let answer = Handlers::answer(entry, asked, self.options.answer_timeout);
            tasks.spawn(async move { (index, answer.await) });
        }
        let mut answers: Vec<Option<Box<RawValue>>> = vec![None; questions.len()];
        while let Some(joined) = tasks.join_next().await {
            let Ok((index, answer)) = joined else {
                let error = HandlerError::failed("the handler panicked");
                return Err(("an answer".to_owned(), error));
            };
            let answer = answer.map_err(|error| (questions[index].method.clone(), error))?;
            answers[index] = Some(answer);
        }
        Ok(answers.into_iter().flatten().collect())
    }
}
