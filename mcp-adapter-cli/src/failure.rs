//! What went wrong, as a person and as a program reads it.
//!
//! ```text
//! error: <server>: <what did not work>
//!   <name>  <what is wrong with an argument, what the server says, …>
//!   stage   <start | handshake | list | call | …>
//!   where   <file and line, command>
//!   cause   <one per line>
//!   stderr  | <last lines of the server>
//!   sent    <no | yes | unknown>
//!   usage   <the tool's signature>
//!   next    <command>  - <why>
//! ```

use std::error::Error as _;

use mcp_client::mcp_proto::lifecycle::HandshakeFailure;
use mcp_client::{Error, ErrorKind, Redactor, Sent, Stage};
use serde_json::{Value, json};

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

/// How the server's process ended, when that is what went wrong.
fn died(error: &Error) -> Option<&str> {
    let lost = match error.kind() {
        ErrorKind::ConnectionLost | ErrorKind::Closed => true,
        // After any other failure of the handshake this side ended the process.
        ErrorKind::Handshake => error
            .as_handshake()
            .is_some_and(|error| matches!(error.failure, HandshakeFailure::ChannelEnded { .. })),
        _ => false,
    };
    error.evidence().exit.as_deref().filter(|_| lost)
}

/// The exit code of a command about several servers, of which `worked` did.
///
/// A part that failed is told from a whole that failed: scripts go on with a part.
pub(crate) fn exit_of(worked: usize, failures: &[Failure]) -> u8 {
    match failures {
        [] => 0,
        [first, rest @ ..] if worked == 0 && rest.iter().all(|other| other.exit == first.exit) => {
            first.exit
        }
        _ => exit::PARTIAL,
    }
}

/// A failure with all there is to say about it.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: u8,
    /// A word for programs.
    pub(crate) kind: &'static str,
    /// One line, without `error:`.
    pub(crate) message: String,
    /// What is wrong in detail, each with a name: arguments, or `server` for what the server says.
    pub(crate) details: Vec<(String, String)>,
    pub(crate) stage: Option<&'static str>,
    /// The entry's place, or the command.
    pub(crate) place: Option<String>,
    pub(crate) causes: Vec<String>,
    pub(crate) stderr: Vec<String>,
    pub(crate) exit_status: Option<i32>,
    pub(crate) sent: Option<&'static str>,
    pub(crate) notes: Vec<String>,
    /// How it would be right.
    pub(crate) usage: Option<String>,
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
            details: Vec::new(),
            stage: None,
            place: None,
            causes: Vec::new(),
            stderr: Vec::new(),
            exit_status: None,
            sent: None,
            notes: Vec::new(),
            usage: None,
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
    pub(crate) fn of(error: &Error, redactor: &Redactor) -> Self {
        let (exit, kind) = match error.kind() {
            ErrorKind::Timeout => (exit::TIMEOUT, "timeout"),
            ErrorKind::Start => (exit::UNAVAILABLE, "start_failed"),
            _ if died(error).is_some() => (exit::UNAVAILABLE, "server_exited"),
            ErrorKind::Handshake => (exit::UNAVAILABLE, "handshake_failed"),
            ErrorKind::ConnectionLost | ErrorKind::Closed => (exit::UNAVAILABLE, "connection_lost"),
            ErrorKind::Unauthorized => (exit::PERSON_NEEDED, "unauthorized"),
            ErrorKind::Unavailable => (exit::UNAVAILABLE, "unavailable"),
            ErrorKind::Refused => (exit::REFUSED, "refused"),
            ErrorKind::Rpc => (exit::REFUSED, "rpc_error"),
            ErrorKind::InvalidAnswer => (exit::REFUSED, "invalid_answer"),
            ErrorKind::UnknownTool => (exit::NOT_FOUND, "unknown_tool"),
            ErrorKind::Usage => (exit::NOT_FOUND, "bad_request"),
            _ => (exit::OTHER, "other"),
        };
        let mut message = error.to_string();
        if let Some(how) = died(error) {
            let when = match error.stage() {
                Stage::List => "while it listed its tools",
                Stage::Call => "during the call",
                _ => "before the handshake was done",
            };
            message = format!("{}: the server {how} {when}", error.server());
        }
        let mut failure = Self::new(exit, kind, redactor.redact(&message));
        failure.stage = Some(match error.stage() {
            Stage::Start => "start",
            Stage::Handshake => "handshake",
            Stage::List => "list",
            _ => "call",
        });
        let mut cause = error.source();
        while let Some(source) = cause {
            failure.causes.push(redactor.redact(&source.to_string()));
            cause = source.source();
        }
        let evidence = error.evidence();
        let lines: Vec<_> = evidence
            .stderr
            .lines()
            .map(|line| redactor.redact(line))
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
            failure.notes.push(redactor.redact(&format!(
                "on its output, where only messages belong: {example}"
            )));
        }
        failure
    }

    /// The text for people, without colour.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("error: {}", self.message)];
        let names = self.details.iter().map(|(name, _)| name.chars().count());
        let width = names.max().unwrap_or(0).max(7);
        for (name, text) in &self.details {
            lines.push(format!("  {name:width$} {text}"));
        }
        let mut add = |label: &str, texts: &mut dyn Iterator<Item = String>| {
            for (index, text) in texts.enumerate() {
                let label = if index == 0 { label } else { "" };
                lines.push(format!("  {label:7} {text}"));
            }
        };
        add("stage", &mut self.stage.iter().map(ToString::to_string));
        add("where", &mut self.place.iter().cloned());
        add("cause", &mut self.causes.iter().cloned());
        add(
            "stderr",
            &mut self.stderr.iter().map(|line| format!("| {line}")),
        );
        add("note", &mut self.notes.iter().cloned());
        add("sent", &mut self.sent.iter().map(ToString::to_string));
        add("usage", &mut self.usage.iter().cloned());
        add(
            "next",
            &mut self.next.iter().map(|(command, why)| match why.as_str() {
                "" => command.clone(),
                why => format!("{command}  - {why}"),
            }),
        );
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
            "details": self.details.iter().map(|(name, text)| json!({"name": name, "text": text})).collect::<Vec<_>>(),
            "stage": self.stage,
            "where": self.place,
            "sent": self.sent.map(|sent| sent.split(':').next().unwrap_or(sent)),
            "cause": self.causes,
            "evidence": {"exit_status": self.exit_status, "stderr": self.stderr, "notes": self.notes},
            "usage": self.usage,
            "next": next,
        })
    }
}
