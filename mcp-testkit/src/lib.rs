//! Scripted peers, a virtual clock, transcripts and a fault-injecting fake server. For tests; never published.

pub mod fake_server;
pub mod http;
pub mod pair;
pub mod process;
