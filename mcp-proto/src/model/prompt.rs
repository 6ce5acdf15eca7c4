//! Prompts: listing and getting them.
//!
//! Rules: PROMPT-01 to PROMPT-06.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::content::ContentBlock;
use super::page::ListEntry;
use crate::members::Members;

/// A prompt that a server offers.
///
/// ```json
/// {"name": "greet", "description": "Greet somebody", "arguments": [{"name": "who", "required": true}]}
/// ```
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Prompt {
    /// The name to get it by.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for, written by the server: untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it takes.
    #[serde(
        default,
        deserialize_with = "super::null_as_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub arguments: Vec<PromptArgument>,
    /// Icons, raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<Box<RawValue>>,
    /// Anything else that the server attached, raw.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

impl Prompt {
    /// The name to show: title, else the name.
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }

    /// The required arguments that are not there (PROMPT-03).
    pub fn missing<'a>(
        &'a self,
        arguments: &'a BTreeMap<String, String>,
    ) -> impl Iterator<Item = &'a str> {
        self.arguments
            .iter()
            .filter(|argument| argument.is_required() && !arguments.contains_key(&argument.name))
            .map(|argument| argument.name.as_str())
    }
}

impl ListEntry for Prompt {
    const KIND: &'static str = "prompt";
    const MEMBER: &'static str = "prompts";
    const KEY: &'static str = "name";

    fn key(&self) -> &str {
        &self.name
    }
}

/// An argument of a prompt: always a text.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is, written by the server: untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it must be given; [`PromptArgument::is_required`] knows the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

impl PromptArgument {
    /// Whether it must be given: not unless said.
    pub fn is_required(&self) -> bool {
        self.required.unwrap_or(false)
    }
}

/// Parameters of `prompts/get`.
///
/// ```json
/// {"name": "greet", "arguments": {"who": "Ada"}}
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct GetPromptParams<'a> {
    /// Which prompt.
    pub name: Cow<'a, str>,
    /// The arguments: texts only (PROMPT-02).
    pub arguments: Cow<'a, BTreeMap<String, String>>,
}

impl<'a> GetPromptParams<'a> {
    /// A prompt with its arguments.
    pub fn new(name: impl Into<Cow<'a, str>>, arguments: &'a BTreeMap<String, String>) -> Self {
        Self {
            name: name.into(),
            arguments: Cow::Borrowed(arguments),
        }
    }
}

/// Result of `prompts/get`: untrusted, as all that a server writes (PROMPT-06).
///
/// ```json
/// {"messages": [{"role": "user", "content": {"type": "text", "text": "Say hello to Ada."}}]}
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GetPromptResult {
    /// What it is.
    pub description: Option<String>,
    /// The messages, in order.
    pub messages: Vec<PromptMessage>,
    /// Anything else that the server attached, raw.
    pub meta: Option<Box<RawValue>>,
}

/// One message of a prompt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: ContentBlock,
}

/// Who says something in a conversation with a model.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Role {
    /// The model.
    Assistant,
    /// The user.
    User,
    /// Anything else that a server wrote.
    Unknown(String),
}

impl Role {
    pub(crate) fn of(text: String) -> Self {
        match text.as_str() {
            "assistant" => Self::Assistant,
            "user" => Self::User,
            _ => Self::Unknown(text),
        }
    }

    /// The word on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Assistant => "assistant",
            Self::User => "user",
            Self::Unknown(text) => text,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl GetPromptResult {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let members = Members::read(text).ok_or("it is no object")?;
        let entries: Vec<&RawValue> = match members.get("messages") {
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| "messages is no array")?,
            None => return Err("it has no messages".to_owned()),
        };
        let mut messages = Vec::new();
        for entry in entries {
            let entry = Members::read(entry.get()).ok_or("a message is no object")?;
            let role = Role::of(entry.text("role").unwrap_or_default());
            let content = entry.get("content").ok_or("a message has no content")?;
            // One block each (PROMPT-04); where a server wrote several, each is a message.
            let blocks: Vec<&RawValue> = if content.get().starts_with('[') {
                serde_json::from_str(content.get()).map_err(|error| error.to_string())?
            } else {
                vec![content]
            };
            messages.extend(blocks.into_iter().map(|block| PromptMessage {
                role: role.clone(),
                content: ContentBlock::read(block.get()),
            }));
        }
        Ok(Self {
            description: members.text("description"),
            messages,
            meta: members.get("_meta").map(ToOwned::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_block_by_block() {
        let result = GetPromptResult::read(
            r#"{"description":"d","messages":[{"role":"user","content":{"type":"text","text":"a"}},
                {"role":"assistant","content":[{"type":"text","text":"b"},{"type":"odd"}]},
                {"role":"system","content":{"type":"text","text":"c"}}]}"#,
        )
        .unwrap();
        let shown: Vec<_> = result
            .messages
            .iter()
            .map(|message| {
                let text = match &message.content {
                    ContentBlock::Text(text) => text.text.as_str(),
                    _ => "?",
                };
                (message.role.as_str(), text)
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("user", "a"),
                ("assistant", "b"),
                ("assistant", "?"),
                ("system", "c")
            ]
        );
        for bad in [
            "[]",
            "{}",
            r#"{"messages":{}}"#,
            r#"{"messages":[{"role":"user"}]}"#,
        ] {
            assert!(GetPromptResult::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn prompt_03_missing_arguments_are_known() {
        let prompt: Prompt = serde_json::from_str(
            r#"{"name":"p","arguments":[{"name":"a","required":true},{"name":"b"},{"name":"c","required":true}]}"#,
        )
        .unwrap();
        let given = BTreeMap::from([("a".to_owned(), String::new())]);
        assert_eq!(prompt.missing(&given).collect::<Vec<_>>(), ["c"]);
    }
}
