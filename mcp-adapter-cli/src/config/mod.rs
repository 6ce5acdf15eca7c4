//! Servers from configuration files: which files are read, what they say, what they start, and whether that is approved.
//!
//! Must not know: the command line, the terminal, connections. Rules: C209 to C218.

mod approval;
mod expand;
mod fill;
mod launch;
mod lint;
mod locate;
mod model;
mod read;
mod remote;
mod setup;

pub(crate) use approval::Approvals;
pub(crate) use expand::{Origin, expand_text};
pub(crate) use launch::{fingerprint, resolve};
pub(crate) use lint::lint;
pub(crate) use locate::{CONFIG_VARIABLE, Folders, Located, locate};
pub(crate) use model::{
    Entry, InheritEnv, Limits, Problem, Scope, Server, StdioServer, quoted, shortened,
};
pub(crate) use remote::{
    Remote, RemoteServer, Transport, remote_fingerprint, resolve_remote, shown_url,
};
pub(crate) use setup::Setup;
