//! What a flow asks for, and how it ends.

use std::fmt;

use url::Url;

use crate::credentials::{CredentialKey, Registration, TokenSet};
use crate::error::{AuthError, Fault};
use crate::http::HttpRequest;

/// What the driver is to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Output {
    /// Send this, and hand the answer to [`handle_response`](super::AuthFlow::handle_response).
    Fetch(Box<HttpRequest>),
    /// Have a person open this, and hand what comes back to [`handle_callback`](super::AuthFlow::handle_callback).
    OpenBrowser(Box<BrowserLogin>),
    /// Ask a person for a client id, and hand it to [`handle_client`](super::AuthFlow::handle_client).
    NeedClientId {
        /// Where the client must be registered.
        issuer: String,
        /// Why the client could not register itself, if it tried.
        refused: Option<Fault>,
    },
    /// A refresh token was refused: another process may have used it. Read the store again, under its lock, and hand what
    /// is there to [`handle_stored`](super::AuthFlow::handle_stored). Delete nothing before (C181).
    ReloadTokens(CredentialKey),
    /// Keep this registration, also if the login fails later: the server keeps it too.
    SaveRegistration(Box<Registration>),
    /// The end: tokens. Replace the old ones in one step (AUTH-44).
    Done(Box<Authorized>),
    /// The end: why there are none.
    Failed(Box<AuthError>),
    /// Nothing to do until an input comes, or until this time, in seconds since 1970.
    Wait {
        /// When to call [`handle_timeout`](super::AuthFlow::handle_timeout).
        deadline: Option<u64>,
    },
}

/// A login that a person does in a browser.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub struct BrowserLogin {
    /// What to open: without a shell (AUTH-36), or shown to be copied (C200). Its query ties the answer to this flow; show
    /// it to the user and nobody else.
    pub url: Url,
    /// Where the answer comes to.
    pub redirect_uri: String,
    /// Whom the person logs in to: show its host (C229).
    pub issuer: String,
    /// When the flow stops waiting, in seconds since 1970.
    pub expires_at: u64,
}

/// The query holds the `state`.
impl fmt::Debug for BrowserLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserLogin")
            .field("url", &crate::evidence::shown_url(&self.url))
            .field("redirect_uri", &self.redirect_uri)
            .field("issuer", &self.issuer)
            .field("expires_at", &self.expires_at)
            .finish()
    }
}

/// Tokens, and what was used to get them.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Authorized {
    /// The tokens.
    pub tokens: TokenSet,
    /// The client that they were given to, with its issuer and with the way of authenticating that worked; to be kept. None
    /// for tokens that another process put into the store.
    pub registration: Option<Registration>,
    /// Whether they come from a refresh, or from the store, and nobody logged in.
    pub refreshed: bool,
    /// The overrides that mattered; worth a log line each.
    pub overrides: Vec<Override>,
}

/// A deviation that was let pass because the host allowed it for this server.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Override {
    /// `trusted_issuer`.
    TrustedIssuer,
    /// `trusted_resource`.
    TrustedResource,
    /// `resource_parameter`.
    ResourceParameter,
    /// `legacy_discovery`: the server's own origin was taken for the authorization server.
    LegacyDiscovery,
    /// `legacy_discovery`: without any metadata.
    LegacyEndpoints,
    /// `assume_pkce`.
    AssumedPkce,
}

impl fmt::Display for Override {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TrustedIssuer => {
                "`trusted_issuer`: the metadata names another issuer than was announced"
            }
            Self::TrustedResource => "`trusted_resource`: the metadata is about another address",
            Self::ResourceParameter => "`resource_parameter`: `resource` is not sent as announced",
            Self::LegacyDiscovery => {
                "`legacy_discovery`: the server's own origin is its authorization server"
            }
            Self::LegacyEndpoints => "`legacy_discovery`: no metadata, default addresses",
            Self::AssumedPkce => {
                "`assume_pkce`: the server does not say that it supports PKCE with S256"
            }
        })
    }
}

/// Whether a callback was about this flow.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CallbackVerdict {
    /// It was, and is used up: say so in the browser.
    Taken,
    /// It was not: answer with an error, and go on waiting (AUTH-32).
    NotOurs,
}
