//! Keys that sign, and signed JWTs (RFC 7515, RFC 7519): for client authentication and for DPoP.
//!
//! Signatures come from `ring`. An ECDSA signature needs a fresh random number; `ring` takes it from the operating system,
//! and that is the only thing in this crate that is not handed in.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Map, Value, json};

use crate::error::Fault;
use crate::secret::Secret;

/// A private key. Cheap to clone.
#[derive(Clone)]
pub struct SigningKey(Arc<Pair>);

enum Pair {
    P256(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

const UNREADABLE: Fault = Fault::Signing(
    "the key is neither P-256 nor RSA (2048 bits or more) in PKCS #8; convert it with `openssl pkcs8 -topk8 -nocrypt`",
);

impl SigningKey {
    /// Reads a key in PKCS #8, as PEM (`BEGIN PRIVATE KEY`) or as the bare base64 of it.
    ///
    /// # Errors
    ///
    /// [`Fault::Signing`], which does not quote the key.
    pub fn from_pkcs8(text: &Secret) -> Result<Self, Fault> {
        let base64: String = text
            .reveal()
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("-----"))
            .collect();
        let der = STANDARD.decode(base64).map_err(|_| UNREADABLE)?;
        let random = SystemRandom::new();
        let p256 = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &random);
        let pair = match p256 {
            Ok(pair) => Pair::P256(pair),
            Err(_) => Pair::Rsa(RsaKeyPair::from_pkcs8(&der).map_err(|_| UNREADABLE)?),
        };
        Ok(Self(Arc::new(pair)))
    }

    /// Makes a P-256 key, as the base64 of its PKCS #8 form: what [`from_pkcs8`](Self::from_pkcs8) reads and a store keeps.
    ///
    /// # Errors
    ///
    /// [`Fault::Signing`] if the operating system has no random numbers.
    pub fn generate() -> Result<Secret, Fault> {
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map(|document| Secret::new(STANDARD.encode(document.as_ref())))
            .map_err(|_| Fault::Signing("no random numbers"))
    }

    /// The name of its algorithm in JWTs: `ES256` or `RS256`.
    pub fn algorithm(&self) -> &'static str {
        match *self.0 {
            Pair::P256(_) => "ES256",
            Pair::Rsa(_) => "RS256",
        }
    }

    /// The public half as a JWK (RFC 7517), for P-256 only: others are not used for DPoP.
    pub(crate) fn public_jwk(&self) -> Option<Value> {
        let Pair::P256(pair) = &*self.0 else {
            return None;
        };
        // Uncompressed: 4, then both coordinates.
        let point = pair.public_key().as_ref();
        let (x, y) = point.get(1..)?.split_at_checked(32)?;
        let (x, y) = (URL_SAFE_NO_PAD.encode(x), URL_SAFE_NO_PAD.encode(y));
        Some(json!({ "crv": "P-256", "kty": "EC", "x": x, "y": y }))
    }

    /// A JWT with these claims. `header` comes beside `alg`.
    pub(crate) fn jwt(
        &self,
        mut header: Map<String, Value>,
        claims: &Value,
    ) -> Result<Secret, Fault> {
        header.insert("alg".to_owned(), self.algorithm().into());
        let header = URL_SAFE_NO_PAD.encode(Value::Object(header).to_string());
        let claims = URL_SAFE_NO_PAD.encode(claims.to_string());
        let message = format!("{header}.{claims}");
        let signature = URL_SAFE_NO_PAD.encode(self.sign(message.as_bytes())?);
        Ok(Secret::new(format!("{message}.{signature}")))
    }

    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Fault> {
        let random = SystemRandom::new();
        let failed = |_| Fault::Signing("no random numbers");
        match &*self.0 {
            Pair::P256(pair) => {
                let signature = pair.sign(&random, message).map_err(failed)?;
                Ok(signature.as_ref().to_vec())
            }
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature)
                    .map_err(failed)?;
                Ok(signature)
            }
        }
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.algorithm())
    }
}

/// How long a client assertion is valid, in seconds. It is used at once; the rest is for clocks that differ.
pub const ASSERTION_SECONDS: u64 = 120;

/// A statement by which a client authenticates (RFC 7523 2.2): for this authorization server, for a short time, once
/// (AUTH-60, B8: the audience is the issuer).
pub(crate) fn client_assertion(
    key: &SigningKey,
    key_id: Option<&str>,
    client_id: &str,
    issuer: &str,
    now: u64,
    jti: &Secret,
) -> Result<Secret, Fault> {
    let mut header = Map::new();
    header.insert("typ".to_owned(), "JWT".into());
    if let Some(key_id) = key_id {
        header.insert("kid".to_owned(), key_id.into());
    }
    let claims = json!({
        "iss": client_id, "sub": client_id, "aud": issuer, "jti": jti.reveal(),
        "iat": now, "exp": now.saturating_add(ASSERTION_SECONDS),
    });
    key.jwt(header, &claims)
}

#[cfg(test)]
pub(crate) mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    /// Header and claims of a JWT whose signature by this key is right.
    pub(crate) fn verified(jwt: &str, key: &SigningKey) -> (Value, Value) {
        let (message, signature) = jwt.rsplit_once('.').unwrap();
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        let Pair::P256(pair) = &*key.0 else {
            panic!("not P-256");
        };
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref())
            .verify(message.as_bytes(), &signature)
            .unwrap();
        let part =
            |text: &str| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).unwrap()).unwrap();
        let (header, claims) = message.split_once('.').unwrap();
        (part(header), part(claims))
    }

    #[test]
    fn auth_60_a_client_assertion_is_short_lived_and_for_one_issuer() {
        let key = SigningKey::from_pkcs8(&SigningKey::generate().unwrap()).unwrap();
        let jti = Secret::new("once");
        let jwt =
            client_assertion(&key, Some("k1"), "me", "https://as.example", 1000, &jti).unwrap();
        let (header, claims) = verified(jwt.reveal(), &key);
        assert_eq!(header, json!({ "alg": "ES256", "kid": "k1", "typ": "JWT" }));
        assert_eq!(
            claims,
            json!({ "iss": "me", "sub": "me", "aud": "https://as.example", "jti": "once", "iat": 1000, "exp": 1120 })
        );
    }

    #[test]
    fn keys_are_read_as_pem_and_never_shown() {
        let bare = SigningKey::generate().unwrap();
        let pem = format!(
            "-----BEGIN PRIVATE KEY-----\r\n{}\r\n-----END PRIVATE KEY-----\n",
            bare.reveal()
        );
        let key = SigningKey::from_pkcs8(&Secret::new(pem)).unwrap();
        assert_eq!(format!("{key:?}"), "SigningKey(ES256)");
        assert_eq!(key.public_jwk().unwrap()["crv"], "P-256");
        for text in [
            "",
            "CANARY",
            "-----BEGIN EC PRIVATE KEY-----\nQ0FOQVJZ\n-----END EC PRIVATE KEY-----",
        ] {
            let fault = SigningKey::from_pkcs8(&Secret::new(text)).unwrap_err();
            assert!(fault.to_string().contains("openssl pkcs8"), "{fault}");
            assert!(!fault.to_string().contains("CANARY"));
        }
    }
}
