//! Nothing that a client was given to keep is shown anywhere.

use std::sync::{Arc, Mutex};

use mcp_client::CallOptions;
use mcp_client::http::HttpServer;
use mcp_testkit::http::{HttpPeer, LegacyServer, ModernServer, Reply, Request};
use serde_json::json;

use super::SECOND;
use crate::http::{chain, connect_to, echo, options, server};

#[tokio::test(start_paused = true)]
async fn nothing_shows_the_query_of_a_url() {
    use mcp_client::http::{EraMemory, HttpConnector, connect_with};
    use mcp_client::transport::Connector as _;
    let peer = HttpPeer::memory(ModernServer::new().handler());
    let mut secret = HttpServer::new("http://peer.test/mcp?key=s3cret-key").unwrap();
    secret.connect = server(&peer).connect;
    let memory = EraMemory::new();
    let connector = HttpConnector::new(secret.clone()).with_memory(Some(memory.clone()));
    let client = connect_with(connector, options()).await.unwrap();
    let mut connector = HttpConnector::new(secret).with_memory(Some(memory.clone()));
    let channel = connector.open().await.unwrap();
    for shown in [
        format!("{client:?}"),
        format!("{:?}", client.channel_facts()),
        format!("{memory:?}"),
        format!("{connector:?}"),
        format!("{:?}", channel.control),
        format!("{:?}", channel.source),
        format!("{:?}", channel.sink),
    ] {
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_repeats_of_our_secrets_is_not_shown() {
    use mcp_client::http::HeaderProvider;
    // An error page that quotes the request's headers, as debug pages do.
    let peer = HttpPeer::memory(
        LegacyServer::new()
            .on("tools/call", |request| {
                let value = |name| request.header(name).unwrap_or_default().to_owned();
                let parts = [
                    value("authorization"),
                    value("x-key"),
                    value("mcp-session-id"),
                ];
                Some(Reply::status(403).body(format!("refused: {}", parts.join(", "))))
            })
            .handler(),
    );
    let provider = HeaderProvider::new(|_| async {
        Ok(vec![(
            "Authorization".to_owned(),
            "Bearer s3cret-token".to_owned(),
        )])
    });
    let server = server(&peer)
        .header("X-Key", "s3cret-key")
        .unwrap()
        .header_provider(provider);
    let client = connect_to(server, options()).await.unwrap();
    let error = client.call_tool("echo", &json!({})).await.unwrap_err();
    let shown = format!("{} {error:?} {:?}", chain(&error), client.diagnostics());
    assert!(shown.contains("refused"), "{shown}");
    for secret in ["s3cret-key", "s3cret-token", "session-1"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

/// Writes all that is logged into one text.
struct Logs(Arc<Mutex<String>>);

impl tracing::Subscriber for Logs {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut Line(&mut self.0.lock().unwrap()));
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut Line(&mut self.0.lock().unwrap()));
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut text = self.0.lock().unwrap();
        text.push_str(&format!("\n{}:", event.metadata().target()));
        event.record(&mut Line(&mut text));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

struct Line<'a>(&'a mut String);

impl tracing::field::Visit for Line<'_> {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_secret_is_logged() {
    use mcp_client::http::HeaderProvider;
    let text = Arc::default();
    let _logs = tracing::subscriber::set_default(Logs(Arc::clone(&text)));
    let shown = |request: &Request| {
        let head = format!("{} {:?}", request.target, request.headers);
        Some(Reply::status(429).header("Retry-After", "1").body(head))
    };
    let legacy = LegacyServer::new()
        .on("resources/list", shown)
        .on("GET", |_| Some(Reply::sse().chunk("id: 1\ndata: x\n\n")));
    let peer = HttpPeer::memory(legacy.clone().handler());
    let mut server = HttpServer::new("http://peer.test/mcp?key=s3cret-query")
        .unwrap()
        .header("X-Key", "s3cret-key")
        .unwrap()
        .header_provider(HeaderProvider::new(|_| async {
            let value = "Bearer s3cret-token".to_owned();
            Ok(vec![("Authorization".to_owned(), value)])
        }));
    server.connect = crate::http::server(&peer).connect;
    let client = connect_to(server, options()).await.unwrap();
    assert!(echo(&client, "a").await.is_ok());
    let error = client
        .request_raw("resources/list", None, CallOptions::default())
        .await
        .unwrap_err();
    legacy.forget_sessions();
    let _ = echo(&client, "a").await;
    assert!(echo(&client, "a").await.is_ok());
    tokio::time::sleep(60 * SECOND).await;
    peer.drop_connections().await;
    let _ = echo(&client, "a").await;
    let facts = format!("{:?} {:?}", client.channel_facts(), client.diagnostics());
    let report = client.close().await;
    let text: &Mutex<String> = &text;
    let text = text.lock().unwrap();
    assert!(text.contains("mcp_transport_http"), "{text}");
    let all = format!("{text} {} {error:?} {facts} {report:?}", chain(&error));
    for secret in ["s3cret", "session-1", "session-2"] {
        assert!(!all.contains(secret), "{secret} in {all}");
    }
}
