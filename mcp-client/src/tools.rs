//! The tools of a server: listing and calling them.

use std::sync::Arc;

use mcp_jsonrpc::Deadline;
use mcp_proto::http::{MirroredParams, ToolHeaders};
use mcp_proto::method::{CallTool, ListTools, Method};
use mcp_proto::model::tool::{CallToolParams, CallToolResult, Tool};
use mcp_proto::{Era, UsageError};
use serde::Serialize;

use crate::catalogue::ToolList;
use crate::client::Client;
use crate::error::{Error, Stage};
use crate::lists::ListNote;
use crate::logical_call::{About, Attempt, Budget, LogicalCall};
use crate::options::CallOptions;
use crate::shared::now;

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
    /// If the tool list is known and lacks the name, it is fetched once more before the call is refused.
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
        let shared = self.shared();
        let usage = |error| Error::usage(&shared.server, Stage::Call, name, error);
        let arguments = serde_json::value::to_raw_value(arguments).map_err(|error| {
            usage(UsageError::Encode {
                method: CallTool::NAME.to_owned(),
                reason: error.to_string(),
            })
        })?;
        let params = CallToolParams::new(name, &arguments).ok_or_else(|| {
            usage(UsageError::ParamsNotAnObject {
                method: CallTool::NAME.to_owned(),
            })
        })?;
        let known = shared
            .lock()
            .catalogue
            .fresh(now())
            .map(|list| list.get(name).is_some());
        let about = About {
            stage: Stage::Call,
            subject: name,
            method: CallTool::NAME,
        };
        let mut call = LogicalCall::new(self, about, &options);
        if known == Some(false)
            && self
                .newer_tools_within(call.budget, name)
                .await?
                .get(name)
                .is_none()
        {
            return Err(Error::unknown_tool(&shared.server, name));
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
        self.read::<CallTool>(about, outcome?)
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
