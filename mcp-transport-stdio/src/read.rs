//! Reading frames from any byte stream.
//!
//! What was read is in the reader, never in a future that can be dropped half way (C012).

use std::io;

use bytes::BytesMut;
use mcp_jsonrpc::frame::{NdjsonDecoder, NdjsonFrame};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Least room made for a read, in bytes: what an idle connection costs.
const MIN_READ_BYTES: usize = 4 * 1024;

/// Most room made for a read, in bytes.
const MAX_READ_BYTES: usize = 256 * 1024;

/// What a [`FrameReader`] yields.
#[derive(Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a stream yields frames and then ends"
)]
pub enum ReadEvent {
    /// A frame.
    Frame(NdjsonFrame),
    /// The stream ended, in order or with an error. Nothing follows.
    End(io::Result<()>),
}

/// Reads newline-delimited frames from a byte stream: a pipe, a socket, memory.
#[derive(Debug)]
pub struct FrameReader<R> {
    io: R,
    decoder: NdjsonDecoder,
    buffer: BytesMut,
    read_bytes: usize,
    ended: Option<io::Result<()>>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// A reader of frames of at most `max_frame_bytes`; longer ones are skipped and reported.
    pub fn new(io: R, max_frame_bytes: usize) -> Self {
        Self {
            io,
            decoder: NdjsonDecoder::new(max_frame_bytes),
            buffer: BytesMut::new(),
            read_bytes: MIN_READ_BYTES,
            ended: None,
        }
    }

    /// The next frame, or the end. After the end, the end again.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: every byte that was read is kept here.
    pub async fn recv(&mut self) -> ReadEvent {
        loop {
            if let Some(frame) = self.try_recv() {
                return ReadEvent::Frame(frame);
            }
            if let Some(end) = &self.ended {
                let again = match end {
                    Ok(()) => Ok(()),
                    Err(error) => Err(error.kind().into()),
                };
                return ReadEvent::End(again);
            }
            self.make_room();
            match self.io.read_buf(&mut self.buffer).await {
                Ok(0) => self.ended = Some(Ok(())),
                Ok(read) => self.adapt(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => self.ended = Some(Err(error)),
            }
        }
    }

    /// A frame that was read already.
    pub fn try_recv(&mut self) -> Option<NdjsonFrame> {
        let frame = self.decoder.decode(&mut self.buffer);
        if frame.is_none() && self.ended.is_some() {
            return self.decoder.finish(&mut self.buffer);
        }
        frame
    }

    fn make_room(&mut self) {
        if self.buffer.is_empty() && self.buffer.capacity() > 2 * MAX_READ_BYTES {
            // A huge message came through here; its buffer is not needed for the next one.
            self.buffer = BytesMut::new();
        }
        self.buffer.reserve(self.read_bytes);
    }

    /// Reads more at once while the stream fills what it is offered, less when it does not.
    fn adapt(&mut self, read: usize) {
        self.read_bytes = if read >= self.read_bytes {
            (self.read_bytes * 2).min(MAX_READ_BYTES)
        } else if read < self.read_bytes / 4 {
            (self.read_bytes / 2).max(MIN_READ_BYTES)
        } else {
            self.read_bytes
        };
    }
}
