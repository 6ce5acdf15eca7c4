//! One logical call: it may take several requests, and the host sees one.

use std::time::Duration;

use mcp_jsonrpc::{Deadline, RawJson, TimedOut, TimeoutKind};
use mcp_proto::connection::read_result;
use mcp_proto::http::{HttpFailure, HttpFailureKind};
use mcp_proto::method::{Method, is_safe_to_repeat};
use mcp_proto::{CallFailure, ChannelEnd, UsageError};
use tokio::time::Instant;

use crate::client::Client;
use crate::error::{Error, Stage};
use crate::evidence::Evidence;
use crate::options::CallOptions;
use crate::shared::{Call, Phase};

/// What a call is about, for errors and policies.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) stage: Stage,
    pub(crate) subject: &'a str,
    pub(crate) method: &'a str,
}

/// The time that a logical call has, whatever it takes to carry it out.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    limits: Deadline,
    begun: Instant,
}

impl Budget {
    /// A budget that begins now.
    pub(crate) fn new(limits: Deadline) -> Self {
        Self {
            limits,
            begun: Instant::now(),
        }
    }

    /// What is left for the next request.
    pub(crate) fn left(&self) -> Result<Deadline, CallFailure> {
        let Some(total) = self.limits.total else {
            return Ok(self.limits);
        };
        let total = total.saturating_sub(self.begun.elapsed());
        if total.is_zero() {
            return Err(self.used_up());
        }
        Ok(Deadline::new(self.limits.idle, Some(total)))
    }

    /// Waits for something, but not longer than the budget lasts.
    pub(crate) async fn wait<F: Future>(&self, future: F) -> Result<F::Output, CallFailure> {
        let left = self.left()?;
        let limit = left.total.or(left.idle).unwrap_or(Duration::MAX);
        tokio::time::timeout(limit, future)
            .await
            .map_err(|_| self.used_up())
    }

    /// It ran out before the request was made.
    fn used_up(&self) -> CallFailure {
        let total = self.limits.total.unwrap_or(Duration::MAX);
        CallFailure::TimedOut {
            timed_out: TimedOut::new(TimeoutKind::Total, total),
            sent: false,
        }
    }
}

impl Client {
    /// Reads the result of a method.
    pub(crate) fn read<M: Method>(
        &self,
        about: About<'_>,
        raw: RawJson,
    ) -> Result<M::Result, Error> {
        read_result::<M>(Ok(raw))
            .map_err(|failure| self.call_error(about.stage, about.subject, failure))
    }

    /// Carries a call out, from its start to its outcome.
    ///
    /// While a new session is being opened it waits. What was lost on the way is repeated once if that is safe: by the
    /// method, or by the host's word (D2, HTTPM-09). Each request gets what is left of the budget.
    pub(crate) async fn outcome(
        &self,
        about: About<'_>,
        options: &CallOptions,
        budget: Budget,
        start: impl Fn(Deadline) -> Result<Call, UsageError>,
    ) -> Result<RawJson, Error> {
        let About {
            stage,
            subject,
            method,
        } = about;
        let failed = |failure| self.call_error(stage, subject, failure);
        let mut may_repeat = options.repeatable || is_safe_to_repeat(method);
        loop {
            let failure = match start(budget.left().map_err(failed)?) {
                Ok(call) => match call.await {
                    Ok(raw) => return Ok(raw),
                    Err(failure) => failure,
                },
                Err(UsageError::NotReady) => {
                    let ready = self
                        .shared()
                        .phase(|phase| !matches!(phase, Phase::Restoring | Phase::Starting));
                    budget.wait(ready).await.map_err(failed)?;
                    continue;
                }
                Err(UsageError::Closed) => return Err(self.not_connected(stage, subject)),
                Err(error) => {
                    return Err(Error::usage(&self.shared().server, stage, subject, error));
                }
            };
            let again = std::mem::take(&mut may_repeat) && was_lost(&failure);
            if !again || budget.left().is_err() {
                return Err(failed(failure));
            }
        }
    }

    /// The budget of a call with these options.
    pub(crate) fn budget(&self, options: &CallOptions) -> Budget {
        Budget::new(
            options
                .deadline
                .unwrap_or(self.shared().options.call_deadline),
        )
    }

    fn not_connected(&self, stage: Stage, subject: &str) -> Error {
        let state = self.shared().lock();
        let end = state
            .ended
            .clone()
            .unwrap_or_else(|| ChannelEnd::new("the connection was closed"));
        let evidence = state.evidence.clone();
        drop(state);
        Error::not_connected(&self.shared().server, stage, subject, end).with_evidence(evidence)
    }

    pub(crate) fn call_error(&self, stage: Stage, subject: &str, failure: CallFailure) -> Error {
        let evidence = match &failure {
            CallFailure::ChannelEnded { .. } => self.shared().lock().evidence.clone(),
            _ => Evidence::default(),
        };
        Error::call(&self.shared().server, stage, subject, failure).with_evidence(evidence)
    }
}

/// Whether the answer was lost on the way, while the connection goes on.
fn was_lost(failure: &CallFailure) -> bool {
    matches!(
        failure,
        CallFailure::Http(HttpFailure {
            kind: HttpFailureKind::Cut
                | HttpFailureKind::SessionLost
                | HttpFailureKind::StreamEnded,
            ..
        })
    )
}
