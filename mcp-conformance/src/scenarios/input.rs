//! Calls during which the server asks for input. Whoever answers is set up in [`session`](crate::session).

use serde_json::json;

use super::basic::call_listed;
use crate::failure::{Failure, unexpected};
use crate::session::connect;
use crate::task::Task;

/// Calls a tool that asks a form to be filled in; its defaults are the answer.
pub(super) async fn defaults(task: &Task) -> Result<(), Failure> {
    let client = connect(task).await?;
    let text = call_listed(&client, "test_client_elicitation_defaults", &json!({})).await?;
    // The tool says so in a result that is none of an error.
    if !text.starts_with("Elicitation completed") {
        return unexpected(format!("the form was not filled in: {text:?}"));
    }
    client.close().await;
    Ok(())
}

/// Calls tools of which some answer only in a second round, and one in between that asks nothing.
pub(super) async fn several_rounds(task: &Task) -> Result<(), Failure> {
    let client = connect(task).await?;
    for tool in [
        "test_mrtr_echo_state",
        "test_mrtr_unrelated",
        "test_mrtr_no_state",
        "test_mrtr_no_result_type",
    ] {
        call_listed(&client, tool, &json!({})).await?;
    }
    client.close().await;
    Ok(())
}
