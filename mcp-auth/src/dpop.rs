//! Tokens that are bound to a key (RFC 9449): proofs for the token endpoint and for each request to the MCP server, and the
//! nonces that servers ask for.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use crate::document::Document;
use crate::error::Fault;
use crate::http::HttpResponse;
use crate::secret::Secret;
use crate::signing::SigningKey;
use crate::www_authenticate::TokenChallenge;

/// Origins whose nonces are kept.
pub const MAX_NONCES: usize = 64;
/// Bytes of a nonce that are accepted.
pub const MAX_NONCE_BYTES: usize = 1024;

const USE_NONCE: &str = "use_dpop_nonce";

/// Makes proofs with one key.
#[derive(Clone, Debug)]
pub struct DpopProver {
    key: SigningKey,
    /// By origin: the authorization server and the MCP server have nonces of their own.
    nonces: BTreeMap<String, Secret>,
}

/// What a response says about proofs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum DpopDecision {
    /// Nothing: the response stands.
    Settled,
    /// The request was refused only because of the nonce: send it again, once, with a new proof.
    Retry,
}

impl DpopProver {
    /// With a P-256 key.
    ///
    /// # Errors
    ///
    /// [`Fault::Signing`] for a key of another kind.
    pub fn new(key: SigningKey) -> Result<Self, Fault> {
        if key.public_jwk().is_none() {
            return Err(Fault::Signing("DPoP needs a P-256 key"));
        }
        Ok(Self {
            key,
            nonces: BTreeMap::new(),
        })
    }

    /// A proof for one request: what goes into its `DPoP` field. `random` makes it unique; `token` is the access token that
    /// the request carries, if it carries one. Each attempt needs a proof of its own.
    ///
    /// # Errors
    ///
    /// [`Fault::Signing`].
    pub fn proof(
        &self,
        method: &str,
        url: &Url,
        token: Option<&Secret>,
        now: u64,
        random: [u8; 16],
    ) -> Result<Secret, Fault> {
        let mut target = url.clone();
        target.set_query(None);
        target.set_fragment(None);
        let mut claims = json!({
            "jti": URL_SAFE_NO_PAD.encode(random), "htm": method, "htu": target.as_str(), "iat": now,
        });
        if let Some(nonce) = self.nonces.get(&origin(url)) {
            claims["nonce"] = nonce.reveal().into();
        }
        if let Some(token) = token {
            let hash = Sha256::digest(token.reveal());
            claims["ath"] = URL_SAFE_NO_PAD.encode(hash).into();
        }
        let mut header = Map::new();
        header.insert("typ".to_owned(), "dpop+jwt".into());
        header.extend(self.key.public_jwk().map(|jwk| ("jwk".to_owned(), jwk)));
        self.key.jwt(header, &claims)
    }

    /// Keeps the nonce of a response for the next proof, and says whether the request was refused for want of it. A nonce
    /// may come with any response, also with a success.
    ///
    /// Says [`Retry`](DpopDecision::Retry) only if there is a new nonce to retry with.
    pub fn handle_response(&mut self, url: &Url, response: &HttpResponse) -> DpopDecision {
        let nonce = response
            .header("dpop-nonce")
            .filter(|nonce| is_nonce(nonce))
            .map(Secret::from);
        let origin = origin(url);
        let is_new = nonce.is_some() && self.nonces.get(&origin) != nonce.as_ref();
        if let Some(nonce) = nonce {
            if self.nonces.len() >= MAX_NONCES && !self.nonces.contains_key(&origin) {
                self.nonces.pop_first();
            }
            self.nonces.insert(origin, nonce);
        }
        let refused = match response.status {
            400 => Document::parse(&response.body)
                .is_some_and(|document| document.text("error") == Some(USE_NONCE)),
            401 => TokenChallenge::read(response.headers("www-authenticate"))
                .is_some_and(|challenge| challenge.error.as_deref() == Some(USE_NONCE)),
            _ => false,
        };
        if refused && is_new {
            DpopDecision::Retry
        } else {
            DpopDecision::Settled
        }
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn is_nonce(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_NONCE_BYTES
        && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signing::tests::verified;

    fn prover() -> (DpopProver, SigningKey) {
        let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        (DpopProver::new(key.clone()).unwrap(), key)
    }

    #[test]
    fn a_proof_names_the_request_and_the_token() {
        let (prover, key) = prover();
        let url = Url::parse("https://h.example/mcp?key=SECRET#f").unwrap();
        let token = Secret::new("token");
        let proof = prover
            .proof("POST", &url, Some(&token), 1000, [7; 16])
            .unwrap();
        let (header, claims) = verified(proof.reveal(), &key);
        assert_eq!(
            header,
            json!({ "alg": "ES256", "typ": "dpop+jwt", "jwk": key.public_jwk() })
        );
        assert_eq!(
            claims,
            json!({
                "jti": "BwcHBwcHBwcHBwcHBwcHBw", "htm": "POST", "htu": "https://h.example/mcp", "iat": 1000,
                // The base64url of SHA-256 of "token".
                "ath": "PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A",
            })
        );
        let without = prover.proof("POST", &url, None, 1000, [8; 16]).unwrap();
        assert_eq!(verified(without.reveal(), &key).1.get("ath"), None);
    }

    #[test]
    fn a_nonce_is_asked_for_once_and_kept_per_origin() {
        let (mut prover, key) = prover();
        let server = Url::parse("https://as.example/token").unwrap();
        let other = Url::parse("https://h.example/mcp").unwrap();
        let refusal =
            HttpResponse::new(400, r#"{"error":"use_dpop_nonce"}"#).with_header("DPoP-Nonce", "n1");
        assert_eq!(
            prover.handle_response(&server, &refusal),
            DpopDecision::Retry
        );
        // Refused again with the same nonce: no third try.
        assert_eq!(
            prover.handle_response(&server, &refusal),
            DpopDecision::Settled
        );
        let nonce = |prover: &DpopProver, url: &Url| {
            let proof = prover.proof("POST", url, None, 1, [0; 16]).unwrap();
            verified(proof.reveal(), &key).1.get("nonce").cloned()
        };
        assert_eq!(nonce(&prover, &server), Some("n1".into()));
        assert_eq!(nonce(&prover, &other), None);
        let resource = HttpResponse::new(401, "")
            .with_header("WWW-Authenticate", r#"DPoP error="use_dpop_nonce""#)
            .with_header("DPoP-Nonce", "n2");
        assert_eq!(
            prover.handle_response(&other, &resource),
            DpopDecision::Retry
        );
        // A success may bring the next one.
        let success = HttpResponse::new(200, "{}").with_header("dpop-nonce", "n3");
        assert_eq!(
            prover.handle_response(&server, &success),
            DpopDecision::Settled
        );
        assert_eq!(nonce(&prover, &server), Some("n3".into()));
    }

    #[test]
    fn hostile_nonces_are_dropped_and_bounded() {
        let (mut prover, _) = prover();
        let url = Url::parse("https://as.example/token").unwrap();
        for nonce in ["", "a b", "é", "x".repeat(MAX_NONCE_BYTES + 1).as_str()] {
            let refusal = HttpResponse::new(400, r#"{"error":"use_dpop_nonce"}"#)
                .with_header("DPoP-Nonce", nonce);
            assert_eq!(
                prover.handle_response(&url, &refusal),
                DpopDecision::Settled
            );
        }
        for n in 0..2 * MAX_NONCES {
            let url = Url::parse(&format!("https://h{n}.example/")).unwrap();
            prover.handle_response(
                &url,
                &HttpResponse::new(200, "").with_header("DPoP-Nonce", "n"),
            );
        }
        assert_eq!(prover.nonces.len(), MAX_NONCES);
    }
}
