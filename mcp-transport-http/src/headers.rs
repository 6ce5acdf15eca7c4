//! Headers of the host: fixed ones, and ones that are asked for before each request.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue};
use thiserror::Error;

/// Why a header can't be sent.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum HeaderError {
    /// No header name.
    #[error("{name:?} is no header name")]
    Name {
        /// The name.
        name: String,
    },
    /// The protocol or HTTP itself sets it (C106).
    #[error("the header {name} is set by the protocol and can't be given")]
    Reserved {
        /// The name.
        name: String,
    },
    /// The value holds what no header may hold. It is not shown: it may be a secret.
    #[error("the value of the header {name} holds control characters")]
    Value {
        /// The name.
        name: String,
    },
}

/// A header of the host, checked. Its value is marked as secret.
pub(crate) fn checked(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), HeaderError> {
    if mcp_proto::http::is_reserved(name) {
        return Err(HeaderError::Reserved {
            name: name.to_owned(),
        });
    }
    let parsed = name.parse::<HeaderName>().map_err(|_| HeaderError::Name {
        name: name.to_owned(),
    })?;
    let mut value = HeaderValue::from_str(value).map_err(|_| HeaderError::Value {
        name: name.to_owned(),
    })?;
    value.set_sensitive(true);
    Ok((parsed, value))
}

/// Why headers are asked for.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct HeaderRequest {
    /// Whether the server refused the last ones with 401: a token that was kept is of no use any more.
    pub refused: bool,
}

/// What a provider says: names and values, or why it has none.
pub type ProvidedHeaders = Result<Vec<(String, String)>, Box<dyn std::error::Error + Send + Sync>>;

/// Gives headers before each request: short-lived tokens.
#[derive(Clone)]
pub struct HeaderProvider(
    Arc<dyn Fn(HeaderRequest) -> BoxFuture<'static, ProvidedHeaders> + Send + Sync>,
);

impl HeaderProvider {
    /// Asks `provide` before each request. It should keep what it can; it is asked with
    /// [`refused`](HeaderRequest::refused) once after a 401.
    pub fn new<F, C>(provide: F) -> Self
    where
        F: Fn(HeaderRequest) -> C + Send + Sync + 'static,
        C: Future<Output = ProvidedHeaders> + Send + 'static,
    {
        Self(Arc::new(move |request| Box::pin(provide(request))))
    }

    /// Adds what the provider gives.
    pub(crate) async fn provide(
        &self,
        request: HeaderRequest,
        headers: &mut HeaderMap,
    ) -> Result<(), String> {
        let provided = (self.0)(request).await.map_err(|error| error.to_string())?;
        for (name, value) in provided {
            let (name, value) = checked(&name, &value).map_err(|error| error.to_string())?;
            headers.insert(name, value);
        }
        Ok(())
    }
}

impl fmt::Debug for HeaderProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeaderProvider")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_checked_and_secret() {
        let (name, value) = checked("Authorization", "Bearer s3cret").unwrap();
        assert_eq!(
            (name.as_str(), format!("{value:?}").as_str()),
            ("authorization", "Sensitive")
        );
        let cases = [
            (
                "Accept",
                "x",
                "the header Accept is set by the protocol and can't be given",
            ),
            (
                "mcp-session-id",
                "x",
                "the header mcp-session-id is set by the protocol and can't be given",
            ),
            ("a b", "x", "\"a b\" is no header name"),
            (
                "X-A",
                "s3cret\r\nEvil: 1",
                "the value of the header X-A holds control characters",
            ),
        ];
        for (name, value, expected) in cases {
            assert_eq!(checked(name, value).unwrap_err().to_string(), expected);
        }
    }
}
