//! Who is on either side.

use serde::{Deserialize, Serialize};

/// Name and version of a client or server.
///
/// ```json
/// {"name": "harbor", "version": "0.3.0", "title": "Harbor"}
/// ```
///
/// What a server says about itself is for display and logs; no behaviour may depend on it (VER-37).
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Implementation {
    /// The program's name.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub name: String,
    /// The program's version.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub version: String,
    /// A name for people, from 2025-06-18.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

impl Implementation {
    /// A name and a version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            version: version.into(),
            title: None,
        }
    }
}
