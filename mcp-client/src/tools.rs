//! The tools of a server: listing and calling them.

use std::sync::Arc;

use mcp_jsonrpc::{Deadline, ErrorCode, RawJson};
use mcp_proto::connection::Answer;
use mcp_proto::http::{MirroredParams, ToolHeaders};
use mcp_proto::method::{CallTool, ListTools, Method};
use mcp_proto::model::task::{TaskDesign, TaskRequest, TaskState, TaskSupport};
use mcp_proto::model::tool::{CallToolParams, CallToolResult, Tool};
use mcp_proto::{CallFailure, Era, PeerFault, UsageError};
use serde::Serialize;

use crate::catalogue::ToolList;
use crate::client::Client;
use crate::error::{Error, Stage};
use crate::lists::ListNote;
use crate::logical_call::{About, Attempt, Budget, LogicalCall};
use crate::options::CallOptions;
use crate::shared::now;
use crate::tasks::{self, AbandonTask, Task};

impl Client {
    /// All tools of the server: from memory while the server announces no change and its time is not over, else fetched page by
    /// page.
    ///
    /// A server without the `tools` capability has an empty list with a note.
    ///
    /// # Errors
    /// When a page could not be had.
    ///
    /// # Cancel safety
    /// Dropping the future gives the page in flight up; what was kept before stays.
    pub async fn tools(&self) -> Result<Arc<ToolList>, Error> {
        if let Some(list) = self.shared().lock().catalogue.fresh(now()) {
            return Ok(Arc::clone(list));
        }
        let _one_at_a_time = self.shared().refresh.lock().await;
        // Somebody else may have fetched it in the meantime.
        if let Some(list) = self.shared().lock().catalogue.fresh(now()) {
            return Ok(Arc::clone(list));
        }
        self.fetch_tools(None).await
    }

    /// As [`Client::tools`], but always fetched anew.
    ///
    /// # Errors
    /// As [`Client::tools`].
    ///
    /// # Cancel safety
    /// As [`Client::tools`].
    pub async fn refresh_tools(&self) -> Result<Arc<ToolList>, Error> {
        let _one_at_a_time = self.shared().refresh.lock().await;
        self.fetch_tools(None).await
    }

    /// A list newer than the one in memory, fetched by this caller or by another one that was faster.
    async fn newer_tools(&self, deadline: Deadline) -> Result<Arc<ToolList>, Error> {
        let shared = self.shared();
        let before = shared.lock().catalogue.fetches();
        let _one_at_a_time = shared.refresh.lock().await;
        if let Some(list) = shared.lock().catalogue.newer_than(before, now()) {
            return Ok(list);
        }
        self.fetch_tools(Some(deadline)).await
    }

    async fn fetch_tools(&self, deadline: Option<Deadline>) -> Result<Arc<ToolList>, Error> {
        let shared = self.shared();
        let changes = shared.lock().catalogue.changes();
        let agreement = self.agreement();
        let mut headers = HeaderCheck::new(
            agreement.era == Era::Modern && shared.lock().has_exchanges(),
            &shared.server,
        );
        // The list is kept as a whole here.
        let mut options = CallOptions::default().refresh();
        options.deadline = deadline;
        let list = self
            .walk::<ListTools>(options, |tool| headers.check(tool))
            .await?;
        let until = list.until;
        let list = Arc::new(ToolList {
            tools: list.entries,
            notes: list.notes,
        });
        shared.update(|state| {
            state.catalogue.store(Arc::clone(&list), changes, until);
            state.connection.set_tool_headers(headers.tools);
            state.watch_lists(&agreement, &shared.options);
        });
        Ok(list)
    }

    /// Calls a tool with arguments that serialize to a JSON object; `()` or `None` mean `{}`.
    ///
    /// A result with `is_error` is a result: the tool ran and says that it failed. Nothing is ever called twice: when the
    /// connection is lost on the way, the error says whether the call may have been carried out.
    ///
    /// If the tool list is known and lacks the name, it is fetched once more before the call is refused. A call that becomes a
    /// task is waited for, if [`ClientOptions::with_tasks`](crate::ClientOptions::with_tasks) allows tasks; when this gives up,
    /// so is the task.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// Dropping the future gives the call up: the server is told, its answer is ignored, the connection goes on.
    pub async fn call_tool<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
    ) -> Result<CallToolResult, Error> {
        self.call_tool_with(name, arguments, CallOptions::default())
            .await
    }

    /// As [`Client::call_tool`], with options.
    ///
    /// # Errors
    /// As [`Client::call_tool`].
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`].
    pub async fn call_tool_with<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: CallOptions,
    ) -> Result<CallToolResult, Error> {
        let wish = TaskWish::IfRequired;
        match self.begin_tool(name, arguments, &options, wish).await? {
            (Begun::Done(result), _) => Ok(result),
            (Begun::Task(state, design), budget) => {
                let task = Task::new(self, &state.id, design, name);
                let mut abandon = AbandonTask::new(&task);
                let result = task.wait_within(Some(state), budget).await;
                if !result.as_ref().is_err_and(Error::is_timeout) {
                    abandon.disarm();
                }
                result
            }
        }
    }

    /// Calls a tool until it is done, or has become a task.
    pub(crate) async fn begin_tool<A: Serialize + ?Sized>(
        &self,
        name: &str,
        arguments: &A,
        options: &CallOptions,
        wish: TaskWish,
    ) -> Result<(Begun, Budget), Error> {
        let shared = self.shared();
        let usage = |error| Error::usage(&shared.server, Stage::Call, name, error);
        let arguments = serde_json::value::to_raw_value(arguments).map_err(|error| {
            usage(UsageError::Encode {
                method: CallTool::NAME.to_owned(),
                reason: error.to_string(),
            })
        })?;
        let mut params = CallToolParams::new(name, &arguments).ok_or_else(|| {
            usage(UsageError::ParamsNotAnObject {
                method: CallTool::NAME.to_owned(),
            })
        })?;
        let about = About {
            stage: Stage::Call,
            subject: name,
            method: CallTool::NAME,
        };
        let mut call = LogicalCall::new(self, about, options);
        let mut list = shared.lock().catalogue.fresh(now()).cloned();
        if list.as_ref().is_some_and(|list| list.get(name).is_none()) {
            let newer = self.newer_tools_within(call.budget, name).await?;
            if newer.get(name).is_none() {
                return Err(Error::unknown_tool(&shared.server, name));
            }
            list = Some(newer);
        }
        let agreement = self.agreement();
        let design = tasks::design(&shared.options, &agreement);
        let is_task = |list: &ToolList| {
            design == Some(TaskDesign::Experimental)
                && list.get(name).is_some_and(|tool| {
                    wish.is_granted_by(TaskSupport::of(tool, &agreement.capabilities))
                })
        };
        if list.as_deref().is_some_and(is_task) {
            params.task = Some(TaskRequest::default());
        }
        let start = |attempt: Attempt<'_>| shared.start_call::<CallTool>(&params, attempt);
        let mut outcome = call.run(start).await;
        // The server wants other headers than the list said: it did nothing yet, and a newer list says more (HTTPM-30).
        if outcome.as_ref().is_err_and(is_header_mismatch)
            && shared.lock().has_exchanges()
            && self.newer_tools_within(call.budget, name).await.is_ok()
        {
            outcome = call.run(start).await;
        }
        // It must be a task, which only the list tells; it was refused (TASK-01).
        if design == Some(TaskDesign::Experimental)
            && list.is_none()
            && outcome.as_ref().is_err_and(is_method_not_found)
            && let Ok(list) = self.newer_tools_within(call.budget, name).await
            && is_task(&list)
        {
            params.task = Some(TaskRequest::default());
            outcome = call
                .run(|attempt| shared.start_call::<CallTool>(&params, attempt))
                .await;
        }
        let begun = match (outcome?, design) {
            (Answer::Extension { result, .. }, Some(design)) => {
                self.begun_task(about, &result, design)?
            }
            (Answer::Complete(result), Some(design)) if params.task.is_some() => {
                self.begun_task(about, &result, design)?
            }
            (answer, _) => Begun::Done(self.read::<CallTool>(about, answer)?),
        };
        Ok((begun, call.budget))
    }

    fn begun_task(
        &self,
        about: About<'_>,
        result: &RawJson,
        design: TaskDesign,
    ) -> Result<Begun, Error> {
        let state = TaskState::read(result.as_str()).map_err(|reason| {
            let method = about.method.to_owned();
            let fault = PeerFault::InvalidResult { method, reason };
            self.call_error(about.stage, about.subject, CallFailure::Peer(fault))
        })?;
        Ok(Begun::Task(state, design))
    }

    /// A newer list, for a call that needs it: within the call's own budget.
    async fn newer_tools_within(&self, budget: Budget, name: &str) -> Result<Arc<ToolList>, Error> {
        let failed = |failure| self.call_error(Stage::Call, name, failure);
        let limits = budget.left().map_err(failed)?;
        budget
            .wait(self.newer_tools(limits))
            .await
            .map_err(failed)?
    }
}

/// What came of a call so far.
pub(crate) enum Begun {
    Done(CallToolResult),
    Task(TaskState, TaskDesign),
}

/// Whether a call is to be a task, where the host can choose.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum TaskWish {
    IfPossible,
    IfRequired,
}

impl TaskWish {
    fn is_granted_by(self, support: TaskSupport) -> bool {
        match support {
            TaskSupport::Forbidden => false,
            TaskSupport::Optional => self == Self::IfPossible,
            TaskSupport::Required => true,
        }
    }
}

fn is_method_not_found(error: &Error) -> bool {
    error
        .as_rpc()
        .is_some_and(|error| error.code == ErrorCode::METHOD_NOT_FOUND)
}

fn is_header_mismatch(error: &Error) -> bool {
    error
        .as_rpc()
        .is_some_and(|error| error.code == mcp_proto::code::HEADER_MISMATCH)
}

/// Looks at what tools want as header fields, where there are headers (HTTPM-26, HTTPM-29).
struct HeaderCheck<'a> {
    applies: bool,
    server: &'a str,
    tools: ToolHeaders,
}

impl<'a> HeaderCheck<'a> {
    fn new(applies: bool, server: &'a str) -> Self {
        Self {
            applies,
            server,
            tools: ToolHeaders::new(),
        }
    }

    /// Whether what the tool wants is valid.
    fn check(&mut self, tool: &Tool) -> Result<(), ListNote> {
        if !self.applies {
            return Ok(());
        }
        match MirroredParams::read(&tool.input_schema) {
            Ok(mirrored) if mirrored.is_empty() => Ok(()),
            Ok(mirrored) => {
                self.tools.insert(tool.name.clone(), mirrored);
                Ok(())
            }
            Err(reason) => {
                tracing::warn!(target: "mcp_client", server = self.server, tool = tool.name, %reason, "a tool is left out");
                Err(ListNote::InvalidHeaders {
                    name: tool.name.clone(),
                    reason,
                })
            }
        }
    }
}
