//! What a client may ask to be told about, in the modern era.
//!
//! Rules: SUB-10, SUB-13.

use serde::{Deserialize, Serialize};

use crate::model::capability::ServerCapabilities;

/// What a subscription is about. Nothing by default.
///
/// ```json
/// {"toolsListChanged": true, "resourceSubscriptions": ["note://42"]}
/// ```
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ListenFilter {
    /// The list of tools changes.
    #[serde(
        skip_serializing_if = "is_false",
        deserialize_with = "super::null_as_default"
    )]
    pub tools_list_changed: bool,
    /// The list of prompts changes.
    #[serde(
        skip_serializing_if = "is_false",
        deserialize_with = "super::null_as_default"
    )]
    pub prompts_list_changed: bool,
    /// The list of resources changes.
    #[serde(
        skip_serializing_if = "is_false",
        deserialize_with = "super::null_as_default"
    )]
    pub resources_list_changed: bool,
    /// Resources that change, by URI.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "super::null_as_default"
    )]
    pub resource_subscriptions: Vec<String>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over a reference"
)]
fn is_false(flag: &bool) -> bool {
    !flag
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
        }
    }

    /// What this asks for and `granted` does not give.
    #[must_use]
    pub fn without(&self, granted: &Self) -> Self {
        let left = |uri: &&String| !granted.resource_subscriptions.contains(uri);
        Self {
            tools_list_changed: self.tools_list_changed && !granted.tools_list_changed,
            prompts_list_changed: self.prompts_list_changed && !granted.prompts_list_changed,
            resources_list_changed: self.resources_list_changed && !granted.resources_list_changed,
            resource_subscriptions: self
                .resource_subscriptions
                .iter()
                .filter(left)
                .cloned()
                .collect(),
        }
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
            r#"{"toolsListChanged":true,"promptsListChanged":null,"resourceSubscriptions":["b"],"x":1}"#,
        )
        .unwrap();
        let missing = wanted.without(&granted);
        assert_eq!(missing, ListenFilter::default().prompts().resource("a"));
        assert!(granted.without(&wanted).is_empty());
        assert_eq!(
            serde_json::to_string(&wanted).unwrap(),
            r#"{"toolsListChanged":true,"promptsListChanged":true,"resourceSubscriptions":["a","b"]}"#
        );
    }
}
