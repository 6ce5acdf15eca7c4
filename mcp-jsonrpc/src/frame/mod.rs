//! Cutting a byte stream into frames.
//!
//! Decoders take bytes as they come, in any chunks, and never fail: what is too long is skipped, counted and reported,
//! and the next frame is read normally.

mod ndjson;

pub use ndjson::{MAX_HEAD_BYTES, NdjsonDecoder, NdjsonFrame, TooLong};
