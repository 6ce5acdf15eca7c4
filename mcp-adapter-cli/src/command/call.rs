//! `mcpline call`: call a tool and show its result.

use std::io::{IsTerminal as _, Read};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mcp_client::mcp_jsonrpc::{Deadline, RawJson};
use mcp_client::mcp_proto::method::{CallTool, Method};
use mcp_client::mcp_proto::model::progress::Progress;
use mcp_client::mcp_proto::model::tool::CallToolParams;
use mcp_client::{CallOptions, Error, ProgressReceiver, progress_channel};
use serde::Serialize;
use serde_json::value::RawValue;

use super::show::no_such_tool;
use super::{say_notes, tools_of};
use crate::app::{App, SharedApp};
use crate::arguments;
use crate::cli::CallArgs;
use crate::config::quoted;
use crate::duration::written;
use crate::failure::{Failure, exit};
use crate::nearest::nearest;
use crate::result::{pretty, render};
use crate::schema::Schema;
use crate::servers::{self, Connected, Target};
use crate::text::{count_hidden, is_ascii_only, one_line};

/// How long a call runs before progress is shown.
const SHOW_PROGRESS_AFTER: Duration = Duration::from_millis(300);

/// Largest file or standard input taken as arguments, in bytes.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

/// Most characters of a suggested command.
const MAX_SHOWN_COMMAND: usize = 300;

/// Most characters shown of what a tool says about its failure; `--json` and `--raw` have all of it.
const MAX_SHOWN_ERROR: usize = 2000;

pub(crate) async fn run(app: &SharedApp, args: &CallArgs) -> Result<u8, Failure> {
    let start = Instant::now();
    let mut about = About {
        target: args.target.clone(),
        ..About::default()
    };
    let outcome = call(app, args, &mut about).await;
    app.close_all().await;
    about.ms = u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX);
    match outcome {
        Ok(None) => Ok(0),
        Ok(Some(raw)) => finish(app, args, about, raw),
        Err(failure) if app.global.json => {
            app.print_document(&about, Some(&failure));
            Ok(failure.exit)
        }
        Err(failure) => Err(failure),
    }
}

/// The members of the JSON document.
#[derive(Default, Serialize)]
struct About {
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    target: String,
    /// The protocol version.
    #[serde(skip_serializing_if = "Option::is_none")]
    era: Option<String>,
    ms: u64,
    /// `tools/call` as it would have been sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<Box<RawValue>>,
    /// The result as it came: numbers keep their digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RawJson>,
}

/// Makes the call; `None` when nothing was to be sent.
async fn call(
    app: &SharedApp,
    args: &CallArgs,
    about: &mut About,
) -> Result<Option<RawJson>, Failure> {
    let (target, connected, name) = find(app, args).await?;
    about.server = Some(target.id.clone());
    about.target = format!("{}/{name}", target.id);
    about.era = Some(connected.client.agreement().version.to_string());
    let list = tools_of(&target, &connected).await?;
    say_notes(app, &target, &list);
    let Some(tool) = list.get(&name) else {
        let mut failure = no_such_tool(
            &target,
            &name,
            list.tools.iter().map(|tool| tool.name.as_str()),
        );
        let names = list.tools.iter().map(|tool| tool.name.as_str());
        if let Some(near) = nearest(&name, names) {
            // Said, never done.
            let words = args.words.iter().map(|word| format!(" {}", quoted(word)));
            let words: String = words.collect();
            let command = format!(
                "mcpline call {}/{}{words}",
                quoted(&target.id),
                quoted(near)
            );
            let command = one_line(&command, MAX_SHOWN_COMMAND);
            failure.next = vec![(command, "nearest name; not run".to_owned())];
        }
        failure.sent = Some("no");
        return Err(failure);
    };
    let schema = Schema::read(tool.input_schema.get());
    let base = whole_object(args).await?;
    let built = arguments::build(
        &args.words,
        base.as_deref(),
        &schema,
        !args.no_validate,
        &read_file,
    );
    let built = built.map_err(|problems| wrong_arguments(&target, &name, &problems, &schema))?;
    let params = CallToolParams::new(name.as_str(), &built)
        .ok_or_else(|| Failure::usage("the arguments must be a JSON object"))?;
    let params = serde_json::value::to_raw_value(&params)
        .map_err(|error| Failure::usage(error.to_string()))?;
    if args.dry_run {
        if app.global.json {
            about.request = Some(params);
            app.print_document(about, None);
        } else {
            app.print([format!("{} {}", CallTool::NAME, pretty(params.get()))]);
        }
        return Ok(None);
    }
    let (sender, progress) = progress_channel();
    let deadline = target.deadline(app);
    let options = CallOptions::default()
        .with_deadline(deadline)
        .with_progress(sender);
    let call = connected
        .client
        .request_raw(CallTool::NAME, Some(&params), options);
    let outcome = watch(app, &about.target, progress, call).await;
    outcome
        .map(Some)
        .map_err(|error| call_failure(&target, &name, deadline, &error))
}

fn call_failure(target: &Target, name: &str, deadline: Deadline, error: &Error) -> Failure {
    let mut failure = Failure::of(error, &target.redactor());
    // The library was asked for a request and not for a tool.
    let what = failure.message.strip_prefix(&format!("{}: ", target.id));
    let what = what.unwrap_or(&failure.message);
    let what = what
        .strip_prefix(&format!("{}: ", CallTool::NAME))
        .unwrap_or(what);
    failure.message = format!("{}/{}: {what}", target.id, one_line(name, 128));
    let shown = |limit: Option<Duration>| limit.map_or_else(|| "none".to_owned(), written);
    if failure.exit == exit::TIMEOUT {
        failure.notes.push(format!(
            "the limits were --timeout {} for silence, --max-time {} in all",
            shown(deadline.idle),
            shown(deadline.total)
        ));
    }
    if failure.exit == exit::UNAVAILABLE {
        let command = format!("mcpline doctor {}", quoted(&target.id));
        failure = failure.next(command, "look at every step");
    }
    failure
}

/// Which server and tool are meant.
async fn find(app: &SharedApp, args: &CallArgs) -> Result<(Target, Connected, String), Failure> {
    let targets = servers::all(app)?;
    let given = args.target.as_str();
    if let Some((target, tool)) = servers::split(&targets, given) {
        let connected = servers::connect(app, target).await?;
        return Ok((target.clone(), connected, tool.to_owned()));
    }
    if let [target] = targets.as_slice()
        && app.is_ad_hoc()
    {
        let connected = servers::connect(app, target).await?;
        return Ok((target.clone(), connected, given.to_owned()));
    }
    if let Some((id, _)) = given.split_once('/') {
        servers::one(&targets, id)?;
    }
    // A tool alone: only after a look at all servers, and only when one has it.
    let targets = servers::chosen(targets, &[])?;
    let outcomes = servers::connect_all(app, &targets).await;
    let (mut having, mut names, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for (target, outcome) in targets.iter().zip(outcomes) {
        match outcome {
            Ok(connected) => {
                let list = match tools_of(target, &connected).await {
                    Ok(list) => list,
                    Err(failure) => {
                        failures.push(failure);
                        continue;
                    }
                };
                names.extend(list.tools.iter().map(|tool| tool.name.clone()));
                if list.get(&args.target).is_some() {
                    having.push((target.clone(), connected));
                }
            }
            Err(failure) => failures.push(failure),
        }
    }
    match having.len() {
        1 => having
            .pop()
            .map(|(target, connected)| (target, connected, args.target.clone())),
        _ => None,
    }
    .ok_or_else(|| {
        let matching = having.iter().map(|(target, _)| {
            format!(
                "mcpline call {}/{}",
                quoted(&target.id),
                quoted(&args.target)
            )
        });
        let mut failure = if having.is_empty() {
            Failure::new(
                exit::NOT_FOUND,
                "unknown_tool",
                format!("no server has a tool {:?}", one_line(&args.target, 100)),
            )
        } else {
            Failure::new(
                exit::NOT_FOUND,
                "ambiguous_tool",
                format!(
                    "several servers have a tool {:?}",
                    one_line(&args.target, 100)
                ),
            )
        };
        failure
            .next
            .extend(matching.map(|command| (command, String::new())));
        if having.is_empty()
            && let Some(near) = nearest(&args.target, names.iter().map(String::as_str))
        {
            failure = failure.next(
                format!("mcpline call {}", quoted(near)),
                "nearest name; not run",
            );
        }
        failure
            .notes
            .extend(failures.iter().map(|failure| failure.message.clone()));
        failure
    })
}

/// The object of `--args`, from the command line, a file or standard input.
async fn whole_object(args: &CallArgs) -> Result<Option<String>, Failure> {
    let bytes = match args.args.as_deref() {
        None => return Ok(None),
        Some("-") => {
            // Not on the runtime's thread: signals must be heard while nothing comes.
            let reading =
                tokio::task::spawn_blocking(|| read_all(std::io::stdin(), "standard input"));
            reading.await.unwrap_or_else(|error| Err(error.to_string()))
        }
        Some(given) => match given.strip_prefix('@') {
            Some(file) => read_file(file),
            None => return Ok(Some(given.to_owned())),
        },
    };
    let text = String::from_utf8(bytes.map_err(Failure::usage)?);
    text.map(Some)
        .map_err(|_| Failure::usage("--args: not UTF-8"))
}

fn read_file(path: &str) -> Result<Vec<u8>, String> {
    let file = std::fs::File::open(path).map_err(|error| format!("{path}: {error}"))?;
    read_all(file, path)
}

fn read_all(from: impl Read, name: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = from.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| format!("{name}: {error}"))?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        return Err(format!("{name}: larger than {MAX_INPUT_BYTES} bytes"));
    }
    Ok(bytes)
}

fn wrong_arguments(
    target: &Target,
    name: &str,
    problems: &[arguments::Wrong],
    schema: &Schema,
) -> Failure {
    let count = match problems.len() {
        1 => "1 problem".to_owned(),
        count => format!("{count} problems"),
    };
    let mut failure = Failure::new(
        exit::NOT_FOUND,
        "bad_arguments",
        format!("{}/{name}: {count} with the arguments", target.id),
    );
    failure.details = problems
        .iter()
        .map(|problem| (one_line(&problem.name, 40), problem.what.clone()))
        .collect();
    failure.sent = Some("no");
    failure.usage = Some(format!("{}/{name}({})", target.id, schema.signature()));
    failure.next(
        format!("mcpline show {}/{}", quoted(&target.id), quoted(name)),
        "what it accepts",
    )
}

/// Waits for the call and shows how far it is.
async fn watch<T>(
    app: &App,
    what: &str,
    mut progress: ProgressReceiver,
    call: impl Future<Output = T>,
) -> T {
    let draws = std::io::stderr().is_terminal() && !app.global.quiet;
    let mut bar: Option<ProgressBar> = None;
    let mut call = std::pin::pin!(call);
    let mut delay = std::pin::pin!(tokio::time::sleep(SHOW_PROGRESS_AFTER));
    let mut newest: Option<Progress> = None;
    let mut last_line = Instant::now();
    let mut reporting = true;
    let result = loop {
        tokio::select! {
            result = &mut call => break result,
            report = progress.recv(), if reporting => match report {
                Some(report) => {
                    if !draws && app.global.verbose > 0 && last_line.elapsed() >= Duration::from_secs(1) {
                        last_line = Instant::now();
                        app.say(&format!("{what}  {}", describe(&report)));
                    }
                    if let Some(bar) = &bar {
                        update(bar, what, Some(&report));
                    }
                    newest = Some(report);
                }
                None => reporting = false,
            },
            () = &mut delay, if draws && bar.is_none() => {
                let new = ProgressBar::new_spinner();
                if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}   Ctrl-C cancels") {
                    new.set_style(if is_ascii_only() { style.tick_chars("-\\|/ ") } else { style });
                }
                update(&new, what, newest.as_ref());
                new.enable_steady_tick(Duration::from_millis(100));
                bar = Some(new);
            }
        }
    };
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    result
}

fn update(bar: &ProgressBar, what: &str, progress: Option<&Progress>) {
    bar.set_message(progress.map_or_else(
        || what.to_owned(),
        |progress| format!("{what}  {}", describe(progress)),
    ));
}

/// `12/60  "48 left"`
fn describe(progress: &Progress) -> String {
    let total = progress
        .total
        .map_or_else(String::new, |total| format!("/{total}"));
    let message = progress
        .message
        .as_deref()
        .map_or_else(String::new, |text| format!("  {:?}", one_line(text, 60)));
    format!("{}{total}{message}", progress.progress)
}

/// Shows a result that arrived.
fn finish(app: &App, args: &CallArgs, mut about: About, raw: RawJson) -> Result<u8, Failure> {
    let result = CallTool::read(raw.as_str()).map_err(|reason| {
        let message = format!("{}: the result is not valid: {reason}", about.target);
        Failure::new(exit::REFUSED, "invalid_answer", message)
    })?;
    let code = if result.is_error { exit::REFUSED } else { 0 };
    if args.raw {
        app.print([raw.as_str()]);
        return Ok(code);
    }
    if let Some(pointer) = &args.get {
        return pick(app, &raw, pointer).map(|()| code);
    }
    let failed = || {
        let message = format!("{}: the tool reported an error", about.target);
        Failure::new(exit::REFUSED, "tool_error", message).next(
            format!("mcpline show {}", quoted(&about.target)),
            "what it accepts",
        )
    };
    if app.global.json {
        let failure = result.is_error.then(failed);
        about.result = Some(raw);
        app.print_document(&about, failure.as_ref());
        return Ok(code);
    }
    let is_error = result.is_error;
    let rendered = render(result, args.save.as_deref(), app.is_terminal())
        .map_err(|error| Failure::new(exit::OTHER, "save", error))?;
    rendered.notes.iter().for_each(|note| app.say(note));
    if is_error {
        let says = rendered.out.iter();
        let says = says.map(|text| {
            (
                "server".to_owned(),
                format!("\"{}\"", one_line(text, MAX_SHOWN_ERROR)),
            )
        });
        let mut failure = failed();
        failure.details.extend(says);
        return Err(failure);
    }
    app.print(&rendered.out);
    let hidden: usize = rendered.out.iter().map(|text| count_hidden(text)).sum();
    if hidden > 0 && app.is_terminal() {
        app.say(&format!(
            "note: {hidden} control or invisible characters are shown as marks"
        ));
    }
    Ok(0)
}

/// Prints what a JSON pointer names: strings bare, all else as JSON.
fn pick(app: &App, raw: &RawJson, pointer: &str) -> Result<(), Failure> {
    let not_there = || {
        Failure::new(
            exit::NOT_FOUND,
            "no_such_value",
            format!("the result has nothing at {pointer:?}"),
        )
        .next("--raw", "see all of it")
    };
    let mut text = raw.as_str().to_owned();
    for step in pointer.split('/').skip(1) {
        let step = step.replace("~1", "/").replace("~0", "~");
        // Step by step on raw text, so that numbers keep their digits.
        text = if text.trim_start().starts_with('[') {
            let items: Vec<Box<RawValue>> = serde_json::from_str(&text).map_err(|_| not_there())?;
            let index: usize = step.parse().map_err(|_| not_there())?;
            items.get(index).ok_or_else(not_there)?.get().to_owned()
        } else {
            let members: std::collections::HashMap<String, Box<RawValue>> =
                serde_json::from_str(&text).map_err(|_| not_there())?;
            members.get(&step).ok_or_else(not_there)?.get().to_owned()
        };
    }
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err(Failure::usage(format!(
            "a JSON pointer starts with /: {pointer:?}"
        )));
    }
    match serde_json::from_str::<String>(&text) {
        Ok(bare) => app.print([bare]),
        Err(_) => app.print([text]),
    }
    Ok(())
}
