//! `mcpline`: a terminal host for Model Context Protocol servers.
//!
//! A thin layer over `mcp-client`: it reads words, calls the library and prints. No protocol, no retries, no processes of
//! its own; the built-in demo servers excepted.

mod app;
mod approval;
mod arguments;
mod cli;
mod command;
mod config;
mod demo;
mod duration;
mod failure;
mod nearest;
mod output;
mod remote;
mod result;
mod schema;
mod secret;
mod servers;
mod text;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{CommandFactory as _, Parser as _};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::{App, SharedApp};
use crate::cli::{Cli, ColorChoice, Command, DemoServer};
use crate::config::Folders;
use crate::failure::{Failure, exit};
use crate::output::Output;

/// Longest the end of all servers is waited for after a signal.
const STOP_LIMIT: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return bad_usage(&error),
    };
    if let Some(Command::Demo {
        stdio: Some(server),
    }) = &cli.command
    {
        return demo::serve(match server {
            DemoServer::Notes => demo::Kind::Notes,
            DemoServer::Clock => demo::Kind::Clock,
        });
    }
    match cli.global.color {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
    if cli.global.ascii {
        text::use_ascii();
    }
    if cli.global.verbose > 1 {
        let filter =
            tracing_subscriber::EnvFilter::new("mcp_client=debug,mcp_transport_stdio=debug");
        tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .init();
    }
    let begun = start_up(&cli);
    let (app, runtime) = match begun {
        Ok(begun) => begun,
        Err(failure) => {
            for line in failure.lines() {
                anstream::eprintln!("{line}");
            }
            return ExitCode::from(failure.exit);
        }
    };
    let code = runtime.block_on(supervised(&app, cli.command));
    runtime.shutdown_background();
    ExitCode::from(app.finish(code))
}

/// All that must be there before anything is done.
fn start_up(cli: &Cli) -> Result<(SharedApp, tokio::runtime::Runtime), Failure> {
    let folders = Folders::from_environment()
        .map_err(|error| Failure::usage(format!("the working folder can't be found: {error}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::OTHER, "other", format!("no runtime: {error}")))?;
    let mut global = cli.global.clone();
    global.demo |= matches!(cli.command, Some(Command::Demo { .. }));
    let server_command = cli
        .command
        .as_ref()
        .map_or(&[][..], Command::server_command);
    let output = Output::new(global.output.as_deref()).map_err(Failure::usage)?;
    let app = App::new(global, folders, server_command.to_vec(), output);
    Ok((Arc::new(app), runtime))
}

/// A command line that can't be understood: a document too, when one was asked for (C231).
fn bad_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    if words.any(|word| word == "--json") {
        let text = error.render().to_string();
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let first = lines.next().unwrap_or_default();
        let mut failure = Failure::usage(first.strip_prefix("error: ").unwrap_or(first));
        failure.causes = lines.map(str::to_owned).collect();
        if let Ok(output) = Output::new(None) {
            output.print_document(&json!({}), Some(failure.json()));
        }
    } else {
        let _ = error.print();
    }
    ExitCode::from(exit::USAGE)
}

/// Runs the command; ends it in order on the first signal, at once on the second.
async fn supervised(app: &SharedApp, command: Option<Command>) -> u8 {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        anstream::eprintln!("error: signals can't be received");
        return exit::OTHER;
    };
    let code = tokio::select! {
        outcome = run(app, command) => {
            let code = match outcome {
                Ok(code) => code,
                Err(failure) => {
                    report(app, &failure);
                    failure.exit
                }
            };
            // Also when a command gave up half way.
            let _ = tokio::time::timeout(STOP_LIMIT, app.close_all()).await;
            return code;
        }
        _ = interrupt.recv() => exit::INTERRUPTED,
        _ = terminate.recv() => exit::TERMINATED,
    };
    // The command's future is gone, and with it its calls: the servers have been told.
    let begun = Instant::now();
    let closing = async {
        if code == exit::INTERRUPTED {
            app.close_interrupted().await
        } else {
            app.close_all().await
        }
    };
    tokio::select! {
        _ = tokio::time::timeout(STOP_LIMIT, closing) => {
            app.say(&format!("cancelled: told the servers, which ended after {}", duration::shown(begun.elapsed())));
        }
        _ = interrupt.recv() => app.say("leaving at once"),
        _ = terminate.recv() => app.say("leaving at once"),
    }
    code
}

/// Shows a failure: a document where documents are wanted, else text.
fn report(app: &App, failure: &Failure) {
    if app.global.json {
        app.print_document(&json!({}), Some(failure));
    } else {
        app.complain(failure);
    }
}

async fn run(app: &SharedApp, command: Option<Command>) -> Result<u8, Failure> {
    match command {
        None => start(app).await,
        Some(Command::Demo { .. }) => command::demo::run(app).await,
        Some(Command::Ls {
            servers,
            no_connect,
            ..
        }) => command::ls::run(app, &servers, no_connect).await,
        Some(Command::Tools {
            targets,
            schema,
            full,
            ..
        }) => command::tools::run(app, &targets, schema, full).await,
        Some(Command::Resources { servers, .. }) => command::resources::list(app, &servers).await,
        Some(Command::Read { words, .. }) => command::resources::read(app, &words).await,
        Some(Command::Prompts { servers, .. }) => command::prompts::list(app, &servers).await,
        Some(Command::Prompt {
            target, arguments, ..
        }) => command::prompts::get(app, &target, &arguments).await,
        Some(Command::Show { target, .. }) => command::show::run(app, target.as_deref()).await,
        Some(Command::Call(args)) => command::call::run(app, &args).await,
        Some(Command::Check {
            servers, require, ..
        }) => command::check::run(app, &servers, &require).await,
        Some(Command::Doctor { servers, .. }) => command::doctor::run(app, &servers).await,
        Some(Command::Config { command }) => command::config::run(app, &command),
        Some(Command::Completions { shell }) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "mcpline", &mut script);
            app.print([String::from_utf8_lossy(&script).trim_end()]);
            Ok(0)
        }
    }
}

/// No command: the configured servers at rest, or how to begin.
async fn start(app: &SharedApp) -> Result<u8, Failure> {
    let (_, located) = servers::load(app);
    if located.files.is_empty() && !app.global.demo && !app.global.json {
        app.print([
            "mcpline demo                 a first look: two built-in servers, nothing else needed",
            "mcpline tools -- COMMAND...  look at any stdio server",
            "mcpline --help               all commands; servers come from an mcp.json (mcpline config path)",
        ]);
        return Ok(0);
    }
    command::ls::run(app, &[], true).await
}
