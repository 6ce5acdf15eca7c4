//! `mcpline prompts` and `mcpline prompt`: texts that a server has ready for a person.

use std::collections::BTreeMap;

use mcp_client::mcp_proto::model::content::ContentBlock;
use mcp_client::mcp_proto::model::prompt::Prompt;
use serde_json::json;

use super::resources::words;
use super::{gather, the_server};
use crate::app::SharedApp;
use crate::failure::{Failure, exit, exit_of};
use crate::servers;
use crate::text::{one_line, table};

/// `mcpline prompts`.
pub(crate) async fn list(app: &SharedApp, wanted: &[String]) -> Result<u8, Failure> {
    let lists = gather(app, wanted, async |connected| {
        connected.client.prompts().await
    })
    .await?;
    let failures: Vec<_> = lists
        .iter()
        .filter_map(|(_, list)| list.as_ref().err().cloned())
        .collect();
    if app.global.json {
        let servers = lists.iter().map(|(target, list)| match list {
            Ok(list) => json!({"server": target.id, "prompts": list.entries}),
            Err(failure) => {
                json!({"server": target.id, "prompts": [], "error": app.completed(failure).json()})
            }
        });
        let members = json!({"servers": servers.collect::<Vec<_>>()});
        app.print_document(&members, failures.first());
    } else {
        let mut rows = Vec::new();
        for (target, list) in &lists {
            let Ok(list) = list else { continue };
            for note in &list.notes {
                app.say(&format!("note: {}: {note}", target.id));
            }
            rows.extend(list.entries.iter().map(|prompt| {
                vec![
                    signature(&target.id, prompt),
                    words(prompt.display_name(), prompt.description.as_deref()),
                ]
            }));
        }
        app.print(table(&rows));
        failures.iter().for_each(|failure| app.complain(failure));
    }
    Ok(exit_of(lists.len() - failures.len(), &failures))
}

/// `server/name(required, [optional])`
fn signature(server: &str, prompt: &Prompt) -> String {
    let arguments: Vec<_> = prompt
        .arguments
        .iter()
        .map(|argument| {
            let name = one_line(&argument.name, 60);
            if argument.is_required() {
                name
            } else {
                format!("[{name}]")
            }
        })
        .collect();
    format!(
        "{server}/{}({})",
        one_line(&prompt.name, 120),
        arguments.join(", ")
    )
}

/// `mcpline prompt`.
pub(crate) async fn get(app: &SharedApp, wanted: &str, pairs: &[String]) -> Result<u8, Failure> {
    let mut arguments = BTreeMap::new();
    for pair in pairs {
        let (name, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("{pair:?} is no NAME=VALUE")))?;
        arguments.insert(name.to_owned(), value.to_owned());
    }
    let all = servers::all(app)?;
    let (target, name) = match servers::split(&all, wanted) {
        Some((target, name)) => (target.clone(), name.to_owned()),
        None => (the_server(app, None)?, wanted.to_owned()),
    };
    let connected = servers::connect(app, &target).await?;
    let failed = |error| Failure::of(&error, &target.redactor());
    let list = connected.client.prompts().await.map_err(failed)?;
    // What is missing is better said before the server is asked (PROMPT-03).
    if let Some(prompt) = list.entries.iter().find(|prompt| prompt.name == name) {
        let missing: Vec<_> = prompt.missing(&arguments).collect();
        if !missing.is_empty() {
            let message = format!("{wanted}: it needs {}", missing.join(", "));
            let mut failure = Failure::new(exit::NOT_FOUND, "missing_argument", message);
            failure.usage = Some(signature(&target.id, prompt));
            return Err(failure);
        }
    }
    let result = connected.client.get_prompt(&name, &arguments).await;
    let result = result.map_err(|error| {
        failed(error).next(
            format!("mcpline prompts {}", target.id),
            "the prompts there are",
        )
    })?;
    app.close_all().await;
    let said = result.messages.iter().map(|message| {
        let text = match &message.content {
            ContentBlock::Text(text) => text.text.clone(),
            ContentBlock::Image(media) | ContentBlock::Audio(media) => {
                format!("[{}]", media.mime_type)
            }
            ContentBlock::Link(link) => format!("[{}]", link.uri),
            ContentBlock::Embedded(resource) => format!("[{}]", resource.uri),
            _ => "[a kind of content that is not known]".to_owned(),
        };
        (message.role.to_string(), text)
    });
    if app.global.json {
        let messages: Vec<_> = said
            .map(|(role, text)| json!({"role": role, "text": text}))
            .collect();
        let members =
            json!({"server": target.id, "description": result.description, "messages": messages});
        app.print_document(&members, None);
    } else {
        app.print(said.map(|(role, text)| format!("{role}: {text}")));
    }
    Ok(0)
}
