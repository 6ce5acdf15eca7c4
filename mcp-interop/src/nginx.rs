//! A server behind nginx: TLS and HTTP/2 in front, no buffering; and nginx as the cause of 502 and 504.

use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mcp_client::http::{HttpConnector, HttpServer, connect_with};
use mcp_client::{CallOptions, Client, ClientOptions, Error, progress_channel};
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::child::{Listening, free_port};
use crate::plan::Proxied;
use crate::report::{self, Row};

/// A result may come at most so long after the last progress, or progress was held back.
const STEP: Duration = Duration::from_millis(250);

/// A row that says only this.
pub(crate) fn failed(why: &str) -> Row {
    let mut row = Row::named("nginx");
    row.fail(why);
    row
}

/// Starts server and proxy and tries the client through them.
pub(crate) async fn try_proxy(proxied: &Proxied, work: &Path, mark: &str) -> Row {
    let start = Instant::now();
    let mut row = Row::named("nginx");
    row.over("Streamable HTTP");
    if let Err(error) = try_all(proxied, work, mark, &mut row).await {
        row.fail(&error);
    }
    row.took(start.elapsed());
    row
}

async fn try_all(proxied: &Proxied, work: &Path, mark: &str, row: &mut Row) -> Result<(), String> {
    let folder = work.join("nginx");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let authority = certificates(&folder)?;
    // Listens, accepts in the system's queue, and never answers.
    let silent = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .map_err(|error| error.to_string())?;
    let silent_port = silent
        .local_addr()
        .map_err(|error| error.to_string())?
        .port();
    let server_port = free_port()?;
    let backend = backend(proxied, work, server_port, mark).await?;
    let port = free_port()?;
    let configuration = folder.join("nginx.conf");
    let text = configuration_text(&folder, port, server_port, silent_port);
    std::fs::write(&configuration, text).map_err(|error| error.to_string())?;
    let mut command = Command::new(&proxied.nginx);
    command.arg("-p").arg(&folder).arg("-c").arg(&configuration);
    command.args(["-e", "stderr"]);
    let nginx = Listening::start(command, port, folder.join("output.log"), mark).await?;
    let ports = Ports {
        server: server_port,
        proxy: port,
    };
    let outcome = try_client(proxied, work, backend, ports, authority, mark, row).await;
    nginx.stop().await;
    outcome
}

async fn backend(
    proxied: &Proxied,
    work: &Path,
    port: u16,
    mark: &str,
) -> Result<Listening, String> {
    let mut command = Command::new(&proxied.command);
    command.args(&proxied.args).env("PORT", port.to_string());
    Listening::start(command, port, work.join("proxied.log"), mark).await
}

/// Where server and proxy listen.
#[derive(Clone, Copy)]
struct Ports {
    server: u16,
    proxy: u16,
}

async fn try_client(
    proxied: &Proxied,
    work: &Path,
    backend: Listening,
    ports: Ports,
    authority: String,
    mark: &str,
    row: &mut Row,
) -> Result<(), String> {
    let connect = |path: String| {
        let authority = authority.clone();
        async move {
            let url = format!("https://localhost:{}{path}", ports.proxy);
            let mut server = HttpServer::new(&url).expect("the URL is valid");
            server.connect.tls.extra_roots_pem = vec![authority.into()];
            let options = ClientOptions::new("mcp-interop", env!("CARGO_PKG_VERSION"));
            let connector = HttpConnector::new(server).with_memory(None);
            connect_with(connector, options.with_name("nginx")).await
        }
    };
    let path = &proxied.path;
    let client = connect(path.clone()).await.map_err(|e| report::chain(&e))?;
    let agreement = client.agreement();
    row.agreed(agreement.era.to_string(), agreement.version.to_string());
    if let Some(info) = &agreement.server_info {
        row.calls_itself(format!("{} {}", info.name, info.version));
    }
    let facts = client.channel_facts();
    if !facts.contains(&("http", "HTTP/2.0".to_owned())) {
        row.fail(&format!("not HTTP/2: {facts:?}"));
    }
    row.note("TLS with an authority of our own, HTTP/2");
    client.tools().await.map_err(|e| report::chain(&e))?;
    progress_is_not_held_back(&client, row).await?;

    // 502 and 504 before anything is agreed on: told with their status, and no reason to fall back.
    for (path, status) in [("/closed", 502), ("/silent", 504)] {
        match connect(path.to_owned()).await {
            Ok(_) => row.fail(&format!("{path} connects")),
            Err(error) => check_status(path, &error, status, row),
        }
    }

    // A stream that nginx cuts while the server works is resumed where it broke.
    let slow = connect(format!("/slow{path}"))
        .await
        .map_err(|e| report::chain(&e))?;
    let arguments = json!({"duration": 3, "steps": 1});
    match slow
        .call_tool("trigger-long-running-operation", &arguments)
        .await
    {
        Ok(result) if result.text().contains("completed") => {
            row.note("a stream cut after 1 s is resumed");
        }
        Ok(result) => row.fail(&format!("the slow call says {:?}", result.text())),
        Err(error) => row.fail(&format!("the slow call: {}", report::chain(&error))),
    }
    slow.close().await;

    // The server goes away and comes back: calls fail with 502, then the same client goes on in a new session.
    backend.stop().await;
    match client.call_tool("echo", &json!({"message": "a"})).await {
        Ok(_) => row.fail("a call succeeds without a server"),
        Err(error) => check_status("a call without a server", &error, 502, row),
    }
    let backend = self::backend(proxied, work, ports.server, mark).await?;
    let lost = client.call_tool("echo", &json!({"message": "b"})).await;
    let again = client.call_tool("echo", &json!({"message": "c"})).await;
    match (lost, again) {
        (Err(_), Ok(result)) if result.text().contains('c') => {
            row.note("the client goes on in a new session");
        }
        (lost, again) => row.fail(&format!(
            "after the restart: {:?}, {:?}",
            lost.map(|r| r.text()).map_err(|e| report::chain(&e)),
            again.map(|r| r.text()).map_err(|e| report::chain(&e)),
        )),
    }
    row.note(&format!("closed: {}", client.close().await.summary));
    backend.stop().await;
    Ok(())
}

fn check_status(what: &str, error: &Error, status: u16, row: &mut Row) {
    let text = report::chain(error);
    if error.http_status() == Some(status) && text.contains(&status.to_string()) {
        row.note(&format!("{what}: {status} is told"));
    } else {
        row.fail(&format!("{what}: expected {status}: {text}"));
    }
}

/// Progress arrives while the call runs.
async fn progress_is_not_held_back(client: &Client, row: &mut Row) -> Result<(), String> {
    let (sender, mut progress) = progress_channel();
    let options = CallOptions::default().with_progress(sender);
    let arguments = json!({"duration": 2, "steps": 4});
    let begun = Instant::now();
    let call = client.call_tool_with("trigger-long-running-operation", &arguments, options);
    let first = async {
        let first = progress.recv().await.map(|_| begun.elapsed());
        while progress.recv().await.is_some() {}
        first
    };
    let (result, first) = tokio::join!(call, first);
    result.map_err(|error| report::chain(&error))?;
    let took = begun.elapsed();
    match first {
        Some(first) if first + 2 * STEP < took => {
            row.note("progress is not held back");
        }
        first => row.fail(&format!(
            "the first progress came after {first:?} of {took:?}"
        )),
    }
    Ok(())
}

/// Writes a certificate for the proxy; returns that of its authority as PEM.
fn certificates(folder: &Path) -> Result<String, String> {
    let made = || {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let key = KeyPair::generate()?;
        let certificate =
            CertificateParams::new(vec!["localhost".to_owned()])?.signed_by(&key, &authority)?;
        Ok::<_, rcgen::Error>((authority.pem(), certificate.pem(), key.serialize_pem()))
    };
    let (authority, certificate, key) = made().map_err(|error| error.to_string())?;
    for (name, text) in [("certificate.pem", certificate), ("key.pem", key)] {
        std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
    }
    Ok(authority)
}

fn configuration_text(folder: &Path, port: u16, server: u16, silent: u16) -> String {
    let mut text = String::from("daemon off;\nmaster_process off;\nerror_log stderr;\n");
    // Writing to a string can't fail.
    let _ = write!(
        text,
        "pid {0};\nevents {{}}\nhttp {{\n  access_log off;\n  client_body_temp_path {1};\n  proxy_temp_path {1};\n  \
         fastcgi_temp_path {1};\n  uwsgi_temp_path {1};\n  scgi_temp_path {1};\n  server {{\n    listen 127.0.0.1:{port} \
         ssl http2;\n    ssl_certificate {2};\n    ssl_certificate_key {3};\n    proxy_http_version 1.1;\n    \
         proxy_buffering off;\n    proxy_set_header Connection \"\";\n    proxy_set_header Host 127.0.0.1:{server};\n    \
         location / {{ proxy_pass http://127.0.0.1:{server}; }}\n    location /slow/ {{ proxy_read_timeout 1s; proxy_pass \
         http://127.0.0.1:{server}/; }}\n    location /closed {{ proxy_pass http://127.0.0.1:1; }}\n    location /silent \
         {{ proxy_read_timeout 1s; proxy_pass http://127.0.0.1:{silent}; }}\n  }}\n}}\n",
        quoted(folder.join("nginx.pid")),
        quoted(folder.join("temp")),
        quoted(folder.join("certificate.pem")),
        quoted(folder.join("key.pem")),
    );
    text
}

fn quoted(path: PathBuf) -> String {
    format!("\"{}\"", path.display())
}
