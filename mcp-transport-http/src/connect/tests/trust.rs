//! Certificates, and what is said about those that are not trusted.

use rcgen::date_time_ymd;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::authority::*;
use super::kit::*;
use crate::connect::{ConnectOptions, HttpClient, HttpVersion, Roots, SendError, TlsOptions};

#[tokio::test(start_paused = true)]
async fn c119_errors_name_the_issuer_the_roots_and_what_to_do() {
    let authority = Authority::new("Private CA");
    let other = Authority::new("Another CA");
    let advice = if cfg!(all(feature = "platform-roots", target_os = "linux")) {
        ", or to the file that SSL_CERT_FILE names"
    } else {
        ""
    };
    let roots = if cfg!(feature = "platform-roots") {
        "the roots of the system and the 1 of extra_roots_pem"
    } else if cfg!(feature = "bundled-roots") {
        "the bundled roots and the 1 of extra_roots_pem"
    } else {
        "only the 1 of extra_roots_pem"
    };
    let by = "issued by CN=Private CA, O=Example";
    let cases = [
        (
            authority.server(&["server.test"]),
            trusting(&other),
            format!(
                "its certificate, {by}, comes from an authority that is not trusted (only the 1 of \
                 extra_roots_pem are); add the authority's certificate to extra_roots_pem"
            ),
        ),
        (
            authority.server(&["server.test"]),
            TlsOptions {
                roots: Roots::Default,
                ..trusting(&other)
            },
            format!(
                "its certificate, {by}, comes from an authority that is not trusted ({roots} are); \
                 add the authority's certificate to extra_roots_pem{advice}"
            ),
        ),
        (
            authority.server(&["*.other.test", "other.test", "10.0.0.1"]),
            trusting(&authority),
            format!(
                "its certificate, {by}, is for *.other.test, other.test, 10.0.0.1, not for server.test; \
                 if that is the right server, set server_name"
            ),
        ),
        (
            authority.server_with(&["server.test"], |params| {
                params.not_after = date_time_ymd(2001, 2, 3);
            }),
            trusting(&authority),
            format!(
                "its certificate, {by}, expired on Sat, 03 Feb 2001 00:00:00 GMT; the server needs a new one"
            ),
        ),
        (
            authority.server_with(&["server.test"], |params| {
                params.not_before = date_time_ymd(4001, 2, 3);
            }),
            trusting(&authority),
            format!(
                "its certificate, {by}, is valid from Sat, 03 Feb 4001 00:00:00 GMT; is this machine's clock right?"
            ),
        ),
    ];
    for (issued, tls, expected) in cases {
        let error = ask(&Serving::default(), &issued, None, tls)
            .await
            .unwrap_err();
        assert!(matches!(error, SendError::Tls { .. }));
        assert!(!error.was_sent());
        assert_eq!(
            error.to_string(),
            format!("no TLS with server.test:443: {expected}")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn c119_servers_with_one_version_of_tls_only_are_reached() {
    let authority = Authority::new("Private CA");
    let issued = authority.server(&["server.test"]);
    for serving in [TLS12, TLS13] {
        ask(&serving, &issued, None, trusting(&authority))
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_for_another_name_is_taken_if_told_so() {
    let authority = Authority::new("Private CA");
    let issued = authority.server(&["inside.test"]);
    let tls = TlsOptions {
        server_name: Some("inside.test".to_owned()),
        ..trusting(&authority)
    };
    ask(&Serving::default(), &issued, None, tls).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn any_certificate_is_taken_if_told_so() {
    let authority = Authority::new("Private CA");
    let issued = authority.server_with(&["other.test"], |params| {
        params.not_after = date_time_ymd(2001, 2, 3);
    });
    for serving in [TLS12, TLS13] {
        let tls = TlsOptions {
            danger_accept_any_certificate: true,
            ..TlsOptions::default()
        };
        ask(&serving, &issued, None, tls).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn http2_is_spoken_if_both_sides_want_it() {
    use HttpVersion::{Auto, Http1, Http2PriorKnowledge};

    let authority = Authority::new("Private CA");
    let issued = authority.server(&["server.test"]);
    let cases: [(_, &'static [&'static str], _); 6] = [
        (Auto, &["h2", "http/1.1"], Ok("HTTP/2.0")),
        (Auto, &["http/1.1"], Ok("HTTP/1.1")),
        (Auto, &[], Ok("HTTP/1.1")),
        (Http1, &["h2", "http/1.1"], Ok("HTTP/1.1")),
        (Http2PriorKnowledge, &["h2", "http/1.1"], Ok("HTTP/2.0")),
        (
            Http2PriorKnowledge,
            &["http/1.1"],
            Err(
                "no TLS with server.test:443: it does not speak this version of HTTP \
                 (alert NoApplicationProtocol)",
            ),
        ),
    ];
    for (wanted, alpn, expected) in cases {
        let serving = Serving {
            alpn,
            ..Serving::default()
        };
        let answer = ask_in(wanted, &serving, &issued, None, trusting(&authority)).await;
        let version = answer
            .as_ref()
            .map(|answer| answer.split_once(' ').unwrap().0)
            .map_err(ToString::to_string);
        assert_eq!(
            version,
            expected.map_err(ToOwned::to_owned),
            "{wanted:?} {alpn:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_tls_is_named() {
    let authority = Authority::new("Private CA");
    let cases: [(&[u8], _); 2] = [
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            "no TLS with server.test:443: what came is not TLS (InvalidContentType); is it an http: server?",
        ),
        (
            b"",
            "no TLS with server.test:443: it closed the connection in the handshake; is it an https: server?",
        ),
    ];
    for (answer, expected) in cases {
        let mut memory = Memory::new();
        let options = ConnectOptions {
            tls: trusting(&authority),
            ..memory.options.clone()
        };
        let client = client(URL, &options);
        let sending = tokio::spawn(async move { client.send(post(URL, "")).await });
        let mut end = memory.accept().await;
        let mut hello = [0; 5];
        soon(end.read_exact(&mut hello)).await.unwrap();
        end.write_all(answer).await.unwrap();
        drop(end);
        let error = soon(sending).await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!error.was_sent());
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_handshake_takes_no_longer_than_a_dial() {
    let authority = Authority::new("Private CA");
    let mut memory = Memory::new();
    let options = ConnectOptions {
        tls: trusting(&authority),
        ..memory.options.clone()
    };
    let client = client(URL, &options);
    let sending = tokio::spawn(async move { client.send(post(URL, "")).await });
    let _silent = memory.accept().await;
    let error = soon(sending).await.unwrap().unwrap_err();
    assert!(!error.was_sent());
    assert_eq!(
        error.to_string(),
        "no connection to server.test:443 within 10s; it was still in the TLS handshake"
    );
}

#[test]
fn a_host_without_crypto_settings_of_its_own_stays_so() {
    let tls = TlsOptions {
        danger_accept_any_certificate: true,
        ..TlsOptions::default()
    };
    let options = ConnectOptions {
        tls,
        ..ConnectOptions::default()
    };
    HttpClient::with_environment(&endpoint(URL), &options, |_| None).unwrap();
    assert!(rustls::crypto::CryptoProvider::get_default().is_none());
}

/// The file is read by the process, so this test runs in one of its own.
#[cfg(all(feature = "platform-roots", target_os = "linux"))]
#[tokio::test]
async fn c119_the_roots_of_ssl_cert_file_are_trusted() {
    const NAME: &str = "connect::tests::trust::c119_the_roots_of_ssl_cert_file_are_trusted";
    const IS_CHILD: &str = "MCP_TEST_IS_CHILD";

    if std::env::var_os(IS_CHILD).is_some() {
        let authority = Authority::new("Private CA");
        let file = std::env::var_os("SSL_CERT_FILE").unwrap();
        std::fs::write(file, authority.pem()).unwrap();
        let issued = authority.server(&["server.test"]);
        let tls = TlsOptions::default();
        ask(&Serving::default(), &issued, None, tls).await.unwrap();
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env(IS_CHILD, "1")
        .env("SSL_CERT_FILE", directory.path().join("roots.pem"))
        .env_remove("SSL_CERT_DIR")
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("1 passed"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_at_the_same_time_agree_on_a_connection() {
    let authority = Authority::new("Private CA");
    let issued = authority.server(&["server.test"]);
    let memory = Memory::new();
    let options = ConnectOptions {
        tls: trusting(&authority),
        ..memory.options.clone()
    };
    serve_all_tls(memory, Serving::default().acceptor(&issued, None));
    let client = client(URL, &options);
    let sending: Vec<_> = (0..30)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { exchange(&client, URL, "hello").await })
        })
        .collect();
    for sending in sending {
        let answer = soon(sending).await.unwrap().unwrap();
        assert_eq!(answer, "HTTP/2.0 https://server.test/mcp hello");
    }
}
