//! The built program, run as a person or a script runs it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod exits;
mod features;
mod output;
mod program;
mod remote;
mod secrets;
mod signals;
mod terminal;
mod transcripts;
