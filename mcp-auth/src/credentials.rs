//! What a store keeps: tokens by resource, issuer and account; registrations by issuer (AUTH-24, AUTH-44).
//!
//! This crate reads and writes no store. Its values serialise with everything in them, secrets included.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::dpop::DpopProver;
use crate::error::Fault;
use crate::resource_metadata::canonical_resource;
use crate::scope::ScopeSet;
use crate::secret::Secret;
use crate::server_metadata::ClientAuthMethod;
use crate::signing::SigningKey;
use crate::www_authenticate::TokenScheme;

/// Seconds before its end at which a token is renewed: for clocks that differ and requests that take their time.
pub const REFRESH_MARGIN_SECONDS: u64 = 60;

/// Under which name a store keeps tokens.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[non_exhaustive]
pub struct CredentialKey {
    /// The resource that the tokens are for.
    pub resource: String,
    /// The issuer that gave them.
    pub issuer: String,
    /// Which of the user's accounts, if there are several; a name that the host chooses.
    pub account: Option<String>,
}

impl CredentialKey {
    /// A key without an account.
    pub fn new(resource: impl Into<String>, issuer: impl Into<String>) -> Self {
        Self {
            resource: resource.into(),
            issuer: issuer.into(),
            account: None,
        }
    }

    /// A name for files and locks: 64 hexadecimal digits, the same for the same key only.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let account = self.account.as_deref();
        for part in [Some(self.resource.as_str()), Some(&self.issuer), account] {
            // Lengths keep apart what would read the same in a row.
            let length = part.map_or(u64::MAX, |part| part.len() as u64);
            hash.update(length.to_be_bytes());
            hash.update(part.unwrap_or_default());
        }
        hash.finalize()
            .iter()
            .fold(String::new(), |mut text, byte| {
                // Writing to a string does not fail.
                let _ = write!(text, "{byte:02x}");
                text
            })
    }
}

/// Where a client id comes from (AUTH-20).
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RegistrationSource {
    /// The user registered it.
    PreRegistered,
    /// The address of the client's metadata is the id. The same everywhere, so never tied to an issuer.
    MetadataDocument,
    /// The authorization server gave it (RFC 7591).
    Dynamic,
}

/// A client at an authorization server.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Registration {
    /// Where the id comes from.
    pub source: RegistrationSource,
    /// The issuer that it belongs to. A pre-registered one without an issuer is tied to the first one that it is used at.
    pub issuer: Option<String>,
    /// The id.
    pub client_id: String,
    /// The secret, if it has one.
    #[serde(default)]
    pub client_secret: Option<Secret>,
    /// When the secret ends, in seconds since 1970.
    #[serde(default)]
    pub secret_expires_at: Option<u64>,
    /// How it authenticates; `None` leaves the choice to the server's metadata.
    #[serde(default)]
    pub auth_method: Option<ClientAuthMethod>,
    /// The redirect addresses that were registered; empty if unknown.
    #[serde(default)]
    pub redirect_uris: Vec<String>,
}

impl Registration {
    /// A client that the user registered.
    pub fn pre_registered(client_id: impl Into<String>) -> Self {
        Self::new(RegistrationSource::PreRegistered, None, client_id)
    }

    pub(crate) fn new(
        source: RegistrationSource,
        issuer: Option<String>,
        client_id: impl Into<String>,
    ) -> Self {
        Self {
            source,
            issuer,
            client_id: client_id.into(),
            client_secret: None,
            secret_expires_at: None,
            auth_method: None,
            redirect_uris: Vec::new(),
        }
    }

    /// Whether it may be shown to this issuer (AUTH-24).
    pub fn is_for(&self, issuer: &str) -> bool {
        match self.source {
            RegistrationSource::MetadataDocument => true,
            RegistrationSource::PreRegistered => {
                self.issuer.as_deref().is_none_or(|own| own == issuer)
            }
            RegistrationSource::Dynamic => self.issuer.as_deref() == Some(issuer),
        }
    }

    /// Whether it can still be used, and with this redirect address.
    pub fn is_usable(&self, redirect_uri: &str, now: u64) -> bool {
        let listed = self.redirect_uris.is_empty()
            || self.redirect_uris.iter().any(|uri| uri == redirect_uri);
        listed && self.secret_expires_at.is_none_or(|end| now < end)
    }
}

/// Tokens, and all that is needed to use and to renew them.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TokenSet {
    /// The canonical address of the server that they were obtained for (AUTH-43).
    pub endpoint: String,
    /// The resource as the authorization server was told.
    pub resource: String,
    /// The issuer.
    pub issuer: String,
    /// Where they are renewed.
    pub token_endpoint: String,
    /// The client that they were given to.
    pub client_id: String,
    /// The token.
    pub access_token: Secret,
    /// How it is sent.
    #[serde(default)]
    pub scheme: TokenScheme,
    /// When it was given, in seconds since 1970.
    pub obtained_at: u64,
    /// When it ends, in seconds since 1970; `None` if nobody knows: then it is used until it is refused (C184).
    pub expires_at: Option<u64>,
    /// The token that renews it.
    pub refresh_token: Option<Secret>,
    /// The scopes that were asked for, over all step-ups (AUTH-50).
    #[serde(default)]
    pub requested_scope: ScopeSet,
    /// The scopes that were granted, if the server says so.
    #[serde(default)]
    pub granted_scope: Option<ScopeSet>,
    /// The key that they are bound to, as [`SigningKey::generate`](crate::signing::SigningKey::generate) gave it.
    #[serde(default)]
    pub dpop_key: Option<Secret>,
}

impl TokenSet {
    /// Under which name a store keeps it.
    pub fn key(&self, account: Option<String>) -> CredentialKey {
        CredentialKey {
            resource: self.resource.clone(),
            issuer: self.issuer.clone(),
            account,
        }
    }

    /// Whether it may be sent to the server at `endpoint`: only to the one that it was obtained for (AUTH-43).
    pub fn is_for(&self, endpoint: &Url) -> bool {
        self.endpoint == canonical_resource(endpoint)
    }

    /// The value of the `Authorization` field.
    pub fn authorization(&self) -> Secret {
        Secret::new(format!(
            "{} {}",
            self.scheme.as_str(),
            self.access_token.reveal()
        ))
    }

    /// What makes the proofs that go with it, for a token that is bound to a key.
    ///
    /// # Errors
    ///
    /// [`Fault::Signing`] if the stored key can't be read.
    pub fn prover(&self) -> Result<Option<DpopProver>, Fault> {
        let key = self
            .dpop_key
            .as_ref()
            .filter(|_| self.scheme == TokenScheme::Dpop);
        key.map(|key| SigningKey::from_pkcs8(key).and_then(DpopProver::new))
            .transpose()
    }

    /// Whether it should be renewed before it is used again. A token that lives for less than twice the margin is used for
    /// half of it at least, so that it is not renewed before every request.
    pub fn is_due(&self, now: u64) -> bool {
        let Some(end) = self.expires_at else {
            return false;
        };
        let margin = REFRESH_MARGIN_SECONDS.min(end.saturating_sub(self.obtained_at) / 2);
        now >= end.saturating_sub(margin)
    }

    /// Whether it ended.
    pub fn is_expired(&self, now: u64) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn tokens() -> TokenSet {
        TokenSet {
            endpoint: "https://h.example/mcp".to_owned(),
            resource: "https://h.example/mcp".to_owned(),
            issuer: "https://as.example".to_owned(),
            token_endpoint: "https://as.example/token".to_owned(),
            client_id: "me".to_owned(),
            access_token: Secret::new("CANARY-access"),
            scheme: TokenScheme::Bearer,
            obtained_at: 0,
            expires_at: Some(1000),
            refresh_token: Some(Secret::new("CANARY-refresh")),
            requested_scope: ScopeSet::parse("a b"),
            granted_scope: None,
            dpop_key: None,
        }
    }

    #[test]
    fn auth_44_a_store_gets_everything_and_debug_nothing() {
        let tokens = tokens();
        let json = serde_json::to_string(&tokens).unwrap();
        assert!(json.contains("CANARY-refresh"));
        assert_eq!(serde_json::from_str::<TokenSet>(&json).unwrap(), tokens);
        assert!(!format!("{tokens:?}").contains("CANARY"));
    }

    #[test]
    fn auth_44_keys_do_not_run_into_each_other() {
        let mut keys = vec![
            CredentialKey::new("ab", "c"),
            CredentialKey::new("a", "bc"),
            CredentialKey::new("abc", ""),
        ];
        let mut named = CredentialKey::new("ab", "c");
        named.account = Some(String::new());
        keys.push(named);
        let mut digests: Vec<_> = keys.iter().map(CredentialKey::digest).collect();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), keys.len());
        assert!(digests.iter().all(|digest| digest.len() == 64));
    }

    #[test]
    fn auth_43_a_token_goes_to_one_server_only() {
        for (endpoint, expected) in [
            ("https://h.example/mcp", true),
            ("https://h.example/mcp/", true),
            ("https://h.example/other", false),
            ("https://h.example/", false),
            ("http://h.example/mcp", false),
            ("https://evil.example/mcp", false),
        ] {
            assert_eq!(
                tokens().is_for(&Url::parse(endpoint).unwrap()),
                expected,
                "{endpoint}"
            );
        }
    }

    #[test]
    fn auth_24_a_registration_is_shown_to_its_issuer_only() {
        let at = |source, issuer: Option<&str>| {
            Registration::new(source, issuer.map(str::to_owned), "me")
        };
        for (registration, expected) in [
            (at(RegistrationSource::Dynamic, Some("https://a")), true),
            (at(RegistrationSource::Dynamic, Some("https://a/")), false),
            (at(RegistrationSource::Dynamic, None), false),
            (at(RegistrationSource::PreRegistered, None), true),
            (
                at(RegistrationSource::PreRegistered, Some("https://b")),
                false,
            ),
            (at(RegistrationSource::MetadataDocument, None), true),
        ] {
            assert_eq!(
                registration.is_for("https://a"),
                expected,
                "{registration:?}"
            );
        }
    }

    #[test]
    fn a_bound_token_brings_its_key() {
        let mut tokens = tokens();
        assert!(tokens.prover().unwrap().is_none());
        tokens.scheme = TokenScheme::Dpop;
        tokens.dpop_key = Some(SigningKey::generate().unwrap());
        assert!(tokens.prover().unwrap().is_some());
        tokens.dpop_key = Some(Secret::new("broken"));
        assert!(tokens.prover().is_err());
    }

    #[test]
    fn c184_a_token_is_due_shortly_before_its_end() {
        let mut tokens = tokens();
        for (obtained_at, now, expected) in [
            (0, 939, false),
            (0, 940, true),
            // It lives for 30 seconds in all.
            (970, 984, false),
            (970, 985, true),
        ] {
            tokens.obtained_at = obtained_at;
            assert_eq!(tokens.is_due(now), expected, "{obtained_at} {now}");
        }
        assert!(!tokens.is_expired(999) && tokens.is_expired(1000));
        tokens.expires_at = None;
        assert!(!tokens.is_due(u64::MAX) && !tokens.is_expired(u64::MAX));
    }
}
