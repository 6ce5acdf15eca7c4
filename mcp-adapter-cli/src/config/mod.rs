//! Servers from configuration files: which files are read, what they say, what they start, and whether that is approved.
//!
//! Must not know: the command line, the terminal, connections. Rules: C209 to C218.

mod approval;
mod expand;
mod launch;
mod lint;
mod locate;
mod model;
mod read;
mod setup;

pub(crate) use approval::Approvals;
pub(crate) use expand::Origin;
pub(crate) use launch::{fingerprint, resolve};
pub(crate) use lint::lint;
pub(crate) use locate::{CONFIG_VARIABLE, Folders, Located, locate};
pub(crate) use model::{Entry, InheritEnv, Limits, Problem, Scope, Server, quoted, shortened};
pub(crate) use setup::Setup;
