//! `mcpline tools`: a line per tool.

use serde_json::{Value, json};

use super::{say_notes, signature, tags, tools_of};
use crate::app::SharedApp;
use crate::failure::{Failure, exit};
use crate::result::pretty;
use crate::servers;
use crate::text::{first_sentence, one_line, table};

pub(crate) async fn run(
    app: &SharedApp,
    wanted: &[String],
    schema: bool,
    full: bool,
    server_command: &[String],
) -> Result<u8, Failure> {
    let patterns: Vec<_> = wanted
        .iter()
        .map(|target| target.split_once('/').unwrap_or((target, "*")))
        .collect();
    let ids: Vec<_> = patterns.iter().map(|(id, _)| (*id).to_owned()).collect();
    let targets = servers::chosen(servers::all(app, server_command)?, &ids)?;
    let outcomes = servers::connect_all(app, &targets).await;
    let (mut rows, mut documents, mut failures) = (Vec::new(), Vec::new(), Vec::new());
    let mut found = 0;
    for (index, (target, outcome)) in targets.iter().zip(outcomes).enumerate() {
        let pattern = patterns.get(index).map_or("*", |(_, pattern)| pattern);
        let list = match outcome {
            Ok(connected) => tools_of(target, &connected).await,
            Err(failure) => Err(failure),
        };
        let list = match list {
            Ok(list) => list,
            Err(failure) => {
                documents.push(json!({"server": target.id, "tools": [], "error": failure.json()}));
                failures.push(failure);
                continue;
            }
        };
        say_notes(app, target, &list);
        let matching: Vec<_> = list
            .tools
            .iter()
            .filter(|tool| matches(pattern, &tool.name))
            .collect();
        found += matching.len();
        for tool in &matching {
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
        let tools = serde_json::to_value(&matching).unwrap_or(Value::Null);
        documents.push(json!({"server": target.id, "tools": tools}));
    }
    app.close_all().await;
    if app.global.json {
        app.print_json(&app.document(json!({"servers": documents}), failures.first()));
    } else {
        app.print(lines(&rows, schema || full));
        failures.iter().for_each(|failure| app.complain(failure));
    }
    Ok(match failures.as_slice() {
        [] if found == 0 && patterns.iter().any(|(_, pattern)| *pattern != "*") => {
            app.say("no tool matches");
            exit::NOT_FOUND
        }
        [] => 0,
        [only] if targets.len() == 1 => only.exit,
        _ => exit::PARTIAL,
    })
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
