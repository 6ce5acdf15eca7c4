//! The client against real processes, mostly the fake server with one fault at a time.

mod answers;
mod life;

use std::time::Duration;

use mcp_client::stdio::{ServerCommand, connect};
use mcp_client::{Client, ClientOptions, Error};
use mcp_testkit::process::{Marked, fake_server};
use serde_json::json;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MIB: usize = 1024 * 1024;

pub(super) fn server(mark: &Marked, switches: &[&str]) -> ServerCommand {
    ServerCommand::new(fake_server())
        .args(switches.iter().copied())
        .env(Marked::NAME, mark.value())
}

pub(super) fn options() -> ClientOptions {
    let mut options = ClientOptions::new("test", "1").with_name("fake");
    options.config.probe_timeout = Duration::from_millis(300);
    options
}

pub(super) async fn start(mark: &Marked, switches: &[&str]) -> Client {
    connect(server(mark, switches), options())
        .await
        .unwrap_or_else(|error| panic!("{switches:?}: {}", chain(&error)))
}

pub(super) async fn fails_to_start(mark: &Marked, switches: &[&str]) -> Error {
    connect(server(mark, switches), options())
        .await
        .unwrap_err()
}

/// An error with its causes.
pub(super) fn chain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

pub(super) async fn echo(client: &Client, text: &str) -> String {
    client
        .call_tool("echo", &json!({"text": text}))
        .await
        .map_or_else(|error| chain(&error), |result| result.text())
}
