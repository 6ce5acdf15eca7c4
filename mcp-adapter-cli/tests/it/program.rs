//! Runs `mcpline` in a folder and a home of its own.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use mcp_testkit::process::{Marked, fake_server, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How long anything may take that has no limit of its own.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// A folder with an `mcp.json`, and nothing else of this machine.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) mark: Marked,
}

/// What a run gave.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Waits for the end of a program, which must come, and returns its exit code.
pub(crate) fn ended(child: &mut Child) -> Option<i32> {
    wait_until("the program ends", SOON, || {
        child.try_wait().unwrap().is_some()
    });
    child.wait().unwrap().code()
}

impl Ran {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.out, self.err))
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Place {
    pub(crate) fn new(test: &str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            mark: Marked::new(test),
        }
    }

    /// A place whose configuration has fake servers with these switches.
    pub(crate) fn with_servers(test: &str, servers: &[(&str, &[&str])]) -> Self {
        let place = Self::new(test);
        let entries = servers
            .iter()
            .map(|(name, switches)| ((*name).to_owned(), place.entry(switches)));
        place.write(&json!({"mcpServers": entries.collect::<serde_json::Map<_, _>>()}).to_string());
        place
    }

    /// An entry for a fake server.
    pub(crate) fn entry(&self, switches: &[&str]) -> Value {
        json!({"command": fake_server(), "args": switches, "env": {Marked::NAME: self.mark.value()}})
    }

    pub(crate) fn write(&self, config: &str) {
        std::fs::write(self.folder.path().join("servers.json"), config).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The program with its own home; the configuration is named unless `bare`.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcpline"));
        command.current_dir(self.path()).env_clear();
        command
            .env("HOME", self.path())
            .env("PATH", std::env::var_os("PATH").unwrap());
        if self.path().join("servers.json").exists() {
            command.env("MCPLINE_CONFIG", self.path().join("servers.json"));
        }
        command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        self.command(args).output().unwrap().into()
    }
}
