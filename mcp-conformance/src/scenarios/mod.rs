//! What each scenario wants to see done.
//!
//! The table of `xtask` has the scenarios with their versions; a name without a part here is a failure.

mod auth;
mod basic;
mod headers;
mod input;
mod reading;

use crate::failure::Failure;
use crate::task::Task;

/// Carries out one scenario.
pub(crate) async fn play(task: &Task) -> Result<(), Failure> {
    match task.scenario.as_str() {
        "initialize" | "request-metadata" => basic::connect_and_ask(task).await,
        "tools_call" => basic::add_numbers(task).await,
        "sse-retry" => basic::reconnect(task).await,
        "json-schema-ref-no-deref" => basic::list_tools(task).await,
        "json-schema-2020-12-preservation" => basic::echo_schema(task).await,
        "http-standard-headers" => headers::use_everything(task).await,
        "http-custom-headers" => headers::make_given_calls(task).await,
        "http-invalid-tool-headers" => headers::call_valid_tools(task).await,
        "elicitation-sep1034-client-defaults" => input::defaults(task).await,
        "sep-2322-client-request-state" => input::several_rounds(task).await,
        "sep-2640-client-no-prefetch" => reading::list_only(task).await,
        "sep-2640-client-verify-digest" => reading::notice(task, "digest").await,
        "sep-2640-client-verify-frontmatter" => reading::notice(task, "front matter").await,
        "sep-2640-client-verify-size" => reading::notice(task, "size").await,
        name => match name.strip_prefix("auth/") {
            Some(rest) => auth::play(task, rest).await,
            None => Err(Failure::UnknownScenario(name.to_owned())),
        },
    }
}
