//! Why there is no token: at which stage, at which address, what was wrong, and what to do next.
//!
//! No error holds a secret: addresses come without query, answers are cut and freed of what was sent (SEC-12).

use std::fmt;

use crate::evidence::{shown, shown_without};
use crate::fetch_policy::UrlRefusal;
use crate::secret::Secret;

/// A login or a refresh that failed.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct AuthError {
    /// What was being done.
    pub stage: Stage,
    /// The address that it was about, fit to be shown.
    pub url: Option<String>,
    /// What was wrong.
    pub fault: Fault,
    /// What was fetched before, in order, with what came of it (C188).
    pub trail: Vec<Attempt>,
}

impl AuthError {
    /// An error without an address.
    pub fn new(stage: Stage, fault: Fault) -> Self {
        Self {
            stage,
            url: None,
            fault,
            trail: Vec::new(),
        }
    }

    /// With the address that it is about, as [`shown_url`](crate::evidence::shown_url) gives it.
    #[must_use]
    pub fn at(mut self, url: impl Into<String>) -> Self {
        self.url = Some(url.into());
        self
    }
}

impl fmt::Display for AuthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.stage, self.fault)?;
        if let Some(url) = &self.url {
            write!(f, " ({url})")?;
        }
        if matches!(self.fault, Fault::NoMetadata) {
            for (at, attempt) in self.trail.iter().enumerate() {
                f.write_str(if at == 0 { "; tried " } else { ", " })?;
                write!(f, "{attempt}")?;
            }
        }
        match self.fault.advice() {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for AuthError {}

/// One fetch, for people who want to see how an address was found.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Attempt {
    /// The address, fit to be shown.
    pub url: String,
    /// What came of it.
    pub outcome: String,
}

impl Attempt {
    pub(crate) fn new(url: String, outcome: impl Into<String>) -> Self {
        Self {
            url,
            outcome: outcome.into(),
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.url, self.outcome)
    }
}

/// What was being done when it failed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum Stage {
    /// Getting the protected resource metadata.
    ResourceMetadata,
    /// Getting the authorization server's metadata.
    ServerMetadata,
    /// Getting a client id.
    Registration,
    /// Preparing the authorization request, or waiting for its end.
    Authorization,
    /// Reading what the authorization server sent back through the browser.
    Callback,
    /// Getting a token.
    Token,
    /// Refreshing a token.
    Refresh,
    /// Exchanging an identity provider's token.
    IdentityProvider,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ResourceMetadata => "protected resource metadata",
            Self::ServerMetadata => "authorization server metadata",
            Self::Registration => "client registration",
            Self::Authorization => "authorization",
            Self::Callback => "answer of the authorization server",
            Self::Token => "token request",
            Self::Refresh => "token refresh",
            Self::IdentityProvider => "token exchange at the identity provider",
        })
    }
}

/// What was wrong.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// An address that is not asked or opened.
    #[error("the address is refused: {0}")]
    UrlRefused(UrlRefusal),
    /// No connection, or it broke. The words of whoever drives this crate.
    #[error("no answer: {0}")]
    Unreachable(String),
    /// An answer, or a person, took too long.
    #[error("timed out")]
    TimedOut,
    /// The limit of fetches for one login.
    #[error("more than {0} requests for one login")]
    TooManyFetches(u32),
    /// The limit of redirects of one fetch.
    #[error("more than {0} redirects")]
    TooManyRedirects(u32),
    /// A redirect of a request that carries secrets, or one that says not where to.
    #[error("a redirect that is not followed (status {0})")]
    Redirect(u16),
    /// An answer past the limit of bytes.
    #[error("the answer has more than {0} bytes")]
    TooLong(usize),
    /// A status that ends the search.
    #[error("status {status}{}{detail}", if detail.is_empty() { "" } else { ": " })]
    Status {
        /// The status.
        status: u16,
        /// The start of the body, fit to be shown.
        detail: String,
    },
    /// Something that is no JSON object.
    #[error("not a JSON object but {media_type}{}{start}", if start.is_empty() { "" } else { ": " })]
    NotJson {
        /// What the answer calls itself.
        media_type: String,
        /// Its start, if it can hold no secret.
        start: String,
    },
    /// A member that is missing or has the wrong type. Names members, never values (C202).
    #[error("{0}")]
    Malformed(&'static str),
    /// Nothing was found at any address.
    #[error("not found")]
    NoMetadata,
    /// The metadata is about another resource (AUTH-04).
    #[error("it is about the resource `{found}`, not about `{expected}`")]
    ResourceMismatch {
        /// The `resource` that was found.
        found: String,
        /// The endpoint that was asked for.
        expected: String,
    },
    /// The metadata names no authorization server.
    #[error("it names no authorization server")]
    NoAuthorizationServer,
    /// What stands as an issuer can be none.
    #[error("`{0}` can't be an issuer")]
    NotAnIssuer(String),
    /// The metadata is that of another issuer (AUTH-07).
    #[error("the issuer is `{found}`, announced was `{expected}`")]
    IssuerMismatch {
        /// The `issuer` of the document.
        found: String,
        /// The issuer that led to it.
        expected: String,
    },
    /// Code protection is not advertised (AUTH-30).
    #[error("the server does not say that it supports PKCE with S256 (it lists {0})")]
    NoPkce(String),
    /// An endpoint that the chosen way needs.
    #[error("it has no `{0}`")]
    MissingEndpoint(&'static str),
    /// The client's credentials belong to another authorization server (AUTH-24).
    #[error("the client id was registered at `{registered}`, the server now uses `{found}`")]
    RegisteredElsewhere {
        /// Where the credentials belong.
        registered: String,
        /// The authorization server that was found.
        found: String,
    },
    /// No way to get a client id.
    #[error("no client id: the server knows no way to get one that is configured here")]
    NoClient,
    /// The server lists only methods of client authentication that are unknown here.
    #[error("no usable method of client authentication among {0}")]
    ClientAuth(String),
    /// A redirect address that may not be used (AUTH-35).
    #[error("the redirect address must be https, or http on loopback")]
    RedirectUri,
    /// The answer came without `iss`, though the server says that it sends it (AUTH-33).
    #[error("`iss` is missing, though the server says that it sends it")]
    IssMissing,
    /// The answer comes from another issuer (AUTH-33, AUTH-34). Nothing else of it is shown.
    #[error("it comes from another issuer than `{expected}`")]
    IssMismatch {
        /// The issuer that was asked.
        expected: String,
    },
    /// What came back through the browser can't be used.
    #[error("{0}")]
    Callback(&'static str),
    /// The authorization server refused, in its own words.
    #[error("refused: {0}")]
    Refused(OauthError),
    /// A token of a kind that can't be used.
    #[error("tokens of type `{0}` can't be used")]
    TokenType(String),
    /// A signature could not be made.
    #[error("can't sign: {0}")]
    Signing(&'static str),
    /// The way in was configured by the host but something is missing.
    #[error("{0}")]
    Configuration(&'static str),
    /// Nobody can be asked to log in, and nothing else is left.
    #[error("a login is needed")]
    LoginNeeded,
}

impl Fault {
    /// What a person can do about it.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::UrlRefused(UrlRefusal::Reach { .. }) => {
                "allow it with `allow_private_network` if this server is yours"
            }
            Self::Unreachable(_) | Self::TimedOut => "check the network and try again",
            Self::NoMetadata => {
                "check the server's address; an old server may need `legacy_discovery`, or give a token yourself"
            }
            Self::NotJson { .. } => "is there a login page or a proxy in front of it?",
            Self::ResourceMismatch { .. } => {
                "if you know that both are the same server, set `trusted_resource` to the first"
            }
            Self::IssuerMismatch { .. } => {
                "if you know that both are the same issuer, set `trusted_issuer` to the first"
            }
            Self::NoPkce(_) => {
                "without it a code can be stolen; `assume_pkce` overrides this if you know that it is supported"
            }
            Self::RegisteredElsewhere { .. } => "register a client there, and configure its id",
            Self::NoClient => "register a client at the authorization server, and configure its id",
            Self::IssMissing | Self::IssMismatch { .. } => {
                "do not trust this login; start a new one"
            }
            Self::Callback(_) => "start the login again, and paste the whole address",
            Self::LoginNeeded => "log in again",
            Self::Refused(error) => return error.advice(),
            _ => return None,
        })
    }
}

/// An error object of an authorization server, made fit to be shown.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct OauthError {
    /// The code, such as `invalid_grant`.
    pub error: String,
    /// What the server says about it.
    pub description: Option<String>,
    /// The status that it came with; 200 at some servers; 0 if it came through the browser.
    pub status: u16,
}

impl OauthError {
    /// From what stands in an answer. `secrets` are taken out of the description.
    pub fn new(error: &str, description: Option<&str>, status: u16, secrets: &[Secret]) -> Self {
        Self {
            error: shown_without(error, secrets),
            description: description
                .map(|text| shown_without(text, secrets))
                .filter(|text| !text.is_empty()),
            status,
        }
    }

    /// Whether the code is this one.
    pub fn is(&self, code: &str) -> bool {
        self.error == code
    }

    fn advice(&self) -> Option<&'static str> {
        Some(match self.error.as_str() {
            "access_denied" => "the login was declined",
            "invalid_grant" => "log in again",
            "invalid_client" | "unauthorized_client" => "check the client id and its secret",
            "invalid_redirect_uri" => {
                "the server does not take this redirect address; use one that it allows"
            }
            "invalid_scope" => "set the scopes that this server knows",
            "invalid_target" => {
                "the server does not take this `resource`; see `resource_parameter` for overriding it"
            }
            "temporarily_unavailable" | "server_error" => "try again later",
            _ => return None,
        })
    }
}

impl fmt::Display for OauthError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error)?;
        match &self.description {
            Some(description) => write!(f, " ({description})"),
            None => Ok(()),
        }
    }
}

/// The words of a driver's error, which may quote a peer.
pub(crate) fn unreachable(detail: &str) -> Fault {
    Fault::Unreachable(shown(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_stage_address_fault_and_advice() {
        let error = AuthError::new(
            Stage::ServerMetadata,
            Fault::IssuerMismatch {
                found: "https://a/".to_owned(),
                expected: "https://a".to_owned(),
            },
        )
        .at("https://a/.well-known/oauth-authorization-server");
        assert_eq!(
            error.to_string(),
            "authorization server metadata: the issuer is `https://a/`, announced was `https://a` \
             (https://a/.well-known/oauth-authorization-server); if you know that both are the same issuer, set \
             `trusted_issuer` to the first"
        );
    }

    #[test]
    fn c188_what_was_tried_is_listed() {
        let mut error = AuthError::new(Stage::ResourceMetadata, Fault::NoMetadata);
        error.trail = vec![
            Attempt::new("https://h/a".to_owned(), "status 404"),
            Attempt::new("https://h/b".to_owned(), "status 403"),
        ];
        let text = error.to_string();
        assert!(
            text.contains("tried https://h/a (status 404), https://h/b (status 403)"),
            "{text}"
        );
    }

    #[test]
    fn an_oauth_error_quotes_no_secret() {
        let secrets = [Secret::new("CANARY-1234")];
        let error = OauthError::new(
            "invalid_grant",
            Some("token CANARY-1234\r\nis old"),
            400,
            &secrets,
        );
        assert_eq!(error.to_string(), "invalid_grant (token *** is old)");
    }
}
