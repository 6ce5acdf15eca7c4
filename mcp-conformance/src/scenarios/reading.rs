//! Skills: listed without reading them, and refused when what is read is not what was listed.

use crate::failure::{Failure, unexpected};
use crate::session::connect;
use crate::skills::{self, Refusal};
use crate::task::Task;

/// Lists the skills; their files are nobody's business yet.
pub(super) async fn list_only(task: &Task) -> Result<(), Failure> {
    let client = connect(task).await?;
    if skills::list(&client).await?.is_empty() {
        return unexpected("the server lists no skill");
    }
    client.close().await;
    Ok(())
}

/// Loads a skill, which has to be refused for this reason.
pub(super) async fn notice(task: &Task, reason: &str) -> Result<(), Failure> {
    let client = connect(task).await?;
    let listed = skills::list(&client).await?;
    let Some(skill) = listed.first() else {
        return unexpected("the server lists no skill");
    };
    match skills::load(&client, skill).await {
        Err(Refusal::Differs { what, .. }) if what == reason => {
            client.close().await;
            Ok(())
        }
        Err(Refusal::Differs { what, uri }) => {
            unexpected(format!("{uri}: the {what} was refused, not the {reason}"))
        }
        Err(Refusal::NotRead(failure)) => Err(failure),
        Ok(files) => unexpected(format!(
            "a skill of {} files was loaded in spite of its {reason}",
            files.len()
        )),
    }
}
