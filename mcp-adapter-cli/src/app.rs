//! What every command needs: options, folders, output, and the connections that are open.

use std::io::{IsTerminal as _, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::{CallOptions, Client};
use serde_json::{Value, json};

use crate::cli::Global;
use crate::config::Folders;
use crate::failure::Failure;
use crate::text::visible;

/// Longest an interrupted call is waited for.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// Version of the JSON documents; additions don't change it.
const DOCUMENT_VERSION: u32 = 1;

/// The program while it runs.
pub(crate) struct App {
    pub(crate) global: Global,
    pub(crate) folders: Folders,
    /// Connections to be closed, also when the command is interrupted.
    open: Mutex<Vec<Client>>,
}

impl App {
    pub(crate) fn new(global: Global, folders: Folders) -> Self {
        Self {
            global,
            folders,
            open: Mutex::default(),
        }
    }

    /// Whether standard output is a person's terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        std::io::stdout().is_terminal()
    }

    /// Whether a person can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        !self.global.no_input && std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
    }

    /// Prints lines: safe to look at on a terminal, exact in a pipe. A closed pipe is no failure.
    pub(crate) fn print<S: AsRef<str>>(&self, lines: impl IntoIterator<Item = S>) {
        let terminal = self.is_terminal();
        let mut out = anstream::stdout().lock();
        for line in lines {
            let line = line.as_ref();
            let written = if terminal {
                writeln!(out, "{}", visible(line))
            } else {
                writeln!(out, "{line}")
            };
            if written.is_err() {
                return;
            }
        }
    }

    /// Prints a JSON document.
    pub(crate) fn print_json(&self, document: &Value) {
        self.print([document.to_string()]);
    }

    /// The document of one command: `ok`, its members, and the error if there is one.
    pub(crate) fn document(&self, members: Value, failure: Option<&Failure>) -> Value {
        let mut document = json!({"v": DOCUMENT_VERSION, "ok": failure.is_none()});
        if let (Some(document), Value::Object(members)) = (document.as_object_mut(), members) {
            document.extend(members);
            if let Some(failure) = failure {
                document.insert("error".to_owned(), failure.json());
            }
        }
        document
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
        for (index, line) in failure.lines().iter().enumerate() {
            let line = visible(line);
            let _ = match (index, line.strip_prefix("error:"), line.split_at_checked(9)) {
                (0, Some(rest), _) => writeln!(err, "{red}error:{red:#}{rest}"),
                (_, _, Some((label, rest))) => writeln!(err, "{dim}{label}{dim:#}{rest}"),
                _ => writeln!(err, "{line}"),
            };
        }
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
}

/// A shared [`App`].
pub(crate) type SharedApp = Arc<App>;
