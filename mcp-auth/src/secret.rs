//! Values that must not be shown: tokens, client secrets, codes, verifiers (SEC-12, C222).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that neither `Debug` nor `Display` prints.
///
/// Serialising it writes the value itself: that is for credential stores, and for nothing else.
#[derive(Clone, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct Secret(String);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself: for the wire and for a store.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The error of a wrong type would quote the value.
        String::deserialize(deserializer)
            .map(Self)
            .map_err(|_| serde::de::Error::custom("a secret is not a string"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c222_neither_debug_nor_display_shows_it() {
        let secret = Secret::new("hunter22");
        assert_eq!(format!("{secret} {:?}", Some(&secret)), "*** Some(***)");
    }

    #[test]
    fn a_store_gets_the_value() {
        let json = serde_json::to_string(&Secret::new("hunter22")).unwrap();
        assert_eq!(json, r#""hunter22""#);
        let back: Secret = serde_json::from_str(&json).unwrap();
        assert_eq!(back.reveal(), "hunter22");
    }

    #[test]
    fn c202_an_error_of_reading_does_not_quote_the_value() {
        let error = serde_json::from_str::<Secret>("12345678").unwrap_err();
        assert!(!error.to_string().contains("12345678"), "{error}");
    }
}
