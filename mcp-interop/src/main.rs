//! Runs a plan of real servers: connect, list, call, check each result, close, look for processes left behind.
//!
//! `cargo xtask test-interop` installs the servers and writes the plan. It knows only the client's public API, so it reads
//! as an example, too.

mod child;
mod exercise;
mod http;
mod leftovers;
mod nginx;
mod plan;
mod recorder;
mod report;
mod stdio;

use std::process::ExitCode;
use std::time::Duration;

use crate::plan::Plan;
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
        let trying = async {
            match &server.http {
                Some(http) => http::try_server(server, http, &plan.work, &mark).await,
                None => stdio::try_server(server, &mark).await,
            }
        };
        let row = tokio::time::timeout(PER_SERVER, trying).await;
        let mut row =
            row.unwrap_or_else(|_| Row::failed(server, &format!("not done within {PER_SERVER:?}")));
        let left = leftovers::wait_gone(MARK, &mark, Duration::from_secs(2)).await;
        if !left.is_empty() {
            row.fail(&format!("processes left behind: {left:?}"));
        }
        report::say(&row.line());
        rows.push(row);
    }
    if let Some(proxied) = &plan.proxied {
        let mark = format!("{}-nginx", std::process::id());
        let trying = nginx::try_proxy(proxied, &plan.work, &mark);
        let row = tokio::time::timeout(PER_SERVER, trying).await;
        let mut row =
            row.unwrap_or_else(|_| nginx::failed(&format!("not done within {PER_SERVER:?}")));
        let left = leftovers::wait_gone(MARK, &mark, Duration::from_secs(2)).await;
        if !left.is_empty() {
            row.fail(&format!("processes left behind: {left:?}"));
        }
        report::say(&row.line());
        rows.push(row);
    }
    report::finish(&rows, &plan.report)
}
