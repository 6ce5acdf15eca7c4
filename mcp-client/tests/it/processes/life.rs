//! How servers start, what they get, how they end, and what is left of them.

use std::time::{Duration, Instant};

use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::mcp_proto::lifecycle::EraPolicy;
use mcp_client::mcp_proto::version::Era;
use mcp_client::stdio::{
    EnvPolicy, ServerCommand, StdioConnector, StopPolicy, connect, connect_with,
};
use mcp_client::{CallOptions, ErrorKind, Sent, Stage};
use mcp_testkit::process::{Marked, built, fake_server, signal, wait_gone, wait_until};
use serde_json::json;

use super::{MIB, SECOND, chain, echo, fails_to_start, options, server, start};

#[tokio::test]
async fn c018_a_missing_program_is_explained() {
    let command = ServerCommand::new("no-such-program-anywhere").env("PATH", "/nowhere:/usr/bin");
    let error = connect(command, options()).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.stage()),
        (ErrorKind::Start, Stage::Start)
    );
    assert_eq!(
        chain(&error),
        "fake: the server could not be started: command \"no-such-program-anywhere\" not found; searched PATH: /nowhere:/usr/bin"
    );
}

#[tokio::test]
async fn c020_c021_servers_get_a_small_environment() {
    let mark = Marked::new("environment");
    let value = async |command: ServerCommand, name: &str| {
        let client = connect(command, options()).await.unwrap();
        let text = client
            .call_tool("env", &json!({"name": name}))
            .await
            .unwrap()
            .text();
        client.close().await;
        text
    };
    // Cargo sets this one for tests; it is on no list.
    let secret = "CARGO_MANIFEST_DIR";
    assert_eq!(value(server(&mark, &[]), secret).await, "(not set)");
    assert_ne!(value(server(&mark, &[]), "PATH").await, "(not set)");
    assert_ne!(
        value(server(&mark, &[]).env_policy(EnvPolicy::All), secret).await,
        "(not set)"
    );
    let named = EnvPolicy::Names(vec![secret.to_owned()]);
    assert_ne!(
        value(server(&mark, &[]).env_policy(named), secret).await,
        "(not set)"
    );
    assert_eq!(
        value(server(&mark, &[]).env("TOKEN", "t"), "TOKEN").await,
        "t"
    );
}

#[tokio::test]
async fn c022_wrappers_and_grandchildren_die_with_the_server() {
    let mark = Marked::new("wrapper");
    let inner = fake_server();
    let script = format!("sleep 600 & '{}' --grandchild", inner.display());
    let command = ServerCommand::new("/bin/sh")
        .args(["-c", &script])
        .env(Marked::NAME, mark.value());
    let client = connect(command, options()).await.unwrap();
    assert_eq!(echo(&client, "x").await, "x");
    assert!(
        mark.left().len() >= 4,
        "sh, sleep, the server and its grandchild: {:?}",
        mark.left()
    );
    let report = client.close().await;
    assert!(!report.leftovers, "{report:?}");
    mark.wait_gone(SECOND);
}

// The test waits on its own thread, so the closing in the background needs another one.
#[tokio::test(flavor = "multi_thread")]
async fn c024_fifty_replaced_clients_leave_nothing() {
    let mark = Marked::new("replaced");
    let mut client = start(&mark, &[]).await;
    for _ in 0..50 {
        let next = start(&mark, &[]).await;
        assert_eq!(echo(&next, "x").await, "x");
        drop(std::mem::replace(&mut client, next));
    }
    wait_until("one server is left", 5 * SECOND, || mark.left().len() == 1);
    client.close().await;
    // Not even zombies: all were reaped.
    let own = std::process::id().to_string();
    let zombies = || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let stats =
            entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("stat")).ok());
        stats
            .filter(|stat| {
                let fields: Vec<_> = stat
                    .rsplit_once(')')
                    .map_or("", |(_, rest)| rest)
                    .split_whitespace()
                    .collect();
                stat.contains("(fake-server)")
                    && fields.first() == Some(&"Z")
                    && fields.get(1) == Some(&own.as_str())
            })
            .count()
    };
    wait_until("no zombies are left", 5 * SECOND, || zombies() == 0);
}

#[tokio::test]
async fn c025_c027_a_server_that_ignores_everything_is_killed_in_bounded_time() {
    let mark = Marked::new("stubborn");
    let mut policy = StopPolicy::default();
    policy.close_grace = Duration::from_millis(200);
    policy.term_grace = Duration::from_millis(200);
    let connector =
        |switches: &[&str]| StdioConnector::new(server(&mark, switches)).with_stop_policy(policy);
    let close = async |switches: &[&str]| {
        let client = connect_with(connector(switches), options()).await.unwrap();
        let start = Instant::now();
        let (one, two) = tokio::join!(client.close(), client.close());
        assert_eq!(one, two);
        (one, start.elapsed())
    };
    let (report, took) = close(&[]).await;
    assert_eq!(
        (report.summary.as_str(), report.forced),
        ("exited with status 0 after its input was closed", false)
    );
    assert!(took < SECOND, "{took:?}");
    let (report, _) = close(&["--ignore-eof"]).await;
    assert_eq!(
        report.summary,
        "was killed by signal 15 (SIGTERM) after TERM"
    );
    let (report, took) = close(&["--ignore-eof", "--ignore-term", "--grandchild"]).await;
    assert_eq!(
        report.summary,
        "was killed by signal 9 (SIGKILL) after KILL"
    );
    assert!(
        report.forced && !report.leftovers && took < SECOND,
        "{report:?} {took:?}"
    );
}

#[tokio::test]
async fn c031_c032_c034_error_output_never_blocks_and_is_no_failure() {
    let mark = Marked::new("stderr");
    for switches in [["--stderr", "1048576"], ["--stderr-on-probe", "204800"]] {
        let client = start(&mark, &switches).await;
        assert_eq!(echo(&client, "x").await, "x");
        client.close().await;
    }
    let lines = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let connector = StdioConnector::new(server(
        &mark,
        &["--say", "INFO ready", "--start-delay", "50"],
    ));
    let kept = std::sync::Arc::clone(&lines);
    let connector = connector.with_stderr(move |line| kept.lock().unwrap().push(line.to_owned()));
    let client = connect_with(connector, options()).await.unwrap();
    assert_eq!(echo(&client, "x").await, "x");
    client.close().await;
    assert_eq!(*lines.lock().unwrap(), ["INFO ready"]);
}

#[tokio::test]
async fn c033_a_server_that_never_reads_blocks_neither_calls_nor_closing() {
    let mark = Marked::new("deaf");
    // It reads the handshake through a shell and then stops reading: a pipe that fills up.
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}"#;
    let script = format!("read line; echo '{answer}'; exec sleep 600");
    let command = ServerCommand::new("/bin/sh")
        .args(["-c", &script])
        .env(Marked::NAME, mark.value());
    let mut options = options();
    options.config.policy = EraPolicy::Legacy;
    let mut policy = StopPolicy::default();
    policy.close_grace = Duration::from_millis(200);
    let client = connect_with(
        StdioConnector::new(command).with_stop_policy(policy),
        options,
    )
    .await
    .unwrap();
    let call = CallOptions::default().with_deadline(Deadline::total(Duration::from_millis(300)));
    let error = client
        .call_tool_with("t", &json!({"text": "x".repeat(MIB)}), call)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    let start = Instant::now();
    client.close().await;
    assert!(start.elapsed() < SECOND, "{:?}", start.elapsed());
}

#[tokio::test]
async fn c037_a_frozen_server_fails_calls_in_time_and_works_when_it_wakes_up() {
    let mark = Marked::new("frozen");
    let client = start(&mark, &[]).await;
    let (pid, _) = mark.left()[0].clone();
    signal(pid, "STOP");
    let options = CallOptions::default().with_deadline(Deadline::total(Duration::from_millis(200)));
    let error = client
        .call_tool_with("echo", &json!({"text": "x"}), options)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    signal(pid, "CONT");
    assert_eq!(echo(&client, "awake").await, "awake");
    client.close().await;
    // Frozen for good: closing ends it all the same.
    let client = start(&mark, &[]).await;
    let (pid, _) = mark.left()[0].clone();
    signal(pid, "STOP");
    client.close().await;
    wait_gone(pid, SECOND);
}

#[tokio::test]
async fn c042_a_slow_start_is_waited_for_and_a_late_one_is_ended() {
    let mark = Marked::new("slow-start");
    let client = start(&mark, &["--start-delay", "1000"]).await;
    assert_eq!(echo(&client, "x").await, "x");
    client.close().await;
    let mut hasty = options();
    hasty.config.start_timeout = Duration::from_millis(500);
    let start = Instant::now();
    let error = connect(
        server(&mark, &["--start-delay", "2000", "--say", "installing…"]),
        hasty,
    )
    .await
    .unwrap_err();
    assert_eq!(
        (error.kind(), error.stage()),
        (ErrorKind::Timeout, Stage::Handshake)
    );
    assert_eq!(error.evidence().stderr, "installing…");
    assert!(start.elapsed() >= Duration::from_millis(500));
    // C239: nothing is left of it.
    mark.wait_gone(SECOND);
}

#[tokio::test]
async fn c046_c047_c048_every_answer_to_the_probe_leads_to_a_session() {
    let mark = Marked::new("probe");
    for probe in [
        "not-found",
        "invalid-params",
        "code=-32000",
        "code=0",
        "plain-text",
        "empty",
        "silent",
        "late=600",
        "exit",
        "exit=0",
        "legacy-only=2025-06-18",
        "unsupported=2025-03-26",
    ] {
        let client = start(&mark, &["--probe", probe]).await;
        assert_eq!(client.agreement().era, Era::Legacy, "{probe}");
        assert_eq!(echo(&client, probe).await, probe);
        client.close().await;
    }
    for era in ["modern", "dual"] {
        let client = start(&mark, &["--era", era]).await;
        assert_eq!(client.agreement().era, Era::Modern, "{era}");
        assert_eq!(
            client.agreement().server_info.as_ref().unwrap().name,
            "fake-server"
        );
        assert_eq!(echo(&client, era).await, era);
        client.close().await;
    }
    // A modern server that starts too slowly for the probe is found by its late answer.
    let client = start(&mark, &["--era", "modern", "--start-delay", "700"]).await;
    assert_eq!(client.agreement().era, Era::Modern);
    client.close().await;
    for (probe, code) in [
        ("header-mismatch", "-32020"),
        ("missing-capability", "-32021"),
    ] {
        let error = fails_to_start(&mark, &["--probe", probe]).await;
        assert!(chain(&error).contains(code), "{}", chain(&error));
    }
}

#[tokio::test]
async fn failed_starts_show_both_causes_the_exit_and_the_error_output() {
    let mark = Marked::new("failed-start");
    let error = fails_to_start(
        &mark,
        &["--init", "exit=3", "--say", "fatal: DB_URL not set"],
    )
    .await;
    assert_eq!(
        (error.kind(), error.evidence().exit_status),
        (ErrorKind::Handshake, Some(3))
    );
    assert_eq!(error.evidence().stderr, "fatal: DB_URL not set");
    assert_eq!(
        chain(&error),
        "fake: no agreement with the server: the connection ended before initialize was answered: the server exited with \
         status 3 (the server/discover probe before it: the server answered with error -32601: method not found)"
    );
    let error = fails_to_start(&mark, &["--probe", "exit=7", "--init", "exit=8"]).await;
    let text = chain(&error);
    assert!(
        text.contains("exited with status 8") && text.contains("exited with status 7"),
        "{text}"
    );
    let error = fails_to_start(&mark, &["--version", "1999-01-01"]).await;
    assert!(
        chain(&error).contains("the server speaks 1999-01-01, this client 2025-11-25"),
        "{}",
        chain(&error)
    ); // C052
    let error = fails_to_start(&mark, &["--version", "none"]).await;
    assert!(
        chain(&error).contains("it has no protocolVersion"),
        "{}",
        chain(&error)
    );
    let mut hasty = options();
    hasty.config.start_timeout = SECOND;
    let error = connect(server(&mark, &["--lsp"]), hasty).await.unwrap_err();
    assert!(
        error
            .diagnostics()
            .noise_examples
            .iter()
            .any(|line| line.contains("as LSP does")),
        "{:?}",
        error.diagnostics()
    );
}

#[tokio::test]
async fn c051_c055_c059_c142_older_and_odd_servers_work() {
    let mark = Marked::new("odd-servers");
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = start(&mark, &["--version", version]).await;
        assert_eq!(client.agreement().version.as_str(), version);
        assert_eq!(echo(&client, version).await, version);
        client.close().await;
    }
    // C055: nothing but the handshake is sent before it is done; a ping in the middle of it is answered (PING-01).
    let log = tempfile::NamedTempFile::new().unwrap();
    let client = start(
        &mark,
        &[
            "--early-ping",
            "--odd-capabilities",
            "--log",
            log.path().to_str().unwrap(),
        ],
    )
    .await;
    assert_eq!(echo(&client, "x").await, "x");
    client.close().await;
    let log = std::fs::read_to_string(log.path()).unwrap();
    let methods: Vec<_> = log
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .map(|message| message["method"].as_str().unwrap_or("an answer").to_owned())
        .collect();
    assert_eq!(
        methods,
        [
            "server/discover",
            "initialize",
            "an answer",
            "notifications/initialized",
            "tools/call"
        ]
    );
}

#[tokio::test]
async fn kill_9_of_the_server_fails_all_calls_at_once_with_its_exit() {
    let mark = Marked::new("kill-server");
    let client = start(&mark, &["--grandchild"]).await;
    let calls: Vec<_> = (0..16)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(
                async move { client.call_tool("no_answer", &json!({})).await.unwrap_err() },
            )
        })
        .collect();
    while client.in_flight() < 16 {
        tokio::task::yield_now().await;
    }
    // All sixteen have to be on their way, or some would rightly say that they were not sent.
    while !echo(&client, "x").await.contains('x') {}
    let leader = mark
        .left()
        .into_iter()
        .find(|(_, command)| command.contains("fake-server"))
        .unwrap()
        .0;
    let begun = Instant::now();
    signal(leader, "KILL");
    for call in calls {
        let error = call.await.unwrap();
        assert_eq!(
            (error.kind(), error.was_sent()),
            (ErrorKind::ConnectionLost, Sent::Unknown)
        );
        assert_eq!(
            error.evidence().exit.as_deref(),
            Some("was killed by signal 9 (SIGKILL)")
        );
    }
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    client.closed().await;
    mark.wait_gone(SECOND);
}

#[tokio::test]
async fn kill_9_of_a_wrappers_leader_ends_everything_in_under_a_second() {
    let mark = Marked::new("kill-wrapper");
    let script = format!(
        "'{}' --ignore-eof --ignore-term; exit 0",
        fake_server().display()
    );
    let command = ServerCommand::new("/bin/sh")
        .args(["-c", &script])
        .env(Marked::NAME, mark.value());
    let client = connect(command, options()).await.unwrap();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.call_tool("no_answer", &json!({})).await.unwrap_err() }
    });
    assert_eq!(echo(&client, "x").await, "x");
    let leader = mark
        .left()
        .into_iter()
        .find(|(_, command)| command.starts_with("/bin/sh -c"))
        .unwrap()
        .0;
    let begun = Instant::now();
    signal(leader, "KILL");
    assert_eq!(call.await.unwrap().kind(), ErrorKind::ConnectionLost);
    client.closed().await;
    mark.wait_gone(SECOND);
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
}

#[test]
fn kill_9_of_the_client_leaves_no_process_within_a_second() {
    let mark = Marked::new("kill-client");
    let host = built("mcp-client", "--example", "call");
    for switches in [
        &["--grandchild"][..],
        &["--ignore-eof", "--ignore-term", "--grandchild"],
    ] {
        let log = tempfile::NamedTempFile::new().unwrap();
        let mut command = std::process::Command::new(&host);
        // The mark goes through `env`, since a server gets little of its host's environment.
        let variable = format!("{}={}", Marked::NAME, mark.value());
        command
            .args(["no_answer", "{}", "env"])
            .arg(variable)
            .arg(fake_server())
            .args(switches);
        command.arg("--log").arg(log.path());
        let mut host = command.stderr(std::process::Stdio::null()).spawn().unwrap();
        wait_until("the call is under way", 20 * SECOND, || {
            std::fs::read_to_string(log.path())
                .unwrap()
                .contains("tools/call")
        });
        assert!(mark.left().len() >= 2, "{:?}", mark.left());
        host.kill().unwrap();
        host.wait().unwrap();
        mark.wait_gone(SECOND);
    }
}

#[tokio::test]
async fn a_crash_is_shown_with_status_and_error_output() {
    let mark = Marked::new("crash");
    let client = start(&mark, &[]).await;
    let error = client.call_tool("crash", &json!({})).await.unwrap_err();
    assert_eq!(error.evidence().exit_status, Some(17));
    assert_eq!(error.evidence().stderr, "kaboom at line 42");
    assert!(
        chain(&error).ends_with("the server exited with status 17"),
        "{}",
        chain(&error)
    );
    let error = client
        .call_tool("echo", &json!({"text": "x"}))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent()),
        (ErrorKind::Closed, Sent::No)
    );
    assert!(
        chain(&error).contains("exited with status 17"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn c222_a_secret_that_a_server_prints_is_not_shown() {
    let mark = Marked::new("secret");
    let script = format!(
        "echo \"key=$KEY\" | tee /dev/stderr; exec '{}' --init exit=1",
        fake_server().display()
    );
    let command = ServerCommand::new("/bin/sh")
        .args(["-c", &script])
        .env(Marked::NAME, mark.value())
        .env("KEY", "canary-s3cret");
    let error = connect(command, options()).await.unwrap_err();
    let shown = format!(
        "{error:?} {} {:?} {:?}",
        chain(&error),
        error.evidence(),
        error.diagnostics()
    );
    assert!(
        shown.contains("key=***") && !shown.contains("canary"),
        "{shown}"
    );
}

#[test]
fn c040_a_runtime_that_is_shut_down_leaves_no_process() {
    let mark = Marked::new("runtime");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = runtime.block_on(start(&mark, &["--ignore-eof", "--grandchild"]));
    runtime.shutdown_background();
    mark.wait_gone(10 * SECOND);
    drop(client);
    // A panic that unwinds through the owner of everything.
    let caught = std::panic::catch_unwind(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let _client = runtime.block_on(start(&mark, &[]));
        assert!(!mark.left().is_empty());
        std::panic::panic_any("on purpose");
    });
    assert!(caught.is_err());
    mark.wait_gone(10 * SECOND);
}

// The test waits on its own thread, so the closing in the background needs another one.
#[tokio::test(flavor = "multi_thread")]
async fn c040_a_dropped_attempt_leaves_no_process() {
    let mark = Marked::new("dropped-attempt");
    let attempt = connect(
        server(&mark, &["--init", "silent", "--ignore-eof"]),
        options(),
    );
    assert!(
        tokio::time::timeout(Duration::from_millis(500), attempt)
            .await
            .is_err()
    );
    mark.wait_gone(10 * SECOND);
}

#[tokio::test]
async fn a_daemon_that_keeps_the_pipes_keeps_no_descriptor_of_ours() {
    let mark = Marked::new("daemon");
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let script = format!("setsid sleep 600 & exec '{}'", fake_server().display());
    let command = || {
        ServerCommand::new("/bin/sh")
            .args(["-c", &script])
            .env(Marked::NAME, mark.value())
    };
    // The first one starts the guardian.
    connect(command(), options()).await.unwrap().close().await;
    let before = descriptors();
    for _ in 0..5 {
        connect(command(), options()).await.unwrap().close().await;
    }
    // Other tests open some as well, but not for ever.
    wait_until("the descriptors are closed", 10 * SECOND, || {
        descriptors() <= before + 4
    });
    for (pid, _) in mark.left() {
        signal(pid, "KILL");
    }
}
