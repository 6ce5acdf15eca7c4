//! Servers over their pipes.

use std::time::Instant;

use mcp_client::ClientOptions;
use mcp_client::stdio::{ServerCommand, connect};

use crate::exercise::exercise;
use crate::plan::Server;
use crate::report::{self, Row};
use crate::{MARK, leftovers};

/// Starts a server, tries it and closes it.
pub(crate) async fn try_server(server: &Server, mark: &str) -> Row {
    let start = Instant::now();
    let mut command = ServerCommand::new(&server.command)
        .args(&server.args)
        .env(MARK, mark);
    if let Some(cwd) = &server.cwd {
        command = command.cwd(cwd);
    }
    let options =
        ClientOptions::new("mcp-interop", env!("CARGO_PKG_VERSION")).with_name(&server.name);
    let mut row = Row::new(server);
    match connect(command, options).await {
        Ok(client) => {
            // If the mark did not show now, its absence after the end would prove nothing.
            if leftovers::marked(MARK, mark).is_empty() {
                row.fail("no process of the server is visible while it runs");
            }
            exercise(&client, server, &mut row).await;
            let report = client.close().await;
            row.note(&format!("closed: {}", report.summary));
            if report.leftovers {
                row.fail("the stop report names leftovers");
            }
        }
        Err(error) => row.fail(&report::chain(&error)),
    }
    row.took(start.elapsed());
    row
}
