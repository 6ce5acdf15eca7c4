//! A Model Context Protocol client for one server.
//!
//! [`Client`] is a cheap handle; a task on your tokio runtime drives the connection behind it. Requests are multiplexed,
//! dropping a call's future cancels the call, and every call ends in exactly one way.
//!
//! ```no_run
//! use mcp_client::stdio::{ServerCommand, connect};
//! use mcp_client::ClientOptions;
//!
//! # async fn example() -> Result<(), mcp_client::Error> {
//! let command = ServerCommand::new("npx").args(["-y", "@modelcontextprotocol/server-everything"]);
//! let client = connect(command, ClientOptions::new("my-host", "0.1.0")).await?;
//! for tool in &client.tools().await?.tools {
//!     println!("{}", tool.name);
//! }
//! let result = client.call_tool("echo", &serde_json::json!({"message": "hi"})).await?;
//! println!("{}", result.text());
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! | question | answer |
//! |---|---|
//! | protocol versions | 2024-11-05 to 2026-07-28, found out by itself |
//! | runtime | tokio; the layers below ([`mcp_proto`], [`mcp_jsonrpc`]) need none |
//! | cancel safety | dropping any future here is defined; each function says what it does |
//! | repeating calls | tools never, unless the host says so; a lost answer is an error that says whether the call may have been carried out |
//! | transports | [`stdio`], [`http`], any byte stream, or your own by [`transport`] |
//! | limits | [`ClientOptions`], [`mcp_proto::connection::ConnectionLimits`] |

mod answerers;
mod caching;
mod catalogue;
mod changes;
mod client;
mod deprecated;
mod diagnostics;
mod driver;
mod elicitation;
#[cfg(feature = "http")]
mod era_memory;
mod error;
mod evidence;
mod features;
mod handlers;
#[cfg(feature = "http")]
pub mod http;
mod lists;
mod logical_call;
mod notify;
mod options;
mod progress;
mod redact;
mod shared;
#[cfg(feature = "stdio")]
pub mod stdio;
mod subscription;
mod tasks;
mod tools;
pub mod transport;

pub use catalogue::ToolList;
pub use changes::{Change, Changes};
pub use client::{Client, Round};
pub use deprecated::root_at;
pub use diagnostics::{Diagnostics, MAX_NOISE_EXAMPLES, MAX_VIOLATION_EXAMPLES};
pub use elicitation::WebPage;
pub use error::{Error, ErrorKind, Sent, Stage};
pub use evidence::Evidence;
pub use handlers::{Asked, HandlerError, Occasion};
pub use lists::{List, ListNote};
pub use mcp_jsonrpc;
pub use mcp_proto;
pub use mcp_proto::connection::{SubscriptionChange, SubscriptionEnd};
pub use mcp_proto::model::subscription::ListenFilter;
pub use notify::{Notice, Notifications};
pub use options::{CallOptions, ClientOptions, NotificationLimits};
pub use progress::{
    MAX_PROGRESS_MESSAGE_BYTES, MAX_QUEUED_PROGRESS, ProgressReceiver, ProgressSender,
    progress_channel,
};
pub use redact::{MIN_REDACTED_BYTES, Redactor};
pub use subscription::Subscription;
pub use tasks::{Task, ToolOutcome};

/// The README's program is compiled with the documentation's.
#[cfg(all(doctest, feature = "stdio"))]
#[doc = include_str!("../../README.md")]
struct ReadmeDoctests;
