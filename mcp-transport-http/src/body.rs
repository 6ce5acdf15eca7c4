//! Bodies of answers: decoded, bounded, piece by piece.

use std::io::Write as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use flate2::write::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;

/// How many compressed bytes are unpacked at once: each may become a thousand.
const UNPACKED_AT_ONCE: usize = 1024;

/// A body.
#[derive(Debug)]
pub(crate) struct Body {
    incoming: Incoming,
    gzip: Option<Gzip>,
    /// What was taken and given back: the bytes that were only looked at.
    front: Bytes,
}

#[derive(Debug)]
struct Gzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    packed: Bytes,
}

/// Why a body ended early.
#[derive(Debug)]
pub(crate) enum BodyError {
    /// It is packed in a way that was not asked for.
    Encoding(String),
    /// The connection was lost, or what came is broken (C125).
    Cut(String),
    /// It is longer than allowed.
    TooLong,
}

impl Body {
    pub(crate) fn new(headers: &HeaderMap, incoming: Incoming) -> Result<Self, BodyError> {
        let encoding = headers.get(CONTENT_ENCODING).map(|value| {
            String::from_utf8_lossy(value.as_bytes())
                .trim()
                .to_ascii_lowercase()
        });
        let gzip = match encoding.as_deref() {
            None | Some("" | "identity") => None,
            Some("gzip" | "x-gzip") => Some(Gzip {
                decoder: MultiGzDecoder::new(Vec::new()),
                packed: Bytes::new(),
            }),
            Some(other) => {
                return Err(BodyError::Encoding(mcp_jsonrpc::clean_excerpt(
                    other.as_bytes(),
                    64,
                )));
            }
        };
        Ok(Self {
            incoming,
            gzip,
            front: Bytes::new(),
        })
    }

    /// Gives bytes back, to be read again first.
    pub(crate) fn unread(&mut self, bytes: Bytes) {
        self.front = bytes;
    }

    /// The next bytes, never empty; `None` at an orderly end.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, BodyError>> {
        if !self.front.is_empty() {
            return Some(Ok(std::mem::take(&mut self.front)));
        }
        loop {
            if let Some(gzip) = &mut self.gzip
                && !gzip.packed.is_empty()
            {
                match gzip.unpack() {
                    Ok(bytes) if bytes.is_empty() => continue,
                    other => return Some(other),
                }
            }
            let data = match self.incoming.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => data,
                    Err(_trailers) => continue,
                },
                Some(Err(error)) => return Some(Err(BodyError::Cut(reason(&error)))),
                None => return self.end(),
            };
            match &mut self.gzip {
                Some(gzip) => gzip.packed = data,
                None if data.is_empty() => {}
                None => return Some(Ok(data)),
            }
        }
    }

    /// The orderly end: packed bodies end with a check of all that came.
    fn end(&mut self) -> Option<Result<Bytes, BodyError>> {
        let mut gzip = self.gzip.take()?;
        let result = gzip.decoder.try_finish();
        let rest = std::mem::take(gzip.decoder.get_mut());
        match result {
            Err(error) => Some(Err(BodyError::Cut(format!(
                "its gzip data is broken: {error}"
            )))),
            Ok(()) if rest.is_empty() => None,
            Ok(()) => Some(Ok(rest.into())),
        }
    }

    /// All of it, if it is not longer than this.
    pub(crate) async fn collect(&mut self, max_bytes: usize) -> Result<Bytes, BodyError> {
        // The usual body comes in one piece and is not copied.
        let Some(first) = self.chunk().await.transpose()? else {
            return Ok(Bytes::new());
        };
        if first.len() > max_bytes {
            return Err(BodyError::TooLong);
        }
        let Some(second) = self.chunk().await.transpose()? else {
            return Ok(first);
        };
        let mut all = BytesMut::with_capacity(2 * (first.len() + second.len()));
        all.extend_from_slice(&first);
        let mut next = Some(second);
        while let Some(bytes) = next {
            if all.len() + bytes.len() > max_bytes {
                return Err(BodyError::TooLong);
            }
            all.extend_from_slice(&bytes);
            next = self.chunk().await.transpose()?;
        }
        Ok(all.freeze())
    }

    /// As much of the start as this, and as comes within this time, whatever comes then.
    pub(crate) async fn start(&mut self, max_bytes: usize, within: Duration) -> Bytes {
        let mut all = BytesMut::new();
        let reading = async {
            while all.len() < max_bytes {
                match self.chunk().await {
                    Some(Ok(bytes)) => {
                        let room = max_bytes - all.len();
                        all.extend_from_slice(&bytes.slice(..bytes.len().min(room)));
                    }
                    Some(Err(_)) | None => break,
                }
            }
        };
        // What came until then counts.
        let _ = tokio::time::timeout(within, reading).await;
        all.freeze()
    }
}

impl Gzip {
    fn unpack(&mut self) -> Result<Bytes, BodyError> {
        let part = self
            .packed
            .split_to(self.packed.len().min(UNPACKED_AT_ONCE));
        let broken =
            |error: std::io::Error| BodyError::Cut(format!("its gzip data is broken: {error}"));
        self.decoder.write_all(&part).map_err(broken)?;
        self.decoder.flush().map_err(broken)?;
        Ok(std::mem::take(self.decoder.get_mut()).into())
    }
}

/// The innermost cause says most: hyper's own words are about its layers.
fn reason(error: &hyper::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
