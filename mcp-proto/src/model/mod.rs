//! The protocol's data types, one file per topic of the specification.
//!
//! Reading is lenient where real servers are sloppy, writing is strict. JSON whose exact text matters (schemas,
//! structured results, unknown content) stays raw. Optional members take `null` for absent, except where the protocol
//! tells the two apart.

pub mod capability;
pub mod completion;
pub mod content;
pub mod deprecated;
pub mod elicitation;
pub mod implementation;
pub mod lifecycle;
pub mod page;
pub mod progress;
pub mod prompt;
pub mod resource;
pub mod subscription;
pub mod task;
pub mod tool;

use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// `null` as the default value (C149), for members that are no `Option`.
pub(crate) fn null_as_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// `Some` for a member that is present, also as `null`.
pub(crate) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}
