//! Values that must not be shown (C222). Texts that are shown are freed of them by `mcp_client::Redactor`.

use std::fmt;

/// A value that no `Debug` prints.
#[derive(Clone, Default, Eq, PartialEq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself: for the server, and for the fingerprint, nothing else.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c222_debug_shows_nothing() {
        assert_eq!(format!("{:?}", Some(Secret::new("hunter22"))), "Some(***)");
    }
}
