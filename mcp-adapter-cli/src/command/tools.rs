//! `mcpline tools`: a line per tool.

use mcp_client::mcp_proto::model::tool::Tool;
use serde::Serialize;
use serde_json::Value;

use super::{say_notes, signature, tags, tools_of};
use crate::app::SharedApp;
use crate::failure::{Failure, exit, exit_of};
use crate::result::pretty;
use crate::servers;
use crate::text::{first_sentence, one_line, table};

pub(crate) async fn run(
    app: &SharedApp,
    wanted: &[String],
    schema: bool,
    full: bool,
) -> Result<u8, Failure> {
    let all = servers::all(app)?;
    let mut asked = Vec::new();
    for wanted in wanted {
        asked.push(match (servers::split(&all, wanted), all.as_slice()) {
            (Some((target, pattern)), _) => (target.clone(), pattern.to_owned()),
            // With a server command there is one server, and what is named are its tools.
            (None, [only]) if app.is_ad_hoc() && only.id != *wanted => {
                (only.clone(), wanted.clone())
            }
            (None, _) => (servers::one(&all, wanted)?.clone(), "*".to_owned()),
        });
    }
    if wanted.is_empty() {
        let enabled = servers::chosen(all, &[])?.into_iter();
        asked.extend(enabled.map(|target| (target, "*".to_owned())));
    }
    let targets: Vec<_> = asked.iter().map(|(target, _)| target.clone()).collect();
    let outcomes = servers::connect_all(app, &targets).await;
    let (mut lists, mut failures, mut found) = (Vec::new(), Vec::new(), 0);
    for ((target, pattern), outcome) in asked.iter().zip(outcomes) {
        let list = match outcome {
            Ok(connected) => tools_of(target, &connected).await,
            Err(failure) => Err(failure),
        };
        if let Ok(list) = &list {
            say_notes(app, target, list);
            found += list
                .tools
                .iter()
                .filter(|tool| matches(pattern, &tool.name))
                .count();
        }
        failures.extend(list.as_ref().err().cloned());
        lists.push((target, pattern, list));
    }
    app.close_all().await;
    if app.global.json {
        let servers = lists.iter().map(|(target, pattern, list)| {
            let list = list.as_ref();
            let tools = list.map_or(&[][..], |list| &list.tools);
            ServerTools {
                server: &target.id,
                tools: tools
                    .iter()
                    .filter(|tool| matches(pattern, &tool.name))
                    .collect(),
                error: list.err().map(|failure| app.completed(failure).json()),
            }
        });
        let members = Members {
            servers: servers.collect(),
        };
        app.print_document(&members, failures.first());
    } else {
        let mut rows = Vec::new();
        for (target, pattern, list) in &lists {
            let tools = list.as_ref().map_or(&[][..], |list| &list.tools);
            for tool in tools.iter().filter(|tool| matches(pattern, &tool.name)) {
                let description = tool.description.as_deref().unwrap_or_default();
                let words = if full {
                    description.to_owned()
                } else {
                    one_line(first_sentence(description), 100)
                };
                rows.push(vec![signature(&target.id, tool), tags(tool), words]);
                if schema {
                    rows.push(vec![pretty(tool.input_schema.get())]);
                }
            }
        }
        app.print(lines(&rows, schema || full));
        failures.iter().for_each(|failure| app.complain(failure));
    }
    if failures.is_empty() && found == 0 && asked.iter().any(|(_, pattern)| pattern != "*") {
        app.say("no tool matches");
        return Ok(exit::NOT_FOUND);
    }
    Ok(exit_of(lists.len() - failures.len(), &failures))
}

/// The members of the JSON document; tools are serialized as they came, so schemas keep their text.
#[derive(Serialize)]
struct Members<'a> {
    servers: Vec<ServerTools<'a>>,
}

#[derive(Serialize)]
struct ServerTools<'a> {
    server: &'a str,
    tools: Vec<&'a Tool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Value>,
}

/// Columns, unless the cells hold line breaks of their own.
fn lines(rows: &[Vec<String>], loose: bool) -> Vec<String> {
    if !loose {
        return table(rows);
    }
    rows.iter()
        .map(|row| {
            row.iter()
                .filter(|cell| !cell.is_empty())
                .cloned()
                .collect::<Vec<_>>()
                .join("  ")
        })
        .collect()
}

/// Whether a name matches a pattern in which `*` stands for anything.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut name) = name.strip_prefix(head) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return name.ends_with(part);
        }
        let Some(at) = name.find(part) else {
            return false;
        };
        name = &name[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let cases = [
            ("*", "x", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*c*e", "abcde", true),
            ("a*c", "abd", false),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("*b*", "abc", true),
            ("a*a", "a", false),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
