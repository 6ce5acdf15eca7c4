//! HTTP/2: what a server did not process is repeated, what it may have processed is not (C116).

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::BodyExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

use super::kit::*;
use crate::connect::{ConnectOptions, Dialer, HttpClient, HttpVersion, SendError};

const URL: &str = "http://server.test/mcp";

/// A connection whose server is written frame by frame.
struct Frames(DuplexStream);

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
/// On data and headers; on settings and pings the same bit acknowledges.
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200`, compressed.
const STATUS_200: &[u8] = &[0x88];
const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

impl Frames {
    /// Accepts the next connection and exchanges settings.
    async fn accept(memory: &mut Memory) -> Self {
        let mut io = memory.accept().await;
        let mut preface = [0; 24];
        soon(io.read_exact(&mut preface)).await.unwrap();
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let mut frames = Self(io);
        frames.write(SETTINGS, 0, 0, &[]).await;
        frames
    }

    async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.0.write_all(&frame).await.unwrap();
    }

    /// Reads up to the next frame of a kind: its flags, its stream and its payload.
    async fn read(&mut self, wanted: u8) -> (u8, u32, Vec<u8>) {
        loop {
            let mut head = [0; 9];
            soon(self.0.read_exact(&mut head)).await.unwrap();
            let [a, b, c, kind, flags, stream @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            soon(self.0.read_exact(&mut payload)).await.unwrap();
            if kind == wanted {
                return (flags, u32::from_be_bytes(stream), payload);
            }
        }
    }

    async fn go_away(&mut self, last: u32, code: u32) {
        let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
        self.write(GOAWAY, 0, 0, &payload).await;
    }

    async fn reset(&mut self, stream: u32, code: u32) {
        self.write(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    /// Waits until the client has seen all that was written.
    async fn settle(&mut self) {
        self.write(PING, 0, 0, b"settled?").await;
        loop {
            let (flags, _, payload) = self.read(PING).await;
            if flags == ACK && payload == b"settled?" {
                return;
            }
        }
    }
}

fn http2(memory: &Memory) -> HttpClient {
    let options = ConnectOptions {
        http_version: HttpVersion::Http2PriorKnowledge,
        ..memory.options.clone()
    };
    client(URL, &options)
}

type Sending = tokio::task::JoinHandle<Result<String, SendError>>;

fn send(client: &HttpClient, body: &'static str) -> Sending {
    let client = client.clone();
    tokio::spawn(async move { exchange(&client, URL, body).await })
}

#[tokio::test(start_paused = true)]
async fn c116_after_a_goaway_the_next_request_goes_to_a_new_connection_and_open_streams_run_on() {
    let mut memory = Memory::new();
    let client = http2(&memory);
    let opening = {
        let client = client.clone();
        tokio::spawn(async move { client.send(post(URL, "")).await })
    };
    let mut first = Frames::accept(&mut memory).await;
    let (_, stream, _) = first.read(HEADERS).await;
    first.write(HEADERS, END_HEADERS, stream, STATUS_200).await;
    let mut open = soon(opening).await.unwrap().unwrap().into_body();
    first.write(DATA, 0, stream, b"before ").await;
    first.go_away(stream, NO_ERROR).await;
    first.settle().await;

    let next = send(&client, "next");
    tokio::spawn(serve_http2(memory.accept().await));
    let answer = soon(next).await.unwrap().unwrap();
    assert_eq!(answer, "HTTP/2.0 http://server.test/mcp next");
    assert_eq!(memory.dialled(), 2);

    // Long after, the old stream still gets what it was promised.
    tokio::time::advance(Duration::from_secs(3600)).await;
    first.write(DATA, END_STREAM, stream, b"after").await;
    let mut text = Vec::new();
    while let Some(frame) = soon(open.frame()).await {
        text.extend(frame.unwrap().into_data().unwrap());
    }
    assert_eq!(text, b"before after");
}

#[tokio::test(start_paused = true)]
async fn c116_streams_that_were_not_processed_are_sent_once_more_on_a_new_connection() {
    for code in [NO_ERROR, ENHANCE_YOUR_CALM, REFUSED_STREAM] {
        let mut memory = Memory::new();
        let client = http2(&memory);
        let sending = send(&client, "call");
        let mut first = Frames::accept(&mut memory).await;
        let (_, stream, _) = first.read(HEADERS).await;
        if code == REFUSED_STREAM {
            // The connection stays usable, but this server has just shown that it takes nothing more on it.
            first.reset(stream, code).await;
        } else {
            first.go_away(0, code).await;
        }
        tokio::spawn(serve_http2(memory.accept().await));
        let answer = soon(sending).await.unwrap().unwrap();
        assert_eq!(answer, "HTTP/2.0 http://server.test/mcp call");
        assert_eq!(memory.dialled(), 2);
        // What is sent later does not go to the first connection either.
        let answer = soon(send(&client, "later")).await.unwrap().unwrap();
        assert_eq!(answer, "HTTP/2.0 http://server.test/mcp later");
        assert_eq!(memory.dialled(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn c116_a_request_that_is_refused_twice_was_not_sent() {
    let mut memory = Memory::new();
    let client = http2(&memory);
    let sending = send(&client, "call");
    for _ in 0..2 {
        let mut frames = Frames::accept(&mut memory).await;
        let (_, stream, _) = frames.read(HEADERS).await;
        frames.reset(stream, REFUSED_STREAM).await;
        frames.settle().await;
    }
    let error = soon(sending).await.unwrap().unwrap_err();
    assert!(!error.was_sent());
    assert_eq!(
        error.to_string(),
        "no answer from server.test:80: http2 error: stream error received: \
         refused stream before processing any application logic"
    );
    assert_eq!(memory.dialled(), 2);
}

#[tokio::test(start_paused = true)]
async fn c116_a_stream_that_may_have_been_processed_is_not_repeated() {
    for is_reset in [true, false] {
        let mut memory = Memory::new();
        let client = http2(&memory);
        let sending = send(&client, "call");
        let mut frames = Frames::accept(&mut memory).await;
        let (_, stream, _) = frames.read(HEADERS).await;
        if is_reset {
            frames.reset(stream, INTERNAL_ERROR).await;
        } else {
            frames.go_away(stream, INTERNAL_ERROR).await;
            drop(frames);
        }
        let error = soon(sending).await.unwrap().unwrap_err();
        assert!(error.was_sent(), "{error}");
        assert_eq!(memory.dialled(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_share_a_connection() {
    let mut memory = Memory::new();
    let client = http2(&memory);
    let sending: Vec<Sending> = (0..50).map(|_| send(&client, "call")).collect();
    tokio::spawn(serve_http2(memory.accept().await));
    for sending in sending {
        soon(sending).await.unwrap().unwrap();
    }
    assert_eq!(memory.dialled(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_http2_is_told_from_one_with() {
    let mut memory = Memory::new();
    let client = http2(&memory);
    let sending = send(&client, "call");
    let mut end = memory.accept().await;
    end.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
        .await
        .unwrap();
    let error = soon(sending).await.unwrap().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("no answer from server.test:80: http2 error: "),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waited_for_the_dial_of_another_one_dials_itself() {
    let dials = AtomicUsize::new(0);
    let dialer = Dialer::new(move |_, _| {
        let is_first = dials.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            if is_first {
                // The other request comes to wait.
                tokio::time::sleep(Duration::from_secs(1)).await;
                return Err(io::Error::other("not yet"));
            }
            let (ours, theirs) = duplex(1024);
            tokio::spawn(serve_http2(theirs));
            Ok(ours)
        }
    });
    let options = ConnectOptions {
        http_version: HttpVersion::Http2PriorKnowledge,
        dialer: Some(dialer),
        ..ConnectOptions::default()
    };
    let client = client(URL, &options);
    let (one, two) = tokio::join!(exchange(&client, URL, "1"), exchange(&client, URL, "2"));
    assert_eq!(
        one.unwrap_err().to_string(),
        "could not connect to server.test:80: not yet"
    );
    assert_eq!(two.unwrap(), "HTTP/2.0 http://server.test/mcp 2");
}
