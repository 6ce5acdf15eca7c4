//! Log messages of servers. Deprecated by the protocol in 2026-07-28 (DEP-03); still sent by servers of every version.
//!
//! Rules: LOG-05 (levels), LOG-08 (untrusted text).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// How grave a log message is, in the order of RFC 5424 turned upside down: `Debug` is the least.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
#[expect(clippy::exhaustive_enums, reason = "the eight levels of syslog")]
pub enum LoggingLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl fmt::Display for LoggingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Parameters of `logging/setLevel`.
///
/// ```json
/// {"level": "warning"}
/// ```
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct SetLevelParams {
    /// The lowest level that is sent.
    pub level: LoggingLevel,
}

impl SetLevelParams {
    /// This level and graver ones.
    pub fn new(level: LoggingLevel) -> Self {
        Self { level }
    }
}

/// Parameters of `notifications/message`.
///
/// ```json
/// {"level": "warning", "logger": "db", "data": {"retries": 3}}
/// ```
#[derive(Clone, Debug, Deserialize, Serialize)]
#[non_exhaustive]
pub struct LogMessage {
    /// How grave.
    pub level: LoggingLevel,
    /// Which part of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// Anything; often a string. Untrusted.
    #[serde(
        default,
        deserialize_with = "crate::model::present",
        skip_serializing_if = "Option::is_none"
    )]
    pub data: Option<Box<RawValue>>,
}
