//! Servers over HTTP.
//!
//! [`connect`] reaches a server by its URL: Streamable HTTP in either era, HTTP+SSE of 2024-11-05 as a last resort.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{BuildHasher as _, RandomState};

use mcp_jsonrpc::RequestId;
use mcp_proto::ChannelEnd;
use mcp_proto::connection::{ChannelKind, Outbound};
use mcp_proto::lifecycle::{Agreement, EraPolicy, ReopenAs};
pub use mcp_transport_http::{
    ClientIdentity, ConnectOptions, Dialer, Endpoint, EndpointError, HeaderError, HeaderProvider,
    HeaderRequest, HttpLimits, HttpServer, HttpTransport, HttpVersion, OldTransportError,
    ProvidedHeaders, ProxyChoice, Roots, SendError, SetupError, TlsOptions,
};
use mcp_transport_http::{HttpChannel, HttpControl, HttpEvent, HttpSink, HttpSource, SessionEnd};

use crate::client::Client;
use crate::era_memory::Known;
pub use crate::era_memory::{EraMemory, MAX_REMEMBERED_SERVERS};
use crate::error::Error;
use crate::options::ClientOptions;
use crate::redact::Redactor;
use crate::transport::{
    Channel, ChannelControl, ChannelOf, CloseReport, Connector, MessageSink, MessageSource,
    OpenError, Received,
};

/// Connects to a server. What its URL speaks is remembered for the next time ([`EraMemory::shared`]).
///
/// # Errors
/// When a setting can't be used, the server can't be reached, or no agreement came about.
///
/// # Cancel safety
/// Dropping the future ends the attempt; a session is closed in the background.
pub async fn connect(server: HttpServer, options: ClientOptions) -> Result<Client, Error> {
    connect_with(HttpConnector::new(server), options).await
}

/// As [`connect`], with a connector that was set up first.
///
/// # Errors
/// As [`connect`].
///
/// # Cancel safety
/// As [`connect`].
pub async fn connect_with(
    mut connector: HttpConnector,
    mut options: ClientOptions,
) -> Result<Client, Error> {
    let config = &mut options.config;
    connector.server.limits.max_message_bytes = config.limits.max_message_bytes;
    if config.jitter_seed == 0 {
        config.jitter_seed = RandomState::new().hash_one(connector.server.endpoint().as_str());
    }
    connector.jitter_seed = config.jitter_seed;
    config.old_http_transport &= connector.server.transport == HttpTransport::Auto;
    if connector.server.transport == HttpTransport::OldSse {
        config.policy = EraPolicy::Legacy;
    } else if let Some(known) = connector.known()
        && config.policy == EraPolicy::Auto
    {
        config.hint = config.hint.or(Some(known.era));
        connector.begin_old = known.old_transport && config.old_http_transport;
    }
    Client::connect(connector, options).await
}

/// Opens channels to a server over HTTP.
#[derive(Debug)]
pub struct HttpConnector {
    server: HttpServer,
    memory: Option<EraMemory>,
    jitter_seed: u64,
    /// Whether the first channel is of the old transport.
    begin_old: bool,
    /// Made at the first opening: that reads certificates.
    inner: Option<mcp_transport_http::HttpConnector>,
}

impl HttpConnector {
    /// A connector for this server.
    pub fn new(server: HttpServer) -> Self {
        Self {
            begin_old: server.transport == HttpTransport::OldSse,
            server,
            memory: Some(EraMemory::shared()),
            jitter_seed: 0,
            inner: None,
        }
    }

    /// Sets where it is remembered what servers speak; `None`: nowhere.
    #[must_use]
    pub fn with_memory(mut self, memory: Option<EraMemory>) -> Self {
        self.memory = memory;
        self
    }

    fn known(&self) -> Option<Known> {
        self.memory.as_ref()?.get(self.server.endpoint().as_str())
    }

    async fn inner(&mut self) -> Result<mcp_transport_http::HttpConnector, OpenError> {
        if let Some(inner) = &self.inner {
            return Ok(inner.clone());
        }
        let (server, seed) = (self.server.clone(), self.jitter_seed);
        let make = move || mcp_transport_http::HttpConnector::new(server, seed);
        let inner = if self.server.endpoint().is_https() {
            // It reads the platform's certificates, which blocks.
            let made = tokio::task::spawn_blocking(make).await;
            made.map_err(OpenError::new)?
        } else {
            make()
        };
        Ok(self.inner.insert(inner.map_err(OpenError::new)?).clone())
    }

    fn channel(&self, channel: HttpChannel) -> ChannelOf<Self> {
        let HttpChannel {
            sink,
            source,
            control,
        } = channel;
        Channel {
            kind: control.kind(),
            sink: Sink(sink),
            source: Source(source),
            control: Control {
                control,
                memory: self.memory.clone(),
                url: self.server.endpoint().as_str().to_owned(),
            },
        }
    }
}

impl Connector for HttpConnector {
    type Sink = Sink;
    type Source = Source;
    type Control = Control;

    async fn open(&mut self) -> Result<ChannelOf<Self>, OpenError> {
        if self.begin_old {
            match self.reopen(ReopenAs::OldHttp).await {
                Ok(channel) => return Ok(channel),
                Err(error) if self.server.transport == HttpTransport::OldSse => return Err(error),
                // It spoke nothing else the last time; perhaps it does now.
                Err(_) => {
                    self.begin_old = false;
                    if let Some(memory) = &self.memory {
                        memory.forget(self.server.endpoint().as_str());
                    }
                }
            }
        }
        let channel = self.inner().await?.open();
        Ok(self.channel(channel))
    }

    async fn reopen(&mut self, channel: ReopenAs) -> Result<ChannelOf<Self>, OpenError> {
        let inner = self.inner().await?;
        let channel = match channel {
            ReopenAs::Same => inner.open(),
            ReopenAs::OldHttp => inner.open_old().await.map_err(OpenError::new)?,
        };
        Ok(self.channel(channel))
    }

    fn redactor(&self) -> Redactor {
        Redactor::new(self.server.secrets())
    }

    fn target(&self) -> String {
        self.server.endpoint().to_string()
    }
}

/// Takes messages.
#[derive(Debug)]
pub struct Sink(HttpSink);

impl MessageSink for Sink {
    async fn send(&mut self, messages: &mut VecDeque<Outbound>) -> Result<(), ChannelEnd> {
        for message in messages.drain(..) {
            if !self.0.send(message) {
                return Err(ChannelEnd::new("the channel is closed"));
            }
        }
        Ok(())
    }

    fn abort(&mut self, request: RequestId) {
        self.0.abort(request);
    }
}

/// Yields what comes back.
#[derive(Debug)]
pub struct Source(HttpSource);

impl MessageSource for Source {
    async fn recv(&mut self) -> Received {
        received(self.0.recv().await)
    }

    fn try_recv(&mut self) -> Option<Received> {
        self.0.try_recv().map(received)
    }
}

fn received(event: HttpEvent) -> Received {
    match event {
        HttpEvent::Message(message) => Received::Message(message),
        HttpEvent::Failed { origin, failure } => Received::ExchangeFailed { origin, failure },
        HttpEvent::Frame(frame) => Received::Frame(frame),
        HttpEvent::Quirk(quirk) => Received::Quirk(quirk),
        HttpEvent::MissedChanges => Received::MissedChanges,
        HttpEvent::End(end) => Received::End(end),
    }
}

/// Closes a channel and knows about it.
pub struct Control {
    control: HttpControl,
    memory: Option<EraMemory>,
    url: String,
}

/// Without the URL, whose query may be secret.
impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Control").field(&self.control).finish()
    }
}

impl ChannelControl for Control {
    async fn close(&self) -> CloseReport {
        match self.control.close().await {
            SessionEnd::Deleted => CloseReport::new("the session was deleted", false, false),
            SessionEnd::Left { reason } => CloseReport::new(
                format!("the session was left to the server: {reason}"),
                false,
                false,
            ),
            _ => CloseReport::new("there was no session to end", false, false),
        }
    }

    fn agreed(&self, agreement: &Agreement) {
        if let Some(memory) = &self.memory {
            let known = Known {
                era: agreement.era,
                old_transport: self.control.kind() == ChannelKind::Shared,
            };
            memory.remember(&self.url, known);
        }
        self.control.agreed(agreement);
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        self.control.facts()
    }
}
