//! `mcpline show`: all about a server or a tool.

use mcp_client::mcp_proto::model::tool::Tool;
use serde::Serialize;
use serde_json::json;

use super::{signature, tags, tools_of};
use crate::app::SharedApp;
use crate::config::quoted;
use crate::failure::{Failure, exit};
use crate::nearest::nearest;
use crate::schema::{Property, Schema, Types, written};
use crate::servers::{self, Connected, Target};
use crate::text::{one_line, table};

pub(crate) async fn run(app: &SharedApp, wanted: Option<&str>) -> Result<u8, Failure> {
    let targets = servers::all(app)?;
    let nothing = || Failure::usage("show what?").next("mcpline ls", "the servers there are");
    let (target, tool) = match (wanted, targets.as_slice()) {
        (Some(wanted), _) if let Some((target, tool)) = servers::split(&targets, wanted) => {
            (target, Some(tool))
        }
        // With a server command there is one server, and what is named is its tool.
        (wanted, [only]) if app.is_ad_hoc() => (only, wanted.filter(|wanted| *wanted != only.id)),
        (Some(wanted), _) => {
            let id = wanted.split_once('/').map_or(wanted, |(id, _)| id);
            (servers::one(&targets, id)?, None)
        }
        (None, _) => return Err(nothing()),
    };
    let connected = servers::connect(app, target).await?;
    let list = tools_of(target, &connected).await?;
    app.close_all().await;
    let Some(name) = tool else {
        return show_server(app, target, &connected, list.tools.len());
    };
    let Some(tool) = list.get(name) else {
        return Err(no_such_tool(
            target,
            name,
            list.tools.iter().map(|tool| tool.name.as_str()),
        ));
    };
    if app.global.json {
        #[derive(Serialize)]
        struct Members<'a> {
            server: &'a str,
            /// Serialized as it came: schemas keep their text.
            tool: &'a Tool,
        }
        let members = Members {
            server: &target.id,
            tool,
        };
        app.print_document(&members, None);
        return Ok(0);
    }
    let schema = Schema::read(tool.input_schema.get());
    let mut lines = vec![
        format!("{}  {}", signature(&target.id, tool), tags(tool))
            .trim_end()
            .to_owned(),
    ];
    lines.extend(tool.description.iter().map(|text| text.trim().to_owned()));
    let rows: Vec<_> = schema.properties.iter().map(row).collect();
    lines.extend(table(&rows).into_iter().map(|line| format!("  {line}")));
    if let Some(output) = &tool.output_schema {
        let output = Schema::read(output.get());
        lines.push(format!("Returns  {{ {} }}", output.signature()));
    }
    let example: Vec<_> = schema
        .properties
        .iter()
        .filter(|property| property.required)
        .map(example)
        .collect();
    let command = format!(
        "mcpline call {}/{} {}",
        quoted(&target.id),
        quoted(name),
        example.join(" ")
    );
    lines.push(format!(
        "Example  {}",
        app.about_same_servers(command.trim_end())
    ));
    app.print(lines);
    Ok(0)
}

fn row(property: &Property) -> Vec<String> {
    let need = match &property.default {
        Some(default) => Some(format!("default {default}")),
        None if property.required => Some("required".to_owned()),
        None => None,
    };
    let limits: Vec<_> = need.into_iter().chain(property.range.clone()).collect();
    let words = property.description.as_deref().unwrap_or_default();
    vec![
        one_line(&property.name, 40),
        property.shape.to_string(),
        limits.join(", "),
        one_line(words, 100),
    ]
}

/// `key=value` with the server's own example, or with something of the right type.
fn example(property: &Property) -> String {
    let of_shape = property.shape.choices.first();
    let known = of_shape
        .or(property.example.as_ref())
        .or(property.default.as_ref());
    let value = known.map_or_else(
        || {
            let types = property.shape.types;
            let by_type = [
                (Types::STRING, "text"),
                (Types::INTEGER, "1"),
                (Types::BOOLEAN, "true"),
                (Types::ARRAY, "[]"),
                (Types::OBJECT, "{}"),
            ];
            let fitting = by_type.iter().find(|(one, _)| types.contains(*one));
            fitting.map_or("null", |(_, text)| *text).to_owned()
        },
        written,
    );
    quoted(&format!("{}={value}", property.name))
}

fn show_server(
    app: &SharedApp,
    target: &Target,
    connected: &Connected,
    tools: usize,
) -> Result<u8, Failure> {
    let client = &connected.client;
    let agreement = client.agreement();
    let info = agreement.server_info.as_ref();
    if app.global.json {
        let members = json!({
            "server": target.id, "era": agreement.era.to_string(), "version": agreement.version.to_string(),
            "serverInfo": info, "capabilities": agreement.capabilities, "instructions": agreement.instructions, "tools": tools,
        });
        app.print_document(&members, None);
        return Ok(0);
    }
    let name = info.map_or_else(
        || "does not say".to_owned(),
        |info| format!("{} {}", info.name, info.version),
    );
    let mut rows = vec![
        vec!["where".to_owned(), target.place.clone()],
        vec!["server".to_owned(), one_line(&name, 100)],
        vec![
            "speaks".to_owned(),
            format!("{} ({})", agreement.version, agreement.era),
        ],
        vec![
            "offers".to_owned(),
            agreement
                .capabilities
                .names()
                .collect::<Vec<_>>()
                .join(", "),
        ],
        vec!["tools".to_owned(), tools.to_string()],
    ];
    rows.extend(
        agreement
            .instructions
            .as_ref()
            .map(|text| vec!["says".to_owned(), text.trim().to_owned()]),
    );
    app.print(
        std::iter::once(target.id.clone())
            .chain(table(&rows).into_iter().map(|line| format!("  {line}"))),
    );
    Ok(0)
}

/// A tool that is not there: the nearest one is named, never run.
pub(crate) fn no_such_tool<'a>(
    target: &Target,
    name: &str,
    names: impl Iterator<Item = &'a str>,
) -> Failure {
    let failure = Failure::new(
        exit::NOT_FOUND,
        "unknown_tool",
        format!("{} has no tool {:?}", target.id, one_line(name, 100)),
    );
    match nearest(name, names) {
        Some(near) => failure.next(
            format!("mcpline show {}/{}", quoted(&target.id), quoted(near)),
            "nearest name",
        ),
        None => failure.next(
            format!("mcpline tools {}", quoted(&target.id)),
            "the tools there are",
        ),
    }
}
