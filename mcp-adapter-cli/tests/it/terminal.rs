//! What only a terminal shows: questions, marks in place of control characters, progress.

use std::fs::File;
use std::io::{Read, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use mcp_testkit::process::{Marked, signal, wait_until};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use serde_json::json;

use crate::program::{Place, SOON, ended};

/// Our end of a terminal.
struct Terminal {
    master: File,
    shown: Arc<Mutex<String>>,
}

/// Which streams of a program are the terminal; the others are closed.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Streams {
    All,
    ErrorOutput,
    Output,
}

impl Terminal {
    fn run(mut command: Command, streams: Streams) -> (Child, Self) {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let slave = ioctl_tiocgptpeer(&master, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let slave = File::from(slave);
        let stream = |wanted: bool| match wanted {
            true => Stdio::from(slave.try_clone().unwrap()),
            false => Stdio::null(),
        };
        command
            .env("TERM", "xterm")
            .stdin(stream(streams == Streams::All))
            .stdout(stream(streams != Streams::ErrorOutput))
            .stderr(stream(streams != Streams::Output));
        let child = command.spawn().unwrap();
        let master = File::from(master);
        let shown = Arc::new(Mutex::new(String::new()));
        let (mut reading, kept) = (master.try_clone().unwrap(), Arc::clone(&shown));
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Linux ends the reading with an error when the last program is gone.
            while let Ok(count @ 1..) = reading.read(&mut bytes) {
                let text = String::from_utf8_lossy(&bytes[..count]).into_owned();
                kept.lock().unwrap().push_str(&text);
            }
        });
        (child, Self { master, shown })
    }

    fn shown(&self) -> String {
        self.shown.lock().unwrap().clone()
    }

    fn wait_for(&self, text: &str) {
        wait_until(text, SOON, || self.shown().contains(text));
    }

    fn answer(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).unwrap();
    }
}

/// A folder whose own file starts fake servers.
fn project(test: &str) -> Place {
    let place = Place::new(test);
    let config =
        json!({"mcpServers": {"x": place.entry(&[]), "y": place.entry(&["--tools", "1"])}});
    std::fs::write(place.path().join(".mcp.json"), config.to_string()).unwrap();
    place
}

/// Asks about `x` alone, answers, and returns the exit code and what was shown.
fn asked(place: &Place, answer: &str) -> (Option<i32>, String) {
    let (mut child, mut terminal) = Terminal::run(place.command(&["tools", "x"]), Streams::All);
    terminal.wait_for("[y/N]");
    terminal.answer(answer);
    let code = ended(&mut child);
    if code == Some(0) {
        terminal.wait_for("x/echo");
    }
    (code, terminal.shown())
}

#[test]
fn c218_the_question_defaults_to_no_and_is_asked_once() {
    let place = project("question");
    for answer in ["\n", "n\n", "perhaps\n", "\u{4}"] {
        let (code, shown) = asked(&place, answer);
        assert_eq!(code, Some(7), "{answer:?}: {shown}");
        assert!(!shown.contains("y comes from"), "{shown}");
    }
    let (code, shown) = asked(&place, "y\n");
    assert_eq!(code, Some(0), "{shown}");
    let parts = [
        "x comes from a project's file",
        "fake-server",
        ".mcp.json:1",
        Marked::NAME,
    ];
    for part in parts {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Its value stays where it is.
    assert!(!shown.contains(place.mark.value()), "{shown}");

    // From now on without a question, and kept from other eyes.
    assert_eq!(place.run(&["tools", "x"]).code, 0);
    assert_eq!(place.run(&["tools", "y"]).code, 7);
    assert_eq!(place.run(&["tools"]).code, 8);
    let kept = place.path().join(".local/state/mcp/approvals.json");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&kept).unwrap());
    assert_eq!(mode & 0o777, 0o600);

    // Another command is another question.
    let config = json!({"mcpServers": {"x": place.entry(&["--tools", "1"])}});
    std::fs::write(place.path().join(".mcp.json"), config.to_string()).unwrap();
    assert_eq!(place.run(&["tools", "x"]).code, 7);
}

#[test]
fn looking_starts_nothing_and_asks_nothing() {
    let place = project("looking");
    for args in [
        &["ls", "--no-connect"][..],
        &[],
        &["config", "list"],
        &["config", "explain", "x"],
    ] {
        let (mut child, terminal) = Terminal::run(place.command(args), Streams::All);
        assert_eq!(ended(&mut child), Some(0), "{args:?}");
        assert!(!terminal.shown().contains("[y/N]"), "{args:?}");
    }
    let (mut child, terminal) =
        Terminal::run(place.command(&["tools", "--no-input"]), Streams::All);
    assert_eq!(ended(&mut child), Some(7));
    terminal.wait_for("nobody has approved");
}

#[test]
fn ctrl_c_is_heard_while_a_question_stands() {
    let place = project("question-ctrl-c");
    let (mut child, terminal) = Terminal::run(place.command(&["tools"]), Streams::All);
    terminal.wait_for("[y/N]");
    signal(child.id(), "INT");
    assert_eq!(ended(&mut child), Some(130));
}

#[test]
fn c004_c223_nothing_that_acts_on_a_terminal_reaches_it() {
    let place = Place::with_servers("marks", &[("s", &[])]);
    let text = "text=a\u{1b}[2Jb\u{202e}c\u{1b}]0;title\u{7}d";
    let command = place.command(&["call", "s/echo", text]);
    let (mut child, terminal) = Terminal::run(command, Streams::Output);
    assert_eq!(ended(&mut child), Some(0));
    terminal.wait_for("a\u{241b}[2Jb\u{fffd}c\u{241b}]0;title\u{2407}d");
    assert!(
        !terminal.shown().contains('\u{1b}'),
        "{:?}",
        terminal.shown()
    );

    let command = place.command(&["call", "s/echo", text, "--ascii"]);
    let (mut child, terminal) = Terminal::run(command, Streams::Output);
    assert_eq!(ended(&mut child), Some(0));
    terminal.wait_for("a\\u{1b}[2Jb\\u{202e}c");

    let command = place.command(&["call", "s/echo", text]);
    let (mut child, terminal) = Terminal::run(command, Streams::All);
    assert_eq!(ended(&mut child), Some(0));
    terminal.wait_for("note: 4 control or invisible characters are shown as marks");
}

#[test]
fn c226_a_flood_is_cut_on_a_terminal() {
    let place = Place::with_servers("flood", &[("s", &[])]);
    let command = place.command(&["call", "s/big", "bytes=1000000"]);
    let (mut child, terminal) = Terminal::run(command, Streams::Output);
    assert_eq!(ended(&mut child), Some(0));
    terminal.wait_for("left out; use --json or a pipe for all of it");
    assert!(terminal.shown().len() < 300_000);
    assert_eq!(
        place.run(&["call", "s/big", "bytes=1000000"]).out.len(),
        1_000_001
    );
}

#[test]
fn progress_is_drawn_while_a_call_runs() {
    let place = Place::new("progress");
    let args = "--demo call clock/countdown from=12 step_ms=100";
    let args: Vec<_> = args.split(' ').collect();
    let (mut child, terminal) = Terminal::run(place.command(&args), Streams::ErrorOutput);
    assert_eq!(ended(&mut child), Some(0));
    terminal.wait_for("Ctrl-C cancels");
    let shown = terminal.shown();
    assert!(
        shown.contains("clock/countdown") && shown.contains("/12  \""),
        "{shown:?}"
    );

    // Not with -q.
    let args = "--demo -q call clock/countdown from=6 step_ms=100";
    let args: Vec<_> = args.split(' ').collect();
    let (mut child, terminal) = Terminal::run(place.command(&args), Streams::ErrorOutput);
    assert_eq!(ended(&mut child), Some(0));
    assert_eq!(terminal.shown(), "");
}

#[test]
fn colour_is_used_on_a_terminal_unless_told_otherwise() {
    let place = Place::new("colour");
    let args = ["--demo", "call", "notes/fail"];
    for (variable, value, coloured) in [("X", "", true), ("NO_COLOR", "1", false)] {
        let mut command = place.command(&args);
        command.env(variable, value);
        let (mut child, terminal) = Terminal::run(command, Streams::ErrorOutput);
        assert_eq!(ended(&mut child), Some(5));
        terminal.wait_for("what it accepts");
        assert_eq!(terminal.shown().contains("\u{1b}["), coloured, "{variable}");
    }
    let always = place.run(&["--demo", "call", "notes/fail", "--color", "always"]);
    assert!(always.err.contains("\u{1b}["));
    assert!(!place.run(&args).err.contains("\u{1b}["));
}
