//! Private authorities, and certificates of this client (C118).

use bytes::Bytes;

use super::authority::*;
use super::kit::endpoint;
use crate::connect::{ClientIdentity, ConnectOptions, HttpClient, Roots, TlsOptions};

#[tokio::test(start_paused = true)]
async fn c118_a_private_authority_is_trusted_and_the_client_shows_a_certificate() {
    let authority = Authority::new("Private CA");
    let issued = authority.server(&["server.test"]);
    for serving in [TLS12, TLS13] {
        let tls = TlsOptions {
            client_identity: Some(authority.client()),
            ..trusting(&authority)
        };
        let answer = ask(&serving, &issued, Some(&authority), tls).await;
        assert_eq!(answer.unwrap(), "HTTP/2.0 https://server.test/mcp hello");
    }
}

#[tokio::test(start_paused = true)]
async fn c118_a_missing_or_foreign_client_certificate_is_named() {
    let authority = Authority::new("Private CA");
    let stranger = Authority::new("Another CA");
    let issued = authority.server(&["server.test"]);
    for serving in [TLS12, TLS13] {
        for (identity, expected) in [
            (
                None,
                "no TLS with server.test:443: it wants a certificate of this client: set client_identity \
                 (alert CertificateRequired)",
            ),
            (
                Some(stranger.client()),
                "no TLS with server.test:443: it did not accept the certificate of this client: \
                 see client_identity (alert UnknownCA)",
            ),
        ] {
            let tls = TlsOptions {
                client_identity: identity,
                ..trusting(&authority)
            };
            let error = ask(&serving, &issued, Some(&authority), tls).await;
            assert_eq!(error.unwrap_err().to_string(), expected);
        }
    }
}

#[test]
fn c118_settings_that_cannot_be_used_are_named() {
    let authority = Authority::new("Private CA");
    let identity = authority.client();
    let other = authority.client();
    let key = String::from_utf8(identity.key_pem.to_vec()).unwrap();
    let garbage =
        Bytes::from_static(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----");
    let identify = |certificates_pem: &Bytes, key_pem: &Bytes| TlsOptions {
        client_identity: Some(ClientIdentity {
            certificates_pem: certificates_pem.clone(),
            key_pem: key_pem.clone(),
        }),
        ..trusting(&authority)
    };
    let cases = [
        (
            TlsOptions {
                roots: Roots::OnlyExtra,
                ..TlsOptions::default()
            },
            "https has no certificates to trust: roots is OnlyExtra, and extra_roots_pem is empty; add some to \
             extra_roots_pem, or build with the feature `platform-roots` or `bundled-roots`",
        ),
        (
            TlsOptions {
                extra_roots_pem: vec![authority.pem(), identity.key_pem.clone()],
                ..TlsOptions::default()
            },
            "extra_roots_pem[1]: no certificate in it; expected PEM: -----BEGIN CERTIFICATE-----",
        ),
        (
            TlsOptions {
                extra_roots_pem: vec![garbage],
                ..TlsOptions::default()
            },
            "extra_roots_pem[0]: a certificate can't be used: invalid peer certificate: BadEncoding",
        ),
        (
            identify(&identity.certificates_pem, &other.key_pem),
            "client_identity: the key does not belong to the first certificate",
        ),
        (
            identify(&identity.key_pem, &identity.key_pem),
            "client_identity: certificates_pem: no certificate in it; expected PEM: \
             -----BEGIN CERTIFICATE-----",
        ),
        (
            identify(
                &identity.certificates_pem,
                &key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY").into(),
            ),
            "client_identity: key_pem: no private key in it; expected PEM without a passphrase: \
             -----BEGIN PRIVATE KEY-----, -----BEGIN EC PRIVATE KEY----- or \
             -----BEGIN RSA PRIVATE KEY-----",
        ),
        (
            TlsOptions {
                server_name: Some("not a name".to_owned()),
                ..trusting(&authority)
            },
            "server_name: `not a name` is neither a host's name nor an address",
        ),
    ];
    for (tls, expected) in cases {
        let options = ConnectOptions {
            tls,
            ..ConnectOptions::default()
        };
        let error = HttpClient::with_environment(&endpoint(URL), &options, |_| None).unwrap_err();
        assert_eq!(error.to_string(), expected);
        // What only `https` needs does not stop `http`.
        HttpClient::with_environment(&endpoint("http://server.test"), &options, |_| None).unwrap();
    }
}
