//! Completion of arguments while a person types them.
//!
//! Rules: COMP-01 to COMP-04.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize;

use crate::members::Members;

/// Most values that are taken of one answer (COMP-04).
pub const MAX_COMPLETIONS: usize = 100;

/// What an argument belongs to.
///
/// ```json
/// {"type": "ref/prompt", "name": "greet"}
/// {"type": "ref/resource", "uri": "note://{id}"}
/// ```
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(tag = "type")]
#[non_exhaustive]
pub enum CompletionReference<'a> {
    /// A prompt, by its name.
    #[serde(rename = "ref/prompt")]
    Prompt {
        /// The name.
        name: Cow<'a, str>,
    },
    /// A resource or a template, by its URI.
    #[serde(rename = "ref/resource")]
    Resource {
        /// The URI or the template, as it came.
        uri: Cow<'a, str>,
    },
}

impl<'a> CompletionReference<'a> {
    /// A prompt.
    pub fn prompt(name: impl Into<Cow<'a, str>>) -> Self {
        Self::Prompt { name: name.into() }
    }

    /// A resource or a template.
    pub fn resource(uri: impl Into<Cow<'a, str>>) -> Self {
        Self::Resource { uri: uri.into() }
    }
}

/// Parameters of `completion/complete`.
///
/// ```json
/// {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "A"}}
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CompleteParams<'a> {
    /// What the argument belongs to.
    #[serde(rename = "ref")]
    pub reference: CompletionReference<'a>,
    /// The argument, as far as it is typed.
    pub argument: CompletionArgument<'a>,
    /// The arguments chosen before; from 2025-06-18 (COMP-03).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<CompletionContext<'a>>,
}

/// An argument as far as it is typed.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CompletionArgument<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its value so far.
    pub value: Cow<'a, str>,
}

/// What was chosen before.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CompletionContext<'a> {
    /// The other arguments.
    pub arguments: Cow<'a, BTreeMap<String, String>>,
}

impl<'a> CompleteParams<'a> {
    /// Completes an argument, of which this much is typed.
    pub fn new(
        reference: CompletionReference<'a>,
        name: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, str>>,
    ) -> Self {
        Self {
            reference,
            argument: CompletionArgument {
                name: name.into(),
                value: value.into(),
            },
            context: None,
        }
    }

    /// Adds the arguments chosen before.
    #[must_use]
    pub fn with_context(mut self, arguments: &'a BTreeMap<String, String>) -> Self {
        self.context = Some(CompletionContext {
            arguments: Cow::Borrowed(arguments),
        });
        self
    }
}

/// Result of `completion/complete`.
///
/// ```json
/// {"completion": {"values": ["Ada", "Alan"], "total": 2, "hasMore": false}}
/// ```
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct CompleteResult {
    /// The values, at most [`MAX_COMPLETIONS`].
    pub values: Vec<String>,
    /// How many there are in all, if the server says so.
    pub total: Option<u64>,
    /// Whether there are more than these.
    pub has_more: bool,
}

impl CompleteResult {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let members = Members::read(text).ok_or("it is no object")?;
        let completion = members.get("completion").ok_or("it has no completion")?;
        let completion = Members::read(completion.get()).ok_or("completion is no object")?;
        let mut values: Vec<String> = completion
            .parse("values")
            .ok_or("completion has no values that are texts")?;
        let cut = values.len() > MAX_COMPLETIONS;
        values.truncate(MAX_COMPLETIONS);
        Ok(Self {
            values,
            total: completion.parse("total"),
            has_more: cut || completion.parse("hasMore").unwrap_or(false),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comp_04_long_answers_are_cut() {
        let values = vec![r#""x""#; 150].join(",");
        let result = CompleteResult::read(&format!(
            r#"{{"completion":{{"values":[{values}],"total":150}}}}"#
        ))
        .unwrap();
        assert_eq!(
            (result.values.len(), result.total, result.has_more),
            (100, Some(150), true)
        );
        let small = CompleteResult::read(r#"{"completion":{"values":[],"hasMore":null}}"#).unwrap();
        assert_eq!(small, CompleteResult::default());
        for bad in [
            "7",
            "{}",
            r#"{"completion":[]}"#,
            r#"{"completion":{"values":[1]}}"#,
        ] {
            assert!(CompleteResult::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn comp_02_references_are_tagged() {
        let context = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
        let params = CompleteParams::new(CompletionReference::prompt("p"), "n", "v");
        let written = |params: &CompleteParams<'_>| serde_json::to_string(params).unwrap();
        assert_eq!(
            written(&params),
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"n","value":"v"}}"#
        );
        let params = CompleteParams::new(CompletionReference::resource("u:{x}"), "x", "")
            .with_context(&context);
        assert_eq!(
            written(&params),
            r#"{"ref":{"type":"ref/resource","uri":"u:{x}"},"argument":{"name":"x","value":""},"context":{"arguments":{"a":"b"}}}"#
        );
    }
}
