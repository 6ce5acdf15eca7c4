//! A scripted HTTP/1.1 peer that decides about every byte, to test a client against servers that misbehave.
//!
//! It is written without any HTTP crate, so that it can't share a client's mistakes and can send what no sane server
//! would. A handler turns each [`Request`] into a [`Reply`], which is a list of [`Step`]s; [`HttpPeer`] carries them out
//! over loopback TCP, or in memory on a paused clock, and records what came. What it can't read it records as a fault.
//!
//! ```
//! use mcp_testkit::http::{HttpPeer, Reply};
//! use serde_json::json;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let peer = HttpPeer::tcp(|request| Reply::json(200, &json!({"path": request.target}))).await;
//! assert!(peer.url("/mcp").starts_with("http://127.0.0.1:"));
//! # });
//! ```

pub mod mcp;
#[cfg(test)]
mod mcp_tests;
pub mod raw;
mod reply;
mod request;
mod server;
#[cfg(test)]
mod tests;

pub use mcp::{LegacyServer, ModernServer, Style};
pub use reply::{Gate, Push, Reply, Step, sse_event};
pub use request::Request;
pub use server::{Dialer, HttpPeer, Outcome, PeerBuilder, Record};
