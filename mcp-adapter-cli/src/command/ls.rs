//! `mcpline ls`: the servers and how they are.

use serde_json::{Value, json};

use super::tools_of;
use crate::app::SharedApp;
use crate::approval::Trust;
use crate::config::quoted;
use crate::duration::shown;
use crate::failure::{Failure, exit};
use crate::servers::{self, Target};
use crate::text::{one_line, table};

pub(crate) async fn run(
    app: &SharedApp,
    wanted: &[String],
    no_connect: bool,
) -> Result<u8, Failure> {
    let targets = servers::all(app)?;
    let targets = if wanted.is_empty() {
        targets
    } else {
        servers::chosen(targets, wanted)?
    };
    let rows = if no_connect {
        let rows = targets.iter().map(|target| Row::at_rest(app, target));
        rows.collect()
    } else {
        connect(app, &targets).await
    };
    app.close_all().await;
    if app.global.json {
        let servers: Vec<_> = rows.iter().map(|row| row.json.clone()).collect();
        app.print_document(&json!({"servers": servers}), None);
        return Ok(0);
    }
    let header = [
        "SERVER",
        "STATE",
        "TRANSPORT",
        "VERSION",
        "TOOLS",
        "TIME",
        "",
    ]
    .map(str::to_owned)
    .to_vec();
    let lines: Vec<_> = std::iter::once(header)
        .chain(rows.into_iter().map(|row| row.cells))
        .collect();
    app.print(table(&lines));
    Ok(0)
}

struct Row {
    cells: Vec<String>,
    json: Value,
}

impl Row {
    fn new(
        target: &Target,
        state: &str,
        version: &str,
        tools: &str,
        time: &str,
        remark: &str,
    ) -> Self {
        let cells = [
            &target.id,
            state,
            target.transport,
            version,
            tools,
            time,
            remark,
        ]
        .map(str::to_owned)
        .to_vec();
        Self {
            cells,
            json: json!({"server": target.id, "state": state, "transport": target.transport, "place": target.place}),
        }
    }

    fn at_rest(app: &SharedApp, target: &Target) -> Self {
        match (&target.launch, &target.trust) {
            _ if target.disabled => Self::new(target, "disabled", "-", "-", "-", ""),
            (Err(failure), _) => Self::failed(app, target, failure),
            (Ok(_), Trust::Needed { .. }) => Self::new(target, "not approved", "-", "-", "-", ""),
            (Ok(_), Trust::Given(_)) => Self::new(target, "not started", "-", "-", "-", ""),
        }
    }

    fn failed(app: &SharedApp, target: &Target, failure: &Failure) -> Self {
        let state = match failure.exit {
            exit::PERSON_NEEDED => "not approved",
            exit::USAGE if failure.kind == "unsupported" => "not supported",
            exit::USAGE => "config error",
            exit::TIMEOUT => "timed out",
            _ => "failed",
        };
        // What the message says of these is all there is to it; of others the innermost cause says most.
        let told = ["server_exited", "timeout", "approval_needed"].contains(&failure.kind);
        let innermost = failure.causes.last().filter(|_| !told);
        let what = innermost.unwrap_or(&failure.message);
        let what = what
            .strip_prefix(&format!("{}: ", target.id))
            .unwrap_or(what);
        let id = quoted(&target.id);
        let next = match failure.exit {
            exit::PERSON_NEEDED => "mcpline --trust ...".to_owned(),
            exit::USAGE => app.about_same_servers(&format!("mcpline config explain {id}")),
            _ => app.about_same_servers(&format!("mcpline doctor {id}")),
        };
        let remark = format!("{}; {next}", one_line(what, 70));
        let mut row = Self::new(target, state, "-", "-", "-", &remark);
        row.json["error"] = app.completed(failure).json();
        row
    }
}

async fn connect(app: &SharedApp, targets: &[Target]) -> Vec<Row> {
    let enabled: Vec<_> = targets
        .iter()
        .filter(|target| !target.disabled)
        .cloned()
        .collect();
    let mut outcomes = servers::connect_all(app, &enabled).await.into_iter();
    let mut rows = Vec::new();
    for target in targets {
        if target.disabled {
            rows.push(Row::at_rest(app, target));
            continue;
        }
        rows.push(match outcomes.next() {
            Some(Ok(connected)) => {
                let agreement = connected.client.agreement();
                let version = agreement.version.to_string();
                let (tools, remark) = match tools_of(target, &connected).await {
                    Ok(list) => (list.tools.len().to_string(), String::new()),
                    Err(failure) => ("?".to_owned(), failure.message),
                };
                let mut row = Row::new(
                    target,
                    "ok",
                    &version,
                    &tools,
                    &shown(connected.took),
                    &remark,
                );
                row.json["era"] = json!(agreement.era.to_string());
                row.json["version"] = json!(version);
                row.json["tools"] = json!(tools.parse::<usize>().ok());
                row.json["ms"] =
                    json!(u64::try_from(connected.took.as_millis()).unwrap_or(u64::MAX));
                row
            }
            Some(Err(failure)) => Row::failed(app, target, &failure),
            None => Row::at_rest(app, target),
        });
    }
    rows
}
