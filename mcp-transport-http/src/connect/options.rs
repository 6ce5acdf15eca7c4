//! Settings of connections.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::dialer::Dialer;

/// How connections are made and kept. Plain data: change what differs from the defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConnectOptions {
    /// How long making one connection may take: name look-up, TCP, proxy and TLS together. Default 10 s.
    pub connect_timeout: Duration,
    /// How long an unused connection is kept. Default 30 s.
    pub idle_timeout: Duration,
    /// Most unused connections that are kept. Default 16.
    pub max_idle_connections: usize,
    /// Which HTTP is spoken. Default: what the server offers.
    pub http_version: HttpVersion,
    /// What proxy is used. Default: what the environment says.
    pub proxy: ProxyChoice,
    /// How `https` servers are trusted.
    pub tls: TlsOptions,
    /// Makes the connections in place of name look-up, TCP and the proxy. Default: none.
    pub dialer: Option<Dialer>,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(30),
            max_idle_connections: 16,
            http_version: HttpVersion::Auto,
            proxy: ProxyChoice::Environment,
            tls: TlsOptions::default(),
            dialer: None,
        }
    }
}

/// Which HTTP is spoken.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum HttpVersion {
    /// HTTP/2 if a TLS server offers it, else HTTP/1.1.
    #[default]
    Auto,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only, without asking first.
    Http2PriorKnowledge,
}

/// What proxy is used.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum ProxyChoice {
    /// `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY` in either case; never for loopback (C120).
    #[default]
    Environment,
    /// None.
    None,
    /// This one for everything, loopback included: `http://user:password@host:port`.
    Url(String),
}

/// Shows no credentials.
impl fmt::Debug for ProxyChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Environment => "Environment",
            Self::None => "None",
            Self::Url(_) => "Url(***)",
        })
    }
}

/// How `https` servers are trusted, and how this client proves who it is.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TlsOptions {
    /// Whom to trust. Default: the platform's roots if that feature is on, else the bundled ones.
    pub roots: Roots,
    /// Certificates to trust as well, as PEM: the company's own authority (C118).
    pub extra_roots_pem: Vec<Bytes>,
    /// A certificate for this client.
    pub client_identity: Option<ClientIdentity>,
    /// The name that the server's certificate must carry, if not the URL's host.
    pub server_name: Option<String>,
    /// Takes any certificate: anybody on the way can read and change everything, tokens included. Default: no.
    pub danger_accept_any_certificate: bool,
}

/// Whom to trust.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Roots {
    /// The platform's if the feature `platform-roots` is on, else those of `bundled-roots`.
    #[default]
    Default,
    /// Nobody but [`TlsOptions::extra_roots_pem`].
    OnlyExtra,
}

/// A certificate with its key, as PEM.
#[derive(Clone)]
#[expect(clippy::exhaustive_structs, reason = "a certificate and its key")]
pub struct ClientIdentity {
    /// The certificate, then those that lead to its authority.
    pub certificates_pem: Bytes,
    /// The private key.
    pub key_pem: Bytes,
}

/// Shows nothing of the key.
impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientIdentity(***)")
    }
}
