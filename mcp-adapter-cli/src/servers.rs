//! Which servers a command is about, and connecting to them.

use std::io::Write as _;
use std::time::{Duration, Instant};

use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::mcp_proto::lifecycle::EraPolicy;
use mcp_client::stdio::{EnvPolicy, ServerCommand, StdioConnector, connect_with};
use mcp_client::{CallOptions, Client, ClientOptions};

use crate::app::{App, SharedApp};
use crate::cli::EraChoice;
use crate::config::{
    Approvals, CONFIG_VARIABLE, Entry, InheritEnv, Limits, Located, Scope, Server, Setup,
    fingerprint, locate, quoted, resolve, shortened,
};
use crate::failure::{Failure, exit};
use crate::nearest::nearest;
use crate::secret::{Scrubber, Secret};

/// Limits of a call where neither the command line nor the entry sets any.
const CALL_IDLE: Duration = Duration::from_secs(60);
const CALL_TOTAL: Duration = Duration::from_secs(600);

/// Most characters of a command line that are shown.
const MAX_SHOWN_COMMAND: usize = 300;

/// A server that a command may be about.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) id: String,
    pub(crate) transport: &'static str,
    pub(crate) disabled: bool,
    /// The entry's file and line, and its command.
    pub(crate) place: String,
    /// What to start, or why that can't be.
    pub(crate) launch: Result<ServerCommand, Failure>,
    pub(crate) limits: Limits,
    secrets: Vec<Secret>,
}

impl Target {
    pub(crate) fn scrubber(&self) -> Scrubber {
        Scrubber::new(self.secrets.iter().cloned())
    }

    /// The limits of a call: command line, then entry, then defaults.
    pub(crate) fn call_options(&self, app: &App) -> CallOptions {
        let idle = app.global.timeout.or(self.limits.idle).unwrap_or(CALL_IDLE);
        let total = app
            .global
            .max_time
            .or(self.limits.total)
            .unwrap_or(CALL_TOTAL);
        CallOptions::default().with_deadline(Deadline::new(Some(idle), Some(total)))
    }
}

/// A connection, and how long it took to come about.
#[derive(Debug)]
pub(crate) struct Connected {
    pub(crate) client: Client,
    pub(crate) took: Duration,
}

/// All servers that there are: the one behind `--`, the demo's, or those of configuration files.
pub(crate) fn all(app: &App, server_command: &[String]) -> Result<Vec<Target>, Failure> {
    if let Some((program, args)) = server_command.split_first() {
        return Ok(vec![ad_hoc(app, program, args)?]);
    }
    let unused = [
        (!app.global.env.is_empty(), "--env"),
        (app.global.cwd.is_some(), "--cwd"),
        (app.global.inherit_env.is_some(), "--inherit-env"),
    ];
    if let Some((_, option)) = unused.iter().find(|(given, _)| *given) {
        return Err(Failure::usage(format!(
            "{option} is for a server command after --"
        )));
    }
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
            .next("mcpline tools -- COMMAND …", "look at any server")
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
        command = command.cwd(cwd);
    }
    command = match app.global.inherit_env.as_deref() {
        Some("all") => command.env_policy(EnvPolicy::All),
        Some(names) => command.env_policy(EnvPolicy::Names(
            names.split(',').map(str::to_owned).collect(),
        )),
        None => command,
    };
    let name = std::path::Path::new(program).file_stem().map_or_else(
        || program.to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    );
    Ok(Target {
        id: name.replace(['/', '.'], "-"),
        transport: "stdio",
        disabled: false,
        place: crate::text::one_line(&command.to_string(), MAX_SHOWN_COMMAND),
        launch: Ok(command),
        limits: Limits::default(),
        secrets,
    })
}

fn demo(name: &'static str) -> Target {
    let own = std::env::current_exe();
    let launch = own.map(|own| ServerCommand::new(own).args(["demo", "--stdio", name]));
    Target {
        id: name.to_owned(),
        transport: "stdio",
        disabled: false,
        place: format!("built in: mcpline demo --stdio {name}"),
        launch: launch.map_err(|error| {
            Failure::new(
                exit::OTHER,
                "other",
                format!("{name}: this program can't find itself: {error}"),
            )
        }),
        limits: Limits::default(),
        secrets: Vec::new(),
    }
}

fn configured(app: &App, entry: &Entry) -> Target {
    let mut target = Target {
        id: entry.id.clone(),
        transport: entry.server.as_ref().map_or("-", Server::transport),
        disabled: entry.disabled,
        place: format!(
            "{}:{}",
            shortened(&entry.place.file, &app.folders.current).display(),
            entry.place.line
        ),
        launch: Err(Failure::usage("not resolved")),
        limits: Limits::default(),
        secrets: Vec::new(),
    };
    let bad = |message: String| {
        Failure::new(exit::USAGE, "config", format!("{}: {message}", entry.id))
            .next(format!("mcpline config explain {}", quoted(&entry.id)), "")
    };
    let server = match &entry.server {
        Ok(Server::Stdio(server)) => server,
        Ok(Server::Http { origin }) => {
            target.launch = Err(bad(format!(
                "HTTP servers are not supported yet ({origin})"
            )));
            return target;
        }
        Err(problem) => {
            target.launch = Err(bad(problem.message.clone()));
            return target;
        }
    };
    let launch = match resolve(entry, server, &app.folders, &|name| {
        std::env::var(name).ok()
    }) {
        Ok(launch) => launch,
        Err(problem) => {
            target.launch = Err(bad(problem.message));
            return target;
        }
    };
    target.place = format!(
        "{}   {}",
        target.place,
        crate::text::one_line(&launch.written, MAX_SHOWN_COMMAND)
    );
    target.limits = launch.limits;
    let mut command = ServerCommand::new(&launch.command)
        .args(&launch.args)
        .cwd(&launch.cwd);
    for (name, value) in &launch.env {
        command = match value {
            Some(value) => {
                target.secrets.push(value.clone());
                command.env(name, value.reveal())
            }
            None => command.env_remove(name),
        };
    }
    command = command.env_policy(match &launch.inherit_env {
        InheritEnv::All => EnvPolicy::All,
        InheritEnv::Minimal => EnvPolicy::Minimal,
        InheritEnv::Names(names) => EnvPolicy::Names(names.clone()),
    });
    target.launch = if entry.scope == Scope::Project {
        approved(app, entry, &fingerprint(server, &launch), &target.place).map(|()| command)
    } else {
        Ok(command)
    };
    target
}

/// Project files start nothing that nobody has approved (C218).
fn approved(app: &App, entry: &Entry, fingerprint: &str, place: &str) -> Result<(), Failure> {
    let approvals = app.folders.state.as_deref().map(Approvals::in_folder);
    if app.global.trust
        || entry.disabled
        || approvals
            .as_ref()
            .is_some_and(|approvals| approvals.contains(fingerprint))
    {
        return Ok(());
    }
    let refused = || {
        Failure::new(
            exit::PERSON_NEEDED,
            "approval_needed",
            format!(
                "{}: this project's file wants to start a program, which nobody has approved",
                entry.id
            ),
        )
        .note(format!("it would start: {place}"))
        .next(
            "mcpline --trust …",
            "approve what project files start, for one run",
        )
    };
    if !app.can_ask() {
        return Err(refused());
    }
    let mut err = std::io::stderr().lock();
    let _ = write!(
        err,
        "{} (project file) wants to start:\n  {place}\nStart it, now and later? [y/N] ",
        entry.id
    );
    let _ = err.flush();
    let mut answer = String::new();
    let _ = std::io::stdin().read_line(&mut answer);
    if !matches!(answer.trim(), "y" | "Y" | "yes") {
        return Err(refused());
    }
    if let Some(approvals) = approvals
        && let Err(error) = approvals.add(&[fingerprint.to_owned()])
    {
        app.say(&format!("note: the approval could not be kept: {error}"));
    }
    Ok(())
}

/// Connects to a server.
pub(crate) async fn connect(app: &SharedApp, target: &Target) -> Result<Connected, Failure> {
    let place = |mut failure: Failure| {
        failure.place.get_or_insert_with(|| target.place.clone());
        failure
    };
    let command = target.launch.clone().map_err(place)?;
    let mut options =
        ClientOptions::new("mcpline", env!("CARGO_PKG_VERSION")).with_name(&target.id);
    options.config.policy = match app.global.era {
        EraChoice::Auto => EraPolicy::Auto,
        EraChoice::Legacy => EraPolicy::Legacy,
        EraChoice::Modern => EraPolicy::Modern,
    };
    if let Some(limit) = app.global.start_timeout.or(target.limits.start) {
        options.config.start_timeout = limit;
    }
    let start_timeout = options.config.start_timeout;
    let mut connector = StdioConnector::new(command);
    if app.global.verbose > 0 {
        let (app, id, scrubber) = (SharedApp::clone(app), target.id.clone(), target.scrubber());
        connector =
            connector.with_stderr(move |line| app.say(&format!("[{id}] {}", scrubber.scrub(line))));
    }
    let start = Instant::now();
    let client = connect_with(connector, options).await.map_err(|error| {
        let mut failure = place(Failure::of(&error, &target.scrubber()));
        if failure.exit == exit::TIMEOUT {
            failure.message = format!(
                "{}: no answer within {} of starting (limit --start-timeout)",
                target.id,
                crate::duration::written(start_timeout)
            );
        }
        failure.next(
            format!("mcpline doctor {}", quoted(&target.id)),
            "look at every step",
        )
    })?;
    app.opened(&client);
    Ok(Connected {
        client,
        took: start.elapsed(),
    })
}

/// Connects to several servers at once; each has its own outcome (C044).
pub(crate) async fn connect_all(
    app: &SharedApp,
    targets: &[Target],
) -> Vec<Result<Connected, Failure>> {
    let started: Vec<_> = targets
        .iter()
        .cloned()
        .map(|target| {
            let app = SharedApp::clone(app);
            tokio::spawn(async move { connect(&app, &target).await })
        })
        .collect();
    let mut outcomes = Vec::new();
    for started in started {
        outcomes.push(
            started
                .await
                .unwrap_or_else(|error| Err(Failure::new(exit::OTHER, "other", error.to_string()))),
        );
    }
    outcomes
}
