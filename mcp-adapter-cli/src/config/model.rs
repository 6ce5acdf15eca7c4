//! What configuration files say, before anything is expanded or looked up.
//!
//! Must not know: the file system, the environment, the terminal.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::remote::RemoteServer;
use crate::secret::Secret;

/// Where something stands in a file.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Place {
    /// The file.
    pub(crate) file: PathBuf,
    /// The line, from 1.
    pub(crate) line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file.display(), self.line)
    }
}

/// Something wrong or odd, and where.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Problem {
    pub(crate) place: Place,
    pub(crate) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

/// Where a file came from, which decides how far it is trusted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scope {
    /// Named by the user: `--config` or its variable.
    Named,
    /// Found in the project: what it starts needs approval (C218).
    Project,
    /// The user's own file.
    User,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Named => "named",
            Self::Project => "project",
            Self::User => "user",
        })
    }
}

/// What a file says.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileContents {
    /// The servers, in order.
    pub(crate) entries: Vec<Entry>,
    /// Oddities outside of any server.
    pub(crate) notes: Vec<Problem>,
}

/// One server of a file.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) place: Place,
    pub(crate) scope: Scope,
    pub(crate) disabled: bool,
    /// What it is; a bad entry spoils only itself.
    pub(crate) server: Result<Server, Problem>,
    /// Oddities that change nothing: unknown keys and the like (C212).
    pub(crate) notes: Vec<Problem>,
}

/// What an entry wants to reach.
#[derive(Clone, Debug)]
pub(crate) enum Server {
    Http(RemoteServer),
    Stdio(StdioServer),
}

impl Server {
    /// As shown in tables.
    pub(crate) fn transport(&self) -> &'static str {
        match self {
            Self::Http(_) => "http",
            Self::Stdio(_) => "stdio",
        }
    }
}

/// A program to start, as written: expansions are not done yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct StdioServer {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// In the file's order; `None` removes the variable.
    pub(crate) env: Vec<(String, Option<Secret>)>,
    pub(crate) cwd: Option<String>,
    pub(crate) inherit_env: InheritEnv,
    pub(crate) limits: Limits,
}

impl StdioServer {
    /// The command line as one would type it; expansions are shown as written.
    pub(crate) fn command_line(&self) -> String {
        let words = std::iter::once(&self.command).chain(&self.args);
        words.map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
    }
}

/// Which variables of this process a server gets besides its `env`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum InheritEnv {
    /// All of them.
    All,
    /// The short list every program needs (D8, D20).
    #[default]
    Minimal,
    /// The short list and these.
    Names(Vec<String>),
}

/// Times that an entry sets for itself.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Limits {
    /// `startupTimeoutMs`.
    pub(crate) start: Option<Duration>,
    /// `callTimeoutMs`: silence during a call.
    pub(crate) idle: Option<Duration>,
    /// `maxCallMs`: a call in all.
    pub(crate) total: Option<Duration>,
}

/// A word as a POSIX shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A path relative to `base` where that is shorter to read.
pub(crate) fn shortened(path: &Path, base: &Path) -> PathBuf {
    path.strip_prefix(base).unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let cases = [
            ("uvx", "uvx"),
            ("--db=main", "--db=main"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("", "''"),
            ("${DB_URL}", "'${DB_URL}'"),
        ];
        for (word, text) in cases {
            assert_eq!(quoted(word), text);
        }
    }
}
