//! Answers to requests of the server: a task each, ended when the answer is not wanted any more.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mcp_jsonrpc::{RawJson, RequestId};
use mcp_proto::model::task::RELATED_TASK;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::task::AbortHandle;

use crate::handlers::Asked;
use crate::shared::{Asking, Shared, now};

/// The answers under way on one channel. Dropping it ends them all.
#[derive(Default)]
pub(crate) struct Answerers(HashMap<RequestId, AbortHandle>);

impl Answerers {
    /// Begins and ends what the server asks for.
    pub(crate) fn handle(&mut self, shared: &Arc<Shared>, asking: Vec<Asking>) {
        for asking in asking {
            match asking {
                Asking::Cancelled(id) => {
                    if let Some(task) = self.0.remove(&id) {
                        task.abort();
                    }
                }
                Asking::Request(id, method, asked) => {
                    // Of requests that were answered in the meantime nothing need be kept.
                    self.0.retain(|_, task| !task.is_finished());
                    let task = tokio::spawn(answer(Arc::clone(shared), id.clone(), method, asked));
                    self.0.insert(id, task.abort_handle());
                }
            }
        }
    }
}

impl Drop for Answerers {
    fn drop(&mut self) {
        self.0.values().for_each(AbortHandle::abort);
    }
}

async fn answer(shared: Arc<Shared>, id: RequestId, method: String, asked: Asked<Option<RawJson>>) {
    let task = asked.params.as_ref().and_then(related_task);
    let outcome = shared.answer_one(&method, asked).await;
    let outcome = outcome.map(|result| match &task {
        Some(task) => with_related_task(result, task),
        None => result,
    });
    let outcome = outcome.map_err(|error| {
        tracing::debug!(target: "mcp_client", server = %shared.server, method, %error, "a request of the server has no answer");
        error.to_error_object()
    });
    shared.update(|state| {
        let outcome = outcome.as_ref().map(AsRef::as_ref);
        state.connection.answer(&id, outcome, now())
    });
    // There may be an earlier deadline now.
    shared.attention.notify_one();
}

/// What ties a request of the server to a task, in 2025-11-25.
fn related_task(params: &RawJson) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(rename = "_meta")]
        meta: BTreeMap<String, Box<RawValue>>,
    }
    let mut params: Params = params.parse().ok()?;
    params.meta.remove(RELATED_TASK)
}

/// Ties the answer to the same task (TASK-04).
fn with_related_task(result: Box<RawValue>, task: &RawValue) -> Box<RawValue> {
    let tied = || {
        let mut members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(result.get())?;
        let mut meta: BTreeMap<String, Box<RawValue>> = match members.get("_meta") {
            Some(meta) => serde_json::from_str(meta.get())?,
            None => BTreeMap::new(),
        };
        meta.insert(RELATED_TASK.to_owned(), task.to_owned());
        members.insert("_meta".to_owned(), to_raw_value(&meta)?);
        to_raw_value(&members)
    };
    // What is no object can't be tied to anything.
    tied().unwrap_or(result)
}
