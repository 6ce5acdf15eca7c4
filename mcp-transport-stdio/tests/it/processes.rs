//! Starting and ending real processes.

use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mcp_jsonrpc::frame::NdjsonFrame;
use mcp_testkit::process::{Marked, is_alive, signal, wait_gone, wait_until};
use mcp_transport_stdio::{
    ChildTransport, Exit, ReadEvent, ServerCommand, SpawnError, StdioOptions, StopPhase,
    StopPolicy, guardian, spawn,
};

const SECOND: Duration = Duration::from_secs(1);

fn quick() -> StdioOptions {
    let mut options = StdioOptions::default();
    options.stop.close_grace = Duration::from_millis(200);
    options.stop.term_grace = Duration::from_millis(200);
    options
}

fn shell(mark: &Marked, script: &str) -> ServerCommand {
    ServerCommand::new("/bin/sh")
        .args(["-c", script])
        .env(Marked::NAME, mark.value())
}

/// Starts a shell script and reads its first line, so that it has got that far.
async fn started(mark: &Marked, script: &str, options: &StdioOptions) -> (ChildTransport, String) {
    let mut transport = spawn(&shell(mark, script), options).unwrap();
    let ReadEvent::Frame(NdjsonFrame::Line(line)) = transport.reader.recv().await else {
        panic!("no first line")
    };
    (transport, String::from_utf8(line.to_vec()).unwrap())
}

#[tokio::test]
async fn each_rung_of_the_ladder() {
    let mark = Marked::new("ladder");
    let cases = [
        (
            "echo up; cat >/dev/null",
            StopPhase::InputClosed,
            Exit::Status(0),
        ),
        (
            "echo up; while :; do sleep 1; done",
            StopPhase::Terminated,
            Exit::Signal(15),
        ),
        (
            "trap '' TERM; echo up; while :; do sleep 1; done",
            StopPhase::Killed,
            Exit::Signal(9),
        ),
        (
            "trap 'exit 4' TERM; echo up; while :; do sleep 0.05; done",
            StopPhase::Terminated,
            Exit::Status(4),
        ),
    ];
    for (script, phase, exit) in cases {
        let (transport, _) = started(&mark, script, &quick()).await;
        let begun = Instant::now();
        let (one, two, three) = tokio::join!(
            transport.process.stop(),
            transport.process.stop(),
            transport.process.gone()
        );
        assert!(one == two && two == three, "{script}");
        assert_eq!((one.phase, one.exit), (phase, Some(exit)), "{script}");
        assert!(
            one.leftovers.is_empty() && begun.elapsed() < 2 * SECOND,
            "{script}: {one:?}"
        );
        // Again: the same report.
        assert_eq!(transport.process.stop().await, one);
    }
}

#[tokio::test]
async fn kill_ends_it_now() {
    let mark = Marked::new("kill");
    let (transport, _) = started(
        &mark,
        "trap '' TERM; echo up; sleep 600 & wait",
        &StdioOptions::default(),
    )
    .await;
    let begun = Instant::now();
    transport.process.kill();
    let report = transport.process.gone().await;
    assert_eq!(
        (report.phase, report.exit),
        (StopPhase::Killed, Some(Exit::Signal(9)))
    );
    assert!(begun.elapsed() < SECOND);
}

#[tokio::test]
async fn c026_descendants_die_with_a_server_that_exits_or_are_released_by_choice() {
    let mark = Marked::new("release");
    let script = "sleep 600 >/dev/null 2>&1 </dev/null & echo $!; exit 0";
    let (transport, line) = started(&mark, script, &StdioOptions::default()).await;
    let pid: u32 = line.parse().unwrap();
    assert_eq!(transport.process.gone().await.phase, StopPhase::Running);
    wait_gone(pid, SECOND);

    let mut options = StdioOptions::default();
    options.stop.release_on_clean_exit = true;
    let (transport, line) = started(&mark, script, &options).await;
    let pid: u32 = line.parse().unwrap();
    transport.process.gone().await;
    assert!(is_alive(pid), "released after a clean exit");
    signal(pid, "KILL");
    wait_gone(pid, SECOND);

    // A crash releases nothing.
    let (transport, line) = started(&mark, &script.replace("exit 0", "exit 1"), &options).await;
    transport.process.gone().await;
    wait_gone(line.parse().unwrap(), SECOND);
}

#[tokio::test]
async fn a_detached_descendant_that_holds_the_output_does_not_hold_up_the_end() {
    let mark = Marked::new("detached");
    // It leaves the group and keeps the pipe: nothing that belongs to the server any more.
    let (mut transport, line) = started(
        &mark,
        "setsid sleep 600 & echo $!; sleep 0.2; exit 3",
        &quick(),
    )
    .await;
    let begun = Instant::now();
    assert!(matches!(transport.reader.recv().await, ReadEvent::End(_)));
    assert!(begun.elapsed() < 2 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(transport.process.exited().await, Exit::Status(3));
    // A shell may have forked once more for it.
    transport.process.gone().await;
    for (pid, _) in mark.left() {
        signal(pid, "KILL");
    }
    let _ = line;
}

#[tokio::test]
async fn c033_a_blocked_write_ends_when_the_server_is_stopped() {
    let mark = Marked::new("blocked-write");
    let (transport, _) = started(&mark, "echo up; sleep 600", &quick()).await;
    let ChildTransport {
        mut writer,
        process,
        ..
    } = transport;
    writer.push(Bytes::from(vec![b'x'; 1 << 20]));
    let writing = tokio::spawn(async move { writer.flush().await });
    process.stop().await;
    let written = tokio::time::timeout(SECOND, writing)
        .await
        .unwrap()
        .unwrap();
    assert!(written.is_err());
}

#[tokio::test]
async fn starting_fails_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("no-shebang");
    std::fs::write(&script, "\x7fELF nonsense").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o644)).unwrap();
    let cases = [
        (
            ServerCommand::new("/bin/sh").cwd("/no/such/folder"),
            "the working folder /no/such/folder does not exist",
        ),
        (
            ServerCommand::new("/bin/sh").cwd("/bin/sh"),
            "the working folder /bin/sh is no folder",
        ),
        (ServerCommand::new(&plain), "/plain is not executable"),
        (ServerCommand::new("/etc"), "/etc is a folder"),
        (ServerCommand::new(""), "the command is empty"),
        (ServerCommand::new(&script), "can't be started"),
        (
            ServerCommand::new("/bin/sh").arg("a\0b"),
            "can't be started",
        ),
    ];
    for (command, text) in cases {
        let error: SpawnError = spawn(&command, &StdioOptions::default()).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn exits_that_come_at_once_are_not_missed() {
    let mark = Marked::new("at-once");
    for _ in 0..100 {
        let transport = spawn(&shell(&mark, "exit 7"), &StdioOptions::default()).unwrap();
        let exit = tokio::time::timeout(5 * SECOND, transport.process.exited())
            .await
            .unwrap();
        assert_eq!(exit, Exit::Status(7));
        transport.process.gone().await;
    }
}

#[tokio::test]
async fn a_killed_guardian_is_replaced() {
    let mark = Marked::new("guardian");
    let (first, _) = started(&mark, "echo up; cat >/dev/null", &quick()).await;
    let before = guardian::pid().unwrap();
    assert!(is_alive(before));
    signal(before, "KILL");
    wait_until("the guardian is gone", SECOND, || !is_alive(before));
    let (second, _) = started(&mark, "echo up; cat >/dev/null", &quick()).await;
    let after = guardian::pid().unwrap();
    assert!(after != before && is_alive(after));
    tokio::join!(first.process.stop(), second.process.stop());
    assert!(is_alive(after), "it stands by for the next server");
}

#[tokio::test]
async fn policies_without_patience_still_end_in_order() {
    let mark = Marked::new("no-patience");
    let mut options = StdioOptions::default();
    options.stop = StopPolicy::default();
    options.stop.close_grace = Duration::ZERO;
    options.stop.term_grace = Duration::ZERO;
    let (transport, _) = started(
        &mark,
        "trap '' TERM; echo up; while :; do sleep 1; done",
        &options,
    )
    .await;
    let report = transport.process.stop().await;
    assert_eq!(
        (report.phase, report.exit),
        (StopPhase::Killed, Some(Exit::Signal(9)))
    );
}
