//! The peer against a client that is written out here, byte by byte.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;

const SOON: Duration = Duration::from_secs(5);

fn post(body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads exactly what is expected.
async fn expect(stream: &mut (impl tokio::io::AsyncRead + Unpin), text: &str) {
    let mut read = vec![0; text.len()];
    stream.read_exact(&mut read).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&read), text);
}

#[tokio::test]
async fn several_requests_come_on_one_connection() {
    let peer = HttpPeer::tcp(|request| Reply::json(200, &request.json())).await;
    let mut stream = TcpStream::connect(peer.addr()).await.unwrap();
    for number in 0..3 {
        let request = post(&json!({"id": number, "method": "m"}).to_string());
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{{\"id\":{number},\"method\":\"m\"}}"
        );
        expect(&mut stream, &answer).await;
    }
    let requests = peer.wait_for(3, SOON).await;
    assert_eq!(peer.connections(), 1);
    assert_eq!(peer.open_connections(), 1);
    assert_eq!(requests[2].sequence, 2);
    assert_eq!(requests[2].rpc_id(), 2);
    assert_eq!(requests[2].rpc_method().as_deref(), Some("m"));
    assert_eq!(requests[2].header("content-LENGTH"), Some("21"));
    drop(stream);
    peer.wait_closed(SOON).await;
    assert_eq!(peer.record().outcomes, [Outcome::Sent; 3]);
    assert!(peer.faults().is_empty());
}

#[tokio::test(start_paused = true)]
async fn closing_during_a_reply_is_seen() {
    let push = Push::new();
    let replies = push.clone();
    let peer = HttpPeer::memory(move |_| replies.reply());
    let mut stream = peer.dial();
    stream.write_all(post("{}").as_bytes()).await.unwrap();
    push.event(Some("1"), &json!(7));
    expect(&mut stream, "HTTP/1.1 200 OK\r\n").await;
    peer.wait_for(1, SOON).await;
    assert!(peer.aborted().is_empty());
    drop(stream);
    let aborted = peer.wait_aborted(1, SOON).await;
    assert_eq!(aborted[0].sequence, 0);
    peer.wait_closed(SOON).await;
    assert!(!push.event(None, &json!(8)));
}
