//! Names, TCP and dialers.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::io::duplex;
use tokio::net::TcpListener;

use super::kit::*;
use crate::connect::{ConnectOptions, Dialer, SendError};

#[tokio::test]
async fn a_port_where_nothing_listens_got_nothing() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://{address}/mcp?key=s3cret");
    let client = client(&url, &ConnectOptions::default());
    let error = soon(client.send(post(&url, ""))).await.unwrap_err();
    assert!(matches!(error, SendError::Tcp { .. }));
    assert!(!error.was_sent());
    assert_eq!(
        error.to_string(),
        format!(
            "could not connect to {address}: the connection was refused; nothing listens on that port"
        )
    );
}

#[tokio::test]
async fn a_name_without_address_got_nothing() {
    // Too long a label for any name server, so none is asked.
    let host = format!("{}.invalid", "a".repeat(64));
    let url = format!("http://{host}/");
    let client = client(&url, &ConnectOptions::default());
    let error = soon(client.send(post(&url, ""))).await.unwrap_err();
    let SendError::Resolve { host: named, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*named, host);
    assert!(!error.was_sent());
    let expected = format!("the name {host} could not be looked up: ");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[tokio::test]
async fn localhost_is_tried_over_ipv6_and_ipv4() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = match TcpListener::bind(address).await {
            Ok(listener) => listener,
            Err(error) => {
                // Machines without IPv6 can only try the other half.
                assert_eq!(address, "[::1]:0", "{error}");
                continue;
            }
        };
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve_http1(stream));
            }
        });
        for host in ["localhost", "LOCALHOST.", "mcp.localhost"] {
            let url = format!("http://{host}:{port}/");
            let client = client(&url, &ConnectOptions::default());
            let answer = exchange(&client, &url, "hello").await;
            assert_eq!(answer.unwrap(), "HTTP/1.1 / hello", "{url} at {address}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dialer_is_told_host_and_port() {
    let cases = [
        ("http://server.test/", "server.test", 80),
        ("http://server.test:8080/", "server.test", 8080),
        ("http://[2001:db8::1]:8080/", "2001:db8::1", 8080),
        ("http://localhost/", "localhost", 80),
    ];
    for (url, host, port) in cases {
        let asked = Arc::new(Mutex::new(None));
        let asked_by = Arc::clone(&asked);
        let dialer = Dialer::new(move |host, port| {
            *asked_by.lock().unwrap() = Some((host, port));
            let (ours, theirs) = duplex(1024);
            tokio::spawn(serve_http1(theirs));
            async move { Ok(ours) }
        });
        let options = ConnectOptions {
            dialer: Some(dialer),
            ..ConnectOptions::default()
        };
        exchange(&client(url, &options), url, "").await.unwrap();
        assert_eq!(asked.lock().unwrap().take(), Some((host.to_owned(), port)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_dialer_that_fails_got_nothing() {
    let options = ConnectOptions {
        dialer: Some(Dialer::new(|_, _| async {
            Err::<tokio::io::DuplexStream, _>(io::Error::other("the socket is not there"))
        })),
        ..ConnectOptions::default()
    };
    let url = "http://server.test/";
    let error = client(url, &options).send(post(url, "")).await.unwrap_err();
    assert!(!error.was_sent());
    assert_eq!(
        error.to_string(),
        "could not connect to server.test:80: the socket is not there"
    );
}
