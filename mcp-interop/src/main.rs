//! Runs a plan of real servers: connect, list, call, check each result, close, look for processes left behind.
//!
//! `cargo xtask test-interop` installs the servers and writes the plan. It knows only the client's public API, so it reads
//! as an example, too.

mod leftovers;
mod plan;
mod report;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::mcp_proto::model::content::ContentBlock;
use mcp_client::stdio::{ServerCommand, connect};
use mcp_client::{CallOptions, Client, ClientOptions, progress_channel};

use crate::plan::{Call, Plan, Server};
use crate::report::Row;

/// Marks the environment of what is started here, so that it is recognised wherever it ends up.
const MARK: &str = "MCP_INTEROP_MARK";

/// How long one server may take in all.
const PER_SERVER: Duration = Duration::from_secs(120);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        report::say("usage: mcp-interop PLAN.json (see `cargo xtask test-interop`)");
        return ExitCode::from(2);
    };
    let plan = match Plan::read(&path) {
        Ok(plan) => plan,
        Err(error) => {
            report::say(&format!("error: {path}: {error}"));
            return ExitCode::from(2);
        }
    };
    report::say(&report::head());
    let mut rows = Vec::new();
    for server in &plan.servers {
        let mark = format!("{}-{}", std::process::id(), rows.len());
        let row = tokio::time::timeout(PER_SERVER, try_server(server, &mark)).await;
        let mut row =
            row.unwrap_or_else(|_| Row::failed(server, &format!("not done within {PER_SERVER:?}")));
        let left = leftovers::wait_gone(MARK, &mark, Duration::from_secs(2)).await;
        if !left.is_empty() {
            row.fail(&format!("processes left behind: {left:?}"));
        }
        report::say(&row.line());
        rows.push(row);
    }
    report::finish(&rows, &plan.report)
}

async fn try_server(server: &Server, mark: &str) -> Row {
    let start = Instant::now();
    let mut command = ServerCommand::new(&server.command)
        .args(&server.args)
        .env(MARK, mark);
    if let Some(cwd) = &server.cwd {
        command = command.cwd(cwd);
    }
    let options =
        ClientOptions::new("mcp-interop", env!("CARGO_PKG_VERSION")).with_name(&server.name);
    let mut row = Row::new(server);
    match connect(command, options).await {
        Ok(client) => {
            // If the mark did not show now, its absence after the end would prove nothing.
            if leftovers::marked(MARK, mark).is_empty() {
                row.fail("no process of the server is visible while it runs");
            }
            exercise(&client, server, &mut row).await;
            let report = client.close().await;
            row.note(&format!("closed: {}", report.summary));
            if report.leftovers {
                row.fail("the stop report names leftovers");
            }
        }
        Err(error) => row.fail(&report::chain(&error)),
    }
    row.took(start.elapsed());
    row
}

async fn exercise(client: &Client, server: &Server, row: &mut Row) {
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
