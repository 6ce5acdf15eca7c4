//! Running programs and telling about it.

use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why a task did not succeed.
#[derive(Debug)]
pub(crate) enum Error {
    /// The command line makes no sense: exit code 2.
    Usage(String),
    /// A check found something: exit code 1.
    Failed(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text) | Self::Failed(text)) = self;
        f.write_str(text)
    }
}

/// `; did you mean "..."?` for the name that is nearest to a mistyped one, or nothing when none is near.
pub(crate) fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let nearest = names
        .into_iter()
        .map(|name| (distance(typed, name), name))
        .min();
    match nearest {
        Some((away, name)) if away * 2 <= name.len() => format!("; did you mean {name:?}?"),
        _ => String::new(),
    }
}

/// How many letters have to be changed, added or removed.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = index;
        row[0] = index + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

/// Prints a line at once, so that a log shows what ran before a hang.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    // A closed pipe is no reason to stop a check.
    let _ = writeln!(out, "{}", text.trim_end());
    let _ = out.flush();
}

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest
        .parent()
        .map_or_else(|| manifest.clone(), Path::to_owned)
}

/// The folder that holds what builds leave behind.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), |dir| root().join(dir))
}

/// `cargo` of the toolchain that runs this.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Runs a command to its end.
pub(crate) fn execute(command: &mut Command) -> Result<(), String> {
    let shown = show(command);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown} failed ({status})")),
        Err(error) => Err(format!("{shown} can't be started: {error}")),
    }
}

/// Runs a command and returns what it printed.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let shown = show(command);
    let output = command
        .output()
        .map_err(|error| format!("{shown} can't be started: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!(
        "{shown} failed ({})\n{}",
        output.status,
        errors.trim_end()
    ))
}

/// Whether a program is there and ends well. What it prints is dropped.
pub(crate) fn succeeds(program: &str, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .output()
        .is_ok_and(|output| output.status.success())
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    format!(
        "`{}`",
        words
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (from, to, expected) in [
            ("", "", 0),
            ("tidy", "tidy", 0),
            ("tidi", "tidy", 1),
            ("tdy", "tidy", 1),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }
}
