//! The loop around a demo server: lines from standard input, lines to standard output. Blocking, on `std` alone.

use std::io::{self, BufRead, Write};
use std::process::ExitCode;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::server::{Kind, Moment, Server, Step};

/// How long the loop sleeps when no countdown runs; any length does, since input wakes it.
const IDLE: Duration = Duration::from_secs(3600);
/// Most lines read ahead of the loop; then the client waits.
const MAX_LINES_AHEAD: usize = 64;

/// Serves until standard input ends or the client is gone.
pub(crate) fn serve(kind: Kind) -> ExitCode {
    let started = Instant::now();
    let now = || Moment {
        up: started.elapsed(),
        unix_seconds: SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    };
    let (lines, inbox) = mpsc::sync_channel(MAX_LINES_AHEAD);
    thread::spawn(move || {
        for line in io::stdin().lock().split(b'\n') {
            let Ok(line) = line else { return };
            if lines.send(line).is_err() {
                return;
            }
        }
    });
    let mut server = Server::new(kind);
    loop {
        let wait = server
            .next_tick()
            .map_or(IDLE, |next| next.saturating_sub(started.elapsed()));
        let step = match inbox.recv_timeout(wait) {
            Ok(line) if line.trim_ascii().is_empty() => continue,
            Ok(line) => server.handle(&String::from_utf8_lossy(&line), now()),
            Err(RecvTimeoutError::Timeout) => server.tick(now()),
            Err(RecvTimeoutError::Disconnected) => return ExitCode::SUCCESS,
        };
        match write(&step) {
            Ok(None) => {}
            Ok(Some(status)) => return ExitCode::from(status),
            // Nobody reads any more.
            Err(_) => return ExitCode::SUCCESS,
        }
    }
}

fn write(step: &Step) -> io::Result<Option<u8>> {
    if let Some(complaint) = step.complaint {
        // Losing it is no reason to stop serving.
        drop(writeln!(io::stderr(), "{complaint}"));
    }
    let mut out = io::stdout().lock();
    for message in &step.messages {
        writeln!(out, "{message}")?;
    }
    out.flush()?;
    Ok(step.exit)
}
