//! Calls one tool of any stdio server:
//!
//! ```console
//! $ cargo run -p mcp-client --example call -- echo '{"message":"hi"}' npx -y @modelcontextprotocol/server-everything
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program"
)]

use std::error::Error;

use mcp_client::ClientOptions;
use mcp_client::stdio::{ServerCommand, connect};
use serde_json::value::RawValue;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(tool), Some(arguments), Some(program)) = (words.next(), words.next(), words.next())
    else {
        return Err("usage: call TOOL ARGUMENTS PROGRAM [ARG...]".into());
    };
    let arguments: Box<RawValue> = serde_json::from_str(&arguments)?;
    let command = ServerCommand::new(program).args(words);
    let client = connect(
        command,
        ClientOptions::new("call-example", env!("CARGO_PKG_VERSION")),
    )
    .await?;
    eprintln!(
        "connected: {}, {}",
        client.agreement().era,
        client.agreement().version
    );
    let result = client.call_tool(&tool, &arguments).await?;
    println!("{}", result.text());
    client.close().await;
    if result.is_error {
        Err("the tool reported an error".into())
    } else {
        Ok(())
    }
}
