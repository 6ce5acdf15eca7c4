//! Tasks: tool calls that outlive the request that began them, in both designs of the protocol behind one handle.
//!
//! Off unless [`ClientOptions::with_tasks`] switches them on (D13). Then [`Client::call_tool`] waits for tasks by itself;
//! [`Client::start_tool`] hands them out.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mcp_jsonrpc::Deadline;
use mcp_proto::connection::{RequestOptions, ServerNotification};
use mcp_proto::lifecycle::Agreement;
use mcp_proto::method::{
    CallTool, CancelTask, GetTask, GetTaskResult, ListTasks, Method, UpdateTask,
};
use mcp_proto::model::capability::TASKS_EXTENSION;
use mcp_proto::model::task::{
    RESULT_TYPE, TaskDesign, TaskParams, TaskState, TaskStatus, UpdateTaskParams,
};
use mcp_proto::model::tool::CallToolResult;
use mcp_proto::{CallFailure, Era, PeerFault, ProtocolVersion};
use serde::Serialize;

use crate::client::Client;
use crate::error::{Error, ErrorKind, Stage};
use crate::lists::List;
use crate::logical_call::{About, Budget};
use crate::notify::{Notice, Notifications};
use crate::options::{CallOptions, ClientOptions};
use crate::shared::{NO_SLOT, Shared, now};
use crate::tools::{Begun, TaskWish};

/// How often a task is asked after that says nothing about it.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The limits of what a task may say about it (TASK-23).
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// How often in a row a question after a task may get no answer.
const MAX_FAILED_POLLS: u32 = 3;

/// What came of [`Client::start_tool`].
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a call is done, or has become a task"
)]
pub enum ToolOutcome {
    /// The tool is done.
    Done(CallToolResult),
    /// It goes on as a task.
    Task(Task),
}

/// A task of one server. Dropping it changes nothing: keep [`Task::id`], and [`Client::task`] goes on with it, also after a
/// restart (TASK-24).
#[derive(Clone)]
pub struct Task {
    client: Client,
    id: String,
    design: TaskDesign,
    /// The tool, where that is known.
    subject: String,
}

impl ClientOptions {
    /// Lets tool calls become tasks: by the extension in the modern era, by the experimental design with servers of 2025-11-25
    /// that offer it.
    #[must_use]
    pub fn with_tasks(mut self) -> Self {
        let settings = serde_json::Map::new();
        self.config.capabilities = self
            .config
            .capabilities
            .with_extension(TASKS_EXTENSION, settings);
        self.config.result_types.insert(RESULT_TYPE.to_owned());
        self
    }
}

/// The design that a connection can use, if tasks are switched on.
pub(crate) fn design(options: &ClientOptions, agreement: &Agreement) -> Option<TaskDesign> {
    let is_on = options.config.capabilities.has_extension(TASKS_EXTENSION);
    let design = match (&agreement.era, &agreement.version) {
        (Era::Modern, _) => TaskDesign::Extension,
        (Era::Legacy, version) if *version == ProtocolVersion::V2025_11_25 => {
            TaskDesign::Experimental
        }
        _ => return None,
    };
    is_on.then_some(design)
}

impl Client {
    /// Calls a tool, as a task if it can be one; else this waits for it as [`Client::call_tool_with`] does.
    ///
    /// # Errors
    /// As [`Client::call_tool`].
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`] until it returns; a task that has begun goes on.
    pub async fn start_tool<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: CallOptions,
    ) -> Result<ToolOutcome, Error> {
        let wish = TaskWish::IfPossible;
        let (begun, _) = self.begin_tool(name, arguments, &options, wish).await?;
        Ok(match begun {
            Begun::Done(result) => ToolOutcome::Done(result),
            Begun::Task(state, design) => {
                ToolOutcome::Task(Task::new(self, &state.id, design, name))
            }
        })
    }

    /// A task by its id: one that was begun earlier, maybe over another connection to the same server.
    ///
    /// # Errors
    /// When tasks are not switched on, or the version that is spoken has none.
    pub fn task(&self, id: &str) -> Result<Task, Error> {
        let shared = self.shared();
        let design = design(&shared.options, &self.agreement()).ok_or_else(|| {
            let error = mcp_proto::UsageError::NotInEra {
                method: GetTask::NAME.to_owned(),
                era: self.agreement().era,
            };
            Error::usage(&shared.server, Stage::Call, id, error)
        })?;
        Ok(Task::new(self, id, design, id))
    }

    /// The tasks that a server of 2025-11-25 lists; the extension has no such list.
    ///
    /// # Errors
    /// As [`Client::resources`].
    ///
    /// # Cancel safety
    /// As [`Client::resources`].
    pub async fn tasks(&self) -> Result<List<TaskState>, Error> {
        self.walk::<ListTasks>(CallOptions::default(), |_| Ok(()))
            .await
    }
}

impl Task {
    pub(crate) fn new(client: &Client, id: &str, design: TaskDesign, subject: &str) -> Self {
        Self {
            client: client.clone(),
            id: id.to_owned(),
            design,
            subject: subject.to_owned(),
        }
    }

    /// What the server calls it. Whoever knows it can ask after the task: keep it like a secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// How far it is now.
    ///
    /// # Errors
    /// As every request; an RPC error `-32602` says that the server does not know it, or not any more (TASK-30).
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`].
    pub async fn state(&self) -> Result<TaskState, Error> {
        self.poll(&self.client.budget(&CallOptions::default()))
            .await
    }

    /// Waits until it is over, and answers what it asks on the way. The limit of `options` is that of the waiting; without
    /// one it is [`ClientOptions::call_deadline`]'s. A task that is waited for too long goes on.
    ///
    /// # Errors
    /// The error of the tool's call; [`ErrorKind::Cancelled`] if the task was given up; else as every request.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: wait again.
    pub async fn wait(&self, options: CallOptions) -> Result<CallToolResult, Error> {
        let budget = self.client.budget(&options);
        self.wait_within(None, budget).await
    }

    /// Asks the server to give it up. It may be done all the same: [`Task::wait`] tells (TASK-29).
    ///
    /// # Errors
    /// As every request; with 2025-11-25 also when the server can't, or the task is over.
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`].
    pub async fn cancel(&self) -> Result<(), Error> {
        let params = TaskParams::new(&self.id);
        self.client
            .request::<CancelTask>(&params, CallOptions::default())
            .await
    }

    pub(crate) async fn wait_within(
        &self,
        begun: Option<TaskState>,
        mut budget: Budget,
    ) -> Result<CallToolResult, Error> {
        let mut notifications = self.client.notifications();
        let mut answered = BTreeSet::new();
        let mut failures = 0;
        let mut known = begun;
        loop {
            let state = match known.take() {
                Some(state) => state,
                None => match self.poll(&budget).await {
                    Ok(state) => state,
                    Err(error) if is_passing(&error) && failures < MAX_FAILED_POLLS => {
                        failures += 1;
                        self.sleep(POLL_INTERVAL, &mut notifications, &budget)
                            .await?;
                        continue;
                    }
                    Err(error) => return Err(error),
                },
            };
            failures = 0;
            match (&state.status, self.design) {
                (TaskStatus::Cancelled, _) => {
                    let server = &self.client.shared().server;
                    return Err(Error::task_cancelled(server, &self.subject, state.message));
                }
                (TaskStatus::Completed | TaskStatus::Failed, _) => {
                    return self.result(state, &budget).await;
                }
                // It asks by requests of the server, on whatever stream, while its result is waited for (TASK-03).
                (TaskStatus::InputRequired, TaskDesign::Experimental) => {
                    return self.result(state, &budget).await;
                }
                (TaskStatus::InputRequired, TaskDesign::Extension) => {
                    self.answer(&state, &mut answered, &mut budget).await?;
                }
                _ => {}
            }
            let interval = state.poll_interval.unwrap_or(POLL_INTERVAL);
            let interval = interval.clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL);
            known = self.sleep(interval, &mut notifications, &budget).await?;
        }
    }

    /// Waits for a while, or until the server says that the task changed; in the extension that says it all (TASK-31).
    async fn sleep(
        &self,
        interval: Duration,
        notifications: &mut Notifications,
        budget: &Budget,
    ) -> Result<Option<TaskState>, Error> {
        let changed = async {
            loop {
                match notifications.next().await {
                    Some(Notice::Notification(ServerNotification::TaskChanged(state)))
                        if state.id == self.id =>
                    {
                        return (self.design == TaskDesign::Extension).then_some(state);
                    }
                    Some(_) => {}
                    // The next question tells that the connection is over.
                    None => return None,
                }
            }
        };
        let waited = budget.wait(tokio::time::timeout(interval, changed)).await;
        let waited = waited.map_err(|failure| self.failed(failure))?;
        Ok(waited.unwrap_or(None))
    }

    async fn poll(&self, budget: &Budget) -> Result<TaskState, Error> {
        let limits = budget.left().map_err(|failure| self.failed(failure))?;
        let options = CallOptions::default().with_deadline(limits);
        let params = TaskParams::new(&self.id);
        self.client.request::<GetTask>(&params, options).await
    }

    /// What came of the call, once the task is over, or while it is waited for.
    async fn result(&self, state: TaskState, budget: &Budget) -> Result<CallToolResult, Error> {
        match self.design {
            TaskDesign::Experimental => {
                let limits = budget.left().map_err(|failure| self.failed(failure))?;
                // However long it is silent: it waits for the task.
                let options =
                    CallOptions::default().with_deadline(Deadline::new(None, limits.total));
                let params = TaskParams::new(&self.id);
                self.client.request::<GetTaskResult>(&params, options).await
            }
            TaskDesign::Extension => {
                let invalid = |reason: String| {
                    self.failed(CallFailure::Peer(PeerFault::InvalidResult {
                        method: GetTask::NAME.to_owned(),
                        reason,
                    }))
                };
                match (state.status, state.result, state.error) {
                    (TaskStatus::Failed, _, Some(error)) => Err(self.failed(CallFailure::Rpc {
                        error,
                        http_status: None,
                    })),
                    (_, Some(result), _) => CallTool::read(result.as_str()).map_err(invalid),
                    _ => Err(invalid("the task is over without a result".to_owned())),
                }
            }
        }
    }

    /// Answers what the task asks and was not answered yet (TASK-26).
    async fn answer(
        &self,
        state: &TaskState,
        answered: &mut BTreeSet<String>,
        budget: &mut Budget,
    ) -> Result<(), Error> {
        let shared = self.client.shared();
        let mut questions = state
            .questions(&shared.options.config.answers)
            .map_err(|fault| self.failed(CallFailure::Peer(fault)))?;
        questions.retain(|question| !answered.contains(&question.key));
        if questions.is_empty() {
            return Ok(());
        }
        let version = self.client.agreement().version.clone();
        let about = About {
            stage: Stage::Call,
            subject: &self.subject,
            method: CallTool::NAME,
        };
        let answers = shared.answer_all(&questions, about, &version);
        let answers = budget.wait_for_person(answers).await;
        let answers = answers.map_err(|(method, error)| {
            let reason = error.to_string();
            Error::not_answered(&shared.server, Stage::Call, &self.subject, &method, reason)
        })?;
        let keys = questions.iter().map(|question| question.key.as_str());
        let pairs = keys.clone().zip(answers.iter().map(AsRef::as_ref));
        let params = UpdateTaskParams::new(&self.id, pairs);
        let limits = budget.left().map_err(|failure| self.failed(failure))?;
        let options = CallOptions::default().with_deadline(limits);
        self.client.request::<UpdateTask>(&params, options).await?;
        answered.extend(keys.map(str::to_owned));
        Ok(())
    }

    fn failed(&self, failure: CallFailure) -> Error {
        self.client.call_error(Stage::Call, &self.subject, failure)
    }
}

/// Whether asking again may bring an answer.
fn is_passing(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout)
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("client", &self.client)
            .field("design", &self.design)
            .finish_non_exhaustive()
    }
}

/// Gives a task up when nobody waits for it any more: the call that became it was dropped, or took too long (C082).
pub(crate) struct AbandonTask {
    shared: Arc<Shared>,
    id: Option<String>,
}

impl AbandonTask {
    pub(crate) fn new(task: &Task) -> Self {
        Self {
            shared: Arc::clone(task.client.shared()),
            id: Some(task.id.clone()),
        }
    }

    /// It is over.
    pub(crate) fn disarm(&mut self) {
        self.id = None;
    }
}

impl Drop for AbandonTask {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else {
            return;
        };
        self.shared.update(|state| {
            let mut options = RequestOptions::default();
            options.deadline = self.shared.options.call_deadline;
            // Nobody waits for the answer; on a connection that is over there is nobody to tell.
            let _ = state.connection.request::<CancelTask>(
                &TaskParams::new(&id),
                &options,
                NO_SLOT,
                now(),
            );
        });
        self.shared.attention.notify_one();
    }
}
