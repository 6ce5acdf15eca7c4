//! `mcpline show`: all about a server or a tool.

use serde_json::{Value, json};

use super::{signature, tags, tools_of};
use crate::app::SharedApp;
use crate::config::quoted;
use crate::failure::{Failure, exit};
use crate::nearest::nearest;
use crate::schema::{Property, Schema};
use crate::servers::{self, Connected, Target};
use crate::text::{one_line, table};

pub(crate) async fn run(
    app: &SharedApp,
    target: Option<&str>,
    server_command: &[String],
) -> Result<u8, Failure> {
    let targets = servers::all(app, server_command)?;
    let (id, tool) = match target {
        Some(target) if server_command.is_empty() => target
            .split_once('/')
            .map_or((target, None), |(id, tool)| (id, Some(tool))),
        // With a server command there is one server, and what is named is its tool.
        tool => (
            targets.first().map_or("", |target| target.id.as_str()),
            tool,
        ),
    };
    if id.is_empty() || (target.is_none() && server_command.is_empty()) {
        return Err(Failure::usage("show what?").next("mcpline ls", "the servers there are"));
    }
    let target = servers::one(&targets, id)?.clone();
    let connected = servers::connect(app, &target).await?;
    let list = tools_of(&target, &connected).await?;
    app.close_all().await;
    let Some(name) = tool else {
        return show_server(app, &target, &connected, list.tools.len());
    };
    let Some(tool) = list.get(name) else {
        return Err(no_such_tool(
            &target,
            name,
            list.tools.iter().map(|tool| tool.name.as_str()),
        ));
    };
    if app.global.json {
        app.print_json(&app.document(json!({"server": target.id, "tool": tool}), None));
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
    lines.push(
        format!(
            "Example  mcpline call {}/{} {}",
            quoted(&target.id),
            quoted(name),
            example.join(" ")
        )
        .trim_end()
        .to_owned(),
    );
    app.print(lines);
    Ok(0)
}

fn row(property: &Property) -> Vec<String> {
    let need = match &property.default {
        Some(default) => format!("default {default}"),
        None if property.required => "required".to_owned(),
        None => String::new(),
    };
    let words = property.description.as_deref().unwrap_or_default();
    vec![
        property.name.clone(),
        property.shape(),
        need,
        one_line(words, 100),
    ]
}

fn example(property: &Property) -> String {
    let value = match property.choices.first().or(property.default.as_ref()) {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => match property.kind.name() {
            "boolean" => "true".to_owned(),
            "integer" | "number" => "1".to_owned(),
            "array" => "[]".to_owned(),
            "object" => "{}".to_owned(),
            _ => "text".to_owned(),
        },
    };
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
    let info = client.server_info();
    if app.global.json {
        app.print_json(&app.document(
            json!({
                "server": target.id, "era": agreement.era.to_string(), "version": agreement.version.to_string(),
                "serverInfo": info, "capabilities": client.capabilities(), "instructions": client.instructions(), "tools": tools,
            }),
            None,
        ));
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
            client.capabilities().names().collect::<Vec<_>>().join(", "),
        ],
        vec!["tools".to_owned(), tools.to_string()],
    ];
    rows.extend(
        client
            .instructions()
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
            "nearest name; not run",
        ),
        None => failure.next(
            format!("mcpline tools {}", quoted(&target.id)),
            "the tools there are",
        ),
    }
}
