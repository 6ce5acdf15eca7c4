//! `mcpline check`: does every server start and list its tools? For scripts.

use serde_json::json;

use super::{say_notes, tools_of};
use crate::app::SharedApp;
use crate::duration::shown;
use crate::failure::{Failure, exit, exit_of};
use crate::servers;
use crate::text::table;

pub(crate) async fn run(
    app: &SharedApp,
    wanted: &[String],
    require: &[String],
) -> Result<u8, Failure> {
    let targets = servers::chosen(servers::all(app)?, wanted)?;
    let outcomes = servers::connect_all(app, &targets).await;
    let (mut rows, mut documents, mut failures, mut present) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut worked = 0;
    for (target, outcome) in targets.iter().zip(outcomes) {
        let list = match outcome {
            Ok(connected) => tools_of(target, &connected)
                .await
                .map(|list| (list, connected.took)),
            Err(failure) => Err(failure),
        };
        match list {
            Ok((list, took)) => {
                say_notes(app, target, &list);
                present.extend(
                    list.tools
                        .iter()
                        .map(|tool| format!("{}/{}", target.id, tool.name)),
                );
                worked += 1;
                rows.push(vec![
                    "ok".to_owned(),
                    target.id.clone(),
                    format!("{} tools", list.tools.len()),
                    shown(took),
                ]);
                documents.push(json!({"server": target.id, "ok": true, "tools": list.tools.len()}));
            }
            Err(failure) => {
                rows.push(vec![
                    "FAIL".to_owned(),
                    target.id.clone(),
                    failure.stage.unwrap_or(failure.kind).to_owned(),
                    String::new(),
                ]);
                documents.push(json!({"server": target.id, "ok": false, "error": app.completed(&failure).json()}));
                failures.push((target.id.clone(), failure));
            }
        }
    }
    app.close_all().await;
    for tool in require.iter().filter(|tool| !present.contains(tool)) {
        rows.push(vec![
            "FAIL".to_owned(),
            tool.clone(),
            "required, not there".to_owned(),
        ]);
        failures.push((
            tool.clone(),
            Failure::new(
                exit::NOT_FOUND,
                "missing_tool",
                format!("{tool}: required, but not there"),
            ),
        ));
    }
    if app.global.json {
        app.print_document(
            &json!({"servers": documents}),
            failures.first().map(|(_, failure)| failure),
        );
    } else {
        app.print(table(&rows));
        failures
            .iter()
            .for_each(|(_, failure)| app.complain(failure));
    }
    if failures.is_empty() {
        return Ok(0);
    }
    let names: Vec<_> = failures
        .iter()
        .map(|(name, failure)| format!("{name} ({})", failure.stage.unwrap_or(failure.kind)))
        .collect();
    app.say(&format!(
        "check: {} of {} failed: {}",
        failures.len(),
        targets.len() + require.len(),
        names.join(", ")
    ));
    let failures: Vec<_> = failures.into_iter().map(|(_, failure)| failure).collect();
    // One server that lacks a tool is that failure and no part of anything.
    let worked = if targets.len() == 1 { 0 } else { worked };
    Ok(exit_of(worked, &failures))
}
