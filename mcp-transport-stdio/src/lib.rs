//! Servers as child processes, and message lines over any byte stream.
//!
//! This crate starts processes, moves lines, keeps the error output and stops what it started, with all descendants. It
//! takes no decision about the protocol: what a line means is decided above.
//!
//! | part | what it does |
//! |---|---|
//! | [`ServerCommand`] | program, arguments, folder and environment, without a shell |
//! | [`spawn()`] | starts it: a [`ChildTransport`] in three parts |
//! | [`FrameReader`], [`LineWriter`] | lines over any byte stream: a pipe, a socket, memory |
//! | [`Process`] | the process: exit, error output, the stop ladder |
//! | [`shutdown`] | the stop ladder as a pure machine |
//!
//! # What happens to processes
//!
//! Each server leads a process group of its own. It is stopped by closing its input, then TERM, then KILL to the whole
//! group ([`StopPolicy`]). That happens on [`Process::stop`], when the last [`Process`] handle goes, when the runtime is
//! shut down, and when the leader exits by itself. If the host itself is killed, a small guardian process ends the groups
//! (see [`guardian`]).

//!
//! # What a host must not do
//!
//! Rust programs ignore SIGPIPE. A host that sets it back to its default is ended by the first write to a server that has
//! closed its input. A host that reaps all children itself, or ignores SIGCHLD, takes from this crate the only safe moment
//! to signal a server's descendants ([`StopReport::unchecked`]).

#[cfg(not(unix))]
compile_error!("mcp-transport-stdio starts processes on Unix only, so far");

mod command;
mod environment;
mod exit;
pub mod guardian;
mod look_up;
mod process;
mod read;
pub mod shutdown;
mod spawn;
mod stderr;
mod write;

pub use command::ServerCommand;
pub use environment::{EnvPolicy, MINIMAL_VARIABLES, NETWORK_VARIABLES, ResolvedEnv};
pub use exit::Exit;
pub use look_up::{LookUpError, Searched, look_up};
pub use process::{Process, StopReport};
pub use read::{FrameReader, ReadEvent};
pub use shutdown::{StopPhase, StopPolicy};
pub use spawn::{
    ChildInput, ChildReader, ChildTransport, DEFAULT_MAX_MESSAGE_BYTES, SpawnError, StdioOptions,
    spawn,
};
pub use stderr::{MAX_STDERR_LINE_BYTES, STDERR_RING_BYTES, STDERR_TAIL_BYTES, StderrLines};
pub use write::LineWriter;
