//! What every command needs: options, folders, output, and the connections that are open.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::{CallOptions, Client};
use serde::Serialize;

use crate::cli::Global;
use crate::config::{Folders, quoted, shown_url};
use crate::failure::{Failure, exit};
use crate::output::Output;
use crate::text::visible;

/// Longest an interrupted call is waited for.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Commands that a suggestion may name and that look at servers: they need the same servers again.
const ABOUT_SERVERS: [&str; 10] = [
    "call",
    "config",
    "doctor",
    "ls",
    "prompt",
    "prompts",
    "read",
    "resources",
    "show",
    "tools",
];

/// The program while it runs.
pub(crate) struct App {
    pub(crate) global: Global,
    pub(crate) folders: Folders,
    /// The command line of a server behind `--`; empty when there is none.
    pub(crate) server_command: Vec<String>,
    output: Output,
    /// Connections to be closed, also when the command is interrupted.
    open: Mutex<Vec<Client>>,
}

/// A shared [`App`].
pub(crate) type SharedApp = Arc<App>;

impl App {
    pub(crate) fn new(
        global: Global,
        folders: Folders,
        server_command: Vec<String>,
        output: Output,
    ) -> Self {
        Self {
            global,
            folders,
            server_command,
            output,
            open: Mutex::default(),
        }
    }

    /// Whether the one server is on the command line: a command after `--`, or a URL.
    pub(crate) fn is_ad_hoc(&self) -> bool {
        !self.server_command.is_empty() || self.global.url.is_some()
    }

    /// Whether a person looks at the results.
    pub(crate) fn is_terminal(&self) -> bool {
        self.output.is_terminal()
    }

    /// Whether a person can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        !self.global.no_input && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Prints lines of results.
    pub(crate) fn print<S: AsRef<str>>(&self, lines: impl IntoIterator<Item = S>) {
        self.output.print(lines);
    }

    /// Prints the document of one command: its members, which must serialize to an object, and the failure if there is
    /// one.
    pub(crate) fn print_document(&self, members: &impl Serialize, failure: Option<&Failure>) {
        let error = failure.map(|failure| self.completed(failure).json());
        self.output.print_document(members, error);
    }

    /// Says something beside the result.
    pub(crate) fn say(&self, line: &str) {
        if !self.global.quiet {
            let _ = writeln!(anstream::stderr().lock(), "{}", visible(line));
        }
    }

    /// Shows a failure on the error output.
    pub(crate) fn complain(&self, failure: &Failure) {
        let red = Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
        let dim = Style::new().dimmed();
        let mut err = anstream::stderr().lock();
        for (index, line) in self.completed(failure).lines().iter().enumerate() {
            let line = visible(line);
            let _ = match (index, line.strip_prefix("error:"), line.split_at_checked(9)) {
                (0, Some(rest), _) => writeln!(err, "{red}error:{red:#}{rest}"),
                (_, _, Some((label, rest))) => writeln!(err, "{dim}{label}{dim:#}{rest}"),
                _ => writeln!(err, "{line}"),
            };
        }
    }

    /// The failure with suggestions that can be run as they stand: about the same servers as this run.
    pub(crate) fn completed(&self, failure: &Failure) -> Failure {
        let mut failure = failure.clone();
        for (command, _) in &mut failure.next {
            *command = self.about_same_servers(command);
        }
        failure
    }

    /// Adds the choice of servers to a command line of this program.
    pub(crate) fn about_same_servers(&self, command: &str) -> String {
        let Some(rest) = command.strip_prefix("mcpline ") else {
            return command.to_owned();
        };
        let verb = rest.split(' ').next().unwrap_or_default();
        if !ABOUT_SERVERS.contains(&verb) || rest.contains(" -- ") {
            return command.to_owned();
        }
        let mut words = vec!["mcpline".to_owned()];
        if self.global.demo {
            words.push("--demo".to_owned());
        }
        for file in &self.global.config {
            words.extend(["-c".to_owned(), quoted(&file.display().to_string())]);
        }
        words.push(rest.to_owned());
        if let Some(url) = &self.global.url {
            // Without what may be secret: it was typed, but need not stand on the screen again.
            words.extend(["--url".to_owned(), quoted(&shown_url(url))]);
            for header in &self.global.header {
                let name = header.split(':').next().unwrap_or_default();
                words.extend(["-H".to_owned(), quoted(&format!("{name}: ..."))]);
            }
            if let Some(name) = &self.global.bearer_env {
                words.extend(["--bearer-env".to_owned(), name.clone()]);
            }
        }
        if !self.server_command.is_empty() {
            words.push("--".to_owned());
            words.extend(self.server_command.iter().map(|word| quoted(word)));
        }
        words.join(" ")
    }

    pub(crate) fn opened(&self, client: &Client) {
        self.open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(client.clone());
    }

    /// Closes all connections that are still open, at once.
    pub(crate) async fn close_all(&self) {
        let clients =
            std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        let closing: Vec<_> = clients
            .into_iter()
            .map(|client| tokio::spawn(async move { client.close().await }))
            .collect();
        for closing in closing {
            let _ = closing.await;
        }
    }

    /// After an interruption: makes sure that servers have heard of it, then closes.
    pub(crate) async fn close_interrupted(&self) {
        let clients = self
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let asking: Vec<_> = clients
            .into_iter()
            .map(|client| {
                // An answer to anything that follows the cancellation shows that it arrived.
                let options = CallOptions::default().with_deadline(Deadline::total(CANCEL_GRACE));
                tokio::spawn(async move { client.ping(options).await.is_ok() })
            })
            .collect();
        for asking in asking {
            let _ = asking.await;
        }
        self.close_all().await;
    }

    /// The exit code after all: output that could not be written is a failure of its own.
    pub(crate) fn finish(&self, code: u8) -> u8 {
        match self.output.failure() {
            Some(error) => {
                self.complain(&Failure::new(exit::OTHER, "output", error));
                if code == 0 { exit::OTHER } else { code }
            }
            None => code,
        }
    }
}
