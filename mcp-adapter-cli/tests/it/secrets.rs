//! A secret in a server's environment shows up nowhere.

use serde_json::json;

use crate::program::Place;

const CANARY: &str = "canary-s3cret-4711";

#[test]
fn c222_environment_values_are_in_no_output() {
    let place = Place::new("secrets");
    // The servers get the secret through their environment and show it where they can.
    let with = |before: &str, switches: &str| {
        let script = format!(
            "{before}; exec '{}' {switches}",
            mcp_testkit::process::fake_server().display()
        );
        let mut entry = place.entry(&[]);
        entry["command"] = json!("/bin/sh");
        entry["args"] = json!(["-c", script]);
        entry["env"]["TOKEN"] = json!(CANARY);
        entry["env"]["FROM_SHELL"] = json!("${SHELL_TOKEN}");
        entry
    };
    place.write(
        &json!({"mcpServers": {
            "good": with("true", ""),
            "leaks": with("echo \"my token is $TOKEN\" >&2", "--init exit=1"),
            "noisy": with("echo \"my token is $TOKEN\"", ""),
            "broken": {"command": "/no/such/program", "env": {"TOKEN": CANARY}},
        }})
        .to_string(),
    );
    let runs: &[&[&str]] = &[
        &["ls"],
        &["ls", "--json"],
        &["tools"],
        &["tools", "--json"],
        &["check", "-v"],
        &["doctor"],
        &["doctor", "--json"],
        &["show", "good"],
        &["config", "list"],
        &["config", "list", "--json"],
        &["config", "check"],
        &["config", "explain", "good"],
        &["config", "explain", "good", "--json"],
        &["call", "good/crash"],
        &["call", "leaks/echo", "text=x", "-vv"],
        &["call", "noisy/echo", "text=x", "-vv"],
        &["call", "good/echo"],
    ];
    for args in runs {
        let output = place
            .command(args)
            .env("SHELL_TOKEN", CANARY)
            .output()
            .unwrap();
        for (stream, bytes) in [("output", output.stdout), ("error output", output.stderr)] {
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains(CANARY), "{args:?}: in its {stream}:\n{text}");
        }
    }
}

#[test]
fn c222_variables_on_the_command_line_are_in_no_output() {
    let place = Place::new("secrets-ad-hoc");
    let fake = mcp_testkit::process::fake_server();
    let variable = format!("TOKEN={CANARY}");
    let runs: &[&[&str]] = &[
        &["tools", "-vv"],
        &["doctor"],
        &["doctor", "--json"],
        &["show"],
        &["call", "ech", "text=x"],
        &["call", "crash", "--json"],
    ];
    for args in runs {
        let script = "echo \"got $TOKEN\" >&2; echo \"got $TOKEN\"; exec \"$0\"";
        let server = ["--", "/bin/sh", "-c", script, fake.to_str().unwrap()];
        let output = place
            .command(&[&["-e", &variable], *args, &server].concat())
            .output()
            .unwrap();
        for bytes in [&output.stdout, &output.stderr] {
            let text = String::from_utf8_lossy(bytes);
            assert!(!text.contains(CANARY), "{args:?}:\n{text}");
        }
        assert!(
            output.status.code().is_some_and(|code| code != 2),
            "{args:?}"
        );
    }
}
