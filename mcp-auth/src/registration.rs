//! How a client gets its id (AUTH-20 to AUTH-24).
//!
//! In order: one that the user registered; the address of the client's own metadata, if the server takes such ids; one that
//! the server gave before; a new one from the server; one that a person has to type in.

use serde_json::{Map, Value, json};
use url::Url;

use crate::credentials::{Registration, RegistrationSource};
use crate::document::Document;
use crate::error::Fault;
use crate::evidence::shown;
use crate::fetch_policy::{Reach, is_redirect_uri};
use crate::http::{FetchKind, HttpRequest, HttpResponse};
use crate::scope::ScopeSet;
use crate::secret::Secret;
use crate::server_metadata::{ClientAuthMethod, ServerMetadata};
use crate::token::{oauth_error, status};

/// Bytes of a client id that are accepted.
const MAX_CLIENT_ID_BYTES: usize = 4 * 1024;

/// What the host says about itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ClientIdentity {
    /// Its name, for people.
    pub name: String,
    /// Its home page.
    pub uri: Option<String>,
    /// Where codes come to: https, http on loopback, or a private scheme (AUTH-35).
    pub redirect_uri: String,
    /// The https address of its metadata, if it publishes any (AUTH-21).
    pub metadata_document: Option<String>,
    /// What the user registered for this server.
    pub pre_registered: Option<Registration>,
}

impl ClientIdentity {
    /// A client without an id.
    pub fn new(name: impl Into<String>, redirect_uri: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            redirect_uri: redirect_uri.into(),
            ..Self::default()
        }
    }
}

/// How the id is got.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum RegistrationPlan {
    /// There is one.
    Use(Registration),
    /// Ask this registration endpoint.
    Register(String),
    /// Only a person can get one.
    AskUser,
}

/// Decides how to get an id at an authorization server. `known` are registrations of the store, at any server.
///
/// # Errors
///
/// [`Fault::RegisteredElsewhere`] if the user's own registration belongs to another server (AUTH-24).
pub fn plan(
    identity: &ClientIdentity,
    known: &[Registration],
    server: &ServerMetadata,
    now: u64,
) -> Result<RegistrationPlan, Fault> {
    if let Some(own) = &identity.pre_registered {
        // Without an issuer it was tied to the first one that it was used at.
        let tied = known.iter().find(|known| {
            known.source == RegistrationSource::PreRegistered && known.client_id == own.client_id
        });
        let issuer = own
            .issuer
            .as_deref()
            .or_else(|| tied.and_then(|known| known.issuer.as_deref()))
            .unwrap_or(&server.issuer);
        if issuer != server.issuer {
            return Err(Fault::RegisteredElsewhere {
                registered: shown(issuer),
                found: shown(&server.issuer),
            });
        }
        let mut own = own.clone();
        own.issuer = Some(server.issuer.clone());
        return Ok(RegistrationPlan::Use(own));
    }
    if let Some(address) = &identity.metadata_document
        && server.client_id_metadata_document_supported
        && is_document_id(address)
    {
        let source = RegistrationSource::MetadataDocument;
        let issuer = Some(server.issuer.clone());
        return Ok(RegistrationPlan::Use(Registration::new(
            source, issuer, address,
        )));
    }
    let given = known.iter().find(|known| {
        known.source != RegistrationSource::MetadataDocument
            && known.issuer.as_deref() == Some(server.issuer.as_str())
            && known.is_usable(&identity.redirect_uri, now)
    });
    Ok(match (given, &server.registration_endpoint) {
        (Some(given), _) => RegistrationPlan::Use(given.clone()),
        (None, Some(endpoint)) => RegistrationPlan::Register(endpoint.clone()),
        (None, None) => RegistrationPlan::AskUser,
    })
}

/// Whether an address can be a client's id: https with a path, no fragment, no user (AUTH-21).
pub fn is_document_id(address: &str) -> bool {
    Url::parse(address).is_ok_and(|url| {
        url.scheme() == "https"
            && url.path().len() > 1
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
    })
}

/// Whether the client is an app on the user's machine or one on the web, by where its codes come to (AUTH-22).
pub(crate) fn application_type(redirect_uri: &str) -> &'static str {
    match Url::parse(redirect_uri) {
        Ok(url) if url.scheme() == "https" && Reach::of_host(&url) != Some(Reach::Loopback) => {
            "web"
        }
        _ => "native",
    }
}

/// The request for a new id.
///
/// Asks for a client without a secret where the server does not say otherwise: an app on somebody's machine can keep none.
///
/// # Errors
///
/// [`Fault::RedirectUri`], [`Fault::ClientAuth`].
pub(crate) fn request(
    identity: &ClientIdentity,
    endpoint: Url,
    server: &ServerMetadata,
    scope: Option<&ScopeSet>,
    wants_refresh: bool,
) -> Result<HttpRequest, Fault> {
    if !is_redirect_uri(&identity.redirect_uri) {
        return Err(Fault::RedirectUri);
    }
    let methods = [
        ClientAuthMethod::None,
        ClientAuthMethod::ClientSecretBasic,
        ClientAuthMethod::ClientSecretPost,
    ];
    let method = match &server.token_endpoint_auth_methods_supported {
        None => ClientAuthMethod::None,
        Some(listed) => methods
            .into_iter()
            .find(|method| listed.iter().any(|name| name == method.as_str()))
            .ok_or_else(|| Fault::ClientAuth(format!("`{}`", shown(&listed.join(" ")))))?,
    };
    let mut grants = vec!["authorization_code"];
    // Some servers refuse a registration that names a grant that they do not know (AUTH-23).
    let knows_refresh = server
        .grant_types_supported
        .as_ref()
        .is_none_or(|listed| listed.iter().any(|name| name == "refresh_token"));
    if wants_refresh && knows_refresh {
        grants.push("refresh_token");
    }
    let mut body = Map::new();
    let mut put = |name: &str, value: Value| body.insert(name.to_owned(), value);
    put("client_name", identity.name.as_str().into());
    put("redirect_uris", json!([identity.redirect_uri]));
    put("grant_types", grants.into());
    put("response_types", json!(["code"]));
    put("token_endpoint_auth_method", method.as_str().into());
    put(
        "application_type",
        application_type(&identity.redirect_uri).into(),
    );
    if let Some(uri) = &identity.uri {
        put("client_uri", uri.as_str().into());
    }
    if let Some(scope) = scope {
        put("scope", scope.to_string().into());
    }
    let body = Value::Object(body).to_string();
    Ok(HttpRequest::post(
        endpoint,
        FetchKind::Registration,
        "application/json",
        body,
    ))
}

/// Reads the answer of a registration endpoint.
pub(crate) fn read_response(
    response: &HttpResponse,
    max_bytes: usize,
    issuer: &str,
    redirect_uri: &str,
) -> Result<Registration, Fault> {
    if response.body.len() > max_bytes {
        return Err(Fault::TooLong(max_bytes));
    }
    if response.redirect().is_some() {
        return Err(Fault::Redirect(response.status));
    }
    let document = match Document::read(response, true) {
        Ok(document) => document,
        Err(fault) if response.is_success() => return Err(fault),
        Err(_) => return Err(status(response, &[])),
    };
    if let Some(error) = oauth_error(&document, response.status, &[]) {
        return Err(Fault::Refused(error));
    }
    if !response.is_success() {
        return Err(status(response, &[]));
    }
    let client_id = document
        .text("client_id")
        .filter(|id| id.len() <= MAX_CLIENT_ID_BYTES)
        .ok_or(Fault::Malformed(
            "`client_id` is missing, no text, or too long",
        ))?;
    let mut registration = Registration::new(
        RegistrationSource::Dynamic,
        Some(issuer.to_owned()),
        client_id,
    );
    registration.client_secret = document.text("client_secret").map(Secret::from);
    // 0 says that it does not end (RFC 7591 3.2.1).
    registration.secret_expires_at = document
        .value("client_secret_expires_at")
        .and_then(Value::as_u64)
        .filter(|end| *end != 0 && registration.client_secret.is_some());
    registration.auth_method = match document.text("token_endpoint_auth_method") {
        // A secret of which nothing is said: left to the metadata.
        None if registration.client_secret.is_some() => None,
        None => Some(ClientAuthMethod::None),
        Some(name) => Some(
            ClientAuthMethod::by_name(name)
                .ok_or_else(|| Fault::ClientAuth(format!("`{}`", shown(name))))?,
        ),
    };
    registration.redirect_uris = vec![redirect_uri.to_owned()];
    Ok(registration)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ISSUER: &str = "https://as.example";
    const REDIRECT: &str = "http://127.0.0.1:7777/callback";

    fn server() -> ServerMetadata {
        ServerMetadata {
            issuer: ISSUER.to_owned(),
            registration_endpoint: Some("https://as.example/register".to_owned()),
            client_id_metadata_document_supported: true,
            ..ServerMetadata::default()
        }
    }

    fn dynamic(issuer: &str, id: &str) -> Registration {
        Registration::new(RegistrationSource::Dynamic, Some(issuer.to_owned()), id)
    }

    /// What is planned, as a short text.
    fn planned(
        identity: &ClientIdentity,
        known: &[Registration],
        server: &ServerMetadata,
    ) -> String {
        match plan(identity, known, server, 1000) {
            Ok(RegistrationPlan::Use(registration)) => registration.client_id,
            Ok(RegistrationPlan::Register(endpoint)) => format!("register at {endpoint}"),
            Ok(RegistrationPlan::AskUser) => "ask".to_owned(),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn auth_20_ids_are_got_in_order() {
        let document = "https://app.example/client.json";
        let mut identity = ClientIdentity::new("host", REDIRECT);
        let mut server = server();
        identity.pre_registered = Some(Registration::pre_registered("mine"));
        identity.metadata_document = Some(document.to_owned());
        let known = [dynamic(ISSUER, "given")];
        assert_eq!(planned(&identity, &known, &server), "mine");
        identity.pre_registered = None;
        assert_eq!(planned(&identity, &known, &server), document);
        server.client_id_metadata_document_supported = false;
        assert_eq!(planned(&identity, &known, &server), "given");
        assert_eq!(
            planned(&identity, &[], &server),
            "register at https://as.example/register"
        );
        server.registration_endpoint = None;
        assert_eq!(planned(&identity, &[], &server), "ask");
    }

    #[test]
    fn auth_21_only_an_https_address_with_a_path_is_an_id() {
        for (address, expected) in [
            ("https://app.example/client.json", true),
            ("https://app.example/", false),
            ("https://app.example", false),
            ("http://localhost/client.json", false),
            ("https://app.example/a#b", false),
            ("https://u@app.example/a", false),
            ("client", false),
        ] {
            assert_eq!(is_document_id(address), expected, "{address}");
        }
    }

    #[test]
    fn auth_24_registrations_stay_at_their_issuer() {
        let identity = ClientIdentity::new("host", REDIRECT);
        let register = "register at https://as.example/register";
        let server = ServerMetadata {
            client_id_metadata_document_supported: false,
            ..server()
        };
        let mut ended = dynamic(ISSUER, "ended");
        ended.secret_expires_at = Some(1000);
        let mut elsewhere = dynamic(ISSUER, "other address");
        elsewhere.redirect_uris = vec!["http://127.0.0.1:1/callback".to_owned()];
        for known in [
            dynamic("https://old.example", "old"),
            dynamic("https://as.example/", "slash"),
            ended,
            elsewhere,
        ] {
            assert_eq!(planned(&identity, &[known], &server), register);
        }
        let mut identity = identity;
        let mut mine = Registration::pre_registered("mine");
        mine.issuer = Some("https://old.example".to_owned());
        identity.pre_registered = Some(mine.clone());
        let expected = "the client id was registered at `https://old.example`, the server now uses `https://as.example`";
        assert_eq!(planned(&identity, &[], &server), expected);
        // Tied by an earlier use, although the configuration names no issuer.
        identity.pre_registered = Some(Registration::pre_registered("mine"));
        assert_eq!(planned(&identity, &[mine], &server), expected);
    }

    fn body(
        identity: &ClientIdentity,
        server: &ServerMetadata,
        refresh: bool,
    ) -> Result<Value, Fault> {
        let endpoint = Url::parse("https://as.example/register").unwrap();
        let scope = ScopeSet::parse("a b");
        let request = request(identity, endpoint, server, Some(&scope), refresh)?;
        assert_eq!(request.header("content-type"), Some("application/json"));
        Ok(serde_json::from_str(request.body.unwrap().reveal()).unwrap())
    }

    #[test]
    fn auth_22_auth_23_what_is_registered() {
        let mut identity = ClientIdentity::new("host", REDIRECT);
        assert_eq!(
            body(&identity, &server(), true).unwrap(),
            json!({
                "client_name": "host",
                "redirect_uris": [REDIRECT],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "token_endpoint_auth_method": "none",
                "application_type": "native",
                "scope": "a b",
            })
        );
        assert_eq!(
            body(&identity, &server(), false).unwrap()["grant_types"],
            json!(["authorization_code"])
        );
        for (redirect, expected) in [
            ("http://localhost:1/cb", "native"),
            ("com.example.app:/cb", "native"),
            ("https://localhost:1/cb", "native"),
            ("https://app.example/cb", "web"),
        ] {
            identity.redirect_uri = redirect.to_owned();
            assert_eq!(
                body(&identity, &server(), false).unwrap()["application_type"],
                expected
            );
        }
        identity.redirect_uri = "http://app.example/cb".to_owned();
        assert_eq!(body(&identity, &server(), false), Err(Fault::RedirectUri));
    }

    #[test]
    fn auth_25_the_method_is_one_that_the_server_lists() {
        let identity = ClientIdentity::new("host", REDIRECT);
        let mut server = server();
        for (listed, expected) in [
            ("client_secret_post", Some("client_secret_post")),
            (
                "client_secret_post client_secret_basic",
                Some("client_secret_basic"),
            ),
            ("client_secret_basic none", Some("none")),
            ("tls_client_auth", None),
        ] {
            server.token_endpoint_auth_methods_supported =
                Some(listed.split(' ').map(str::to_owned).collect());
            let found = body(&identity, &server, false).ok();
            let found = found.map(|body| {
                body["token_endpoint_auth_method"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            });
            assert_eq!(found.as_deref(), expected, "{listed}");
        }
    }

    fn read(status: u16, body: &str) -> Result<Registration, Fault> {
        read_response(&HttpResponse::new(status, body), 4096, ISSUER, REDIRECT)
    }

    #[test]
    fn answers_are_read() {
        let registration = read(
            201,
            r#"{"client_id":"id","client_secret":"CANARY","client_secret_expires_at":0,"token_endpoint_auth_method":"client_secret_post"}"#,
        )
        .unwrap();
        assert_eq!(registration.client_id, "id");
        assert_eq!(registration.secret_expires_at, None);
        assert_eq!(
            registration.auth_method,
            Some(ClientAuthMethod::ClientSecretPost)
        );
        assert_eq!(registration.issuer.as_deref(), Some(ISSUER));
        assert!(!format!("{registration:?}").contains("CANARY"));
        assert_eq!(
            read(200, r#"{"client_id":"id"}"#).unwrap().auth_method,
            Some(ClientAuthMethod::None)
        );
        let open = read(
            200,
            r#"{"client_id":"id","client_secret":"s","client_secret_expires_at":5}"#,
        )
        .unwrap();
        assert_eq!((open.auth_method, open.secret_expires_at), (None, Some(5)));
    }

    #[test]
    fn refusals_say_why() {
        for (status, body, expected) in [
            (
                400,
                r#"{"error":"invalid_redirect_uri","error_description":"no loopback"}"#,
                "refused: invalid_redirect_uri (no loopback)",
            ),
            (
                200,
                r#"{"error":"invalid_client_metadata"}"#,
                "refused: invalid_client_metadata",
            ),
            (403, "closed", "status 403: closed"),
            (201, "{}", "`client_id` is missing, no text, or too long"),
            (200, "<html>", "not a JSON object but text/html: <html>"),
            (307, "", "a redirect that is not followed (status 307)"),
        ] {
            assert_eq!(read(status, body).unwrap_err().to_string(), expected);
        }
        let odd = r#"{"client_id":"id","token_endpoint_auth_method":"tls_client_auth"}"#;
        assert!(matches!(read(201, odd), Err(Fault::ClientAuth(_))));
    }
}
