//! How much a client holds, in a process of its own: beside other tests it could not be told.

#![cfg(feature = "http")]

use std::io::Write as _;
use std::time::Duration;

use mcp_client::ClientOptions;
use mcp_client::http::{HttpServer, connect};
use mcp_testkit::http::raw::{SSE_HEAD, raw_discovery, raw_server};
use mcp_testkit::http::sse_event;
use serde_json::{Value, json};

#[tokio::test]
async fn a_hundred_megabytes_pass_in_bounded_memory() {
    // A hundred messages of a megabyte on one stream, written from one buffer and read no faster than they are handled.
    let url = raw_server(|_, body, stream| {
        let request: Value = serde_json::from_str(body).unwrap_or_default();
        if request["method"] == "server/discover" {
            return raw_discovery(stream, &request["id"]);
        }
        let message = json!({"jsonrpc": "2.0", "method": "notifications/vendor/big",
            "params": {"x": "y".repeat(1024 * 1024)}});
        let event = sse_event(None, &message);
        stream.write_all(SSE_HEAD)?;
        for _ in 0..100 {
            stream.write_all(&event)?;
        }
        let answer = json!({"jsonrpc": "2.0", "id": request["id"],
            "result": {"content": [{"type": "text", "text": "done"}]}});
        stream.write_all(&sse_event(None, &answer))?;
        stream.shutdown(std::net::Shutdown::Write)
    });
    let server = HttpServer::new(&url).unwrap();
    let client = connect(server, ClientOptions::new("test", "1"))
        .await
        .unwrap();
    let before = resident_bytes();
    let mut most = 0;
    let arguments = json!({});
    let mut call = std::pin::pin!(client.call_tool("echo", &arguments));
    let result = loop {
        tokio::select! {
            result = &mut call => break result.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(5)) => most = most.max(resident_bytes()),
        }
    };
    assert_eq!(result.text(), "done");
    let grown = most.saturating_sub(before) / 1024 / 1024;
    assert!(grown < 40, "{grown} MiB");
    client.close().await;
}

/// What this process holds, by the system's word.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let resident = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    resident.unwrap_or(0_u64) * 4096
}
