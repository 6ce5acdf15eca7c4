//! Requests, and how they are read. Strict: what a careful server would refuse is a fault.

use std::io;

use bytes::{Buf as _, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::Instant;

/// Longest head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
/// Longest body.
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;
/// Longest line that starts a chunk.
const MAX_CHUNK_LINE_BYTES: usize = 1024;

/// A request as it came.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Request {
    /// `POST`.
    pub method: String,
    /// `/mcp?x=1`.
    pub target: String,
    /// All headers, in order, names as they were spelled.
    pub headers: Vec<(String, String)>,
    /// The body, without its framing.
    pub body: Vec<u8>,
    /// The number of the connection it came on, from 0.
    pub connection: u64,
    /// Its number among all requests of the peer, from 0.
    pub sequence: u64,
    /// When it was complete.
    pub at: Instant,
}

impl Request {
    /// The first value of a header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.headers, name)
    }

    /// The target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The body as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The method of the message in the body.
    pub fn rpc_method(&self) -> Option<String> {
        Some(self.json().get("method")?.as_str()?.to_owned())
    }

    /// The id of the message in the body; null if there is none.
    pub fn rpc_id(&self) -> Value {
        self.json().get("id").cloned().unwrap_or_default()
    }

    /// Whether the client wants the connection closed after the reply.
    pub(super) fn wants_close(&self) -> bool {
        self.header("connection").is_some_and(is_close)
    }
}

/// Whether a `Connection` header says `close`.
pub(super) fn is_close(value: &str) -> bool {
    value
        .split(',')
        .any(|option| option.trim().eq_ignore_ascii_case("close"))
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    values(headers, name).next()
}

fn values<'a>(headers: &'a [(String, String)], name: &str) -> impl Iterator<Item = &'a str> {
    headers
        .iter()
        .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.as_str())
}

/// Why no request could be read.
pub(super) type Fault = String;

/// The head of a request, and how its body is framed.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length(usize),
    Chunked,
}

impl Head {
    fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let start = lines.next().unwrap_or_default();
        let mut words = start.split(' ');
        let (Some(method), Some(target), Some("HTTP/1.1"), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(format!("not a request line of HTTP/1.1: {start:?}"));
        };
        if !is_token(method) || target.is_empty() {
            return Err(format!("not a method and a target: {start:?}"));
        }
        let mut headers = Vec::new();
        for line in lines {
            let (name, value) = line
                .split_once(':')
                .filter(|(name, value)| is_token(name) && !value.contains(['\r', '\n', '\0']))
                .ok_or_else(|| format!("not a header: {line:?}"))?;
            let value = value.trim_matches([' ', '\t']);
            headers.push((name.to_owned(), value.to_owned()));
        }
        if values(&headers, "host").count() != 1 {
            return Err("there is not exactly one Host header".to_owned());
        }
        let framing = Framing::of(&headers)?;
        Ok(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
            framing,
        })
    }
}

impl Framing {
    fn of(headers: &[(String, String)]) -> Result<Self, Fault> {
        let lengths: Vec<_> = values(headers, "content-length").collect();
        let codings: Vec<_> = values(headers, "transfer-encoding").collect();
        match (&lengths[..], &codings[..]) {
            ([], []) => Ok(Self::Length(0)),
            ([], [coding]) if coding.eq_ignore_ascii_case("chunked") => Ok(Self::Chunked),
            ([length], []) => {
                let digits = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
                digits
                    .then(|| length.parse().ok())
                    .flatten()
                    .filter(|length| *length <= MAX_BODY_BYTES)
                    .map(Self::Length)
                    .ok_or_else(|| format!("not a length that is read: {length:?}"))
            }
            _ => Err(format!(
                "contradicting or unknown framing: lengths {lengths:?}, codings {codings:?}"
            )),
        }
    }
}

fn is_token(text: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_tchar)
}

/// The reading half of a connection, with what was read ahead.
#[derive(Debug)]
pub(super) struct Reader<R> {
    io: R,
    buffer: BytesMut,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub(super) fn new(io: R) -> Self {
        Self {
            io,
            buffer: BytesMut::new(),
        }
    }

    pub(super) fn into_inner(self) -> R {
        self.io
    }

    /// The next request's head. `None` if the client closed the connection in between two requests.
    pub(super) async fn head(&mut self) -> Result<Option<Head>, Fault> {
        let mut searched = 0;
        loop {
            if let Some(at) = find(&self.buffer[searched..], b"\r\n\r\n") {
                let end = searched + at;
                if end > MAX_HEAD_BYTES {
                    return Err(format!("the head is longer than {MAX_HEAD_BYTES} bytes"));
                }
                let head = Head::parse(&self.buffer[..end])?;
                self.buffer.advance(end + 4);
                return Ok(Some(head));
            }
            if self.buffer.len() > MAX_HEAD_BYTES {
                return Err(format!("the head is longer than {MAX_HEAD_BYTES} bytes"));
            }
            searched = self.buffer.len().saturating_sub(3);
            match self.more().await {
                Ok(true) => {}
                Ok(false) | Err(_) if self.buffer.is_empty() => return Ok(None),
                Ok(false) => return Err("the client closed in the middle of a head".to_owned()),
                Err(error) => return Err(format!("in the middle of a head: {error}")),
            }
        }
    }

    /// The body that belongs to a head.
    pub(super) async fn body(&mut self, head: &Head) -> Result<Vec<u8>, Fault> {
        match head.framing {
            Framing::Length(length) => self.exactly(length).await,
            Framing::Chunked => self.chunks().await,
        }
    }

    async fn chunks(&mut self) -> Result<Vec<u8>, Fault> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let size = line.split(';').next().unwrap_or_default().trim_end();
            let size = Some(size)
                .filter(|size| size.bytes().all(|byte| byte.is_ascii_hexdigit()))
                .and_then(|size| usize::from_str_radix(size, 16).ok())
                .filter(|size| body.len().saturating_add(*size) <= MAX_BODY_BYTES)
                .ok_or_else(|| format!("not the size of a chunk: {line:?}"))?;
            if size == 0 {
                while !self.line().await?.is_empty() {}
                return Ok(body);
            }
            body.extend(self.exactly(size).await?);
            if !self.line().await?.is_empty() {
                return Err("a chunk is longer than it said".to_owned());
            }
        }
    }

    async fn line(&mut self) -> Result<String, Fault> {
        loop {
            if let Some(at) = find(&self.buffer, b"\r\n") {
                let line = String::from_utf8_lossy(&self.buffer[..at]).into_owned();
                self.buffer.advance(at + 2);
                return Ok(line);
            }
            if self.buffer.len() > MAX_CHUNK_LINE_BYTES {
                return Err("the line of a chunk does not end".to_owned());
            }
            self.more_of_body().await?;
        }
    }

    async fn exactly(&mut self, length: usize) -> Result<Vec<u8>, Fault> {
        while self.buffer.len() < length {
            self.more_of_body().await?;
        }
        Ok(self.buffer.split_to(length).to_vec())
    }

    async fn more_of_body(&mut self) -> Result<(), Fault> {
        match self.more().await {
            Ok(true) => Ok(()),
            Ok(false) => Err("the client closed in the middle of a body".to_owned()),
            Err(error) => Err(format!("in the middle of a body: {error}")),
        }
    }

    /// Reads some more. `false` at the end.
    async fn more(&mut self) -> io::Result<bool> {
        self.buffer.reserve(8 * 1024);
        Ok(self.io.read_buf(&mut self.buffer).await? > 0)
    }

    /// Waits until the client closes the connection, reading ahead what it sends until then.
    pub(super) async fn closed(&mut self) {
        // A client that never stops sending is as good as gone.
        while self.buffer.len() <= MAX_HEAD_BYTES + MAX_BODY_BYTES
            && matches!(self.more().await, Ok(true))
        {}
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}
