//! What to start.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::environment::{EnvPolicy, ResolvedEnv};

/// A server's command: program and arguments as a list, never through a shell (STDIO-25), folder and environment.
///
/// `Debug` and `Display` show no values of environment variables. Arguments are shown: they are visible to every user of
/// the machine anyway, so secrets belong into the environment.
#[derive(Clone, Eq, PartialEq)]
pub struct ServerCommand {
    program: OsString,
    args: Vec<OsString>,
    cwd: Option<PathBuf>,
    policy: EnvPolicy,
    set: BTreeMap<OsString, Option<OsString>>,
}

impl ServerCommand {
    /// A program: a path, or a name to be looked up in the `PATH` that the server gets.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: None,
            policy: EnvPolicy::default(),
            set: BTreeMap::new(),
        }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets the folder it starts in. Default: the host's own.
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets a variable. It wins over whatever the policy passes on.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.set.insert(name.into(), Some(value.into()));
        self
    }

    /// Takes a variable away that the policy would pass on.
    #[must_use]
    pub fn env_remove(mut self, name: impl Into<OsString>) -> Self {
        self.set.insert(name.into(), None);
        self
    }

    /// Sets what is passed on of the host's environment. Default: [`EnvPolicy::Minimal`].
    #[must_use]
    pub fn env_policy(mut self, policy: EnvPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The program as given.
    pub fn program(&self) -> &OsStr {
        &self.program
    }

    /// The arguments.
    pub fn arguments(&self) -> &[OsString] {
        &self.args
    }

    /// The folder it starts in, if one is set.
    pub fn folder(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }

    /// The values of the variables that were set: secrets, as far as anybody knows.
    pub fn set_values(&self) -> impl Iterator<Item = &OsStr> {
        self.set.values().flatten().map(OsString::as_os_str)
    }

    /// The environment that it would get now.
    pub fn resolve_env(&self) -> ResolvedEnv {
        ResolvedEnv::new(&self.policy, &self.set, std::env::vars_os())
    }
}

/// The command line, quoted where needed: for people, not for a shell.
impl fmt::Display for ServerCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in std::iter::once(&self.program).chain(&self.args).enumerate() {
            if index > 0 {
                f.write_str(" ")?;
            }
            let word = word.to_string_lossy();
            let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,~^".contains(c);
            if !word.is_empty() && word.chars().all(plain) {
                f.write_str(&word)?;
            } else {
                write!(f, "{word:?}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ServerCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCommand")
            .field("command", &self.to_string())
            .field("cwd", &self.cwd)
            .field("policy", &self.policy)
            .field("set", &self.set.keys().collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_shown_without_secrets() {
        let command = ServerCommand::new("npx")
            .args(["-y", "some server", ""])
            .env("TOKEN", "s3cret")
            .cwd("/tmp");
        assert_eq!(command.to_string(), "npx -y \"some server\" \"\"");
        let debug = format!("{command:?}");
        assert!(
            debug.contains("TOKEN") && !debug.contains("s3cret"),
            "{debug}"
        );
    }
}
