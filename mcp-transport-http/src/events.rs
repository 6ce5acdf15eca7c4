//! A body as a stream of events.

use bytes::BytesMut;
use mcp_jsonrpc::frame::{SseDecoder, SseFrame};

use crate::body::{Body, BodyError};

/// Bytes kept in the buffer of a stream that is idle.
const MAX_IDLE_BYTES: usize = 64 * 1024;

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    body: Body,
    decoder: SseDecoder,
    buffer: BytesMut,
    ended: bool,
}

impl Events {
    pub(crate) fn new(body: Body, max_event_bytes: usize) -> Self {
        Self {
            body,
            decoder: SseDecoder::new(max_event_bytes),
            buffer: BytesMut::new(),
            ended: false,
        }
    }

    /// The next frame; `None` at an orderly end.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Option<Result<SseFrame, BodyError>> {
        loop {
            if self.ended {
                return self.decoder.finish(&mut self.buffer).map(Ok);
            }
            if let Some(frame) = self.decoder.decode(&mut self.buffer) {
                return Some(Ok(frame));
            }
            match self.body.chunk().await {
                Some(Ok(bytes)) => {
                    if self.buffer.is_empty() && self.buffer.capacity() > MAX_IDLE_BYTES {
                        self.buffer = BytesMut::new();
                    }
                    self.buffer.extend_from_slice(&bytes);
                }
                // What stands behind the last whole event of a broken stream is not to be trusted.
                Some(Err(error)) => return Some(Err(error)),
                None => self.ended = true,
            }
        }
    }
}
