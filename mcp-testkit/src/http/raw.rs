//! Servers on threads of their own, written with `std` alone: they send faster than any script.

use std::io::{Read as _, Result, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use serde_json::{Value, json};

/// A server on a thread of its own, which can send faster than any script: told the request's head and body, it writes.
pub fn raw_server(
    serve: impl Fn(&str, &str, &mut TcpStream) -> Result<()> + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("it is bound"));
    let serve = Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), serve) = (stream, Arc::clone(&serve)) else {
                return;
            };
            std::thread::spawn(move || {
                while let Ok((head, body)) = raw_request(&mut stream) {
                    if serve(&head, &body, &mut stream).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

fn raw_request(stream: &mut TcpStream) -> Result<(String, String)> {
    let end = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let mut read = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            return Err(end());
        }
        read.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&read).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.to_ascii_lowercase();
        let length = length
            .lines()
            .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())
            .unwrap_or(0);
        if body.len() >= length {
            return Ok((head.to_owned(), body.to_owned()));
        }
    }
}

/// Answers with JSON.
///
/// # Errors
/// When the client is gone.
pub fn raw_json(stream: &mut TcpStream, body: &Value) -> Result<()> {
    let body = body.to_string();
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

/// Answers the discovery of a modern server.
///
/// # Errors
/// When the client is gone.
pub fn raw_discovery(stream: &mut TcpStream, id: &Value) -> Result<()> {
    let result = json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        "resultType": "complete", "ttlMs": 0, "cacheScope": "private"});
    raw_json(
        stream,
        &json!({"jsonrpc": "2.0", "id": id, "result": result}),
    )
}

/// The head of an answer that is a stream of events, ended by closing.
pub const SSE_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
