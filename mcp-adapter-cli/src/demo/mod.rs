//! Two small MCP servers inside this program, so that a first run needs nothing else.
//!
//! They are ordinary servers: started as child processes, spoken to over their pipes. `notes` speaks the legacy era,
//! `clock` the modern one. The client side of this program knows nothing about them.

mod civil;
mod server;
mod stdio;

pub(crate) use server::Kind;
pub(crate) use stdio::serve;
