//! Which servers a command is about, and connecting to them.

use std::time::{Duration, Instant};

use mcp_client::http::HttpServer;
use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::mcp_proto::connection::ServerNotification;
use mcp_client::mcp_proto::lifecycle::EraPolicy;
use mcp_client::stdio::{EnvPolicy, ServerCommand, StdioConnector};
use mcp_client::{Client, ClientOptions, Error, Notice, Notifications, Redactor, http, stdio};

use crate::app::{App, SharedApp};
use crate::approval::{self, Trust};
use crate::cli::EraChoice;
use crate::config::{
    Approvals, CONFIG_VARIABLE, Entry, InheritEnv, Limits, Located, RemoteServer, Scope, Server,
    Setup, StdioServer, fingerprint, locate, quoted, remote_fingerprint, resolve, resolve_remote,
    shortened,
};
use crate::failure::{Failure, exit};
use crate::nearest::nearest;
use crate::remote;
use crate::secret::Secret;
use crate::text::one_line;

/// Limits of a call where neither the command line nor the entry sets any.
const CALL_IDLE: Duration = Duration::from_secs(60);
const CALL_TOTAL: Duration = Duration::from_secs(600);

/// Most characters of a command line that are shown.
const MAX_SHOWN_COMMAND: usize = 300;

/// Most characters of a notification that are shown.
const MAX_SHOWN_NOTICE: usize = 2000;

/// A server that a command may be about.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) id: String,
    pub(crate) transport: &'static str,
    pub(crate) disabled: bool,
    /// The entry's file and line, and its command.
    pub(crate) place: String,
    /// What to start or to reach, or why that can't be.
    pub(crate) launch: Result<Reach, Failure>,
    pub(crate) trust: Trust,
    limits: Limits,
    /// Oddities of its entry; they may be why it does not work.
    notes: Vec<String>,
    secrets: Vec<Secret>,
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub(crate) enum Reach {
    /// By starting its process.
    Process(Box<ServerCommand>),
    /// By its URL.
    Remote(Box<HttpServer>),
}

impl Target {
    /// A target of which nothing but the name is known yet.
    fn new(id: impl Into<String>, place: String, launch: Result<Reach, Failure>) -> Self {
        Self {
            id: id.into(),
            transport: "stdio",
            disabled: false,
            place,
            launch,
            trust: Trust::Given("it is on the command line"),
            limits: Limits::default(),
            notes: Vec::new(),
            secrets: Vec::new(),
        }
    }

    /// Takes the values that were set for this server out of a text.
    pub(crate) fn redactor(&self) -> Redactor {
        let values = self.secrets.iter().map(|value| value.reveal().to_owned());
        let remote = match &self.launch {
            Ok(Reach::Remote(server)) => server.secrets(),
            _ => Vec::new(),
        };
        Redactor::new(values.chain(remote))
    }

    /// The limits of a call: command line, then entry, then defaults.
    pub(crate) fn deadline(&self, app: &App) -> Deadline {
        let idle = app.global.timeout.or(self.limits.idle).unwrap_or(CALL_IDLE);
        let total = app
            .global
            .max_time
            .or(self.limits.total)
            .unwrap_or(CALL_TOTAL);
        Deadline::new(Some(idle), Some(total))
    }
}

/// A connection, and how long it took to come about.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) took: Duration,
}

/// All servers that there are: the one behind `--`, the demo's, or those of configuration files.
pub(crate) fn all(app: &App) -> Result<Vec<Target>, Failure> {
    if let Some((program, args)) = app.server_command.split_first() {
        if app.global.url.is_some() {
            return Err(Failure::usage(
                "--url and a server command after -- are two servers; give one of them",
            ));
        }
        remote::refuse_unused(app)?;
        return Ok(vec![ad_hoc(app, program, args)?]);
    }
    let unused = [
        (!app.global.env.is_empty(), "--env"),
        (app.global.cwd.is_some(), "--cwd"),
    ];
    if let Some((_, option)) = unused.iter().find(|(given, _)| *given) {
        return Err(Failure::usage(format!(
            "{option} is for a server command after --"
        )));
    }
    if let Some(url) = &app.global.url {
        let remote = remote::ad_hoc(app, url)?;
        let mut target = Target::new(remote.id, remote.place, Ok(Reach::Remote(remote.server)));
        target.transport = "http";
        return Ok(vec![target]);
    }
    remote::refuse_unused(app)?;
    if app.global.demo {
        return Ok(["notes", "clock"].into_iter().map(demo).collect());
    }
    let (setup, located) = load(app);
    if let Some(failure) = setup.failures.first() {
        return Err(Failure::new(exit::USAGE, "config", failure.to_string()));
    }
    if setup.entries.is_empty() && located.files.is_empty() {
        return Err(Failure::usage("no configuration file was found")
            .next("mcpline demo", "a first look, nothing needed")
            .next("mcpline tools -- COMMAND...", "look at any server")
            .next("mcpline config path", "where files are looked for"));
    }
    for note in &setup.notes {
        app.say(&format!("note: {note}"));
    }
    Ok(setup
        .entries
        .iter()
        .map(|entry| configured(app, entry))
        .collect())
}

/// The configuration as it is found.
pub(crate) fn load(app: &App) -> (Setup, Located) {
    let variable = std::env::var_os(CONFIG_VARIABLE);
    let located = locate(
        &app.global.config,
        variable.as_deref(),
        &app.folders,
        &|path| path.is_file(),
    );
    (Setup::load(&located), located)
}

/// Those of `targets` that were named, or all that are not disabled.
pub(crate) fn chosen(targets: Vec<Target>, wanted: &[String]) -> Result<Vec<Target>, Failure> {
    if wanted.is_empty() {
        return Ok(targets
            .into_iter()
            .filter(|target| !target.disabled)
            .collect());
    }
    wanted.iter().map(|id| one(&targets, id).cloned()).collect()
}

/// The server of this id.
pub(crate) fn one<'a>(targets: &'a [Target], id: &str) -> Result<&'a Target, Failure> {
    targets
        .iter()
        .find(|target| target.id == id)
        .ok_or_else(|| {
            let failure = Failure::new(
                exit::NOT_FOUND,
                "unknown_server",
                format!("there is no server {id:?}"),
            );
            match nearest(id, targets.iter().map(|target| target.id.as_str())) {
                Some(near) => failure.next(format!("mcpline show {near}"), "nearest name"),
                None => failure.next("mcpline ls", "the servers there are"),
            }
        })
}

/// `SERVER/TOOL` in its two parts; `SERVER.TOOL` and `SERVER__TOOL` are understood too. `None` when no server of that
/// name is there, so that it may be a tool's name alone. The longest name wins: names of servers may hold the separators.
pub(crate) fn split<'a, 'b>(targets: &'a [Target], text: &'b str) -> Option<(&'a Target, &'b str)> {
    let parts = targets.iter().filter_map(|target| {
        let rest = text.strip_prefix(target.id.as_str())?;
        let separators = ["/", ".", "__"].iter();
        let tool = separators
            .filter_map(|separator| rest.strip_prefix(separator))
            .next()?;
        (!tool.is_empty()).then_some((target, tool))
    });
    parts.max_by_key(|(target, _)| target.id.len())
}

/// What a server gets of this program's environment, when the command line says so.
fn inherited(app: &App) -> Option<EnvPolicy> {
    let names = |names: &str| {
        names
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect()
    };
    match app.global.inherit_env.as_deref()? {
        "all" => Some(EnvPolicy::All),
        "minimal" => Some(EnvPolicy::Minimal),
        listed => Some(EnvPolicy::Names(names(listed))),
    }
}

fn ad_hoc(app: &App, program: &str, args: &[String]) -> Result<Target, Failure> {
    let mut command = ServerCommand::new(program).args(args);
    let mut secrets = Vec::new();
    for pair in &app.global.env {
        let (name, value) = pair
            .split_once('=')
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| Failure::usage("--env wants KEY=VALUE"))?;
        secrets.push(Secret::new(value));
        command = command.env(name, value);
    }
    if let Some(cwd) = &app.global.cwd {
        command = command.cwd(app.folders.current.join(cwd));
    }
    if let Some(policy) = inherited(app) {
        command = command.env_policy(policy);
    }
    let stem = std::path::Path::new(program).file_stem();
    let name = stem.map_or_else(|| program.into(), |stem| stem.to_string_lossy());
    let place = one_line(&command.to_string(), MAX_SHOWN_COMMAND);
    let reach = Reach::Process(Box::new(command));
    let mut target = Target::new(name.replace(['/', '.'], "-"), place, Ok(reach));
    target.secrets = secrets;
    Ok(target)
}

fn demo(name: &'static str) -> Target {
    let own = std::env::current_exe();
    let launch = own
        .map(|own| ServerCommand::new(own).args(["demo", "--stdio", name]))
        .map(|command| Reach::Process(Box::new(command)))
        .map_err(|error| {
            let message = format!("{name}: this program can't find itself: {error}");
            Failure::new(exit::OTHER, "other", message)
        });
    let mut target = Target::new(
        name,
        format!("built in: mcpline demo --stdio {name}"),
        launch,
    );
    target.trust = Trust::Given("it is part of this program");
    target
}

fn configured(app: &App, entry: &Entry) -> Target {
    let file = shortened(&entry.place.file, &app.folders.current);
    let place = format!("{}:{}", file.display(), entry.place.line);
    let bad = |kind: &'static str, message: &str| {
        Err(
            Failure::new(exit::USAGE, kind, format!("{}: {message}", entry.id)).next(
                format!("mcpline config explain {}", quoted(&entry.id)),
                "the entry, value by value",
            ),
        )
    };
    let mut target = Target::new(&entry.id, place, bad("config", "not resolved"));
    target.transport = entry.server.as_ref().map_or("-", Server::transport);
    target.disabled = entry.disabled;
    target.notes = entry.notes.iter().map(ToString::to_string).collect();
    let launched = match &entry.server {
        Ok(Server::Stdio(server)) => process(app, entry, server, &mut target),
        Ok(Server::Http(server)) => reach(app, entry, server, &mut target),
        Err(problem) => Err(problem.message.clone()),
    };
    match launched {
        Ok(launch) => target.launch = Ok(launch),
        Err(message) => target.launch = bad("config", &message),
    }
    target
}

/// A process that an entry starts.
fn process(
    app: &App,
    entry: &Entry,
    server: &StdioServer,
    target: &mut Target,
) -> Result<Reach, String> {
    let written = one_line(&server.command_line(), MAX_SHOWN_COMMAND);
    target.place = format!("{}   {written}", target.place);
    let variable = |name: &str| std::env::var(name).ok();
    let launch =
        resolve(entry, server, &app.folders, &variable).map_err(|problem| problem.message)?;
    target.limits = launch.limits;
    let mut command = ServerCommand::new(&launch.command)
        .args(&launch.args)
        .cwd(&launch.cwd);
    for (name, value) in &launch.env {
        command = match value {
            Some(value) => command.env(name, value.reveal()),
            None => command.env_remove(name),
        };
    }
    target.secrets = launch
        .env
        .iter()
        .filter_map(|(_, value)| value.clone())
        .collect();
    let policy = inherited(app).unwrap_or_else(|| match &launch.inherit_env {
        InheritEnv::All => EnvPolicy::All,
        InheritEnv::Minimal => EnvPolicy::Minimal,
        InheritEnv::Names(names) => EnvPolicy::Names(names.clone()),
    });
    let variables = launch.env.iter().map(|(name, _)| name.clone()).collect();
    target.trust = trust(app, entry.scope, || fingerprint(server, &launch), variables);
    Ok(Reach::Process(Box::new(command.env_policy(policy))))
}

/// A URL that an entry names.
fn reach(
    app: &App,
    entry: &Entry,
    server: &RemoteServer,
    target: &mut Target,
) -> Result<Reach, String> {
    let written = one_line(&server.shown_url(), MAX_SHOWN_COMMAND);
    target.place = format!("{}   {written}", target.place);
    let variable = |name: &str| std::env::var(name).ok();
    let remote = resolve_remote(entry, server, &app.folders, &variable)
        .map_err(|problem| problem.message)?;
    target.limits = remote.limits;
    target.secrets = remote.secrets();
    // What is filled in from the environment goes to whom the file names; the rest the file knows anyway.
    let mut variables: Vec<_> = remote
        .expansions
        .iter()
        .map(|(_, name, _)| name.clone())
        .collect();
    variables.sort();
    variables.dedup();
    target.trust = if variables.is_empty() {
        Trust::Given("it gets nothing of this environment")
    } else {
        trust(app, entry.scope, || remote_fingerprint(server), variables)
    };
    remote::server(app, &remote).map(|server| Reach::Remote(Box::new(server)))
}

/// How far what an entry wants is trusted (C218).
fn trust(
    app: &App,
    scope: Scope,
    fingerprint: impl FnOnce() -> String,
    variables: Vec<String>,
) -> Trust {
    match scope {
        Scope::Named => Trust::Given("the file was named"),
        Scope::User => Trust::Given("it is in the user's own file"),
        Scope::Project if app.global.trust => Trust::Given("--trust"),
        Scope::Project => {
            let fingerprint = fingerprint();
            let approvals = app.folders.state.as_deref().map(Approvals::in_folder);
            if approvals.is_some_and(|approvals| approvals.contains(&fingerprint)) {
                Trust::Given("it was approved")
            } else {
                Trust::Needed {
                    fingerprint,
                    variables,
                }
            }
        }
    }
}

/// Connects to a server, if it may be started.
pub(crate) async fn connect(app: &SharedApp, target: &Target) -> Result<Connected, Failure> {
    if target.launch.is_ok() {
        approval::ensure(app, target).await?;
    }
    start(app, target).await
}

async fn start(app: &SharedApp, target: &Target) -> Result<Connected, Failure> {
    let place = |mut failure: Failure| {
        failure.place.get_or_insert_with(|| target.place.clone());
        failure.notes.extend(target.notes.iter().cloned());
        failure
    };
    let launch = target.launch.clone().map_err(place)?;
    let mut options =
        ClientOptions::new("mcpline", env!("CARGO_PKG_VERSION")).with_name(&target.id);
    options.call_deadline = target.deadline(app);
    options.config.policy = match app.global.era {
        EraChoice::Auto => EraPolicy::Auto,
        EraChoice::Legacy => EraPolicy::Legacy,
        EraChoice::Modern => EraPolicy::Modern,
    };
    if let Some(limit) = app.global.start_timeout.or(target.limits.start) {
        options.config.start_timeout = limit;
    }
    let start_timeout = options.config.start_timeout;
    // A command that ends when its work is done needs no news of changes.
    options.watch_lists = app.global.verbose > 0;
    let begun = Instant::now();
    let outcome: Result<Client, Error> = match launch {
        Reach::Process(command) => {
            let mut connector = StdioConnector::new(*command);
            if app.global.verbose > 0 {
                let (app, id) = (SharedApp::clone(app), target.id.clone());
                connector = connector.with_stderr(move |line| app.say(&format!("[{id}] {line}")));
            }
            stdio::connect_with(connector, options).await
        }
        Reach::Remote(server) => http::connect(*server, options).await,
    };
    let client = outcome.map_err(|error| {
        let mut failure = place(Failure::of(&error, &target.redactor()));
        remote::advise(&error, &mut failure);
        let again = quoted(&target.id);
        if failure.exit == exit::TIMEOUT {
            failure.message = format!(
                "{}: no answer within {} of starting (limit --start-timeout)",
                target.id,
                crate::duration::written(start_timeout)
            );
            if !error.evidence().unpassed_network_variables.is_empty() {
                let command = format!("mcpline tools {again} --inherit-env all");
                failure = failure.next(command, "for one try");
            }
        } else if failure.kind == "server_exited" {
            failure.message += &format!(" ({})", crate::duration::shown(begun.elapsed()));
        }
        failure.next(format!("mcpline doctor {again}"), "look at every step")
    })?;
    app.opened(&client);
    if app.global.verbose > 0 {
        let tell = tell_notifications(
            SharedApp::clone(app),
            target.id.clone(),
            target.redactor(),
            client.notifications(),
        );
        tokio::spawn(tell);
    }
    Ok(Connected {
        client,
        took: begun.elapsed(),
    })
}

/// Shows what a server announces, until its connection ends.
async fn tell_notifications(
    app: SharedApp,
    id: String,
    redactor: Redactor,
    mut notifications: Notifications,
) {
    while let Some(notice) = notifications.next().await {
        let what = match notice {
            Notice::Lagged(lost) => format!("{lost} notifications were lost"),
            Notice::Notification(ServerNotification::Log(log)) => {
                let data = log.data.as_ref().map_or("", |data| data.get());
                let text = serde_json::from_str::<String>(data);
                let text = text.unwrap_or_else(|_| data.to_owned());
                let logger = log
                    .logger
                    .map_or_else(String::new, |logger| format!(" {logger}"));
                format!("{}{logger}: {text}", log.level)
            }
            Notice::Notification(ServerNotification::ToolsListChanged) => {
                "its tools have changed".to_owned()
            }
            Notice::Notification(ServerNotification::Other { method, .. }) => method,
            _ => continue,
        };
        app.say(&format!(
            "[{id}] {}",
            redactor.redact(&one_line(&what, MAX_SHOWN_NOTICE))
        ));
    }
}

/// Connects to several servers at once; each has its own outcome (C044). Questions come first, one after the other.
pub(crate) async fn connect_all(
    app: &SharedApp,
    targets: &[Target],
) -> Vec<Result<Connected, Failure>> {
    let mut outcomes = Vec::new();
    for target in targets {
        let allowed = match &target.launch {
            Ok(_) => approval::ensure(app, target).await,
            // Starting it will say what is wrong.
            Err(_) => Ok(()),
        };
        outcomes.push(allowed.map(|()| None));
    }
    // Dropped with this future, which ends what is still starting.
    let mut starting = tokio::task::JoinSet::new();
    for (index, target) in targets.iter().enumerate() {
        if matches!(outcomes.get(index), Some(Ok(_))) {
            let (app, target) = (SharedApp::clone(app), target.clone());
            starting.spawn(async move { (index, start(&app, &target).await) });
        }
    }
    while let Some(joined) = starting.join_next().await {
        if let Ok((index, outcome)) = joined
            && let Some(slot) = outcomes.get_mut(index)
        {
            *slot = outcome.map(Some);
        }
    }
    let died = || Failure::new(exit::OTHER, "other", "a task of this program ended early");
    outcomes
        .into_iter()
        .map(|outcome| outcome.and_then(|connected| connected.ok_or_else(died)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_split_at_the_longest_server() {
        let targets = ["a", "a.b", "io.github/x", "c"].map(|id| {
            Target::new(
                id,
                String::new(),
                Ok(Reach::Process(Box::new(ServerCommand::new("x")))),
            )
        });
        let cases = [
            ("a/t", Some(("a", "t"))),
            ("a.t", Some(("a", "t"))),
            ("a__t", Some(("a", "t"))),
            ("a.b/t.u", Some(("a.b", "t.u"))),
            ("a.b", Some(("a", "b"))),
            ("io.github/x/t", Some(("io.github/x", "t"))),
            ("c/", None),
            ("c", None),
            ("d/t", None),
            ("ab/t", None),
        ];
        for (text, expected) in cases {
            let found = split(&targets, text).map(|(target, tool)| (target.id.as_str(), tool));
            assert_eq!(found, expected, "{text}");
        }
    }
}
