//! A session with a server on `std` alone: no runtime, no task, one reading thread.
//!
//! ```console
//! $ cargo run -p mcp-proto --example blocking -- npx -y @modelcontextprotocol/server-everything
//! ```
//!
//! The loop is the one of the crate's documentation: output until `Wait`, then one input.

#![expect(clippy::print_stdout, reason = "a command line program")]
#![expect(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is the driver: I/O and the clock are its part"
)]

use std::error::Error;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use mcp_jsonrpc::frame::{DEFAULT_MAX_FRAME_BYTES, NdjsonDecoder};
use mcp_proto::ChannelEnd;
use mcp_proto::connection::{
    ClientConfig, ClientConnection, Event, Output, RequestOptions, read_result,
};
use mcp_proto::method::ListTools;
use mcp_proto::model::implementation::Implementation;
use mcp_proto::model::page::ListParams;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let program = words.next().ok_or("usage: blocking PROGRAM [ARG...]")?;
    let mut child = Command::new(program)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let mut output = child.stdout.take().ok_or("no output")?;

    // Reading never waits for writing: it has a thread of its own, which hands over what came and then an end.
    let (sender, received) = channel();
    std::thread::spawn(move || {
        let mut chunk = vec![0; 8192];
        while let Ok(read @ 1..) = output.read(&mut chunk) {
            if sender.send(chunk[..read].to_vec()).is_err() {
                return;
            }
        }
    });

    let mut connection = ClientConnection::<()>::new(ClientConfig::new(Implementation::new(
        "blocking-example",
        "1",
    )));
    let mut decoder = NdjsonDecoder::new(DEFAULT_MAX_FRAME_BYTES);
    let mut buffer = BytesMut::new();
    connection.start(Instant::now());
    loop {
        match connection.poll_output() {
            Output::Transmit(message) => input.write_all(message.line())?,
            // Only where each message has an exchange of its own.
            Output::Abort(_) => {}
            Output::Event(Event::Ready(agreement)) => {
                println!("{}, {}", agreement.era, agreement.version);
                connection.request::<ListTools>(
                    &ListParams::default(),
                    &RequestOptions::default(),
                    (),
                    Instant::now(),
                )?;
            }
            Output::Event(Event::Settled { outcome, .. }) => {
                for tool in read_result::<ListTools>(outcome)?.entries {
                    println!("{}", tool.name);
                }
                connection.close(Instant::now());
            }
            Output::Event(Event::Failed(error)) => return Err(error.into()),
            Output::Event(Event::Reopen(_)) => {
                connection.handle_reopen_failed("this example starts it once", Instant::now())
            }
            Output::Event(Event::Closed) => break,
            Output::Event(_) => {}
            Output::Wait(deadline) => {
                let wait = deadline.map_or(Duration::from_secs(3600), |at| {
                    at.saturating_duration_since(Instant::now())
                });
                match received.recv_timeout(wait) {
                    Ok(chunk) => {
                        buffer.extend_from_slice(&chunk);
                        while let Some(frame) = decoder.decode(&mut buffer) {
                            connection.handle_frame(frame, Instant::now());
                        }
                    }
                    Err(RecvTimeoutError::Timeout) => connection.handle_timeout(Instant::now()),
                    Err(RecvTimeoutError::Disconnected) => {
                        connection.handle_channel_end(
                            ChannelEnd::new("the server closed its output"),
                            Instant::now(),
                        );
                    }
                }
            }
        }
    }
    drop(input);
    child.wait()?;
    Ok(())
}
