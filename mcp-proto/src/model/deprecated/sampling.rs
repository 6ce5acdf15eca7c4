//! Sampling: a server asks the host's model. Deprecated by the protocol in 2026-07-28 (DEP-03).
//!
//! Rules: SAMP-01 to SAMP-14.
//!
//! ```json
//! {"messages": [{"role": "user", "content": {"type": "text", "text": "Name a tree."}}], "maxTokens": 50}
//! ```

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::members::Members;
use crate::model::content::ContentBlock;
use crate::model::prompt::Role;
use crate::model::tool::Tool;
use crate::version::ProtocolVersion;

/// `sampling/createMessage`: what to ask the model. Written by the server: untrusted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CreateMessageParams {
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// Which model the server would like; the host decides (SAMP-04).
    pub model_preferences: ModelPreferences,
    /// The system prompt that it would like; the host may change it.
    pub system_prompt: Option<String>,
    /// What of the servers' context it would like to be included, as it came. Deprecated since 2025-11-25.
    pub include_context: Option<String>,
    /// The temperature that it would like.
    pub temperature: Option<f64>,
    /// Most tokens to generate (SAMP-03).
    pub max_tokens: u64,
    /// Texts that end the generation.
    pub stop_sequences: Vec<String>,
    /// For the model's provider, raw.
    pub metadata: Option<Box<RawValue>>,
    /// Tools of this question alone; the server runs them (SAMP-08). `None` when it has none. From 2025-11-25.
    pub tools: Option<Vec<Tool>>,
    /// Whether the model is to use a tool (SAMP-10). From 2025-11-25.
    pub tool_choice: Option<ToolChoice>,
}

/// A message of a conversation with a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SamplingMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said; one block before 2025-11-25.
    pub content: Vec<SamplingContent>,
    /// `_meta`, raw: to be kept for later rounds (SAMP-11).
    pub meta: Option<Box<RawValue>>,
}

/// A block of such a message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SamplingContent {
    /// Text, an image, sound.
    Block(ContentBlock),
    /// The model wants a tool to be run.
    ToolUse(ToolUse),
    /// What a tool said, as it came.
    ToolResult(ToolResult),
}

/// `tool_use`: the model wants a tool to be run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolUse {
    /// Ties it to its result.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: an object.
    pub input: Box<RawValue>,
    /// `_meta`, raw.
    pub meta: Option<Box<RawValue>>,
}

impl ToolUse {
    /// A use of a tool; `input` must be an object.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: Box<RawValue>) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            input,
            meta: None,
        }
    }
}

/// `tool_result`: what a tool said.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolResult {
    /// The use that it answers.
    pub tool_use_id: String,
    /// What it said.
    pub content: Vec<ContentBlock>,
    /// Whether the tool failed.
    pub is_error: bool,
    /// The block as it came: with its structured content and `_meta` (SAMP-11).
    pub raw: Box<RawValue>,
}

/// What a server would like of a model.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Parts of model names, the best first (SAMP-04).
    pub hints: Vec<String>,
    /// How much a low price matters, from 0 to 1.
    pub cost_priority: Option<f64>,
    /// How much speed matters, from 0 to 1.
    pub speed_priority: Option<f64>,
    /// How much ability matters, from 0 to 1.
    pub intelligence_priority: Option<f64>,
}

impl ModelPreferences {
    /// The first of these models that a hint fits, the hints in their order; `None` when none fits (SAMP-04).
    pub fn choose<'a>(&self, models: &[&'a str]) -> Option<&'a str> {
        self.hints.iter().find_map(|hint| {
            let fits = |model: &&&str| model.contains(hint.as_str());
            models.iter().find(fits).copied()
        })
    }
}

/// Whether the model is to use a tool.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must not.
    None,
    /// It must.
    Required,
}

impl CreateMessageParams {
    /// Reads the parameters, and checks that uses of tools and their results belong together (SAMP-09).
    ///
    /// # Errors
    /// A fragment that says what is wrong.
    pub fn read(params: &str) -> Result<Self, String> {
        let members = Members::read(params).ok_or("the parameters are no object")?;
        let messages: Vec<&RawValue> = members
            .parse("messages")
            .ok_or("messages is missing, or no list")?;
        let messages: Vec<_> = messages
            .into_iter()
            .map(SamplingMessage::read)
            .collect::<Result<_, _>>()?;
        check_tool_results(&messages)?;
        let tools = match members.get("tools") {
            Some(raw) => {
                Some(serde_json::from_str(raw.get()).map_err(|error| format!("tools: {error}"))?)
            }
            None => None,
        };
        Ok(Self {
            messages,
            model_preferences: members
                .get("modelPreferences")
                .map_or_else(ModelPreferences::default, ModelPreferences::read),
            system_prompt: members.text("systemPrompt"),
            include_context: members.text("includeContext"),
            temperature: members.parse("temperature"),
            max_tokens: members
                .parse::<f64>("maxTokens")
                .filter(|count| *count >= 0.0)
                .ok_or("maxTokens is missing, or no number")? as u64,
            stop_sequences: members.parse("stopSequences").unwrap_or_default(),
            metadata: members.get("metadata").map(ToOwned::to_owned),
            tools,
            tool_choice: members.get("toolChoice").and_then(ToolChoice::read),
        })
    }

    /// Whether it needs a client that declared `sampling.tools` (SAMP-07).
    pub fn wants_tools(&self) -> bool {
        self.tools.is_some() || self.tool_choice.is_some()
    }
}

impl SamplingMessage {
    fn read(raw: &RawValue) -> Result<Self, String> {
        let members = Members::read(raw.get()).ok_or("a message is no object")?;
        let role = match Role::of(members.text("role").unwrap_or_default()) {
            Role::Unknown(_) => return Err("a message has no known role".to_owned()),
            known => known,
        };
        let content = members.get("content").ok_or("a message has no content")?;
        // One block, or several (SAMP-06).
        let content = match serde_json::from_str::<Vec<&RawValue>>(content.get()) {
            Ok(blocks) => blocks.into_iter().map(SamplingContent::read).collect(),
            Err(_) => vec![SamplingContent::read(content)],
        };
        Ok(Self {
            role,
            content,
            meta: members.get("_meta").map(ToOwned::to_owned),
        })
    }

    /// All text of it, one block a line.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| match content {
            SamplingContent::Block(ContentBlock::Text(text)) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl SamplingContent {
    fn read(raw: &RawValue) -> Self {
        Self::read_tool(raw).unwrap_or_else(|| Self::Block(ContentBlock::read(raw.get())))
    }

    fn read_tool(raw: &RawValue) -> Option<Self> {
        let members = Members::read(raw.get())?;
        let kind = members.text("type")?;
        match kind.as_str() {
            "tool_use" => Some(Self::ToolUse(ToolUse {
                id: members.text("id")?,
                name: members.text("name")?,
                input: members.get("input")?.to_owned(),
                meta: members.get("_meta").map(ToOwned::to_owned),
            })),
            "tool_result" => {
                let content: Vec<&RawValue> = members.parse("content").unwrap_or_default();
                Some(Self::ToolResult(ToolResult {
                    tool_use_id: members.text("toolUseId")?,
                    content: content
                        .into_iter()
                        .map(|block| ContentBlock::read(block.get()))
                        .collect(),
                    is_error: members.parse("isError").unwrap_or(false),
                    raw: raw.to_owned(),
                }))
            }
            _ => None,
        }
    }
}

impl Serialize for SamplingContent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Block(block) => block.serialize(serializer),
            Self::ToolResult(result) => result.raw.serialize(serializer),
            Self::ToolUse(tool_use) => {
                let mut map = serializer.serialize_map(None)?;
                map.serialize_entry("type", "tool_use")?;
                map.serialize_entry("id", &tool_use.id)?;
                map.serialize_entry("name", &tool_use.name)?;
                map.serialize_entry("input", &tool_use.input)?;
                if let Some(meta) = &tool_use.meta {
                    map.serialize_entry("_meta", meta)?;
                }
                map.end()
            }
        }
    }
}

impl ModelPreferences {
    fn read(raw: &RawValue) -> Self {
        let Some(members) = Members::read(raw.get()) else {
            return Self::default();
        };
        let hints: Vec<&RawValue> = members.parse("hints").unwrap_or_default();
        let name = |raw: &&RawValue| Members::read(raw.get())?.text("name");
        Self {
            hints: hints.iter().filter_map(name).collect(),
            cost_priority: members.parse("costPriority"),
            speed_priority: members.parse("speedPriority"),
            intelligence_priority: members.parse("intelligencePriority"),
        }
    }
}

impl ToolChoice {
    /// What is unknown counts as nothing said.
    fn read(raw: &RawValue) -> Option<Self> {
        match Members::read(raw.get())?.text("mode").as_deref() {
            Some("none") => Some(Self::None),
            Some("required") => Some(Self::Required),
            _ => Some(Self::Auto),
        }
    }
}

/// Each use of a tool is answered in the next message, which holds answers only (SAMP-09).
fn check_tool_results(messages: &[SamplingMessage]) -> Result<(), String> {
    let mut expected: Vec<&str> = Vec::new();
    for message in messages {
        let results: Vec<&str> = message
            .content
            .iter()
            .filter_map(|content| match content {
                SamplingContent::ToolResult(result) => Some(result.tool_use_id.as_str()),
                _ => None,
            })
            .collect();
        if !results.is_empty() && results.len() < message.content.len() {
            return Err("a message mixes tool results with other content".to_owned());
        }
        if let Some(missing) = expected.iter().find(|id| !results.contains(id)) {
            return Err(format!("the tool use {missing:?} has no result"));
        }
        if let Some(unasked) = results.iter().find(|id| !expected.contains(id)) {
            return Err(format!("the tool result {unasked:?} answers nothing"));
        }
        expected = message
            .content
            .iter()
            .filter_map(|content| match content {
                SamplingContent::ToolUse(tool_use) => Some(tool_use.id.as_str()),
                _ => None,
            })
            .collect();
    }
    if let Some(missing) = expected.first() {
        return Err(format!("the tool use {missing:?} has no result"));
    }
    Ok(())
}

/// The answer to `sampling/createMessage`: what the model said.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CreateMessageResult {
    /// What it said; at least one block.
    pub content: Vec<SamplingContent>,
    /// Which model said it.
    pub model: String,
    /// Why it stopped: `endTurn`, `stopSequence`, `maxTokens`, `toolUse`, or the provider's word.
    pub stop_reason: Option<String>,
}

impl CreateMessageResult {
    /// A model's text.
    pub fn text(model: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            content: vec![SamplingContent::Block(ContentBlock::text(text))],
            model: model.into(),
            stop_reason: Some("endTurn".to_owned()),
        }
    }

    /// A model's wish to use tools.
    pub fn tool_uses(model: impl Into<String>, uses: impl IntoIterator<Item = ToolUse>) -> Self {
        Self {
            content: uses.into_iter().map(SamplingContent::ToolUse).collect(),
            model: model.into(),
            stop_reason: Some("toolUse".to_owned()),
        }
    }

    /// Sets why the model stopped.
    #[must_use]
    pub fn with_stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.stop_reason = Some(reason.into());
        self
    }

    /// The result as JSON, for a version: one block alone, several as a list, which versions before 2025-11-25 don't have
    /// (SAMP-06).
    ///
    /// # Errors
    /// A fragment that says why the version can't have it.
    pub fn to_json(&self, version: &ProtocolVersion) -> Result<Box<RawValue>, String> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            role: &'static str,
            content: Box<RawValue>,
            model: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            stop_reason: Option<&'a str>,
        }
        let has_lists = *version >= ProtocolVersion::V2025_11_25;
        let content = match self.content.as_slice() {
            [] => return Err("the answer is empty".to_owned()),
            [SamplingContent::ToolUse(_), ..] if !has_lists => {
                return Err(format!("{version} knows no tools in sampling"));
            }
            [one] => serde_json::value::to_raw_value(one),
            several if has_lists => serde_json::value::to_raw_value(several),
            _ => return Err(format!("{version} takes one block of content")),
        };
        let wire = Wire {
            role: "assistant",
            content: content.map_err(|error| error.to_string())?,
            model: &self.model,
            stop_reason: self.stop_reason.as_deref(),
        };
        serde_json::value::to_raw_value(&wire).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: &serde_json::Value) -> Result<CreateMessageParams, String> {
        CreateMessageParams::read(&value.to_string())
    }

    fn user(content: serde_json::Value) -> serde_json::Value {
        json!({"role": "user", "content": content})
    }

    #[test]
    fn questions_of_every_version_are_read() {
        let text = json!({"type": "text", "text": "hi"});
        let asked = read(&json!({
            "messages": [user(text.clone()), {"role": "assistant", "content": [text, {"type": "image", "data": "", "mimeType": "image/png"}]}],
            "maxTokens": 100, "systemPrompt": "Be brief.", "temperature": 0.5, "stopSequences": ["END"],
            "includeContext": "none", "metadata": {"x": 1},
            "modelPreferences": {"hints": [{"name": "sonnet"}, {"name": "claude"}, {}], "costPriority": 0.2},
            "tools": [{"name": "add", "inputSchema": {"type": "object"}}], "toolChoice": {"mode": "required"}
        }))
        .unwrap();
        assert_eq!(asked.messages.len(), 2);
        assert_eq!(asked.messages[0].text(), "hi");
        assert_eq!(asked.messages[1].content.len(), 2);
        assert_eq!(asked.max_tokens, 100);
        assert_eq!(asked.tool_choice, Some(ToolChoice::Required));
        assert!(asked.wants_tools());
        // SAMP-04: in the order of the hints.
        let models = ["gpt", "claude-haiku", "claude-sonnet"];
        assert_eq!(
            asked.model_preferences.choose(&models),
            Some("claude-sonnet")
        );
        assert_eq!(asked.model_preferences.choose(&["gpt"]), None);
        let plain = read(&json!({"messages": [], "maxTokens": 1.0})).unwrap();
        assert!(!plain.wants_tools());
    }

    /// SAMP-09.
    #[test]
    fn tool_uses_and_results_belong_together() {
        let uses = |ids: &[&str]| {
            let uses = ids
                .iter()
                .map(|id| json!({"type": "tool_use", "id": id, "name": "t", "input": {}}));
            json!({"role": "assistant", "content": uses.collect::<Vec<_>>()})
        };
        let results = |ids: &[&str]| {
            let results = ids
                .iter()
                .map(|id| json!({"type": "tool_result", "toolUseId": id, "content": []}));
            user(results.collect())
        };
        let mixed = user(json!([
            {"type": "tool_result", "toolUseId": "1", "content": []},
            {"type": "text", "text": "and"}
        ]));
        let cases = [
            (vec![uses(&["1", "2"]), results(&["2", "1"])], ""),
            (vec![uses(&["1"])], "\"1\" has no result"),
            (
                vec![uses(&["1", "2"]), results(&["1"])],
                "\"2\" has no result",
            ),
            (vec![results(&["9"])], "\"9\" answers nothing"),
            (vec![uses(&["1"]), mixed], "mixes"),
        ];
        for (messages, expected) in cases {
            let outcome = read(&json!({"messages": messages, "maxTokens": 1}));
            let error = outcome.err().unwrap_or_default();
            assert_eq!(error.is_empty(), expected.is_empty(), "{error}");
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn bad_questions_are_told() {
        let cases = [
            (json!([]), "no object"),
            (json!({"maxTokens": 1}), "messages"),
            (json!({"messages": [7], "maxTokens": 1}), "no object"),
            (
                json!({"messages": [{"role": "system", "content": {}}], "maxTokens": 1}),
                "role",
            ),
            (
                json!({"messages": [{"role": "user"}], "maxTokens": 1}),
                "content",
            ),
            (json!({"messages": []}), "maxTokens"),
            (json!({"messages": [], "maxTokens": -1}), "maxTokens"),
            (json!({"messages": [], "maxTokens": 1, "tools": 7}), "tools"),
        ];
        for (value, expected) in cases {
            let error = read(&value).unwrap_err();
            assert!(error.contains(expected), "{value}: {error}");
        }
    }

    /// SAMP-05, SAMP-06.
    #[test]
    fn answers_fit_their_version() {
        let text = CreateMessageResult::text("m", "oak");
        let input = RawValue::from_string("{\"a\":1}".to_owned()).unwrap();
        let uses = CreateMessageResult::tool_uses("m", [ToolUse::new("1", "t", input)]);
        let mut both = text.clone();
        both.content.extend(uses.content.clone());
        let old = ProtocolVersion::V2025_06_18;
        let new = ProtocolVersion::V2025_11_25;
        assert_eq!(
            text.to_json(&old).unwrap().get(),
            r#"{"role":"assistant","content":{"type":"text","text":"oak"},"model":"m","stopReason":"endTurn"}"#
        );
        assert_eq!(
            both.to_json(&new).unwrap().get(),
            r#"{"role":"assistant","content":[{"type":"text","text":"oak"},{"type":"tool_use","id":"1","name":"t","input":{"a":1}}],"model":"m","stopReason":"endTurn"}"#
        );
        assert!(both.to_json(&old).unwrap_err().contains("one block"));
        assert!(uses.to_json(&old).unwrap_err().contains("no tools"));
        let mut none = text;
        none.content.clear();
        assert!(none.to_json(&new).unwrap_err().contains("empty"));
    }
}
