//! The client that the official conformance suite judges: `cargo xtask test-conformance` has the suite start it once for
//! each scenario.
//!
//! It knows only the client's public API, so it reads as an example, too. Three places matter: [`session`] sets up what every
//! host sets up (who it is, what it can do, how it signs in), [`scenarios`] has what a scenario wants to see done, and
//! [`skills`] reads skills by the rules of their extension. It exits with 0 only if all that a scenario wants was done, and
//! what came back is what should come back.

mod failure;
mod scenarios;
mod session;
mod skills;
mod task;

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use crate::failure::Failure;
use crate::task::Task;

/// How long a scenario may take: less than the suite waits, since the suite does not end a client that hangs.
const WATCHDOG: Duration = Duration::from_secs(25);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let outcome = match Task::from_environment() {
        Ok(task) => tokio::time::timeout(WATCHDOG, scenarios::play(&task))
            .await
            .unwrap_or_else(|_| {
                let text = format!("{} is not done after {WATCHDOG:?}", task.scenario);
                Err(Failure::Unexpected(text))
            }),
        Err(failure) => Err(failure),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(&format!("error: {failure}"));
            failure.exit_code()
        }
    }
}

/// Writes a line that the suite keeps with the results.
fn tell(text: &str) {
    // Nobody may be reading.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
