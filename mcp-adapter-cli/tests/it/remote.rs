//! Servers that are reached by a URL.

use std::time::Duration;

use mcp_testkit::http::{HttpPeer, LegacyServer, ModernServer, Reply, Request};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::program::{Place, Ran};

const CANARY: &str = "canary-s3cret-4711";

/// A server of the test's own, in threads of its own.
pub(crate) struct Server {
    runtime: Runtime,
    peer: HttpPeer,
}

impl Server {
    pub(crate) fn start(handler: impl Fn(Request) -> Reply + Send + Sync + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let peer = runtime.block_on(HttpPeer::tcp(handler));
        Self { runtime, peer }
    }

    /// Only those who know the secret get in.
    fn guarded() -> Self {
        let legacy = LegacyServer::new();
        Self::start(move |request| {
            if request.header("authorization") == Some(&format!("Bearer {CANARY}")) {
                legacy.reply(&request)
            } else {
                Reply::status(401).body("who are you?")
            }
        })
    }

    pub(crate) fn url(&self) -> String {
        self.peer.url("/mcp")
    }
}

fn run(place: &Place, args: &[&str]) -> Ran {
    let output = place.command(args).env("TOKEN", CANARY).output().unwrap();
    let ran = Ran::from(output);
    for (stream, text) in [("output", &ran.out), ("error output", &ran.err)] {
        assert!(!text.contains(CANARY), "{args:?}: in its {stream}:\n{text}");
    }
    ran
}

#[test]
fn a_url_on_the_command_line_is_enough() {
    let place = Place::new("url");
    let server = Server::start(ModernServer::new().handler());
    let url = server.url();
    let ran = run(&place, &["tools", "--url", &url]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("/echo("), "{}", ran.out);
    let ran = run(&place, &["call", "echo", "text=grüße", "--url", &url]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("grüße"), "{}", ran.out);
    let ran = run(&place, &["show", "echo", "--url", &url]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn doctor_shows_era_version_and_session() {
    let place = Place::new("url-doctor");
    let legacy = LegacyServer::new();
    let server = Server::start(legacy.clone().handler());
    let ran = run(&place, &["doctor", "--url", &server.url()]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    for part in [
        "url       http://127.0.0.1:",
        "transport Streamable HTTP",
        "http      HTTP/1.1",
        "session   held",
        "2025-11-25 (legacy)",
        "not modern: the server answered with",
        "the session was deleted",
        "works",
    ] {
        assert!(ran.out.contains(part), "{part}:\n{}", ran.out);
    }
    assert_eq!(legacy.deleted().len(), 1);
    for session in legacy.deleted() {
        assert!(!ran.out.contains(&session) && !ran.err.contains(&session));
    }
}

#[test]
fn c222_tokens_come_from_the_environment_and_are_in_no_output() {
    let place = Place::new("url-token");
    let server = Server::guarded();
    let url = server.url();
    let with_key = format!("{url}?key={CANARY}");
    let commands: &[&[&str]] = &[
        &["doctor", "--url", &url, "--bearer-env", "TOKEN"],
        &["tools", "--url", &url, "--bearer-env", "TOKEN", "-vv"],
        &[
            "tools",
            "--url",
            &with_key,
            "-H",
            "Authorization: Bearer ${TOKEN}",
            "-vv",
        ],
        &[
            "call",
            "echo",
            "text=x",
            "--url",
            &with_key,
            "-H",
            "Authorization: Bearer ${TOKEN}",
            "--json",
        ],
        &[
            "call",
            "ech",
            "--url",
            &with_key,
            "-H",
            "Authorization: Bearer ${TOKEN}",
        ],
        &["tools", "--url", &with_key],
        &["doctor", "--url", &with_key],
    ];
    for args in commands {
        let ran = run(&place, args);
        let lets_in = args.iter().any(|arg| arg.contains("TOKEN"));
        let expected = match (lets_in, args.contains(&"ech")) {
            (true, true) => 6,
            (true, false) => 0,
            (false, _) => 7,
        };
        assert_eq!(ran.code, expected, "{args:?}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn entries_with_a_url_work_like_the_others() {
    let place = Place::new("url-entry");
    let server = Server::guarded();
    let url = server.url();
    place.write(
        &json!({"mcpServers": {
            "a": {"url": format!("{url}?key=${{TOKEN}}"), "headers": {"Authorization": "Bearer ${TOKEN}"}},
            "b": {"type": "http", "httpUrl": url, "bearerTokenEnv": "TOKEN"},
            "c": {"type": "streamable-http", "serverUrl": url, "headers": {"Authorization": "Bearer ${TOKEN}"}},
            "shut": {"url": url},
        }})
        .to_string(),
    );
    let ran = run(&place, &["check", "--json"]);
    assert_eq!(ran.code, 8, "{}", ran.err);
    let ran = run(&place, &["tools", "a", "b", "c"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for id in ["a", "b", "c"] {
        assert!(ran.out.contains(&format!("{id}/echo(")), "{}", ran.out);
    }
    let ran = run(&place, &["config", "explain", "a"]);
    for part in [
        "/mcp",
        "Authorization: set, value hidden",
        "${TOKEN} comes from the environment",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert_eq!(run(&place, &["config", "check"]).code, 0);
    for args in [
        &["doctor"][..],
        &["doctor", "--json"],
        &["config", "list"],
        &["config", "explain", "b", "--json"],
    ] {
        run(&place, args);
    }
}

#[test]
fn bad_entries_are_named_with_their_line() {
    let place = Place::new("url-bad");
    place.write(
        "{\"mcpServers\": {\n\"a\": {\"url\": \"http://127.0.0.1:1/\", \"headers\": {\"Mcp-Session-Id\": \"x\"}},\n\"b\": \
         {\"url\": \"ftp://h/\"},\n\"c\": {\"url\": \"http://127.0.0.1:1/\", \"bearerTokenEnv\": \"GONE\"},\n\"d\": {\"url\": \
         \"http://127.0.0.1:1/\", \"caFile\": \"gone.pem\"}}}",
    );
    let ran = place.run(&["config", "check"]);
    assert_eq!(ran.code, 2);
    for part in [
        "servers.json:2: a: the header \"Mcp-Session-Id\" is set by the protocol",
        "servers.json:3: b: url: ftp: is not supported",
        "servers.json:4: c: bearerTokenEnv: GONE is not set",
        "servers.json:5: d: caFile ",
    ] {
        assert!(ran.out.contains(part), "{part}:\n{}", ran.out);
    }
}

#[test]
fn c218_a_project_sends_nothing_of_the_environment_unasked() {
    let place = Place::new("url-project");
    let server = Server::guarded();
    let config = json!({"mcpServers": {
        "asks": {"url": server.url(), "headers": {"Authorization": "Bearer ${TOKEN}"}},
        "open": {"url": server.url()},
    }});
    std::fs::write(place.path().join(".mcp.json"), config.to_string()).unwrap();
    let ran = run(&place, &["tools", "asks"]);
    assert_eq!(ran.code, 7, "{}", ran.err);
    assert!(
        ran.err
            .contains("nobody has approved what this project's file sends"),
        "{}",
        ran.err
    );
    assert!(server.peer.requests().is_empty());
    let ran = run(&place, &["tools", "asks", "--trust"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    // Without a secret there is nothing to approve: it is just not let in.
    let ran = run(&place, &["tools", "open"]);
    assert!(
        ran.err.contains("does not let this client in"),
        "{}",
        ran.err
    );
}

#[test]
fn what_went_wrong_is_said_with_a_way_out() {
    let place = Place::new("url-wrong");
    let page = || {
        Reply::status(200)
            .header("Content-Type", "text/html")
            .body("<html><title>Sign in</title></html>")
    };
    let servers = [
        (
            Server::start(|_| Reply::status(404)),
            4,
            "no MCP server at this URL",
            "/mcp, and /sse",
        ),
        (
            Server::start(|_| Reply::status(401)),
            7,
            "does not let this client in",
            "--bearer-env",
        ),
        (
            Server::start(|_| Reply::status(403)),
            7,
            "access is forbidden",
            "doctor",
        ),
        (
            Server::start(|_| Reply::status(500)),
            4,
            "HTTP 500",
            "--era legacy",
        ),
        (Server::start(move |_| page()), 4, "Sign in", "login"),
        (
            Server::start(|_| Reply::hang_up()),
            4,
            "closed the connection without one",
            "doctor",
        ),
    ];
    for (server, code, what, way_out) in &servers {
        let ran = place.run(&["tools", "--url", &server.url()]);
        assert_eq!(ran.code, *code, "{what}: {}", ran.err);
        assert!(
            ran.err.contains(what) && ran.err.contains(way_out),
            "{what}: {}",
            ran.err
        );
    }
    let (gone, ..) = servers.into_iter().next().unwrap();
    let url = gone.url();
    gone.runtime.block_on(gone.peer.stop_listening());
    gone.runtime.shutdown_timeout(Duration::from_secs(5));
    let ran = place.run(&["doctor", "--url", &url]);
    assert_eq!(ran.code, 4, "{}", ran.out);
    assert!(
        ran.out.contains("nothing listens on that port"),
        "{}",
        ran.out
    );
}

#[test]
fn options_that_do_not_go_together_are_refused() {
    let place = Place::new("url-usage");
    let cases: &[(&[&str], &str)] = &[
        (
            &["tools", "--url", "http://127.0.0.1:1/", "--", "x"],
            "two servers",
        ),
        (
            &["tools", "--bearer-env", "X", "--", "x"],
            "--bearer-env is for a server of --url",
        ),
        (
            &["tools", "-H", "A: b", "--demo"],
            "--header is for a server of --url",
        ),
        (
            &["tools", "--url", "http://127.0.0.1:1/", "--cwd", "/"],
            "--cwd is for a server command",
        ),
        (
            &["tools", "--url", "http://127.0.0.1:1/", "-H", "A"],
            "NAME: VALUE",
        ),
        (
            &["tools", "--url", "http://127.0.0.1:1/", "-H", "Accept: x"],
            "set by the protocol",
        ),
        (
            &[
                "tools",
                "--url",
                "http://127.0.0.1:1/",
                "--bearer-env",
                "GONE",
            ],
            "GONE is not set",
        ),
        (&["tools", "--url", "nonsense"], "not a URL"),
        (
            &["tools", "--url", "http://u:p@127.0.0.1:1/"],
            "user or a password",
        ),
    ];
    for (args, part) in cases {
        let ran = place.run(args);
        assert_eq!(ran.code, 2, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(part), "{args:?}: {}", ran.err);
    }
}
