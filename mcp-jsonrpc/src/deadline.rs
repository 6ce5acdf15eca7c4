//! How long a request may take.

use std::fmt;
use std::time::Duration;

/// Two limits on one request: silence, and time in all.
///
/// `idle` starts again whenever the peer reports progress; `total` never does (VER-21). `None` means no limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Deadline {
    /// Longest time without an answer or progress.
    pub idle: Option<Duration>,
    /// Longest time in all.
    pub total: Option<Duration>,
}

impl Deadline {
    /// No limit at all.
    pub const NONE: Self = Self {
        idle: None,
        total: None,
    };

    /// Both limits.
    pub const fn new(idle: Option<Duration>, total: Option<Duration>) -> Self {
        Self { idle, total }
    }

    /// A limit on the time in all, whatever the peer reports.
    pub const fn total(limit: Duration) -> Self {
        Self {
            idle: None,
            total: Some(limit),
        }
    }
}

/// Which of the two limits ended a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a deadline has these two limits")]
pub enum TimeoutKind {
    /// Silence lasted too long.
    Idle,
    /// The whole took too long.
    Total,
}

/// A request ran out of time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TimedOut {
    /// Which limit.
    pub kind: TimeoutKind,
    /// The limit's value.
    pub limit: Duration,
}

impl TimedOut {
    /// A limit that was passed.
    pub const fn new(kind: TimeoutKind, limit: Duration) -> Self {
        Self { kind, limit }
    }
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            TimeoutKind::Idle => write!(f, "timed out after {:?} of silence", self.limit),
            TimeoutKind::Total => write!(f, "timed out after {:?} in all", self.limit),
        }
    }
}

impl std::error::Error for TimedOut {}
