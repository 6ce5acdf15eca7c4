//! Messages on their way out.

use std::collections::VecDeque;
use std::fmt;

use bytes::Bytes;
use mcp_jsonrpc::RequestId;

use crate::http::HeaderField;
use crate::version::Era;

/// A message to be sent.
#[derive(Clone)]
pub struct Outbound {
    line: Bytes,
    kind: OutboundKind,
    /// Boxed: channels that carry messages alone have none.
    head: Option<Box<ExchangeHead>>,
}

/// What a transport with an exchange per message needs to know about one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ExchangeHead {
    /// The era that the exchange follows: what a lost stream means, and whether there are sessions (HTTPM-06).
    pub era: Era,
    /// The method; empty for a response.
    pub method: String,
    /// Header fields, computed from the body (HTTPM-05).
    pub fields: Vec<HeaderField>,
}

/// What kind of message an [`Outbound`] is.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "JSON-RPC knows these three kinds of message and no other"
)]
pub enum OutboundKind {
    /// A notification.
    Notification,
    /// A request with this id.
    Request(RequestId),
    /// An answer to a request of the server, or several in an array.
    Response,
}

/// Shows no contents: arguments may hold secrets.
impl fmt::Debug for Outbound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbound")
            .field("kind", &self.kind)
            .field("bytes", &self.line.len())
            .finish_non_exhaustive()
    }
}

impl Outbound {
    pub(crate) fn new(line: Bytes, kind: OutboundKind) -> Self {
        Self {
            line,
            kind,
            head: None,
        }
    }

    #[must_use]
    pub(crate) fn with_head(mut self, head: Option<ExchangeHead>) -> Self {
        self.head = head.map(Box::new);
        self
    }

    /// What an exchange of its own needs; `None` on a channel that all messages share.
    pub fn head(&self) -> Option<&ExchangeHead> {
        self.head.as_deref()
    }

    /// The message as one line with its `\n`, for byte streams.
    pub fn line(&self) -> &Bytes {
        &self.line
    }

    /// The message alone, for one body each.
    pub fn body(&self) -> Bytes {
        self.line.slice(..self.line.len().saturating_sub(1))
    }

    /// What kind of message.
    pub fn kind(&self) -> &OutboundKind {
        &self.kind
    }

    /// The id, if it is a request.
    pub fn request_id(&self) -> Option<&RequestId> {
        match &self.kind {
            OutboundKind::Request(id) => Some(id),
            OutboundKind::Notification | OutboundKind::Response => None,
        }
    }
}

/// Messages not yet handed to the driver.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    messages: VecDeque<Outbound>,
    /// Of requests and notifications.
    bytes: usize,
    answers: usize,
    answer_bytes: usize,
}

impl Queue {
    pub(crate) fn push(&mut self, message: Outbound) {
        let length = message.line.len();
        if message.kind == OutboundKind::Response {
            self.answers += 1;
            self.answer_bytes += length;
        } else {
            self.bytes += length;
        }
        self.messages.push_back(message);
    }

    pub(crate) fn pop(&mut self) -> Option<Outbound> {
        let message = self.messages.pop_front()?;
        self.count_out(&message);
        Some(message)
    }

    /// Takes a request back that was not handed over yet.
    pub(crate) fn take_back(&mut self, id: &RequestId) -> bool {
        let Some(index) = self
            .messages
            .iter()
            .rposition(|message| message.request_id() == Some(id))
        else {
            return false;
        };
        if let Some(message) = self.messages.remove(index) {
            self.count_out(&message);
        }
        true
    }

    /// Whether a request was not handed over yet.
    pub(crate) fn holds(&self, id: &RequestId) -> bool {
        self.messages
            .iter()
            .rev()
            .any(|message| message.request_id() == Some(id))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn answers(&self) -> usize {
        self.answers
    }

    pub(crate) fn answer_bytes(&self) -> usize {
        self.answer_bytes
    }

    fn count_out(&mut self, message: &Outbound) {
        let length = message.line.len();
        if message.kind == OutboundKind::Response {
            self.answers -= 1;
            self.answer_bytes -= length;
        } else {
            self.bytes -= length;
        }
    }
}
