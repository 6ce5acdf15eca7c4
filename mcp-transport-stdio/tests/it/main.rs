//! Byte streams in memory, and real processes.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod processes;
mod streams;
