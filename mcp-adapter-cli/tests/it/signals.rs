//! Ctrl-C, TERM and a closed pipe.

use std::io::{BufRead as _, BufReader, Read as _};
use std::time::{Duration, Instant};

use mcp_testkit::process::{signal, wait_until};

use crate::program::{Place, SOON, ended};

/// Starts a call that goes on, and waits until the server has it.
fn calling(place: &Place, tool: &[&str]) -> std::process::Child {
    let log = place.path().join("log");
    let child = place.command(&[&["call"], tool].concat()).spawn().unwrap();
    wait_until("the call is under way", SOON, || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("tools/call"))
    });
    child
}

fn place(test: &str, switches: &[&str]) -> Place {
    let place = Place::new(test);
    let log = place.path().join("log");
    let switches = [switches, &["--log", log.to_str().unwrap()]].concat();
    let config = serde_json::json!({"mcpServers": {"s": place.entry(&switches)}});
    place.write(&config.to_string());
    place
}

#[test]
fn ctrl_c_cancels_the_call_and_ends_in_order() {
    let place = place("ctrl-c", &[]);
    let mut child = calling(&place, &["s/slow", "ms=60000"]);
    let start = Instant::now();
    signal(child.id(), "INT");
    assert_eq!(ended(&mut child), Some(130));
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    let log = std::fs::read_to_string(place.path().join("log")).unwrap();
    assert!(log.contains("notifications/cancelled"), "{log}");
}

#[test]
fn a_countdown_is_cancelled_and_the_server_hears_of_it() {
    let place = Place::new("countdown");
    let args = "--demo -v call clock/countdown from=600 step_ms=100";
    let args: Vec<_> = args.split(' ').collect();
    let mut child = place.command(&args).spawn().unwrap();
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.contains("/600") {
        assert!(err.read_line(&mut said).unwrap() > 0, "{said}");
    }
    signal(child.id(), "INT");
    err.read_to_string(&mut said).unwrap();
    assert_eq!(ended(&mut child), Some(130), "{said}");
    for part in ["[clock] countdown cancelled", "cancelled: told the servers"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn c040_ctrl_c_during_a_start_leaves_nothing_behind() {
    let place = place("start", &["--probe", "silent", "--init", "silent"]);
    let log = place.path().join("log");
    let mut child = place.command(&["tools"]).spawn().unwrap();
    wait_until("the server is probed", SOON, || {
        std::fs::read_to_string(&log).is_ok_and(|log| log.contains("server/discover"))
    });
    signal(child.id(), "INT");
    assert_eq!(ended(&mut child), Some(130));
    place.mark.wait_gone(Duration::from_secs(2));
}

#[test]
fn c237_term_ends_in_order_and_a_second_signal_at_once() {
    let place = place("term", &[]);
    let mut child = calling(&place, &["s/no_answer"]);
    signal(child.id(), "TERM");
    assert_eq!(ended(&mut child), Some(143));
    place.mark.wait_gone(Duration::from_secs(1));

    // A server that obeys nothing: the first signal starts the ladder, the second does not wait for it.
    let place = self::place("twice", &["--ignore-eof", "--ignore-term", "--single"]);
    let mut child = calling(&place, &["s/slow", "ms=60000"]);
    let start = Instant::now();
    signal(child.id(), "INT");
    // The first signal was taken when the server hears of the cancellation, or of the question that follows it.
    std::thread::yield_now();
    wait_until("the second signal ends it", Duration::from_secs(10), || {
        signal(child.id(), "INT");
        child.try_wait().unwrap().is_some()
    });
    assert_eq!(ended(&mut child), Some(130));
    assert!(
        start.elapsed() < Duration::from_secs(3),
        "{:?}",
        start.elapsed()
    );
    place.mark.wait_gone(Duration::from_secs(2));
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let place = Place::with_servers("closed-pipe", &[("s", &["--tools", "3000"])]);
    let mut child = place.command(&["tools"]).spawn().unwrap();
    let mut byte = [0];
    child.stdout.take().unwrap().read_exact(&mut byte).unwrap();
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!err.contains("panicked") && !err.contains("error"), "{err}");
}
