//! `mcpline doctor`: every step from the entry to a clean end, each with what was found.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mcp_client::CallOptions;
use mcp_client::http::HttpServer;
use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::mcp_proto::Era;
use mcp_client::stdio::{ServerCommand, look_up};
use serde_json::{Value, json};

use super::tools_of;
use crate::app::SharedApp;
use crate::approval::Trust;
use crate::config::{Origin, Server, lint, quoted, resolve, resolve_remote};
use crate::duration::shown;
use crate::failure::{Failure, exit_of};
use crate::servers::{self, Reach, Target};
use crate::text::one_line;

/// Most programs of the same name that are listed.
const MAX_OTHER_PROGRAMS: usize = 4;

/// How a step went.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mark {
    Fail,
    Note,
    Ok,
}

impl Mark {
    fn word(self) -> &'static str {
        match self {
            Self::Fail => "FAIL",
            Self::Note => "note",
            Self::Ok => "ok",
        }
    }
}

/// The steps of one server.
struct Findings {
    lines: Vec<(Mark, &'static str, String)>,
    failure: Option<Failure>,
}

impl Findings {
    fn add(&mut self, mark: Mark, step: &'static str, what: impl Into<String>) {
        self.lines.push((mark, step, what.into()));
    }

    fn fail(&mut self, step: &'static str, failure: Failure) {
        self.add(Mark::Fail, step, failure.message.clone());
        for cause in &failure.causes {
            self.add(Mark::Fail, "cause", cause.clone());
        }
        for line in &failure.stderr {
            self.add(Mark::Note, "stderr", line.clone());
        }
        for note in &failure.notes {
            self.add(Mark::Note, step, note.clone());
        }
        self.failure = Some(failure);
    }
}

pub(crate) async fn run(app: &SharedApp, wanted: &[String]) -> Result<u8, Failure> {
    let targets = servers::all(app)?;
    let targets = if wanted.is_empty() {
        targets
    } else {
        servers::chosen(targets, wanted)?
    };
    let mut failed = Vec::new();
    let mut documents = Vec::new();
    for target in &targets {
        let findings = examine(app, target).await;
        documents.push(document(target, &findings));
        if !app.global.json {
            app.print([target.id.clone()]);
            app.print(findings.lines.iter().map(|(mark, step, what)| {
                format!(
                    "  {:4}  {step:9} {}",
                    mark.word(),
                    what.replace('\n', "\n                  ")
                )
            }));
            app.print([
                format!("  {}", verdict(app, target, &findings)),
                String::new(),
            ]);
        }
        failed.extend(findings.failure);
    }
    if app.global.json {
        app.print_document(&json!({"servers": documents}), failed.first());
    }
    Ok(exit_of(targets.len() - failed.len(), &failed))
}

/// One line: whether it works, and if not what to try.
fn verdict(app: &SharedApp, target: &Target, findings: &Findings) -> String {
    let Some(failure) = &findings.failure else {
        return "works".to_owned();
    };
    let failure = app.completed(failure);
    let other = |command: &&(String, String)| !command.0.contains(" doctor ");
    let next = failure.next.iter().find(other).map_or_else(
        || app.about_same_servers(&format!("mcpline tools {} -vv", quoted(&target.id))),
        |(command, _)| command.clone(),
    );
    let stage = failure.stage.unwrap_or(failure.kind);
    format!("does not work: {stage}; next: {next}")
}

fn document(target: &Target, findings: &Findings) -> Value {
    let steps: Vec<_> = findings
        .lines
        .iter()
        .map(|(mark, step, what)| json!({"mark": mark.word(), "step": step, "what": what}))
        .collect();
    json!({"server": target.id, "ok": findings.failure.is_none(), "steps": steps})
}

async fn examine(app: &SharedApp, target: &Target) -> Findings {
    let mut findings = Findings {
        lines: Vec::new(),
        failure: None,
    };
    findings.add(Mark::Ok, "entry", target.place.clone());
    if target.disabled {
        findings.add(Mark::Note, "entry", "disabled; looked at all the same");
    }
    look_at_entry(app, target, &mut findings);
    match &target.trust {
        Trust::Given(why) => findings.add(Mark::Ok, "trust", *why),
        Trust::Needed { .. } => findings.add(Mark::Note, "trust", "nobody has approved it yet"),
    }
    match &target.launch {
        Ok(Reach::Process(command)) => look_at_process(app, command, &mut findings),
        Ok(Reach::Remote(server)) => look_at_url(server, &mut findings),
        Err(failure) => {
            findings.fail("entry", failure.clone());
            return findings;
        }
    }
    let starts = matches!(target.launch, Ok(Reach::Process(_)));
    let connected = match servers::connect(app, target).await {
        Ok(connected) => connected,
        Err(failure) => {
            findings.fail(if starts { "start" } else { "connect" }, failure);
            return findings;
        }
    };
    findings.add(
        Mark::Ok,
        if starts { "start" } else { "connect" },
        format!("ready after {}", shown(connected.took)),
    );
    look_at_session(target, &connected, &mut findings).await;
    let begun = Instant::now();
    let report = connected.client.close().await;
    app.close_all().await;
    let mark = if report.leftovers {
        Mark::Fail
    } else if report.forced {
        Mark::Note
    } else {
        Mark::Ok
    };
    let leftovers = match (starts, report.leftovers) {
        (false, _) => "",
        (true, true) => "; processes were left behind",
        (true, false) => "; nothing was left behind",
    };
    findings.add(
        mark,
        "end",
        format!(
            "{} in {}{leftovers}",
            report.summary,
            shown(begun.elapsed())
        ),
    );
    findings
}

/// What is started: program, folder, variables.
fn look_at_process(app: &SharedApp, command: &ServerCommand, findings: &mut Findings) {
    let env = command.resolve_env();
    match look_up(
        command.program(),
        env.path(),
        command.folder(),
        app.folders.home.as_deref(),
    ) {
        Ok(path) => {
            findings.add(Mark::Ok, "program", path.display().to_string());
            for other in others_on_path(command.program(), env.path(), &path) {
                let what = format!("PATH also has {}", other.display());
                findings.add(Mark::Ok, "program", what);
            }
        }
        Err(error) => findings.add(Mark::Fail, "program", error.to_string()),
    }
    if let Some(folder) = command.folder() {
        let mark = if folder.is_dir() {
            Mark::Ok
        } else {
            Mark::Fail
        };
        findings.add(mark, "folder", folder.display().to_string());
    }
    let names: Vec<_> = env
        .variables
        .keys()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    findings.add(
        Mark::Ok,
        "passed on",
        format!(
            "{} variables: {}",
            names.len(),
            one_line(&names.join(" "), 300)
        ),
    );
    if !env.unpassed_network_names.is_empty() {
        findings.add(
            Mark::Note,
            "not passed",
            env.unpassed_network_names.join(", "),
        );
    }
    let args: Vec<_> = command
        .arguments()
        .iter()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    for hint in lint(&command.program().to_string_lossy(), &args) {
        findings.add(Mark::Note, "hint", hint);
    }
}

/// Where it is: URL, proxy.
fn look_at_url(server: &HttpServer, findings: &mut Findings) {
    let endpoint = server.endpoint();
    findings.add(Mark::Ok, "url", endpoint.to_string());
    if !endpoint.is_https() && !endpoint.is_loopback() {
        let what = "not encrypted: whoever is on the way reads and changes everything";
        findings.add(Mark::Note, "url", what);
    }
    if server.connect.tls.danger_accept_any_certificate {
        findings.add(Mark::Note, "url", "any certificate is taken");
    }
}

/// Programs of the same name in later folders: two versions of a runtime explain much.
fn others_on_path(program: &OsStr, path: Option<&OsStr>, found: &Path) -> Vec<PathBuf> {
    if Path::new(program).components().count() > 1 {
        return Vec::new();
    }
    let folders = path.map(|path| std::env::split_paths(path).collect::<Vec<_>>());
    let mut others: Vec<_> = folders
        .into_iter()
        .flatten()
        .map(|folder| folder.join(program))
        .filter(|path| path != found && path.is_file())
        .collect();
    others.dedup();
    others.truncate(MAX_OTHER_PROGRAMS);
    others
}

/// Where the entry's values come from.
fn look_at_entry(app: &SharedApp, target: &Target, findings: &mut Findings) {
    if app.global.demo || app.is_ad_hoc() {
        return;
    }
    let (setup, _) = servers::load(app);
    let Some(entry) = setup.get(&target.id) else {
        return;
    };
    for note in &entry.notes {
        findings.add(Mark::Note, "entry", note.message.clone());
    }
    let variable = |name: &str| std::env::var(name).ok();
    let expansions = match &entry.server {
        Ok(Server::Stdio(server)) => {
            resolve(entry, server, &app.folders, &variable).map(|launch| launch.expansions)
        }
        Ok(Server::Http(server)) => {
            resolve_remote(entry, server, &app.folders, &variable).map(|remote| remote.expansions)
        }
        Err(_) => return,
    };
    for (key, name, origin) in expansions.unwrap_or_default() {
        let from = match origin {
            Origin::Default => "its default",
            Origin::Known => "the environment",
        };
        let what = format!("{key}: ${{{name}}} comes from {from}");
        findings.add(Mark::Ok, "variable", what);
    }
}

async fn look_at_session(target: &Target, connected: &servers::Connected, findings: &mut Findings) {
    let client = &connected.client;
    let agreement = client.agreement();
    if let Some(probe) = &agreement.probe {
        findings.add(Mark::Ok, "probe", format!("not modern: {probe}"));
    } else if agreement.era == Era::Modern {
        findings.add(
            Mark::Ok,
            "probe",
            "answered: the server speaks the modern era",
        );
    }
    for (fact, value) in client.channel_facts() {
        findings.add(Mark::Ok, fact, value);
    }
    let name = agreement.server_info.as_ref().map_or_else(
        || "does not say who it is".to_owned(),
        |info| format!("{} {}", info.name, info.version),
    );
    findings.add(
        Mark::Ok,
        "speaks",
        format!(
            "{} ({}); {}",
            agreement.version,
            agreement.era,
            one_line(&name, 100)
        ),
    );
    findings.add(
        Mark::Ok,
        "offers",
        agreement
            .capabilities
            .names()
            .collect::<Vec<_>>()
            .join(", "),
    );
    if let Some(text) = &agreement.instructions {
        findings.add(
            Mark::Ok,
            "says",
            format!("{} bytes of instructions", text.len()),
        );
    }
    let begun = Instant::now();
    match tools_of(target, connected).await {
        Ok(list) => {
            let bytes: usize = list
                .tools
                .iter()
                .map(|tool| {
                    tool.input_schema.get().len()
                        + tool.description.as_ref().map_or(0, String::len)
                        + tool.name.len()
                })
                .sum();
            findings.add(
                Mark::Ok,
                "tools",
                format!(
                    "{} in {}, about {} tokens for a model",
                    list.tools.len(),
                    shown(begun.elapsed()),
                    bytes / 4
                ),
            );
            for note in &list.notes {
                findings.add(Mark::Note, "tools", note.to_string());
            }
        }
        Err(failure) => findings.fail("tools", failure),
    }
    let begun = Instant::now();
    match client
        .ping(CallOptions::default().with_deadline(Deadline::total(Duration::from_secs(10))))
        .await
    {
        Ok(()) => findings.add(
            Mark::Ok,
            "ping",
            format!("answered in {}", shown(begun.elapsed())),
        ),
        Err(error) => findings.fail("ping", Failure::of(&error, &target.redactor())),
    }
    let diagnostics = client.diagnostics();
    let redactor = target.redactor();
    if diagnostics.noise > 0 {
        let example = diagnostics
            .noise_examples
            .front()
            .map_or_else(String::new, |example| {
                format!(", such as {}", redactor.redact(example))
            });
        findings.add(
            Mark::Note,
            "output",
            format!("{} lines that are no messages{example}", diagnostics.noise),
        );
    }
    for (quirk, times) in &diagnostics.quirks {
        findings.add(Mark::Note, "quirk", format!("{quirk} ({times} times)"));
    }
    for violation in &diagnostics.violation_examples {
        findings.add(Mark::Note, "violation", redactor.redact(violation));
    }
}
