//! `mcpline config`: what the configuration files say.

use serde_json::json;

use crate::app::SharedApp;
use crate::cli::ConfigCommand;
use crate::config::{
    CONFIG_VARIABLE, Entry, Origin, Problem, Server, lint, resolve, resolve_remote,
};
use crate::failure::{Failure, exit};
use crate::nearest::nearest;
use crate::remote;
use crate::servers::load;
use crate::text::table;

pub(crate) fn run(app: &SharedApp, command: &ConfigCommand) -> Result<u8, Failure> {
    let (setup, located) = load(app);
    match command {
        ConfigCommand::Path => {
            if app.global.json {
                let files: Vec<_> = located
                    .files
                    .iter()
                    .map(|(file, scope)| json!({"file": file, "scope": scope.to_string()}))
                    .collect();
                app.print_document(&json!({"files": files, "searched": located.searched}), None);
                return Ok(0);
            }
            app.print(
                located
                    .files
                    .iter()
                    .map(|(file, scope)| format!("{}  ({scope})", file.display())),
            );
            if located.files.is_empty() {
                app.say(&format!(
                    "no file was found; ${CONFIG_VARIABLE} and --config name one"
                ));
                for place in &located.searched {
                    app.say(&format!("  looked for {}", place.display()));
                }
                if let Some(user) = app.folders.user_file() {
                    app.say(&format!("  looked for {}", user.display()));
                }
            }
            return Ok(0);
        }
        ConfigCommand::List => {
            if app.global.json {
                let servers: Vec<_> = setup.entries.iter().map(|entry| json!({
                    "server": entry.id, "place": entry.place.to_string(), "scope": entry.scope.to_string(), "disabled": entry.disabled,
                    "transport": entry.server.as_ref().map(Server::transport).ok(), "error": entry.server.as_ref().err().map(ToString::to_string),
                })).collect();
                let failure = setup.failures.first().map(unreadable);
                app.print_document(&json!({"servers": servers}), failure.as_ref());
                return Ok(failure.map_or(0, |failure| failure.exit));
            } else {
                let rows: Vec<_> = setup
                    .entries
                    .iter()
                    .map(|entry| {
                        let what = match &entry.server {
                            Ok(Server::Stdio(server)) => server.command_line(),
                            Ok(Server::Http(server)) => server.shown_url(),
                            Err(problem) => format!("error: {}", problem.message),
                        };
                        let state = if entry.disabled { "disabled" } else { "" };
                        vec![
                            entry.id.clone(),
                            entry.place.to_string(),
                            state.to_owned(),
                            what,
                        ]
                    })
                    .collect();
                app.print(table(&rows));
            }
        }
        ConfigCommand::Check => return check(app, &setup),
        ConfigCommand::Explain { server } => {
            let entry = setup.get(server).ok_or_else(|| {
                let failure = Failure::new(
                    exit::NOT_FOUND,
                    "unknown_server",
                    format!("there is no server {server:?}"),
                );
                match nearest(server, setup.entries.iter().map(|entry| entry.id.as_str())) {
                    Some(near) => {
                        failure.next(format!("mcpline config explain {near}"), "nearest name")
                    }
                    None => failure.next("mcpline config list", "the servers there are"),
                }
            })?;
            return explain(app, entry);
        }
    }
    match setup.failures.first() {
        Some(problem) => Err(unreadable(problem)),
        None => Ok(0),
    }
}

fn unreadable(problem: &Problem) -> Failure {
    Failure::new(exit::USAGE, "config", problem.to_string())
}

/// Where the values that were filled in come from.
fn variables(expansions: &[(String, String, Origin)]) -> Vec<Vec<String>> {
    let row = |(key, name, origin): &(String, String, Origin)| {
        let from = match origin {
            Origin::Default => "its default",
            Origin::Known => "the environment",
        };
        let what = format!("{key}: ${{{name}}} comes from {from}");
        vec!["variable".to_owned(), what]
    };
    expansions.iter().map(row).collect()
}

/// All mistakes and oddities of all files.
fn check(app: &SharedApp, setup: &crate::config::Setup) -> Result<u8, Failure> {
    let mut errors: Vec<_> = setup.failures.iter().map(ToString::to_string).collect();
    let mut notes: Vec<_> = setup.notes.iter().map(ToString::to_string).collect();
    for entry in &setup.entries {
        let about =
            |problem: &Problem| format!("{}: {}: {}", problem.place, entry.id, problem.message);
        notes.extend(entry.notes.iter().map(about));
        match &entry.server {
            Ok(Server::Stdio(server)) => {
                if let Err(problem) = resolve(entry, server, &app.folders, &|name| {
                    std::env::var(name).ok()
                }) {
                    errors.push(about(&problem));
                }
                notes.extend(
                    lint(&server.command, &server.args)
                        .into_iter()
                        .map(|hint| format!("{}: {}: {hint}", entry.place, entry.id)),
                );
            }
            Ok(Server::Http(server)) => {
                let variable = |name: &str| std::env::var(name).ok();
                match resolve_remote(entry, server, &app.folders, &variable) {
                    Ok(remote) => errors.extend(
                        remote::server(app, &remote)
                            .err()
                            .map(|message| format!("{}: {}: {message}", entry.place, entry.id)),
                    ),
                    Err(problem) => errors.push(about(&problem)),
                }
            }
            Err(problem) => errors.push(about(problem)),
        }
    }
    if app.global.json {
        let members = json!({"errors": errors, "notes": notes, "servers": setup.entries.len()});
        let failure = Failure::new(exit::USAGE, "config", format!("{} mistakes", errors.len()));
        app.print_document(&members, Some(&failure).filter(|_| !errors.is_empty()));
    } else {
        app.print(errors.iter().map(|error| format!("error: {error}")));
        app.print(notes.iter().map(|note| format!("note: {note}")));
        app.say(&format!(
            "{} servers, {} errors, {} notes",
            setup.entries.len(),
            errors.len(),
            notes.len()
        ));
    }
    Ok(if errors.is_empty() { 0 } else { exit::USAGE })
}

/// Where every value of an entry comes from. Values of variables are never shown.
fn explain(app: &SharedApp, entry: &Entry) -> Result<u8, Failure> {
    let mut rows = vec![
        vec![
            "where".to_owned(),
            format!("{} ({} file)", entry.place, entry.scope),
        ],
        vec![
            "state".to_owned(),
            if entry.disabled {
                "disabled"
            } else {
                "enabled"
            }
            .to_owned(),
        ],
    ];
    let mut code = 0;
    match &entry.server {
        Ok(Server::Http(server)) => {
            rows.push(vec!["url".to_owned(), server.shown_url()]);
            let variable = |name: &str| std::env::var(name).ok();
            let resolved = resolve_remote(entry, server, &app.folders, &variable);
            let checked = resolved.and_then(|launch| match remote::server(app, &launch) {
                Ok(_) => Ok(launch),
                Err(message) => Err(Problem {
                    place: entry.place.clone(),
                    message,
                }),
            });
            match checked {
                Ok(launch) => {
                    for (name, _) in &launch.headers {
                        rows.push(vec![
                            "header".to_owned(),
                            format!("{name}: set, value hidden"),
                        ]);
                    }
                    if let Some(file) = &launch.ca_file {
                        rows.push(vec!["trusts".to_owned(), file.display().to_string()]);
                    }
                    rows.extend(variables(&launch.expansions));
                }
                Err(problem) => {
                    rows.push(vec!["error".to_owned(), problem.message]);
                    code = exit::USAGE;
                }
            }
        }
        Err(problem) => {
            rows.push(vec!["error".to_owned(), problem.message.clone()]);
            code = exit::USAGE;
        }
        Ok(Server::Stdio(server)) => {
            rows.push(vec!["command".to_owned(), server.command_line()]);
            match resolve(entry, server, &app.folders, &|name| {
                std::env::var(name).ok()
            }) {
                Ok(launch) => {
                    rows.push(vec!["folder".to_owned(), launch.cwd.display().to_string()]);
                    for (name, value) in &launch.env {
                        let what = if value.is_some() {
                            "set, value hidden"
                        } else {
                            "taken away"
                        };
                        rows.push(vec!["env".to_owned(), format!("{name}: {what}")]);
                    }
                    rows.extend(variables(&launch.expansions));
                }
                Err(problem) => {
                    rows.push(vec!["error".to_owned(), problem.message]);
                    code = exit::USAGE;
                }
            }
        }
    }
    rows.extend(
        entry
            .notes
            .iter()
            .map(|note| vec!["note".to_owned(), note.message.clone()]),
    );
    if app.global.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|row| json!({"what": row[0], "value": row[1]}))
            .collect();
        app.print_document(&json!({"server": entry.id, "values": rows}), None);
    } else {
        app.print(
            std::iter::once(entry.id.clone())
                .chain(table(&rows).into_iter().map(|line| format!("  {line}"))),
        );
    }
    Ok(code)
}
