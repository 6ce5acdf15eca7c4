//! Taking known secrets out of text that a server wrote (D10).
//!
//! A server may print what it was given: a token in its error output, a banner with a key. What this client handed over
//! as a secret is replaced before such text becomes evidence, a diagnostic or a log line.

use std::fmt;

/// Shortest value that is replaced, in bytes. Shorter ones, such as `1` or `true`, stand in any text.
pub const MIN_REDACTED_BYTES: usize = 6;

/// Replaces known values by `***`.
#[derive(Clone, Default)]
pub struct Redactor(Vec<String>);

impl Redactor {
    /// A redactor for these values; those shorter than [`MIN_REDACTED_BYTES`] are left alone.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut values: Vec<_> = values
            .into_iter()
            .filter(|value| value.len() >= MIN_REDACTED_BYTES)
            .collect();
        // The longest first: one value may contain another.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self(values)
    }

    /// The text without the values.
    pub fn redact(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, value| {
            if text.contains(value) {
                text.replace(value, "***")
            } else {
                text
            }
        })
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Redactor({} values)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c222_known_values_are_replaced() {
        let redactor = Redactor::new([
            "s3cret-token".to_owned(),
            "s3cret-token-2".to_owned(),
            "1".to_owned(),
        ]);
        assert_eq!(
            redactor.redact("a s3cret-token-2, b s3cret-token, 1"),
            "a ***, b ***, 1"
        );
        assert_eq!(format!("{redactor:?}"), "Redactor(2 values)");
    }
}
