//! A server to be reached: its URL and how to talk to it.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::connect::ConnectOptions;
use crate::endpoint::{Endpoint, EndpointError};
use crate::headers::{HeaderError, HeaderProvider, checked};
use crate::limits::HttpLimits;

/// A server and how to talk to it. The public fields are plain data: change what differs from the defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpServer {
    pub(crate) endpoint: Endpoint,
    pub(crate) headers: HeaderMap,
    pub(crate) provider: Option<HeaderProvider>,
    /// Which transport is spoken. Default: found out.
    pub transport: HttpTransport,
    /// Whether a legacy server gets a stream for its own messages. Default: yes, in the background (C045).
    pub server_stream: bool,
    /// How connections are made.
    pub connect: ConnectOptions,
    /// Sizes and times.
    pub limits: HttpLimits,
}

/// Which transport is spoken.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum HttpTransport {
    /// Streamable HTTP; HTTP+SSE where that is refused as the rules say.
    #[default]
    Auto,
    /// Streamable HTTP only.
    Streamable,
    /// HTTP+SSE, the transport of 2024-11-05, only.
    OldSse,
}

impl HttpServer {
    /// A server at this URL.
    ///
    /// # Errors
    /// When it is no `http` or `https` URL, or holds a user or a password.
    pub fn new(url: &str) -> Result<Self, EndpointError> {
        Ok(Self {
            endpoint: Endpoint::parse(url)?,
            headers: HeaderMap::new(),
            provider: None,
            transport: HttpTransport::Auto,
            server_stream: true,
            connect: ConnectOptions::default(),
            limits: HttpLimits::default(),
        })
    }

    /// Sends a header with every request to this server, and to no other. Several of one name are all sent.
    ///
    /// # Errors
    /// When the name is none, or is set by the protocol, or the value can't be a header's.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, HeaderError> {
        let (name, value) = checked(name, value)?;
        self.headers.append(name, value);
        Ok(self)
    }

    /// Asks for headers before each request; they replace fixed ones of the same name.
    #[must_use]
    pub fn header_provider(mut self, provider: HeaderProvider) -> Self {
        self.provider = Some(provider);
        self
    }

    /// Sets which transport is spoken.
    #[must_use]
    pub fn transport(mut self, transport: HttpTransport) -> Self {
        self.transport = transport;
        self
    }

    /// Where it is.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The values that must not be shown: those of the fixed headers, and of the URL's query.
    pub fn secrets(&self) -> Vec<String> {
        let headers = self
            .headers
            .values()
            .filter_map(|value| value.to_str().ok());
        let query = url::Url::parse(self.endpoint.as_str())
            .map(|url| {
                url.query_pairs()
                    .map(|(_, value)| value.into_owned())
                    .collect::<Vec<_>>()
            })
            .unwrap_or_default();
        headers.flat_map(with_token).chain(query).collect()
    }

    /// The headers of every request, with those of the host.
    pub(crate) fn base_headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let own =
            HeaderValue::from_static(concat!("mcp-transport-http/", env!("CARGO_PKG_VERSION")));
        headers.insert(http::header::USER_AGENT, own);
        headers.insert(
            http::header::ACCEPT_ENCODING,
            HeaderValue::from_static("gzip"),
        );
        let mut last: Option<HeaderName> = None;
        for (name, value) in self.headers.clone() {
            match name {
                Some(name) => {
                    headers.insert(name.clone(), value);
                    last = Some(name);
                }
                None => {
                    if let Some(name) = last.clone() {
                        headers.append(name, value);
                    }
                }
            }
        }
        headers
    }
}

/// The value of a header, and the token in it: `Bearer s3cret`, `s3cret`.
pub(crate) fn with_token(value: &str) -> [String; 2] {
    let token = value.split_once(' ').map_or(value, |(_, token)| token);
    [value.to_owned(), token.to_owned()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_known_and_not_shown() {
        let server = HttpServer::new("https://example.com/mcp?key=s3cret-key")
            .unwrap()
            .header("Authorization", "Bearer s3cret-token")
            .unwrap()
            .header("X-A", "1")
            .unwrap()
            .header("X-A", "2")
            .unwrap();
        let shown = format!("{server:?}");
        assert!(!shown.contains("s3cret"), "{shown}");
        let secrets = server.secrets();
        for secret in ["s3cret-token", "Bearer s3cret-token", "s3cret-key"] {
            assert!(secrets.iter().any(|known| known == secret), "{secret}");
        }
        let headers = server.base_headers();
        assert_eq!(headers.get_all("x-a").iter().count(), 2);
    }

    #[test]
    fn c106_a_host_can_name_itself() {
        let server = HttpServer::new("https://example.com/mcp")
            .unwrap()
            .header("User-Agent", "harbor/1")
            .unwrap();
        assert_eq!(
            server.base_headers().get_all("user-agent").iter().count(),
            1
        );
        assert_eq!(server.base_headers()["user-agent"], "harbor/1");
    }
}
