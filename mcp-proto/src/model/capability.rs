//! What client and server say they can do.
//!
//! Rules: VER-22 (open sets; presence decides), VER-23 (values are objects), C059 (odd values don't break anything).

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::members::Members;
use crate::version::Era;

/// The extension of long-running work, in the modern era.
pub const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// What this client declares. Nothing by default: only what the host really handles may stand here (EXT-06).
///
/// ```json
/// {"elicitation": {"form": {}}, "extensions": {"com.example/thing": {}}}
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientCapabilities(Map<String, Value>);

impl ClientCapabilities {
    /// Nothing declared.
    pub fn new() -> Self {
        Self::default()
    }

    /// Declares an extension with its settings (EXT-01, EXT-02).
    #[must_use]
    pub fn with_extension(
        self,
        identifier: impl Into<String>,
        settings: Map<String, Value>,
    ) -> Self {
        self.with("extensions", identifier, settings)
    }

    /// Declares an experimental capability.
    #[must_use]
    pub fn with_experimental(self, name: impl Into<String>, settings: Map<String, Value>) -> Self {
        self.with("experimental", name, settings)
    }

    /// Declares that forms are filled in (ELIC-01).
    #[must_use]
    pub fn with_form_elicitation(self) -> Self {
        self.with("elicitation", "form", Map::new())
    }

    /// Declares that persons are sent to web pages (ELIC-01).
    #[must_use]
    pub fn with_url_elicitation(self) -> Self {
        self.with("elicitation", "url", Map::new())
    }

    /// Declares that servers may ask the host's model (SAMP-01). Deprecated by the protocol.
    #[must_use]
    pub fn with_sampling(mut self) -> Self {
        self.0
            .entry("sampling")
            .or_insert_with(|| Value::Object(Map::new()));
        self
    }

    /// As [`ClientCapabilities::with_sampling`], with tools.
    #[must_use]
    pub fn with_sampling_tools(self) -> Self {
        self.with("sampling", "tools", Map::new())
    }

    /// Declares that servers may ask for roots; in the legacy era they are told of changes (ROOT-01). Deprecated by the
    /// protocol.
    #[must_use]
    pub fn with_roots(mut self) -> Self {
        self.0
            .insert("roots".to_owned(), serde_json::json!({"listChanged": true}));
        self
    }

    /// Whether a capability is declared: `roots`, or a part of one: `elicitation`, `form`.
    pub fn has(&self, name: &str, part: Option<&str>) -> bool {
        let value = self.0.get(name);
        value.is_some_and(|value| part.is_none_or(|part| value.get(part).is_some()))
    }

    /// Whether an extension is declared.
    pub fn has_extension(&self, identifier: &str) -> bool {
        self.has("extensions", Some(identifier))
    }

    /// What stands in the messages of an era: the modern one has no notification of changed roots (ROOT-05), and the tasks
    /// of the legacy one are not those of the extension (TASK-33).
    pub(crate) fn of_era(&self, era: Era) -> Self {
        let mut map = self.0.clone();
        match era {
            Era::Modern => {
                if let Some(roots) = map.get_mut("roots") {
                    *roots = Value::Object(Map::new());
                }
            }
            Era::Legacy => {
                let extensions = map.get_mut("extensions").and_then(Value::as_object_mut);
                let is_empty = extensions.is_some_and(|extensions| {
                    extensions.remove(TASKS_EXTENSION);
                    extensions.is_empty()
                });
                if is_empty {
                    map.remove("extensions");
                }
            }
        }
        Self(map)
    }

    fn with(mut self, group: &str, name: impl Into<String>, settings: Map<String, Value>) -> Self {
        let group = self
            .0
            .entry(group)
            .or_insert_with(|| Value::Object(Map::new()));
        if let Some(group) = group.as_object_mut() {
            group.insert(name.into(), Value::Object(settings));
        }
        self
    }
}

impl Serialize for ClientCapabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// What a server declared: names and raw values, unknown ones included.
#[derive(Clone, Debug, Default)]
pub struct ServerCapabilities(BTreeMap<String, Box<RawValue>>);

impl ServerCapabilities {
    /// Reads the `capabilities` member leniently: no object counts as nothing declared, `null` values as absent.
    pub(crate) fn read(raw: Option<&RawValue>) -> Self {
        let members = raw.and_then(|raw| Members::read(raw.get()));
        let entries = members.into_iter().flat_map(|members| members.0);
        Self(
            entries
                .filter(|(_, value)| value.get() != "null")
                .map(|(name, value)| (name.into_owned(), value.to_owned()))
                .collect(),
        )
    }

    /// Whether the capability was declared, with whatever value.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether a documented flag inside a capability is `true`: `flag("tools", "listChanged")`.
    pub fn flag(&self, name: &str, flag: &str) -> bool {
        self.value(name)
            .and_then(|raw| Members::read(raw.get())?.parse(flag))
            .unwrap_or(false)
    }

    /// Whether a [`CAPABILITY`](crate::method::Method::CAPABILITY) is there: a name, or a name, a dot and a flag.
    pub(crate) fn offers(&self, capability: &str) -> bool {
        let flag = capability.split_once('.');
        self.has(capability) || flag.is_some_and(|(name, flag)| self.flag(name, flag))
    }

    /// The raw value of a capability.
    pub fn value(&self, name: &str) -> Option<&RawValue> {
        self.0.get(name).map(AsRef::as_ref)
    }

    /// The declared names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Names whose values are no objects, which the protocol asks for.
    pub fn oddly_typed(&self) -> impl Iterator<Item = &str> {
        self.0
            .iter()
            .filter(|(_, value)| !value.get().starts_with('{'))
            .map(|(name, _)| name.as_str())
    }
}

impl Serialize for ServerCapabilities {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c059_odd_capabilities_are_read() {
        let cases: &[(&str, &[&str], &[&str], bool)] = &[
            (r#"{"tools":{"listChanged":true}}"#, &["tools"], &[], true),
            (r#"{"tools":{}}"#, &["tools"], &[], false),
            (r#"{"tools":{"listChanged":"yes"}}"#, &["tools"], &[], false),
            (
                r#"{"tools":true,"experimental":null,"x":{"y":1},"logging":[]}"#,
                &["logging", "tools", "x"],
                &["logging", "tools"],
                false,
            ),
            ("[]", &[], &[], false),
            ("null", &[], &[], false),
            ("7", &[], &[], false),
        ];
        for (text, names, odd, flag) in cases {
            let raw: &RawValue = serde_json::from_str(text).unwrap();
            let capabilities = ServerCapabilities::read(Some(raw));
            assert_eq!(capabilities.names().collect::<Vec<_>>(), *names, "{text}");
            assert_eq!(
                capabilities.oddly_typed().collect::<Vec<_>>(),
                *odd,
                "{text}"
            );
            assert_eq!(capabilities.flag("tools", "listChanged"), *flag, "{text}");
        }
        assert_eq!(ServerCapabilities::read(None).names().count(), 0);
    }

    #[test]
    fn each_era_has_its_own_capabilities() {
        let all = ClientCapabilities::new()
            .with_form_elicitation()
            .with_url_elicitation()
            .with_sampling()
            .with_sampling_tools()
            .with_roots()
            .with_extension(TASKS_EXTENSION, Map::new());
        let text = |era| serde_json::to_string(&all.of_era(era)).unwrap();
        assert_eq!(
            text(Era::Legacy),
            r#"{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":{"tools":{}}}"#
        );
        assert_eq!(
            text(Era::Modern),
            r#"{"elicitation":{"form":{},"url":{}},"extensions":{"io.modelcontextprotocol/tasks":{}},"roots":{},"sampling":{"tools":{}}}"#
        );
        assert!(all.has("sampling", Some("tools")) && all.has("roots", None));
        assert!(!all.has("sampling", Some("context")) && !all.has("tasks", None));
    }

    #[test]
    fn client_capabilities_are_objects_of_objects() {
        let capabilities = ClientCapabilities::new()
            .with_extension("a/b", Map::new())
            .with_experimental("c", Map::new());
        assert_eq!(
            serde_json::to_string(&capabilities).unwrap(),
            r#"{"experimental":{"c":{}},"extensions":{"a/b":{}}}"#
        );
    }
}
