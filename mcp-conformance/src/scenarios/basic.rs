//! Connecting, listing and calling tools.

use mcp_client::{CallOptions, Client};
use serde_json::json;

use crate::failure::{Failure, unexpected};
use crate::session::connect;
use crate::task::Task;

/// Connects, and makes sure that the server answers what comes after.
pub(super) async fn connect_and_ask(task: &Task) -> Result<(), Failure> {
    let client = connect(task).await?;
    client.ping(CallOptions::default()).await?;
    client.close().await;
    Ok(())
}

/// Lists the tools and does nothing else: what stands in their schemas stays where it is.
pub(super) async fn list_tools(task: &Task) -> Result<(), Failure> {
    let client = connect(task).await?;
    let tools = &client.tools().await?.tools;
    if tools.is_empty() {
        return unexpected("the server lists no tool");
    }
    client.close().await;
    Ok(())
}

/// Calls a tool with two numbers.
pub(super) async fn add_numbers(task: &Task) -> Result<(), Failure> {
    let client = connect(task).await?;
    let text = call_listed(&client, "add_numbers", &json!({"a": 2, "b": 40})).await?;
    if !text.contains("42") {
        return unexpected(format!("2 + 40 is {text:?}"));
    }
    client.close().await;
    Ok(())
}

/// Calls a tool whose stream breaks off before the answer; the client gets it from the resumed one.
pub(super) async fn reconnect(task: &Task) -> Result<(), Failure> {
    let client = connect(task).await?;
    call_listed(&client, "test_reconnection", &json!({})).await?;
    client.close().await;
    Ok(())
}

/// Sends a tool's schema back as it came.
pub(super) async fn echo_schema(task: &Task) -> Result<(), Failure> {
    let client = connect(task).await?;
    let tools = client.tools().await?;
    let Some(tool) = tools.get("json_schema_2020_12_tool") else {
        return unexpected("json_schema_2020_12_tool is not listed");
    };
    let arguments = json!({"schema": tool.input_schema});
    call_listed(&client, "json_schema_echo", &arguments).await?;
    client.close().await;
    Ok(())
}

/// Calls a tool that has to be in the list, and returns the text of its result.
pub(super) async fn call_listed(
    client: &Client,
    name: &str,
    arguments: &serde_json::Value,
) -> Result<String, Failure> {
    if client.tools().await?.get(name).is_none() {
        return unexpected(format!("{name} is not listed"));
    }
    let result = client.call_tool(name, arguments).await?;
    let text = result.text();
    if result.is_error {
        return unexpected(format!("{name} failed: {text:?}"));
    }
    Ok(text)
}
