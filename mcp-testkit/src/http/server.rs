//! The peer: connections, what is done on them, and the record of it.

use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::reply::{Reply, Script, Step};
use super::request::{Head, Reader, Request};

/// How much a connection in memory holds before writing waits.
const MEMORY_BYTES: usize = 64 * 1024;

type Answering = Pin<Box<dyn Future<Output = Reply> + Send>>;
type Handler = Box<dyn Fn(Request) -> Answering + Send + Sync>;
type OnHead = Box<dyn Fn(&Request) -> Option<Reply> + Send + Sync>;
type Greeting = Box<dyn Fn(u64) -> Vec<Step> + Send + Sync>;

/// How the reply to a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is not complete yet.
    Pending,
    /// It was sent as scripted.
    Sent,
    /// The client closed the connection, or its half of it, while the reply was in the making or not complete.
    Aborted,
}

/// What a peer saw so far.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Record {
    /// All requests, by their sequence numbers.
    pub requests: Vec<Request>,
    /// How the replies to them went.
    pub outcomes: Vec<Outcome>,
    /// How many connections there ever were.
    pub connections: u64,
    /// How many of them are open.
    pub open: u64,
    /// What could not be read as a request, and panics of the handler.
    pub faults: Vec<String>,
}

impl Record {
    /// The requests whose replies went so.
    pub fn with(&self, outcome: Outcome) -> impl Iterator<Item = &Request> {
        let pairs = self.requests.iter().zip(&self.outcomes);
        pairs
            .filter(move |(_, known)| **known == outcome)
            .map(|(request, _)| request)
    }

    fn settle(&mut self, sequence: u64, outcome: Outcome) {
        let index = usize::try_from(sequence).unwrap_or(usize::MAX);
        if let Some(known) = self.outcomes.get_mut(index)
            && *known == Outcome::Pending
        {
            *known = outcome;
        }
    }
}

/// One line for each request.
impl fmt::Display for Record {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "{} of {} connections open",
            self.open, self.connections
        )?;
        for (request, outcome) in self.requests.iter().zip(&self.outcomes) {
            let message = request.rpc_method().unwrap_or_default();
            writeln!(
                out,
                "#{} on connection {}: {} {} {message} ({} bytes): {outcome:?}",
                request.sequence,
                request.connection,
                request.method,
                request.target,
                request.body.len()
            )?;
        }
        for fault in &self.faults {
            writeln!(out, "fault: {fault}")?;
        }
        Ok(())
    }
}

/// What all tasks of a peer share.
struct Shared {
    handler: Handler,
    on_head: Option<OnHead>,
    greeting: Option<Greeting>,
    record: watch::Sender<Record>,
}

impl Shared {
    fn note(&self, change: impl FnOnce(&mut Record)) {
        self.record.send_modify(change);
    }

    fn settle(&self, sequence: u64, outcome: Outcome) {
        self.note(|record| record.settle(sequence, outcome));
    }
}

/// The connections' tasks. They end with the last strong reference, which the peer has.
type Tasks = Mutex<JoinSet<()>>;

/// How to drop a connection so that the client sees a reset.
type OnReset<S> = fn(&S);

fn start<S>(tasks: &Tasks, shared: &Arc<Shared>, stream: S, on_reset: OnReset<S>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut number = 0;
    shared.note(|record| {
        number = record.connections;
        record.connections += 1;
        record.open += 1;
    });
    let open = Open(Arc::clone(shared), number);
    let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
    while tasks.try_join_next().is_some() {}
    tasks.spawn(serve(open, stream, on_reset));
}

/// An open connection, counted and numbered.
struct Open(Arc<Shared>, u64);

impl Drop for Open {
    fn drop(&mut self) {
        let fault = std::thread::panicking().then(|| format!("connection {}: panicked", self.1));
        self.0.note(|record| {
            record.open -= 1;
            record.faults.extend(fault);
        });
    }
}

/// What becomes of a connection.
enum After {
    /// It goes on.
    Next,
    /// The peer closes it.
    Close,
    /// The peer drops it.
    Reset,
    /// The client closed it.
    Gone,
}

async fn serve<S>(open: Open, stream: S, on_reset: OnReset<S>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (read, mut write) = tokio::io::split(stream);
    let mut reader = Reader::new(read);
    match converse(&open, &mut reader, &mut write).await {
        After::Close => {
            let _ = write.shutdown().await;
            reader.closed().await;
        }
        After::Reset => on_reset(&reader.into_inner().unsplit(write)),
        After::Next | After::Gone => {}
    }
}

async fn converse<R, W>(open: &Open, reader: &mut Reader<R>, write: &mut W) -> After
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let Open(shared, number) = open;
    if let Some(greeting) = &shared.greeting {
        let script = steps(greeting(*number)).script();
        match play(write, script, || {}).await {
            Ok(After::Next) => {}
            Ok(after) => return after,
            Err(_) => return After::Gone,
        }
    }
    loop {
        let fault = match reader.head().await {
            Ok(None) => return After::Gone,
            Ok(Some(head)) => match exchange(open, reader, write, head).await {
                Ok(After::Next) => continue,
                Ok(after) => return after,
                Err(fault) => fault,
            },
            Err(fault) => fault,
        };
        shared.note(|record| record.faults.push(format!("connection {number}: {fault}")));
        let refusal = Reply::status(400).closing().body(fault).wire();
        let _ = write.write_all(&refusal).await;
        return After::Close;
    }
}

fn steps(steps: Vec<Step>) -> Reply {
    steps.into_iter().fold(Reply::nothing(), Reply::step)
}

/// One request and the reply to it. An error means that the request could not be read.
async fn exchange<R, W>(
    open: &Open,
    reader: &mut Reader<R>,
    write: &mut W,
    head: Head,
) -> Result<After, String>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let Open(shared, connection) = open;
    let mut request = Request {
        method: head.method.clone(),
        target: head.target.clone(),
        headers: head.headers.clone(),
        body: Vec::new(),
        connection: *connection,
        sequence: 0,
        at: Instant::now(),
    };
    let early = shared.on_head.as_ref().and_then(|decide| decide(&request));
    let body_is_left = early.is_some();
    if !body_is_left {
        request.body = reader.body(&head).await?;
        request.at = Instant::now();
    }
    shared.note(|record| {
        request.sequence = u64::try_from(record.requests.len()).unwrap_or(u64::MAX);
        record.requests.push(request.clone());
        record.outcomes.push(Outcome::Pending);
    });
    let sequence = request.sequence;
    let wants_close = request.wants_close();
    let reply = async {
        let reply = match early {
            Some(reply) => reply,
            None => (shared.handler)(request).await,
        };
        let script = reply.script();
        let close = script.close;
        let after = play(write, script, || shared.settle(sequence, Outcome::Sent)).await?;
        std::io::Result::Ok(match after {
            After::Next if close || wants_close => After::Close,
            after => after,
        })
    };
    // A complete reply counts even if the client closes at the same moment.
    let after = tokio::select! {
        biased;
        after = reply => after.unwrap_or(After::Gone),
        () = reader.closed() => After::Gone,
    };
    if matches!(after, After::Gone) {
        shared.settle(sequence, Outcome::Aborted);
    }
    // A client that had its answer may well leave instead of sending the rest.
    if body_is_left && matches!(after, After::Next) && reader.body(&head).await.is_err() {
        return Ok(After::Gone);
    }
    Ok(after)
}

/// Carries out a script, and says once when the reply is complete.
async fn play<W>(
    write: &mut W,
    script: Script,
    mut complete: impl FnMut(),
) -> std::io::Result<After>
where
    W: AsyncWrite + Unpin,
{
    let mut chunked = script.chunked;
    let mut more = script.more;
    let mut done = 0;
    let mut steps = script.steps.into_iter();
    loop {
        if script.complete_after == Some(done) {
            complete();
        }
        done += 1;
        let step = match (steps.next(), &mut more) {
            (Some(step), _) => step,
            (None, Some(more)) => match more.recv().await {
                Some(step) => step,
                None => break,
            },
            (None, None) => break,
        };
        match step {
            Step::Bytes(_) | Step::Chunk(_) | Step::EndChunks => {
                let bytes = step.wire();
                write.write_all(&bytes).await?;
                write.flush().await?;
                if matches!(step, Step::EndChunks) {
                    chunked = false;
                    complete();
                }
            }
            Step::Wait(pause) => tokio::time::sleep(pause).await,
            Step::Until(gate) => gate.wait().await,
            Step::CloseConnection => {
                complete();
                return Ok(After::Close);
            }
            Step::Reset => {
                complete();
                return Ok(After::Reset);
            }
            Step::Never => std::future::pending().await,
        }
    }
    if chunked {
        write.write_all(&Step::EndChunks.wire()).await?;
        write.flush().await?;
    }
    complete();
    Ok(After::Next)
}

/// A peer in the making.
#[must_use]
pub struct PeerBuilder {
    handler: Handler,
    on_head: Option<OnHead>,
    greeting: Option<Greeting>,
    memory_bytes: usize,
}

impl fmt::Debug for PeerBuilder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PeerBuilder").finish_non_exhaustive()
    }
}

impl PeerBuilder {
    /// Does something on each new connection before anything is read from it, told the connection's number. Nothing is
    /// read in the meantime, not even that the client closed it.
    pub fn greeting(mut self, greeting: impl Fn(u64) -> Vec<Step> + Send + Sync + 'static) -> Self {
        self.greeting = Some(Box::new(greeting));
        self
    }

    /// Answers some requests as soon as their heads are there. Their bodies are read later and dropped.
    pub fn on_head(
        mut self,
        decide: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    ) -> Self {
        self.on_head = Some(Box::new(decide));
        self
    }

    /// How many bytes a connection in memory holds before writing waits.
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// A peer that only has connections in memory.
    pub fn memory(self) -> HttpPeer {
        HttpPeer {
            memory_bytes: self.memory_bytes,
            shared: Arc::new(Shared {
                handler: self.handler,
                on_head: self.on_head,
                greeting: self.greeting,
                record: watch::Sender::default(),
            }),
            tasks: Arc::default(),
            listening: Mutex::default(),
            address: None,
        }
    }

    /// A peer on loopback, on any free port.
    ///
    /// # Panics
    /// When there is none.
    pub async fn tcp(self) -> HttpPeer {
        self.tcp_at(([127, 0, 0, 1], 0).into()).await
    }

    /// A peer at an address, as that of an earlier one.
    ///
    /// # Panics
    /// When it is taken.
    pub async fn tcp_at(self, address: SocketAddr) -> HttpPeer {
        let listener = TcpListener::bind(address).await;
        let listener = listener.expect("the address of a test's peer is free");
        let mut peer = self.memory();
        peer.address = listener.local_addr().ok();
        let (tasks, shared) = (Arc::downgrade(&peer.tasks), Arc::clone(&peer.shared));
        let mut listening = JoinSet::new();
        listening.spawn(accept(listener, tasks, shared));
        peer.listening = Mutex::new(listening);
        peer
    }
}

async fn accept(listener: TcpListener, tasks: Weak<Tasks>, shared: Arc<Shared>) {
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                shared.note(|record| record.faults.push(format!("accepts no more: {error}")));
                return;
            }
        };
        let Some(tasks) = tasks.upgrade() else {
            return;
        };
        let _ = stream.set_nodelay(true);
        start(&tasks, &shared, stream, reset_tcp);
    }
}

fn reset_tcp(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

/// A scripted HTTP/1.1 server. Everything of it ends when it is dropped.
pub struct HttpPeer {
    shared: Arc<Shared>,
    tasks: Arc<Tasks>,
    listening: Mutex<JoinSet<()>>,
    address: Option<SocketAddr>,
    memory_bytes: usize,
}

impl fmt::Debug for HttpPeer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let record = self.record().to_string();
        out.debug_struct("HttpPeer")
            .field("address", &self.address)
            .field("record", &record)
            .finish_non_exhaustive()
    }
}

impl HttpPeer {
    /// A peer in the making. The handler is `Fn(Request) -> Reply`, or an async one.
    pub fn builder<F, A>(handler: F) -> PeerBuilder
    where
        F: Fn(Request) -> A + Send + Sync + 'static,
        A: IntoFuture<Output = Reply>,
        A::IntoFuture: Send + 'static,
    {
        PeerBuilder {
            handler: Box::new(move |request| Box::pin(handler(request).into_future())),
            on_head: None,
            greeting: None,
            memory_bytes: MEMORY_BYTES,
        }
    }

    /// A peer on loopback, on any free port. Not for a paused clock, which runs ahead while the network works.
    ///
    /// # Panics
    /// When there is none.
    pub async fn tcp<F, A>(handler: F) -> Self
    where
        F: Fn(Request) -> A + Send + Sync + 'static,
        A: IntoFuture<Output = Reply>,
        A::IntoFuture: Send + 'static,
    {
        Self::builder(handler).tcp().await
    }

    /// A peer that only has connections in memory, for a paused clock.
    pub fn memory<F, A>(handler: F) -> Self
    where
        F: Fn(Request) -> A + Send + Sync + 'static,
        A: IntoFuture<Output = Reply>,
        A::IntoFuture: Send + 'static,
    {
        Self::builder(handler).memory()
    }

    /// Where it listens.
    ///
    /// # Panics
    /// When it only has connections in memory.
    pub fn addr(&self) -> SocketAddr {
        self.address.expect("the peer listens")
    }

    /// The URL of a path, which starts with a slash. A peer in memory is at 127.0.0.1, without a port.
    pub fn url(&self, path: &str) -> String {
        match self.address {
            Some(address) => format!("http://{address}{path}"),
            None => format!("http://127.0.0.1{path}"),
        }
    }

    /// A new connection in memory; the client's end of it.
    pub fn dial(&self) -> DuplexStream {
        self.dialer().dial()
    }

    /// What makes connections in memory, to give away.
    pub fn dialer(&self) -> Dialer {
        Dialer {
            shared: Arc::clone(&self.shared),
            tasks: Arc::downgrade(&self.tasks),
            memory_bytes: self.memory_bytes,
        }
    }

    /// Serves one more connection of any kind, such as a TLS stream.
    pub fn attach<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        start(&self.tasks, &self.shared, stream, |_| {});
    }

    /// Stops listening: new connections are refused, the ones there are go on.
    pub async fn stop_listening(&self) {
        let mut listening = take(&self.listening);
        listening.shutdown().await;
    }

    /// Drops all connections.
    pub async fn drop_connections(&self) {
        let mut tasks = take(&self.tasks);
        tasks.shutdown().await;
    }

    /// What it saw so far.
    pub fn record(&self) -> Record {
        self.shared.record.borrow().clone()
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.record.borrow().requests.clone()
    }

    /// How many connections there ever were.
    pub fn connections(&self) -> u64 {
        self.shared.record.borrow().connections
    }

    /// How many connections are open. One that the peer ended in order is, until the client closes it too.
    pub fn open_connections(&self) -> u64 {
        self.shared.record.borrow().open
    }

    /// The requests whose replies the client did not want to the end: it closed the connection before they were complete.
    pub fn aborted(&self) -> Vec<Request> {
        self.record().with(Outcome::Aborted).cloned().collect()
    }

    /// What could not be read as a request, and panics of the handler. A well-behaved client leaves none.
    pub fn faults(&self) -> Vec<String> {
        self.shared.record.borrow().faults.clone()
    }

    /// Waits for something to be seen.
    ///
    /// # Panics
    /// When that takes longer than `within` on tokio's clock; the message says what was waited for, and what was seen.
    pub async fn wait_until(
        &self,
        what: &str,
        within: Duration,
        done: impl FnMut(&Record) -> bool,
    ) -> Record {
        let mut record = self.shared.record.subscribe();
        let waiting = async { record.wait_for(done).await.map(|record| record.clone()) };
        match tokio::time::timeout(within, waiting).await {
            Ok(Ok(record)) => record,
            _ => panic!("{what}: not within {within:?}\n{}", self.record()),
        }
    }

    /// Waits until there were this many requests, and returns all.
    ///
    /// # Panics
    /// When that takes longer than `within`.
    pub async fn wait_for(&self, requests: usize, within: Duration) -> Vec<Request> {
        let what = format!("{requests} requests");
        let seen = |record: &Record| record.requests.len() >= requests;
        self.wait_until(&what, within, seen).await.requests
    }

    /// Waits for the first request that is as wanted.
    ///
    /// # Panics
    /// When that takes longer than `within`.
    pub async fn wait_request(
        &self,
        what: &str,
        within: Duration,
        wanted: impl Fn(&Request) -> bool,
    ) -> Request {
        let seen = |record: &Record| record.requests.iter().any(&wanted);
        let record = self.wait_until(what, within, seen).await;
        let mut requests = record.requests.into_iter();
        requests
            .find(&wanted)
            .expect("it was there a moment ago, and nothing is removed")
    }

    /// Waits until this many requests were aborted, and returns them.
    ///
    /// # Panics
    /// When that takes longer than `within`.
    pub async fn wait_aborted(&self, requests: usize, within: Duration) -> Vec<Request> {
        let what = format!("{requests} aborted requests");
        let seen = |record: &Record| record.with(Outcome::Aborted).count() >= requests;
        let record = self.wait_until(&what, within, seen).await;
        record.with(Outcome::Aborted).cloned().collect()
    }

    /// Waits until no connection is open.
    ///
    /// # Panics
    /// When that takes longer than `within`.
    pub async fn wait_closed(&self, within: Duration) {
        self.wait_until("no open connections", within, |record| record.open == 0)
            .await;
    }
}

fn take(tasks: &Mutex<JoinSet<()>>) -> JoinSet<()> {
    std::mem::take(&mut *tasks.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Makes connections in memory to a peer, for as long as there is one.
#[derive(Clone)]
pub struct Dialer {
    shared: Arc<Shared>,
    tasks: Weak<Tasks>,
    memory_bytes: usize,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Dialer").finish_non_exhaustive()
    }
}

impl Dialer {
    /// A new connection; the client's end of it. Nobody is at the other end when the peer was dropped.
    pub fn dial(&self) -> DuplexStream {
        let (client, server) = tokio::io::duplex(self.memory_bytes);
        if let Some(tasks) = self.tasks.upgrade() {
            start(&tasks, &self.shared, server, |_| {});
        }
        client
    }
}
