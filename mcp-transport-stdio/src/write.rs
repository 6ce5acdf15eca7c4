//! Writing lines to any byte stream.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Most lines handed to the system in one call.
const MAX_SLICES: usize = 64;

/// Writes whole lines to a byte stream: a pipe, a socket, memory.
///
/// Lines wait in the writer until they are written, so that no half line is ever forgotten: a dropped
/// [`LineWriter::flush`] is gone on with by the next one. How much may wait is for the caller to bound.
#[derive(Debug)]
pub struct LineWriter<W> {
    io: W,
    lines: VecDeque<Bytes>,
}

impl<W: AsyncWrite + Unpin> LineWriter<W> {
    /// A writer with nothing to write.
    pub fn new(io: W) -> Self {
        Self {
            io,
            lines: VecDeque::new(),
        }
    }

    /// Adds a line, with its line break.
    pub fn push(&mut self, line: Bytes) {
        if !line.is_empty() {
            self.lines.push_back(line);
        }
    }

    /// Writes all that waits; several lines go out in one call where the stream can do that.
    ///
    /// # Errors
    /// When the stream takes no more.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next call goes on with the very byte where this one stopped.
    pub async fn flush(&mut self) -> io::Result<()> {
        while !self.lines.is_empty() {
            let slices: Vec<_> = self
                .lines
                .iter()
                .take(MAX_SLICES)
                .map(|line| IoSlice::new(line))
                .collect();
            let written = match &slices[..] {
                [one] => self.io.write(one).await,
                several => self.io.write_vectored(several).await,
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.advance(written),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.io.flush().await
    }

    fn advance(&mut self, mut written: usize) {
        while let Some(line) = self.lines.front_mut() {
            let step = written.min(line.len());
            line.advance(step);
            written -= step;
            if !line.is_empty() {
                return;
            }
            self.lines.pop_front();
        }
    }
}
