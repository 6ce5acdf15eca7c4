//! Roots: folders that a host tells servers to work in. Deprecated by the protocol in 2026-07-28 (DEP-03).
//!
//! Rules: ROOT-01 to ROOT-06. Roots are guidance: they keep no server from anything.

use serde::Serialize;
use thiserror::Error;

/// A folder or file to work in.
///
/// ```json
/// {"uri": "file:///srv/notes", "name": "notes"}
/// ```
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Root {
    /// Its address: a `file://` URI.
    pub uri: String,
    /// A name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Why something can't be a root.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum InvalidRoot {
    /// It is no `file://` URI (ROOT-04).
    #[error("{uri:?} is no root: only file:// URIs are")]
    NotAFile {
        /// What it is.
        uri: String,
    },
    /// It goes up, so that nobody knows where it leads (ROOT-06).
    #[error("{uri:?} is no root: it has \"..\" in it")]
    GoesUp {
        /// What it is.
        uri: String,
    },
}

impl Root {
    /// A root at this `file://` URI.
    ///
    /// # Errors
    /// When it is none, or goes up.
    pub fn new(uri: impl Into<String>) -> Result<Self, InvalidRoot> {
        let uri = uri.into();
        if !uri.starts_with("file://") {
            return Err(InvalidRoot::NotAFile { uri });
        }
        let goes_up = uri
            .split('/')
            .any(|part| part.to_ascii_lowercase().replace("%2e", ".") == "..");
        if goes_up {
            return Err(InvalidRoot::GoesUp { uri });
        }
        Ok(Self { uri, name: None })
    }

    /// Names it for people.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// The answer to `roots/list`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ListRootsResult<'a> {
    /// The roots.
    pub roots: &'a [Root],
}

impl<'a> ListRootsResult<'a> {
    /// With these roots.
    pub fn new(roots: &'a [Root]) -> Self {
        Self { roots }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_04_and_06_only_plain_files_are_roots() {
        for good in ["file:///srv/notes", "file:///a..b/c", "file:///"] {
            assert!(Root::new(good).is_ok(), "{good}");
        }
        for bad in [
            "/srv/notes",
            "https://example.com/",
            "file:///srv/../etc",
            "file:///srv/%2E%2e/etc",
        ] {
            let error = Root::new(bad).unwrap_err().to_string();
            assert!(error.contains(bad), "{error}");
        }
        let roots = [Root::new("file:///a").unwrap().with_name("A")];
        assert_eq!(
            serde_json::to_string(&ListRootsResult::new(&roots)).unwrap(),
            r#"{"roots":[{"uri":"file:///a","name":"A"}]}"#
        );
    }
}
