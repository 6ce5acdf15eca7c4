//! The URL of a server.

use std::fmt;

use thiserror::Error;
use url::{Host, Url};

/// The URL that all messages of a server go to: `http` or `https`, with a host, without user and password.
#[derive(Clone, Eq, PartialEq)]
pub struct Endpoint(Url);

/// Why a URL can't be an [`Endpoint`].
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum EndpointError {
    /// Another origin than the one it was found at (C133).
    #[error("{found} is not on {expected}; what is meant for one server is not sent to another")]
    ForeignOrigin {
        /// The origin that was expected.
        expected: String,
        /// The origin found.
        found: String,
    },
    /// No URL.
    #[error("not a URL: {reason}")]
    NotAUrl {
        /// What is wrong.
        reason: String,
    },
    /// Not `http` or `https`.
    #[error("{scheme}: is not supported; use http: or https:")]
    Scheme {
        /// The scheme found.
        scheme: String,
    },
    /// User or password in the URL, where they end up in logs.
    #[error("a URL must not hold a user or a password; send them as a header")]
    Userinfo,
}

impl Endpoint {
    /// Reads a URL. A fragment is dropped.
    ///
    /// # Errors
    /// When it is none, or not for `http`, or holds a user or a password.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let url = Url::parse(text.trim()).map_err(|error| EndpointError::NotAUrl {
            reason: error.to_string(),
        })?;
        Self::check(url)
    }

    fn check(mut url: Url) -> Result<Self, EndpointError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(EndpointError::Scheme {
                scheme: url.scheme().to_owned(),
            });
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EndpointError::Userinfo);
        }
        url.set_fragment(None);
        Ok(Self(url))
    }

    /// Resolves a reference that the server gave; it must stay on the same origin.
    ///
    /// # Errors
    /// As [`Endpoint::parse`], and for another origin.
    pub fn resolve(&self, reference: &str) -> Result<Self, EndpointError> {
        let url = self
            .0
            .join(reference.trim())
            .map_err(|error| EndpointError::NotAUrl {
                reason: error.to_string(),
            })?;
        let other = Self::check(url)?;
        if other.0.origin() == self.0.origin() {
            Ok(other)
        } else {
            Err(EndpointError::ForeignOrigin {
                expected: self.origin(),
                found: other.origin(),
            })
        }
    }

    /// Scheme, host and port: `https://example.com`, `http://[::1]:8080`.
    pub fn origin(&self) -> String {
        self.0.origin().ascii_serialization()
    }

    /// The whole URL. Its query may hold a secret: show its `Display` instead.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the connection is encrypted.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == "https"
    }

    /// Whether the host is this machine: `localhost`, `127.0.0.0/8`, `::1`.
    pub fn is_loopback(&self) -> bool {
        match self.0.host() {
            Some(Host::Domain(name)) => {
                let name = name.strip_suffix('.').unwrap_or(name);
                name == "localhost" || name.ends_with(".localhost")
            }
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => {
                address.is_loopback()
                    || address
                        .to_ipv4_mapped()
                        .is_some_and(|address| address.is_loopback())
            }
            None => false,
        }
    }
}

/// Without the query's values, which may be secret.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin(), self.0.path())?;
        if self.0.query().is_some() {
            f.write_str("?***")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_checked() {
        let cases: &[(&str, Result<&str, &str>)] = &[
            ("https://example.com/mcp", Ok("https://example.com/mcp")),
            (" http://LOCALHOST:80/mcp#x ", Ok("http://localhost/mcp")),
            ("http://[::1]:8080", Ok("http://[::1]:8080/")),
            (
                "https://example.com/mcp?key=s3cret",
                Ok("https://example.com/mcp?***"),
            ),
            (
                "ftp://example.com",
                Err("ftp: is not supported; use http: or https:"),
            ),
            (
                "example.com/mcp",
                Err("not a URL: relative URL without a base"),
            ),
            (
                "https://u:p@example.com",
                Err("a URL must not hold a user or a password; send them as a header"),
            ),
            ("https://", Err("not a URL: empty host")),
        ];
        for (text, expected) in cases {
            let found = Endpoint::parse(text)
                .map(|endpoint| endpoint.to_string())
                .map_err(|error| error.to_string());
            assert_eq!(
                found.as_ref().map(String::as_str).map_err(String::as_str),
                *expected,
                "{text}"
            );
        }
    }

    #[test]
    fn c133_references_stay_on_their_origin() {
        let base = Endpoint::parse("https://example.com/a/sse").unwrap();
        let cases: &[(&str, Option<&str>)] = &[
            (
                "/messages?sid=1",
                Some("https://example.com/messages?sid=1"),
            ),
            ("messages", Some("https://example.com/a/messages")),
            ("https://example.com:443/m", Some("https://example.com/m")),
            ("?sid=1", Some("https://example.com/a/sse?sid=1")),
            ("http://example.com/m", None),
            ("https://example.com:8443/m", None),
            ("https://other.example/m", None),
            ("//other.example/m", None),
            ("https://u@example.com/m", None),
            ("javascript:alert(1)", None),
        ];
        for (reference, expected) in cases {
            let found = base.resolve(reference).ok();
            assert_eq!(
                found.as_ref().map(Endpoint::as_str),
                *expected,
                "{reference}"
            );
        }
    }

    #[test]
    fn loopback_is_known() {
        let cases = [
            ("http://localhost/", true),
            ("http://a.localhost./", true),
            ("http://127.9.9.9/", true),
            ("http://[::1]/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://localhost.example/", false),
            ("http://10.0.0.1/", false),
        ];
        for (url, expected) in cases {
            assert_eq!(
                Endpoint::parse(url).unwrap().is_loopback(),
                expected,
                "{url}"
            );
        }
    }
}
