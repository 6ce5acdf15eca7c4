//! Connections that the host makes itself.

use std::fmt;
use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

/// What bytes can be read from and written to. Everything that can is one.
pub trait AsyncReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + ?Sized> AsyncReadWrite for T {}

/// A future that connects.
type Connecting = BoxFuture<'static, io::Result<Box<dyn AsyncReadWrite>>>;

/// Makes connections in place of name look-up, TCP and proxies: a Unix socket, a pipe of the host, memory in a test.
///
/// It is told the host and the port of the URL, an IPv6 address without brackets. TLS is spoken on what it gives if the
/// URL is `https`.
#[derive(Clone)]
pub struct Dialer(Arc<dyn Fn(String, u16) -> Connecting + Send + Sync>);

impl Dialer {
    /// Connects by calling `dial` with the host and the port, once for each connection.
    pub fn new<F, C, S>(dial: F) -> Self
    where
        F: Fn(String, u16) -> C + Send + Sync + 'static,
        C: Future<Output = io::Result<S>> + Send + 'static,
        S: AsyncReadWrite + 'static,
    {
        Self(Arc::new(move |host, port| {
            let connecting = dial(host, port);
            Box::pin(async move { Ok(Box::new(connecting.await?) as Box<dyn AsyncReadWrite>) })
        }))
    }

    /// Begins one connection.
    pub(super) fn dial(&self, host: String, port: u16) -> Connecting {
        (self.0)(host, port)
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}
