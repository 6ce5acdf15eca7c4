//! HTTP as values: what the driver is to send, and what it saw.

use std::fmt;
use std::time::Duration;

use url::Url;

use crate::secret::Secret;

/// A request that the driver is to send, exactly once, without cookies, without credentials of its own, and without
/// following redirects: each hop comes back as a response (SEC-02, SEC-03).
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct HttpRequest {
    /// The method.
    pub method: HttpMethod,
    /// Where to. Its scheme and literal address were judged. Judge what its name resolves to with
    /// [`FetchPolicy::judge_addresses`](crate::fetch_policy::FetchPolicy::judge_addresses), and connect to what was
    /// judged.
    pub url: Url,
    /// Header fields. Those that hold credentials are secrets, so all are.
    pub headers: Vec<(&'static str, Secret)>,
    /// The body, for POST. It holds codes, tokens and secrets.
    pub body: Option<Secret>,
    /// What the request is for.
    pub kind: FetchKind,
    /// Bytes of the body of the response that are enough. Stop reading one byte later, and hand over what is there.
    pub max_body_bytes: usize,
    /// How long to wait for the whole response.
    pub timeout: Duration,
}

impl HttpRequest {
    /// A GET for a JSON document.
    pub(crate) fn get(url: Url, kind: FetchKind) -> Self {
        Self {
            method: HttpMethod::Get,
            url,
            headers: vec![("accept", Secret::new("application/json"))],
            body: None,
            kind,
            max_body_bytes: 0,
            timeout: Duration::ZERO,
        }
    }

    /// A POST that wants JSON back (C203).
    pub(crate) fn post(url: Url, kind: FetchKind, content_type: &str, body: String) -> Self {
        Self {
            method: HttpMethod::Post,
            url,
            headers: vec![
                ("accept", Secret::new("application/json")),
                ("content-type", Secret::new(content_type)),
            ],
            body: Some(Secret::new(body)),
            kind,
            max_body_bytes: 0,
            timeout: Duration::ZERO,
        }
    }

    /// The value of a field of this request.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.reveal())
    }
}

/// The methods that OAuth needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "OAuth needs no others")]
pub enum HttpMethod {
    /// GET.
    Get,
    /// POST.
    Post,
}

impl HttpMethod {
    /// As it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// What a request is for.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum FetchKind {
    /// Protected resource metadata (RFC 9728).
    ResourceMetadata,
    /// Authorization server metadata (RFC 8414, OpenID Connect Discovery).
    ServerMetadata,
    /// Dynamic client registration (RFC 7591).
    Registration,
    /// A token request at the authorization server.
    Token,
    /// A token exchange at an identity provider (RFC 8693).
    IdentityProvider,
}

impl fmt::Display for FetchKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ResourceMetadata => "protected resource metadata",
            Self::ServerMetadata => "authorization server metadata",
            Self::Registration => "client registration",
            Self::Token => "token request",
            Self::IdentityProvider => "token exchange at the identity provider",
        })
    }
}

/// What came back.
#[derive(Clone, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct HttpResponse {
    /// The status.
    pub status: u16,
    /// Header fields, in the order they came; several of one name are several entries.
    pub headers: Vec<(String, String)>,
    /// The body, or its start.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// A response without header fields.
    pub fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
        }
    }

    /// With one more field.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// The first field of a name, in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// All fields of a name, in any case.
    pub fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        self.headers
            .iter()
            .filter(move |(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The media type without parameters, in lower case; empty if none is given.
    pub(crate) fn media_type(&self) -> String {
        self.header("content-type")
            .and_then(|value| value.split(';').next())
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase()
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The address of a redirect, as it stands in the answer. 304 and 300 are none.
    pub(crate) fn redirect(&self) -> Option<&str> {
        matches!(self.status, 301 | 302 | 303 | 307 | 308)
            .then(|| self.header("location").unwrap_or_default())
    }
}

/// Bodies and fields hold tokens.
impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpResponse")
            .field("status", &self.status)
            .field("headers", &self.headers.len())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c222_debug_shows_no_field_and_no_body() {
        let url = Url::parse("https://as.example/token").unwrap();
        let mut request =
            HttpRequest::post(url, FetchKind::Token, "text/plain", "code=CANARY".into());
        request
            .headers
            .push(("authorization", Secret::new("Basic CANARY")));
        let response = HttpResponse::new(200, "CANARY").with_header("set-cookie", "CANARY");
        let shown = format!("{request:?} {response:?}");
        assert!(!shown.contains("CANARY"), "{shown}");
        assert_eq!(request.header("Authorization"), Some("Basic CANARY"));
        assert_eq!(response.header("Set-Cookie"), Some("CANARY"));
    }

    #[test]
    fn only_five_statuses_are_redirects() {
        for status in 200..400 {
            let response = HttpResponse::new(status, "").with_header("Location", "/a");
            let expected = [301, 302, 303, 307, 308].contains(&status).then_some("/a");
            assert_eq!(response.redirect(), expected, "{status}");
        }
    }
}
