//! What a host sets up before it talks to a server: who it is, what it can do, how it signs in.
//!
//! This is the one place for a handler of questions that servers ask, and for signing in: every scenario connects here.

use mcp_client::http::{HttpConnector, HttpServer, connect_with};
use mcp_client::mcp_proto::model::elicitation::FormAnswer;
use mcp_client::{Client, ClientOptions};
use serde_json::Map;

use crate::failure::{Failure, unexpected};
use crate::skills;
use crate::task::Task;

/// Connects to the task's server, as a host that does not know beforehand what it speaks.
pub(crate) async fn connect(task: &Task) -> Result<Client, Failure> {
    let client = connect_with(connector(task)?, options(task)).await?;
    let agreed = client.agreement();
    // Some servers of the suite speak both.
    if agreed.era != task.era() && !skills::is_about(task) {
        return unexpected(format!(
            "agreed on {} with a server of the {} era",
            agreed.version,
            task.era()
        ));
    }
    Ok(client)
}

fn connector(task: &Task) -> Result<HttpConnector, Failure> {
    let mut server = HttpServer::new(&task.url)
        .map_err(|error| Failure::Usage(format!("{}: {error}", task.url)))?;
    // Its server takes any GET for a resumed stream, and answers the call on the stream for its own messages if that is
    // opened a moment later than the call is made.
    server.server_stream = task.scenario != "sse-retry";
    // Ports are used again by other servers: nothing is remembered.
    Ok(HttpConnector::new(server).with_memory(None))
}

fn options(task: &Task) -> ClientOptions {
    let mut options = ClientOptions::new("mcp-conformance", env!("CARGO_PKG_VERSION"))
        // Nobody sits here: what the form holds beforehand is the answer (ELIC-07).
        .with_form_elicitation(|asked| async move {
            Ok(FormAnswer::Accept(asked.params.schema.defaults()))
        });
    if skills::is_about(task) {
        options.config.capabilities = options
            .config
            .capabilities
            .with_extension(skills::EXTENSION, Map::new());
    }
    options
}
