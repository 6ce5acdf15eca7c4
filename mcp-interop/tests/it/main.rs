//! Plans that must fail: a run that can't fail shows nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

/// A server of four lines: it answers `initialize` whatever comes, and lists and calls one tool.
const SERVER: &str = r#"
read -r probe
printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$(printf %s "$probe" | sed 's/.*"id":\([0-9]*\).*/\1/')"
while read -r line; do
    id=$(printf %s "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
    case $line in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"small","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"say","inputSchema":{"type":"object"}}]}' ;;
    *'"tools/call"'*) result='{"content":[{"type":"text","text":"hello"}]}' ;;
    *'"ping"'*) result='{}' ;;
    *) continue ;;
    esac
    printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

/// A plan for that server, changed by the values of `change`.
fn server(change: &Value) -> Value {
    let mut server = json!({
        "name": "small", "package_version": "1", "command": "sh", "args": ["-c", SERVER],
        "expect_version": "2025-06-18", "least_tools": 1,
        "calls": [{"tool": "say", "arguments": {}, "expect": ["hello"], "expect_blocks": ["text"]}]
    });
    for (key, value) in change.as_object().into_iter().flatten() {
        server[key] = value.clone();
    }
    server
}

/// Runs a plan; returns the exit code, the failures of the first row, and all that was printed.
fn run(name: &str, servers: &Value) -> (Option<i32>, Vec<String>, String) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = |kind: &str| -> PathBuf { folder.join(format!("{name}-{kind}.json")) };
    let (plan, report) = (file("plan"), file("report"));
    let _ = std::fs::remove_file(&report);
    let text = json!({"servers": servers, "work": folder, "report": report}).to_string();
    std::fs::write(&plan, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_mcp-interop"))
        .arg(plan)
        .output()
        .unwrap();
    let rows: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
    let failures = serde_json::from_value(rows[0]["failures"].clone()).unwrap_or_default();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), failures, printed)
}

#[test]
fn a_server_that_does_what_the_plan_says_passes() {
    let (code, failures, printed) = run("passes", &json!([server(&json!({}))]));
    assert_eq!((code, failures), (Some(0), Vec::new()), "{printed}");
    assert!(printed.contains("1 servers, 0 failed"), "{printed}");
}

#[test]
fn every_difference_from_the_plan_fails() {
    let call = |call: Value| json!({ "calls": [call] });
    let cases = [
        (json!({"command": "no-such-program"}), "no-such-program"),
        (json!({"args": ["-c", "exit 3"]}), "3"),
        (
            json!({"expect_version": "2025-11-25"}),
            "agreed on 2025-06-18",
        ),
        (json!({"least_tools": 2}), "1 tools, expected at least 2"),
        (
            call(json!({"tool": "sing", "arguments": {}})),
            "sing is not listed",
        ),
        (
            call(json!({"tool": "say", "arguments": {}, "expect": ["bye"]})),
            "does not contain \"bye\"",
        ),
        (
            call(json!({"tool": "say", "arguments": {}, "expect_error": true})),
            "is_error is false",
        ),
        (
            call(json!({"tool": "say", "arguments": {}, "expect_blocks": ["image"]})),
            "content is [\"text\"]",
        ),
        (
            call(json!({"tool": "say", "arguments": {}, "least_progress": 1})),
            "0 progress reports",
        ),
        // It leaves the process group, so the client can't end it; it ends by itself.
        (
            json!({"args": ["-c", format!("setsid sleep 8 >/dev/null 2>&1 </dev/null & {SERVER}")]}),
            "left behind",
        ),
    ];
    for (index, (change, expected)) in cases.iter().enumerate() {
        let (code, failures, printed) = run(&format!("fails-{index}"), &json!([server(change)]));
        assert_eq!(code, Some(1), "{change}: {printed}");
        assert!(
            failures.iter().any(|failure| failure.contains(expected)),
            "{change}: {failures:?}"
        );
    }
}

#[test]
fn one_failure_among_many_and_no_server_at_all_fail() {
    let plan = json!([server(&json!({})), server(&json!({"least_tools": 2}))]);
    assert_eq!(run("mixed", &plan).0, Some(1));
    assert_eq!(run("empty", &json!([])).0, Some(1));
}

#[test]
fn a_missing_or_broken_plan_is_bad_usage() {
    let broken = Path::new(env!("CARGO_TARGET_TMPDIR")).join("broken-plan.json");
    std::fs::write(&broken, "{").unwrap();
    for args in [vec![], vec!["no-such-file".into()], vec![broken]] {
        let output = Command::new(env!("CARGO_BIN_EXE_mcp-interop"))
            .args(&args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}
