//! What servers and proxies do to connections.

#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
mod authority;
mod dialling;
mod http2;
#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
mod identity;
mod kit;
mod pooling;
mod proxies;
mod proxy_choice;
#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
mod trust;

#[cfg(not(any(feature = "ring", feature = "aws-lc-rs")))]
#[test]
fn without_cryptography_there_is_only_http() {
    use super::{ConnectOptions, HttpClient, SetupError};

    let options = ConnectOptions::default();
    let of = |url| HttpClient::new(&kit::endpoint(url), &options);
    assert_eq!(
        of("https://server.test/").unwrap_err(),
        SetupError::NoCrypto
    );
    of("http://server.test/").unwrap();
}
