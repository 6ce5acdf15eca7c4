//! Where output goes, in which form, and options that come from variables.

use serde_json::{Value, json};

use crate::program::Place;

/// What a program or a terminal would act upon.
const ODD: &str = "a\u{1b}[2Jb\u{202e}c\u{9b}31m";

#[test]
fn data_is_exact_in_a_pipe_and_in_a_file() {
    let place = Place::with_servers("exact", &[("s", &[])]);
    let text = format!("text={ODD}");
    let ran = place.run(&["call", "s/echo", &text]);
    assert_eq!(ran.out, format!("{ODD}\n"));
    let ran = place.run(&["call", "s/echo", &text, "--color", "always"]);
    assert_eq!(ran.out, format!("{ODD}\n"));
    let ran = place.run(&["call", "s/echo", &text, "-o", "out.txt"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, ""));
    let written = std::fs::read_to_string(place.path().join("out.txt")).unwrap();
    assert_eq!(written, format!("{ODD}\n"));
}

#[test]
fn output_that_is_lost_is_a_failure() {
    let place = Place::with_servers("lost", &[("s", &[])]);
    let ran = place.run(&["call", "s/echo", "text=x", "-o", "no/such/folder/out"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("no/such/folder/out: "), "{}", ran.err);
    if std::path::Path::new("/dev/full").exists() {
        let ran = place.run(&["call", "s/echo", "text=x", "-o", "/dev/full"]);
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains("error: /dev/full: "), "{}", ran.err);
    }
}

#[test]
fn c231_usage_errors_are_documents_too() {
    let place = Place::new("usage-json");
    for args in [
        &["--json", "frobnicate"][..],
        &["call", "--json"],
        &["tools", "--json", "--timeout", "30"],
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, 2, "{}", ran.err);
        let document = ran.json();
        assert_eq!(
            (&document["ok"], &document["error"]["kind"]),
            (&json!(false), &json!("usage")),
            "{document}"
        );
    }
    // What stands behind `--` belongs to the server.
    let ran = place.run(&["frobnicate", "--", "--json"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
}

#[test]
fn options_come_from_variables() {
    let place = Place::with_servers("variables", &[("s", &[])]);
    let run = |variable: &str, value: &str, args: &[&str]| {
        let output = place.command(args).env(variable, value).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
        )
    };
    for (value, is_json) in [("1", true), ("true", true), ("0", false), ("no", false)] {
        let (code, out) = run("MCPLINE_JSON", value, &["tools"]);
        assert_eq!(
            (code, out.starts_with("{\"v\":1")),
            (Some(0), is_json),
            "{value}"
        );
    }
    assert_eq!(run("MCPLINE_NO_INPUT", "1", &["tools"]).0, Some(0));
    assert_eq!(
        run("MCPLINE_TIMEOUT", "200ms", &["call", "s/no_answer"]).0,
        Some(124)
    );
    assert_eq!(run("MCPLINE_ERA", "modern", &["tools"]).0, Some(4));
}

#[test]
fn the_environment_is_passed_on_as_far_as_one_says() {
    let place = Place::with_servers("inherit", &[("s", &[])]);
    let seen = |args: &[&str]| {
        let args = [&["call", "s/env", "name=MY_VARIABLE"], args].concat();
        let output = place
            .command(&args)
            .env("MY_VARIABLE", "seen")
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap().contains("seen")
    };
    assert!(!seen(&[]));
    assert!(!seen(&["--inherit-env", "OTHER"]));
    assert!(seen(&["--inherit-env", "OTHER,MY_VARIABLE"]));
    assert!(seen(&["--inherit-env", "all"]));
}

#[test]
fn a_start_that_hangs_names_the_variables_that_may_be_missing() {
    let place = Place::with_servers(
        "hangs",
        &[("files", &["--probe", "silent", "--init", "silent"])],
    );
    let output = place
        .command(&["tools", "files", "--start-timeout", "400ms"])
        .env("CARGO_HTTP_CAINFO", "/ca.pem")
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(124), "{err}");
    for part in [
        "error: files: no answer within 400ms of starting (limit --start-timeout)",
        "set in this shell but not passed on: CARGO_HTTP_CAINFO",
        "mcpline tools files --inherit-env all  - for one try",
    ] {
        assert!(err.contains(part), "{part}: {err}");
    }
    // A probe that nobody answers leaves time for the handshake, however short the limit is.
    let place = Place::with_servers("probe-silent", &[("old", &["--probe", "silent"])]);
    let ran = place.run(&["tools", "old", "--start-timeout", "3s"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_dry_run_shows_what_would_be_sent() {
    let place = Place::new("dry-run");
    let log = place.path().join("log");
    let entry = place.entry(&["--log", log.to_str().unwrap()]);
    place.write(&json!({"mcpServers": {"s": entry}}).to_string());
    let call = ["call", "s/add", "a=12345678901234567890", "b:=1e2"];
    let calls = || {
        let log = std::fs::read_to_string(&log).unwrap();
        let sent = log.lines().filter(|line| line.contains("tools/call"));
        sent.map(str::to_owned).collect::<Vec<_>>()
    };
    let ran = place.run(&[&call[..], &["--dry-run", "--json"]].concat());
    assert_eq!((ran.code, calls().len()), (0, 0), "{}", ran.err);
    let request = r#"{"name":"add","arguments":{"a":12345678901234567890,"b":1e2}}"#;
    assert!(
        ran.out.contains(&format!("\"request\":{request}")),
        "{}",
        ran.out
    );
    let ran = place.run(&[&call[..], &["--dry-run"]].concat());
    let shown = ran.out.strip_prefix("tools/call ").unwrap();
    let shown: Value = serde_json::from_str(shown).unwrap();
    place.run(&call);
    let [sent] = &calls()[..] else {
        panic!("{:?}", calls())
    };
    assert!(
        sent.contains(r#""arguments":{"a":12345678901234567890,"b":1e2}"#),
        "{sent}"
    );
    let mut sent = serde_json::from_str::<Value>(sent).unwrap()["params"].take();
    // The token of the progress that a call asks for is the connection's.
    sent.as_object_mut().unwrap().remove("_meta");
    assert_eq!(sent, shown);
}

#[test]
fn a_tool_alone_is_found_when_one_server_has_it() {
    let place = Place::with_servers(
        "bare",
        &[
            ("plain", &[]),
            ("more", &["--tools", "2"]),
            ("dies", &["--init", "exit=3"]),
        ],
    );
    let ran = place.run(&["call", "t2"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = place.run(&["call", "echo", "text=x"]);
    assert_eq!((ran.code, ran.out.as_str()), (6, ""));
    for part in [
        "several servers have a tool \"echo\"",
        "mcpline call plain/echo",
        "mcpline call more/echo",
        "dies: the server exited with status 3",
    ] {
        assert!(ran.err.contains(part), "{part}: {}", ran.err);
    }
    let ran = place.run(&["call", "ech"]);
    assert_eq!(ran.code, 6);
    assert!(
        ran.err
            .contains("mcpline call echo  - nearest name; not run"),
        "{}",
        ran.err
    );
}

#[test]
fn schemas_keep_their_text_in_documents() {
    let place = Place::with_servers("schemas", &[("s", &[])]);
    let plain = place.run(&["tools", "s/add", "--schema"]).out;
    let document = place.run(&["tools", "s/add", "--json"]);
    assert_eq!(document.json()["servers"][0]["tools"][0]["name"], "add");
    let shown = place.run(&["show", "s/add", "--json"]).json();
    assert_eq!(shown["tool"]["inputSchema"]["required"], json!(["a", "b"]));
    assert!(plain.contains("\"required\": ["), "{plain}");
}

#[test]
fn notifications_are_shown_when_asked_for() {
    let place = Place::with_servers("notifications", &[("s", &["--list-changed", "1"])]);
    let quiet = place.run(&["tools", "s/echo"]);
    assert_eq!((quiet.code, quiet.err.as_str()), (0, ""));
    // It comes behind the answer to `tools/list`, hence before the answer to this call.
    let ran = place.run(&["call", "s/slow", "ms=200", "-v"]);
    assert!(
        ran.err.contains("[s] its tools have changed"),
        "{}",
        ran.err
    );
}
