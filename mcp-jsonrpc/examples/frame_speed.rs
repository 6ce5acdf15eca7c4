//! Prints how fast frames are cut, scanned and read: `cargo run --release -p mcp-jsonrpc --example frame_speed`.
//!
//! The first column is the size of one message, the others are MB/s. The line `many on one line` holds as many small
//! messages as fit into 4 MiB. Reading them costs more per byte, but if it costs a hundred times more, it is not linear.
//! `scan` has no number there, since a scan ends behind the first message.

#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "measuring and printing is what this program is for"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use mcp_jsonrpc::Messages;
use mcp_jsonrpc::frame::{NdjsonDecoder, SseDecoder};
use mcp_jsonrpc::salvage::EnvelopeScanner;

/// What one read of a pipe usually gives, in bytes.
const CHUNK_BYTES: usize = 64 * 1024;

/// How much each measurement works through, in bytes.
const TOTAL_BYTES: usize = 64 * 1024 * 1024;

fn main() {
    println!(
        "{:>18} {:>8} {:>8} {:>8} {:>8}",
        "message", "ndjson", "sse", "scan", "read"
    );
    for kib in [1, 64, 1024, 16 * 1024] {
        let text = "lorem ipsum dolor sit amet \\n ".repeat(kib * 1024 / 30);
        let message = format!(
            r#"{{"jsonrpc":"2.0","result":{{"content":[{{"type":"text","text":"{text}"}}]}},"id":7}}"#
        );
        row(&format!("{kib} KiB"), &message);
    }
    row(
        "many on one line",
        &r#"{"jsonrpc":"2.0","method":"n"} "#.repeat(128 * 1024),
    );
}

fn row(name: &str, message: &str) {
    let count = (TOTAL_BYTES / message.len()).max(1);
    let bytes = count * message.len();

    let ndjson = {
        let input = format!("{message}\n");
        let mut decoder = NdjsonDecoder::new(usize::MAX);
        speed(bytes, || {
            feed(&input, count, |buffer| decoder.decode(buffer).is_some());
        })
    };
    let sse = {
        let input = format!("data: {message}\n\n");
        let mut decoder = SseDecoder::new(usize::MAX);
        speed(bytes, || {
            feed(&input, count, |buffer| decoder.decode(buffer).is_some());
        })
    };
    let scan = speed(bytes, || {
        for _ in 0..count {
            let mut scanner = EnvelopeScanner::new();
            for chunk in message.as_bytes().chunks(CHUNK_BYTES) {
                scanner.push(chunk);
            }
            black_box(scanner.found());
        }
    });
    let frame = Bytes::copy_from_slice(message.as_bytes());
    let read = speed(bytes, || {
        for _ in 0..count {
            black_box(Messages::new(frame.clone()).count());
        }
    });
    let scan = if message.ends_with(' ') {
        "-".to_owned()
    } else {
        format!("{scan:.0}")
    };
    println!("{name:>18} {ndjson:>8.0} {sse:>8.0} {scan:>8} {read:>8.0}");
}

/// Feeds `input` so many times, in chunks as a pipe would.
fn feed(input: &str, count: usize, mut decode: impl FnMut(&mut BytesMut) -> bool) {
    let mut buffer = BytesMut::new();
    let mut frames = 0;
    for _ in 0..count {
        for chunk in input.as_bytes().chunks(CHUNK_BYTES) {
            buffer.extend_from_slice(chunk);
            while decode(&mut buffer) {
                frames += 1;
            }
        }
    }
    assert_eq!(frames, count, "each message came out");
}

/// Megabytes per second.
fn speed(bytes: usize, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    let elapsed = start.elapsed().max(Duration::from_nanos(1));
    #[expect(clippy::cast_precision_loss, reason = "a rounded number is enough")]
    let megabytes = bytes as f64 / 1e6;
    megabytes / elapsed.as_secs_f64()
}
