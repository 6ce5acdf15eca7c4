//! Token requests: each grant, and how a client proves who it is (AUTH-25, AUTH-31, AUTH-60, AUTH-61).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use url::Url;
use url::form_urlencoded::{self, Serializer};

use crate::error::Fault;
use crate::evidence::shown;
use crate::http::{FetchKind, HttpRequest};
use crate::pkce::Verifier;
use crate::scope::ScopeSet;
use crate::secret::Secret;
use crate::server_metadata::ClientAuthMethod;
use crate::signing::{SigningKey, client_assertion};

pub(super) const FORM: &str = "application/x-www-form-urlencoded";
const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const CLIENT_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The type of an identity assertion for another authorization server (AUTH-61).
pub const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
/// The type of an OpenID Connect ID token.
pub const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

/// What a token is asked for with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Grant {
    /// A code that came back through the browser.
    AuthorizationCode {
        /// The code.
        code: Secret,
        /// The proof key of its request.
        verifier: Verifier,
        /// The redirect address of its request.
        redirect_uri: String,
    },
    /// A refresh token.
    RefreshToken(Secret),
    /// The client's own credentials (AUTH-60).
    ClientCredentials,
    /// A statement of somebody whom the server trusts: an ID-JAG (AUTH-61), or a workload's identity (RFC 7523).
    JwtBearer(Secret),
    /// Another token, at an identity provider (RFC 8693).
    TokenExchange {
        /// The token to exchange.
        subject_token: Secret,
        /// Its type.
        subject_token_type: String,
        /// The type that is wanted.
        requested_token_type: String,
        /// The authorization server that the new token is for.
        audience: String,
    },
}

/// How a client proves who it is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClientAuth {
    /// Not at all.
    None,
    /// By its secret, in an `Authorization` field.
    SecretBasic(Secret),
    /// By its secret, in the body.
    SecretPost(Secret),
    /// By a signed statement.
    PrivateKeyJwt {
        /// The key.
        key: SigningKey,
        /// The `kid` that the server knows it by.
        key_id: Option<String>,
    },
}

/// A client that asks for a token.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Client {
    /// Its id.
    pub id: String,
    /// How it proves who it is.
    pub auth: ClientAuth,
}

impl Client {
    /// A client.
    pub fn new(id: impl Into<String>, auth: ClientAuth) -> Self {
        Self {
            id: id.into(),
            auth,
        }
    }
}

/// Chooses how a client authenticates (AUTH-25): as its registration says, else by what the server lists; a server that
/// lists nothing takes `client_secret_basic` (RFC 8414).
///
/// # Errors
///
/// [`Fault::ClientAuth`] if nothing that the server lists is possible.
pub fn choose_auth(
    fixed: Option<ClientAuthMethod>,
    listed: Option<&[String]>,
    secret: Option<&Secret>,
    key: Option<&(SigningKey, Option<String>)>,
) -> Result<ClientAuth, Fault> {
    let possible = |method| match (method, secret, key) {
        (ClientAuthMethod::None, ..) => Some(ClientAuth::None),
        (ClientAuthMethod::ClientSecretBasic, Some(secret), _) => {
            Some(ClientAuth::SecretBasic(secret.clone()))
        }
        (ClientAuthMethod::ClientSecretPost, Some(secret), _) => {
            Some(ClientAuth::SecretPost(secret.clone()))
        }
        (ClientAuthMethod::PrivateKeyJwt, _, Some((key, key_id))) => {
            Some(ClientAuth::PrivateKeyJwt {
                key: key.clone(),
                key_id: key_id.clone(),
            })
        }
        _ => None,
    };
    let refused = |names: String| Fault::ClientAuth(format!("`{}`", shown(&names)));
    if let Some(method) = fixed {
        return possible(method).ok_or_else(|| refused(method.as_str().to_owned()));
    }
    // The strongest first. A client without a secret and a key has no choice.
    let mut order = vec![
        ClientAuthMethod::PrivateKeyJwt,
        ClientAuthMethod::ClientSecretBasic,
        ClientAuthMethod::ClientSecretPost,
    ];
    if secret.is_none() && key.is_none() {
        return Ok(ClientAuth::None);
    }
    order.push(ClientAuthMethod::None);
    let by_default = [
        ClientAuthMethod::PrivateKeyJwt.as_str().to_owned(),
        "client_secret_basic".to_owned(),
    ];
    let listed = listed.unwrap_or(&by_default);
    order
        .into_iter()
        .filter(|method| listed.iter().any(|name| name == method.as_str()))
        .find_map(possible)
        .ok_or_else(|| refused(listed.join(" ")))
}

/// One token request.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TokenRequest {
    /// Where to; judged already.
    pub endpoint: Url,
    /// The issuer at that endpoint: the audience of a client's statement.
    pub issuer: String,
    /// With what.
    pub grant: Grant,
    /// By whom.
    pub client: Client,
    /// For which resource (AUTH-31).
    pub resource: Option<String>,
    /// With which scopes.
    pub scope: Option<ScopeSet>,
}

impl TokenRequest {
    /// A request without resource and scopes.
    pub fn new(endpoint: Url, issuer: impl Into<String>, grant: Grant, client: Client) -> Self {
        Self {
            endpoint,
            issuer: issuer.into(),
            grant,
            client,
            resource: None,
            scope: None,
        }
    }

    /// The request on the wire. `jti` makes a client's statement unique.
    ///
    /// # Errors
    ///
    /// [`Fault::Signing`].
    pub fn encode(&self, kind: FetchKind, now: u64, jti: &Secret) -> Result<HttpRequest, Fault> {
        let mut form = Serializer::new(String::new());
        match &self.grant {
            Grant::AuthorizationCode {
                code,
                verifier,
                redirect_uri,
            } => {
                form.append_pair("grant_type", "authorization_code");
                form.append_pair("code", code.reveal());
                form.append_pair("code_verifier", verifier.secret().reveal());
                form.append_pair("redirect_uri", redirect_uri);
            }
            Grant::RefreshToken(token) => {
                form.append_pair("grant_type", "refresh_token");
                form.append_pair("refresh_token", token.reveal());
            }
            Grant::ClientCredentials => {
                form.append_pair("grant_type", "client_credentials");
            }
            Grant::JwtBearer(assertion) => {
                form.append_pair("grant_type", JWT_BEARER);
                form.append_pair("assertion", assertion.reveal());
            }
            Grant::TokenExchange {
                subject_token,
                subject_token_type,
                requested_token_type,
                audience,
            } => {
                form.append_pair("grant_type", TOKEN_EXCHANGE);
                form.append_pair("requested_token_type", requested_token_type);
                form.append_pair("audience", audience);
                form.append_pair("subject_token", subject_token.reveal());
                form.append_pair("subject_token_type", subject_token_type);
            }
        }
        if let Some(scope) = &self.scope {
            form.append_pair("scope", &scope.to_string());
        }
        if let Some(resource) = &self.resource {
            form.append_pair("resource", resource);
        }
        let mut basic = None;
        match &self.client.auth {
            ClientAuth::None => {
                form.append_pair("client_id", &self.client.id);
            }
            ClientAuth::SecretBasic(secret) => basic = Some(basic_field(&self.client.id, secret)),
            ClientAuth::SecretPost(secret) => {
                form.append_pair("client_id", &self.client.id);
                form.append_pair("client_secret", secret.reveal());
            }
            ClientAuth::PrivateKeyJwt { key, key_id } => {
                let assertion = client_assertion(
                    key,
                    key_id.as_deref(),
                    &self.client.id,
                    &self.issuer,
                    now,
                    jti,
                )?;
                form.append_pair("client_assertion_type", CLIENT_ASSERTION);
                form.append_pair("client_assertion", assertion.reveal());
            }
        }
        let mut request = HttpRequest::post(self.endpoint.clone(), kind, FORM, form.finish());
        request
            .headers
            .extend(basic.map(|value| ("authorization", value)));
        Ok(request)
    }

    /// What the answer must not quote.
    pub fn secrets(&self) -> Vec<Secret> {
        let mut secrets = match &self.grant {
            Grant::AuthorizationCode { code, verifier, .. } => {
                vec![code.clone(), verifier.secret().clone()]
            }
            Grant::RefreshToken(secret) | Grant::JwtBearer(secret) => vec![secret.clone()],
            Grant::TokenExchange { subject_token, .. } => vec![subject_token.clone()],
            Grant::ClientCredentials => Vec::new(),
        };
        if let ClientAuth::SecretBasic(secret) | ClientAuth::SecretPost(secret) = &self.client.auth
        {
            secrets.push(secret.clone());
        }
        secrets
    }
}

/// Id and secret, each form-encoded, then joined (RFC 6749 2.3.1): ids that are addresses hold a colon.
fn basic_field(id: &str, secret: &Secret) -> Secret {
    let encode =
        |text: &str| -> String { form_urlencoded::byte_serialize(text.as_bytes()).collect() };
    let pair = format!("{}:{}", encode(id), encode(secret.reveal()));
    Secret::new(format!("Basic {}", STANDARD.encode(pair)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signing::tests::verified;

    fn pairs(request: &HttpRequest) -> Vec<(String, String)> {
        let body = request.body.as_ref().unwrap().reveal().as_bytes();
        form_urlencoded::parse(body).into_owned().collect()
    }

    fn request(grant: Grant, auth: ClientAuth) -> TokenRequest {
        let endpoint = Url::parse("https://as.example/token").unwrap();
        let mut request = TokenRequest::new(
            endpoint,
            "https://as.example",
            grant,
            Client::new("me", auth),
        );
        request.resource = Some("https://h.example".to_owned());
        request.scope = Some(ScopeSet::parse("a b"));
        request
    }

    fn encoded(grant: Grant, auth: ClientAuth) -> (HttpRequest, Vec<(String, String)>) {
        let request = request(grant, auth)
            .encode(FetchKind::Token, 1000, &Secret::new("once"))
            .unwrap();
        let pairs = pairs(&request);
        (request, pairs)
    }

    #[test]
    fn auth_31_each_grant_names_the_resource() {
        let grants = [
            (
                Grant::AuthorizationCode {
                    code: Secret::new("c"),
                    verifier: Verifier::new([0; 32]),
                    redirect_uri: "http://127.0.0.1/".to_owned(),
                },
                vec![
                    ("grant_type", "authorization_code"),
                    ("code", "c"),
                    ("redirect_uri", "http://127.0.0.1/"),
                ],
            ),
            (
                Grant::RefreshToken(Secret::new("r")),
                vec![("grant_type", "refresh_token"), ("refresh_token", "r")],
            ),
            (
                Grant::ClientCredentials,
                vec![("grant_type", "client_credentials")],
            ),
            (
                Grant::JwtBearer(Secret::new("j")),
                vec![("grant_type", JWT_BEARER), ("assertion", "j")],
            ),
            (
                Grant::TokenExchange {
                    subject_token: Secret::new("id"),
                    subject_token_type: ID_TOKEN.to_owned(),
                    requested_token_type: ID_JAG.to_owned(),
                    audience: "https://as.example".to_owned(),
                },
                vec![
                    ("grant_type", TOKEN_EXCHANGE),
                    ("subject_token", "id"),
                    ("subject_token_type", ID_TOKEN),
                    ("requested_token_type", ID_JAG),
                    ("audience", "https://as.example"),
                ],
            ),
        ];
        for (grant, mut expected) in grants {
            expected.extend([
                ("resource", "https://h.example"),
                ("scope", "a b"),
                ("client_id", "me"),
            ]);
            let (request, pairs) = encoded(grant, ClientAuth::None);
            for (name, value) in expected {
                assert!(
                    pairs.contains(&(name.to_owned(), value.to_owned())),
                    "{name} in {pairs:?}"
                );
            }
            assert_eq!(request.header("accept"), Some("application/json"));
            assert_eq!(request.header("content-type"), Some(FORM));
        }
    }

    #[test]
    fn auth_25_each_method_shows_the_client_once() {
        let has =
            |pairs: &[(String, String)], name: &str| pairs.iter().any(|(known, _)| known == name);
        let secret = || Secret::new("s:e c%ret");
        let (basic, body) = encoded(Grant::ClientCredentials, ClientAuth::SecretBasic(secret()));
        // me:s%3Ae+c%25ret
        assert_eq!(
            basic.header("authorization"),
            Some("Basic bWU6cyUzQWUrYyUyNXJldA==")
        );
        assert!(!has(&body, "client_id") && !has(&body, "client_secret"));
        let (post, body) = encoded(Grant::ClientCredentials, ClientAuth::SecretPost(secret()));
        assert_eq!(post.header("authorization"), None);
        assert!(body.contains(&("client_secret".to_owned(), "s:e c%ret".to_owned())));
        let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        let auth = ClientAuth::PrivateKeyJwt {
            key: key.clone(),
            key_id: None,
        };
        let (_, body) = encoded(Grant::ClientCredentials, auth);
        let jwt = &body
            .iter()
            .find(|(name, _)| name == "client_assertion")
            .unwrap()
            .1;
        assert_eq!(verified(jwt, &key).1["aud"], "https://as.example");
        assert!(body.contains(&(
            "client_assertion_type".to_owned(),
            CLIENT_ASSERTION.to_owned()
        )));
    }

    #[test]
    fn auth_25_the_method_follows_registration_and_metadata() {
        let key = (
            SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap(),
            None,
        );
        let secret = Secret::new("s");
        let name = |auth: ClientAuth| match auth {
            ClientAuth::None => "none",
            ClientAuth::SecretBasic(_) => "client_secret_basic",
            ClientAuth::SecretPost(_) => "client_secret_post",
            ClientAuth::PrivateKeyJwt { .. } => "private_key_jwt",
        };
        // fixed, listed ("-": no list), has a secret, has a key, expected
        let cases = [
            ("-", "-", false, false, Some("none")),
            ("-", "client_secret_basic", false, false, Some("none")),
            ("-", "-", true, false, Some("client_secret_basic")),
            (
                "-",
                "client_secret_post",
                true,
                false,
                Some("client_secret_post"),
            ),
            (
                "-",
                "client_secret_post client_secret_basic",
                true,
                false,
                Some("client_secret_basic"),
            ),
            ("-", "none", true, false, Some("none")),
            ("-", "tls_client_auth", true, false, None),
            ("-", "-", false, true, Some("private_key_jwt")),
            (
                "-",
                "client_secret_basic private_key_jwt",
                true,
                true,
                Some("private_key_jwt"),
            ),
            ("-", "none", false, true, Some("none")),
            (
                "client_secret_post",
                "client_secret_basic",
                true,
                false,
                Some("client_secret_post"),
            ),
            ("client_secret_post", "-", false, false, None),
            ("none", "client_secret_basic", true, false, Some("none")),
        ];
        for (fixed, listed, has_secret, has_key, expected) in cases {
            let list: Vec<String> = listed.split(' ').map(str::to_owned).collect();
            let found = choose_auth(
                ClientAuthMethod::by_name(fixed),
                (listed != "-").then_some(list.as_slice()),
                has_secret.then_some(&secret),
                has_key.then_some(&key),
            );
            assert_eq!(
                found.ok().map(name),
                expected,
                "{fixed} {listed} {has_secret} {has_key}"
            );
        }
    }
}
