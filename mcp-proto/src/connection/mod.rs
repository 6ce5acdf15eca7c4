//! One connection to one server: the object that a driver drives.
//!
//! [`ClientConnection`] joins the lifecycle, the table of requests in flight and the encoding of messages. It must not
//! know what carries the bytes. Inputs never fail because of the server; `Err` is for the caller's own mistakes.

mod client;
mod config;
mod event;
mod inbound;
mod outbound;

pub use client::{ClientConnection, RequestOptions, read_result};
pub use config::{ClientConfig, ConnectionLimits};
pub use event::{Diagnostic, Event, Output, ServerNotification};
pub use outbound::{Outbound, OutboundKind};
