//! Tools: listing and calling them.
//!
//! Rules: TOOL-02 to TOOL-16, C085 (arguments are always an object), C144 to C146 (schemas stay text), C149, C152.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::content::ContentBlock;
use super::page::ListEntry;
use super::task::TaskRequest;

/// A tool that a server offers.
///
/// ```json
/// {"name": "add", "description": "Add two numbers",
///  "inputSchema": {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]}}
/// ```
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Tool {
    /// The name to call it by; compared exactly, any characters (TOOL-08).
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does, written by the server: untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, exactly as it came (TOOL-06).
    #[serde(default = "any_object")]
    pub input_schema: Box<RawValue>,
    /// JSON Schema of the structured result, exactly as it came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Box<RawValue>>,
    /// Hints about what it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Icons, raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<Box<RawValue>>,
    /// 2025-11-25: how it may be run, raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<Box<RawValue>>,
    /// Anything else that the server attached, raw.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

/// The schema of a tool that came without one.
fn any_object() -> Box<RawValue> {
    RawValue::from_string(r#"{"type":"object"}"#.to_owned()).unwrap_or_default()
}

impl Tool {
    /// The name to show: title, else the annotations' title, else the name (TOOL-07).
    pub fn display_name(&self) -> &str {
        let annotated = self
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.title.as_deref());
        self.title.as_deref().or(annotated).unwrap_or(&self.name)
    }
}

/// Hints about a tool. A server can write anything here: never decide on safety by them alone (TOOL-10).
///
/// ```json
/// {"readOnlyHint": true, "openWorldHint": false}
/// ```
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// Whether its changes may destroy something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Whether calling it again with the same arguments changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// Whether it reaches things outside the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

impl ToolAnnotations {
    /// [`ToolAnnotations::read_only_hint`], `false` unless said.
    pub fn is_read_only(&self) -> bool {
        self.read_only_hint.unwrap_or(false)
    }

    /// [`ToolAnnotations::destructive_hint`], `true` unless said; never for a read-only tool.
    pub fn is_destructive(&self) -> bool {
        !self.is_read_only() && self.destructive_hint.unwrap_or(true)
    }

    /// [`ToolAnnotations::idempotent_hint`], `false` unless said; always for a read-only tool.
    pub fn is_idempotent(&self) -> bool {
        self.is_read_only() || self.idempotent_hint.unwrap_or(false)
    }

    /// [`ToolAnnotations::open_world_hint`], `true` unless said.
    pub fn is_open_world(&self) -> bool {
        self.open_world_hint.unwrap_or(true)
    }
}

impl ListEntry for Tool {
    const KIND: &'static str = "tool";
    const MEMBER: &'static str = "tools";
    const KEY: &'static str = "name";

    fn key(&self) -> &str {
        &self.name
    }
}

/// Parameters of `tools/call`.
///
/// ```json
/// {"name": "add", "arguments": {"a": 2, "b": 3}}
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CallToolParams<'a> {
    /// Which tool.
    pub name: Cow<'a, str>,
    /// The arguments: always an object, `{}` for none (C085).
    pub arguments: Cow<'a, RawValue>,
    /// Whether it is to be run as a task; 2025-11-25 only (TASK-33).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskRequest>,
}

impl<'a> CallToolParams<'a> {
    /// A call with arguments; `null` becomes `{}`. `None` when they are neither an object nor `null` (TOOL-11).
    pub fn new(name: impl Into<Cow<'a, str>>, arguments: &'a RawValue) -> Option<Self> {
        let arguments = match arguments.get().as_bytes().first() {
            Some(b'{') => Cow::Borrowed(arguments),
            _ if arguments.get() == "null" => {
                Cow::Owned(RawValue::from_string("{}".to_owned()).unwrap_or_default())
            }
            _ => return None,
        };
        Some(Self {
            name: name.into(),
            arguments,
            task: None,
        })
    }
}

/// Result of `tools/call`.
///
/// ```json
/// {"content": [{"type": "text", "text": "5"}], "structuredContent": {"sum": 5}, "isError": false}
/// ```
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallToolResult {
    /// What the tool says, in order. Missing counts as empty (C152).
    pub content: Vec<ContentBlock>,
    /// The structured result, exactly as it came. `None` when it is absent; a present `null` is `Some("null")` (TOOL-16).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_content: Option<Box<RawValue>>,
    /// Whether the tool failed. That is a result for the model to read, not a failure of the call (TOOL-12).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// Anything else that the server attached, raw.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

impl CallToolResult {
    /// Reads a result. A content block that can't be read stays raw; the others are good all the same.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Wire<'a> {
            #[serde(default, borrow)]
            content: Option<&'a RawValue>,
            #[serde(default, deserialize_with = "super::present")]
            structured_content: Option<Box<RawValue>>,
            #[serde(default)]
            is_error: Option<bool>,
            #[serde(rename = "_meta", default)]
            meta: Option<Box<RawValue>>,
        }
        // The derived reader would also take an array of the members in order.
        if !text.trim_ascii_start().starts_with('{') {
            return Err("it is no object".to_owned());
        }
        let wire: Wire<'_> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let blocks: Vec<&RawValue> = match wire.content {
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| "content is no array")?,
            None => Vec::new(),
        };
        Ok(Self {
            content: blocks
                .into_iter()
                .map(|raw| ContentBlock::read(raw.get()))
                .collect(),
            structured_content: wire.structured_content,
            is_error: wire.is_error.unwrap_or(false),
            meta: wire.meta,
        })
    }

    /// Parses the structured result into a type; `None` when there is none.
    ///
    /// # Errors
    /// When it does not have the shape of `T`.
    pub fn structured<'a, T: Deserialize<'a>>(&'a self) -> Option<Result<T, serde_json::Error>> {
        self.structured_content
            .as_ref()
            .map(|raw| serde_json::from_str(raw.get()))
    }

    /// All text blocks, joined by line breaks.
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|block| match block {
            ContentBlock::Text(text) => Some(text.text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::page::Page;

    #[test]
    fn c149_nulls_are_absent_and_c144_one_bad_tool_spoils_nothing() {
        let page = Page::<Tool>::read(
            r#"{"tools":[
                {"name":"t","description":null,"inputSchema":{"type":"object"},"annotations":null,"_meta":null},
                {"description":"no name"},
                {"name":"odd","inputSchema":true},
                {"name":"x","annotations":{"readOnlyHint":"yes"}},
                {"name":"bare"}],"nextCursor":null}"#,
        )
        .unwrap();
        let names: Vec<_> = page.entries.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["t", "odd", "bare"]);
        assert_eq!(page.entries[1].input_schema.get(), "true");
        assert_eq!(page.entries[2].input_schema.get(), r#"{"type":"object"}"#);
        assert!(page.entries[0].meta.is_none() && page.next_cursor.is_none());
        let skipped: Vec<_> = page
            .skipped
            .iter()
            .map(|skipped| skipped.key.as_deref())
            .collect();
        assert_eq!(skipped, [None, Some("x")]);
    }

    #[test]
    fn c146_schemas_keep_their_text() {
        let schema = r##"{ "definitions":{"A":{}}, "z":1.0e2, "a":12345678901234567890123, "$ref":"#/definitions/A" }"##;
        let page = Page::<Tool>::read(&format!(
            r#"{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}"#
        ))
        .unwrap();
        assert_eq!(page.entries[0].input_schema.get(), schema);
    }

    #[test]
    fn results_are_read_leniently() {
        let cases = [
            ("{}", 0, None, false),
            (
                r#"{"content":[],"structuredContent":{"a":1}}"#,
                0,
                Some(r#"{"a":1}"#),
                false,
            ), // C152
            (
                r#"{"content":null,"structuredContent":null,"isError":null}"#,
                0,
                Some("null"),
                false,
            ), // TOOL-16
            (
                r#"{"isError":true,"content":[],"structuredContent":{"code":42}}"#,
                0,
                Some(r#"{"code":42}"#),
                true,
            ), // C153
            (
                r#"{"content":[{"type":"text","text":"a"},{"type":"hologram","v":1},{"type":"text"}]}"#,
                3,
                None,
                false,
            ),
        ];
        for (text, blocks, structured, is_error) in cases {
            let result = CallToolResult::read(text).unwrap();
            assert_eq!(result.content.len(), blocks, "{text}");
            assert_eq!(
                result.structured_content.as_deref().map(RawValue::get),
                structured,
                "{text}"
            );
            assert_eq!(result.is_error, is_error, "{text}");
        }
        for text in ["[]", "7", r#"{"content":{}}"#] {
            assert!(CallToolResult::read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn c085_arguments_are_always_an_object() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        let encoded = |text| {
            let raw = raw(text);
            CallToolParams::new("t", &raw).map(|params| serde_json::to_string(&params).unwrap())
        };
        assert_eq!(
            encoded("null").as_deref(),
            Some(r#"{"name":"t","arguments":{}}"#)
        );
        assert_eq!(
            encoded(r#"{"a":1}"#).as_deref(),
            Some(r#"{"name":"t","arguments":{"a":1}}"#)
        );
        assert_eq!(encoded("[1]"), None);
    }
}
