//! What each kind of failure ends with: the code, the stream, and a message with stage, evidence and next step.

use std::time::{Duration, Instant};

use crate::program::Place;

#[test]
fn every_failure_has_its_code_and_says_what_to_do() {
    let place = Place::with_servers(
        "exits",
        &[
            ("good", &[]),
            (
                "dies",
                &["--init", "exit=3", "--say", "fatal: DB_URL not set"],
            ),
            ("silent", &["--init", "silent", "--probe", "not-found"]),
            ("noisy", &["--banner", "Server v1 starting"]),
        ],
    );
    let fake = mcp_testkit::process::fake_server();
    let fake = fake.to_str().unwrap();
    // Arguments, exit code, parts of the output, parts of the error output.
    let cases: &[(&[&str], i32, &[&str], &[&str])] = &[
        (&["call", "good/echo", "text=hi"], 0, &["hi"], &[]),
        (&["call", "good.echo", "text=hi"], 0, &["hi"], &[]),
        (&["call", "good__echo", "text=hi"], 0, &["hi"], &[]),
        (&["call", "noisy/echo", "text=true"], 0, &["true"], &[]),
        (
            &["call", "good/ech", "text=hi"],
            6,
            &[],
            &["has no tool \"ech\"", "good/echo", "not run", "sent    no"],
        ),
        (
            &["call", "goood/echo"],
            6,
            &[],
            &["there is no server \"goood\"", "good"],
        ),
        (
            &["call", "good/add", "a=one"],
            6,
            &[],
            &[
                "a       expected a number, got \"one\"",
                "b       required",
                "usage   good/add(a: number, b: number)",
                "sent    no",
            ],
        ),
        (&["call", "good/echo"], 6, &[], &["text    required"]),
        (
            &["call", "good/echo", "--no-validate"],
            5,
            &[],
            &[
                "the server answered with an error",
                "sent    yes",
                "text must be a string",
            ],
        ),
        (
            &["call", "good/fail"],
            5,
            &[],
            &["the tool reported an error", "disk is full", "next"],
        ),
        (
            &["call", "good/rpc_error", "code=-32000"],
            5,
            &[],
            &["error -32000"],
        ),
        (
            &["call", "good/crash"],
            4,
            &[],
            &[
                "stage   call",
                "exited with status 17",
                "| kaboom at line 42",
                "sent    unknown",
            ],
        ),
        (
            &["call", "good/no_answer", "--timeout", "200ms"],
            124,
            &[],
            &["no answer in time", "--timeout", "sent    unknown"],
        ),
        (
            &["tools", "dies"],
            4,
            &[],
            &[
                "stage   handshake",
                "exited with status 3",
                "| fatal: DB_URL not set",
                "mcpline doctor dies",
                "servers.json:1",
            ],
        ),
        (
            &["tools", "silent", "--start-timeout", "500ms"],
            124,
            &[],
            &[
                "silent: no answer within 500ms",
                "--start-timeout",
                "stage   handshake",
            ],
        ),
        (&["tools", "good/no*"], 0, &["good/no_answer()"], &[]),
        (&["tools", "good/zzz*"], 6, &[], &["no tool matches"]),
        (
            &["tools", "--", "no-such-program"],
            4,
            &[],
            &[
                "stage   start",
                "\"no-such-program\" not found; searched PATH",
            ],
        ),
        (
            &["tools", "--", fake, "--exit-after", "server/discover=9"],
            0,
            &["echo("],
            &[],
        ),
        (
            &["check", "good", "noisy"],
            0,
            &["ok  good", "14 tools"],
            &[],
        ),
        (
            &["check", "good", "dies"],
            8,
            &["ok    good", "FAIL  dies"],
            &["1 of 2 failed: dies (handshake)"],
        ),
        (&["check", "dies"], 4, &[], &["| fatal: DB_URL not set"]),
        (
            &["check", "good", "--require", "good/nope"],
            6,
            &[],
            &["good/nope: required"],
        ),
        (
            &["ls", "--start-timeout", "1s"],
            0,
            &["good", "dies", "failed", "timed out"],
            &[],
        ),
        (
            &["doctor", "dies"],
            4,
            &[
                "FAIL  start",
                "stderr    fatal: DB_URL not set",
                "does not work: handshake",
            ],
            &[],
        ),
        (
            &["doctor", "noisy"],
            0,
            &[
                "lines that are no messages",
                "nothing was left behind",
                "works",
            ],
            &[],
        ),
        (&["--timeout", "30"], 2, &[], &["30s", "30ms"]),
        (&["frobnicate"], 2, &[], &["frobnicate"]),
        (&["lss"], 2, &[], &["ls"]),
        (&["call", "good/echo", "--args", "{"], 6, &[], &["not JSON"]),
        (
            &["call", "good/echo", "--args", "@missing.json"],
            2,
            &[],
            &["missing.json"],
        ),
        (
            &["--config", "missing.json", "ls"],
            2,
            &[],
            &["missing.json"],
        ),
    ];
    for (args, code, out, err) in cases {
        let ran = place.run(args);
        let shown = format!("{args:?}\n--- out\n{}\n--- err\n{}", ran.out, ran.err);
        assert_eq!(ran.code, *code, "{shown}");
        assert!(
            out.iter().all(|part| ran.out.contains(part)),
            "{out:?} in {shown}"
        );
        assert!(
            err.iter().all(|part| ran.err.contains(part)),
            "{err:?} in {shown}"
        );
        assert!(out.is_empty() || !ran.out.contains("error:"), "{shown}");
    }
}

#[test]
fn c231_json_is_one_document_on_success_and_on_failure() {
    let place = Place::with_servers("json", &[("good", &[]), ("dies", &["--init", "exit=3"])]);
    let cases: &[(&[&str], i32, &str)] = &[
        (&["call", "good/add", "a=2", "b=40"], 0, ""),
        (&["call", "good/fail"], 5, "tool_error"),
        (&["call", "good/crash"], 4, "server_exited"),
        (&["call", "good/ech"], 6, "unknown_tool"),
        (&["call", "dies/echo", "text=x"], 4, "server_exited"),
        (&["tools", "dies"], 4, "server_exited"),
        (&["tools"], 8, "server_exited"),
        (&["ls"], 0, ""),
        (&["check"], 8, "server_exited"),
        (&["show", "good"], 0, ""),
        (&["show", "good/add"], 0, ""),
        (&["doctor", "good"], 0, ""),
        (&["config", "list"], 0, ""),
        (&["config", "check"], 0, ""),
        (&["config", "path"], 0, ""),
        (&["config", "explain", "good"], 0, ""),
    ];
    for (args, code, kind) in cases {
        let ran = place.run(&[args, &["--json"][..]].concat());
        assert_eq!(ran.code, *code, "{args:?}\n{}\n{}", ran.out, ran.err);
        let document = ran.json();
        assert_eq!(document["v"], 1, "{document}");
        assert_eq!(document["ok"], kind.is_empty(), "{document}");
        assert_eq!(
            document["error"]["kind"].as_str().unwrap_or_default(),
            *kind,
            "{document}"
        );
    }
    let document = place
        .run(&["call", "good/add", "a=2", "b=40", "--json"])
        .json();
    assert_eq!(document["result"]["structuredContent"]["sum"], 42.0);
    let document = place.run(&["call", "good/crash", "--json"]).json();
    assert_eq!(document["error"]["evidence"]["exit_status"], 17);
    assert_eq!(document["error"]["sent"], "unknown");
    assert_eq!(
        place
            .run(&[
                "call",
                "good/add",
                "a=2",
                "b=40",
                "--get",
                "/structuredContent/sum"
            ])
            .out,
        "42.0\n"
    );
    let raw = place.run(&["call", "good/echo", "text=x", "--raw"]);
    assert_eq!(
        raw.out,
        "{\"content\":[{\"text\":\"x\",\"type\":\"text\"}]}\n"
    );
}

#[test]
fn c044_servers_start_side_by_side_and_a_slow_one_holds_up_no_other() {
    let slow: &[&str] = &["--start-delay", "1500"];
    let place = Place::with_servers(
        "parallel",
        &[
            ("a", slow),
            ("b", slow),
            ("c", slow),
            ("d", slow),
            ("e", slow),
        ],
    );
    let start = Instant::now();
    let ran = place.run(&["check"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        start.elapsed() < Duration::from_millis(5500),
        "one after the other would take 7.5 s: {:?}",
        start.elapsed()
    );
}

#[test]
fn c232_arguments_come_from_files_and_standard_input() {
    use std::io::Write as _;
    let place = Place::with_servers("input", &[("good", &[])]);
    std::fs::write(place.path().join("text.txt"), "from a file").unwrap();
    assert_eq!(
        place.run(&["call", "good/echo", "text=@text.txt"]).out,
        "from a file\n"
    );
    assert_eq!(
        place
            .run(&["call", "good/echo", "--args", r#"{"text":"inline"}"#])
            .out,
        "inline\n"
    );
    let mut child = place
        .command(&["call", "good/echo", "--args", "-"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(br#"{"text":"piped"}"#)
        .unwrap();
    assert_eq!(
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap(),
        "piped\n"
    );
    let ran = place.run(&["call", "good/echo", "text=x", "--dry-run"]);
    assert!(
        ran.code == 0 && ran.out.starts_with("tools/call {"),
        "{}",
        ran.out
    );
}

#[test]
fn images_are_saved_where_asked() {
    let place = Place::with_servers("images", &[("good", &[])]);
    let ran = place.run(&["call", "good/picture"]);
    assert_eq!(ran.out, "[image/png 8 bytes, --save DIR]\n");
    let ran = place.run(&["call", "good/picture", "--save", "out"]);
    assert!(ran.out.contains("out/01.png]"), "{}", ran.out);
    assert_eq!(
        std::fs::read(place.path().join("out/01.png")).unwrap(),
        b"\x89PNG\r\n\x1a\n"
    );
}

#[test]
fn c218_a_projects_file_starts_nothing_unasked() {
    let place = Place::new("approval");
    let config = serde_json::json!({"mcpServers": {"x": {"command": "/bin/sh", "args": ["-c", "touch owned"]}}});
    std::fs::write(place.path().join(".mcp.json"), config.to_string()).unwrap();
    let ran = place.run(&["check"]);
    assert_eq!(ran.code, 7, "{}", ran.err);
    assert!(
        ran.err.contains("nobody has approved") && ran.err.contains("touch owned"),
        "{}",
        ran.err
    );
    assert!(!place.path().join("owned").exists());
    let ran = place.run(&["check", "--trust", "--start-timeout", "2s"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    assert!(place.path().join("owned").exists());
}

#[test]
fn one_bad_entry_spoils_only_itself() {
    let place = Place::new("bad-entry");
    let good = place.entry(&[]);
    place.write(&format!(
        "{{ // a comment\n \"mcpServers\": {{\n  \"good\": {good},\n  \"bad\": {{\"args\": []}},\n  \"unset\": {{\"command\": \"x\", \"env\": {{\"T\": \"${{NOT_SET_ANYWHERE}}\"}}}},\n  \"remote\": {{\"url\": \"https://u:p@h.example/mcp\"}},\n }}, }}"
    ));
    let ran = place.run(&["tools"]);
    assert_eq!(ran.code, 8, "{}", ran.err);
    assert!(ran.out.contains("good/echo(text: string)"), "{}", ran.out);
    for part in [
        "NOT_SET_ANYWHERE",
        "a URL must not hold a user or a password",
        "servers.json:4",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
}
