//! Spans with the names that OpenTelemetry has for the protocol, and the trace in `_meta`.

use std::io::Write;
use std::sync::{Arc, Mutex};

use mcp_client::mcp_proto::meta::RequestMeta;
use mcp_client::{CallOptions, TraceContext};
use mcp_testkit::pair::{Reaction, say};
use serde_json::{Value, json};
use tracing_subscriber::fmt::format::FmtSpan;

use crate::scripted::{connect_with, options, result};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// The closed spans of this name.
    fn spans(&self, name: &str) -> Vec<String> {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let head = format!("{name}{{");
        let lines = text.lines().filter(|line| line.ends_with("close"));
        lines
            .filter(|line| line.contains(&head))
            .map(str::to_owned)
            .collect()
    }
}

fn server() -> impl FnMut(&Value) -> Vec<Reaction> + Send {
    move |message| {
        let id = &message["id"];
        let error = |code: i64| {
            say(
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}})
                    .to_string(),
            )
        };
        match message["method"].as_str() {
            Some("server/discover") => vec![result(
                id,
                &json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "resources": {}}}),
            )],
            Some("tools/call") => match message["params"]["name"].as_str() {
                Some("bad") => vec![result(id, &json!({"content": [], "isError": true}))],
                _ => vec![result(
                    id,
                    &json!({"content": [{"type": "text", "text": "the result"}]}),
                )],
            },
            _ => vec![error(-32602)],
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_spans_with_the_known_names() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt()
        .without_time()
        .with_ansi(false)
        .with_span_events(FmtSpan::CLOSE)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let (client, _) = connect_with(options(), server()).await;
    client
        .call_tool("add", &json!({"secret": "canary"}))
        .await
        .unwrap();
    client.call_tool("bad", &json!({})).await.unwrap();
    client.read_resource("note://1").await.unwrap_err();
    client.close().await;
    drop(client);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    drop(guard);

    let calls = lines.spans("call");
    let expected: [&[&str]; 3] = [
        &[
            "otel.name=tools/call add",
            "otel.kind=\"client\"",
            "server=\"scripted\"",
            "mcp.method.name=\"tools/call\"",
            "mcp.protocol.version=\"2026-07-28\"",
            "gen_ai.operation.name=\"execute_tool\"",
            "gen_ai.tool.name=\"add\"",
            "jsonrpc.request.id=2",
        ],
        &["error.type=\"tool_error\"", "otel.status_code=\"ERROR\""],
        &[
            "otel.name=resources/read",
            "mcp.resource.uri=\"note://1\"",
            "rpc.response.status_code=-32602",
            "error.type=-32602",
        ],
    ];
    assert_eq!(calls.len(), expected.len(), "{calls:#?}");
    for (call, expected) in calls.iter().zip(expected) {
        for part in expected {
            assert!(call.contains(part), "{part}: {call}");
        }
        assert!(
            !call.contains("canary") && !call.contains("the result"),
            "{call}"
        );
    }
    assert!(!calls[0].contains("error.type"), "{}", calls[0]);
    let connections = lines.spans("connection");
    assert_eq!(connections.len(), 1, "{connections:#?}");
    for part in [
        "mcp.protocol.version=\"2026-07-28\"",
        "network.transport=\"pipe\"",
    ] {
        assert!(connections[0].contains(part), "{connections:#?}");
    }
}

/// JR-54.
#[tokio::test(start_paused = true)]
async fn the_trace_goes_with_each_request() {
    let mut context = TraceContext::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
    context.tracestate = Some("a=1".to_owned());
    let traced = options().with_trace_context(move || Some(context.clone()));
    let (client, log) = connect_with(traced, server()).await;
    let own = RequestMeta::new().with_trace_context("00-own", None);
    let options = CallOptions::default().with_meta(own);
    client
        .call_tool_with("add", &json!({}), options)
        .await
        .unwrap();
    let received = log.received.lock().unwrap();
    let meta = &received.last().unwrap()["params"]["_meta"];
    assert_eq!(
        meta["traceparent"],
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    );
    assert_eq!(meta["tracestate"], "a=1");
}
