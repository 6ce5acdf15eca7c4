//! Protected resource metadata (RFC 9728): where it is, whether it is about our server, which authorization server it
//! names (AUTH-03 to AUTH-05).

use url::Url;

use crate::document::Document;
use crate::error::Fault;
use crate::evidence::shown_address;
use crate::policy::{AuthPolicy, ResourceRule};
use crate::scope::ScopeSet;

const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What a server says about how it is protected.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ResourceMetadata {
    /// The resource, byte for byte; it goes into every request as it is (AUTH-31).
    pub resource: String,
    /// Issuers of authorization servers, in their order, byte for byte.
    pub authorization_servers: Vec<String>,
    /// All scopes that the server lists.
    pub scopes_supported: Option<ScopeSet>,
    /// Whether tokens must be bound to a key (RFC 9449).
    pub dpop_bound_access_tokens_required: bool,
    /// A name for people. Untrusted.
    pub resource_name: Option<String>,
}

/// Where to look, in order: what the challenge names, the well-known address with the endpoint's path, the well-known
/// address of the origin (AUTH-03, C187, C188).
///
/// The endpoint's query stays out: it may hold secrets.
pub fn candidates(endpoint: &Url, from_challenge: Option<&str>) -> Vec<String> {
    let mut found: Vec<String> = from_challenge.into_iter().map(str::to_owned).collect();
    let origin = endpoint.origin().ascii_serialization();
    let path = endpoint.path().trim_end_matches('/');
    for address in [
        format!("{origin}{WELL_KNOWN}{path}"),
        format!("{origin}{WELL_KNOWN}"),
    ] {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// The endpoint as a resource, when no metadata says otherwise: scheme, host, port and path, without a slash at the end,
/// query or fragment (AUTH-31).
pub fn canonical_resource(endpoint: &Url) -> String {
    let origin = endpoint.origin().ascii_serialization();
    format!("{origin}{}", endpoint.path().trim_end_matches('/'))
}

impl ResourceMetadata {
    /// Reads a document and checks that it is about the server at `endpoint` (AUTH-04).
    pub(crate) fn read(
        document: &Document,
        endpoint: &Url,
        policy: &AuthPolicy,
    ) -> Result<Self, Fault> {
        let resource = document
            .text("resource")
            .ok_or(Fault::Malformed("`resource` is missing"))?;
        if !identifies(resource, endpoint, policy) {
            return Err(Fault::ResourceMismatch {
                found: shown_address(resource),
                expected: shown_address(endpoint.as_str()),
            });
        }
        let list = |name| document.list(name);
        Ok(Self {
            resource: resource.to_owned(),
            authorization_servers: list("authorization_servers").unwrap_or_default(),
            scopes_supported: list("scopes_supported")
                .map(|scopes| scopes.iter().map(String::as_str).collect()),
            dpop_bound_access_tokens_required: document.flag("dpop_bound_access_tokens_required"),
            resource_name: document.text("resource_name").map(crate::evidence::shown),
        })
    }

    /// The authorization server to use: the first of `preferred` that is listed, else the first that is listed (AUTH-05).
    ///
    /// `preferred` are issuers where the client is known already.
    ///
    /// # Errors
    ///
    /// [`Fault::NoAuthorizationServer`].
    pub fn choose<'a>(
        &'a self,
        preferred: impl IntoIterator<Item = &'a str>,
    ) -> Result<&'a str, Fault> {
        let listed = |issuer: &&str| {
            self.authorization_servers
                .iter()
                .any(|known| known == issuer)
        };
        preferred
            .into_iter()
            .find(listed)
            .or_else(|| self.authorization_servers.first().map(String::as_str))
            .ok_or(Fault::NoAuthorizationServer)
    }
}

/// Whether a `resource` stands for the server at `endpoint` (AUTH-04, C186, C191).
pub fn identifies(resource: &str, endpoint: &Url, policy: &AuthPolicy) -> bool {
    if policy.trusted_resource.as_deref() == Some(resource) {
        return true;
    }
    if policy.resource_rule == ResourceRule::Identical {
        return resource == endpoint.as_str() || resource == canonical_resource(endpoint);
    }
    let Ok(url) = Url::parse(resource) else {
        return false;
    };
    // An address that hides a user, or names a part of a document, stands for no server.
    if url.fragment().is_some() || !url.username().is_empty() || url.password().is_some() {
        return false;
    }
    if !url.has_host() || url.origin() != endpoint.origin() {
        return false;
    }
    if url.query().is_some() && url.query() != endpoint.query() {
        return false;
    }
    let (parent, path) = (
        url.path().trim_end_matches('/'),
        endpoint.path().trim_end_matches('/'),
    );
    match path.strip_prefix(parent) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn read(json: &str, policy: &AuthPolicy) -> Result<ResourceMetadata, Fault> {
        let document = Document::parse(json.as_bytes()).unwrap();
        ResourceMetadata::read(&document, &url("https://h.example/mcp"), policy)
    }

    #[test]
    fn auth_03_addresses_in_order() {
        let (path, root) = (
            "https://h.example/.well-known/oauth-protected-resource/a/mcp",
            "https://h.example/.well-known/oauth-protected-resource",
        );
        for (endpoint, header, expected) in [
            ("https://h.example/a/mcp", None, vec![path, root]),
            ("https://h.example/a/mcp/", None, vec![path, root]),
            (
                "https://h.example/a/mcp?key=SECRET#f",
                None,
                vec![path, root],
            ),
            (
                "https://h.example/a/mcp",
                Some("https://h.example/x"),
                vec!["https://h.example/x", path, root],
            ),
            ("https://h.example/a/mcp", Some(root), vec![root, path]),
            ("https://h.example/", None, vec![root]),
            ("https://h.example", None, vec![root]),
            (
                "http://localhost:8080/mcp",
                None,
                vec![
                    "http://localhost:8080/.well-known/oauth-protected-resource/mcp",
                    "http://localhost:8080/.well-known/oauth-protected-resource",
                ],
            ),
        ] {
            assert_eq!(candidates(&url(endpoint), header), expected, "{endpoint}");
        }
    }

    #[test]
    fn auth_31_an_endpoint_has_one_canonical_form() {
        for (endpoint, expected) in [
            ("https://H.Example:443/mcp/", "https://h.example/mcp"),
            ("https://h.example", "https://h.example"),
            ("https://h.example:8443/a?b=c#d", "https://h.example:8443/a"),
        ] {
            assert_eq!(canonical_resource(&url(endpoint)), expected);
        }
    }

    #[test]
    fn auth_04_c186_c191_a_resource_must_stand_for_the_endpoint() {
        // endpoint, resource, same or parent, identical
        let cases = [
            ("https://h.example/mcp", "https://h.example/mcp", true, true),
            (
                "https://h.example/mcp",
                "https://h.example/mcp/",
                true,
                false,
            ),
            (
                "https://h.example/mcp/",
                "https://h.example/mcp",
                true,
                true,
            ),
            ("https://h.example/a/mcp", "https://h.example/", true, false),
            ("https://h.example/a/mcp", "https://h.example", true, false),
            (
                "https://h.example/a/mcp",
                "https://h.example/a",
                true,
                false,
            ),
            (
                "https://h.example/a/mcp",
                "https://H.EXAMPLE:443/a",
                true,
                false,
            ),
            (
                "https://h.example/mcp?t=1",
                "https://h.example/mcp?t=1",
                true,
                true,
            ),
            (
                "https://h.example/abc",
                "https://h.example/ab",
                false,
                false,
            ),
            (
                "https://h.example/a",
                "https://h.example/a/mcp",
                false,
                false,
            ),
            (
                "https://h.example/mcp",
                "https://evil.example/mcp",
                false,
                false,
            ),
            (
                "https://h.example/mcp",
                "https://sub.h.example/mcp",
                false,
                false,
            ),
            (
                "https://h.example/mcp",
                "http://h.example/mcp",
                false,
                false,
            ),
            (
                "https://h.example/mcp",
                "https://h.example:444/mcp",
                false,
                false,
            ),
            (
                "https://h.example/mcp",
                "https://h.example/x/../other",
                false,
                false,
            ),
            (
                "https://h.example/mcp",
                "https://u@h.example/mcp",
                false,
                false,
            ),
            (
                "https://h.example/mcp",
                "https://h.example/mcp#f",
                false,
                false,
            ),
            (
                "https://h.example/mcp",
                "https://h.example/mcp?t=1",
                false,
                false,
            ),
            ("https://h.example/mcp", "urn:mcp", false, false),
            ("https://h.example/mcp", "mcp", false, false),
        ];
        for (endpoint, resource, same_or_parent, identical) in cases {
            let mut policy = AuthPolicy::default();
            let found = identifies(resource, &url(endpoint), &policy);
            assert_eq!(found, same_or_parent, "{resource}");
            policy.resource_rule = ResourceRule::Identical;
            let found = identifies(resource, &url(endpoint), &policy);
            assert_eq!(found, identical, "{resource}");
        }
    }

    #[test]
    fn auth_04_a_named_override_accepts_one_value_byte_for_byte() {
        let policy = AuthPolicy {
            trusted_resource: Some("https://other.example/api".to_owned()),
            ..AuthPolicy::default()
        };
        let json = |resource: &str| format!(r#"{{"resource":"{resource}"}}"#);
        assert!(read(&json("https://other.example/api"), &policy).is_ok());
        let fault = read(&json("https://other.example/api/"), &policy).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "it is about the resource `https://other.example/api/`, not about `https://h.example/mcp`"
        );
    }

    #[test]
    fn a_document_is_read_as_far_as_it_is_readable() {
        let metadata = read(
            r#"{"resource":"https://h.example","authorization_servers":["https://as.example",7,"https://as2.example/"],
                "scopes_supported":["a","b c","b"],"resource_name":"the\nnotes","bearer_methods_supported":null}"#,
            &AuthPolicy::default(),
        )
        .unwrap();
        // Byte for byte: without a path it stays without one.
        assert_eq!(metadata.resource, "https://h.example");
        assert_eq!(
            metadata.scopes_supported.as_ref().unwrap().to_string(),
            "a b"
        );
        assert_eq!(metadata.resource_name.as_deref(), Some("the notes"));
        assert_eq!(metadata.choose([]), Ok("https://as.example"));
        assert_eq!(
            metadata.choose(["https://x", "https://as2.example/"]),
            Ok("https://as2.example/")
        );
        assert_eq!(
            metadata.choose(["https://as2.example"]),
            Ok("https://as.example")
        );
        let none = read(
            r#"{"resource":"https://h.example/mcp"}"#,
            &AuthPolicy::default(),
        )
        .unwrap();
        assert_eq!(none.choose([]), Err(Fault::NoAuthorizationServer));
        for json in ["{}", r#"{"resource":7}"#, r#"{"resource":""}"#] {
            assert!(
                matches!(read(json, &AuthPolicy::default()), Err(Fault::Malformed(_))),
                "{json}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_stands_for_an_endpoint_of_another_origin(text in "(https?://)?[a-z.@:/?#\\\\]{0,30}") {
            let endpoint = url("https://h.example/mcp");
            if identifies(&text, &endpoint, &AuthPolicy::default()) {
                prop_assert_eq!(url(&text).origin(), endpoint.origin());
            }
        }
    }
}
