//! The Model Context Protocol's client side, without I/O.
//!
//! This crate knows what the protocol says: versions and eras, how a connection comes about, the methods and their
//! types, what may be sent when. It has no runtime, no socket and no clock: bytes and the time go in, bytes, events and
//! deadlines come out.
//!
//! # Driving it
//!
//! 1. Make a [`ClientConnection`](connection::ClientConnection) and call
//!    [`start`](connection::ClientConnection::start).
//! 2. Call [`poll_output`](connection::ClientConnection::poll_output) until it says
//!    [`Wait`](connection::Output::Wait): write each message, act on each event.
//! 3. Wait for input: frames from the server, a command of the host, or the deadline that `Wait` carries. Hand it to
//!    `handle_frame`, `request`, `cancel`, `handle_timeout`, `handle_channel_end` or `close`.
//! 4. Go on with 2.
//!
//! ```
//! use std::time::Instant;
//!
//! use bytes::Bytes;
//! use mcp_jsonrpc::frame::NdjsonFrame;
//! use mcp_proto::connection::{ClientConfig, ClientConnection, Event, Output};
//! use mcp_proto::lifecycle::EraPolicy;
//! use mcp_proto::method::CallTool;
//! use mcp_proto::model::{implementation::Implementation, tool::CallToolParams};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let now = Instant::now();
//! let mut config = ClientConfig::new(Implementation::new("harbor", "0.3.0"));
//! config.policy = EraPolicy::Legacy;
//! let mut connection = ClientConnection::<&str>::new(config);
//! connection.start(now);
//!
//! // A server that knows two answers.
//! let mut answers = [
//!     r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},
//!         "serverInfo":{"name":"notes","version":"1"}}}"#,
//!     r#"{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"5"}]}}"#,
//! ]
//! .into_iter();
//!
//! let mut text = None;
//! while text.is_none() {
//!     match connection.poll_output() {
//!         Output::Transmit(message) if message.request_id().is_some() => {
//!             let answer = answers.next().ok_or("no answer left")?;
//!             connection.handle_frame(NdjsonFrame::Line(Bytes::from_static(answer.as_bytes())), now);
//!         }
//!         Output::Event(Event::Ready(_)) => {
//!             let arguments = serde_json::value::to_raw_value(&serde_json::json!({"a": 2, "b": 3}))?;
//!             let params = CallToolParams::new("add", &arguments).ok_or("arguments are an object")?;
//!             connection.request::<CallTool>(&params, &Default::default(), "my call", now)?;
//!         }
//!         Output::Event(Event::Settled { token, outcome, .. }) => {
//!             assert_eq!(token, "my call");
//!             text = Some(mcp_proto::connection::read_result::<CallTool>(outcome)?.text());
//!         }
//!         _ => {}
//!     }
//! }
//! assert_eq!(text.as_deref(), Some("5"));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod backoff;
pub mod cache;
pub mod code;
pub mod connection;
pub mod convert;
pub mod error;
pub mod http;
pub mod lifecycle;
mod members;
pub mod meta;
pub mod method;
pub mod model;
pub mod quirk;
pub mod rounds;
pub mod version;

pub use error::{CallFailure, ChannelEnd, PeerFault, UsageError, Violation};
pub use version::{Era, ProtocolVersion};
