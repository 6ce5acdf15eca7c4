//! What a flow is told before it begins.

use std::net::IpAddr;

use url::Url;

use crate::credentials::{Registration, TokenSet};
use crate::policy::{AuthPolicy, FlowLimits};
use crate::registration::ClientIdentity;
use crate::scope::ScopeSet;
use crate::secret::Secret;
use crate::signing::SigningKey;
use crate::token::Client;
use crate::www_authenticate::TokenChallenge;

/// How one MCP server is logged in to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FlowConfig {
    /// The server's address.
    pub endpoint: Url,
    /// What its name resolved to, if that is known.
    pub server_addresses: Vec<IpAddr>,
    /// Who the client is.
    pub identity: ClientIdentity,
    /// The key that the client authenticates with, and the `kid` that servers know it by.
    pub client_key: Option<(SigningKey, Option<String>)>,
    /// The way to a token.
    pub way: Way,
    /// Whether a person can be asked. If not, a login ends with [`Fault::LoginNeeded`](crate::error::Fault::LoginNeeded).
    pub interactive: bool,
    /// The scopes to ask for, whatever the server says.
    pub scope: Option<ScopeSet>,
    /// Whether a refresh token is wanted. Default: yes.
    pub wants_refresh: bool,
    /// A key for DPoP, as [`SigningKey::generate`] gives it. It is used where the server or its authorization server speaks
    /// of DPoP. Default: none.
    pub dpop_key: Option<Secret>,
    /// What is overridden for this server.
    pub policy: AuthPolicy,
    /// Limits.
    pub limits: FlowLimits,
}

impl FlowConfig {
    /// For a person who logs in, strict.
    pub fn new(endpoint: Url, identity: ClientIdentity) -> Self {
        Self {
            endpoint,
            server_addresses: Vec::new(),
            identity,
            client_key: None,
            way: Way::default(),
            interactive: true,
            scope: None,
            wants_refresh: true,
            dpop_key: None,
            policy: AuthPolicy::default(),
            limits: FlowLimits::default(),
        }
    }
}

/// The way to a token. All but the first are extensions that a host switches on by choosing them (AUTH-62).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Way {
    /// A person logs in with a browser.
    #[default]
    Browser,
    /// The client is known by itself: `io.modelcontextprotocol/oauth-client-credentials` (AUTH-60).
    ClientCredentials,
    /// A company's identity provider vouches for the user: `io.modelcontextprotocol/enterprise-managed-authorization`
    /// (AUTH-61).
    Enterprise(Box<EnterpriseLogin>),
    /// A platform vouches for the workload (RFC 7523). A refusal ends the flow; no other way is tried.
    WorkloadIdentity {
        /// The platform's signed statement.
        assertion: Secret,
    },
}

/// What is needed to be vouched for by an identity provider.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EnterpriseLogin {
    /// The identity provider's token endpoint. The user's word, so it may be anywhere in the network.
    pub token_endpoint: String,
    /// The issuer there.
    pub issuer: String,
    /// The client there.
    pub client: Client,
    /// The token that says who the user is.
    pub subject_token: Secret,
    /// Its type. Default: an ID token.
    pub subject_token_type: String,
}

impl EnterpriseLogin {
    /// With an ID token.
    pub fn new(
        token_endpoint: impl Into<String>,
        issuer: impl Into<String>,
        client: Client,
        id_token: Secret,
    ) -> Self {
        Self {
            token_endpoint: token_endpoint.into(),
            issuer: issuer.into(),
            client,
            subject_token: id_token,
            subject_token_type: crate::token::ID_TOKEN.to_owned(),
        }
    }
}

/// Why a token is wanted, and what is there already.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Start {
    /// Why.
    pub reason: Reason,
    /// What the server asked for.
    pub challenge: Option<TokenChallenge>,
    /// The tokens of the store for this server. Read them under the lock that guards their refresh (C181).
    pub tokens: Option<TokenSet>,
    /// All registrations of the store.
    pub registrations: Vec<Registration>,
}

impl Start {
    /// With nothing there.
    pub fn new(reason: Reason) -> Self {
        Self {
            reason,
            ..Self::default()
        }
    }
}

/// Why a token is wanted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// A person wants to log in.
    #[default]
    Login,
    /// The server said 401. The resource metadata is read again, since it may name another authorization server now
    /// (AUTH-24); a refresh comes before a login (AUTH-45).
    Unauthorized,
    /// The token is about to end: it is renewed where it came from, without asking anybody else.
    Expired,
    /// The server said 403, and [`StepUp`](crate::scope::StepUp) says to ask for these scopes. Always a login, since a
    /// refresh can't add any.
    StepUp(ScopeSet),
}
