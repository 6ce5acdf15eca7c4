//! Brings bytes to the server: TCP, proxies, dialers.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tower_service::Service;

use super::dialer::Dialer;
use super::error::SendError;
use super::failure::{chain, find};
use super::proxy::Proxy;
use super::resolve::{ResolveError, Resolver, address_of, bare_host, port_of};
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

impl Route {
    pub(super) fn proxy(&self) -> Option<&Proxy> {
        match self {
            Self::Direct | Self::Dialer(_) => None,
            Self::Forward(proxy) | Self::Tunnel(proxy) => Some(proxy),
        }
    }
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

    pub(super) fn looked_up(&self) {
        self.reached(Self::CONNECTING);
    }

    /// What is being done.
    pub(super) fn describe(&self, route: &Route) -> String {
        let proxy = route.proxy().map(Proxy::address);
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

/// What can carry bytes.
pub(super) trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + ?Sized> Wire for T {}

impl Connection for Box<dyn Wire> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

/// A connection on which TLS or HTTP can begin.
pub(super) type Dialled = TokioIo<Box<dyn Wire>>;

/// Dials what a URL names.
#[derive(Clone)]
pub(super) struct Dial {
    pub(super) route: Route,
    pub(super) progress: Progress,
}

impl Dial {
    async fn dial(self, target: Uri) -> Result<Dialled, SendError> {
        let wire: Box<dyn Wire> = match &self.route {
            Route::Direct => {
                let tcp = self.tcp(target.clone()).await;
                Box::new(tcp.map_err(|error| direct_error(&target, &*error))?)
            }
            Route::Dialer(dialer) => {
                self.progress.reached(Progress::CONNECTING);
                let dialled = dialer.dial(bare_host(&target).to_owned(), port_of(&target));
                Box::new(dialled.await.map_err(|error| SendError::Tcp {
                    server: address_of(&target),
                    reason: io_reason(&error),
                })?)
            }
            Route::Forward(proxy) => Box::new(self.to_proxy(proxy).await?),
            Route::Tunnel(proxy) => {
                let tcp = TokioIo::new(self.to_proxy(proxy).await?);
                self.progress.reached(Progress::AT_PROXY);
                let tunnel = tunnel::open(tcp, &address_of(&target), proxy).await?;
                Box::new(TokioIo::new(tunnel))
            }
        };
        self.progress.reached(Progress::DIALLED);
        Ok(TokioIo::new(wire))
    }

    async fn to_proxy(&self, proxy: &Proxy) -> Result<TcpStream, SendError> {
        self.tcp(proxy.uri.clone()).await.map_err(|error| {
            let reason = dial_reason(&*error);
            let reason = if find::<ResolveError>(&*error).is_some() {
                format!("can't be reached; its name could not be looked up: {reason}")
            } else {
                format!("can't be reached: {reason}")
            };
            proxy.failed(None, reason)
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
    if let Some(error) = find::<ResolveError>(error) {
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
