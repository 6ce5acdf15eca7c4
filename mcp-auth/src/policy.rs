//! What is refused by default and may be allowed for one server, each deviation by a name of its own.

use std::time::Duration;

/// Overrides for one MCP server. The default is strict.
///
/// Each field is a deviation that some real server needs. None is set by anything that a server sends.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct AuthPolicy {
    /// An `issuer` that is accepted in metadata though another was announced, byte for byte: for providers whose metadata
    /// differs from the announced issuer by a slash or a host (C190). The document's issuer is then the issuer.
    pub trusted_issuer: Option<String>,
    /// A `resource` that is accepted in the protected resource metadata though it does not identify the endpoint, byte for
    /// byte (AUTH-04).
    pub trusted_resource: Option<String>,
    /// How near a `resource` must come to the endpoint.
    pub resource_rule: ResourceRule,
    /// What is sent as `resource` (C186).
    pub resource_parameter: ResourceParameter,
    /// Search for metadata as 2025-03-26 says when there is no protected resource metadata: at the server's own origin,
    /// and with `/authorize`, `/token` and `/register` there as the last resort (AUTH-08, C201, B15).
    pub legacy_discovery: bool,
    /// Go on without `code_challenge_methods_supported` (AUTH-30). PKCE with S256 is still sent.
    pub assume_pkce: bool,
    /// Ask private, loopback and link-local addresses though the MCP server itself is public (SEC-02).
    pub allow_private_network: bool,
}

/// How near a `resource` must come to the endpoint.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum ResourceRule {
    /// The same origin, and a path that is the endpoint's or a whole-segment prefix of it; a slash at the end does not
    /// matter (C186, C191).
    #[default]
    SameOrParent,
    /// The endpoint's address, byte for byte.
    Identical,
}

/// What is sent as `resource` (AUTH-31).
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum ResourceParameter {
    /// What the metadata says, byte for byte; without metadata the endpoint's canonical address.
    #[default]
    AsAnnounced,
    /// This value.
    Fixed(String),
    /// Nothing, for authorization servers that refuse the parameter.
    Omit,
}

/// Limits of one login.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FlowLimits {
    /// Requests of all kinds, redirects included. Default: 40.
    pub max_fetches: u32,
    /// Redirects of one metadata fetch. Default: 5.
    pub max_redirects: u32,
    /// Bytes of a metadata document. Default: 256 KiB.
    pub max_metadata_bytes: usize,
    /// Bytes of an answer with a token or a registration. Default: 256 KiB, since tokens with many groups are large.
    pub max_token_bytes: usize,
    /// How long one request may take. Default: 30 s.
    pub fetch_timeout: Duration,
    /// How long a person may take to log in. Default: 10 min.
    pub login_timeout: Duration,
}

impl Default for FlowLimits {
    fn default() -> Self {
        Self {
            max_fetches: 40,
            max_redirects: 5,
            max_metadata_bytes: 256 * 1024,
            max_token_bytes: 256 * 1024,
            fetch_timeout: Duration::from_secs(30),
            login_timeout: Duration::from_secs(600),
        }
    }
}
