//! `mcpline call`: call a tool and show its result.

use std::io::{IsTerminal as _, Read as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use mcp_client::mcp_jsonrpc::RawJson;
use mcp_client::mcp_proto::method::{CallTool, Method};
use mcp_client::mcp_proto::model::progress::Progress;
use mcp_client::mcp_proto::model::tool::CallToolParams;
use mcp_client::{ProgressReceiver, progress_channel};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::show::no_such_tool;
use super::{say_notes, tools_of};
use crate::app::{App, SharedApp};
use crate::arguments;
use crate::cli::CallArgs;
use crate::config::quoted;
use crate::failure::{Failure, exit};
use crate::result::{pretty, render};
use crate::schema::Schema;
use crate::servers::{self, Connected, Target};
use crate::text::one_line;

/// How long a call runs before progress is shown.
const SHOW_PROGRESS_AFTER: Duration = Duration::from_millis(300);

/// Largest standard input taken as arguments, in bytes.
const MAX_INPUT_BYTES: u64 = 64 * 1024 * 1024;

pub(crate) async fn run(app: &SharedApp, args: &CallArgs) -> Result<u8, Failure> {
    let start = Instant::now();
    let mut about = json!({"target": args.target});
    let outcome = call(app, args, &mut about).await;
    app.close_all().await;
    about["ms"] = json!(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
    match outcome {
        Ok(None) => Ok(0),
        Ok(Some(raw)) => finish(app, args, about, &raw),
        Err(failure) if app.global.json => {
            app.print_json(&app.document(about, Some(&failure)));
            Ok(failure.exit)
        }
        Err(failure) => Err(failure),
    }
}

/// Makes the call; `None` when nothing was to be sent.
async fn call(
    app: &SharedApp,
    args: &CallArgs,
    about: &mut Value,
) -> Result<Option<RawJson>, Failure> {
    let (target, connected, name) = find(app, args).await?;
    let agreement = connected.client.agreement();
    about["server"] = json!(target.id);
    about["target"] = json!(format!("{}/{name}", target.id));
    about["era"] = json!(agreement.version.to_string());
    let list = tools_of(&target, &connected).await?;
    say_notes(app, &target, &list);
    let Some(tool) = list.get(&name) else {
        let mut failure = no_such_tool(
            &target,
            &name,
            list.tools.iter().map(|tool| tool.name.as_str()),
        );
        failure.sent = Some("no");
        return Err(failure);
    };
    let schema = Schema::read(tool.input_schema.get());
    let base = whole_object(args)?;
    let built = arguments::build(
        &args.words,
        base.as_deref(),
        &schema,
        !args.no_validate,
        &read_file,
    );
    let built = built.map_err(|problems| wrong_arguments(&target, &name, &problems, &schema))?;
    if args.dry_run {
        let request = format!(
            "{{\"name\":{},\"arguments\":{}}}",
            Value::from(name.as_str()),
            built.get()
        );
        app.print([format!("tools/call {}", pretty(&request))]);
        return Ok(None);
    }
    let params = CallToolParams::new(name.as_str(), &built)
        .ok_or_else(|| Failure::usage("the arguments must be a JSON object"))?;
    let params = serde_json::value::to_raw_value(&params)
        .map_err(|error| Failure::usage(error.to_string()))?;
    let (sender, progress) = progress_channel();
    let options = target.call_options(app).with_progress(sender);
    let limits = options.deadline;
    let call = connected
        .client
        .request_raw(CallTool::NAME, Some(&params), options);
    let outcome = watch(app, &format!("{}/{name}", target.id), progress, call).await;
    outcome.map(Some).map_err(|error| {
        let mut failure = Failure::of(&error, &target.scrubber());
        failure.message = failure.message.replace(CallTool::NAME, &name);
        if failure.exit == exit::TIMEOUT {
            let limit = limits
                .and_then(|limits| limits.idle.or(limits.total))
                .map_or_else(String::new, crate::duration::written);
            failure = failure.next(
                "--timeout TIME, --max-time TIME",
                format!("the limits of a call; silence was limited to {limit}"),
            );
        }
        if failure.exit == exit::UNAVAILABLE {
            failure = failure.next(
                format!("mcpline doctor {}", quoted(&target.id)),
                "look at every step",
            );
        }
        failure
    })
}

/// Which server and tool are meant.
async fn find(app: &SharedApp, args: &CallArgs) -> Result<(Target, Connected, String), Failure> {
    let targets = servers::all(app, &args.adhoc.server_command)?;
    if !args.adhoc.server_command.is_empty() {
        let target = targets
            .into_iter()
            .next()
            .ok_or_else(|| Failure::usage("no server"))?;
        let connected = servers::connect(app, &target).await?;
        return Ok((target, connected, args.target.clone()));
    }
    // `SERVER/TOOL` is printed; `SERVER.TOOL` and `SERVER__TOOL` are understood, as far as the server exists.
    for separator in ["/", ".", "__"] {
        if let Some((id, tool)) = args.target.split_once(separator)
            && (separator == "/" || targets.iter().any(|target| target.id == id))
        {
            let target = servers::one(&targets, id)?.clone();
            let connected = servers::connect(app, &target).await?;
            return Ok((target, connected, tool.to_owned()));
        }
    }
    // A tool alone: only after a look at all servers, and only when one has it.
    let targets = servers::chosen(targets, &[])?;
    let outcomes = servers::connect_all(app, &targets).await;
    let (mut having, mut names, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    for (target, outcome) in targets.iter().zip(outcomes) {
        match outcome {
            Ok(connected) => {
                let list = tools_of(target, &connected).await?;
                names.extend(
                    list.tools
                        .iter()
                        .map(|tool| format!("{}/{}", target.id, tool.name)),
                );
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
            && let Some(near) = crate::nearest::nearest(
                &args.target,
                names
                    .iter()
                    .map(|name| name.split_once('/').map_or(name.as_str(), |(_, tool)| tool)),
            )
        {
            failure = failure.next(format!("mcpline call {near}"), "nearest name; not run");
        }
        failure
            .notes
            .extend(failures.iter().map(|failure| failure.message.clone()));
        failure
    })
}

/// The object of `--args`, from the command line, a file or standard input.
fn whole_object(args: &CallArgs) -> Result<Option<String>, Failure> {
    let text =
        |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| Failure::usage("--args: not UTF-8"));
    match args.args.as_deref() {
        None => Ok(None),
        Some("-") => {
            let mut bytes = Vec::new();
            let read = std::io::stdin()
                .lock()
                .take(MAX_INPUT_BYTES)
                .read_to_end(&mut bytes);
            read.map_err(|error| Failure::usage(format!("standard input: {error}")))?;
            text(bytes).map(Some)
        }
        Some(given) => match given.strip_prefix('@') {
            Some(file) => text(read_file(file).map_err(Failure::usage)?).map(Some),
            None => Ok(Some(given.to_owned())),
        },
    }
}

fn read_file(path: &str) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{path}: {error}"))
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
    failure.causes = problems
        .iter()
        .map(|problem| format!("{}: {}", problem.name, problem.what))
        .collect();
    failure.sent = Some("no");
    failure
        .note(format!("it takes {name}({})", schema.signature()))
        .next(
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
                    new.set_style(style);
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
fn finish(app: &App, args: &CallArgs, about: Value, raw: &RawJson) -> Result<u8, Failure> {
    let result = CallTool::read(raw.as_str()).map_err(|reason| {
        Failure::new(
            exit::REFUSED,
            "invalid_answer",
            format!("{}: the result is not valid: {reason}", args.target),
        )
    })?;
    let code = if result.is_error { exit::REFUSED } else { 0 };
    if args.raw {
        app.print([raw.as_str()]);
        return Ok(code);
    }
    if let Some(pointer) = &args.get {
        return pick(app, raw, pointer).map(|()| code);
    }
    let tool = about["target"].as_str().unwrap_or(&args.target).to_owned();
    let failed = || {
        Failure::new(
            exit::REFUSED,
            "tool_error",
            format!("{tool}: the tool reported an error"),
        )
        .next(format!("mcpline show {}", quoted(&tool)), "what it accepts")
    };
    if app.global.json {
        // The result goes in as it came: numbers keep their digits.
        let failure = result.is_error.then(failed);
        let document = app.document(about, failure.as_ref()).to_string();
        let members = document.strip_suffix('}').unwrap_or(&document);
        app.print([format!("{members},\"result\":{}}}", raw.as_str())]);
        return Ok(code);
    }
    let is_error = result.is_error;
    let rendered = render(result, args.save.as_deref(), app.is_terminal())
        .map_err(|error| Failure::new(exit::OTHER, "save", error))?;
    rendered.notes.iter().for_each(|note| app.say(note));
    if is_error {
        let mut failure = failed();
        failure.notes.extend(
            rendered
                .out
                .iter()
                .map(|text| format!("the server says: {}", one_line(text, 2000))),
        );
        return Err(failure);
    }
    app.print(&rendered.out);
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
