//! Connections that are kept, and those that are gone when they are wanted again.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::time::{Instant, advance};

use super::kit::*;
use crate::connect::{ConnectOptions, Dialer, HttpClient, SendError};

const URL: &str = "http://server.test/mcp";

#[tokio::test(start_paused = true)]
async fn a_thousand_requests_use_one_connection() {
    let server = Memory::new().serve();
    let client = client(URL, &server.options);
    for _ in 0..1000 {
        let answer = exchange(&client, URL, "ping").await.unwrap();
        assert_eq!(answer, "HTTP/1.1 /mcp ping");
    }
    assert_eq!(server.dialled(), 1);
}

#[tokio::test]
async fn a_thousand_requests_over_tcp_use_one_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let client = HttpClient::new(&endpoint(&url), &ConnectOptions::default()).unwrap();
    let serving = tokio::spawn(async move {
        let mut accepted = 0;
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            accepted += 1;
            assert_eq!(accepted, 1);
            tokio::spawn(serve_http1(stream));
        }
    });
    for _ in 0..1000 {
        let answer = exchange(&client, &url, "ping").await.unwrap();
        assert_eq!(answer, "HTTP/1.1 /mcp ping");
    }
    assert!(!serving.is_finished());
    serving.abort();
}

#[tokio::test(start_paused = true)]
async fn a_kept_connection_that_the_server_closed_is_replaced() {
    let mut memory = Memory::new();
    let client = client(URL, &memory.options);
    let serving = tokio::spawn(async move {
        let mut first = memory.accept().await;
        read_head(&mut first).await;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none";
        first.write_all(answer).await.unwrap();
        (memory, first)
    });
    assert_eq!(exchange(&client, URL, "").await.unwrap(), "one");
    let (memory, first) = soon(serving).await.unwrap();
    drop(first);
    let server = memory.serve();
    assert_eq!(
        exchange(&client, URL, "two").await.unwrap(),
        "HTTP/1.1 /mcp two"
    );
    assert_eq!(server.dialled(), 2);
}

#[tokio::test(start_paused = true)]
async fn connections_are_kept_no_longer_than_set() {
    let server = Memory::new().serve();
    let client = client(
        URL,
        &ConnectOptions {
            idle_timeout: Duration::from_secs(5),
            ..server.options.clone()
        },
    );
    exchange(&client, URL, "").await.unwrap();
    advance(Duration::from_secs(4)).await;
    exchange(&client, URL, "").await.unwrap();
    assert_eq!(server.dialled(), 1);
    advance(Duration::from_secs(6)).await;
    exchange(&client, URL, "").await.unwrap();
    assert_eq!(server.dialled(), 2);
}

#[tokio::test(start_paused = true)]
async fn no_more_connections_are_kept_than_set() {
    for (kept, expected) in [(0, 4), (1, 3), (2, 2)] {
        let server = Memory::new().serve();
        let client = client(
            URL,
            &ConnectOptions {
                max_idle_connections: kept,
                ..server.options.clone()
            },
        );
        // Two at a time, twice.
        for _ in 0..2 {
            let (one, two) = tokio::join!(exchange(&client, URL, "1"), exchange(&client, URL, "2"));
            one.unwrap();
            two.unwrap();
        }
        assert_eq!(server.dialled(), expected, "{kept} kept");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_ends_before_the_answer_may_have_done_the_work() {
    let mut memory = Memory::new();
    let client = client(URL, &memory.options);
    let sending = tokio::spawn(async move { client.send(post(URL, "once")).await });
    let mut end = memory.accept().await;
    read_head(&mut end).await;
    drop(end);
    let error = soon(sending).await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "no answer from server.test:80: it closed the connection without one"
    );
    assert!(error.was_sent());
    assert_eq!(memory.dialled(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_http_is_named() {
    let mut memory = Memory::new();
    let client = client(URL, &memory.options);
    let sending = tokio::spawn(async move { client.send(post(URL, "")).await });
    let mut end = memory.accept().await;
    read_head(&mut end).await;
    end.write_all(b"\x15\x03\x03\x00\x02\x02\x46\r\n")
        .await
        .unwrap();
    let error = soon(sending).await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "no answer from server.test:80: what came is not HTTP/1.1: invalid HTTP version parsed"
    );
    assert!(error.was_sent());
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_ends_its_connection() {
    let mut memory = Memory::new();
    let client = client(URL, &memory.options);
    let sending = tokio::spawn(async move { client.send(post(URL, "")).await });
    let mut end = memory.accept().await;
    read_head(&mut end).await;
    sending.abort();
    let mut rest = Vec::new();
    soon(tokio::io::AsyncReadExt::read_to_end(&mut end, &mut rest))
        .await
        .unwrap();
    assert!(rest.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dial_that_takes_too_long_is_given_up() {
    let options = ConnectOptions {
        connect_timeout: Duration::from_secs(7),
        dialer: Some(Dialer::new(|_, _| {
            std::future::pending::<std::io::Result<tokio::io::DuplexStream>>()
        })),
        ..ConnectOptions::default()
    };
    let client = client(URL, &options);
    let began = Instant::now();
    let error = client.send(post(URL, "")).await.unwrap_err();
    assert_eq!(began.elapsed(), Duration::from_secs(7));
    assert!(matches!(error, SendError::ConnectTimeout { .. }));
    assert!(!error.was_sent());
    assert_eq!(
        error.to_string(),
        "no connection to server.test:80 within 7s; it was still connecting"
    );
}
