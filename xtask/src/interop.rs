//! Our client against servers that others wrote.
//!
//! Installs pinned versions by lock file below the target folder, writes a plan, and has `mcp-interop` carry it out. It
//! knows nothing of the protocol.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::conformance;
use crate::locked::{check_npm_lock, fresh_folder, install, npm_ci, pinned_by_npm};
use crate::step::{cargo, execute, output, root, succeeds, target};

/// What the locks pin, relative to the workspace.
const NPM_LOCK: &str = "xtask/interop/npm/package-lock.json";
const PYTHON_LOCK: &str = "xtask/interop/python/requirements.txt";

const NPM_FILES: &[&str] = &["package.json", "package-lock.json", "server.mjs"];

pub(crate) fn run() -> Result<(), String> {
    for (program, probe, how) in TOOLS {
        if !succeeds(program, probe) {
            return Err(format!(
                "{program} is missing or too old; the interop tests need {how}"
            ));
        }
    }
    let folder = target().join("interop");
    let npm = install(
        "xtask/interop/npm",
        folder.join("npm"),
        "the npm servers",
        NPM_FILES,
        |source, place| npm_ci(source, place, NPM_FILES),
    )?;
    let python = install(
        "xtask/interop/python",
        folder.join("python"),
        "the python servers",
        &["requirements.txt", "server.py"],
        install_python,
    )?;
    let nginx = find_nginx()?;
    let work = fresh_work_folder(&folder)?;
    let plan = folder.join("plan.json");
    let report = folder.join("report.json");
    let mut servers = servers(&npm, &python, &work);
    for server in servers.as_array_mut().into_iter().flatten() {
        server["package_version"] = pinned(server["package"].as_str().unwrap_or_default())?.into();
    }
    let proxied = proxied_server(&npm, &nginx);
    let text = json!({"servers": servers, "proxied": proxied, "work": work, "report": report});
    std::fs::write(&plan, text.to_string())
        .map_err(|error| format!("{}: {error}", plan.display()))?;
    execute(
        cargo()
            .args(["run", "--quiet", "-p", "mcp-interop", "--"])
            .arg(&plan),
    )
}

/// Programs that the servers need, how to see that one is good enough, and how to get it.
const TOOLS: &[(&str, &[&str], &str)] = &[
    (
        "node",
        &[
            "-e",
            "process.exitCode = parseInt(process.versions.node) < 20 ? 1 : 0",
        ],
        "Node.js 20 or newer (Debian: `apt-get install nodejs npm`)",
    ),
    ("npm", &["--version"], "npm (Debian: `apt-get install npm`)"),
    (
        // Older ones need packages that the lock does not have.
        "python3",
        &[
            "-c",
            "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))",
        ],
        "Python 3.11 or newer with venv (Debian: `apt-get install python3 python3-venv`)",
    ),
    ("git", &["--version"], "git (Debian: `apt-get install git`)"),
];

/// The reverse proxy; system folders are often not searched for a user's commands.
fn find_nginx() -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/usr/local/sbin".into()])
        .map(|folder| folder.join("nginx"))
        .find(|program| program.is_file())
        .ok_or_else(|| {
            "nginx is missing; the interop tests need it as a reverse proxy (Debian: `apt-get install nginx-light`)"
                .to_owned()
        })
}

/// Faults of the committed locks: everything is pinned with a hash, and no registry is named.
pub(crate) fn check_locks() -> Vec<String> {
    let read =
        |name: &str| std::fs::read_to_string(root().join(name)).map_err(|e| format!("{name}: {e}"));
    let check = |name: &str, check: fn(&str) -> Vec<String>| match read(name) {
        Ok(text) => check(&text)
            .into_iter()
            .map(|fault| format!("{name}: {fault}"))
            .collect(),
        Err(fault) => vec![fault],
    };
    let mut faults = check(NPM_LOCK, check_npm_lock);
    faults.extend(check(conformance::LOCK, check_npm_lock));
    faults.extend(check(PYTHON_LOCK, check_python_lock));
    faults
}

fn check_python_lock(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let joined = text.replace("\\\n", " ");
    let lines: Vec<_> = joined
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    if lines.is_empty() {
        faults.push("pins nothing".to_owned());
    }
    for line in lines {
        if !line.contains("==") || !line.contains("--hash=sha256:") || line.contains("://") {
            faults.push(format!("not a version with hashes: {line}"));
        }
    }
    faults
}

/// The version that a lock pins for a package.
fn pinned(package: &str) -> Result<String, String> {
    let read =
        |name: &str| std::fs::read_to_string(root().join(name)).map_err(|e| format!("{name}: {e}"));
    let version = if package.starts_with('@') {
        Some(pinned_by_npm(NPM_LOCK, package)?)
    } else {
        read(PYTHON_LOCK)?
            .lines()
            .find_map(|line| line.strip_prefix(package)?.strip_prefix("=="))
            .and_then(|rest| rest.split([' ', ';']).next())
            .map(str::to_owned)
    };
    version.ok_or_else(|| format!("no lock pins {package}"))
}

fn install_python(source: &Path, place: &Path) -> Result<(), String> {
    let venv = place.join("venv");
    execute(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let mut pip = Command::new(venv.join("bin/pip"));
    pip.args(["install", "--quiet", "--require-hashes", "--requirement"])
        .arg(source.join("requirements.txt"));
    execute(&mut pip)?;
    std::fs::copy(source.join("server.py"), place.join("server.py"))
        .map(drop)
        .map_err(|error| format!("server.py: {error}"))
}

/// An empty folder with something for the servers to work on.
fn fresh_work_folder(folder: &Path) -> Result<PathBuf, String> {
    let work = folder.join("work");
    let failed = |error: std::io::Error| format!("{}: {error}", work.display());
    fresh_folder(&work)?;
    std::fs::create_dir_all(work.join("files")).map_err(failed)?;
    std::fs::write(work.join("files/größe.txt"), "hello, interop\n").map_err(failed)?;
    let repository = work.join("repository");
    std::fs::create_dir_all(&repository).map_err(failed)?;
    std::fs::write(repository.join("a.txt"), "tracked\n").map_err(failed)?;
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(&repository)
            .args([
                "-c",
                "user.name=interop",
                "-c",
                "user.email=interop@localhost",
            ])
            .args(args);
        output(&mut git).map(drop)
    };
    git(&["init", "--quiet", "--initial-branch=main"])?;
    git(&["add", "a.txt"])?;
    git(&["commit", "--quiet", "--message=the first commit"])?;
    Ok(work)
}

/// The plan: each server, what it must agree to, and calls with what their results must contain.
fn servers(npm: &Path, python: &Path, work: &Path) -> Value {
    let npm_bin = |name: &str| npm.join("node_modules/.bin").join(name);
    let python_bin = |name: &str| python.join("venv/bin").join(name);
    let (files, repository) = (work.join("files"), work.join("repository"));
    json!([
        {
            "name": "everything", "package": "@modelcontextprotocol/server-everything",
            "command": npm_bin("mcp-server-everything"), "args": ["stdio"],
            "expect_version": "2025-11-25", "least_tools": 12,
            "calls": [
                {"tool": "echo", "arguments": {"message": "grüße"}, "expect": ["grüße"]},
                {"tool": "get-sum", "arguments": {"a": 2, "b": 40}, "expect": ["42"]},
                {"tool": "get-structured-content", "arguments": {"location": "Chicago"}, "expect": ["temperature"]},
                {"tool": "get-tiny-image", "arguments": {}, "expect_blocks": ["text", "image", "text"]},
                {"tool": "get-resource-links", "arguments": {"count": 3},
                 "expect_blocks": ["text", "resource_link", "resource_link", "resource_link"]},
                {"tool": "trigger-long-running-operation", "arguments": {"duration": 1, "steps": 4}, "least_progress": 3,
                 "expect": ["completed"]},
                {"tool": "get-sum", "arguments": {"a": "two"}, "expect_error": true}
            ]
        },
        {
            "name": "filesystem", "package": "@modelcontextprotocol/server-filesystem",
            "command": npm_bin("mcp-server-filesystem"), "args": [files],
            "expect_version": "2025-11-25", "least_tools": 10,
            "calls": [
                {"tool": "list_directory", "arguments": {"path": files}, "expect": ["größe.txt"]},
                {"tool": "read_text_file", "arguments": {"path": files.join("größe.txt")}, "expect": ["hello, interop"]},
                {"tool": "read_text_file", "arguments": {"path": "/etc/hostname"}, "expect_error": true, "expect": ["denied"]}
            ]
        },
        {
            "name": "memory", "package": "@modelcontextprotocol/server-memory",
            "command": npm_bin("mcp-server-memory"), "cwd": work,
            "expect_version": "2025-11-25", "least_tools": 9,
            "calls": [
                {"tool": "create_entities", "expect": ["tide table"],
                 "arguments": {"entities": [{"name": "tide table", "entityType": "thing", "observations": ["wet"]}]}},
                {"tool": "search_nodes", "arguments": {"query": "tide"}, "expect": ["wet"]},
                {"tool": "delete_entities", "arguments": {"entityNames": ["tide table"]}, "expect": ["deleted"]}
            ]
        },
        {
            "name": "time", "package": "mcp-server-time", "command": python_bin("mcp-server-time"),
            "args": ["--local-timezone", "UTC"], "expect_version": "2026-07-28", "least_tools": 2,
            "calls": [
                {"tool": "convert_time", "expect": ["21:00"],
                 "arguments": {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}},
                {"tool": "get_current_time", "arguments": {"timezone": "Nowhere/Land"}, "expect_error": true}
            ]
        },
        {
            "name": "git", "package": "mcp-server-git", "command": python_bin("mcp-server-git"),
            "args": ["--repository", repository], "expect_version": "2026-07-28", "least_tools": 12,
            "calls": [
                {"tool": "git_status", "arguments": {"repo_path": repository}, "expect": ["main"]},
                {"tool": "git_log", "arguments": {"repo_path": repository}, "expect": ["the first commit"]}
            ]
        },
        {
            "name": "everything", "package": "@modelcontextprotocol/server-everything",
            "command": npm_bin("mcp-server-everything"), "args": ["streamableHttp"],
            "http": {"path": "/mcp", "transport": "Streamable HTTP", "has_session": true},
            "expect_version": "2025-11-25", "least_tools": 12,
            "calls": [
                {"tool": "echo", "arguments": {"message": "grüße"}, "expect": ["grüße"]},
                {"tool": "get-tiny-image", "arguments": {}, "expect_blocks": ["text", "image", "text"]},
                {"tool": "trigger-long-running-operation", "arguments": {"duration": 1, "steps": 4}, "least_progress": 3,
                 "expect": ["completed"]},
                {"tool": "get-sum", "arguments": {"a": "two"}, "expect_error": true}
            ],
            "requests": [
                {"method": "resources/list", "params": {}, "expect": ["demo://resource"]},
                {"method": "resources/read", "params": {"uri": "demo://resource/dynamic/text/1"}, "expect": ["Resource 1"]},
                {"method": "resources/subscribe", "params": {"uri": "demo://resource/dynamic/text/1"}, "expect": []},
                {"method": "prompts/get", "params": {"name": "simple-prompt"}, "expect": ["simple prompt"]}
            ]
        },
        {
            "name": "everything", "package": "@modelcontextprotocol/server-everything",
            "command": npm_bin("mcp-server-everything"), "args": ["sse"],
            "http": {"path": "/sse", "transport": "HTTP+SSE"},
            "expect_version": "2025-11-25", "least_tools": 12,
            "calls": [
                {"tool": "echo", "arguments": {"message": "grüße"}, "expect": ["grüße"]},
                {"tool": "trigger-long-running-operation", "arguments": {"duration": 1, "steps": 4}, "least_progress": 3,
                 "expect": ["completed"]}
            ],
            "requests": [
                {"method": "resources/read", "params": {"uri": "demo://resource/dynamic/text/1"}, "expect": ["Resource 1"]},
                {"method": "prompts/get", "params": {"name": "simple-prompt"}, "expect": ["simple prompt"]}
            ]
        },
        own_server("fastmcp", "fastmcp", &[python_bin("python"), python.join("server.py")], None),
        own_server("fastmcp", "fastmcp", &[python_bin("python"), python.join("server.py")], Some("legacy")),
        own_server("TypeScript v2", "@modelcontextprotocol/server", &[PathBuf::from("node"), npm.join("server.mjs")], None)
    ])
}

/// A small server of ours on a package of others: what it has is in `interop/npm/server.mjs` and `interop/python/server.py`.
fn own_server(name: &str, package: &str, command: &[PathBuf], era: Option<&str>) -> Value {
    let legacy = era == Some("legacy");
    let mut calls = vec![
        json!({"tool": "add", "arguments": {"a": 2, "b": 40}, "expect": ["42"]}),
        json!({"tool": "count", "arguments": {"to": 4}, "least_progress": 4, "expect": ["counted to 4"]}),
        json!({"tool": "add", "arguments": {"a": "two"}, "expect_error": true}),
    ];
    if legacy {
        // The server asks, and gets an answer while its own answer is under way.
        calls
            .push(json!({"tool": "ping_back", "arguments": {}, "expect": ["the client answered"]}));
    }
    json!({
        "name": name, "package": package, "command": command[0], "args": command[1..],
        "http": {"path": "/mcp", "transport": "Streamable HTTP", "has_session": legacy, "era": era},
        "expect_version": if legacy { "2025-11-25" } else { "2026-07-28" }, "least_tools": 2,
        "calls": calls,
        "requests": [
            {"method": "resources/read", "params": {"uri": "note://tide"}, "expect": ["high at noon"]},
            {"method": "prompts/get", "params": {"name": "greet", "arguments": {"name": "Ada"}}, "expect": ["Say hello to Ada."]}
        ]
    })
}

/// The server that is put behind a reverse proxy.
fn proxied_server(npm: &Path, nginx: &Path) -> Value {
    json!({
        "nginx": nginx,
        "command": npm.join("node_modules/.bin/mcp-server-everything"), "args": ["streamableHttp"], "path": "/mcp",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_that_pin_too_little_are_found() {
        let cases = [
            (
                "# made by a tool\na==1 \\\n    --hash=sha256:00\n    # via b\n",
                0,
            ),
            ("a==1\n", 1),
            ("a>=1 --hash=sha256:00\n", 1),
            ("--index-url https://somewhere/\na==1 --hash=sha256:00\n", 1),
            ("", 1),
        ];
        for (lock, count) in cases {
            let faults = check_python_lock(lock);
            assert_eq!(faults.len(), count, "{lock}: {faults:?}");
        }
    }

    #[test]
    fn every_server_of_the_plan_is_pinned() {
        let servers = servers(Path::new("npm"), Path::new("python"), Path::new("work"));
        let servers = servers.as_array().unwrap();
        assert_eq!(servers.len(), 10);
        for server in servers {
            let version = pinned(server["package"].as_str().unwrap()).unwrap();
            assert!(
                version.starts_with(|c: char| c.is_ascii_digit()),
                "{server}: {version}"
            );
        }
        assert!(pinned("mcp-server").is_err());
        assert!(pinned("@modelcontextprotocol/nothing").is_err());
    }
}
