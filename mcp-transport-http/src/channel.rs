//! A channel to one server: messages go in, what comes back comes out.
//!
//! All exchanges of a channel live in the task that reads it; none has a task of its own. A server is read only as fast as
//! its messages are taken, whatever it sends.

use std::collections::{HashMap, VecDeque};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use futures_util::future::{AbortHandle, Abortable, BoxFuture};
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use mcp_jsonrpc::RequestId;
use mcp_proto::Era;
use mcp_proto::connection::{ChannelKind, Outbound, OutboundKind};
use mcp_proto::http::{Delivery, HttpFailure, HttpFailureKind, legacy_fields};
use mcp_proto::lifecycle::Agreement;
use tokio::sync::mpsc;

use crate::connect::SetupError;
use crate::exchange::{HttpEvent, exchange};
use crate::old::{self, OldStream, OldTransportError};
use crate::request::{Ask, Context};
use crate::server::HttpServer;
use crate::server_stream::keep_open;

/// Events that wait to be taken before exchanges are not read any further.
const MAX_WAITING_EVENTS: usize = 16;

/// Answers and notifications of ours, here called asides, that are under way at the same time. Where HTTP has one exchange on
/// each connection, each takes one.
const MAX_ASIDES_UNDER_WAY: usize = 32;

/// Those that wait for them, and their bytes. A server that does not take them gets no more.
const MAX_WAITING_ASIDES: usize = 256;
const MAX_WAITING_ASIDE_BYTES: usize = 1024 * 1024;

/// Opens channels to a server. Connections are shared by all of them.
#[derive(Clone, Debug)]
pub struct HttpConnector {
    context: Arc<Context>,
}

/// The three parts of a channel.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "these are the parts")]
pub struct HttpChannel {
    /// Takes messages.
    pub sink: HttpSink,
    /// Yields what comes back.
    pub source: HttpSource,
    /// Closes the channel and knows about it.
    pub control: HttpControl,
}

/// Takes messages. Nothing here waits: how much may be under way is the connection's to limit.
#[derive(Debug)]
pub struct HttpSink {
    commands: mpsc::UnboundedSender<Command>,
}

#[derive(Debug)]
enum Command {
    Abort(RequestId),
    Agreed(Agreement),
    Send(Outbound),
}

/// Yields what comes back.
#[derive(Debug)]
pub struct HttpSource {
    context: Arc<Context>,
    old: Option<OldStream>,
    commands: mpsc::UnboundedReceiver<Command>,
    events: mpsc::Receiver<HttpEvent>,
    teller: mpsc::Sender<HttpEvent>,
    exchanges: FuturesUnordered<Abortable<BoxFuture<'static, Done>>>,
    handles: HashMap<RequestId, AbortHandle>,
    /// The stream for the server's own messages.
    server_stream: Option<AbortHandle>,
    /// Messages behind one that must arrive first (HTTPL-15).
    held: VecDeque<Outbound>,
    holding: bool,
    /// The handshake's end was sent: the first notification there is.
    is_shaken: bool,
    asides_under_way: usize,
    waiting_asides: VecDeque<Outbound>,
    /// Requests behind the limit of those under way.
    waiting_requests: VecDeque<Outbound>,
}

/// An exchange that is over.
#[derive(Debug, Default)]
struct Done {
    request: Option<RequestId>,
    /// Whether the messages behind it waited for it.
    held_others: bool,
    /// Whether it was an answer or a notification that nothing waits for.
    is_aside: bool,
}

/// Closes a channel and knows about it.
#[derive(Debug)]
pub struct HttpControl {
    context: Arc<Context>,
    commands: mpsc::UnboundedSender<Command>,
    is_old: bool,
}

/// How a session was ended.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SessionEnd {
    /// The server deleted it.
    Deleted,
    /// There was none to be ended.
    None,
    /// It could not be deleted; the server will forget it by itself (HTTPL-14).
    Left {
        /// Why.
        reason: String,
    },
}

impl HttpConnector {
    /// Checks the settings; connects to nothing yet.
    ///
    /// # Errors
    /// When a setting can't be used.
    pub fn new(server: HttpServer, jitter_seed: u64) -> Result<Self, SetupError> {
        Ok(Self {
            context: Context::new(server, jitter_seed)?,
        })
    }

    /// The server.
    pub fn server(&self) -> &HttpServer {
        &self.context.server
    }

    /// Host and port of the proxy in use, without credentials.
    pub fn proxy(&self) -> Option<String> {
        self.context.client.proxy_of()
    }

    /// A channel of Streamable HTTP. Nothing is sent until there is a message.
    #[must_use]
    pub fn open(&self) -> HttpChannel {
        self.channel(None)
    }

    /// A channel of the old transport: opens the stream and waits for the endpoint.
    ///
    /// # Errors
    /// When there is none.
    ///
    /// # Cancel safety
    /// Dropping the future closes the stream.
    pub async fn open_old(&self) -> Result<HttpChannel, OldTransportError> {
        let stream = OldStream::open(&self.context).await?;
        Ok(self.channel(Some(stream)))
    }

    fn channel(&self, old: Option<OldStream>) -> HttpChannel {
        let (commands, receiver) = mpsc::unbounded_channel();
        let (teller, events) = mpsc::channel(MAX_WAITING_EVENTS);
        HttpChannel {
            sink: HttpSink {
                commands: commands.clone(),
            },
            control: HttpControl {
                context: Arc::clone(&self.context),
                commands,
                is_old: old.is_some(),
            },
            source: HttpSource {
                context: Arc::clone(&self.context),
                old,
                commands: receiver,
                events,
                teller,
                exchanges: FuturesUnordered::new(),
                handles: HashMap::new(),
                server_stream: None,
                held: VecDeque::new(),
                holding: false,
                is_shaken: false,
                asides_under_way: 0,
                waiting_asides: VecDeque::new(),
                waiting_requests: VecDeque::new(),
            },
        }
    }
}

impl HttpSink {
    /// Sends a message. `false` when the channel is over.
    pub fn send(&self, message: Outbound) -> bool {
        self.commands.send(Command::Send(message)).is_ok()
    }

    /// Abandons a request's exchange: its stream is closed. Unknown ids are ignored.
    pub fn abort(&self, request: RequestId) {
        // A channel that is over has no exchanges.
        let _ = self.commands.send(Command::Abort(request));
    }
}

impl HttpSource {
    /// The next event.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn recv(&mut self) -> HttpEvent {
        poll_fn(|task| self.poll_event(task)).await
    }

    /// An event that is there already.
    pub fn try_recv(&mut self) -> Option<HttpEvent> {
        self.events.try_recv().ok()
    }

    fn poll_event(&mut self, task: &mut TaskContext<'_>) -> Poll<HttpEvent> {
        loop {
            while let Poll::Ready(Some(command)) = self.commands.poll_recv(task) {
                self.command(command);
            }
            if let Poll::Ready(Some(event)) = self.events.poll_recv(task) {
                return Poll::Ready(event);
            }
            if let Some(old) = &mut self.old {
                let next = std::pin::pin!(old.next());
                if let Poll::Ready(event) = next.poll(task) {
                    return Poll::Ready(event);
                }
            }
            match self.exchanges.poll_next_unpin(task) {
                Poll::Ready(Some(done)) => self.done(done.unwrap_or_default()),
                // Exchanges may have said something while they were polled.
                Poll::Ready(None) | Poll::Pending => {
                    return match self.events.poll_recv(task) {
                        Poll::Ready(Some(event)) => Poll::Ready(event),
                        Poll::Ready(None) | Poll::Pending => Poll::Pending,
                    };
                }
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Send(message) if self.holding => self.held.push_back(message),
            Command::Send(message) => self.begin(message),
            Command::Abort(request) => {
                for waiting in [&mut self.held, &mut self.waiting_requests] {
                    waiting.retain(|message| message.request_id() != Some(&request));
                }
                if let Some(handle) = self.handles.remove(&request) {
                    handle.abort();
                    self.begin_waiting_request();
                }
            }
            Command::Agreed(agreement) => self.agreed(&agreement),
        }
    }

    /// Keeps an aside until others are through.
    fn wait_with(&mut self, aside: Outbound) {
        let bytes: usize = self.waiting_asides.iter().map(|a| a.line().len()).sum();
        if self.waiting_asides.len() < MAX_WAITING_ASIDES && bytes < MAX_WAITING_ASIDE_BYTES {
            self.waiting_asides.push_back(aside);
            return;
        }
        let detail = format!("{MAX_WAITING_ASIDES} messages wait for the server to take them");
        let failure = HttpFailure::new(HttpFailureKind::Unavailable, Delivery::NotSent, detail);
        // It is only told, so it may get lost in the flood.
        let _ = self.teller.try_send(HttpEvent::Failed {
            origin: None,
            failure,
        });
    }

    /// Begins the exchange of a message.
    fn begin(&mut self, message: Outbound) {
        let request = message.request_id().cloned();
        // Separate POSTs have no order, and nothing may overtake the end of the handshake (HTTPL-15).
        let holds = message
            .head()
            .is_some_and(|head| head.method == "notifications/initialized")
            || (self.old.is_some()
                && !self.is_shaken
                && *message.kind() == OutboundKind::Notification);
        let is_aside = request.is_none() && !holds;
        if is_aside && self.asides_under_way >= MAX_ASIDES_UNDER_WAY {
            return self.wait_with(message);
        }
        // A connection each may be needed, and a system has only so many.
        if request.is_some() && self.handles.len() >= self.context.server.limits.max_requests {
            self.waiting_requests.push_back(message);
            return;
        }
        self.asides_under_way += usize::from(is_aside);
        self.holding |= holds;
        self.is_shaken |= holds;
        if message
            .head()
            .is_some_and(|head| head.method == "initialize")
        {
            // They are for the session before.
            self.waiting_asides.clear();
            // A new session gets a stream of its own (C100).
            if let Some(stream) = self.server_stream.take() {
                stream.abort();
            }
        }
        let context = Arc::clone(&self.context);
        let teller = self.teller.clone();
        let target = self.old.as_ref().map(|old| old.target.clone());
        let done = Done {
            request: request.clone(),
            held_others: holds,
            is_aside,
        };
        let (handle, registration) = AbortHandle::new_pair();
        let future: BoxFuture<'static, Done> = Box::pin(async move {
            match target {
                Some(target) => old::post(context, target, message, teller).await,
                None => exchange(context, message, teller).await,
            }
            done
        });
        self.exchanges.push(Abortable::new(future, registration));
        if let Some(request) = request {
            self.handles.insert(request, handle);
        }
    }

    fn begin_waiting_request(&mut self) {
        if let Some(request) = self.waiting_requests.pop_front() {
            self.begin(request);
        }
    }

    fn done(&mut self, done: Done) {
        if let Some(request) = done.request {
            self.handles.remove(&request);
            self.begin_waiting_request();
        }
        if done.is_aside {
            self.asides_under_way -= 1;
            if let Some(aside) = self.waiting_asides.pop_front() {
                self.begin(aside);
            }
        }
        if done.held_others {
            self.holding = false;
            while !self.holding
                && let Some(message) = self.held.pop_front()
            {
                self.begin(message);
            }
        }
    }

    /// A session began: it may have a stream for the server's own messages.
    fn agreed(&mut self, agreement: &Agreement) {
        if self.old.is_some() || agreement.era == Era::Modern {
            return;
        }
        self.context
            .session
            .agree(legacy_fields(&agreement.version));
        if !self.context.server.server_stream {
            return;
        }
        let context = Arc::clone(&self.context);
        let teller = self.teller.clone();
        let (handle, registration) = AbortHandle::new_pair();
        let future: BoxFuture<'static, Done> = Box::pin(async move {
            keep_open(&context, &teller).await;
            Done::default()
        });
        self.exchanges.push(Abortable::new(future, registration));
        if let Some(before) = self.server_stream.replace(handle) {
            before.abort();
        }
    }
}

impl HttpControl {
    /// How the channel carries messages.
    pub fn kind(&self) -> ChannelKind {
        if self.is_old {
            ChannelKind::Shared
        } else {
            ChannelKind::PerExchange
        }
    }

    /// Tells the channel what was agreed on, each time it was.
    pub fn agreed(&self, agreement: &Agreement) {
        // A channel that is over needs no agreement.
        let _ = self.commands.send(Command::Agreed(agreement.clone()));
    }

    /// Ends the session, within a bounded time (HTTPL-14, C101).
    pub async fn close(&self) -> SessionEnd {
        if self.is_old || self.context.session.id().is_none() {
            return SessionEnd::None;
        }
        let limit = self.context.server.limits.delete_timeout;
        let mut ask = Ask::delete();
        self.context.session.add_to(&mut ask.headers);
        let asking = async {
            let response = self.context.ask(&ask).await?;
            if response.status().is_success() {
                self.context.discard(response).await;
                return Ok(());
            }
            Err(self.context.refusal(response, false).await.0)
        };
        let left = |reason| SessionEnd::Left { reason };
        let end = match tokio::time::timeout(limit, asking).await {
            Ok(Ok(())) => SessionEnd::Deleted,
            Ok(Err(failure)) if failure.status == Some(405) => {
                left("the server does not let sessions be deleted".to_owned())
            }
            // It is gone, which was wanted.
            Ok(Err(failure)) if failure.status == Some(404) => SessionEnd::None,
            Ok(Err(failure)) => left(failure.to_string()),
            Err(_) => left(format!("no answer within {limit:?} (limit delete_timeout)")),
        };
        self.context.session.forget();
        end
    }

    /// What there is to know about the channel, in words: `("transport", "Streamable HTTP")`.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let transport = if self.is_old {
            "HTTP+SSE"
        } else {
            "Streamable HTTP"
        };
        let mut facts = vec![("transport", transport.to_owned())];
        if let Some(version) = self.context.session.http_version() {
            facts.push(("http", format!("{version:?}")));
        }
        if !self.is_old {
            let session = match self.context.session.id() {
                Some(_) => "held",
                None => "none",
            };
            facts.push(("session", session.to_owned()));
        }
        if let Some(proxy) = self.context.client.proxy_of() {
            facts.push(("proxy", proxy));
        }
        facts
    }
}

/// A channel's halves go to different places.
const _: fn() = || {
    fn check<T: Send + 'static>() {}
    check::<HttpSink>();
    check::<Pin<Box<HttpSource>>>();
    check::<HttpControl>();
};
