//! The client ends badly whenever a scenario was not carried out: a run that can't fail shows nothing.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::process::Command;

/// Starts the client as the suite does; returns the exit code and what it said.
fn run(scenario: Option<&str>, url: Option<&str>) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcp-conformance"));
    command
        .env_remove("MCP_CONFORMANCE_CONTEXT")
        .env_remove("MCP_CONFORMANCE_SCENARIO")
        .env("MCP_CONFORMANCE_PROTOCOL_VERSION", "2026-07-28")
        .args(url);
    if let Some(scenario) = scenario {
        command.env("MCP_CONFORMANCE_SCENARIO", scenario);
    }
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said)
}

#[test]
fn what_was_not_carried_out_ends_badly() {
    // Nobody listens there any more.
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{address}/mcp");
    for (scenario, url, code, expected) in [
        (
            Some("brand-new"),
            Some(url.as_str()),
            3,
            "\"brand-new\" is not known",
        ),
        (
            Some("auth/brand-new"),
            Some(&url),
            3,
            "\"auth/brand-new\" is not known",
        ),
        (Some("tools_call"), Some(&url), 1, "error: "),
        (Some("auth/dpop"), Some(&url), 1, "error: "),
        (Some("tools_call"), Some("no url"), 2, "no url"),
        (Some("tools_call"), None, 2, "URL is missing"),
        (
            Some("http-custom-headers"),
            Some(&url),
            2,
            "MCP_CONFORMANCE_CONTEXT is not set",
        ),
        (None, Some(&url), 2, "MCP_CONFORMANCE_SCENARIO is not set"),
    ] {
        let (found, said) = run(scenario, url);
        assert_eq!(found, code, "{scenario:?} {url:?}: {said}");
        assert!(said.contains(expected), "{scenario:?} {url:?}: {said}");
    }
}
