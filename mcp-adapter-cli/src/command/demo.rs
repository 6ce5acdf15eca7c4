//! `mcpline demo`: a real session with two built-in servers, checked against what it must be.

use std::time::Instant;

use mcp_client::mcp_proto::Era;
use mcp_client::{CallOptions, progress_channel};
use serde_json::json;

use super::{signature, tags, tools_of};
use crate::app::SharedApp;
use crate::duration::shown;
use crate::failure::{Failure, exit};
use crate::servers::{self, Connected, Target};
use crate::text::table;

/// What was checked, and what was not as it must be.
#[derive(Default)]
struct Checks {
    done: usize,
    wrong: Vec<String>,
}

impl Checks {
    fn check(&mut self, what: &str, holds: bool) {
        self.done += 1;
        if !holds {
            self.wrong.push(what.to_owned());
        }
    }
}

pub(crate) async fn run(app: &SharedApp) -> Result<u8, Failure> {
    let begun = Instant::now();
    let targets = servers::all(app)?;
    tell(
        app,
        ["Starting two demo servers (nothing is installed, no file is written)"],
    );
    let mut connected = Vec::new();
    for outcome in servers::connect_all(app, &targets).await {
        connected.push(outcome?);
    }
    let mut checks = Checks::default();
    let outcome = session(app, &targets, &connected, &mut checks).await;
    app.close_all().await;
    outcome?;
    for connected in &connected {
        let report = connected.client.closed().await;
        checks.check(
            "a server was stopped without force",
            !report.forced && !report.leftovers,
        );
    }
    tell(app, [String::new()]);
    if app.global.json && checks.wrong.is_empty() {
        app.print_document(&json!({"checks": checks.done}), None);
    }
    if !checks.wrong.is_empty() {
        let mut failure = Failure::new(
            exit::OTHER,
            "demo",
            format!("{} of {} checks failed", checks.wrong.len(), checks.done),
        );
        failure.causes = checks.wrong;
        return Err(failure);
    }
    tell(
        app,
        [format!(
            "All {} checks passed in {}. Next:",
            checks.done,
            shown(begun.elapsed())
        )],
    );
    let next = [
        [
            "  mcpline --demo call notes/add a=2 b=3",
            "do the same by hand",
        ],
        ["  mcpline tools -- COMMAND …", "look at any stdio server"],
        ["  mcpline ls", "the servers of your mcp.json"],
    ];
    tell(app, table(&next.map(|row| row.map(str::to_owned).to_vec())));
    Ok(0)
}

async fn session(
    app: &SharedApp,
    targets: &[Target],
    connected: &[Connected],
    checks: &mut Checks,
) -> Result<(), Failure> {
    let ([notes, clock], [notes_target, clock_target]) = (connected, targets) else {
        return Err(Failure::new(
            exit::OTHER,
            "demo",
            "there should be two demo servers",
        ));
    };
    let (notes_tools, clock_tools) = (
        tools_of(notes_target, notes).await?,
        tools_of(clock_target, clock).await?,
    );
    let rows: Vec<_> = [
        (notes_target, notes, &notes_tools),
        (clock_target, clock, &clock_tools),
    ]
    .map(|(target, connected, list)| {
        let version = connected.client.agreement().version.to_string();
        vec![
            format!("  {}", target.id),
            target.transport.to_owned(),
            version,
            format!("{} tools", list.tools.len()),
            shown(connected.took),
        ]
    })
    .to_vec();
    tell(app, table(&rows));
    checks.check(
        "notes speaks the legacy era",
        notes.client.agreement().era == Era::Legacy,
    );
    checks.check(
        "clock speaks the modern era",
        clock.client.agreement().era == Era::Modern,
    );
    checks.check(
        "notes has its tools",
        ["add", "echo", "fail"]
            .iter()
            .all(|name| notes_tools.get(name).is_some()),
    );

    prompt(app, "tools");
    let lines = notes_tools
        .tools
        .iter()
        .map(|tool| ("notes", tool))
        .chain(clock_tools.tools.iter().map(|tool| ("clock", tool)));
    let rows: Vec<_> = lines
        .map(|(server, tool)| {
            vec![
                signature(server, tool),
                tags(tool),
                tool.description.clone().unwrap_or_default(),
            ]
        })
        .collect();
    tell(app, table(&rows));

    prompt(app, "call notes/add a=2 b=3");
    let failed =
        |error: &mcp_client::Error, target: &Target| Failure::of(error, &target.redactor());
    let sum = notes
        .client
        .call_tool("add", &json!({"a": 2, "b": 3}))
        .await
        .map_err(|error| failed(&error, notes_target))?;
    tell(app, [sum.text()]);
    checks.check("2 and 3 make 5", sum.text() == "5");

    prompt(app, "call clock/countdown from=3");
    let (sender, mut progress) = progress_channel();
    let from = json!({"from": 3});
    let options = CallOptions::default().with_progress(sender);
    let counted = clock
        .client
        .call_tool_with("countdown", &from, options)
        .await
        .map_err(|error| failed(&error, clock_target))?;
    let mut reports = 0;
    while progress.recv().await.is_some() {
        reports += 1;
    }
    tell(
        app,
        [format!(
            "{}   (with {reports} progress reports)",
            counted.text()
        )],
    );
    checks.check(
        "a countdown from 3 reports progress",
        reports >= 3 && !counted.is_error,
    );

    prompt(app, "call notes/fail");
    let fail = notes
        .client
        .call_tool("fail", &json!({}))
        .await
        .map_err(|error| failed(&error, notes_target))?;
    tell(
        app,
        [
            "error: notes/fail: the tool reported an error".to_owned(),
            format!("  server  {:?}", fail.text()),
        ],
    );
    checks.check(
        "a failing tool says so",
        fail.is_error && !fail.text().is_empty(),
    );

    let unknown = notes.client.call_tool("ad", &json!({})).await;
    checks.check(
        "an unknown tool is refused before anything is sent",
        unknown.is_err_and(|error| error.was_sent() == mcp_client::Sent::No),
    );
    Ok(())
}

/// The story goes to people; a program gets a document at the end.
fn tell<S: AsRef<str>>(app: &SharedApp, lines: impl IntoIterator<Item = S>) {
    if !app.global.json {
        app.print(lines);
    }
}

fn prompt(app: &SharedApp, command: &str) {
    tell(app, [String::new(), format!("$ mcpline --demo {command}")]);
}
