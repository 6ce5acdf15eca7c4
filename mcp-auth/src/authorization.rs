//! The authorization request, and what comes back through the browser (AUTH-31 to AUTH-34).

use serde::{Deserialize, Serialize};
use url::{Url, form_urlencoded};

use crate::error::{Fault, OauthError};
use crate::pkce::Verifier;
use crate::scope::ScopeSet;
use crate::secret::Secret;

/// Bytes of a callback that are read.
pub const MAX_CALLBACK_BYTES: usize = 16 * 1024;

/// What is remembered of an authorization request until its answer, in one record (AUTH-33). It is used once.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PendingAuthorization {
    /// The issuer that was asked.
    pub issuer: String,
    /// Whether that issuer says that it sends `iss`.
    pub iss_supported: bool,
    /// The word that the answer must bring back.
    pub state: Secret,
    /// The proof key.
    pub verifier: Verifier,
    /// The client.
    pub client_id: String,
    /// Where the answer comes to.
    pub redirect_uri: String,
    /// The scopes that were asked for.
    pub scope: Option<ScopeSet>,
    /// The resource that was named.
    pub resource: Option<String>,
}

impl PendingAuthorization {
    /// The address to open, at this endpoint. Parameters that the endpoint has already stay.
    pub fn authorization_url(&self, endpoint: &Url) -> Url {
        let mut url = endpoint.clone();
        url.set_fragment(None);
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("response_type", "code");
            query.append_pair("client_id", &self.client_id);
            query.append_pair("redirect_uri", &self.redirect_uri);
            query.append_pair("code_challenge", &self.verifier.challenge());
            query.append_pair("code_challenge_method", "S256");
            query.append_pair("state", self.state.reveal());
            if let Some(scope) = &self.scope {
                query.append_pair("scope", &scope.to_string());
            }
            if let Some(resource) = &self.resource {
                query.append_pair("resource", resource);
            }
        }
        url
    }
}

/// What a callback turned out to be.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Callback {
    /// Not the answer to this request: no `state`, or another one. Somebody else's; go on waiting (AUTH-32).
    NotOurs,
    /// The code.
    Code(Secret),
    /// The answer to this request, and nothing follows from it.
    Refused(Fault),
}

/// Reads a callback: the whole address, or its query alone, as a person may paste it (C200).
///
/// `state` says whether it is about this request at all; then `iss` is checked, before anything else of it is looked at:
///
/// | server says that it sends `iss` | `iss` came | what follows |
/// |---|---|---|
/// | yes | yes | must be the same, byte for byte |
/// | yes | no | refused |
/// | no | yes | must be the same, byte for byte |
/// | no | no | go on |
pub fn read_callback(callback: &str, pending: &PendingAuthorization) -> Callback {
    if callback.len() > MAX_CALLBACK_BYTES {
        return Callback::NotOurs;
    }
    let callback = callback.trim();
    let query = callback
        .split_once('?')
        .map_or(callback, |(_, query)| query)
        .split('#')
        .next()
        .unwrap_or_default();
    let parameters: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let all = |wanted: &str| -> Vec<&str> {
        parameters
            .iter()
            .filter(|(name, _)| name == wanted)
            .map(|(_, value)| value.as_str())
            .collect()
    };
    match all("state").as_slice() {
        [state] if *state == pending.state.reveal() && !state.is_empty() => {}
        _ => return Callback::NotOurs,
    }
    match all("iss").as_slice() {
        [] if pending.iss_supported => return Callback::Refused(Fault::IssMissing),
        [] => {}
        [issuer] if *issuer == pending.issuer => {}
        _ => {
            return Callback::Refused(Fault::IssMismatch {
                expected: crate::evidence::shown(&pending.issuer),
            });
        }
    }
    if let Some(error) = all("error").first() {
        let description = all("error_description").first().copied();
        let secrets = [pending.state.clone()];
        return Callback::Refused(Fault::Refused(OauthError::new(
            error,
            description,
            0,
            &secrets,
        )));
    }
    match all("code").as_slice() {
        [code] if !code.is_empty() => Callback::Code(Secret::new(*code)),
        [] | [_] => Callback::Refused(Fault::Callback("it holds neither a code nor an error")),
        _ => Callback::Refused(Fault::Callback("it holds several codes")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pending(iss_supported: bool) -> PendingAuthorization {
        PendingAuthorization {
            issuer: "https://as.example/t".to_owned(),
            iss_supported,
            state: Secret::new("st8"),
            verifier: Verifier::new([0; 32]),
            client_id: "me & you".to_owned(),
            redirect_uri: "http://127.0.0.1:7777/cb".to_owned(),
            scope: Some(ScopeSet::parse("a b")),
            resource: Some("https://h.example".to_owned()),
        }
    }

    #[test]
    fn auth_31_the_request_names_resource_state_and_proof_key() {
        let endpoint = Url::parse("https://as.example/authorize?tenant=7#f").unwrap();
        let url = pending(false).authorization_url(&endpoint);
        let pairs: Vec<_> = url.query_pairs().into_owned().collect();
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [
                ("tenant", "7"),
                ("response_type", "code"),
                ("client_id", "me & you"),
                ("redirect_uri", "http://127.0.0.1:7777/cb"),
                (
                    "code_challenge",
                    pending(false).verifier.challenge().as_str()
                ),
                ("code_challenge_method", "S256"),
                ("state", "st8"),
                ("scope", "a b"),
                ("resource", "https://h.example"),
            ]
        );
        assert_eq!(url.fragment(), None);
        let mut bare = pending(false);
        (bare.scope, bare.resource) = (None, None);
        let url = bare.authorization_url(&endpoint);
        assert!(!url.as_str().contains("scope=") && !url.as_str().contains("resource="));
    }

    #[test]
    fn auth_33_auth_34_iss_is_checked_before_anything_else() {
        let right = "&iss=https%3A%2F%2Fas.example%2Ft";
        let code = || Callback::Code(Secret::new("c0de"));
        let mismatch = || {
            Callback::Refused(Fault::IssMismatch {
                expected: "https://as.example/t".to_owned(),
            })
        };
        for (supported, iss, expected) in [
            (true, right, code()),
            (true, "", Callback::Refused(Fault::IssMissing)),
            (false, right, code()),
            (false, "", code()),
            (true, "&iss=https://evil.example", mismatch()),
            (false, "&iss=https://evil.example", mismatch()),
            (true, "&iss=https://as.example/t/", mismatch()),
            (true, "&iss=https://AS.example/t", mismatch()),
            (true, "&iss=https://as.example:443/t", mismatch()),
            (true, "&iss=https://as.example/%2574", mismatch()),
            (true, "&iss=", mismatch()),
            (
                true,
                "&iss=https://as.example/t&iss=https://as.example/t",
                mismatch(),
            ),
        ] {
            for (rest, is_code) in [
                ("code=c0de", true),
                ("error=access_denied&error_description=CANARY", false),
            ] {
                let callback = format!("http://127.0.0.1:7777/cb?{rest}&state=st8{iss}");
                let found = read_callback(&callback, &pending(supported));
                if is_code || expected != code() {
                    assert_eq!(found, expected, "{supported} {iss}");
                    assert!(!format!("{found:?}").contains("CANARY"));
                } else {
                    assert!(
                        matches!(found, Callback::Refused(Fault::Refused(_))),
                        "{found:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn auth_32_another_state_is_somebody_elses() {
        for callback in [
            "http://127.0.0.1/cb?code=x",
            "http://127.0.0.1/cb?code=x&state=",
            "http://127.0.0.1/cb?code=x&state=other",
            "http://127.0.0.1/cb?code=x&state=st8&state=st8",
            "http://127.0.0.1/cb?error=access_denied",
            "",
            "c0de",
        ] {
            assert_eq!(
                read_callback(callback, &pending(false)),
                Callback::NotOurs,
                "{callback}"
            );
        }
        let long = format!("?state=st8&code={}", "x".repeat(MAX_CALLBACK_BYTES));
        assert_eq!(read_callback(&long, &pending(false)), Callback::NotOurs);
    }

    #[test]
    fn c200_a_pasted_address_or_query_is_read() {
        for callback in [
            "http://127.0.0.1:7777/cb?code=a%2Bb&state=st8#frag",
            "  code=a%2Bb&state=st8\n",
            "?state=st8&code=a%2Bb",
        ] {
            assert_eq!(
                read_callback(callback, &pending(false)),
                Callback::Code(Secret::new("a+b")),
                "{callback}"
            );
        }
    }

    #[test]
    fn an_error_comes_in_the_servers_words() {
        let found = read_callback(
            "?state=st8&error=access_denied&error_description=no%0Ast8-no",
            &pending(false),
        );
        let Callback::Refused(fault) = found else {
            panic!("{found:?}");
        };
        assert_eq!(fault.to_string(), "refused: access_denied (no st8-no)");
        assert_eq!(fault.advice(), Some("the login was declined"));
        for callback in ["?state=st8", "?state=st8&code=", "?state=st8&code=a&code=b"] {
            let found = read_callback(callback, &pending(false));
            assert!(
                matches!(found, Callback::Refused(Fault::Callback(_))),
                "{callback}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_without_the_state_is_a_code(text in "\\PC{0,80}") {
            prop_assert_eq!(read_callback(&text, &pending(false)), Callback::NotOurs);
        }
    }
}
