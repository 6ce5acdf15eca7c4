//! What servers say, and how much of it: noise, odd answers, lists, sizes, floods.

use std::time::{Duration, Instant};

use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::mcp_proto::lifecycle::EraPolicy;
use mcp_client::stdio::{ServerCommand, connect, connect_stream};
use mcp_client::{CallOptions, ErrorKind, Sent, progress_channel};
use mcp_testkit::process::{Marked, fake_server, is_alive};
use serde_json::json;

use super::{MIB, SECOND, chain, echo, options, server, start};

/// Each fault by itself: the session works all the same.
async fn survives(test: &str, switches: &[&str]) -> mcp_client::Diagnostics {
    let mark = Marked::new(test);
    let client = start(&mark, switches).await;
    for round in ["one", "two"] {
        assert_eq!(echo(&client, round).await, round, "{switches:?}");
    }
    assert!(
        client.tools().await.unwrap().get("echo").is_some(),
        "{switches:?}"
    );
    let diagnostics = client.diagnostics();
    client.close().await;
    diagnostics
}

#[tokio::test]
async fn c001_c003_c004_c013_c014_noise_on_the_output_is_survived() {
    let cases: &[(&[&str], bool)] = &[
        (&[], false),
        (&["--banner", "Server v1.2 starting on stdio..."], true), // C001
        (&["--crlf", "--blank-lines"], false),                     // C003
        (&["--noise", "1"], true),                                 // C004
        (&["--two-per-line"], false),                              // C013
        (&["--nul"], false),                                       // C014
        (&["--bom"], false),
        (&["--split", "1"], false),
        (&["--huge-line", "100000"], true),
    ];
    for (switches, noisy) in cases {
        let diagnostics = survives("noise", switches).await;
        assert_eq!(
            diagnostics.noise > 0,
            *noisy,
            "{switches:?}: {diagnostics:?}"
        );
    }
}

#[tokio::test]
async fn c060_c061_c066_c069_odd_answers_are_survived() {
    for switches in [
        ["--id", "text"],
        ["--id", "float"],
        ["--id", "last"],
        ["--answers", "double"],
        ["--answers", "error-null"],
        ["--answers", "extra"],
    ] {
        let diagnostics = survives("odd-answers", &switches).await;
        assert_eq!(
            diagnostics.is_empty(),
            switches[1] == "last" || switches[1] == "error-null",
            "{switches:?}: {diagnostics:?}"
        );
    }
}

#[tokio::test]
async fn c007_a_byte_that_is_no_utf8_costs_one_character() {
    let mark = Marked::new("utf8");
    let client = start(&mark, &["--bad-utf8"]).await;
    assert_eq!(echo(&client, "caf").await, "\u{fffd}caf");
    client.close().await;
}

#[tokio::test]
async fn c010_a_last_answer_without_a_line_break_arrives() {
    let mark = Marked::new("last-line");
    let client = start(&mark, &["--no-last-newline"]).await;
    assert_eq!(echo(&client, "last words").await, "last words");
    client.closed().await;
    // Half an answer is none.
    let client = start(&mark, &["--half-line"]).await;
    let error = client
        .call_tool("echo", &json!({"text": "x"}))
        .await
        .unwrap_err();
    // The half answer names its call, or the connection ends first: both are right, and neither says "not sent".
    assert_ne!(error.was_sent(), Sent::No, "{}", chain(&error));
    client.closed().await;
}

#[tokio::test]
async fn c012_large_answers_in_small_pieces_survive_outgoing_traffic() {
    let mark = Marked::new("pieces");
    let client = start(&mark, &["--split", "4096"]).await;
    let big = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .call_tool("big", &json!({"bytes": 300 * 1024}))
                .await
                .unwrap()
                .text()
                .len()
        }
    });
    for n in 0..50 {
        assert_eq!(echo(&client, &n.to_string()).await, n.to_string());
    }
    assert_eq!(big.await.unwrap(), 300 * 1024);
    client.close().await;
}

#[tokio::test]
async fn c065_broken_answers_fail_their_own_call_only() {
    let mark = Marked::new("broken-answers");
    for kind in ["neither", "both"] {
        let mut options = options();
        options.config.policy = EraPolicy::Legacy;
        // The handshake is answered in the same broken way, so it ends there.
        let error = connect(server(&mark, &["--answers", kind]), options)
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Handshake, "{kind}");
    }
    let client = start(&mark, &[]).await;
    let error = client
        .call_tool("rpc_error", &json!({"code": -32800}))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent()),
        (ErrorKind::Rpc, Sent::Yes)
    );
    assert!(client.call_tool("fail", &json!({})).await.unwrap().is_error);
    assert_eq!(
        client
            .call_tool("everything", &json!({}))
            .await
            .unwrap()
            .content
            .len(),
        8
    );
    assert_eq!(
        client
            .call_tool("ping_back", &json!({}))
            .await
            .unwrap()
            .text(),
        "the client answered"
    );
    client.close().await;
}

#[tokio::test]
async fn c074_c082_progress_and_cancelling_reach_a_real_server() {
    let mark = Marked::new("progress");
    let client = start(&mark, &["--late-progress"]).await;
    let (sender, mut progress) = progress_channel();
    let arguments = json!({"from": 5, "interval_ms": 1});
    client
        .call_tool_with(
            "countdown",
            &arguments,
            CallOptions::default().with_progress(sender),
        )
        .await
        .unwrap();
    let mut seen = Vec::new();
    while let Some(report) = progress.recv().await {
        seen.push(report.progress);
    }
    assert_eq!(seen, [1.0, 2.0, 3.0, 4.0, 5.0]);
    let short = CallOptions::default().with_deadline(Deadline::total(Duration::from_millis(50)));
    client
        .call_tool_with("slow", &json!({"ms": 60_000}), short)
        .await
        .unwrap_err();
    let _ = tokio::time::timeout(
        Duration::from_millis(50),
        client.call_tool("slow", &json!({"ms": 60_000})),
    )
    .await;
    let stats = client.call_tool("stats", &json!({})).await.unwrap();
    let stats: serde_json::Value = stats.structured().unwrap().unwrap();
    assert_eq!(stats["cancelled"].as_array().unwrap().len(), 2, "{stats}");
    client.close().await;
}

#[tokio::test]
async fn c139_c140_c158_lists_of_all_kinds_end() {
    let mark = Marked::new("lists");
    let names = async |switches: &[&str]| {
        let client = start(&mark, switches).await;
        let list = client.tools().await.unwrap();
        client.close().await;
        (
            list.tools.len(),
            list.notes
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("; "),
        )
    };
    let (own, notes) = names(&[]).await;
    assert_eq!(notes, "");
    assert_eq!(
        names(&["--tools", "200", "--page-size", "7"]).await,
        (own + 200, String::new())
    );
    assert_eq!(names(&["--cursor", "empty"]).await.0, own);
    assert_eq!(names(&["--nulls"]).await, (own, String::new()));
    assert_eq!(
        names(&["--cursor", "refused", "--page-size", "5"]).await,
        (own, String::new())
    );
    let (count, notes) = names(&["--cursor", "same"]).await;
    assert!(
        count == own && notes.contains("repeated a page cursor"),
        "{count} {notes}"
    );
    let (count, notes) = names(&["--cursor", "endless"]).await;
    assert!(
        count == 100 && notes.contains("max_pages"),
        "{count} {notes}"
    );
    let (count, notes) = names(&["--duplicate-tool"]).await;
    assert!(count == own && notes.contains("twice"), "{count} {notes}");
    let (count, notes) = names(&["--bad-tool"]).await;
    assert!(
        count == own + 1 && notes.matches("left out").count() == 2,
        "{count} {notes}"
    );
    // A storm of announcements fetches nothing by itself.
    let client = start(&mark, &["--list-changed", "1000"]).await;
    assert_eq!(echo(&client, "x").await, "x");
    client.close().await;
}

#[tokio::test]
async fn d3_64_calls_answered_in_random_order() {
    let mark = Marked::new("shuffle");
    let client = start(&mark, &["--shuffle", "42"]).await;
    let calls: Vec<_> = (0..64)
        .map(|n| {
            let client = client.clone();
            tokio::spawn(async move { (n.to_string(), echo(&client, &n.to_string()).await) })
        })
        .collect();
    for call in calls {
        let (sent, got) = call.await.unwrap();
        assert_eq!(sent, got);
    }
    client.close().await;
}

#[tokio::test]
async fn d3_a_slow_call_delays_no_other() {
    let mark = Marked::new("slow-call");
    let client = start(&mark, &[]).await;
    let slow = tokio::spawn({
        let client = client.clone();
        async move {
            client
                .call_tool("slow", &json!({"ms": 5000}))
                .await
                .unwrap()
                .text()
        }
    });
    let begun = Instant::now();
    for n in 0..64 {
        assert_eq!(echo(&client, &n.to_string()).await, n.to_string());
    }
    assert!(begun.elapsed() < 2 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(slow.await.unwrap(), "waited");
    client.close().await;
}

#[tokio::test]
async fn d15_16_mib_arrive_and_17_mib_fail_their_own_call() {
    let mark = Marked::new("large");
    let client = start(&mark, &[]).await;
    let call = async |bytes: usize| client.call_tool("big", &json!({"bytes": bytes})).await;
    assert_eq!(call(16 * MIB).await.unwrap().text().len(), 16 * MIB);
    let error = call(17 * MIB).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.was_sent()),
        (ErrorKind::InvalidAnswer, Sent::Yes)
    );
    assert!(
        chain(&error).contains("(limit max_message_bytes 16842752)"),
        "{}",
        chain(&error)
    );
    assert_eq!(echo(&client, "still here").await, "still here");
    client.close().await;
    // The id may stand behind the result.
    let client = start(&mark, &["--id", "last"]).await;
    assert_eq!(
        client
            .call_tool("big", &json!({"bytes": 17 * MIB}))
            .await
            .unwrap_err()
            .kind(),
        ErrorKind::InvalidAnswer
    );
    assert_eq!(echo(&client, "still here").await, "still here");
    client.close().await;
}

#[tokio::test]
async fn stdio_14_the_same_over_any_byte_stream() {
    let mark = Marked::new("stream");
    let mut child = tokio::process::Command::new(fake_server())
        .env(Marked::NAME, mark.value())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let client = connect_stream(
        child.stdout.take().unwrap(),
        child.stdin.take().unwrap(),
        options(),
    )
    .await
    .unwrap();
    assert_eq!(echo(&client, "over a stream").await, "over a stream");
    client.close().await;
    child.wait().await.unwrap();
    assert!(!is_alive(child.id().unwrap_or(u32::MAX)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_stops_talking_holds_up_neither_limits_nor_the_end() {
    let mark = Marked::new("flood");
    let mut hasty = options();
    hasty.config.start_timeout = SECOND;
    let begun = Instant::now();
    let error = connect(
        ServerCommand::new("yes").env(Marked::NAME, mark.value()),
        hasty,
    )
    .await
    .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(begun.elapsed() < 8 * SECOND, "{:?}", begun.elapsed());

    // After a good handshake, too: a call's limit holds, and so does the end.
    let script = format!("yes & exec '{}'", fake_server().display());
    let command = ServerCommand::new("/bin/sh")
        .args(["-c", &script])
        .env(Marked::NAME, mark.value());
    let client = connect(command, options()).await.unwrap();
    let limit = CallOptions::default().with_deadline(Deadline::total(Duration::from_millis(500)));
    let begun = Instant::now();
    let error = client
        .call_tool_with("no_answer", &json!({}), limit)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(begun.elapsed() < 5 * SECOND, "{:?}", begun.elapsed());
    let closed = tokio::time::timeout(8 * SECOND, client.close()).await;
    assert!(closed.is_ok());
}
