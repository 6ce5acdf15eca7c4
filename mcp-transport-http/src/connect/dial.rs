//! Brings bytes to the server: names, TCP, proxies, dialers.

use std::error::Error as StdError;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use super::dialer::{AsyncReadWrite, Dialer};
use super::error::SendError;
use super::failure::{chain, find};
use super::proxy::Proxy;
use super::tunnel;

/// How the bytes get to the server.
#[derive(Clone)]
pub(super) enum Route {
    /// Straight there.
    Direct,
    /// However the host wants to.
    Dialer(Dialer),
    /// Through a proxy that reads the requests.
    Forward(Arc<Proxy>),
    /// Through a proxy that only sees bytes.
    Tunnel(Arc<Proxy>),
}

/// How far a connection has come, so that a timeout can say what took so long.
#[derive(Clone, Default)]
pub(super) struct Progress(Arc<AtomicU8>);

impl Progress {
    const LOOKING_UP: u8 = 0;
    const CONNECTING: u8 = 1;
    const AT_PROXY: u8 = 2;
    const DIALLED: u8 = 3;

    fn reached(&self, step: u8) {
        self.0.store(step, Ordering::Relaxed);
    }

    /// What is being done.
    pub(super) fn describe(&self, route: &Route) -> String {
        let proxy = match route {
            Route::Direct | Route::Dialer(_) => None,
            Route::Forward(proxy) | Route::Tunnel(proxy) => Some(proxy.address()),
        };
        match (self.0.load(Ordering::Relaxed), proxy) {
            (Self::LOOKING_UP, None) => "looking up its name".to_owned(),
            (Self::LOOKING_UP, Some(proxy)) => format!("looking up the proxy {proxy}"),
            (Self::CONNECTING, Some(proxy)) => format!("connecting to the proxy {proxy}"),
            (Self::AT_PROXY, Some(proxy)) => format!("waiting for the proxy {proxy}"),
            (Self::DIALLED, _) => "in the TLS handshake".to_owned(),
            _ => "connecting".to_owned(),
        }
    }
}

/// Dials what a URL names.
#[derive(Clone)]
pub(super) struct Dial {
    pub(super) route: Route,
    pub(super) progress: Progress,
}

impl Dial {
    async fn dial(self, target: Uri) -> Result<Dialled, SendError> {
        let stream = match &self.route {
            Route::Direct => {
                let tcp = self.tcp(target.clone()).await;
                Dialled::new(tcp.map_err(|error| direct_error(&target, &*error))?)
            }
            Route::Dialer(dialer) => {
                self.progress.reached(Progress::CONNECTING);
                let dialled = dialer.dial(bare_host(&target).to_owned(), port_of(&target));
                Dialled::boxed(dialled.await.map_err(|error| SendError::Tcp {
                    server: address_of(&target),
                    reason: io_reason(&error),
                })?)
            }
            Route::Forward(proxy) => Dialled {
                is_forwarded: true,
                ..Dialled::new(self.to_proxy(proxy).await?)
            },
            Route::Tunnel(proxy) => {
                let tcp = TokioIo::new(self.to_proxy(proxy).await?);
                self.progress.reached(Progress::AT_PROXY);
                let tunnel = tunnel::open(tcp, &address_of(&target), proxy).await?;
                Dialled::new(TokioIo::new(tunnel))
            }
        };
        self.progress.reached(Progress::DIALLED);
        Ok(stream)
    }

    async fn to_proxy(&self, proxy: &Proxy) -> Result<TcpStream, SendError> {
        self.tcp(proxy.uri.clone()).await.map_err(|error| {
            let reason = dial_reason(&*error);
            proxy.failed(
                None,
                if find::<ResolveError>(&*error).is_some() {
                    format!("can't be reached; its name could not be looked up: {reason}")
                } else {
                    format!("can't be reached: {reason}")
                },
            )
        })
    }

    async fn tcp(&self, target: Uri) -> Result<TcpStream, Box<dyn StdError + Send + Sync>> {
        let mut http = HttpConnector::new_with_resolver(Resolver(self.progress.clone()));
        http.enforce_http(false);
        http.set_nodelay(true);
        // A peer that is gone is noticed after two minutes.
        http.set_keepalive(Some(Duration::from_secs(60)));
        http.set_keepalive_interval(Some(Duration::from_secs(15)));
        http.set_keepalive_retries(Some(4));
        Ok(http.call(target).await?.into_inner())
    }
}

impl Service<Uri> for Dial {
    type Response = Dialled;
    type Error = SendError;
    type Future = BoxFuture<'static, Result<Dialled, SendError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, target: Uri) -> Self::Future {
        Box::pin(self.clone().dial(target))
    }
}

/// A connection on which TLS or HTTP can begin.
pub(super) struct Dialled {
    io: TokioIo<Box<dyn AsyncReadWrite>>,
    /// Whether a proxy reads the requests, which then need the whole URL.
    is_forwarded: bool,
}

impl Dialled {
    fn new(io: impl AsyncReadWrite + 'static) -> Self {
        Self::boxed(Box::new(io))
    }

    fn boxed(io: Box<dyn AsyncReadWrite>) -> Self {
        Self {
            io: TokioIo::new(io),
            is_forwarded: false,
        }
    }
}

impl Connection for Dialled {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_forwarded)
    }
}

impl Read for Dialled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl Write for Dialled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}

/// Looks names up. `localhost` is this machine, whatever a name server says, over IPv6 and IPv4.
#[derive(Clone)]
struct Resolver(Progress);

/// A failed look-up: the error of the connector does not tell it from other failures.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct ResolveError(io::Error);

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
            progress.reached(Progress::CONNECTING);
            Ok(addresses.into_iter())
        })
    }
}

fn is_localhost(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

fn direct_error(target: &Uri, error: &(dyn StdError + 'static)) -> SendError {
    let reason = dial_reason(error);
    if find::<ResolveError>(error).is_some() {
        SendError::Resolve {
            host: bare_host(target).to_owned(),
            reason,
        }
    } else {
        SendError::Tcp {
            server: address_of(target),
            reason,
        }
    }
}

fn dial_reason(error: &(dyn StdError + 'static)) -> String {
    if let Some(ResolveError(error)) = find(error) {
        error.to_string()
    } else {
        find(error).map_or_else(|| chain(error), io_reason)
    }
}

/// What an error means in words, where the system's are for programmers.
fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "the connection was refused; nothing listens on that port".to_owned()
        }
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            "the network has no way there".to_owned()
        }
        _ => error.to_string(),
    }
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
fn bare_host(uri: &Uri) -> &str {
    let host = uri.host().unwrap_or_default();
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    inner.unwrap_or(host)
}
