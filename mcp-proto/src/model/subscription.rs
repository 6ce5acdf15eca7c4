//! What a client may ask to be told about, in the modern era.
//!
//! Rules: SUB-10, SUB-13.

use std::collections::BTreeMap;
use std::fmt;

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::model::capability::ServerCapabilities;

/// What a subscription is about. Nothing by default.
///
/// ```json
/// {"toolsListChanged": true, "resourceSubscriptions": ["note://42"]}
/// ```
#[derive(Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct ListenFilter {
    /// The list of tools changes.
    pub tools_list_changed: bool,
    /// The list of prompts changes.
    pub prompts_list_changed: bool,
    /// The list of resources changes.
    pub resources_list_changed: bool,
    /// Resources that change, by URI.
    pub resource_subscriptions: Vec<String>,
    /// Tasks that change, by id; with the tasks extension only (TASK-31).
    pub task_ids: Vec<String>,
    /// What extensions add: the member and what it asks for (EXT-09).
    pub extra: BTreeMap<String, Value>,
}

const TOOLS: &str = "toolsListChanged";
const PROMPTS: &str = "promptsListChanged";
const RESOURCES: &str = "resourcesListChanged";
const URIS: &str = "resourceSubscriptions";
const TASKS: &str = "taskIds";

/// Shows what is asked for, as it is on the wire.
impl fmt::Debug for ListenFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).unwrap_or_default())
    }
}

impl Serialize for ListenFilter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, wanted) in [
            (TOOLS, self.tools_list_changed),
            (PROMPTS, self.prompts_list_changed),
            (RESOURCES, self.resources_list_changed),
        ] {
            if wanted {
                map.serialize_entry(name, &true)?;
            }
        }
        for (name, list) in [
            (URIS, &self.resource_subscriptions),
            (TASKS, &self.task_ids),
        ] {
            if !list.is_empty() {
                map.serialize_entry(name, list)?;
            }
        }
        for (name, value) in &self.extra {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Leniently: what is not of its shape counts as absent.
impl<'de> Deserialize<'de> for ListenFilter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut members = BTreeMap::<String, Value>::deserialize(deserializer)?;
        let mut flag = |name| members.remove(name) == Some(Value::Bool(true));
        let (tools, prompts, resources) = (flag(TOOLS), flag(PROMPTS), flag(RESOURCES));
        let mut list = |name| {
            let list = members.remove(name).unwrap_or_default();
            serde_json::from_value(list).unwrap_or_default()
        };
        Ok(Self {
            tools_list_changed: tools,
            prompts_list_changed: prompts,
            resources_list_changed: resources,
            resource_subscriptions: list(URIS),
            task_ids: list(TASKS),
            extra: members,
        })
    }
}

impl ListenFilter {
    /// Changes of the list of tools.
    #[must_use]
    pub fn tools(mut self) -> Self {
        self.tools_list_changed = true;
        self
    }

    /// Changes of the list of prompts.
    #[must_use]
    pub fn prompts(mut self) -> Self {
        self.prompts_list_changed = true;
        self
    }

    /// Changes of the list of resources.
    #[must_use]
    pub fn resources(mut self) -> Self {
        self.resources_list_changed = true;
        self
    }

    /// Changes of one resource.
    #[must_use]
    pub fn resource(mut self, uri: impl Into<String>) -> Self {
        self.resource_subscriptions.push(uri.into());
        self
    }

    /// Changes of one task, with the tasks extension.
    #[must_use]
    pub fn task(mut self, id: impl Into<String>) -> Self {
        self.task_ids.push(id.into());
        self
    }

    /// What an extension adds.
    #[must_use]
    pub fn extension(mut self, member: impl Into<String>, wanted: Value) -> Self {
        self.extra.insert(member.into(), wanted);
        self
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The part of it that a server with these capabilities offers (SUB-21).
    #[must_use]
    pub fn promised_by(&self, capabilities: &ServerCapabilities) -> Self {
        let changes = |wanted: bool, list: &str| wanted && capabilities.flag(list, "listChanged");
        Self {
            tools_list_changed: changes(self.tools_list_changed, "tools"),
            prompts_list_changed: changes(self.prompts_list_changed, "prompts"),
            resources_list_changed: changes(self.resources_list_changed, "resources"),
            resource_subscriptions: if capabilities.flag("resources", "subscribe") {
                self.resource_subscriptions.clone()
            } else {
                Vec::new()
            },
            // No flag of the protocol promises these: the answer tells.
            task_ids: self.task_ids.clone(),
            extra: self.extra.clone(),
        }
    }

    /// What this asks for and `granted` does not give.
    #[must_use]
    pub fn without(&self, granted: &Self) -> Self {
        let left = |wanted: &[String], granted: &[String]| {
            let left = wanted.iter().filter(|entry| !granted.contains(entry));
            left.cloned().collect()
        };
        let extra = self.extra.iter();
        let extra = extra.filter(|(name, _)| !granted.extra.contains_key(*name));
        Self {
            tools_list_changed: self.tools_list_changed && !granted.tools_list_changed,
            prompts_list_changed: self.prompts_list_changed && !granted.prompts_list_changed,
            resources_list_changed: self.resources_list_changed && !granted.resources_list_changed,
            resource_subscriptions: left(
                &self.resource_subscriptions,
                &granted.resource_subscriptions,
            ),
            task_ids: left(&self.task_ids, &granted.task_ids),
            extra: extra
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        }
    }

    /// All that either asks for.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.tools_list_changed |= other.tools_list_changed;
        self.prompts_list_changed |= other.prompts_list_changed;
        self.resources_list_changed |= other.resources_list_changed;
        let uris = other.without(&self).resource_subscriptions;
        self.resource_subscriptions.extend(uris);
        let tasks = other.without(&self).task_ids;
        self.task_ids.extend(tasks);
        self.extra.extend(other.extra.clone());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_granted_is_told() {
        let wanted = ListenFilter::default()
            .tools()
            .prompts()
            .resource("a")
            .resource("b");
        let granted: ListenFilter = serde_json::from_str(
            r#"{"toolsListChanged":true,"promptsListChanged":null,"resourceSubscriptions":["b"],"taskIds":7,"x":1}"#,
        )
        .unwrap();
        let missing = wanted.without(&granted);
        assert_eq!(missing, ListenFilter::default().prompts().resource("a"));
        let beyond = ListenFilter::default().extension("x", 1.into());
        assert_eq!(granted.without(&wanted), beyond);
        assert_eq!(missing.and(&granted).without(&wanted), beyond);
        let tasks = ListenFilter::default().task("t").extension("x", 2.into());
        assert_eq!(
            serde_json::to_string(&tasks).unwrap(),
            r#"{"taskIds":["t"],"x":2}"#
        );
        assert_eq!(
            serde_json::to_string(&wanted).unwrap(),
            r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a","b"]}"#
        );
    }
}
