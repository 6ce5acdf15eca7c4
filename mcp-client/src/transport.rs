//! What carries the messages: the traits that a transport implements.
//!
//! A [`Connector`] opens channels to one server; a channel comes in three parts, so that reading never waits for writing
//! and closing waits for neither. The in-tree glue for child processes and byte streams is in
//! [`stdio`](crate::stdio); a host can bring its own.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;

use mcp_jsonrpc::RequestId;
use mcp_jsonrpc::frame::NdjsonFrame;
use mcp_proto::ChannelEnd;
use mcp_proto::connection::{ChannelKind, ExchangeMessage, Outbound};
use mcp_proto::http::HttpFailure;
use mcp_proto::lifecycle::{Agreement, ReopenAs};
use mcp_proto::quirk::Quirk;

use crate::evidence::Evidence;
use crate::redact::Redactor;

/// Opens channels to one server, again and again.
pub trait Connector: Send + 'static {
    /// The sending half of a channel.
    type Sink: MessageSink;
    /// The receiving half of a channel.
    type Source: MessageSource;
    /// The rest of a channel: closing it, and evidence about it.
    type Control: ChannelControl;

    /// Opens a channel.
    ///
    /// # Cancel safety
    /// Dropping the future must leave nothing behind: no process, no connection.
    fn open(&mut self) -> impl Future<Output = Result<ChannelOf<Self>, OpenError>> + Send;

    /// Opens a channel in place of one that was closed, of the kind that is wanted now. Default: as the first.
    ///
    /// # Cancel safety
    /// As [`Connector::open`].
    fn reopen(
        &mut self,
        channel: ReopenAs,
    ) -> impl Future<Output = Result<ChannelOf<Self>, OpenError>> + Send {
        let _ = channel;
        self.open()
    }

    /// What must not be shown of what servers write: the secrets that they were given. Default: nothing.
    fn redactor(&self) -> Redactor {
        Redactor::default()
    }

    /// What is connected to, in a few words and without secrets: `npx some-server`.
    fn target(&self) -> String;
}

/// An open channel.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_structs,
    reason = "transports outside this crate build it"
)]
pub struct Channel<S, R, C> {
    /// How it carries messages.
    pub kind: ChannelKind,
    /// The sending half.
    pub sink: S,
    /// The receiving half.
    pub source: R,
    /// The rest.
    pub control: C,
}

/// The channel that a connector opens.
pub type ChannelOf<C> =
    Channel<<C as Connector>::Sink, <C as Connector>::Source, <C as Connector>::Control>;

/// Sends messages.
pub trait MessageSink: Send + 'static {
    /// Sends all messages in order and leaves `messages` empty. Several may go out at once.
    ///
    /// # Errors
    /// When the channel takes no more: nothing further will be sent.
    ///
    /// # Cancel safety
    /// Not needed: the future is dropped only together with the channel.
    fn send(
        &mut self,
        messages: &mut VecDeque<Outbound>,
    ) -> impl Future<Output = Result<(), ChannelEnd>> + Send;

    /// Abandons a request's exchange: closes its stream. Only where messages have an exchange each; unknown ids are to be
    /// ignored.
    fn abort(&mut self, request: RequestId) {
        let _ = request;
    }
}

/// Receives what the server sends.
pub trait MessageSource: Send + 'static {
    /// The next thing, or the end.
    ///
    /// # Cancel safety
    /// The future is dropped at any point and made again; nothing that was read may be lost with it (C012).
    fn recv(&mut self) -> impl Future<Output = Received> + Send;

    /// What is there already, without waiting, but never the end. Lets the driver handle what came together together.
    fn try_recv(&mut self) -> Option<Received> {
        None
    }
}

/// What a [`MessageSource`] yields.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the driver must handle each kind of input"
)]
pub enum Received {
    /// A frame of a channel that all messages share.
    Frame(NdjsonFrame),
    /// A message on an exchange.
    Message(ExchangeMessage),
    /// An exchange ended without bringing what it was for.
    ExchangeFailed {
        /// The request that opened it, if it was one.
        origin: Option<RequestId>,
        /// Why.
        failure: HttpFailure,
    },
    /// What the server says by itself was interrupted: changes may have been missed.
    MissedChanges,
    /// A rule was broken in a way that is tolerated.
    Quirk(Quirk),
    /// The channel ended; nothing follows.
    End(ChannelEnd),
}

/// Closes a channel and knows about it.
pub trait ChannelControl: Send + Sync + 'static {
    /// Closes in order, with bounded waits: for a process, its whole stop ladder. Both halves were dropped before.
    fn close(&self) -> impl Future<Output = CloseReport> + Send;

    /// Says how the channel ended, as well as can be found out in a short bounded time: a process that closed its output
    /// is about to exit, and its status says more than the closed output.
    fn explain_end(&self, end: ChannelEnd) -> impl Future<Output = ChannelEnd> + Send {
        std::future::ready(end)
    }

    /// Tells what was agreed on, each time it was.
    fn agreed(&self, agreement: &Agreement) {
        let _ = agreement;
    }

    /// What there is to know about the channel, in words: `("transport", "Streamable HTTP")`.
    fn facts(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// What there is to show about the other side.
    fn evidence(&self) -> Evidence {
        Evidence::default()
    }
}

/// How a channel was closed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct CloseReport {
    /// What happened, in words: `exited with status 0 after its input was closed`. Empty when there is nothing to say.
    pub summary: String,
    /// Whether force was needed.
    pub forced: bool,
    /// Whether something was left behind.
    pub leftovers: bool,
}

impl CloseReport {
    /// A report.
    pub fn new(summary: impl Into<String>, forced: bool, leftovers: bool) -> Self {
        Self {
            summary: summary.into(),
            forced,
            leftovers,
        }
    }
}

/// Why a channel could not be opened.
#[derive(Debug)]
pub struct OpenError {
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl OpenError {
    /// Wraps the transport's own error.
    pub fn new(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            source: source.into(),
        }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.source()
    }
}
