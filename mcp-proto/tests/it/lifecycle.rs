//! The table of `mcp_proto::lifecycle`, row by row: what a peer answers, and where the connection ends up.

use std::time::Duration;

use mcp_proto::connection::ClientConfig;
use mcp_proto::lifecycle::EraPolicy::{self, Auto, Legacy, Modern};
use mcp_proto::version::Era;
use mcp_testkit::pair::{Pair, Peer};
use serde_json::json;

use crate::{config, with_policy};

/// The methods that were sent, and the last line of the transcript without its time.
fn outcome(config: ClientConfig, peer: Peer) -> (Vec<String>, String) {
    let pair = Pair::started(config, peer.script());
    let sent = pair
        .transcript()
        .lines()
        .filter_map(|line| {
            line.split_once(" C>S ")
                .map(|(_, rest)| rest.split(' ').next().unwrap_or("").to_owned())
        })
        .collect();
    let last = pair.transcript().lines().last().unwrap_or_default();
    (
        sent,
        last.split_once("s ")
            .map_or(last, |(_, rest)| rest)
            .to_owned(),
    )
}

fn check(policy: EraPolicy, peer: Peer, sent: &[&str], last: &str) {
    let (methods, end) = outcome(with_policy(policy), peer);
    assert_eq!(methods, sent, "sent; the end was {end:?}");
    assert_eq!(end, last);
}

const PROBE: &str = "server/discover";
const INITIALIZE: &str = "initialize";
const INITIALIZED: &str = "notifications/initialized";
const SHAKEN: &[&str] = &[PROBE, INITIALIZE, INITIALIZED];
const READY_LEGACY: &str = "* ready: legacy, 2025-11-25";
const READY_MODERN: &str = "* ready: modern, 2026-07-28";

fn legacy() -> Peer {
    Peer::legacy("2025-11-25").without(PROBE)
}

fn discovery(versions: &[&str]) -> serde_json::Value {
    json!({"supportedVersions": versions, "capabilities": {}})
}

fn unsupported(versions: &[&str]) -> String {
    let data = json!({"supported": versions, "requested": "2026-07-28"});
    format!(
        r#"{{"jsonrpc":"2.0","id":ID,"error":{{"code":-32022,"message":"version","data":{data}}}}}"#
    )
}

#[test]
fn idle_start() {
    check(Auto, Peer::modern(), &[PROBE], READY_MODERN);
    check(Modern, Peer::modern(), &[PROBE], READY_MODERN);
    check(Legacy, legacy(), &[INITIALIZE, INITIALIZED], READY_LEGACY);
    let mut hinted = config();
    hinted.hint = Some(Era::Legacy);
    assert_eq!(outcome(hinted, legacy()).0, [INITIALIZE, INITIALIZED]);
    // A hint that has become wrong costs one round (VER-55, VER-58).
    let mut hinted = config();
    hinted.hint = Some(Era::Legacy);
    let peer = Peer::modern().say(INITIALIZE, Duration::ZERO, &unsupported(&["2026-07-28"]));
    assert_eq!(
        outcome(hinted, peer),
        (
            vec![INITIALIZE.to_owned(), PROBE.to_owned()],
            READY_MODERN.to_owned()
        )
    );
}

#[test]
fn ver_51_c046_any_error_that_is_not_modern_falls_back() {
    for code in [
        -32601, -32602, -32600, -32603, -32700, -32000, -32001, -32003, -32004, -32019, -32023,
        -32099, 0, 1, 404,
    ] {
        check(
            Auto,
            legacy().error(PROBE, code, "no"),
            SHAKEN,
            READY_LEGACY,
        );
    }
}

#[test]
fn c046_answers_that_are_no_error_objects_fall_back() {
    let answers = [
        r#"{"jsonrpc":"2.0","id":ID,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":null}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":[]}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"supportedVersions":"2026-07-28"}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"error":"unknown method"}"#,
        r#"{"jsonrpc":"2.0","id":ID}"#,
        r#"{"jsonrpc":"2.0","id":"ID","error":{"code":-32601,"message":"id as text"}}"#,
    ];
    for answer in answers {
        let (sent, end) = outcome(config(), legacy().say(PROBE, Duration::ZERO, answer));
        assert_eq!(
            (sent.as_slice(), end.as_str()),
            (SHAKEN.map_owned().as_slice(), READY_LEGACY),
            "{answer}"
        );
    }
    // Plain text answers nothing, so it costs the probe's time; so does an error without an id.
    for answer in [
        "unknown method server/discover",
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}"#,
    ] {
        let pair = Pair::started(
            config(),
            legacy().say(PROBE, Duration::ZERO, answer).script(),
        );
        assert!(
            pair.transcript().contains("+3.000s C>S initialize"),
            "{answer}\n{}",
            pair.transcript()
        );
        assert!(
            pair.transcript().ends_with("* ready: legacy, 2025-11-25\n"),
            "{answer}"
        );
    }
}

/// `&[&str]` as owned strings.
trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for [&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

#[test]
fn ver_52_modern_errors_never_fall_back() {
    for code in [-32020, -32021] {
        let (sent, end) = outcome(config(), legacy().error(PROBE, code, "no"));
        assert_eq!(sent, [PROBE], "{code}");
        assert!(
            end.starts_with(&format!(
                "* failed: the server answered server/discover with error {code}"
            )),
            "{end}"
        );
    }
}

#[test]
fn ver_57_no_modern_version_in_common() {
    // The newest legacy version that both speak is opened with a handshake.
    let peer = Peer::legacy("2025-06-18")
        .without(PROBE)
        .result(PROBE, &discovery(&["2025-06-18", "2099-01-01"]));
    check(Auto, peer, SHAKEN, "* ready: legacy, 2025-06-18");
    let peer = Peer::legacy("2025-03-26").without(PROBE).say(
        PROBE,
        Duration::ZERO,
        &unsupported(&["2025-03-26"]),
    );
    check(Auto, peer, SHAKEN, "* ready: legacy, 2025-03-26");
    let both = |policy, ours: &str| {
        let peer = legacy().result(PROBE, &discovery(&["2099-01-01"]));
        check(
            policy,
            peer,
            &[PROBE],
            &format!(
                "* failed: no protocol version in common: the server speaks 2099-01-01, this client {ours} \
                 (the server/discover probe before it: the server speaks 2099-01-01)"
            ),
        );
    };
    both(
        Auto,
        "2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05",
    );
    both(Modern, "2026-07-28");
    // Modern only does not open a legacy version, whatever the server names.
    let (sent, end) = outcome(
        with_policy(Modern),
        legacy().result(PROBE, &discovery(&["2025-11-25"])),
    );
    assert_eq!(sent, [PROBE]);
    assert!(
        end.starts_with("* failed: no protocol version in common"),
        "{end}"
    );
}

#[test]
fn ver_40_a_version_error_never_loops() {
    // The server names the very version that was asked for: it is asked once more, and then it can't be satisfied.
    let refusal = unsupported(&["2026-07-28"]);
    let (sent, end) = outcome(config(), legacy().say(PROBE, Duration::ZERO, &refusal));
    assert_eq!(sent, [PROBE, PROBE]);
    assert!(
        end.starts_with("* failed: the server answered server/discover with error -32022"),
        "{end}"
    );
    // It may also name a legacy one.
    let refusal = unsupported(&["2026-07-28", "2025-11-25"]);
    let peer = legacy().say(PROBE, Duration::ZERO, &refusal);
    let sent = [PROBE, PROBE, INITIALIZE, INITIALIZED];
    check(Auto, peer, &sent, READY_LEGACY);
    // Whatever refused it has gone by then.
    let (mut first, mut then) = (
        Peer::silent()
            .say(PROBE, Duration::ZERO, &unsupported(&["2026-07-28"]))
            .script(),
        Peer::modern().script(),
    );
    let mut probes = 0;
    let pair = Pair::started(config(), move |message: &serde_json::Value| {
        probes += 1;
        if probes == 1 {
            first(message)
        } else {
            then(message)
        }
    });
    assert_eq!(pair.connection.agreement().unwrap().era, Era::Modern);
    // No data at all.
    let (sent, end) = outcome(config(), legacy().error(PROBE, -32022, "version"));
    assert_eq!(sent, [PROBE]);
    assert!(end.contains("the server speaks none"), "{end}");
}

#[test]
fn c047_silence_falls_back_on_the_same_channel() {
    let pair = Pair::started(config(), legacy().script());
    assert!(
        pair.transcript().contains("+3.000s C>S initialize id=2"),
        "{}",
        pair.transcript()
    );
    assert!(
        !pair.transcript().contains("cancelled"),
        "the probe is not cancelled: {}",
        pair.transcript()
    );
    assert_eq!(pair.connection.agreement().unwrap().era, Era::Legacy);
    // Where nothing else is allowed, the probe has all the time there is.
    let pair = Pair::started(with_policy(Modern), Peer::silent().script());
    let last = pair.transcript().lines().last().unwrap();
    assert_eq!(
        last,
        "+30.000s * failed: the server does not speak the modern era, and the era is pinned to it \
         (the server/discover probe before it: no answer within 30s)"
    );
}

#[test]
fn ver_56_late_probe_answers_are_used_or_ignored() {
    let late = |answer: &str| format!(r#"{{"jsonrpc":"2.0","id":1,{answer}}}"#);
    let found = late(r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{}}"#);
    let second = Duration::from_secs(1);

    // The discovery comes in the middle of the handshake; the server refuses the handshake: it is modern after all.
    let peer = Peer::silent().say(INITIALIZE, second, &found).say(
        INITIALIZE,
        2 * second,
        r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32601,"message":"no"}}"#,
    );
    check(Auto, peer, &[PROBE, INITIALIZE], READY_MODERN);

    // The server takes the handshake: then that is what counts.
    let mut peer = Peer::silent().say(INITIALIZE, second, &found);
    let result = r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"p","version":"1"}}"#;
    peer = peer.say(
        INITIALIZE,
        2 * second,
        &format!(r#"{{"jsonrpc":"2.0","id":ID,"result":{result}}}"#),
    );
    check(Auto, peer, SHAKEN, READY_LEGACY);

    // A late error, and a late answer after the handshake: ignored, and noted.
    let peer = legacy().say(
        INITIALIZED,
        second,
        &late(r#""error":{"code":-32601,"message":"no"}"#),
    );
    check(Auto, peer, SHAKEN, "* note: late answer to 1");
}

#[test]
fn c048_a_server_that_ends_over_the_probe_is_opened_again() {
    check(
        Auto,
        legacy().ends(PROBE, "the server exited"),
        SHAKEN,
        READY_LEGACY,
    );
    let (sent, end) = outcome(
        with_policy(Modern),
        legacy().ends(PROBE, "the server exited"),
    );
    assert_eq!(sent, [PROBE]);
    assert_eq!(
        end,
        "* failed: the connection ended before server/discover was answered: the server exited"
    );
    // Once: a second end is a failure, and both causes are told.
    let peer = Peer::silent()
        .ends(PROBE, "first exit")
        .ends(INITIALIZE, "second exit");
    check(
        Auto,
        peer,
        &[PROBE, INITIALIZE],
        "* failed: the connection ended before initialize was answered: second exit \
         (the server/discover probe before it: the connection ended (first exit))",
    );
}

#[test]
fn c048_a_server_that_answers_the_probe_and_then_exits_is_opened_again() {
    // It refuses the probe, and is gone before it has seen the handshake.
    let mut first = true;
    let mut base = Peer::legacy("2025-11-25").script();
    let mut pair = Pair::new(config(), move |message| {
        if message["method"] == INITIALIZE && std::mem::take(&mut first) {
            return vec![mcp_testkit::pair::end("the server exited with status 1")];
        }
        base(message)
    });
    pair.start();
    assert!(
        pair.transcript().ends_with("* ready: legacy, 2025-11-25\n"),
        "{}",
        pair.transcript()
    );
    assert_eq!(pair.transcript().matches("* reopen").count(), 1);
    // Once.
    let peer = Peer::silent()
        .error(PROBE, -32601, "no")
        .ends(INITIALIZE, "it exited");
    check(
        Auto,
        peer,
        &[PROBE, INITIALIZE, INITIALIZE],
        "* failed: the connection ended before initialize was answered: it exited \
         (the server/discover probe before it: the server answered with error -32601: no)",
    );
}

#[test]
fn a_reopening_that_fails_keeps_both_causes() {
    let mut connection = mcp_proto::connection::ClientConnection::<()>::new(config());
    let now = std::time::Instant::now();
    connection.start(now);
    connection.handle_channel_end(mcp_proto::ChannelEnd::new("it exited"), now);
    connection.handle_reopen_failed("no such file", now);
    assert_eq!(
        connection.handshake_error().unwrap().to_string(),
        "the server could not be started again: no such file (the server/discover probe before it: the connection ended (it exited))"
    );
}

#[test]
fn ver_13_c051_c052_the_servers_version_wins_if_we_know_it() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        check(
            Legacy,
            Peer::legacy(version),
            &[INITIALIZE, INITIALIZED],
            &format!("* ready: legacy, {version}"),
        );
    }
    // Unknown, from the future, or modern: those have no handshake.
    for version in ["1999-01-01", "2024-10-07", "2026-07-28", "2099-01-01", ""] {
        let (sent, end) = outcome(with_policy(Legacy), Peer::legacy(version));
        assert_eq!(sent, [INITIALIZE], "{version}");
        assert!(
            end.starts_with(&format!(
                "* failed: no protocol version in common: the server speaks {version}"
            )),
            "{end}"
        );
        assert!(
            end.contains("this client 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05"),
            "{end}"
        );
    }
    let mut tolerant = with_policy(Legacy);
    tolerant.tolerate_older_version = true;
    assert_eq!(
        outcome(tolerant.clone(), Peer::legacy("2024-10-07")).1,
        "* ready: legacy, 2024-10-07"
    );
    assert!(
        outcome(tolerant, Peer::legacy("2099-01-01"))
            .1
            .starts_with("* failed")
    );
    for result in [
        json!({}),
        json!({"protocolVersion": null}),
        json!({"protocolVersion": 7}),
        json!([]),
        json!(null),
    ] {
        let (_, end) = outcome(
            with_policy(Legacy),
            Peer::silent().result(INITIALIZE, &result),
        );
        assert!(
            end.starts_with("* failed: the result of initialize is not valid: it "),
            "{result}: {end}"
        );
    }
}

#[test]
fn ver_18_a_handshake_is_tried_again_at_a_version_that_the_error_names() {
    let refusal = |versions: &[&str]| {
        let data = json!({"supported": versions, "requested": "2025-11-25"});
        format!(
            r#"{{"jsonrpc":"2.0","id":ID,"error":{{"code":-32602,"message":"version","data":{data}}}}}"#
        )
    };
    let mut offered = Vec::new();
    let mut pair = Pair::new(with_policy(Legacy), move |message| {
        let id = &message["id"];
        if message["method"] != INITIALIZE {
            return vec![];
        }
        offered.push(
            message["params"]["protocolVersion"]
                .as_str()
                .unwrap()
                .to_owned(),
        );
        let answer = if offered.len() == 1 {
            refusal(&["2025-03-26", "2024-11-05"]).replace("ID", &id.to_string())
        } else {
            assert_eq!(offered, ["2025-11-25", "2025-03-26"]);
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-03-26","capabilities":{{}}}}}}"#
            )
        };
        vec![mcp_testkit::pair::say(answer)]
    });
    pair.start();
    assert!(
        pair.transcript().ends_with("* ready: legacy, 2025-03-26\n"),
        "{}",
        pair.transcript()
    );
    // Once.
    let (sent, end) = outcome(
        with_policy(Legacy),
        Peer::silent().say(INITIALIZE, Duration::ZERO, &refusal(&["2025-03-26"])),
    );
    assert_eq!(sent, [INITIALIZE, INITIALIZE]);
    assert!(
        end.starts_with("* failed: the server answered initialize with error -32602"),
        "{end}"
    );
}

#[test]
fn ver_58_a_refused_handshake_leads_to_one_probe_at_most() {
    // The probe was met with silence, the refusal names the modern version, the second probe is met with silence too.
    let peer = Peer::silent().say(INITIALIZE, Duration::ZERO, &unsupported(&["2026-07-28"]));
    let (sent, end) = outcome(config(), peer);
    assert_eq!(sent, [PROBE, INITIALIZE, PROBE]);
    assert_eq!(
        end,
        "* failed: the server answered initialize with error -32022: version \
         (the server/discover probe before it: no answer within 3s)"
    );
    // A server that answered the probe with an error is not asked again.
    let peer = Peer::silent().error(PROBE, -32601, "no").say(
        INITIALIZE,
        Duration::ZERO,
        &unsupported(&["2026-07-28"]),
    );
    assert_eq!(outcome(config(), peer).0, [PROBE, INITIALIZE]);
}

#[test]
fn c042_the_start_has_one_budget() {
    // The first run of a package runner: nothing for 25 s, then both answers.
    let slow = Duration::from_secs(22);
    let peer = Peer::silent()
        .say(INITIALIZE, slow, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}"#)
        .say(INITIALIZE, slow, r#"{"jsonrpc":"2.0","id":ID,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"p","version":"1"}}}"#);
    check(Auto, peer, SHAKEN, READY_LEGACY);
    let pair = Pair::started(config(), Peer::silent().script());
    assert_eq!(
        pair.transcript().lines().last().unwrap(),
        "+30.000s * failed: initialize timed out after 27s in all (the server/discover probe before it: no answer within 3s)"
    );
}

#[test]
fn a_short_start_leaves_time_for_the_handshake_after_a_silent_probe() {
    let mut hasty = config();
    hasty.start_timeout = Duration::from_secs(2);
    let pair = Pair::started(hasty, legacy().script());
    assert!(
        pair.transcript().contains("+1.000s C>S initialize"),
        "{}",
        pair.transcript()
    );
    assert!(
        pair.transcript().ends_with("* ready: legacy, 2025-11-25\n"),
        "{}",
        pair.transcript()
    );
}

#[test]
fn failures_and_closing_are_final() {
    let mut pair = Pair::started(
        with_policy(Legacy),
        Peer::silent().ends(INITIALIZE, "gone").script(),
    );
    let now = pair.now();
    pair.connection.handle_channel_opened(now);
    pair.connection.start(now);
    pair.connection
        .handle_timeout(now + Duration::from_secs(1000));
    pair.run();
    assert!(
        pair.transcript()
            .lines()
            .last()
            .unwrap()
            .contains("* failed"),
        "{}",
        pair.transcript()
    );

    let mut pair = Pair::started(with_policy(Legacy), legacy().script());
    pair.connection.close(now);
    pair.connection.close(now);
    pair.run();
    assert_eq!(pair.transcript().matches("* closed").count(), 1);
}
