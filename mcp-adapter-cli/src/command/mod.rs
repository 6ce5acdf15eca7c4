//! The commands, one file each.

pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod ls;
pub(crate) mod show;
pub(crate) mod tools;

use std::sync::Arc;

use mcp_client::ToolList;
use mcp_client::mcp_proto::model::tool::Tool;

use crate::app::SharedApp;
use crate::failure::Failure;
use crate::schema::Schema;
use crate::servers::{Connected, Target};
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
