//! Proof key for code exchange, S256 only (RFC 7636, AUTH-30).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::secret::Secret;

/// The secret half of a proof key: 43 characters.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Verifier(Secret);

impl Verifier {
    /// From 32 random bytes.
    pub fn new(random: [u8; 32]) -> Self {
        Self(Secret::new(URL_SAFE_NO_PAD.encode(random)))
    }

    /// The half that goes to the token endpoint.
    pub fn secret(&self) -> &Secret {
        &self.0
    }

    /// The half that goes into the authorization request, with `code_challenge_method=S256`.
    pub fn challenge(&self) -> String {
        URL_SAFE_NO_PAD.encode(Sha256::digest(self.0.reveal()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes and values of RFC 7636, appendix B.
    #[test]
    fn auth_30_the_example_of_the_rfc() {
        let bytes = [
            116, 24, 223, 180, 151, 153, 224, 37, 79, 250, 96, 125, 216, 173, 187, 186, 22, 212,
            37, 77, 105, 214, 191, 240, 91, 88, 5, 88, 83, 132, 141, 121,
        ];
        let verifier = Verifier::new(bytes);
        assert_eq!(
            verifier.secret().reveal(),
            "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
        );
        assert_eq!(
            verifier.challenge(),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
        assert!(!format!("{verifier:?}").contains("dBjf"));
    }
}
