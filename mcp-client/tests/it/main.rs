//! The client against scripted servers, on tokio's paused clock.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod asked;
mod caching;
mod calls;
mod catalogue;
mod changes;
mod ends;
mod features;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "stdio")]
mod processes;
mod scripted;
mod tasks;
