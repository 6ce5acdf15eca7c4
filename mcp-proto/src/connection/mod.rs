//! One connection to one server: the object that a driver drives.
//!
//! [`ClientConnection`] joins the lifecycle, the table of requests in flight and the encoding of messages. It must not
//! know what carries the bytes. Inputs never fail because of the server; `Err` is for the caller's own mistakes.

mod client;
mod config;
mod event;
mod exchange;
mod inbound;
mod outbound;
mod send;
mod server_request;
mod session;
mod subscription;

pub use client::{ClientConnection, RequestOptions, read_result};
pub use config::{ClientConfig, ConnectionLimits};
pub use event::{
    Answer, Diagnostic, Event, Output, ServerNotification, SubscriptionChange, SubscriptionEnd,
    SubscriptionId,
};
pub use exchange::{ChannelKind, ExchangeMessage};
pub use outbound::{ExchangeHead, Outbound, OutboundKind};
pub use server_request::ServerRequest;
pub use session::MAX_SESSION_LOSSES;
