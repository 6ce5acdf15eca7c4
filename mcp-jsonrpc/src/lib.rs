//! JSON-RPC 2.0 as the Model Context Protocol uses it, without I/O.
//!
//! This crate turns bytes into messages and messages into bytes. It knows nothing about MCP methods, owns no socket,
//! reads no clock and starts no thread, so it can be driven from an async runtime, from a blocking loop or from a test
//! with virtual time.
//!
//! | part | what it does |
//! |---|---|
//! | [`frame`] | cuts a byte stream into lines ([`frame::NdjsonDecoder`]) or events ([`frame::SseDecoder`]) |
//! | [`Messages`] | reads a frame once and yields its messages with raw payloads; what is no message is a [`MessageFault`] |
//! | [`InFlight`] | remembers what was asked: each entry comes back exactly once |
//! | [`encode`] | writes requests, notifications and responses as one line |
//! | [`salvage`] | finds the id of a message that can't be read whole, so that just its own call fails |
//!
//! Bad input from a peer is never an `Err` and never a panic: it is a value ([`MessageFault`], [`Oddity`],
//! [`frame::NdjsonFrame::TooLong`]) that the caller can count, log or act on.
//!
//! # Driving it
//!
//! 1. Append received bytes to a buffer.
//! 2. Call [`frame::NdjsonDecoder::decode`] until it returns `None`.
//! 3. Give each line to [`Messages::new`] and handle every item.
//!
//! ```
//! use bytes::BytesMut;
//! use mcp_jsonrpc::{Incoming, Message, Messages, frame::{NdjsonDecoder, NdjsonFrame}};
//!
//! let mut decoder = NdjsonDecoder::new(16 * 1024 * 1024);
//! let mut buffer = BytesMut::from(&b"Server ready\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"ok\":true}}\n"[..]);
//! let mut answers = 0;
//! while let Some(frame) = decoder.decode(&mut buffer) {
//!     let NdjsonFrame::Line(line) = frame else { continue };
//!     for incoming in Messages::new(line) {
//!         match incoming {
//!             Incoming::Message(Message::Response(response), _) => {
//!                 assert_eq!(response.id.unwrap().to_string(), "1");
//!                 assert_eq!(response.outcome.unwrap().as_str(), r#"{"ok":true}"#);
//!                 answers += 1;
//!             }
//!             Incoming::Fault(fault) => assert_eq!(fault.evidence(), "Server ready"),
//!             _ => {}
//!         }
//!     }
//! }
//! assert_eq!(answers, 1);
//! ```

#![forbid(unsafe_code)]

mod code;
mod deadline;
pub mod encode;
mod error_object;
mod fault;
pub mod frame;
mod id;
mod in_flight;
mod message;
mod raw;
pub mod salvage;

pub use code::ErrorCode;
pub use deadline::{Deadline, TimedOut, TimeoutKind};
pub use error_object::ErrorObject;
pub use fault::{FaultKind, MAX_EVIDENCE_BYTES, MessageFault, clean_excerpt};
pub use id::RequestId;
pub use in_flight::{InFlight, MAX_ABANDONED_IDS, Settled};
pub use message::{
    Incoming, MAX_BATCH_MEMBERS, Message, Messages, Notification, Oddities, Oddity, Request,
    Response,
};
pub use raw::RawJson;
