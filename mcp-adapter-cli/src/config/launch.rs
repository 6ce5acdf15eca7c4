//! From an entry to what is started: variables filled in, folders made absolute, a fingerprint over the whole.

use std::fmt::Write as _;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use super::expand::Origin;
use super::fill::Filler;
use super::locate::Folders;
use super::model::{Entry, InheritEnv, Limits, Problem, StdioServer};
use crate::secret::Secret;

/// A program ready to be started.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    /// `None` removes the variable.
    pub(crate) env: Vec<(String, Option<Secret>)>,
    pub(crate) cwd: PathBuf,
    pub(crate) inherit_env: InheritEnv,
    pub(crate) limits: Limits,
    /// Variables filled in: key of the entry, name, origin.
    pub(crate) expansions: Vec<(String, String, Origin)>,
}

/// Resolves an entry.
///
/// # Errors
/// Names the key and the variable that has no value.
pub(crate) fn resolve(
    entry: &Entry,
    server: &StdioServer,
    folders: &Folders,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<Launch, Problem> {
    let mut filler = Filler::new(entry, folders, variable);
    let command = filler.fill("command", &server.command)?;
    let mut args = Vec::new();
    for (index, arg) in server.args.iter().enumerate() {
        args.push(filler.fill(&format!("args[{index}]"), arg)?);
    }
    let mut env = Vec::new();
    for (name, value) in &server.env {
        let value = match value {
            Some(value) => {
                let value = filler.fill(&format!("env.{name}"), value.reveal())?;
                Some(Secret::new(value))
            }
            None => None,
        };
        env.push((name.clone(), value));
    }
    let cwd = match &server.cwd {
        Some(cwd) => filler.folder().join(filler.fill("cwd", cwd)?),
        None => filler.base(),
    };
    Ok(Launch {
        command,
        args,
        env,
        cwd,
        inherit_env: server.inherit_env.clone(),
        limits: server.limits,
        expansions: filler.into_expansions(),
    })
}

/// Identifies what an entry starts: command, arguments, folder, environment as written. A change of any of them asks
/// again (C218). Environment values count as they stand in the file: a new token in a variable asks nothing.
pub(crate) fn fingerprint(server: &StdioServer, launch: &Launch) -> String {
    let mut hasher = Sha256::new();
    let mut add = |tag: &str, value: &str| hash_one(&mut hasher, tag, value);
    add("version", "1");
    add("command", &launch.command);
    for arg in &launch.args {
        add("arg", arg);
    }
    add("cwd", &launch.cwd.to_string_lossy());
    for (name, value) in &server.env {
        add("name", name);
        match value {
            Some(value) => add("value", value.reveal()),
            None => add("unset", ""),
        }
    }
    add("inherit", &format!("{:?}", launch.inherit_env));
    hex(hasher)
}

/// Adds one value to a fingerprint.
pub(super) fn hash_one(hasher: &mut Sha256, tag: &str, value: &str) {
    // Lengths in front keep neighbouring values apart.
    hasher.update(format!("{tag} {} {}:", tag.len(), value.len()));
    hasher.update(value);
}

/// A fingerprint as text.
pub(super) fn hex(hasher: Sha256) -> String {
    let mut text = "sha256:".to_owned();
    for byte in hasher.finalize() {
        // Writing to a string can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::model::{Place, Scope, Server};

    fn entry(scope: Scope, file: &str, server: StdioServer) -> Entry {
        Entry {
            id: "a".to_owned(),
            place: Place {
                file: file.into(),
                line: 3,
            },
            scope,
            disabled: false,
            server: Ok(Server::Stdio(server)),
            notes: Vec::new(),
        }
    }

    fn launched(scope: Scope, file: &str, server: &StdioServer) -> Result<Launch, Problem> {
        let folders = Folders {
            current: "/wrk/sub".into(),
            home: Some("/h/ada".into()),
            ..Folders::default()
        };
        let variable = |name: &str| (name == "TOKEN").then(|| "s3cret".to_owned());
        resolve(
            &entry(scope, file, server.clone()),
            server,
            &folders,
            &variable,
        )
    }

    fn server() -> StdioServer {
        StdioServer {
            command: "${userHome}/bin/x".to_owned(),
            args: vec!["--root".to_owned(), "${workspaceFolder}".to_owned()],
            env: vec![
                ("T".to_owned(), Some(Secret::new("${TOKEN}"))),
                ("U".to_owned(), None),
            ],
            ..StdioServer::default()
        }
    }

    #[test]
    fn entries_are_resolved() {
        let launch = launched(Scope::Project, "/wrk/.mcp/mcp.json", &server()).unwrap();
        assert_eq!(launch.command, "/h/ada/bin/x");
        assert_eq!(launch.args, ["--root", "/wrk"]);
        assert_eq!(launch.env[0].1, Some(Secret::new("s3cret")));
        assert_eq!(launch.cwd, Path::new("/wrk"));
        assert!(!format!("{launch:?}").contains("s3cret"));
        let launch = launched(Scope::Named, "/etc/mcp.json", &server()).unwrap();
        assert_eq!(launch.cwd, Path::new("/wrk/sub"));
        let cwd = StdioServer {
            cwd: Some("tools".to_owned()),
            ..server()
        };
        let launch = launched(Scope::Named, "/etc/mcp.json", &cwd).unwrap();
        assert_eq!(launch.cwd, Path::new("/etc/tools"));
    }

    #[test]
    fn a_variable_without_a_value_is_named_with_its_key() {
        let mut server = server();
        server.env[0].1 = Some(Secret::new("${DB_URL}"));
        let problem = launched(Scope::Named, "/etc/mcp.json", &server).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "/etc/mcp.json:3: env.T: DB_URL is not set; set it, or write ${DB_URL:-default}"
        );
    }

    #[test]
    fn c218_any_change_changes_the_fingerprint() {
        let print = |server: &StdioServer, file: &str| {
            fingerprint(server, &launched(Scope::Project, file, server).unwrap())
        };
        let file = "/wrk/.mcp.json";
        let base = print(&server(), file);
        assert_eq!(base, print(&server(), file));
        assert_eq!(base.len(), "sha256:".len() + 64);
        let change = |change: &dyn Fn(&mut StdioServer)| {
            let mut server = server();
            change(&mut server);
            print(&server, file)
        };
        let others = [
            print(&server(), "/other/.mcp.json"),
            change(&|server| server.command.push('y')),
            change(&|server| server.args.push("z".to_owned())),
            change(&|server| server.args = vec!["--root${workspaceFolder}".to_owned()]),
            change(&|server| server.env.clear()),
            change(&|server| server.env[0].0.push('2')),
            change(&|server| server.env[0].1 = Some(Secret::new("other"))),
            change(&|server| server.env[1].1 = Some(Secret::new(""))),
            change(&|server| server.cwd = Some("sub".to_owned())),
            change(&|server| server.inherit_env = InheritEnv::All),
        ];
        let mut all = others.to_vec();
        all.push(base);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), others.len() + 1);
    }
}
