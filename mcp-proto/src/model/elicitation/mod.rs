//! Elicitation: a server asks the person something, by a form or by a web page.
//!
//! Rules: ELIC-01 to ELIC-24. The same in every version that has it, except where a type says so.
//!
//! ```json
//! {"mode": "form", "message": "Where to?", "requestedSchema": {"type": "object", "properties": {
//!     "city": {"type": "string", "title": "City", "minLength": 2},
//!     "class": {"type": "string", "enum": ["first", "second"], "default": "second"}}, "required": ["city"]}}
//! ```

mod check;
mod schema;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

pub use check::FieldProblem;
pub use schema::{
    FieldChoice, FieldKind, FormField, FormSchema, MAX_FORM_FIELDS, NumberRange, TextFormat,
};

use crate::members::Members;

/// `elicitation/create`: what is asked.
#[derive(Clone, Debug)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a mode that nobody declared is refused when it is read"
)]
pub enum Elicitation {
    /// By a form.
    Form(FormElicitation),
    /// By a web page that the person is sent to.
    Url(UrlElicitation),
}

/// A question by a form.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FormElicitation {
    /// What the server says about it.
    pub message: String,
    /// The form.
    pub schema: FormSchema,
    /// The form as it came.
    pub raw_schema: Box<RawValue>,
    /// `_meta`, raw.
    pub meta: Option<Box<RawValue>>,
}

/// A question by a web page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UrlElicitation {
    /// What the server says about it.
    pub message: String,
    /// The page, as it came: not to be opened before the person agreed (ELIC-20).
    pub url: String,
    /// Names it in a later `notifications/elicitation/complete`. 2025-11-25 only.
    pub elicitation_id: Option<String>,
    /// `_meta`, raw.
    pub meta: Option<Box<RawValue>>,
}

impl Elicitation {
    /// Reads the parameters of `elicitation/create`. A mode that is absent means a form (ELIC-02).
    ///
    /// # Errors
    /// A fragment that says what is wrong.
    pub fn read(params: &str) -> Result<Self, String> {
        let members = Members::read(params).ok_or("the parameters are no object")?;
        let message = members.text("message").unwrap_or_default();
        let meta = members.get("_meta").map(ToOwned::to_owned);
        match members.text("mode").as_deref() {
            None | Some("form") => {
                let raw = members
                    .get("requestedSchema")
                    .ok_or("there is no requestedSchema")?;
                Ok(Self::Form(FormElicitation {
                    message,
                    schema: FormSchema::read(raw.get())?,
                    raw_schema: raw.to_owned(),
                    meta,
                }))
            }
            Some("url") => Ok(Self::Url(UrlElicitation {
                message,
                url: members.text("url").ok_or("there is no url")?,
                elicitation_id: members.text("elicitationId"),
                meta,
            })),
            Some(other) => {
                let shown = mcp_jsonrpc::clean_excerpt(other.as_bytes(), MAX_SHOWN_BYTES);
                Err(format!("there is no mode {shown:?}"))
            }
        }
    }
}

const MAX_SHOWN_BYTES: usize = 64;

/// What a person put into a field.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the protocol allows these kinds of value and no other"
)]
pub enum FieldValue {
    /// Yes or no.
    Boolean(bool),
    /// Several choices.
    Choices(Vec<String>),
    /// A number.
    Number(Number),
    /// Text, or one choice.
    Text(String),
}

impl FieldValue {
    /// The value as JSON has it; `None` for what no field takes.
    pub fn from_json(value: Value) -> Option<Self> {
        match value {
            Value::Bool(value) => Some(Self::Boolean(value)),
            Value::Number(value) => Some(Self::Number(value)),
            Value::String(value) => Some(Self::Text(value)),
            Value::Array(values) => {
                let texts = values.into_iter().map(|value| match value {
                    Value::String(text) => Some(text),
                    _ => None,
                });
                texts.collect::<Option<_>>().map(Self::Choices)
            }
            Value::Null | Value::Object(_) => None,
        }
    }
}

impl Serialize for FieldValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Boolean(value) => value.serialize(serializer),
            Self::Choices(values) => values.serialize(serializer),
            Self::Number(value) => value.serialize(serializer),
            Self::Text(value) => value.serialize(serializer),
        }
    }
}

impl From<&str> for FieldValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<bool> for FieldValue {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl From<i64> for FieldValue {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}

/// What a person filled in, by the names of the fields. What was left untouched is absent (ELIC-08).
#[derive(Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct FormContent(BTreeMap<String, FieldValue>);

/// Shows the names and not the values: they are the person's.
impl fmt::Debug for FormContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl FormContent {
    /// Nothing filled in.
    pub fn new() -> Self {
        Self::default()
    }

    /// Fills a field in.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<FieldValue>) {
        self.0.insert(name.into(), value.into());
    }

    /// As [`FormContent::set`].
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<FieldValue>) -> Self {
        self.set(name, value);
        self
    }

    /// What is in a field.
    pub fn get(&self, name: &str) -> Option<&FieldValue> {
        self.0.get(name)
    }

    /// What is filled in, in the order of names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &FieldValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// The answer to a form.
#[derive(Clone, Debug, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the protocol knows these three and no other (ELIC-04)"
)]
pub enum FormAnswer {
    /// Filled in.
    Accept(FormContent),
    /// The person said no.
    Decline,
    /// The person went away without an answer.
    Cancel,
}

/// The answer to a web page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "the protocol knows these three and no other (ELIC-04)"
)]
pub enum UrlAnswer {
    /// The person agreed to be sent there; not that they are done (ELIC-22).
    Accept,
    /// The person said no.
    Decline,
    /// The person went away without an answer.
    Cancel,
}

fn action<S: Serializer>(
    serializer: S,
    action: &'static str,
    content: Option<&FormContent>,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Wire<'a> {
        action: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<&'a FormContent>,
    }
    Wire { action, content }.serialize(serializer)
}

impl Serialize for FormAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Accept(content) => action(serializer, "accept", Some(content)),
            Self::Decline => action(serializer, "decline", None),
            Self::Cancel => action(serializer, "cancel", None),
        }
    }
}

impl Serialize for UrlAnswer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        };
        action(serializer, name, None)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// ELIC-02, ELIC-03.
    #[test]
    fn modes_are_told_apart() {
        let form = |text: &str| matches!(Elicitation::read(text), Ok(Elicitation::Form(_)));
        assert!(form(
            r#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#
        ));
        assert!(form(
            r#"{"mode":"form","message":"?","requestedSchema":{}}"#
        ));
        let url = Elicitation::read(
            r#"{"mode":"url","message":"Pay","url":"https://pay.example/","elicitationId":"7"}"#,
        );
        let Ok(Elicitation::Url(url)) = url else {
            panic!("{url:?}");
        };
        assert_eq!(
            (&*url.url, url.elicitation_id.as_deref()),
            ("https://pay.example/", Some("7"))
        );
        let cases = [
            ("7", "no object"),
            ("{}", "no requestedSchema"),
            (r#"{"requestedSchema":[]}"#, "no object"),
            (r#"{"requestedSchema":{"properties":7}}"#, "no object"),
            (
                r#"{"requestedSchema":{"required":"a"}}"#,
                "no list of names",
            ),
            (r#"{"mode":"url"}"#, "no url"),
            (r#"{"mode":"voice"}"#, "no mode \"voice\""),
        ];
        for (text, expected) in cases {
            let error = Elicitation::read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
        let many: Vec<_> = (0..=MAX_FORM_FIELDS)
            .map(|n| format!("\"{n}\":{{}}"))
            .collect();
        let many = format!("{{\"properties\":{{{}}}}}", many.join(","));
        assert!(FormSchema::read(&many).unwrap_err().contains("limit 256"));
    }

    #[test]
    fn answers_on_the_wire() {
        let accepted = FormAnswer::Accept(FormContent::new().with("a", "x").with("n", 3));
        let cases = [
            (
                json!(accepted),
                json!({"action": "accept", "content": {"a": "x", "n": 3}}),
            ),
            (
                json!(FormAnswer::Accept(FormContent::new())),
                json!({"action": "accept", "content": {}}),
            ),
            (json!(FormAnswer::Decline), json!({"action": "decline"})),
            (json!(FormAnswer::Cancel), json!({"action": "cancel"})),
            // ELIC-22: no content.
            (json!(UrlAnswer::Accept), json!({"action": "accept"})),
            (json!(UrlAnswer::Cancel), json!({"action": "cancel"})),
        ];
        for (actual, expected) in cases {
            assert_eq!(actual, expected);
        }
        assert_eq!(format!("{accepted:?}"), "Accept({\"a\", \"n\"})");
    }
}
