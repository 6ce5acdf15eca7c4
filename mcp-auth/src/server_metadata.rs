//! Authorization server metadata (RFC 8414, OpenID Connect Discovery): where it is, whose it is, what it offers
//! (AUTH-06 to AUTH-08, AUTH-30).

use serde::{Deserialize, Serialize};
use url::Url;

use crate::document::Document;
use crate::error::Fault;
use crate::evidence::{shown, shown_address};
use crate::policy::AuthPolicy;
use crate::scope::ScopeSet;

const OAUTH: &str = "/.well-known/oauth-authorization-server";
const OPENID: &str = "/.well-known/openid-configuration";

/// What an authorization server says about itself. Addresses are as they stand in the document; they are judged before
/// they are used.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ServerMetadata {
    /// The issuer, byte for byte.
    pub issuer: String,
    /// Where a person logs in.
    pub authorization_endpoint: Option<String>,
    /// Where tokens are.
    pub token_endpoint: Option<String>,
    /// Where clients register themselves.
    pub registration_endpoint: Option<String>,
    /// Scopes that the server lists.
    pub scopes_supported: Option<ScopeSet>,
    /// PKCE methods; `None` if the server says nothing about them.
    pub code_challenge_methods_supported: Option<Vec<String>>,
    /// Methods of client authentication at the token endpoint; `None` if the server says nothing about them.
    pub token_endpoint_auth_methods_supported: Option<Vec<String>>,
    /// Grant types; `None` if the server says nothing about them.
    pub grant_types_supported: Option<Vec<String>>,
    /// Algorithms for DPoP proofs; `None` if the server says nothing about DPoP.
    pub dpop_signing_alg_values_supported: Option<Vec<String>>,
    /// Whether `iss` comes back with every authorization response (RFC 9207).
    pub authorization_response_iss_parameter_supported: bool,
    /// Whether an address of a client's metadata may be its id.
    pub client_id_metadata_document_supported: bool,
}

/// Where the metadata of an issuer is looked for, in order (AUTH-06).
///
/// # Errors
///
/// [`Fault::NotAnIssuer`] for an issuer with query, fragment, user or another scheme (RFC 8414 2).
pub fn candidates(issuer: &str) -> Result<Vec<String>, Fault> {
    let refused = || Fault::NotAnIssuer(shown_address(issuer));
    let url = Url::parse(issuer).map_err(|_| refused())?;
    let odd = url.query().is_some() || url.fragment().is_some() || !url.username().is_empty();
    if odd || !url.has_host() || !matches!(url.scheme(), "http" | "https") {
        return Err(refused());
    }
    let origin = url.origin().ascii_serialization();
    let path = url.path().trim_end_matches('/');
    let mut found = vec![
        format!("{origin}{OAUTH}{path}"),
        format!("{origin}{OPENID}{path}"),
    ];
    if !path.is_empty() {
        found.push(format!("{origin}{path}{OPENID}"));
    }
    Ok(found)
}

/// The issuer of an old server: its own origin (AUTH-08).
pub fn legacy_issuer(endpoint: &Url) -> String {
    endpoint.origin().ascii_serialization()
}

/// Where an old server's metadata is (AUTH-08).
pub fn legacy_candidate(endpoint: &Url) -> String {
    format!("{}{OAUTH}", legacy_issuer(endpoint))
}

impl ServerMetadata {
    /// What is taken for granted of an old server without any metadata (AUTH-08). It can't say whether it supports PKCE, so
    /// this is reached by an explicit choice only (B15).
    pub fn legacy_defaults(endpoint: &Url) -> Self {
        let issuer = legacy_issuer(endpoint);
        Self {
            authorization_endpoint: Some(format!("{issuer}/authorize")),
            token_endpoint: Some(format!("{issuer}/token")),
            registration_endpoint: Some(format!("{issuer}/register")),
            code_challenge_methods_supported: Some(vec!["S256".to_owned()]),
            issuer,
            ..Self::default()
        }
    }

    /// Reads a document that the issuer `expected` led to. Compares as strings: no case, no slash, no port is smoothed out
    /// (AUTH-07, C190).
    pub(crate) fn read(
        document: &Document,
        expected: &str,
        policy: &AuthPolicy,
    ) -> Result<Self, Fault> {
        let issuer = document
            .text("issuer")
            .ok_or(Fault::Malformed("`issuer` is missing"))?;
        if issuer != expected && policy.trusted_issuer.as_deref() != Some(issuer) {
            return Err(Fault::IssuerMismatch {
                found: shown(issuer),
                expected: shown(expected),
            });
        }
        let text = |name| document.text(name).map(str::to_owned);
        Ok(Self {
            issuer: issuer.to_owned(),
            authorization_endpoint: text("authorization_endpoint"),
            token_endpoint: text("token_endpoint"),
            registration_endpoint: text("registration_endpoint"),
            scopes_supported: document
                .list("scopes_supported")
                .map(|scopes| scopes.iter().map(String::as_str).collect()),
            code_challenge_methods_supported: document.list("code_challenge_methods_supported"),
            token_endpoint_auth_methods_supported: document
                .list("token_endpoint_auth_methods_supported"),
            grant_types_supported: document.list("grant_types_supported"),
            dpop_signing_alg_values_supported: document.list("dpop_signing_alg_values_supported"),
            authorization_response_iss_parameter_supported: document
                .flag("authorization_response_iss_parameter_supported"),
            client_id_metadata_document_supported: document
                .flag("client_id_metadata_document_supported"),
        })
    }

    /// Refuses a server that does not say that it protects codes with S256 (AUTH-30).
    ///
    /// # Errors
    ///
    /// [`Fault::NoPkce`], with what it lists.
    pub fn check_pkce(&self, policy: &AuthPolicy) -> Result<(), Fault> {
        let methods = self.code_challenge_methods_supported.as_deref();
        if policy.assume_pkce || methods.is_some_and(|list| list.iter().any(|name| name == "S256"))
        {
            return Ok(());
        }
        Err(Fault::NoPkce(methods.map_or_else(
            || "nothing".to_owned(),
            |list| format!("`{}`", shown(&list.join(" "))),
        )))
    }

    /// Whether DPoP proofs can be made that this server reads.
    pub fn takes_dpop(&self) -> bool {
        self.dpop_signing_alg_values_supported
            .as_ref()
            .is_some_and(|list| list.iter().any(|name| name == "ES256"))
    }
}

/// How a client proves at the token endpoint who it is (AUTH-25).
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClientAuthMethod {
    /// It has only an id.
    #[default]
    None,
    /// Id and secret in an `Authorization` field.
    ClientSecretBasic,
    /// Id and secret in the body.
    ClientSecretPost,
    /// A signed statement.
    PrivateKeyJwt,
}

impl ClientAuthMethod {
    /// As it stands in metadata.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
            Self::PrivateKeyJwt => "private_key_jwt",
        }
    }

    /// By its name in metadata.
    pub fn by_name(name: &str) -> Option<Self> {
        [
            Self::None,
            Self::ClientSecretBasic,
            Self::ClientSecretPost,
            Self::PrivateKeyJwt,
        ]
        .into_iter()
        .find(|method| method.as_str() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str, expected: &str, policy: &AuthPolicy) -> Result<ServerMetadata, Fault> {
        ServerMetadata::read(&Document::parse(json.as_bytes()).unwrap(), expected, policy)
    }

    #[test]
    fn auth_06_c188_addresses_in_order() {
        let oauth = "https://as.example/.well-known/oauth-authorization-server";
        let openid = "https://as.example/.well-known/openid-configuration";
        for (issuer, expected) in [
            (
                "https://as.example",
                vec![oauth.to_owned(), openid.to_owned()],
            ),
            (
                "https://as.example/",
                vec![oauth.to_owned(), openid.to_owned()],
            ),
            (
                "https://as.example/tenant1",
                vec![
                    format!("{oauth}/tenant1"),
                    format!("{openid}/tenant1"),
                    "https://as.example/tenant1/.well-known/openid-configuration".to_owned(),
                ],
            ),
            (
                "https://as.example/a/b/",
                vec![
                    format!("{oauth}/a/b"),
                    format!("{openid}/a/b"),
                    "https://as.example/a/b/.well-known/openid-configuration".to_owned(),
                ],
            ),
        ] {
            assert_eq!(candidates(issuer), Ok(expected), "{issuer}");
        }
        for issuer in [
            "",
            "as.example",
            "https://as.example?a",
            "https://as.example#a",
            "https://u@as.example",
            "file:///a",
        ] {
            assert!(
                matches!(candidates(issuer), Err(Fault::NotAnIssuer(_))),
                "{issuer}"
            );
        }
    }

    #[test]
    fn auth_07_c190_issuers_are_compared_as_strings() {
        let json = |issuer: &str| format!(r#"{{"issuer":"{issuer}"}}"#);
        let strict = AuthPolicy::default();
        let announced = "https://auth.example";
        assert!(read(&json(announced), announced, &strict).is_ok());
        for found in [
            "https://auth.example/",
            "https://AUTH.example",
            "https://auth.example:443",
            "http://auth.example",
            "https://evil.example",
        ] {
            let fault = read(&json(found), announced, &strict).unwrap_err();
            let text = fault.to_string();
            assert!(
                text.contains(&format!("`{found}`")) && text.contains(&format!("`{announced}`")),
                "{text}"
            );
            let trusting = AuthPolicy {
                trusted_issuer: Some(found.to_owned()),
                ..AuthPolicy::default()
            };
            assert_eq!(
                read(&json(found), announced, &trusting).unwrap().issuer,
                found
            );
        }
        assert!(matches!(
            read("{}", announced, &strict),
            Err(Fault::Malformed(_))
        ));
    }

    #[test]
    fn auth_30_no_login_without_code_protection() {
        let mut metadata = ServerMetadata::default();
        for (listed, expected) in [
            (None, Err("nothing")),
            (Some(vec![]), Err("``")),
            (Some(vec!["plain".to_owned()]), Err("`plain`")),
            (Some(vec!["plain".to_owned(), "S256".to_owned()]), Ok(())),
        ] {
            metadata.code_challenge_methods_supported = listed;
            let expected = expected.map_err(|text| Fault::NoPkce(text.to_owned()));
            assert_eq!(metadata.check_pkce(&AuthPolicy::default()), expected);
            let trusting = AuthPolicy {
                assume_pkce: true,
                ..AuthPolicy::default()
            };
            assert_eq!(metadata.check_pkce(&trusting), Ok(()));
        }
    }

    #[test]
    fn auth_08_c201_an_old_server_is_its_own_authorization_server() {
        let endpoint = Url::parse("https://h.example:8443/a/mcp?x").unwrap();
        assert_eq!(
            legacy_candidate(&endpoint),
            "https://h.example:8443/.well-known/oauth-authorization-server"
        );
        let defaults = ServerMetadata::legacy_defaults(&endpoint);
        assert_eq!(defaults.issuer, "https://h.example:8443");
        assert_eq!(
            defaults.token_endpoint.as_deref(),
            Some("https://h.example:8443/token")
        );
        assert_eq!(
            defaults.authorization_endpoint.as_deref(),
            Some("https://h.example:8443/authorize")
        );
        assert_eq!(
            defaults.registration_endpoint.as_deref(),
            Some("https://h.example:8443/register")
        );
    }

    #[test]
    fn methods_have_names() {
        for name in [
            "none",
            "client_secret_basic",
            "client_secret_post",
            "private_key_jwt",
        ] {
            let method = ClientAuthMethod::by_name(name).unwrap();
            assert_eq!(serde_json::to_value(method).unwrap(), name);
        }
        assert_eq!(ClientAuthMethod::by_name("tls_client_auth"), None);
    }
}
