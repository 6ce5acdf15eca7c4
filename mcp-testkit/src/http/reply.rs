//! Replies: what is sent, in which pieces and when.

use std::fmt::Write as _;
use std::future::{IntoFuture, Ready, ready};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, watch};

use super::request::is_close;

/// One step of a reply.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Step {
    /// Sends these bytes as they are, in one write.
    Bytes(Vec<u8>),
    /// Sends these bytes as one chunk, in one write. No bytes are no chunk, for that would be the end.
    Chunk(Vec<u8>),
    /// Waits, on tokio's clock.
    Wait(Duration),
    /// Waits until the gate is open.
    Until(Gate),
    /// Sends the last chunk. The reply is complete then, whatever steps follow.
    EndChunks,
    /// Ends the connection in order, and waits for the client to close its side.
    CloseConnection,
    /// Drops the connection: a reset on TCP.
    Reset,
    /// Keeps the connection open for ever and sends nothing more on it.
    Never,
}

/// A gate that a test opens, once for all.
#[derive(Clone, Debug)]
pub struct Gate {
    open: Arc<watch::Sender<bool>>,
    waiting: Arc<watch::Sender<usize>>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self {
            open: Arc::new(watch::Sender::new(false)),
            waiting: Arc::new(watch::Sender::new(0)),
        }
    }

    /// Opens it for all that wait and all that will come.
    pub fn open(&self) {
        self.open.send_replace(true);
    }

    /// Waits until it is open.
    pub async fn wait(&self) {
        let mut open = self.open.subscribe();
        self.waiting.send_modify(|waiting| *waiting += 1);
        // The sender is ours, so there is no end to wait for.
        let _ = open.wait_for(|open| *open).await;
    }

    /// Waits until this many came to it, the ones that went through already counted.
    pub async fn reached(&self, by: usize) {
        let _ = self
            .waiting
            .subscribe()
            .wait_for(|waiting| *waiting >= by)
            .await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// An answer to one request: a head and a body that are well-formed, unless they were made not to be.
///
/// A length or the chunked coding is added when neither header is set, and chunks are ended when the steps ran out and
/// did not do so. A reply is also a future that is ready, so that handlers may be plain functions.
#[derive(Debug)]
#[must_use]
pub struct Reply {
    before: Vec<Step>,
    head: Option<Head>,
    steps: Vec<Step>,
    more: Option<mpsc::UnboundedReceiver<Step>>,
}

#[derive(Clone, Debug)]
struct Head {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length,
    Chunked,
    None,
}

/// A reply as it is carried out.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) steps: Vec<Step>,
    pub(super) more: Option<mpsc::UnboundedReceiver<Step>>,
    /// After how many steps the reply is complete, if that is not when chunks end or steps run out.
    pub(super) complete_after: Option<usize>,
    /// Whether chunks are to be ended if no step did.
    pub(super) chunked: bool,
    /// Whether the connection is closed afterwards.
    pub(super) close: bool,
}

impl Reply {
    /// A status, and an empty body.
    pub fn status(status: u16) -> Self {
        Self {
            head: Some(Head {
                status,
                headers: Vec::new(),
                body: Vec::new(),
                framing: Framing::Length,
            }),
            ..Self::nothing()
        }
    }

    /// A status and a JSON body.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::status(status)
            .header("Content-Type", "application/json")
            .body(body.to_string())
    }

    /// A chunked event stream with status 200. It ends after the steps that are added.
    pub fn sse() -> Self {
        Self::status(200)
            .header("Content-Type", "text/event-stream")
            .header("Cache-Control", "no-cache")
            .chunked()
    }

    /// An event stream whose steps come from outside. It ends when all senders are dropped.
    pub fn stream(steps: mpsc::UnboundedReceiver<Step>) -> Self {
        Self {
            more: Some(steps),
            ..Self::sse()
        }
    }

    /// These bytes and nothing else.
    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::nothing().step(Step::Bytes(bytes.into()))
    }

    /// Nothing at all, until steps are added.
    pub fn nothing() -> Self {
        Self {
            before: Vec::new(),
            head: None,
            steps: Vec::new(),
            more: None,
        }
    }

    /// No answer, on a connection that stays open.
    pub fn never() -> Self {
        Self::nothing().step(Step::Never)
    }

    /// No answer, but the end of the connection.
    pub fn hang_up() -> Self {
        Self::nothing().step(Step::CloseConnection)
    }

    /// A raw response in two writes, the first this long, with a moment in between.
    pub fn cut(raw: &[u8], at: usize) -> Self {
        Self::pieces([&raw[..at], &raw[at..]])
    }

    /// The raw response in two writes, cut after each byte in turn.
    pub fn cut_at_every(raw: &[u8]) -> impl Iterator<Item = Self> {
        (1..raw.len()).map(|at| Self::cut(raw, at))
    }

    /// The raw response in writes of this many bytes, with a moment in between.
    pub fn in_pieces(raw: &[u8], of: usize) -> Self {
        Self::pieces(raw.chunks(of.max(1)))
    }

    fn pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        // Long enough for the client to read what there is, as the clock stands still or the network is loopback.
        let pause = Step::Wait(Duration::from_millis(1));
        let pieces = pieces.into_iter().map(|piece| Step::Bytes(piece.to_vec()));
        let mut steps: Vec<_> = pieces.flat_map(|piece| [piece, pause.clone()]).collect();
        steps.pop();
        Self {
            steps,
            ..Self::nothing()
        }
    }

    /// Adds a header. Setting the length or the coding keeps ours from being added.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        if let Some(head) = &mut self.head {
            head.headers.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Says that the connection is closed afterwards, which it is.
    pub fn closing(self) -> Self {
        self.header("Connection", "close")
    }

    /// Sets the body, which is sent with the head in one write.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        if let Some(head) = &mut self.head {
            head.body = body.into();
        }
        self
    }

    /// Chunked, also if no chunk comes.
    pub fn chunked(mut self) -> Self {
        if let Some(head) = &mut self.head {
            head.framing = Framing::Chunked;
        }
        self
    }

    /// Neither a length nor the chunked coding is added: what follows the head ends with the connection.
    pub fn unframed(mut self) -> Self {
        if let Some(head) = &mut self.head {
            head.framing = Framing::None;
        }
        self
    }

    /// Adds a chunk.
    pub fn chunk(self, bytes: impl Into<Vec<u8>>) -> Self {
        self.chunked().step(Step::Chunk(bytes.into()))
    }

    /// Adds an event, as a chunk of its own.
    pub fn event(self, id: Option<&str>, data: &Value) -> Self {
        self.chunk(sse_event(id, data))
    }

    /// Adds a pause.
    pub fn wait(self, pause: Duration) -> Self {
        self.step(Step::Wait(pause))
    }

    /// Adds any step, after the head and the body.
    pub fn step(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// Adds a step before the head, after the ones that are there already.
    pub fn first(mut self, step: Step) -> Self {
        self.before.push(step);
        self
    }

    /// All bytes of the reply, as they would be sent without any waiting.
    pub fn wire(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut chunked = self.is_chunked();
        for step in self.before.iter().chain(&self.head()).chain(&self.steps) {
            chunked &= !step.ends_chunks();
            bytes.extend(step.wire());
        }
        if chunked {
            bytes.extend(Step::EndChunks.wire());
        }
        bytes
    }

    pub(super) fn script(self) -> Script {
        let head = self.head();
        let complete_after = self
            .head
            .as_ref()
            .is_some_and(Head::tells_its_length)
            .then_some(self.before.len() + head.len());
        Script {
            complete_after,
            chunked: self.is_chunked(),
            close: self.head.as_ref().is_some_and(Head::closes),
            steps: [self.before, head, self.steps].concat(),
            more: self.more,
        }
    }

    fn head(&self) -> Vec<Step> {
        let head = self.head.iter();
        head.map(|head| Step::Bytes(head.wire())).collect()
    }

    fn is_chunked(&self) -> bool {
        self.head
            .as_ref()
            .is_some_and(|head| head.framing == Framing::Chunked)
    }
}

impl IntoFuture for Reply {
    type Output = Self;
    type IntoFuture = Ready<Self>;

    fn into_future(self) -> Ready<Self> {
        ready(self)
    }
}

impl Head {
    fn sets(&self, wanted: &str) -> bool {
        self.headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case(wanted))
    }

    /// Whether the client knows the end of this reply from its head, and all of it is sent with the head.
    fn tells_its_length(&self) -> bool {
        let own = !self.sets("Content-Length") && !self.sets("Transfer-Encoding");
        self.has_no_body() || (own && self.framing == Framing::Length)
    }

    fn has_no_body(&self) -> bool {
        matches!(self.status, 100..=199 | 204 | 304)
    }

    fn closes(&self) -> bool {
        let mut headers = self.headers.iter();
        headers.any(|(name, value)| name.eq_ignore_ascii_case("Connection") && is_close(value))
    }

    fn wire(&self) -> Vec<u8> {
        let mut head = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        for (name, value) in &self.headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        if !self.sets("Content-Length") && !self.sets("Transfer-Encoding") {
            match self.framing {
                Framing::Length if !self.has_no_body() => {
                    let _ = write!(head, "Content-Length: {}\r\n", self.body.len());
                }
                Framing::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
                _ => {}
            }
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        match self.framing {
            Framing::Chunked => bytes.extend(Step::Chunk(self.body.clone()).wire()),
            _ => bytes.extend(&self.body),
        }
        bytes
    }
}

impl Step {
    /// What is sent.
    pub(super) fn wire(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Chunk(bytes) if !bytes.is_empty() => {
                let size = format!("{:x}\r\n", bytes.len());
                [size.as_bytes(), bytes, b"\r\n"].concat()
            }
            Self::EndChunks => b"0\r\n\r\n".to_vec(),
            _ => Vec::new(),
        }
    }

    /// Whether no chunks may follow.
    fn ends_chunks(&self) -> bool {
        matches!(
            self,
            Self::EndChunks | Self::CloseConnection | Self::Reset | Self::Never
        )
    }
}

/// One event of an event stream, with a message as its data.
pub fn sse_event(id: Option<&str>, data: &Value) -> Vec<u8> {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!("{id}data: {data}\n\n").into_bytes()
}

/// An event stream that a test pushes into while it is open.
///
/// Steps that are pushed before there is a stream wait for it. There is one stream at a time: another reply takes over,
/// and the stream before it ends.
#[derive(Clone, Debug)]
pub struct Push(Arc<Mutex<Ends>>);

#[derive(Debug)]
struct Ends {
    sender: Option<mpsc::UnboundedSender<Step>>,
    receiver: Option<mpsc::UnboundedReceiver<Step>>,
}

impl Ends {
    fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        Self {
            sender: Some(sender),
            receiver: Some(receiver),
        }
    }
}

impl Push {
    /// Nothing pushed yet.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Ends::new())))
    }

    /// The stream.
    pub fn reply(&self) -> Reply {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ends.receiver.is_none() {
            *ends = Ends::new();
        }
        let steps = ends.receiver.take();
        Reply {
            more: steps,
            ..Reply::sse()
        }
    }

    /// Pushes a step. `false` if the stream is no more.
    pub fn step(&self, step: Step) -> bool {
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.sender
            .as_ref()
            .is_some_and(|sender| sender.send(step).is_ok())
    }

    /// Pushes an event. `false` if the stream is no more.
    pub fn event(&self, id: Option<&str>, data: &Value) -> bool {
        self.step(Step::Chunk(sse_event(id, data)))
    }

    /// Ends the stream in order, once all that was pushed is sent.
    pub fn end(&self) {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.sender = None;
    }
}

impl Default for Push {
    fn default() -> Self {
        Self::new()
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Scripted",
    }
}
