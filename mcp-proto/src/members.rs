//! The members of a JSON object in the order they came, values raw.
//!
//! `serde_json::Map` sorts its keys and parses its values; where the text must survive, this keeps it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The members of one object.
#[derive(Debug)]
pub(crate) struct Members<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads an object; `None` for any other JSON value.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The value of the first member with this name. `null` counts as absent (C149).
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.get_present(name).filter(|raw| raw.get() != "null")
    }

    /// As [`Members::get`], with `null` present.
    pub(crate) fn get_present(&self, name: &str) -> Option<&'a RawValue> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, raw)| *raw)
    }

    /// The value of the last member with this name: the one that counts for most parsers.
    pub(crate) fn last(&self, name: &str) -> Option<&'a RawValue> {
        let mut named = self.0.iter().rev().filter(|(key, _)| key == name);
        named.next().map(|(_, raw)| *raw)
    }

    /// A member as text; `None` when it is absent or no string.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.parse(name)
    }

    /// A member as `T`; `None` when it is absent or not of that shape.
    pub(crate) fn parse<T: Deserialize<'a>>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor;

        impl<'de> Visitor<'de> for ObjectVisitor {
            type Value = Vec<(Cow<'de, str>, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(key) = map.next_key::<Key<'de>>()? {
                    members.push((key.0, map.next_value()?));
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(ObjectVisitor).map(Self)
    }
}

/// A key that borrows where it can: `Cow` alone would always copy.
#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);
