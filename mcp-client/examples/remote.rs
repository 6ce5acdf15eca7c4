//! Lists the tools of any server over HTTP, and calls one if it is named:
//!
//! ```console
//! $ cargo run -p mcp-client --example remote -- http://127.0.0.1:3001/mcp echo '{"message":"hi"}'
//! ```

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line program"
)]

use std::error::Error;

use mcp_client::ClientOptions;
use mcp_client::http::{HttpServer, connect};
use serde_json::value::RawValue;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let url = words.next().ok_or("usage: remote URL [TOOL [ARGUMENTS]]")?;
    let server = HttpServer::new(&url)?;
    let options = ClientOptions::new("remote-example", env!("CARGO_PKG_VERSION"));
    let client = connect(server, options).await?;
    let agreement = client.agreement();
    eprintln!("connected: {}, {}", agreement.era, agreement.version);
    for (name, value) in client.channel_facts() {
        eprintln!("{name}: {value}");
    }
    for tool in &client.tools().await?.tools {
        println!("{}", tool.name);
    }
    if let Some(tool) = words.next() {
        let arguments = words.next().unwrap_or_else(|| "{}".to_owned());
        let arguments: Box<RawValue> = serde_json::from_str(&arguments)?;
        println!("{}", client.call_tool(&tool, &arguments).await?.text());
    }
    eprintln!("{}", client.close().await.summary);
    Ok(())
}
