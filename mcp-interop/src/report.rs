//! What came of it, as a table and as a file.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::plan::Server;

/// One server.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    server: String,
    package_version: String,
    /// Name and version that the server gives itself.
    calls_itself: String,
    transport: String,
    era: String,
    version: String,
    exercised: Vec<String>,
    failures: Vec<String>,
    seconds: f64,
}

impl Row {
    pub(crate) fn new(server: &Server) -> Self {
        let mut row = Self::named(&server.name);
        row.package_version.clone_from(&server.package_version);
        row
    }

    /// A row without a package.
    pub(crate) fn named(name: &str) -> Self {
        Self {
            server: name.to_owned(),
            package_version: "-".to_owned(),
            calls_itself: "-".to_owned(),
            transport: "stdio".to_owned(),
            era: "-".to_owned(),
            version: "-".to_owned(),
            exercised: Vec::new(),
            failures: Vec::new(),
            seconds: 0.0,
        }
    }

    pub(crate) fn failed(server: &Server, why: &str) -> Self {
        let mut row = Self::new(server);
        row.fail(why);
        row
    }

    pub(crate) fn agreed(&mut self, era: String, version: String) {
        (self.era, self.version) = (era, version);
    }

    pub(crate) fn calls_itself(&mut self, info: String) {
        self.calls_itself = info;
    }

    pub(crate) fn over(&mut self, transport: &str) {
        self.transport = transport.to_owned();
    }

    pub(crate) fn note(&mut self, what: &str) {
        self.exercised.push(what.to_owned());
    }

    pub(crate) fn fail(&mut self, why: &str) {
        self.failures.push(why.to_owned());
    }

    pub(crate) fn took(&mut self, time: Duration) {
        self.seconds = time.as_secs_f64();
    }

    pub(crate) fn line(&self) -> String {
        let result = if self.failures.is_empty() {
            "ok".to_owned()
        } else {
            format!("FAILED: {}", self.failures.join("; "))
        };
        format!(
            "{:13} {:11} {:15} {:7} {:11} {:5.2} s  {} [{}]",
            self.server,
            self.package_version,
            self.transport,
            self.era,
            self.version,
            self.seconds,
            result,
            self.exercised.join(", ")
        )
    }
}

/// The head of the table that `Row::line` fills.
pub(crate) fn head() -> String {
    format!(
        "{:13} {:11} {:15} {:7} {:11} {:>7}  result [exercised]",
        "server", "version", "transport", "era", "agreed", "time"
    )
}

/// Prints a line.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// Writes the file and says how it went.
pub(crate) fn finish(rows: &[Row], file: &Path) -> ExitCode {
    let failed = rows.iter().filter(|row| !row.failures.is_empty()).count();
    let written = serde_json::to_vec_pretty(rows).map_err(|error| error.to_string());
    let written =
        written.and_then(|text| std::fs::write(file, text).map_err(|error| error.to_string()));
    if let Err(error) = written {
        say(&format!(
            "error: the report {} can't be written: {error}",
            file.display()
        ));
        return ExitCode::FAILURE;
    }
    say(&format!(
        "{} servers, {failed} failed; details in {}",
        rows.len(),
        file.display()
    ));
    if failed == 0 && !rows.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
