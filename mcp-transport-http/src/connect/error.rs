//! Why a request was not answered, and why connections can't be set up.

use std::time::Duration;

use thiserror::Error;

/// Why a request got no answer. The variants are the stages of a connection, in the order they are reached.
///
/// No text holds a secret: neither credentials of proxies nor queries of URLs nor values of headers.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum SendError {
    /// The name of the host has no address.
    #[error("the name {host} could not be looked up: {reason}")]
    #[non_exhaustive]
    Resolve {
        /// The name.
        host: String,
        /// What the look-up said.
        reason: String,
    },
    /// Nothing accepted the connection.
    #[error("could not connect to {server}: {reason}")]
    #[non_exhaustive]
    Tcp {
        /// Host and port.
        server: String,
        /// What went wrong.
        reason: String,
    },
    /// The proxy could not be reached, or refused to connect to the server.
    #[error("the proxy {proxy} ({setting}) {reason}")]
    #[non_exhaustive]
    Proxy {
        /// Host and port of the proxy.
        proxy: String,
        /// Where it was set: the name of a variable or of an option.
        setting: String,
        /// The status it refused with.
        status: Option<u16>,
        /// What went wrong.
        reason: String,
    },
    /// No encrypted connection came about, or the server ended it for a reason of TLS.
    #[error("no TLS with {server}: {reason}")]
    #[non_exhaustive]
    Tls {
        /// Host and port.
        server: String,
        /// What went wrong, and what can be done.
        reason: String,
        /// Whether part of the request may have reached the server.
        sent: bool,
    },
    /// The connection took too long.
    #[error("no connection to {server} within {timeout:?}; it was still {during}")]
    #[non_exhaustive]
    ConnectTimeout {
        /// Host and port.
        server: String,
        /// The time it had.
        timeout: Duration,
        /// What it was doing when the time was over.
        during: String,
    },
    /// The connection was there, but the exchange on it failed.
    #[error("no answer from {server}: {reason}")]
    #[non_exhaustive]
    Http {
        /// Host and port.
        server: String,
        /// What went wrong.
        reason: String,
        /// Whether the server may have processed the request.
        sent: bool,
    },
}

impl SendError {
    /// Whether the server may have seen the request, even in part. `false` only if it certainly did nothing with it:
    /// then the request can be repeated without doing something twice.
    pub fn was_sent(&self) -> bool {
        match self {
            Self::Tls { sent, .. } | Self::Http { sent, .. } => *sent,
            Self::Resolve { .. }
            | Self::Tcp { .. }
            | Self::Proxy { .. }
            | Self::ConnectTimeout { .. } => false,
        }
    }
}

/// Which setting of connections can't be used, and what was expected.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum SetupError {
    /// The certificate for this client.
    #[error("client_identity: {reason}")]
    #[non_exhaustive]
    ClientIdentity {
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// The URL's host can't be connected to.
    #[error("the URL's host can't be used: {reason}")]
    #[non_exhaustive]
    Endpoint {
        /// What is wrong.
        reason: String,
    },
    /// A certificate to trust.
    #[error("extra_roots_pem[{index}]: {reason}")]
    #[non_exhaustive]
    ExtraRoots {
        /// Which of them, from 0.
        index: usize,
        /// What is wrong, and what was expected.
        reason: String,
    },
    /// `https` in a build that has no cryptography.
    #[error(
        "https needs the feature `ring` or `aws-lc-rs` of mcp-transport-http; this build has neither"
    )]
    NoCrypto,
    /// Nobody would be trusted.
    #[error(
        "https has no certificates to trust: {reason}; add some to extra_roots_pem, or build with the feature \
         `platform-roots` or `bundled-roots`"
    )]
    #[non_exhaustive]
    NoRoots {
        /// Why there are none.
        reason: String,
    },
    /// The proxy.
    #[error("{setting}: {reason}")]
    #[non_exhaustive]
    Proxy {
        /// The name of the variable or of the option.
        setting: String,
        /// What is wrong, and what was expected. Shows nothing of the value but its scheme.
        reason: String,
    },
    /// The name that the server's certificate must carry.
    #[error("server_name: `{name}` is neither a host's name nor an address")]
    #[non_exhaustive]
    ServerName {
        /// The name.
        name: String,
    },
    /// TLS can't be set up for another reason.
    #[error("TLS can't be set up: {reason}")]
    #[non_exhaustive]
    Tls {
        /// What is wrong.
        reason: String,
    },
}
