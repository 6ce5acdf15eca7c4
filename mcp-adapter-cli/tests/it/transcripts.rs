//! Whole runs, as a person sees them.

use std::time::{Duration, Instant};

use crate::program::Place;

/// Times and paths differ from run to run.
fn settings(place: &Place) -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    let folder = place.path().canonicalize().unwrap();
    settings.add_filter(&regex_literal(folder.to_str().unwrap()), "FOLDER");
    settings.add_filter(
        &regex_literal(mcp_testkit::process::fake_server().to_str().unwrap()),
        "fake-server",
    );
    settings.add_filter(r"\b\d+(\.\d+)? (ms|s)\b", "TIME");
    settings.add_filter(r"(\S) {3,}TIME", "$1  TIME");
    settings.add_filter(r"passed on \d+ variables: .*", "passed on N variables");
    settings.add_filter(r"/\S*/target/\S*/mcpline", "mcpline");
    settings
}

fn regex_literal(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '/' {
                c.to_string()
            } else {
                format!("\\{c}")
            }
        })
        .collect()
}

/// The text without its columns, whose widths depend on times.
fn single_spaced(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.collect::<Vec<_>>().join("\n")
}

/// The commands and what each printed.
fn transcript(place: &Place, commands: &[&[&str]]) -> String {
    let mut text = String::new();
    for args in commands {
        let ran = place.run(args);
        text += &format!(
            "$ mcpline {}\n{}{}[exit {}]\n\n",
            args.join(" "),
            ran.out,
            ran.err,
            ran.code
        );
    }
    text
}

#[test]
fn first_run() {
    let place = Place::new("first-run");
    let start = Instant::now();
    let text = transcript(&place, &[&["demo"]]);
    assert!(
        start.elapsed() < Duration::from_secs(10),
        "{:?}",
        start.elapsed()
    );
    let text = single_spaced(&text);
    settings(&place).bind(|| insta::assert_snapshot!(text));
    // No file was written.
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[test]
fn a_tool_and_a_call() {
    let place = Place::new("tool-and-call");
    let text = transcript(
        &place,
        &[
            &["--demo", "show", "notes/report"],
            &[
                "--demo",
                "call",
                "notes/report",
                "month=2026-11",
                "--get",
                "/structuredContent/total",
            ],
            &["--demo", "call", "notes/add", "a=2", "b=3"],
            &["--demo", "call", "notes/fail"],
            &["--demo", "call", "notes/crash"],
            &["--demo", "call", "notes/repport"],
            &[
                "--demo",
                "call",
                "notes/report",
                "mont=2026-11",
                "limit=many",
                "format=shor",
            ],
        ],
    );
    settings(&place).bind(|| insta::assert_snapshot!(text));
}

#[test]
fn nothing_configured() {
    let place = Place::new("nothing");
    settings(&place).bind(|| {
        insta::assert_snapshot!(transcript(&place, &[&[], &["tools"], &["config", "path"]]))
    });
}

#[test]
fn a_server_that_dies() {
    let place = Place::with_servers(
        "dies",
        &[(
            "search",
            &[
                "--say",
                "booting\nfatal: DB_URL not set",
                "--init",
                "exit=3",
            ],
        )],
    );
    let text = transcript(&place, &[&["tools", "search"], &["doctor", "search"]]);
    let text: Vec<_> = text
        .lines()
        .filter(|line| !line.contains("not passed"))
        .collect();
    settings(&place).bind(|| insta::assert_snapshot!(text.join("\n")));
}

#[test]
fn several_servers_some_broken() {
    let place = Place::new("several");
    let config = serde_json::json!({"mcpServers": {
        "files": place.entry(&[]),
        "search": place.entry(&["--init", "exit=3"]),
        "db": {"command": "db-server", "env": {"URL": "${NOT_SET_ANYWHERE}"}},
        "wiki": {"url": "https://user:pw@wiki.example/mcp?key=x"},
        "old": {"command": "old-server", "disabled": true},
        "typo": {"comand": "x"},
    }});
    place.write(&config.to_string());
    let commands: &[&[&str]] = &[
        &["ls"],
        &["check"],
        &["config", "check"],
        &["config", "explain", "db"],
    ];
    let text = transcript(&place, commands);
    assert!(!text.contains("pw@"));
    let text = single_spaced(&text);
    settings(&place).bind(|| insta::assert_snapshot!(text));
}
