//! Where results go: standard output, or a file.
//!
//! Data is exact in a pipe and in a file, and safe to look at on a terminal. A closed pipe ends the output quietly; any
//! other failure to write is kept and reported at the end, so that nothing is lost unseen.

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::text::visible;

/// Version of the JSON documents; additions don't change it.
const DOCUMENT_VERSION: u32 = 1;

/// The destination.
#[derive(Debug)]
pub(crate) struct Output(Mutex<State>);

#[derive(Debug)]
struct State {
    file: Option<(PathBuf, File)>,
    /// The first failure; nothing more is written then.
    failed: Option<io::Error>,
}

impl Output {
    /// Standard output, or a new file in place of one that is there.
    ///
    /// # Errors
    /// When the file can't be written.
    pub(crate) fn new(file: Option<&Path>) -> Result<Self, String> {
        let open = |path: &Path| {
            let file =
                File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok::<_, String>((path.to_owned(), file))
        };
        let file = file.map(open).transpose()?;
        Ok(Self(Mutex::new(State { file, failed: None })))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a person looks at it.
    pub(crate) fn is_terminal(&self) -> bool {
        self.lock().file.is_none() && io::stdout().is_terminal()
    }

    /// Writes lines.
    pub(crate) fn print<S: AsRef<str>>(&self, lines: impl IntoIterator<Item = S>) {
        let terminal = self.is_terminal();
        let mut state = self.lock();
        for line in lines {
            if state.failed.is_some() {
                return;
            }
            let line = line.as_ref();
            let written = match &mut state.file {
                Some((_, file)) => writeln!(file, "{line}"),
                None if terminal => writeln!(io::stdout(), "{}", visible(line)),
                // Not through `anstream`, which would take escape sequences out of data.
                None => writeln!(io::stdout(), "{line}"),
            };
            state.failed = written.err();
        }
    }

    /// Writes one JSON document: the version, `ok`, the members, and the error if there is one. Raw members keep their
    /// text, so numbers keep their digits.
    pub(crate) fn print_document(&self, members: &impl Serialize, error: Option<Value>) {
        let members = serde_json::to_string(members).unwrap_or_default();
        let members = members
            .strip_prefix('{')
            .and_then(|members| members.strip_suffix('}'));
        let members = members.unwrap_or_default();
        let comma = if members.is_empty() { "" } else { "," };
        let ok = error.is_none();
        let error = error.map_or_else(String::new, |error| format!(",\"error\":{error}"));
        self.print([format!(
            "{{\"v\":{DOCUMENT_VERSION},\"ok\":{ok}{comma}{members}{error}}}"
        )]);
    }

    /// What could not be written, if that matters to anybody.
    pub(crate) fn failure(&self) -> Option<String> {
        let mut state = self.lock();
        let flushed = match &mut state.file {
            Some((_, file)) => file.flush(),
            None => io::stdout().flush(),
        };
        let error = state.failed.take().or_else(|| flushed.err())?;
        let place = state.file.as_ref().map_or_else(
            || "standard output".to_owned(),
            |(path, _)| path.display().to_string(),
        );
        (error.kind() != ErrorKind::BrokenPipe).then(|| format!("{place}: {error}"))
    }
}
