//! One logical call: it may take several requests, and the host sees one.

use std::collections::BTreeSet;
use std::time::Duration;

use mcp_jsonrpc::{Deadline, RawJson, TimedOut, TimeoutKind};
use mcp_proto::backoff::Backoff;
use mcp_proto::code;
use mcp_proto::connection::{Answer, ServerNotification, read_result};
use mcp_proto::http::{HttpFailure, HttpFailureKind};
use mcp_proto::method::{Method, is_safe_to_repeat};
use mcp_proto::rounds::{InputAnswers, InputRound, MAX_QUESTIONS, Question, pace};
use mcp_proto::{CallFailure, ChannelEnd, ProtocolVersion, UsageError};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::client::Client;
use crate::elicitation;
use crate::error::{Error, Stage};
use crate::evidence::Evidence;
use crate::notify::Notice;
use crate::options::CallOptions;
use crate::shared::{Call, Phase};

/// What a call is about, for errors and policies.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) stage: Stage,
    pub(crate) subject: &'a str,
    pub(crate) method: &'a str,
}

/// One request of a logical call.
#[derive(Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) about: About<'a>,
    pub(crate) options: &'a CallOptions,
    pub(crate) limits: Deadline,
    /// Answers to what the attempt before was asked.
    pub(crate) input: &'a InputAnswers,
}

/// The time that a logical call has, whatever it takes to carry it out.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    limits: Deadline,
    begun: Instant,
    /// Time that a person took, which does not count (MRTR-18).
    excluded: Duration,
}

impl Budget {
    /// A budget that begins now.
    pub(crate) fn new(limits: Deadline) -> Self {
        Self {
            limits,
            begun: Instant::now(),
            excluded: Duration::ZERO,
        }
    }

    /// What is left for the next request.
    pub(crate) fn left(&self) -> Result<Deadline, CallFailure> {
        let Some(total) = self.limits.total else {
            return Ok(self.limits);
        };
        let used = self.begun.elapsed().saturating_sub(self.excluded);
        let total = total.saturating_sub(used);
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

    /// Waits for a person: that costs nothing.
    pub(crate) async fn wait_for_person<F: Future>(&mut self, future: F) -> F::Output {
        let begun = Instant::now();
        let output = future.await;
        self.excluded += begun.elapsed();
        output
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

/// A logical call on its way. It remembers what it was asked between two runs.
pub(crate) struct LogicalCall<'a> {
    client: &'a Client,
    about: About<'a>,
    options: &'a CallOptions,
    pub(crate) budget: Budget,
    input: InputAnswers,
    rounds: usize,
    pace: Backoff,
    /// The questions about web pages so far: one that comes again is paced (ELIC-24).
    pages: BTreeSet<String>,
    /// Whether a lost answer may still be asked for again: once, if that is safe by the method or by the host's word
    /// (D2, HTTPM-09).
    may_repeat: bool,
}

impl<'a> LogicalCall<'a> {
    pub(crate) fn new(client: &'a Client, about: About<'a>, options: &'a CallOptions) -> Self {
        Self {
            client,
            about,
            options,
            budget: client.budget(options),
            input: options.input.clone(),
            rounds: 0,
            pages: BTreeSet::new(),
            pace: pace(client.shared().options.config.jitter_seed),
            may_repeat: options.repeatable || is_safe_to_repeat(about.method),
        }
    }

    /// Carries the call out, from its start to its outcome; rounds of questions are answered on the way. Never
    /// [`Answer::InputRequired`].
    pub(crate) async fn run(
        &mut self,
        start: impl Fn(Attempt<'_>) -> Result<Call, UsageError>,
    ) -> Result<Answer, Error> {
        loop {
            match self.round(&start).await {
                Ok(Answer::InputRequired(round)) => self.answer(&round).await?,
                Ok(answer) => return Ok(answer),
                Err(error) => match self.pages_required(&error) {
                    Some(pages) => self.send_to_pages(pages, error).await?,
                    None => return Err(error),
                },
            }
        }
    }

    /// Whether the server asked for input on the way.
    pub(crate) fn was_asked(&self) -> bool {
        self.rounds > 0
    }

    /// One round: until the server answers, if only with questions.
    ///
    /// While a new session is being opened it waits. What was lost on the way is repeated once if that is safe. Each request
    /// gets what is left of the budget.
    pub(crate) async fn round(
        &mut self,
        start: impl Fn(Attempt<'_>) -> Result<Call, UsageError>,
    ) -> Result<Answer, Error> {
        let About { stage, subject, .. } = self.about;
        let shared = self.client.shared();
        loop {
            let limits = self.budget.left().map_err(|failure| self.failed(failure))?;
            let attempt = Attempt {
                about: self.about,
                options: self.options,
                limits,
                input: &self.input,
            };
            let failure = match start(attempt) {
                Ok(call) => match call.await {
                    Ok(answer) => return Ok(answer),
                    Err(failure) => failure,
                },
                Err(UsageError::NotReady) => {
                    let ready =
                        shared.phase(|phase| !matches!(phase, Phase::Restoring | Phase::Starting));
                    let waited = self.budget.wait(ready).await;
                    waited.map_err(|failure| self.failed(failure))?;
                    continue;
                }
                Err(UsageError::Closed) => return Err(self.client.not_connected(stage, subject)),
                Err(error) => return Err(Error::usage(&shared.server, stage, subject, error)),
            };
            let again = std::mem::take(&mut self.may_repeat) && was_lost(&failure);
            if !again || self.budget.left().is_err() {
                return Err(self.failed(failure));
            }
        }
    }

    /// The web pages that a person must be sent to before the call can be carried out, in 2025-11-25 (ELIC-30).
    fn pages_required(&self, error: &Error) -> Option<Vec<Question>> {
        let error = error.as_rpc()?;
        let shared = self.client.shared();
        let declared = &shared.options.config.capabilities;
        let version = &self.client.agreement().version;
        if error.code != code::URL_ELICITATION_REQUIRED
            || *version != ProtocolVersion::V2025_11_25
            || !declared.has("elicitation", Some("url"))
        {
            return None;
        }
        url_elicitations(error.data.as_ref()?)
    }

    /// Sends a person to pages, then waits until the server says that they are done there, or for a while: then the call can
    /// be made again. `refusal`: the error that asked for it.
    async fn send_to_pages(
        &mut self,
        mut pages: Vec<Question>,
        refusal: Error,
    ) -> Result<(), Error> {
        self.count_round()?;
        let client = self.client;
        // From before the person can be done.
        let mut notifications = client.notifications();
        let ids: Vec<_> = pages.iter().filter_map(elicitation_id).collect();
        // Who agreed once is not asked again while the server still waits for the page.
        pages.retain(|page| self.is_new_page(page));
        let version = client.agreement().version.clone();
        let answers = client.shared().answer_all(&pages, self.about, &version);
        let answers = self.budget.wait_for_person(answers).await;
        let answers =
            answers.map_err(|(method, error)| self.not_answered(&method, error.to_string()))?;
        if !answers.iter().all(|answer| is_accepted(answer)) {
            return Err(refusal);
        }
        let done = async {
            while let Some(notice) = notifications.next().await {
                if let Notice::Notification(ServerNotification::ElicitationComplete {
                    elicitation_id,
                }) = notice
                    && ids.contains(&elicitation_id)
                {
                    return;
                }
            }
        };
        let wait = self.pace.next_delay();
        // It makes no difference which of the two it was: the server knows whether it may go on.
        let _ = self
            .budget
            .wait_for_person(tokio::time::timeout(wait, done))
            .await;
        Ok(())
    }

    /// Whether a question about a web page is asked for the first time.
    fn is_new_page(&mut self, question: &Question) -> bool {
        let params = question.params.as_ref().map(RawJson::as_str);
        self.pages.insert(params.unwrap_or_default().to_owned())
    }

    fn count_round(&mut self) -> Result<(), Error> {
        self.rounds += 1;
        let limit = self.client.shared().options.max_rounds;
        if self.rounds <= limit {
            return Ok(());
        }
        let reason = format!("it asked {limit} times already (limit max_rounds)");
        Err(self.not_answered("input once more", reason))
    }

    /// Answers a round of questions, so that the next attempt carries the answers.
    async fn answer(&mut self, round: &RawJson) -> Result<(), Error> {
        let shared = self.client.shared();
        self.count_round()?;
        let round = InputRound::read(round, &shared.options.config.answers)
            .map_err(|fault| self.failed(CallFailure::Peer(fault)))?;
        let mut comes_again = false;
        for page in round.questions.iter().filter(|question| is_page(question)) {
            comes_again |= !self.is_new_page(page);
        }
        // Without questions it is busy (MRTR-11).
        if round.questions.is_empty() || comes_again {
            let wait = tokio::time::sleep(self.pace.next_delay());
            let waited = self.budget.wait(wait).await;
            waited.map_err(|failure| self.failed(failure))?;
        }
        let version = self.client.agreement().version.clone();
        let answers = shared.answer_all(&round.questions, self.about, &version);
        let answers = self.budget.wait_for_person(answers).await;
        let answers =
            answers.map_err(|(method, error)| self.not_answered(&method, error.to_string()))?;
        let keys = round.questions.iter().map(|question| question.key.as_str());
        self.input = round.answered(keys.zip(answers.iter().map(AsRef::as_ref)));
        Ok(())
    }

    fn failed(&self, failure: CallFailure) -> Error {
        self.client
            .call_error(self.about.stage, self.about.subject, failure)
    }

    fn not_answered(&self, what: &str, reason: String) -> Error {
        let About { stage, subject, .. } = self.about;
        Error::not_answered(&self.client.shared().server, stage, subject, what, reason)
    }
}

impl Client {
    /// Reads the result of a method.
    pub(crate) fn read<M: Method>(
        &self,
        about: About<'_>,
        answer: Answer,
    ) -> Result<M::Result, Error> {
        read_result::<M>(Ok(answer))
            .map_err(|failure| self.call_error(about.stage, about.subject, failure))
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

/// Whether a question sends a person to a web page.
fn is_page(question: &Question) -> bool {
    let mode = question.params.as_ref().and_then(|params| {
        let params: PageParams = params.parse().ok()?;
        params.mode
    });
    question.method == elicitation::METHOD && mode.as_deref() == Some("url")
}

fn elicitation_id(question: &Question) -> Option<String> {
    let params: PageParams = question.params.as_ref()?.parse().ok()?;
    params.elicitation_id
}

/// What there is to know about a question in order to pace it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PageParams {
    mode: Option<String>,
    elicitation_id: Option<String>,
}

/// The questions in the data of an error that asks for web pages; `None` if it holds none.
fn url_elicitations(data: &RawJson) -> Option<Vec<Question>> {
    #[derive(Deserialize)]
    struct Data {
        elicitations: Vec<Box<RawValue>>,
    }
    let data: Data = data.parse().ok()?;
    let questions = data.elicitations.iter().take(MAX_QUESTIONS);
    let questions: Vec<_> = questions
        .map(|params| Question::new("", elicitation::METHOD, Some(RawJson::from(&**params))))
        .collect();
    (!questions.is_empty()).then_some(questions)
}

fn is_accepted(answer: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Action<'a> {
        action: &'a str,
    }
    serde_json::from_str::<Action<'_>>(answer.get()).is_ok_and(|answer| answer.action == "accept")
}
