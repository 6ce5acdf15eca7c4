//! Protocol versions and the two eras.
//!
//! Rules: VER-01 (opaque dated strings, exact match), VER-02 (the era is a property of the server).

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A protocol version: an opaque `YYYY-MM-DD` string, compared exactly.
///
/// Open: a version that this crate does not know can be held, shown and compared; [`ProtocolVersion::is_known`] tells.
#[derive(Clone, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct ProtocolVersion(Cow<'static, str>);

impl ProtocolVersion {
    /// `2024-11-05`, the first.
    pub const V2024_11_05: Self = Self(Cow::Borrowed("2024-11-05"));
    /// `2025-03-26`: Streamable HTTP, batches, tool annotations, audio.
    pub const V2025_03_26: Self = Self(Cow::Borrowed("2025-03-26"));
    /// `2025-06-18`: structured results, elicitation, no batches.
    pub const V2025_06_18: Self = Self(Cow::Borrowed("2025-06-18"));
    /// `2025-11-25`: URL elicitation, sampling tools, tasks. The newest with a handshake.
    pub const V2025_11_25: Self = Self(Cow::Borrowed("2025-11-25"));
    /// `2026-07-28`: stateless, metadata in every request, no handshake.
    pub const V2026_07_28: Self = Self(Cow::Borrowed("2026-07-28"));

    /// All versions this crate speaks, oldest first.
    pub const KNOWN: [Self; 5] = [
        Self::V2024_11_05,
        Self::V2025_03_26,
        Self::V2025_06_18,
        Self::V2025_11_25,
        Self::V2026_07_28,
    ];

    /// The newest version with a handshake: the one offered in `initialize` (VER-11).
    pub const NEWEST_LEGACY: Self = Self::V2025_11_25;

    /// The newest version without a handshake: the one a probe asks for.
    pub const NEWEST_MODERN: Self = Self::V2026_07_28;

    /// Any version string.
    pub fn new(version: impl Into<Cow<'static, str>>) -> Self {
        Self(version.into())
    }

    /// The string, as it stands on the wire.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this crate speaks it.
    pub fn is_known(&self) -> bool {
        Self::KNOWN.contains(self)
    }

    /// The era of a known version; an unknown one ranks by its date.
    pub fn era(&self) -> Era {
        if *self >= Self::V2026_07_28 {
            Era::Modern
        } else {
            Era::Legacy
        }
    }

    /// Whether an array of messages is to be accepted: up to 2025-03-26 (JR-20, JR-23).
    pub fn accepts_batches(&self) -> bool {
        *self <= Self::V2025_03_26
    }

    /// The known versions of one era, newest first.
    pub fn known_of(era: Era) -> impl Iterator<Item = Self> {
        Self::KNOWN
            .into_iter()
            .rev()
            .filter(move |version| version.era() == era)
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A peer's version string is untrusted text.
        f.write_str(&mcp_jsonrpc::clean_excerpt(
            self.0.as_bytes(),
            MAX_SHOWN_BYTES,
        ))
    }
}

/// How much of a version string is shown.
const MAX_SHOWN_BYTES: usize = 40;

/// Which of the two protocol designs a server speaks.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[expect(
    clippy::exhaustive_enums,
    reason = "code that handles both eras should notice a third"
)]
pub enum Era {
    /// A connection opened by an `initialize` handshake: up to 2025-11-25.
    Legacy,
    /// Metadata in every request, no handshake: from 2026-07-28.
    Modern,
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        })
    }
}

/// A list of versions for a message: `2025-11-25, 2025-06-18`, or `none`.
pub(crate) fn join(versions: &[ProtocolVersion]) -> String {
    if versions.is_empty() {
        return "none".to_owned();
    }
    versions
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eras_and_batches() {
        let cases = [
            ("2024-11-05", Era::Legacy, true, true),
            ("2025-03-26", Era::Legacy, true, true),
            ("2025-06-18", Era::Legacy, true, false),
            ("2025-11-25", Era::Legacy, true, false),
            ("2026-07-28", Era::Modern, true, false),
            ("1999-01-01", Era::Legacy, false, true),
            ("2030-01-01", Era::Modern, false, false),
        ];
        for (text, era, known, batches) in cases {
            let version = ProtocolVersion::new(text);
            assert_eq!(
                (version.era(), version.is_known(), version.accepts_batches()),
                (era, known, batches),
                "{text}"
            );
        }
        let modern: Vec<_> = ProtocolVersion::known_of(Era::Modern).collect();
        assert_eq!(modern, [ProtocolVersion::NEWEST_MODERN]);
        assert_eq!(
            ProtocolVersion::known_of(Era::Legacy).next(),
            Some(ProtocolVersion::NEWEST_LEGACY)
        );
    }
}
