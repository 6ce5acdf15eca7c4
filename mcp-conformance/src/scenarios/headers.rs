//! Header fields of requests over HTTP, which the client computes by itself: a scenario only has to make requests.

use std::collections::BTreeMap;

use mcp_client::ListNote;
use serde::Deserialize;
use serde_json::{Value, json};

use super::basic::call_listed;
use crate::failure::{Failure, unexpected};
use crate::session::connect;
use crate::task::Task;

/// Makes each request that has a header field of its own, with every name that the server lists.
pub(super) async fn use_everything(task: &Task) -> Result<(), Failure> {
    let client = connect(task).await?;
    for tool in &client.tools().await?.tools {
        client.call_tool(&tool.name, &()).await?;
    }
    for resource in &client.resources().await?.entries {
        client.read_resource(&resource.uri).await?;
    }
    for prompt in &client.prompts().await?.entries {
        client.get_prompt(&prompt.name, &BTreeMap::new()).await?;
    }
    client.close().await;
    Ok(())
}

/// What `http-custom-headers` tells beforehand.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct GivenCalls {
    tool_calls: Vec<GivenCall>,
}

#[derive(Deserialize)]
struct GivenCall {
    name: String,
    arguments: Value,
}

/// Makes the calls that the scenario tells; the tools want some arguments as header fields.
pub(super) async fn make_given_calls(task: &Task) -> Result<(), Failure> {
    let calls = task.context::<GivenCalls>()?.tool_calls;
    let client = connect(task).await?;
    for call in &calls {
        call_listed(&client, &call.name, &call.arguments).await?;
    }
    client.close().await;
    Ok(())
}

/// Calls every tool that the client lists: those with header fields that can't be are not among them.
pub(super) async fn call_valid_tools(task: &Task) -> Result<(), Failure> {
    let client = connect(task).await?;
    let list = client.tools().await?;
    let mut notes = list.notes.iter();
    if !notes.any(|note| matches!(note, ListNote::InvalidHeaders { .. })) {
        return unexpected("no tool was left out");
    }
    for tool in &list.tools {
        call_listed(&client, &tool.name, &json!({"region": "eu"})).await?;
    }
    client.close().await;
    Ok(())
}
