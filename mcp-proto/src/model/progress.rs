//! Progress of a request in flight.
//!
//! Rules: PROG-01 to PROG-04.

use serde::Deserialize;

/// Parameters of `notifications/progress`, without the token.
///
/// ```json
/// {"progressToken": 7, "progress": 3, "total": 10, "message": "7 left"}
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[non_exhaustive]
pub struct Progress {
    /// How far; it grows from one report to the next.
    pub progress: f64,
    /// How far it will go, if that is known.
    #[serde(default)]
    pub total: Option<f64>,
    /// What is being done, from 2025-03-26. Untrusted text.
    #[serde(default)]
    pub message: Option<String>,
}
