//! What went wrong, as a person and as a program reads it.
//!
//! ```text
//! error: <server>: <what did not work>
//!   stage   <start | handshake | list | call | …>
//!   cause   <one per line>
//!   stderr  | <last lines of the server>
//!   sent    <no | yes | unknown>
//!   next    <command>  - <why>
//! ```

use std::error::Error as _;

use mcp_client::{Error, ErrorKind, Sent, Stage};
use serde_json::{Value, json};

use crate::secret::Scrubber;

/// Exit codes; 3, 4 and 5 agree with the official Inspector.
pub(crate) mod exit {
    /// Our fault, or anything not below.
    pub(crate) const OTHER: u8 = 1;
    /// Usage or configuration error; nothing was started.
    pub(crate) const USAGE: u8 = 2;
    /// The server is not available.
    pub(crate) const UNAVAILABLE: u8 = 4;
    /// The server said no.
    pub(crate) const REFUSED: u8 = 5;
    /// No such server or tool, or wrong arguments; nothing was sent.
    pub(crate) const NOT_FOUND: u8 = 6;
    /// A person is needed.
    pub(crate) const PERSON_NEEDED: u8 = 7;
    /// Some servers failed, the rest is shown.
    pub(crate) const PARTIAL: u8 = 8;
    /// A time limit.
    pub(crate) const TIMEOUT: u8 = 124;
    /// Ctrl-C.
    pub(crate) const INTERRUPTED: u8 = 130;
    /// TERM.
    pub(crate) const TERMINATED: u8 = 143;
}

/// A failure with all there is to say about it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: u8,
    /// A word for programs.
    pub(crate) kind: &'static str,
    /// One line, without `error:`.
    pub(crate) message: String,
    pub(crate) stage: Option<&'static str>,
    /// The entry's place, or the command.
    pub(crate) place: Option<String>,
    pub(crate) causes: Vec<String>,
    pub(crate) stderr: Vec<String>,
    pub(crate) exit_status: Option<i32>,
    pub(crate) sent: Option<&'static str>,
    pub(crate) notes: Vec<String>,
    /// Commands to go on with, and why.
    pub(crate) next: Vec<(String, String)>,
}

/// Most lines of a server's error output that are shown.
const MAX_STDERR_LINES: usize = 12;

impl Failure {
    pub(crate) fn new(exit: u8, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            exit,
            kind,
            message: message.into(),
            stage: None,
            place: None,
            causes: Vec::new(),
            stderr: Vec::new(),
            exit_status: None,
            sent: None,
            notes: Vec::new(),
            next: Vec::new(),
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(exit::USAGE, "usage", message)
    }

    pub(crate) fn next(mut self, command: impl Into<String>, why: impl Into<String>) -> Self {
        self.next.push((command.into(), why.into()));
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// A failure of the client library.
    pub(crate) fn of(error: &Error, scrubber: &Scrubber) -> Self {
        let (exit, kind) = match error.kind() {
            ErrorKind::Timeout => (exit::TIMEOUT, "timeout"),
            ErrorKind::Start => (exit::UNAVAILABLE, "start_failed"),
            ErrorKind::Handshake => (exit::UNAVAILABLE, "handshake_failed"),
            ErrorKind::ConnectionLost | ErrorKind::Closed if error.evidence().exit.is_some() => {
                (exit::UNAVAILABLE, "server_exited")
            }
            ErrorKind::ConnectionLost | ErrorKind::Closed => (exit::UNAVAILABLE, "connection_lost"),
            ErrorKind::Rpc => (exit::REFUSED, "rpc_error"),
            ErrorKind::InvalidAnswer => (exit::REFUSED, "invalid_answer"),
            ErrorKind::UnknownTool => (exit::NOT_FOUND, "unknown_tool"),
            ErrorKind::Usage => (exit::NOT_FOUND, "bad_request"),
            _ => (exit::OTHER, "other"),
        };
        let mut failure = Self::new(exit, kind, scrubber.scrub(&error.to_string()));
        failure.stage = Some(match error.stage() {
            Stage::Start => "start",
            Stage::Handshake => "handshake",
            Stage::List => "list",
            _ => "call",
        });
        let mut cause = error.source();
        while let Some(source) = cause {
            failure.causes.push(scrubber.scrub(&source.to_string()));
            cause = source.source();
        }
        let evidence = error.evidence();
        let lines: Vec<_> = evidence
            .stderr
            .lines()
            .map(|line| scrubber.scrub(line))
            .collect();
        failure.stderr = lines[lines.len().saturating_sub(MAX_STDERR_LINES)..].to_vec();
        failure.exit_status = evidence.exit_status;
        if error.stage() == Stage::Call {
            failure.sent = Some(match error.was_sent() {
                Sent::No => "no: safe to try again",
                Sent::Yes => "yes",
                Sent::Unknown => "unknown: it may have been carried out",
            });
        }
        if error.kind() == ErrorKind::Timeout && error.stage() != Stage::Call {
            if evidence.stderr.is_empty() {
                failure
                    .notes
                    .push("the server has written nothing to its error output".to_owned());
            }
            if !evidence.unpassed_network_variables.is_empty() {
                let names = evidence.unpassed_network_variables.join(", ");
                failure
                    .notes
                    .push(format!("set in this shell but not passed on: {names}"));
            }
        }
        if let Some(example) = error.diagnostics().noise_examples.front() {
            failure.notes.push(scrubber.scrub(&format!(
                "on its output, where only messages belong: {example}"
            )));
        }
        failure
    }

    /// The text for people, without colour.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("error: {}", self.message)];
        let mut add = |label: &str, texts: &[String]| {
            for (index, text) in texts.iter().enumerate() {
                lines.push(format!(
                    "  {:7} {text}",
                    if index == 0 { label } else { "" }
                ));
            }
        };
        add(
            "stage",
            &self
                .stage
                .map(str::to_owned)
                .into_iter()
                .collect::<Vec<_>>(),
        );
        add("where", &self.place.clone().into_iter().collect::<Vec<_>>());
        add("cause", &self.causes);
        add(
            "stderr",
            &self
                .stderr
                .iter()
                .map(|line| format!("| {line}"))
                .collect::<Vec<_>>(),
        );
        add("note", &self.notes);
        add(
            "sent",
            &self.sent.map(str::to_owned).into_iter().collect::<Vec<_>>(),
        );
        let next: Vec<_> = self
            .next
            .iter()
            .map(|(command, why)| {
                if why.is_empty() {
                    command.clone()
                } else {
                    format!("{command}  - {why}")
                }
            })
            .collect();
        add("next", &next);
        lines
    }

    /// The `error` member of the JSON document.
    pub(crate) fn json(&self) -> Value {
        let next: Vec<_> = self
            .next
            .iter()
            .map(|(command, text)| json!({"command": command, "text": text}))
            .collect();
        json!({
            "kind": self.kind,
            "message": self.message,
            "stage": self.stage,
            "sent": self.sent.map(|sent| sent.split(':').next().unwrap_or(sent)),
            "cause": self.causes,
            "evidence": {"exit_status": self.exit_status, "stderr": self.stderr, "notes": self.notes},
            "next": next,
        })
    }
}
