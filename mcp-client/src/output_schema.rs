//! Structured results, compared to what their tools promise.
//!
//! The result is delivered whatever comes of it: a note is all that a mismatch leaves (C157, TOOL-15). Nothing is fetched: a
//! schema that refers to another address can't be compared to.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use jsonschema::{PatternOptions, Validator};
use mcp_proto::model::tool::{CallToolResult, Tool};
use serde_json::Value;

/// Longest schema that is looked at, in bytes.
pub const MAX_OUTPUT_SCHEMA_BYTES: usize = 256 * 1024;

/// Longest structured result that is compared, in bytes.
pub const MAX_COMPARED_RESULT_BYTES: usize = 1024 * 1024;

/// Most schemas that are kept ready.
const MAX_KEPT: usize = 256;

/// Longest note, in bytes.
const MAX_NOTE_BYTES: usize = 512;

/// Schemas made ready, by tool, with the text that they are from.
#[derive(Default)]
pub(crate) struct OutputSchemas(Mutex<HashMap<String, Kept>>);

struct Kept {
    text: Box<str>,
    schema: Arc<Result<Validator, String>>,
}

impl OutputSchemas {
    /// What is to be said about a result; `None` if it fits, or there is nothing to compare.
    pub(crate) fn note(&self, tool: &Tool, result: &CallToolResult) -> Option<String> {
        let text = tool.output_schema.as_ref()?.get();
        // A tool that failed promises nothing.
        if result.is_error {
            return None;
        }
        let Some(structured) = &result.structured_content else {
            return Some(
                "the tool has an output schema, but its result has no structured part".to_owned(),
            );
        };
        let schema = self.ready(&tool.name, text);
        let schema = match &*schema {
            Ok(schema) => schema,
            Err(reason) => return Some(format!("the result can't be checked: {reason}")),
        };
        let length = structured.get().len();
        if length > MAX_COMPARED_RESULT_BYTES {
            return Some(format!(
                "the result is not checked: it has {length} bytes (limit {MAX_COMPARED_RESULT_BYTES})"
            ));
        }
        let value: Value = match serde_json::from_str(structured.get()) {
            Ok(value) => value,
            Err(error) => return Some(format!("the result can't be checked: {error}")),
        };
        // The first is enough; values are the tool's and not for a log.
        let error = schema.iter_errors(&value).next()?;
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { "/" } else { &*place };
        Some(shortened(&format!(
            "the structured result does not fit the tool's output schema: {} at {place}",
            error.masked()
        )))
    }

    fn ready(&self, tool: &str, text: &str) -> Arc<Result<Validator, String>> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = kept.get(tool).filter(|kept| &*kept.text == text) {
            return Arc::clone(&found.schema);
        }
        if kept.len() >= MAX_KEPT {
            kept.clear();
        }
        let schema = Arc::new(compile(text));
        let entry = Kept {
            text: text.into(),
            schema: Arc::clone(&schema),
        };
        kept.insert(tool.to_owned(), entry);
        schema
    }
}

fn compile(text: &str) -> Result<Validator, String> {
    if text.len() > MAX_OUTPUT_SCHEMA_BYTES {
        return Err(format!(
            "its schema has {} bytes (limit {MAX_OUTPUT_SCHEMA_BYTES})",
            text.len()
        ));
    }
    let schema: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    jsonschema::options()
        .offline()
        // Its time grows with the text and not with the pattern.
        .with_pattern_options(PatternOptions::regex())
        .build(&schema)
        .map_err(|error| shortened(&format!("its schema can't be used: {}", error.masked())))
}

fn shortened(text: &str) -> String {
    mcp_jsonrpc::clean_excerpt(text.as_bytes(), MAX_NOTE_BYTES)
}

#[cfg(test)]
mod tests {
    use mcp_proto::method::{CallTool, Method};
    use serde_json::json;

    use super::*;

    fn note(schema: &Value, result: &Value) -> Option<String> {
        let tool = json!({"name": "t", "inputSchema": {}, "outputSchema": schema});
        let tool: Tool = serde_json::from_value(tool).unwrap();
        let result = CallTool::read(&result.to_string()).unwrap();
        OutputSchemas::default().note(&tool, &result)
    }

    #[test]
    fn c157_a_mismatch_is_a_note_and_a_failure_is_none() {
        let numbers =
            json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let cases = [
            (json!({"structuredContent": {"n": 3}}), ""),
            (json!({"structuredContent": {"n": 3.0}}), ""),
            (json!({"structuredContent": {"n": "secret"}}), "at /n"),
            (json!({"structuredContent": {}}), "at /"),
            (json!({"structuredContent": null}), "at /"),
            (json!({"content": []}), "no structured part"),
            (
                json!({"isError": true, "structuredContent": {"error": 1}}),
                "",
            ),
            (json!({"isError": true, "content": []}), ""),
        ];
        for (result, expected) in cases {
            let note = note(&numbers, &result).unwrap_or_default();
            assert_eq!(note.is_empty(), expected.is_empty(), "{result}: {note}");
            assert!(note.contains(expected), "{result}: {note}");
            assert!(!note.contains("secret"), "{note}");
        }
    }

    #[test]
    fn schemas_are_not_fetched_and_have_limits() {
        let long = json!({"description": "x".repeat(MAX_OUTPUT_SCHEMA_BYTES)});
        let cases = [
            (
                json!({"$ref": "https://example.com/s.json"}),
                "can't be used",
            ),
            (json!({"$ref": "file:///etc/passwd"}), "can't be used"),
            (json!({"$ref": "#/$defs/none"}), "can't be used"),
            (json!({"type": "nothing"}), "can't be used"),
            (json!({"type": 7}), "can't be used"),
            (json!({"pattern": "("}), "can't be used"),
            (long, "limit 262144"),
            // Dialects that are known, and a schema that refers to itself.
            (
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"A": {"type": "object"}},
                "$ref": "#/definitions/A"}),
                "",
            ),
            (
                json!({"$defs": {"N": {"properties": {"next": {"$ref": "#/$defs/N"}}}}, "$ref": "#/$defs/N"}),
                "",
            ),
            (json!(true), ""),
        ];
        for (schema, expected) in cases {
            let note =
                note(&schema, &json!({"structuredContent": {"next": {}}})).unwrap_or_default();
            let shown: String = schema.to_string().chars().take(80).collect();
            assert_eq!(note.is_empty(), expected.is_empty(), "{shown}: {note}");
            assert!(note.contains(expected), "{shown}: {note}");
            assert!(note.len() <= MAX_NOTE_BYTES + 8);
        }
        let big = json!({"structuredContent": "x".repeat(MAX_COMPARED_RESULT_BYTES)});
        assert!(note(&json!(true), &big).unwrap().contains("not checked"));
    }

    /// A pattern that takes others for ever takes this one no longer than its text.
    #[test]
    fn patterns_end() {
        let evil = json!({"pattern": "^(a+)+$"});
        let text = format!("{}b", "a".repeat(100_000));
        assert!(note(&evil, &json!({"structuredContent": text})).is_some());
    }

    #[test]
    fn schemas_are_made_ready_once() {
        let schemas = OutputSchemas::default();
        let first = schemas.ready("t", "true");
        assert!(Arc::ptr_eq(&first, &schemas.ready("t", "true")));
        assert!(!Arc::ptr_eq(&first, &schemas.ready("t", "false")));
        for n in 0..2 * MAX_KEPT {
            schemas.ready(&n.to_string(), "true");
        }
        assert!(schemas.0.lock().unwrap().len() <= MAX_KEPT);
    }
}
