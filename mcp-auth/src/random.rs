//! Random bytes, handed in: this crate makes no decisions of its own about entropy.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::secret::Secret;

/// A source of random bytes that nobody can guess. Any `FnMut(&mut [u8])` is one.
pub trait RandomBytes {
    /// Fills all of `bytes`.
    fn fill(&mut self, bytes: &mut [u8]);
}

impl<F: FnMut(&mut [u8])> RandomBytes for F {
    fn fill(&mut self, bytes: &mut [u8]) {
        self(bytes);
    }
}

/// A word of 256 random bits, in characters that need no escaping anywhere.
pub(crate) fn word(random: &mut dyn RandomBytes) -> Secret {
    let mut bytes = [0; 32];
    random.fill(&mut bytes);
    Secret::new(URL_SAFE_NO_PAD.encode(bytes))
}
