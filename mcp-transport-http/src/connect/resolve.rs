//! Host names, and what URLs say about hosts.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use http::Uri;
use http::uri::Scheme;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use tower_service::Service;

use super::dial::Progress;

/// Looks names up. `localhost` is this machine, whatever a name server says, over IPv6 and IPv4.
#[derive(Clone)]
pub(super) struct Resolver(pub(super) Progress);

/// A failed look-up: the error of the connector does not tell it from other failures.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ResolveError(io::Error);

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = ResolveError;
    type Future = BoxFuture<'static, Result<Self::Response, ResolveError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ResolveError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let progress = self.0.clone();
        Box::pin(async move {
            let addresses = if is_localhost(name.as_str()) {
                vec![
                    SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
                    SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                ]
            } else {
                let found = GaiResolver::new().call(name).await.map_err(ResolveError)?;
                found.collect()
            };
            progress.looked_up();
            Ok(addresses.into_iter())
        })
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// The port of a URL, or that of its scheme.
pub(super) fn port_of(uri: &Uri) -> u16 {
    let by_scheme = if uri.scheme() == Some(&Scheme::HTTPS) {
        443
    } else {
        80
    };
    uri.port_u16().unwrap_or(by_scheme)
}

/// Host and port of a URL, an IPv6 address in brackets.
pub(super) fn address_of(uri: &Uri) -> String {
    format!("{}:{}", uri.host().unwrap_or_default(), port_of(uri))
}

/// The host of a URL, an IPv6 address without brackets.
pub(super) fn bare_host(uri: &Uri) -> &str {
    let host = uri.host().unwrap_or_default();
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host)
}
