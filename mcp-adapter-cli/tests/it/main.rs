//! The built program, run as a person or a script runs it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exits;
mod program;
mod secrets;
mod signals;
mod transcripts;
