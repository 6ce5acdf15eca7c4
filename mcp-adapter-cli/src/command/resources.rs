//! `mcpline resources` and `mcpline read`: what a server lets be read.

use mcp_client::mcp_proto::model::content::ResourceBody;
use mcp_client::mcp_proto::model::resource::{Resource, ResourceTemplate};
use serde::Serialize;
use serde_json::{Value, json};

use super::{gather, the_server};
use crate::app::SharedApp;
use crate::failure::{Failure, exit_of};
use crate::servers;
use crate::text::{first_sentence, one_line, size, table};

/// Most characters of a URI or a name that are shown in a table.
const MAX_SHOWN: usize = 120;

/// `mcpline resources`.
pub(crate) async fn list(app: &SharedApp, wanted: &[String]) -> Result<u8, Failure> {
    let lists = gather(app, wanted, async |connected| {
        let resources = connected.client.resources().await?;
        let templates = connected.client.resource_templates().await?;
        Ok((resources, templates))
    })
    .await?;
    let failures: Vec<_> = lists
        .iter()
        .filter_map(|(_, list)| list.as_ref().err().cloned())
        .collect();
    if app.global.json {
        let servers = lists.iter().map(|(target, lists)| {
            let lists = lists.as_ref();
            let (resources, templates) = lists
                .map_or((&[][..], &[][..]), |(resources, templates)| {
                    (&resources.entries, &templates.entries)
                });
            Listed {
                server: &target.id,
                resources,
                templates,
                error: lists.err().map(|failure| app.completed(failure).json()),
            }
        });
        let members = json!({"servers": servers.collect::<Vec<_>>()});
        app.print_document(&members, failures.first());
    } else {
        let mut rows = Vec::new();
        for (target, lists) in &lists {
            let Ok((resources, templates)) = lists else {
                continue;
            };
            // A server without resources says so for both.
            let more = templates.notes.iter();
            let more = more.filter(|note| !resources.notes.contains(note));
            for note in resources.notes.iter().chain(more) {
                app.say(&format!("note: {}: {note}", target.id));
            }
            rows.extend(resources.entries.iter().map(|it| row(&target.id, it)));
            rows.extend(
                templates
                    .entries
                    .iter()
                    .map(|it| template_row(&target.id, it)),
            );
        }
        app.print(table(&rows));
        failures.iter().for_each(|failure| app.complain(failure));
    }
    Ok(exit_of(lists.len() - failures.len(), &failures))
}

/// The members of the JSON document; entries are serialized as they came.
#[derive(Serialize)]
struct Listed<'a> {
    server: &'a str,
    resources: &'a [Resource],
    templates: &'a [ResourceTemplate],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

fn row(server: &str, resource: &Resource) -> Vec<String> {
    let kind = resource.mime_type.clone().unwrap_or_default();
    let bytes = resource.size.and_then(|bytes| usize::try_from(bytes).ok());
    vec![
        server.to_owned(),
        one_line(&resource.uri, MAX_SHOWN),
        one_line(&kind, MAX_SHOWN),
        bytes.map_or_else(String::new, size),
        words(resource.display_name(), resource.description.as_deref()),
    ]
}

fn template_row(server: &str, template: &ResourceTemplate) -> Vec<String> {
    let name = template.title.as_deref().unwrap_or(&template.name);
    vec![
        server.to_owned(),
        one_line(&template.uri_template, MAX_SHOWN),
        "template".to_owned(),
        String::new(),
        words(name, template.description.as_deref()),
    ]
}

/// A name and the first sentence of what it is.
pub(super) fn words(name: &str, description: Option<&str>) -> String {
    match description
        .map(first_sentence)
        .filter(|text| !text.is_empty())
    {
        Some(text) => one_line(&format!("{name}: {text}"), MAX_SHOWN),
        None => one_line(name, MAX_SHOWN),
    }
}

/// `mcpline read`.
pub(crate) async fn read(app: &SharedApp, words: &[String]) -> Result<u8, Failure> {
    let (server, uri) = match words {
        [uri] => (None, uri),
        [server, uri] => (Some(server.as_str()), uri),
        _ => return Err(Failure::usage("read what? mcpline read [SERVER] URI")),
    };
    let target = the_server(app, server)?;
    let connected = servers::connect(app, &target).await?;
    let outcome = connected.client.read_resource(uri).await;
    app.close_all().await;
    let result = outcome.map_err(|error| {
        Failure::of(&error, &target.redactor()).next(
            format!("mcpline resources {}", target.id),
            "what can be read",
        )
    })?;
    if app.global.json {
        let contents: Vec<_> = result.contents.iter().map(|item| &item.raw).collect();
        app.print_document(&json!({"server": target.id, "contents": contents}), None);
        return Ok(0);
    }
    for item in &result.contents {
        match &item.body {
            Some(ResourceBody::Text(text)) => app.print([text]),
            Some(body) => {
                let kind = item.mime_type.as_deref().unwrap_or("bytes");
                let bytes = body.bytes().map(|bytes| size(bytes.len()));
                let shown = bytes.unwrap_or_else(|error| error.to_string());
                app.print([format!(
                    "[{}: {kind}, {shown}; --json has them in Base64]",
                    item.uri
                )]);
            }
            None => app.print([format!("[{}: neither text nor bytes]", item.uri)]),
        }
    }
    if result.contents.is_empty() {
        app.say("the server read nothing");
    }
    Ok(0)
}
