//! Connections through proxies, and what is said when these refuse (C120).

use std::net::SocketAddr;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

use super::kit::*;
use crate::connect::{ConnectOptions, HttpClient, HttpVersion, ProxyChoice};

/// A proxy on loopback, and options that use it.
async fn proxy(userinfo: &str) -> (TcpListener, SocketAddr, ConnectOptions) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = ConnectOptions {
        proxy: ProxyChoice::Url(format!("http://{userinfo}{address}")),
        ..ConnectOptions::default()
    };
    (listener, address, options)
}

async fn accept(listener: &TcpListener) -> TcpStream {
    soon(listener.accept()).await.unwrap().0
}

#[tokio::test]
async fn c120_requests_of_http_go_through_the_proxy_with_its_credentials() {
    let (listener, address, options) = proxy("aladdin:open%20sesame@").await;
    let url = "http://server.test/mcp?key=1";
    let client = client(url, &options);
    assert_eq!(client.proxy_of(), Some(address.to_string()));
    let sending = {
        let client = client.clone();
        tokio::spawn(async move { exchange(&client, url, "").await })
    };
    let mut end = accept(&listener).await;
    // Each request on the connection has to say it.
    for is_first in [true, false] {
        let head = read_head(&mut end).await;
        assert!(
            head.starts_with("POST http://server.test/mcp?key=1 HTTP/1.1\r\n"),
            "{head}"
        );
        assert!(head.contains("host: server.test\r\n"), "{head}");
        // base64 of `aladdin:open sesame`
        let credentials = "proxy-authorization: Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n";
        assert!(head.contains(credentials), "{head}");
        end.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await
            .unwrap();
        if is_first {
            let client = client.clone();
            tokio::spawn(async move { exchange(&client, url, "").await });
        }
    }
    assert_eq!(soon(sending).await.unwrap().unwrap(), "ok");
    assert!(!format!("{client:?} {options:?}").contains("sesame"));
}

#[tokio::test]
async fn c120_the_environment_reaches_the_connection() {
    let (listener, address, _) = proxy("").await;
    let url = "http://server.test/";
    let options = ConnectOptions::default();
    let client = HttpClient::with_environment(&endpoint(url), &options, |name| {
        (name == "http_proxy").then(|| address.to_string())
    })
    .unwrap();
    tokio::spawn(async move { exchange(&client, url, "").await });
    let head = read_head(&mut accept(&listener).await).await;
    assert!(
        head.starts_with("POST http://server.test/ HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(!head.contains("proxy-authorization"), "{head}");
}

#[tokio::test]
async fn http2_without_asking_goes_through_a_tunnel() {
    let (listener, _, options) = proxy("").await;
    let url = "http://server.test/mcp";
    let options = ConnectOptions {
        http_version: HttpVersion::Http2PriorKnowledge,
        ..options
    };
    let client = client(url, &options);
    let sending = tokio::spawn(async move { exchange(&client, url, "hello").await });
    let mut end = accept(&listener).await;
    let head = read_head(&mut end).await;
    assert_eq!(
        head,
        "CONNECT server.test:80 HTTP/1.1\r\nhost: server.test:80\r\n\r\n"
    );
    end.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
    tokio::spawn(serve_http2(end));
    let answer = soon(sending).await.unwrap().unwrap();
    assert_eq!(answer, "HTTP/2.0 http://server.test/mcp hello");
}

#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
mod tunnels {
    use super::super::authority::{Authority, Serving, serve_tls};
    use super::*;
    use crate::connect::{Roots, SendError, TlsOptions};

    /// Trusts an authority, since TLS can't be set up otherwise.
    fn secure(options: ConnectOptions, authority: &Authority) -> ConnectOptions {
        ConnectOptions {
            tls: TlsOptions {
                roots: Roots::OnlyExtra,
                extra_roots_pem: vec![authority.pem()],
                ..TlsOptions::default()
            },
            ..options
        }
    }

    #[tokio::test]
    async fn c120_https_goes_through_a_tunnel_with_credentials() {
        let authority = Authority::new("Private CA");
        let issued = authority.server(&["server.test", "2001:db8::1"]);
        for (host, answer) in [
            ("server.test", "HTTP/1.1 200 Connection established\r\n\r\n"),
            ("server.test", "HTTP/1.0 200 OK\r\nproxy-agent: x\r\n\r\n"),
            ("[2001:db8::1]", "HTTP/1.1 200 OK\r\n\r\n"),
        ] {
            let (listener, address, options) = proxy("aladdin:open%20sesame@").await;
            let url = format!("https://{host}/mcp");
            let client = client(&url, &secure(options, &authority));
            assert_eq!(client.proxy_of(), Some(address.to_string()));
            let asked = url.clone();
            let sending = tokio::spawn(async move { exchange(&client, &asked, "hello").await });
            let mut end = accept(&listener).await;
            assert_eq!(
                read_head(&mut end).await,
                format!(
                    "CONNECT {host}:443 HTTP/1.1\r\nhost: {host}:443\r\n\
                     proxy-authorization: Basic YWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"
                )
            );
            end.write_all(answer.as_bytes()).await.unwrap();
            tokio::spawn(serve_tls(Serving::default().acceptor(&issued, None), end));
            let answer = soon(sending).await.unwrap().unwrap();
            assert_eq!(answer, format!("HTTP/2.0 {url} hello"));
        }
    }

    #[tokio::test]
    async fn c120_a_proxy_that_refuses_is_named_with_its_status() {
        let authority = Authority::new("Private CA");
        let cases = [
            (
                "",
                "HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n",
                Some(407),
                "wants a user and a password (407 Proxy Authentication Required): \
                 http://user:password@host:port",
            ),
            (
                "u:s3cret@",
                "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
                Some(407),
                "did not accept the user and the password that are set for it \
                 (407 Proxy Authentication Required)",
            ),
            (
                "u:s3cret@",
                "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 100\r\n\r\nno such host",
                Some(502),
                "refused to connect to server.test:443: 502 Bad Gateway",
            ),
            (
                "u:s3cret@",
                "SSH-2.0-OpenSSH\r\n\r\n",
                None,
                "did not open a connection to server.test:443: invalid HTTP version parsed",
            ),
            (
                "u:s3cret@",
                "",
                None,
                "did not open a connection to server.test:443: \
                 connection closed before message completed",
            ),
        ];
        for (userinfo, answer, expected_status, expected) in cases {
            let (listener, address, options) = proxy(userinfo).await;
            let url = "https://server.test/mcp";
            let client = client(url, &secure(options, &authority));
            let sending = tokio::spawn(async move { exchange(&client, url, "hello").await });
            let mut end = accept(&listener).await;
            read_head(&mut end).await;
            end.write_all(answer.as_bytes()).await.unwrap();
            drop(end);
            let error = soon(sending).await.unwrap().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("the proxy {address} (the proxy option) {expected}")
            );
            assert!(matches!(error, SendError::Proxy { status, .. } if status == expected_status));
            assert!(!error.was_sent());
            assert!(!format!("{error:?}").contains("s3cret"));
        }
    }

    #[tokio::test]
    async fn a_proxy_that_is_not_there_got_nothing() {
        let authority = Authority::new("Private CA");
        let (listener, address, options) = proxy("u:s3cret@").await;
        drop(listener);
        let url = "https://server.test/mcp";
        let client = client(url, &secure(options, &authority));
        let error = exchange(&client, url, "").await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "the proxy {address} (the proxy option) can't be reached: \
                 the connection was refused; nothing listens on that port"
            )
        );
        assert!(!error.was_sent());
    }
}

#[tokio::test]
async fn a_proxy_that_says_nothing_is_named() {
    let (listener, address, options) = proxy("u:s3cret@").await;
    let url = "http://server.test/";
    let options = ConnectOptions {
        http_version: HttpVersion::Http2PriorKnowledge,
        connect_timeout: std::time::Duration::from_millis(300),
        ..options
    };
    let error = exchange(&client(url, &options), url, "").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "no connection to server.test:80 within 300ms; it was still waiting for the proxy {address}"
        )
    );
    drop(listener);
}
