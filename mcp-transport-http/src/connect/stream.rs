//! A connection as the pool holds it.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::{Connected, Connection};

use super::dial::Dialled;
use super::failure::find;
use super::verify::tls_reason;

/// Why TLS ended a connection that was there.
///
/// In TLS 1.3, a server refuses the client's certificate after the handshake, in the middle of HTTP. HTTP/2 then forgets
/// why the connection ended, so it is kept here, where the errors of requests find it.
#[derive(Clone, Default)]
pub(super) struct TlsEnd(Arc<OnceLock<String>>);

impl TlsEnd {
    pub(super) fn reason(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    fn note<T>(&self, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &outcome
            && find::<rustls::Error>(error).is_some()
        {
            // The first is the cause of the others.
            let _ = self.0.set(tls_reason(error));
        }
        outcome
    }
}

/// A connection, encrypted or not.
pub(super) struct Stream {
    io: MaybeHttpsStream<Dialled>,
    /// Whether a proxy reads the requests, which then need the whole URL.
    is_forwarded: bool,
    end: TlsEnd,
}

impl Stream {
    pub(super) fn new(io: MaybeHttpsStream<Dialled>, is_forwarded: bool) -> Self {
        Self {
            io,
            is_forwarded,
            end: TlsEnd::default(),
        }
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        let connected = self.io.connected().proxy(self.is_forwarded);
        connected.extra(self.end.clone())
    }
}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_read(cx, buf);
        self.end.note(outcome)
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.io).poll_write(cx, buf);
        self.end.note(outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.io).poll_flush(cx);
        self.end.note(outcome)
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
        let outcome = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.end.note(outcome)
    }
}
