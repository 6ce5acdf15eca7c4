//! Servers in memory, and requests to them.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream, duplex};
use tokio::sync::mpsc;

use crate::connect::{ConnectOptions, Dialer, HttpClient, SendError};
use crate::endpoint::Endpoint;

/// Waits for what must happen, and fails the test when it does not.
pub(super) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("nothing happened for 20 s")
}

pub(super) fn endpoint(url: &str) -> Endpoint {
    Endpoint::parse(url).unwrap()
}

/// A client for a URL.
pub(super) fn client(url: &str, options: &ConnectOptions) -> HttpClient {
    HttpClient::with_environment(&endpoint(url), options, |_| None).unwrap()
}

/// A request with a body.
pub(super) fn post(url: &str, body: &'static str) -> Request<Full<Bytes>> {
    Request::post(url).body(Full::from(body)).unwrap()
}

/// The whole body of a response as text.
pub(super) async fn text(response: Response<Incoming>) -> String {
    let body = soon(response.into_body().collect()).await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

/// Sends a request and reads the whole answer.
pub(super) async fn exchange(
    client: &HttpClient,
    url: &str,
    body: &'static str,
) -> Result<String, SendError> {
    Ok(text(soon(client.send(post(url, body))).await?).await)
}

/// Connections in memory: the client dials, the test takes the other ends.
pub(super) struct Memory {
    pub(super) options: ConnectOptions,
    ends: mpsc::UnboundedReceiver<DuplexStream>,
    dialled: Arc<AtomicUsize>,
}

impl Memory {
    pub(super) fn new() -> Self {
        let (sender, ends) = mpsc::unbounded_channel();
        let dialled = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&dialled);
        let dialer = Dialer::new(move |_host, _port| {
            count.fetch_add(1, Ordering::Relaxed);
            let (ours, theirs) = duplex(64 * 1024);
            let gone = sender.send(theirs).is_err();
            async move {
                if gone {
                    Err(io::ErrorKind::ConnectionRefused.into())
                } else {
                    Ok(ours)
                }
            }
        });
        Self {
            options: ConnectOptions {
                dialer: Some(dialer),
                ..ConnectOptions::default()
            },
            ends,
            dialled,
        }
    }

    /// The server's end of the next connection.
    pub(super) async fn accept(&mut self) -> DuplexStream {
        soon(self.ends.recv()).await.unwrap()
    }

    /// How many connections were made.
    pub(super) fn dialled(&self) -> usize {
        self.dialled.load(Ordering::Relaxed)
    }

    /// Serves every connection that is still to come with [`echo`], in HTTP/1.1.
    pub(super) fn serve(mut self) -> Counted {
        let dialled = Arc::clone(&self.dialled);
        let options = self.options.clone();
        tokio::spawn(async move {
            while let Some(end) = self.ends.recv().await {
                tokio::spawn(serve_http1(end));
            }
        });
        Counted { options, dialled }
    }
}

/// A server that runs, and how many connections it got.
pub(super) struct Counted {
    pub(super) options: ConnectOptions,
    dialled: Arc<AtomicUsize>,
}

impl Counted {
    pub(super) fn dialled(&self) -> usize {
        self.dialled.load(Ordering::Relaxed)
    }
}

/// Answers with the request's version, its target as it came, and its body.
async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes());
    let body = String::from_utf8_lossy(&body.unwrap_or_default()).into_owned();
    let answer = format!("{:?} {} {body}", head.version, head.uri);
    Ok(Response::new(Full::from(answer)))
}

pub(super) async fn serve_http1<S>(io: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let serving = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(io), service_fn(echo));
    // The client may go at any time.
    let _ = serving.await;
}

pub(super) async fn serve_http2<S>(io: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(io), service_fn(echo));
    let _ = serving.await;
}

/// Reads the head of an HTTP/1.1 message, up to and with its empty line.
pub(super) async fn read_head<S: AsyncRead + Unpin>(io: &mut S) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(soon(io.read_u8()).await.unwrap());
    }
    String::from_utf8(head).unwrap()
}
