//! The commands, one file each.

pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod ls;
pub(crate) mod prompts;
pub(crate) mod resources;
pub(crate) mod show;
pub(crate) mod tools;

use std::sync::Arc;

use mcp_client::mcp_proto::model::tool::Tool;
use mcp_client::{Error, ToolList};

use crate::app::SharedApp;
use crate::failure::Failure;
use crate::schema::Schema;
use crate::servers::{self, Connected, Target};
use crate::text::one_line;

/// A server's tools, or a failure that says which server.
pub(crate) async fn tools_of(
    target: &Target,
    connected: &Connected,
) -> Result<Arc<ToolList>, Failure> {
    connected
        .client
        .tools()
        .await
        .map_err(|error| Failure::of(&error, &target.redactor()))
}

/// Asks all of the wanted servers the same.
pub(crate) async fn gather<T>(
    app: &SharedApp,
    wanted: &[String],
    ask: impl AsyncFn(&Connected) -> Result<T, Error>,
) -> Result<Vec<(Target, Result<T, Failure>)>, Failure> {
    let targets = servers::chosen(servers::all(app)?, wanted)?;
    let outcomes = servers::connect_all(app, &targets).await;
    let mut gathered = Vec::new();
    for (target, outcome) in targets.into_iter().zip(outcomes) {
        let answer = match outcome {
            Ok(connected) => ask(&connected)
                .await
                .map_err(|error| Failure::of(&error, &target.redactor())),
            Err(failure) => Err(failure),
        };
        gathered.push((target, answer));
    }
    app.close_all().await;
    Ok(gathered)
}

/// The server of this name, or the only one there is.
pub(crate) fn the_server(app: &SharedApp, wanted: Option<&str>) -> Result<Target, Failure> {
    let all = servers::all(app)?;
    if let Some(id) = wanted {
        return servers::one(&all, id).cloned();
    }
    match servers::chosen(all, &[])?.as_slice() {
        [only] => Ok(only.clone()),
        several => Err(Failure::usage(format!(
            "there are {} servers; which one is meant?",
            several.len()
        ))
        .next("mcpline ls", "the servers there are")),
    }
}

/// `name(a: number)`
pub(crate) fn signature(server: &str, tool: &Tool) -> String {
    let schema = Schema::read(tool.input_schema.get());
    format!(
        "{server}/{}({})",
        one_line(&tool.name, 128),
        schema.signature()
    )
}

/// `[read-only, idempotent]`, or nothing when the server says nothing.
pub(crate) fn tags(tool: &Tool) -> String {
    let Some(annotations) = &tool.annotations else {
        return String::new();
    };
    let mut tags = Vec::new();
    if annotations.is_read_only() {
        tags.push("read-only");
    } else if annotations.destructive_hint == Some(true) {
        tags.push("destructive");
    }
    if annotations.idempotent_hint == Some(true) {
        tags.push("idempotent");
    }
    if tags.is_empty() {
        String::new()
    } else {
        format!("[{}]", tags.join(", "))
    }
}

/// Says what a list leaves out.
pub(crate) fn say_notes(app: &SharedApp, target: &Target, list: &ToolList) {
    for note in &list.notes {
        app.say(&format!("note: {}: {note}", target.id));
    }
}
