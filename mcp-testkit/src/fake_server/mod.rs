//! The fake server: a peer written without any of our protocol crates, so that it can't share their mistakes.
//!
//! It behaves well unless told otherwise. Each fault is a switch, so that a test says in one line what it is up against.

mod answer;
mod output;
mod serve;
mod switches;
mod tools;

use std::process::ExitCode;

pub use switches::Switches;

/// Runs the server until its input ends.
pub fn main(args: impl Iterator<Item = String>) -> ExitCode {
    let switches = match Switches::parse(args) {
        Ok(Some(switches)) => switches,
        Ok(None) => {
            output::print_help();
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            output::complain(&format!("fake-server: {error}; see fake-server --help"));
            return ExitCode::from(2);
        }
    };
    serve::run(switches)
}
