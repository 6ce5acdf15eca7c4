//! Whole conversations, as they would be read in a log.

use std::time::Duration;

use mcp_jsonrpc::Deadline;
use mcp_proto::connection::{ClientConfig, RequestOptions};
use mcp_proto::lifecycle::EraPolicy;
use mcp_proto::method::{CallTool, ListTools};
use mcp_proto::model::page::ListParams;
use mcp_proto::model::tool::CallToolParams;
use mcp_testkit::pair::{Pair, Peer};
use serde_json::json;
use serde_json::value::RawValue;

use crate::{config, with_policy};

/// A session: list, call with progress, a call that times out, close.
fn session(config: ClientConfig, peer: Peer) -> Pair {
    let progress = |value: u64| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":ID,"progress":{value}}}}}"#
        )
    };
    let second = Duration::from_secs(1);
    let list = json!({"resultType": "complete", "tools": [{"name": "count", "inputSchema": {"type": "object"}}], "ttlMs": 0});
    let peer = peer
        .result("tools/list", &list)
        .say("tools/call", second, &progress(1))
        .say("tools/call", 2 * second, &progress(2))
        .say("tools/call", 3 * second, r#"{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}}"#);
    let mut pair = Pair::started(config, peer.script());
    let now = pair.now();
    pair.connection
        .request::<ListTools>(
            &ListParams::default(),
            &RequestOptions::default(),
            "list",
            now,
        )
        .unwrap();
    pair.run();
    let arguments = RawValue::from_string(r#"{"to":2}"#.to_owned()).unwrap();
    let params = CallToolParams::new("count", &arguments).unwrap();
    let mut options = RequestOptions::default();
    options.progress = true;
    options.deadline = Deadline::new(Some(2 * second), None);
    let now = pair.now();
    pair.connection
        .request::<CallTool>(&params, &options, "call", now)
        .unwrap();
    pair.run();
    options.deadline = Deadline::total(2 * second);
    options.progress = false;
    let now = pair.now();
    pair.connection
        .request::<CallTool>(&params, &options, "impatient", now)
        .unwrap();
    pair.run();
    let now = pair.now();
    pair.connection.close(now);
    pair.run();
    pair
}

#[test]
fn legacy_session_after_a_probe() {
    insta::assert_snapshot!(session(config(), Peer::legacy("2025-11-25")).transcript());
}

#[test]
fn legacy_session_pinned() {
    insta::assert_snapshot!(
        session(with_policy(EraPolicy::Legacy), Peer::legacy("2024-11-05")).transcript()
    );
}

#[test]
fn modern_session() {
    insta::assert_snapshot!(session(config(), Peer::modern()).transcript());
}

#[test]
fn a_server_that_exits_on_the_probe() {
    let peer = Peer::legacy("2025-06-18")
        .without("server/discover")
        .ends("server/discover", "the server exited with status 1");
    insta::assert_snapshot!(session(config(), peer).transcript());
}
