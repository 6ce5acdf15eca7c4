//! Servers over HTTP: started on a port of loopback, reached through a proxy that records what is asked.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use mcp_client::ClientOptions;
use mcp_client::http::{HttpConnector, HttpServer, connect_with};
use mcp_client::mcp_proto::lifecycle::EraPolicy;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::process::Command;

use crate::child::{Listening, free_port};
use crate::exercise::exercise;
use crate::plan::{Http, Server};
use crate::recorder::Recorder;
use crate::report::{self, Row};

/// Most connections that a client may need: one for calls, one for each stream that stays open, one at the end.
const MOST_CONNECTIONS: usize = 6;

/// Starts a server, tries it over HTTP, closes the connection and looks whether the session is gone.
pub(crate) async fn try_server(server: &Server, http: &Http, work: &Path, mark: &str) -> Row {
    let start = Instant::now();
    let mut row = Row::new(server);
    row.over(&http.transport);
    match started(server, work, mark).await {
        Ok(listening) => {
            if let Err(error) = try_started(server, http, listening.address, &mut row).await {
                row.fail(&error);
            }
            listening.stop().await;
        }
        Err(error) => row.fail(&error),
    }
    row.took(start.elapsed());
    row
}

async fn started(server: &Server, work: &Path, mark: &str) -> Result<Listening, String> {
    let port = free_port()?;
    let mut command = Command::new(&server.command);
    command
        .args(&server.args)
        .arg(port.to_string())
        .env("PORT", port.to_string());
    let output = work.join(format!("{}-{port}.log", server.name.replace(' ', "-")));
    Listening::start(command, port, output, mark).await
}

async fn try_started(
    server: &Server,
    http: &Http,
    address: SocketAddr,
    row: &mut Row,
) -> Result<(), String> {
    let recorder = Recorder::start(address).await?;
    let url = format!("http://{}{}", recorder.address, http.path);
    let remote = HttpServer::new(&url).map_err(|error| error.to_string())?;
    let mut options =
        ClientOptions::new("mcp-interop", env!("CARGO_PKG_VERSION")).with_name(&server.name);
    if http.era.as_deref() == Some("legacy") {
        options.config.policy = EraPolicy::Legacy;
    }
    let connector = HttpConnector::new(remote).with_memory(None);
    let client = connect_with(connector, options)
        .await
        .map_err(|error| report::chain(&error))?;
    exercise(&client, server, row).await;
    let facts = client.channel_facts();
    let fact = |name: &str| {
        let found = facts.iter().find(|(known, _)| *known == name);
        found.map_or("-", |(_, value)| value.as_str())
    };
    if fact("transport") != http.transport {
        row.fail(&format!("the transport is {}", fact("transport")));
    }
    if (fact("session") == "held") != http.has_session {
        row.fail(&format!("the session is {}", fact("session")));
    }
    let report = client.close().await;
    row.note(&format!("closed: {}", report.summary));
    let connections = recorder.connections();
    row.note(&format!("{connections} connections"));
    if connections > MOST_CONNECTIONS {
        row.fail(&format!("{connections} connections for one client"));
    }
    if http.has_session {
        let session = recorder
            .session("DELETE")
            .ok_or("no DELETE with a session was seen")?;
        let status = status_with(address, &http.path, &session).await?;
        if (400..500).contains(&status) {
            row.note(&format!("its session is gone ({status})"));
        } else {
            row.fail(&format!(
                "after the DELETE its session still answers: {status}"
            ));
        }
    } else if !recorder.heads("DELETE").is_empty() {
        row.fail("a DELETE without a session");
    }
    Ok(())
}

/// The status of a request in this session, asked without our client.
async fn status_with(address: SocketAddr, path: &str, session: &str) -> Result<u16, String> {
    let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\nAccept: application/json, \
         text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: {session}\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let asking = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(request.as_bytes()).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&head).into_owned())
    };
    let head = tokio::time::timeout(Duration::from_secs(10), asking)
        .await
        .map_err(|_| "the server does not answer a request in a deleted session".to_owned())?
        .map_err(|error| error.to_string())?;
    head.get(9..12)
        .and_then(|status| status.parse().ok())
        .ok_or_else(|| format!("no status: {head:?}"))
}
