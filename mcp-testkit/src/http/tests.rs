//! The peer against a client that is written out here, byte by byte.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::*;

const SOON: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

fn post(body: &str) -> String {
    let length = body.len();
    format!("POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}")
}

async fn read_to_end(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut all = Vec::new();
    let reading = stream.read_to_end(&mut all);
    tokio::time::timeout(SOON, reading).await.unwrap().unwrap();
    String::from_utf8(all).unwrap()
}

/// Reads exactly what is expected.
async fn expect(stream: &mut (impl AsyncRead + Unpin), text: &str) {
    let mut read = vec![0; text.len()];
    let reading = stream.read_exact(&mut read);
    let done = tokio::time::timeout(SOON, reading).await;
    done.unwrap_or_else(|_| panic!("{text:?} did not come"))
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&read), text);
}

/// A peer in memory with one connection, on which a request was sent already.
async fn asked(
    reply: impl Fn() -> Reply + Send + Sync + 'static,
) -> (HttpPeer, tokio::io::DuplexStream) {
    let peer = HttpPeer::memory(move |_| reply());
    let mut stream = peer.dial();
    stream.write_all(post("{}").as_bytes()).await.unwrap();
    (peer, stream)
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
    assert_eq!(requests[2].connection, 0);
    assert_eq!(requests[2].rpc_id(), 2);
    assert_eq!(requests[2].rpc_method().as_deref(), Some("m"));
    assert_eq!(requests[2].header("content-LENGTH"), Some("21"));
    assert_eq!(requests[2].header("none"), None);
    drop(stream);
    peer.wait_closed(SOON).await;
    assert_eq!(peer.record().outcomes, [Outcome::Sent; 3]);
    assert!(peer.faults().is_empty());
    let other = TcpStream::connect(peer.addr()).await.unwrap();
    peer.wait_until("the second", SOON, |record| record.connections == 2)
        .await;
    drop(other);
}

#[tokio::test]
async fn requests_are_read_however_they_are_cut_and_framed() {
    let chunked = "PUT /a?b=c HTTP/1.1\r\nHost:x\r\nTransfer-Encoding: chunked\r\n\r\n3;e=1\r\nabc\r\nA \r\n0123456789\r\n0\r\nT: x\r\n\r\n";
    let plain = post("four");
    let bare = "GET / HTTP/1.1\r\nhost: \t y z \t\r\nX-Empty:\r\n\r\n";
    let all = [chunked, &plain, bare].concat();
    let peer = HttpPeer::memory(|_| Reply::status(204));
    let mut connections = 0;
    for at in 0..all.len() {
        let mut stream = peer.dial();
        let (first, second) = all.as_bytes().split_at(at);
        stream.write_all(first).await.unwrap();
        // Whatever can be read of it is read before the rest is there.
        tokio::task::yield_now().await;
        stream.write_all(second).await.unwrap();
        connections += 1;
        let requests = peer.wait_for(3 * connections, SOON).await;
        let [chunked, plain, bare] = &requests[3 * (connections - 1)..] else {
            panic!("three at a time");
        };
        assert_eq!((&*chunked.method, &*chunked.target), ("PUT", "/a?b=c"));
        assert_eq!(chunked.path(), "/a");
        assert_eq!(chunked.body, b"abc0123456789");
        assert_eq!(plain.body, b"four");
        assert_eq!(bare.header("Host"), Some("y z"));
        assert_eq!(bare.header("X-Empty"), Some(""));
        assert!(bare.body.is_empty());
        drop(stream);
    }
    peer.wait_closed(SOON).await;
    assert_eq!(peer.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn what_is_no_request_is_refused_and_recorded() {
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}", "a".repeat(64 * 1024));
    let cases = [
        ("GET / HTTP/1.0\r\nHost: x\r\n\r\n", "not a request line"),
        ("GET  / HTTP/1.1\r\nHost: x\r\n\r\n", "not a request line"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not a request line"),
        ("G@T / HTTP/1.1\r\nHost: x\r\n\r\n", "not a method"),
        ("GET / HTTP/1.1\r\n\r\n", "Host"),
        ("GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", "Host"),
        ("GET / HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n", "not a header"),
        ("GET / HTTP/1.1\r\nHost: x\r\n a: b\r\n\r\n", "not a header"),
        (
            "GET / HTTP/1.1\r\nHost: x\r\nA: b\nC: d\r\n\r\n",
            "not a header",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\n1",
            "not a length",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n1",
            "not a length",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n1",
            "framing",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "framing",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n",
            "framing",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
            "size of a chunk",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
            "size of a chunk",
        ),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
            "longer than it said",
        ),
        (&long, "longer than 65536"),
    ];
    for (request, why) in cases {
        let peer = HttpPeer::memory(|_| Reply::status(204));
        let mut stream = peer.dial();
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_to_end(&mut stream).await;
        assert!(
            answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
            "{request:?}: {answer}"
        );
        drop(stream);
        peer.wait_closed(SOON).await;
        assert!(peer.requests().is_empty(), "{request:?}");
        let faults = peer.faults();
        assert!(
            faults.len() == 1 && faults[0].contains(why),
            "{request:?}: {faults:?}"
        );
    }
}

#[tokio::test]
async fn requests_that_end_early_are_faults_and_idle_ends_are_none() {
    for (request, why) in [
        ("GET / HT", Some("in the middle of a head")),
        (
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc",
            Some("in the middle of a body"),
        ),
        ("", None),
    ] {
        let peer = HttpPeer::memory(|_| Reply::status(204));
        let mut stream = peer.dial();
        stream.write_all(request.as_bytes()).await.unwrap();
        drop(stream);
        peer.wait_closed(SOON).await;
        let faults = peer.faults();
        assert_eq!(
            faults.len(),
            usize::from(why.is_some()),
            "{request:?}: {faults:?}"
        );
        assert!(why.is_none_or(|why| faults[0].contains(why)), "{faults:?}");
    }
}

#[tokio::test]
async fn heads_of_sixty_kilobytes_are_read() {
    let peer = HttpPeer::memory(|_| Reply::status(204));
    let mut stream = peer.dial();
    let value = "a".repeat(60 * 1024);
    let request = format!("GET / HTTP/1.1\r\nHost: x\r\nA: {value}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let requests = peer.wait_for(1, SOON).await;
    assert_eq!(requests[0].header("a"), Some(&*value));
}

#[tokio::test(start_paused = true)]
async fn replies_are_sent_as_they_are_built() {
    let cases: [(Reply, &str); 15] = [
        (
            Reply::status(202),
            "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        ),
        (Reply::status(204), "HTTP/1.1 204 No Content\r\n\r\n"),
        (
            Reply::json(400, &json!({"a": 1})).header("X", "y"),
            "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nX: y\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
        ),
        (
            Reply::sse(),
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ),
        (
            Reply::status(200)
                .event(Some("7"), &json!({"a": 1}))
                .event(None, &json!(2)),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n15\r\nid: 7\ndata: {\"a\":1}\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n",
        ),
        (
            Reply::status(200)
                .chunk("ab")
                .chunk("")
                .wait(SECOND)
                .chunk("c")
                .step(Step::EndChunks),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
        ),
        (
            Reply::status(200).chunk("ab").body("first"),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n2\r\nab\r\n0\r\n\r\n",
        ),
        // Cut off in the middle of the chunks.
        (
            Reply::status(200).chunk("ab").step(Step::CloseConnection),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
        ),
        (
            Reply::status(200)
                .unframed()
                .body("until the end")
                .closing(),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
        ),
        // A length that lies.
        (
            Reply::status(200).header("content-length", "9").body("abc"),
            "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc",
        ),
        // Both framings at once.
        (
            Reply::status(200)
                .header("Content-Length", "1")
                .header("Transfer-Encoding", "chunked")
                .chunk("ab"),
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n",
        ),
        (
            Reply::status(599)
                .first(Step::Bytes(b"HTTP/1.1 103 Early\r\n\r\n".to_vec()))
                .first(Step::Wait(SECOND)),
            "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 599 Scripted\r\nContent-Length: 0\r\n\r\n",
        ),
        (Reply::raw("no HTTP").header("A", "b").body("c"), "no HTTP"),
        (Reply::in_pieces(b"abcdefg", 3), "abcdefg"),
        (Reply::hang_up(), ""),
    ];
    for (reply, wire) in cases {
        assert_eq!(String::from_utf8(reply.wire()).unwrap(), wire);
        let reply = std::sync::Mutex::new(Some(reply));
        let (peer, mut stream) = asked(move || reply.lock().unwrap().take().unwrap()).await;
        expect(&mut stream, wire).await;
        peer.wait_until("sent", SOON, |record| record.outcomes == [Outcome::Sent])
            .await;
        drop(stream);
        peer.wait_closed(SOON).await;
        assert!(peer.aborted().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn cut_replies_come_in_two_reads() {
    let raw = Reply::json(200, &json!({"a": "é"})).wire();
    let mut cuts = 0;
    for (index, reply) in Reply::cut_at_every(&raw).enumerate() {
        let reply = std::sync::Mutex::new(Some(reply));
        let (_peer, mut stream) = asked(move || reply.lock().unwrap().take().unwrap()).await;
        let mut buffer = vec![0; raw.len()];
        let first = stream.read(&mut buffer).await.unwrap();
        assert_eq!(first, index + 1);
        let second = stream.read(&mut buffer[first..]).await.unwrap();
        assert_eq!(first + second, raw.len());
        assert_eq!(buffer, raw);
        cuts += 1;
    }
    assert_eq!(cuts, raw.len() - 1);
}

#[tokio::test(start_paused = true)]
async fn steps_wait_for_the_clock_and_for_gates() {
    let gate = Gate::new();
    let in_reply = gate.clone();
    let (_peer, mut stream) = asked(move || {
        let reply = Reply::nothing()
            .wait(SECOND)
            .step(Step::Bytes(b"a".to_vec()));
        reply
            .step(Step::Until(in_reply.clone()))
            .step(Step::Bytes(b"b".to_vec()))
    })
    .await;
    let start = Instant::now();
    expect(&mut stream, "a").await;
    assert_eq!(start.elapsed(), SECOND);
    gate.reached(1).await;
    let blocked = tokio::time::timeout(SECOND, stream.read_u8()).await;
    assert!(blocked.is_err());
    gate.open();
    expect(&mut stream, "b").await;
    gate.wait().await;
}

#[tokio::test]
async fn connections_end_in_order_or_by_a_reset() {
    let peer = HttpPeer::tcp(|request: Request| match request.path() {
        "/mcp" => Reply::status(200)
            .header("Content-Length", "9")
            .step(Step::Reset),
        _ => Reply::hang_up(),
    })
    .await;
    let mut stream = TcpStream::connect(peer.addr()).await.unwrap();
    stream.write_all(post("").as_bytes()).await.unwrap();
    let mut all = Vec::new();
    let error = stream.read_to_end(&mut all).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    peer.wait_closed(SOON).await;

    let mut stream = TcpStream::connect(peer.addr()).await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .unwrap();
    assert_eq!(read_to_end(&mut stream).await, "");
    // Half of it is still open, and what comes on it is not a request any more.
    stream.write_all(post("").as_bytes()).await.unwrap();
    assert_eq!(peer.open_connections(), 1);
    drop(stream);
    peer.wait_closed(SOON).await;
    assert_eq!(peer.requests().len(), 2);
    assert!(peer.aborted().is_empty());
}

#[tokio::test]
async fn either_side_may_ask_for_the_end() {
    let peer = HttpPeer::memory(|request: Request| match request.path() {
        "/closing" => Reply::status(202).closing(),
        _ => Reply::status(202),
    });
    for request in [
        "GET / HTTP/1.1\r\nHost: x\r\nconnection: x, Close\r\n\r\n",
        "GET /closing HTTP/1.1\r\nHost: x\r\n\r\n",
    ] {
        let mut stream = peer.dial();
        stream.write_all(request.as_bytes()).await.unwrap();
        let answer = read_to_end(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 202"), "{answer}");
    }
    peer.wait_closed(SOON).await;
    assert!(peer.aborted().is_empty());
}

#[tokio::test(start_paused = true)]
async fn steps_are_pushed_while_the_stream_is_open() {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let reply = std::sync::Mutex::new(Some(Reply::stream(receiver)));
    let (peer, mut stream) = asked(move || reply.lock().unwrap().take().unwrap()).await;
    expect(&mut stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    for text in ["a", "b"] {
        sender.send(Step::Chunk(text.into())).unwrap();
        expect(&mut stream, &format!("1\r\n{text}\r\n")).await;
        assert_eq!(peer.record().outcomes, [Outcome::Pending]);
    }
    drop(sender);
    expect(&mut stream, "0\r\n\r\n").await;
    peer.wait_until("sent", SOON, |record| record.outcomes == [Outcome::Sent])
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_push_waits_for_its_stream_and_moves_to_the_next() {
    let push = Push::new();
    let replies = push.clone();
    assert!(push.event(Some("1"), &json!(1)));
    let peer = HttpPeer::memory(move |_| replies.reply().header("Connection", "close"));
    let ask = async || {
        let mut stream = peer.dial();
        stream.write_all(post("{}").as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        stream
    };
    let mut first = ask().await;
    expect(&mut first, "f\r\nid: 1\ndata: 1\n\n\r\n").await;
    let mut second = ask().await;
    assert_eq!(read_to_end(&mut first).await, "0\r\n\r\n");
    assert!(push.event(None, &json!(2)));
    push.end();
    assert!(!push.event(None, &json!(3)));
    assert_eq!(
        read_to_end(&mut second).await,
        "9\r\ndata: 2\n\n\r\n0\r\n\r\n"
    );
}

/// A client that leaves is noticed whatever the peer is about.
#[tokio::test(start_paused = true)]
async fn closing_before_a_reply_is_complete_is_seen() {
    type Make = fn(Push) -> Reply;
    let cases: [(&str, Make, &str); 6] = [
        ("never", |_| Reply::never(), ""),
        ("a stream", |push| push.reply(), "HTTP/1.1 200 OK\r\n"),
        (
            "a pause",
            |_| Reply::sse().wait(3600 * SECOND).chunk("x"),
            "HTTP/1.1 200",
        ),
        (
            "a gate",
            |_| Reply::nothing().step(Step::Until(Gate::new())),
            "",
        ),
        (
            "a lie",
            |_| {
                Reply::status(200)
                    .header("Content-Length", "9")
                    .step(Step::Never)
            },
            "HTTP/1.1 200",
        ),
        // More than the connection holds: the peer is in the middle of writing.
        (
            "a flood",
            |_| Reply::status(200).body(vec![b'x'; 1024 * 1024]),
            "HTTP/1.1 200",
        ),
    ];
    for (name, make, start) in cases {
        let push = Push::new();
        let in_reply = push.clone();
        let (peer, mut stream) = asked(move || make(in_reply.clone())).await;
        expect(&mut stream, start).await;
        peer.wait_for(1, SOON).await;
        tokio::time::sleep(SECOND).await;
        assert!(peer.aborted().is_empty(), "{name}");
        assert_eq!(peer.open_connections(), 1, "{name}");
        drop(stream);
        let aborted = peer.wait_aborted(1, SOON).await;
        assert_eq!(aborted[0].sequence, 0, "{name}");
        peer.wait_closed(SOON).await;
        assert_eq!(peer.faults(), Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn closing_is_seen_over_tcp_too() {
    let push = Push::new();
    let replies = push.clone();
    let peer = HttpPeer::tcp(move |_| replies.reply()).await;
    for (sequence, reset) in [(0, false), (1, true)] {
        let mut stream = TcpStream::connect(peer.addr()).await.unwrap();
        stream.write_all(post("{}").as_bytes()).await.unwrap();
        expect(&mut stream, "HTTP/1.1 200 OK\r\n").await;
        if reset {
            stream.set_zero_linger().unwrap();
        }
        drop(stream);
        let aborted = peer.wait_aborted(sequence + 1, SOON).await;
        assert_eq!(aborted.len(), sequence + 1);
        peer.wait_closed(SOON).await;
    }
}

#[tokio::test(start_paused = true)]
async fn closing_while_an_async_handler_works_drops_it() {
    let gate = Gate::new();
    let kept = Arc::new(());
    let (in_handler, in_work) = (gate.clone(), Arc::clone(&kept));
    let peer = HttpPeer::memory(move |_| {
        let (gate, kept) = (in_handler.clone(), Arc::clone(&in_work));
        async move {
            gate.wait().await;
            drop(kept);
            Reply::status(200)
        }
    });
    let mut stream = peer.dial();
    stream.write_all(post("{}").as_bytes()).await.unwrap();
    gate.reached(1).await;
    assert_eq!(Arc::strong_count(&kept), 3);
    drop(stream);
    peer.wait_aborted(1, SOON).await;
    peer.wait_closed(SOON).await;
    assert_eq!(Arc::strong_count(&kept), 2);
}

/// The client has all of the reply, and the peer only keeps the connection.
#[tokio::test(start_paused = true)]
async fn closing_after_a_complete_reply_is_no_abort() {
    let cases: [fn() -> Reply; 3] = [
        || Reply::json(200, &json!(1)).step(Step::Never),
        || Reply::status(204).step(Step::Never),
        || Reply::sse().step(Step::EndChunks).step(Step::Never),
    ];
    for make in cases {
        let (peer, mut stream) = asked(make).await;
        expect(&mut stream, "HTTP/1.1 20").await;
        peer.wait_until("sent", SOON, |record| record.outcomes == [Outcome::Sent])
            .await;
        drop(stream);
        peer.wait_closed(SOON).await;
        assert!(peer.aborted().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_may_greet_and_may_answer_heads() {
    let peer = HttpPeer::builder(|_| Reply::status(200))
        .greeting(|connection| match connection {
            0 => vec![Step::CloseConnection],
            1 => vec![
                Step::Wait(SECOND),
                Step::Bytes(b"HTTP/1.1 408 \r\n\r\n".to_vec()),
            ],
            _ => Vec::new(),
        })
        .on_head(|request| (request.path() == "/early").then(|| Reply::status(413)))
        .memory();
    assert_eq!(read_to_end(&mut peer.dial()).await, "");
    let start = Instant::now();
    expect(&mut peer.dial(), "HTTP/1.1 408 \r\n\r\n").await;
    assert_eq!(start.elapsed(), SECOND);

    let mut stream = peer.dial();
    let head = "POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    expect(
        &mut stream,
        "HTTP/1.1 413 Scripted\r\nContent-Length: 0\r\n\r\n",
    )
    .await;
    stream
        .write_all(&[b"abc", post("{}").as_bytes()].concat())
        .await
        .unwrap();
    expect(&mut stream, "HTTP/1.1 200 OK\r\n").await;
    let requests = peer.wait_for(2, SOON).await;
    assert!(requests[0].body.is_empty());
    assert_eq!(requests[1].body, b"{}");

    // It leaves instead of sending its body.
    stream.write_all(head.as_bytes()).await.unwrap();
    peer.wait_until("three", SOON, |record| {
        record.with(Outcome::Sent).count() == 3
    })
    .await;
    drop(stream);
    peer.wait_closed(SOON).await;
    assert_eq!(peer.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_small_connection_holds_the_peer_back() {
    let gate = Gate::new();
    let in_reply = gate.clone();
    let peer = HttpPeer::builder(move |_| {
        let reply = Reply::raw([b'x'; 100]);
        reply.step(Step::Until(in_reply.clone()))
    })
    .memory_bytes(10)
    .memory();
    let mut stream = peer.dial();
    stream.write_all(post("{}").as_bytes()).await.unwrap();
    expect(&mut stream, &"x".repeat(80)).await;
    assert!(
        tokio::time::timeout(Duration::from_millis(10), gate.reached(1))
            .await
            .is_err()
    );
    expect(&mut stream, &"x".repeat(20)).await;
    gate.reached(1).await;
}

#[tokio::test]
async fn everything_ends_with_the_peer() {
    let kept = Arc::new(());
    let in_handler = Arc::clone(&kept);
    let peer = HttpPeer::tcp(move |_| {
        let _kept = &in_handler;
        Reply::never()
    })
    .await;
    let address = peer.addr();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(post("{}").as_bytes()).await.unwrap();
    let mut memory = peer.dial();
    let (ours, theirs) = tokio::io::duplex(64);
    peer.attach(theirs);
    peer.wait_until("three", SOON, |record| {
        record.connections == 3 && record.requests.len() == 1
    })
    .await;
    let dialer = peer.dialer();
    drop(peer);
    assert_eq!(read_to_end(&mut stream).await, "");
    assert_eq!(read_to_end(&mut memory).await, "");
    let mut ours = ours;
    assert_eq!(read_to_end(&mut ours).await, "");
    assert_eq!(read_to_end(&mut dialer.dial()).await, "");
    drop(dialer);
    while Arc::strong_count(&kept) > 1 {
        tokio::task::yield_now().await;
    }
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_peer_may_go_and_come_back() {
    let peer = HttpPeer::tcp(|_| Reply::status(204)).await;
    let address = peer.addr();
    assert_eq!(peer.url("/mcp"), format!("http://{address}/mcp"));
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(post("{}").as_bytes()).await.unwrap();
    expect(&mut stream, "HTTP/1.1 204 No Content\r\n\r\n").await;
    peer.stop_listening().await;
    let error = TcpStream::connect(address).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    stream.write_all(post("{}").as_bytes()).await.unwrap();
    expect(&mut stream, "HTTP/1.1 204 No Content\r\n\r\n").await;
    peer.drop_connections().await;
    assert_eq!(peer.open_connections(), 0);
    assert_eq!(read_to_end(&mut stream).await, "");
    let again = HttpPeer::builder(|_| Reply::status(202))
        .tcp_at(address)
        .await;
    let mut stream = TcpStream::connect(again.addr()).await.unwrap();
    stream.write_all(post("{}").as_bytes()).await.unwrap();
    expect(&mut stream, "HTTP/1.1 202 Accepted\r\n").await;
}

#[tokio::test]
async fn a_handler_that_panics_leaves_a_fault() {
    let (peer, mut stream) = asked(|| panic!("on purpose")).await;
    assert_eq!(read_to_end(&mut stream).await, "");
    peer.wait_closed(SOON).await;
    assert_eq!(peer.faults(), ["connection 0: panicked"]);
}

#[tokio::test(start_paused = true)]
#[should_panic(
    expected = "two requests: not within 1s\n1 of 1 connections open\n#0 on connection 0: POST /mcp  (2 bytes): Pending"
)]
async fn waiting_in_vain_says_what_was_seen() {
    let (peer, _stream) = asked(Reply::never).await;
    peer.wait_for(1, SECOND).await;
    peer.wait_until("two requests", SECOND, |record| record.requests.len() == 2)
        .await;
}

#[tokio::test(start_paused = true)]
async fn requests_have_their_times() {
    let (peer, mut stream) = asked(|| Reply::status(204)).await;
    peer.wait_for(1, SOON).await;
    tokio::time::sleep(SECOND).await;
    stream.write_all(post("[]").as_bytes()).await.unwrap();
    let second = peer
        .wait_request("a list", SOON, |request| request.json().is_array())
        .await;
    assert_eq!(second.at - peer.requests()[0].at, SECOND);
}
