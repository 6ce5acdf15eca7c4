//! A server's error output: always read, kept in a bounded ring.
//!
//! It is read from the first moment, before anything is sent, so that a chatty server never blocks (C031, C032). It is
//! log text, no sign of failure (STDIO-06, C034).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{broadcast, watch};

/// How much of the error output is kept, in bytes.
pub const STDERR_RING_BYTES: usize = 64 * 1024;

/// How much of it an error shows, in bytes.
pub const STDERR_TAIL_BYTES: usize = 8 * 1024;

/// Longest line handed to [`StderrLines`], in bytes; a longer one is cut into several.
pub const MAX_STDERR_LINE_BYTES: usize = 4 * 1024;

/// Most lines kept for a slow reader of [`StderrLines`].
const MAX_WAITING_LINES: usize = 256;

/// The newest error output of one process. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct StderrRing(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    lines: broadcast::Sender<Arc<str>>,
    ended: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    bytes: VecDeque<u8>,
    total: u64,
}

impl StderrRing {
    pub(crate) fn new() -> Self {
        let (lines, _) = broadcast::channel(MAX_WAITING_LINES);
        Self(Arc::new(Inner {
            state: Mutex::default(),
            lines,
            ended: watch::Sender::new(false),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads until the end.
    pub(crate) async fn fill_from(self, mut io: impl AsyncRead + Unpin) {
        let mut chunk = vec![0; 4096];
        let mut line = Vec::new();
        while let Ok(read @ 1..) = io.read(&mut chunk).await {
            let read = chunk.get(..read).unwrap_or_default();
            self.keep(read);
            if self.0.lines.receiver_count() > 0 {
                self.publish(&mut line, read);
            }
        }
        if !line.is_empty() {
            self.publish(&mut line, b"\n");
        }
        self.0.ended.send_replace(true);
    }

    fn keep(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.total += bytes.len() as u64;
        let kept = bytes
            .get(bytes.len().saturating_sub(STDERR_RING_BYTES)..)
            .unwrap_or_default();
        let too_many = (state.bytes.len() + kept.len()).saturating_sub(STDERR_RING_BYTES);
        state.bytes.drain(..too_many);
        state.bytes.extend(kept);
    }

    /// Hands whole lines on. `line` keeps the part of one that is not complete.
    fn publish(&self, line: &mut Vec<u8>, bytes: &[u8]) {
        for &byte in bytes {
            if byte != b'\n' {
                line.push(byte);
            }
            if byte == b'\n' || line.len() >= MAX_STDERR_LINE_BYTES {
                let text = clean(line);
                line.clear();
                // Nobody listens any more: that is fine.
                let _ = self.0.lines.send(text.trim_end().into());
            }
        }
    }

    /// Waits until all of it was read.
    pub(crate) async fn ended(&self) {
        // The sender lives in `self`, so the wait can't fail.
        let _ = self.0.ended.subscribe().wait_for(|ended| *ended).await;
    }

    /// The newest text, at most `max_bytes`, beginning with a whole line where there is one.
    pub(crate) fn tail(&self, max_bytes: usize) -> String {
        let state = self.state();
        let skipped = state.bytes.len().saturating_sub(max_bytes);
        let mut bytes: Vec<u8> = state.bytes.iter().skip(skipped).copied().collect();
        let cut = state.total > bytes.len() as u64;
        drop(state);
        if cut
            && let Some(at) = bytes
                .iter()
                .position(|byte| *byte == b'\n')
                .filter(|at| at + 1 < bytes.len())
        {
            bytes.drain(..=at);
        }
        clean(&bytes).trim_end().to_owned()
    }

    pub(crate) fn lines(&self) -> StderrLines {
        StderrLines(self.0.lines.subscribe())
    }
}

/// The lines of the error output from now on. A reader that is behind loses the oldest.
#[derive(Debug)]
pub struct StderrLines(broadcast::Receiver<Arc<str>>);

impl StderrLines {
    /// The next line, without control characters; `None` at the end.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Arc<str>> {
        loop {
            match self.0.recv().await {
                Ok(line) => return Some(line),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

/// Lossy text without escape sequences and other control characters, except line breaks and tabs (C004).
fn clean(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut escape = Escape::No;
    for character in String::from_utf8_lossy(bytes).chars() {
        escape = match (escape, character) {
            (_, '\u{1b}') => Escape::Begun,
            (Escape::Begun, '[') => Escape::Control,
            (Escape::Begun, ']') => Escape::System,
            (Escape::Begun, _) => Escape::No,
            (Escape::Control, '@'..='~') | (Escape::System, '\u{7}' | '\n') => Escape::No,
            (inside @ (Escape::Control | Escape::System), _) => inside,
            (Escape::No, '\n' | '\t') => {
                text.push(character);
                Escape::No
            }
            (Escape::No, character) => {
                if !character.is_control() {
                    text.push(character);
                }
                Escape::No
            }
        };
    }
    text
}

/// Where in a terminal's escape sequence the text is.
#[derive(Clone, Copy)]
enum Escape {
    No,
    Begun,
    /// `ESC [ … final`
    Control,
    /// `ESC ] … BEL`
    System,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn c031_the_ring_is_bounded_and_keeps_the_newest() {
        let ring = StderrRing::new();
        let mut text: Vec<u8> = (0..40_000)
            .flat_map(|n| format!("line {n}\n").into_bytes())
            .collect();
        text.extend_from_slice(b"last");
        ring.clone().fill_from(&text[..]).await;
        assert_eq!(ring.state().bytes.len(), STDERR_RING_BYTES);
        ring.ended().await;
        let tail = ring.tail(30);
        assert_eq!(tail, "line 39998\nline 39999\nlast");
    }

    #[tokio::test]
    async fn lines_are_cut_and_cleaned() {
        let ring = StderrRing::new();
        let mut lines = ring.lines();
        let long = "x".repeat(MAX_STDERR_LINE_BYTES + 10);
        let text = format!("\u{1b}[33mwarn\u{1b}[0m\u{7}\r\n{long}\nend");
        ring.clone().fill_from(text.as_bytes()).await;
        drop(ring);
        let mut seen = Vec::new();
        while let Some(line) = lines.next().await {
            seen.push(line.len());
        }
        assert_eq!(seen, [4, MAX_STDERR_LINE_BYTES, 10, 3]);
    }
}
