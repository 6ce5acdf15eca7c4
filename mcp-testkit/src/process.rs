//! Real processes in tests: the fake server's path, waiting for events, and a guard that finds what was left behind.
//!
//! Linux only, through `/proc`.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The built `fake-server`. It is built first if need be, once per test process.
///
/// # Panics
/// When it can't be built, with what to run by hand.
pub fn fake_server() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| built("mcp-testkit", "--bin", "fake-server"))
        .clone()
}

/// A program of the workspace, built first if need be: `built("mcp-client", "--example", "call")`.
///
/// # Panics
/// When it can't be built, with what to run by hand.
pub fn built(package: &str, kind: &str, name: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo)
        .args(["build", "--quiet", "-p", package, kind, name])
        .status();
    let by_hand = format!("build it with `cargo build -p {package} {kind} {name}`");
    assert!(
        done.is_ok_and(|status| status.success()),
        "{name} can't be built; {by_hand}"
    );
    // target/debug/deps/test-… → target/debug/NAME, or target/debug/examples/NAME
    let own = std::env::current_exe().expect("a test has a path");
    let folders = own
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|folder| [folder.join(name), folder.join("examples").join(name)]);
    let mut found = folders.filter(|path| path.is_file());
    found
        .next()
        .unwrap_or_else(|| panic!("{name} is not near {}; {by_hand}", own.display()))
}

/// Sends a signal to a process of one's own: `signal(pid, "KILL")`.
///
/// # Panics
/// When there is no `kill` command.
pub fn signal(pid: u32, name: &str) {
    let kill = Command::new("kill")
        .args(["-s", name, "--"])
        .arg(pid.to_string())
        .status();
    assert!(kill.is_ok(), "there is no kill command");
}

/// Looks again and again until `done` says so.
///
/// # Panics
/// When that takes longer than `within`; the message says what was waited for.
pub fn wait_until(what: &str, within: Duration, mut done: impl FnMut() -> bool) {
    let by = Instant::now() + within;
    while !done() {
        assert!(Instant::now() < by, "{what}: not within {within:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process runs. A zombie does not.
pub fn is_alive(pid: u32) -> bool {
    state_of(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn state_of(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// Waits until a process is gone.
///
/// # Panics
/// When it still runs after `within`.
pub fn wait_gone(pid: u32, within: Duration) {
    wait_until(&format!("process {pid} is gone"), within, || !is_alive(pid));
}

/// Marks what a test starts, and finds at its end what is left of it.
///
/// Put [`Marked::NAME`] = [`Marked::value`] into the environment of what is started. Dropping it fails the test if a
/// marked process is still there a second later.
#[derive(Debug)]
pub struct Marked {
    value: String,
}

impl Marked {
    /// The variable's name.
    pub const NAME: &'static str = "MCP_TEST_MARK";

    /// A mark of its own for this test.
    pub fn new(test: &str) -> Self {
        Self {
            value: format!("{test}-{}", std::process::id()),
        }
    }

    /// The variable's value.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Live processes with this mark, with their command lines.
    pub fn left(&self) -> Vec<(u32, String)> {
        let wanted = format!("{}={}", Self::NAME, self.value);
        let carries = |pid: u32| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            environment
                .split(|byte| *byte == 0)
                .any(|entry| entry == wanted.as_bytes())
                .then_some(())?;
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            is_alive(pid).then(|| (pid, String::from_utf8_lossy(&command).replace('\0', " ")))
        };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries
            .filter_map(|entry| carries(entry.file_name().to_str()?.parse().ok()?))
            .collect()
    }

    /// Waits until nothing marked is left.
    ///
    /// # Panics
    /// When something is left after `within`; the message names it.
    pub fn wait_gone(&self, within: Duration) {
        let by = Instant::now() + within;
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(
                Instant::now() < by,
                "left behind after {within:?}: {left:?}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        // A test that failed already has said why.
        if !std::thread::panicking() {
            self.wait_gone(Duration::from_secs(1));
        }
    }
}
