//! Cutting a byte stream into frames.
//!
//! Decoders take bytes as they come, in any chunks, and never fail: what is too long is skipped, counted and reported,
//! and the next frame is read normally.

mod ndjson;
mod sse;

/// Longest frame taken by default, in bytes: 16 MiB of payload and 64 KiB for what stands around it.
pub const DEFAULT_MAX_FRAME_BYTES: usize = 16 * 1024 * 1024 + 64 * 1024;

pub use ndjson::{MAX_HEAD_BYTES, NdjsonDecoder, NdjsonFrame, TooLong};
pub use sse::{MAX_FIELD_BYTES, SseDecoder, SseEvent, SseFrame};
