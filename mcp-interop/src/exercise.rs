//! What is tried with every server once it is connected.

use std::time::Duration;

use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::mcp_proto::model::content::ContentBlock;
use mcp_client::{CallOptions, Client, progress_channel};

use crate::plan::{Call, Request, Server};
use crate::report::{self, Row};

/// Lists, calls and requests all that the plan says, and checks what comes back.
pub(crate) async fn exercise(client: &Client, server: &Server, row: &mut Row) {
    let agreement = client.agreement();
    if let Some(info) = &agreement.server_info {
        row.calls_itself(format!("{} {}", info.name, info.version));
    }
    row.agreed(agreement.era.to_string(), agreement.version.to_string());
    if agreement.version.as_str() != server.expect_version {
        row.fail(&format!(
            "agreed on {}, expected {}",
            agreement.version, server.expect_version
        ));
    }
    match client.tools().await {
        Ok(list) => {
            row.note(&format!("{} tools", list.tools.len()));
            if list.tools.len() < server.least_tools {
                row.fail(&format!(
                    "{} tools, expected at least {}",
                    list.tools.len(),
                    server.least_tools
                ));
            }
            for note in &list.notes {
                row.fail(&format!("tool list: {note}"));
            }
            for call in &server.calls {
                if !list.tools.iter().any(|tool| tool.name == call.tool) {
                    row.fail(&format!("{} is not listed", call.tool));
                }
            }
        }
        Err(error) => row.fail(&report::chain(&error)),
    }
    for call in &server.calls {
        if let Err(error) = try_call(client, call).await {
            row.fail(&format!("{}: {error}", call.tool));
        } else {
            row.note(&call.tool);
        }
    }
    for request in &server.requests {
        match try_request(client, request).await {
            Ok(()) => row.note(&request.method),
            Err(error) => row.fail(&format!("{}: {error}", request.method)),
        }
    }
    match client.ping(CallOptions::default()).await {
        // The newest version has no ping; the client asks something cheap instead.
        Ok(()) => row.note("answers"),
        Err(error) => row.fail(&report::chain(&error)),
    }
    let diagnostics = client.diagnostics();
    if !diagnostics.is_empty() {
        row.note(&format!("odd: {diagnostics:?}"));
    }
}

async fn try_call(client: &Client, call: &Call) -> Result<(), String> {
    let (sender, mut progress) = progress_channel();
    let deadline = Deadline::total(Duration::from_secs(30));
    let options = CallOptions::default()
        .with_deadline(deadline)
        .with_progress(sender);
    let result = client
        .call_tool_with(&call.tool, &call.arguments, options)
        .await;
    let result = result.map_err(|error| report::chain(&error))?;
    let mut reports = 0;
    while progress.recv().await.is_some() {
        reports += 1;
    }
    let text = result.text();
    if result.is_error != call.expect_error {
        return Err(format!("is_error is {}: {text:?}", result.is_error));
    }
    if let Some(expected) = &call.expect_blocks {
        let kinds: Vec<_> = result.content.iter().map(kind).collect();
        if kinds != *expected {
            return Err(format!("content is {kinds:?}, expected {expected:?}"));
        }
    }
    let structured = result
        .structured_content
        .as_deref()
        .map_or("", |raw| raw.get());
    for part in &call.expect {
        if !text.contains(part) && !structured.contains(part) {
            return Err(format!(
                "the result does not contain {part:?}: {text:?} {structured}"
            ));
        }
    }
    if reports < call.least_progress {
        return Err(format!(
            "{reports} progress reports, expected at least {}",
            call.least_progress
        ));
    }
    Ok(())
}

async fn try_request(client: &Client, request: &Request) -> Result<(), String> {
    let params = serde_json::value::to_raw_value(&request.params).map_err(|e| e.to_string())?;
    let options = CallOptions::default().with_deadline(Deadline::total(Duration::from_secs(30)));
    let result = client
        .request_raw(&request.method, Some(&params), options)
        .await
        .map_err(|error| report::chain(&error))?;
    for part in &request.expect {
        if !result.as_str().contains(part) {
            return Err(format!(
                "the result does not contain {part:?}: {}",
                result.as_str()
            ));
        }
    }
    Ok(())
}

/// What the wire calls a block.
fn kind(block: &ContentBlock) -> &'static str {
    match block {
        ContentBlock::Text(_) => "text",
        ContentBlock::Image(image) if image.data.is_empty() => "image without data",
        ContentBlock::Image(_) => "image",
        ContentBlock::Audio(_) => "audio",
        ContentBlock::Link(_) => "resource_link",
        ContentBlock::Embedded(_) => "resource",
        _ => "unknown",
    }
}
