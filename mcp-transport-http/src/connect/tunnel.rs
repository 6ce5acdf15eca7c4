//! A way through a proxy that only sees bytes.

use std::pin::pin;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http::header::{HOST, PROXY_AUTHORIZATION};
use http::{Method, Request, StatusCode};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper::upgrade::Upgraded;

use super::error::SendError;
use super::failure::chain;
use super::proxy::Proxy;

/// Asks the proxy at the other end of `io` to connect to `target`, which is host and port.
///
/// hyper-util's own tunnel does not tell with which status a proxy refuses, and people need it.
pub(super) async fn open<T>(io: T, target: &str, proxy: &Proxy) -> Result<Upgraded, SendError>
where
    T: Read + Write + Send + Unpin + 'static,
{
    let broken = |error: hyper::Error| {
        let reason = format!("did not open a connection to {target}: {}", chain(&error));
        proxy.failed(None, reason)
    };
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri(target)
        .header(HOST, target)
        .body(Empty::<Bytes>::new())
        .map_err(|error| proxy.failed(None, format!("can't be asked for {target}: {error}")))?;
    if let Some(authorization) = &proxy.authorization {
        request
            .headers_mut()
            .insert(PROXY_AUTHORIZATION, authorization.clone());
    }
    let (mut sender, connection) = http1::handshake(io).await.map_err(broken)?;
    let exchange = pin!(async {
        let response = sender.send_request(request).await.map_err(broken)?;
        if response.status().is_success() {
            hyper::upgrade::on(response).await.map_err(broken)
        } else {
            Err(refused(response.status(), target, proxy))
        }
    });
    // The exchange only moves while the connection is polled. When that is through, the exchange has all it needs.
    match select(exchange, pin!(connection.with_upgrades())).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right((_, exchange)) => exchange.await,
    }
}

fn refused(status: StatusCode, target: &str, proxy: &Proxy) -> SendError {
    let reason = match (status, &proxy.authorization) {
        (StatusCode::PROXY_AUTHENTICATION_REQUIRED, None) => {
            format!("wants a user and a password ({status}): http://user:password@host:port")
        }
        (StatusCode::PROXY_AUTHENTICATION_REQUIRED, Some(_)) => {
            format!("did not accept the user and the password that are set for it ({status})")
        }
        _ => format!("refused to connect to {target}: {status}"),
    };
    proxy.failed(Some(status.as_u16()), reason)
}
