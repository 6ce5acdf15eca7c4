//! Servers that are hostile or sloppy: what must hold whatever they do.

mod answers;
mod ends;
mod limits;
mod old;
mod secrets;
mod sessions;
mod streams;

use std::time::Duration;

use mcp_client::mcp_jsonrpc::Deadline;
use mcp_client::{CallOptions, ErrorKind};
use mcp_testkit::http::HttpPeer;
use serde_json::json;

use super::{chain, methods};

const SECOND: Duration = Duration::from_secs(1);

/// A call with limits of its own, and what came of it.
async fn call_within(
    client: &mcp_client::Client,
    total: Duration,
) -> Result<String, (ErrorKind, String)> {
    let limits = CallOptions::default().with_deadline(Deadline::total(total));
    let arguments = json!({"text": "a"});
    match client.call_tool_with("echo", &arguments, limits).await {
        Ok(result) => Ok(result.text()),
        Err(error) => Err((error.kind(), chain(&error))),
    }
}

fn count(peer: &HttpPeer, method: &str) -> usize {
    let methods = methods(peer);
    methods.iter().filter(|known| *known == method).count()
}
