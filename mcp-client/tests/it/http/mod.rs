//! The client against scripted HTTP servers, in memory on tokio's paused clock, and over loopback where that matters.

mod answers;
mod hostile;
mod legacy;
mod modern;
mod old;
mod server_stream;
mod streams;

use std::time::Duration;

use mcp_client::http::{ConnectOptions, Dialer, HttpConnector, HttpServer, connect_with};
use mcp_client::{Client, ClientOptions, Error};
use mcp_testkit::http::{HttpPeer, Reply, Request};
use serde_json::{Value, json};

/// Longest that anything here may take, in virtual time.
const DEADLINE: Duration = Duration::from_secs(600);

fn options() -> ClientOptions {
    ClientOptions::new("test", "1").with_name("server")
}

/// The server of a peer in memory.
fn server(peer: &HttpPeer) -> HttpServer {
    let dialer = peer.dialer();
    let mut connect = ConnectOptions::default();
    connect.dialer = Some(Dialer::new(move |_, _| {
        let stream = dialer.dial();
        async move { Ok(stream) }
    }));
    let mut server = HttpServer::new("http://peer.test/mcp").unwrap();
    server.connect = connect;
    server
}

async fn connect_to(server: HttpServer, options: ClientOptions) -> Result<Client, Error> {
    let connector = HttpConnector::new(server).with_memory(None);
    tokio::time::timeout(DEADLINE, connect_with(connector, options))
        .await
        .expect("connecting ends")
}

async fn connect(peer: &HttpPeer) -> Client {
    connect_to(server(peer), options()).await.unwrap()
}

/// Calls `echo` and gives what came of it, with the causes of an error in one line.
async fn echo(client: &Client, text: &str) -> Result<String, String> {
    let arguments = json!({ "text": text });
    let call = client.call_tool("echo", &arguments);
    match tokio::time::timeout(DEADLINE, call).await {
        Ok(Ok(result)) => Ok(result.text()),
        Ok(Err(error)) => Err(chain(&error)),
        Err(_) => Err("hangs".to_owned()),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}

/// The methods that a peer got, in order; those of HTTP for requests without any.
fn methods(peer: &HttpPeer) -> Vec<String> {
    let name = |request: &Request| {
        request
            .rpc_method()
            .unwrap_or_else(|| request.method.clone())
    };
    peer.requests().iter().map(name).collect()
}

/// A result for the request.
fn result(request: &Request, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": request.rpc_id(), "result": result})
}

/// The result of a call with this text.
fn text(request: &Request, text: &str) -> Value {
    result(
        request,
        &json!({"content": [{"type": "text", "text": text}]}),
    )
}

/// An answer in JSON.
fn json_reply(answer: &Value) -> Reply {
    Reply::json(200, answer)
}
