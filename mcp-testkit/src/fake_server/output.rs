//! What the server writes, and all that can be wrong with it.

use std::io::{self, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::switches::{HELP, Switches};

/// The server's output, shared by all that answer.
pub(super) struct Output {
    switches: Switches,
    state: Mutex<State>,
}

struct State {
    begun: bool,
    messages: u64,
}

impl Output {
    pub(super) fn new(switches: Switches) -> Self {
        Self {
            switches,
            state: Mutex::new(State {
                begun: false,
                messages: 0,
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says a message.
    pub(super) fn send(&self, message: &Value) {
        self.send_text(&message.to_string());
    }

    /// Says a message given as text.
    pub(super) fn send_text(&self, text: &str) {
        let switches = &self.switches;
        let mut state = self.state();
        let mut bytes = Vec::new();
        if !std::mem::replace(&mut state.begun, true) && switches.bom {
            bytes.extend_from_slice(b"\xef\xbb\xbf");
        }
        state.messages += 1;
        if switches
            .noise
            .is_some_and(|every| state.messages.is_multiple_of(every.max(1)))
        {
            bytes.extend_from_slice(b"\x1b[33m[warn]\x1b[0m a line of noise\n");
        }
        if switches.blank_lines {
            bytes.extend_from_slice(b"\r\n\n");
        }
        if switches.two_per_line {
            bytes.extend_from_slice(br#"{"jsonrpc":"2.0","method":"notifications/vendor/extra"} "#);
        }
        let mut body = text.as_bytes().to_vec();
        if switches.bad_utf8
            && let Some(at) = find(&body, br#""text":""#)
        {
            body.insert(at, 0xe9);
        }
        if switches.lsp {
            bytes.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            bytes.append(&mut body);
        } else {
            bytes.append(&mut body);
            if switches.nul {
                bytes.push(0);
            }
            bytes.extend_from_slice(if switches.crlf { b"\r\n" } else { b"\n" });
        }
        self.write(&bytes);
    }

    /// Writes bytes as they are, without a lock of its own kind of message.
    pub(super) fn raw(&self, bytes: &[u8]) {
        let _state = self.state();
        self.write(bytes);
    }

    fn write(&self, bytes: &[u8]) {
        let mut out = io::stdout().lock();
        let piece = self.switches.split.unwrap_or(usize::MAX).max(1);
        for piece in bytes.chunks(piece) {
            // Nobody reads any more: then there is nobody to tell.
            if out.write_all(piece).and_then(|()| out.flush()).is_err() {
                std::process::exit(0);
            }
        }
    }
}

/// The place right behind `needle`.
fn find(bytes: &[u8], needle: &[u8]) -> Option<usize> {
    bytes
        .windows(needle.len())
        .position(|window| window == needle)
        .map(|at| at + needle.len())
}

/// Writes so many bytes of log lines to the error output.
pub(super) fn flood(bytes: usize) {
    let mut err = io::stderr().lock();
    let mut left = bytes;
    let line = b"flood: the quick brown fox jumps over the lazy dog and writes it down\n";
    while left > 0 {
        let part = left.min(line.len());
        let _ = err.write_all(&line[..part]);
        left -= part;
    }
    let _ = err.flush();
}

pub(super) fn complain(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub(super) fn print_help() {
    let mut out = io::stdout().lock();
    let _ = writeln!(
        out,
        "fake-server: a Model Context Protocol server whose faults are switches\n"
    );
    for (name, takes, what) in HELP {
        let _ = writeln!(out, "  {:32} {what}", format!("--{name} {takes}"));
    }
}
