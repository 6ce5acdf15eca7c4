//! Elicitation: a server asks the person something, by a form or by a web page.
//!
//! Rules: ELIC-01 to ELIC-24. The same in every version that has it, except where a type says so.
//!
//! ```json
//! {"mode": "form", "message": "Where to?", "requestedSchema": {"type": "object", "properties": {
//!     "city": {"type": "string", "title": "City", "minLength": 2},
//!     "class": {"type": "string", "enum": ["first", "second"], "default": "second"}}, "required": ["city"]}}
//! ```

use std::collections::BTreeMap;
use std::fmt;

use mcp_jsonrpc::RequestId;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Number, Value};

use crate::members::Members;
use crate::model::content::whole_number;

/// Most fields of a form.
pub const MAX_FORM_FIELDS: usize = 256;

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

/// The fields of a form, in the server's order.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FormSchema {
    /// The fields.
    pub fields: Vec<FormField>,
}

/// A field of a form.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FormField {
    /// Its name in the answer.
    pub name: String,
    /// What to call it for a person.
    pub title: Option<String>,
    /// What it is about.
    pub description: Option<String>,
    /// Whether it must be filled in.
    pub required: bool,
    /// What it takes.
    pub kind: FieldKind,
    /// What it holds before the person does anything (ELIC-07).
    pub default: Option<FieldValue>,
}

/// What a field takes (ELIC-05, ELIC-06).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FieldKind {
    /// Yes or no.
    Boolean,
    /// One of these.
    Choice(Vec<FieldChoice>),
    /// Some of these.
    Choices {
        /// What there is to choose from.
        choices: Vec<FieldChoice>,
        /// At least so many.
        min_items: Option<u64>,
        /// At most so many.
        max_items: Option<u64>,
    },
    /// A whole number; `1.0` is one.
    Integer(NumberRange),
    /// A number.
    Number(NumberRange),
    /// Text.
    Text {
        /// At least so many characters.
        min_length: Option<u64>,
        /// At most so many characters.
        max_length: Option<u64>,
        /// What it must look like.
        format: Option<TextFormat>,
    },
    /// Something that the protocol does not know; its schema. It can be left out only.
    Unknown(Box<RawValue>),
}

/// Limits of a number, both included.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NumberRange {
    /// The least.
    pub minimum: Option<Number>,
    /// The greatest.
    pub maximum: Option<Number>,
}

/// What a text must look like.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TextFormat {
    /// `2026-11-30`.
    Date,
    /// `2026-11-30T09:00:00Z`.
    DateTime,
    /// `ada@example.com`.
    Email,
    /// `https://example.com/`.
    Uri,
}

/// One thing to choose.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct FieldChoice {
    /// What is sent.
    pub value: String,
    /// What is shown, if that is something else.
    pub title: Option<String>,
}

impl FieldChoice {
    /// What to show.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.value)
    }
}

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

/// What is wrong with an answer.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{field:?} {problem}")]
#[non_exhaustive]
pub struct FieldProblem {
    /// The field.
    pub field: String,
    /// What is wrong, without the value: `must have at least 3 characters`.
    pub problem: String,
}

impl FormSchema {
    /// Reads a `requestedSchema`.
    ///
    /// # Errors
    /// A fragment that says what is wrong: it is no object with properties, or it has too many.
    pub fn read(schema: &str) -> Result<Self, String> {
        let members = Members::read(schema).ok_or("requestedSchema is no object")?;
        let required: Vec<String> = match members.get("required") {
            Some(raw) => {
                serde_json::from_str(raw.get()).map_err(|_| "required is no list of names")?
            }
            None => Vec::new(),
        };
        let properties = match members.get("properties") {
            Some(raw) => Members::read(raw.get()).ok_or("properties is no object")?.0,
            None => Vec::new(),
        };
        if properties.len() > MAX_FORM_FIELDS {
            return Err(format!(
                "the form has {} fields (limit {MAX_FORM_FIELDS})",
                properties.len()
            ));
        }
        let fields = properties.into_iter().map(|(name, raw)| {
            let required = required.iter().any(|required| *required == name);
            FormField::read(name.into_owned(), required, raw)
        });
        Ok(Self {
            fields: fields.collect(),
        })
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&FormField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The form as it is before a person does anything: fields with a default hold it (ELIC-07).
    pub fn defaults(&self) -> FormContent {
        let defaults = self
            .fields
            .iter()
            .filter_map(|field| Some((field.name.clone(), field.default.clone()?)));
        FormContent(defaults.collect())
    }

    /// An answer as servers expect it: whole numbers without a fraction of zero where the field wants them (ELIC-08).
    #[must_use]
    pub fn normalized(&self, content: &FormContent) -> FormContent {
        let whole = |name: &str, value: &FieldValue| match (self.field(name)?, value) {
            (
                FormField {
                    kind: FieldKind::Integer(_),
                    ..
                },
                FieldValue::Number(number),
            ) => {
                let whole = RequestId::from_json(&number.to_string())?;
                match whole {
                    RequestId::Number(number) => Some(FieldValue::from(number)),
                    RequestId::String(_) => None,
                }
            }
            _ => None,
        };
        let fields = content.iter().map(|(name, value)| {
            let value = whole(name, value).unwrap_or_else(|| value.clone());
            (name.to_owned(), value)
        });
        FormContent(fields.collect())
    }

    /// Whether an answer may leave (ELIC-08): each required field filled in, each value as its field wants it, no others.
    ///
    /// # Errors
    /// All that is wrong, in the order of the fields.
    pub fn check(&self, content: &FormContent) -> Result<(), Vec<FieldProblem>> {
        let mut problems = Vec::new();
        for field in &self.fields {
            let problem = match content.get(&field.name) {
                Some(value) => field.kind.check(value).err(),
                None if field.required => Some("is required".to_owned()),
                None => None,
            };
            problems.extend(problem.map(|problem| FieldProblem {
                field: field.name.clone(),
                problem,
            }));
        }
        let unknown = content
            .iter()
            .filter(|(name, _)| self.field(name).is_none());
        problems.extend(unknown.map(|(name, _)| FieldProblem {
            field: name.to_owned(),
            problem: "is not in the form".to_owned(),
        }));
        if problems.is_empty() {
            Ok(())
        } else {
            Err(problems)
        }
    }
}

impl FormField {
    fn read(name: String, required: bool, raw: &RawValue) -> Self {
        let members = Members::read(raw.get()).unwrap_or(Members(Vec::new()));
        let kind = FieldKind::read(&members).unwrap_or_else(|| FieldKind::Unknown(raw.to_owned()));
        let default = members
            .parse::<Value>("default")
            .and_then(FieldValue::from_json)
            // One that the server itself would refuse helps nobody.
            .filter(|default| kind.check(default).is_ok());
        Self {
            name,
            title: members.text("title"),
            description: members.text("description"),
            required,
            kind,
            default,
        }
    }

    /// What to call it for a person.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

impl FieldKind {
    /// `None` for what the protocol does not know.
    fn read(members: &Members<'_>) -> Option<Self> {
        let count = |name| whole_number(members.get(name)?.get());
        let range = || NumberRange {
            minimum: members.parse("minimum"),
            maximum: members.parse("maximum"),
        };
        match members.text("type").as_deref() {
            Some("boolean") => Some(Self::Boolean),
            Some("integer") => Some(Self::Integer(range())),
            Some("number") => Some(Self::Number(range())),
            Some("array") => {
                let items = Members::read(members.get("items")?.get())?;
                Some(Self::Choices {
                    choices: choices(&items)?,
                    min_items: count("minItems"),
                    max_items: count("maxItems"),
                })
            }
            Some("string") | None => match choices(members) {
                Some(choices) => Some(Self::Choice(choices)),
                // Without a type it is nothing known.
                None => members.text("type").map(|_| Self::Text {
                    min_length: count("minLength"),
                    max_length: count("maxLength"),
                    format: members
                        .text("format")
                        .and_then(|name| TextFormat::named(&name)),
                }),
            },
            Some(_) => None,
        }
    }

    fn check(&self, value: &FieldValue) -> Result<(), String> {
        match (self, value) {
            (Self::Boolean, FieldValue::Boolean(_)) => Ok(()),
            (Self::Boolean, _) => Err("must be true or false".to_owned()),
            (Self::Number(range), FieldValue::Number(number)) => range.check(number),
            (Self::Number(_), _) => Err("must be a number".to_owned()),
            (Self::Integer(range), FieldValue::Number(number)) if is_whole(number) => {
                range.check(number)
            }
            (Self::Integer(_), _) => Err("must be a whole number".to_owned()),
            (Self::Choice(choices), FieldValue::Text(text)) => is_one_of(choices, text),
            (Self::Choice(_), _) => Err("must be one of the choices".to_owned()),
            (
                Self::Choices {
                    choices,
                    min_items,
                    max_items,
                },
                FieldValue::Choices(texts),
            ) => {
                within(texts.len(), *min_items, *max_items, "choices")?;
                texts.iter().try_for_each(|text| is_one_of(choices, text))
            }
            (Self::Choices { .. }, _) => Err("must be a list of choices".to_owned()),
            (
                Self::Text {
                    min_length,
                    max_length,
                    format,
                },
                FieldValue::Text(text),
            ) => {
                within(text.chars().count(), *min_length, *max_length, "characters")?;
                format.map_or(Ok(()), |format| format.check(text))
            }
            (Self::Text { .. }, _) => Err("must be text".to_owned()),
            (Self::Unknown(_), _) => Err("is of a kind that this client can't fill in".to_owned()),
        }
    }
}

/// All five shapes of a list of choices (ELIC-06): plain, with the names of old, and titled.
fn choices(members: &Members<'_>) -> Option<Vec<FieldChoice>> {
    if let Some(values) = members.parse::<Vec<String>>("enum") {
        let names: Vec<String> = members.parse("enumNames").unwrap_or_default();
        // With another count nobody knows which name belongs to what.
        let fits = names.len() == values.len();
        let names = if fits { names } else { Vec::new() };
        let titles = names.into_iter().map(Some).chain(std::iter::repeat(None));
        let choices = values.into_iter().zip(titles);
        return Some(
            choices
                .map(|(value, title)| FieldChoice { value, title })
                .collect(),
        );
    }
    let titled: Vec<&RawValue> = ["oneOf", "anyOf"]
        .iter()
        .find_map(|name| members.parse(name))?;
    let choice = |raw: &&RawValue| {
        let members = Members::read(raw.get())?;
        Some(FieldChoice {
            value: members.text("const")?,
            title: members.text("title"),
        })
    };
    titled.iter().map(choice).collect()
}

fn is_one_of(choices: &[FieldChoice], text: &str) -> Result<(), String> {
    let found = choices.iter().any(|choice| choice.value == text);
    found
        .then_some(())
        .ok_or_else(|| "must be one of the choices".to_owned())
}

fn within(count: usize, min: Option<u64>, max: Option<u64>, what: &str) -> Result<(), String> {
    let count = count as u64;
    match (
        min.filter(|min| count < *min),
        max.filter(|max| count > *max),
    ) {
        (Some(min), _) => Err(format!("must have at least {min} {what}")),
        (_, Some(max)) => Err(format!("must have at most {max} {what}")),
        (None, None) => Ok(()),
    }
}

fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|value| value.fract() == 0.0)
}

impl NumberRange {
    fn check(&self, number: &Number) -> Result<(), String> {
        let (minimum, maximum) = (self.minimum.as_ref(), self.maximum.as_ref());
        match (minimum, maximum) {
            (Some(minimum), _) if is_less(number, minimum) => {
                Err(format!("must be at least {minimum}"))
            }
            (_, Some(maximum)) if is_less(maximum, number) => {
                Err(format!("must be at most {maximum}"))
            }
            _ => Ok(()),
        }
    }
}

/// Compares whole numbers exactly, where floating point would round them.
fn is_less(one: &Number, other: &Number) -> bool {
    match (one.as_i128(), other.as_i128()) {
        (Some(one), Some(other)) => one < other,
        _ => one.as_f64() < other.as_f64(),
    }
}

impl TextFormat {
    fn named(name: &str) -> Option<Self> {
        match name {
            "date" => Some(Self::Date),
            "date-time" => Some(Self::DateTime),
            "email" => Some(Self::Email),
            "uri" => Some(Self::Uri),
            _ => None,
        }
    }

    /// Catches what a person mistypes; the server has the last word.
    fn check(self, text: &str) -> Result<(), String> {
        let (fits, wanted) = match self {
            Self::Date => (is_date(text), "a date like 2026-11-30"),
            Self::DateTime => (is_date_time(text), "a time like 2026-11-30T09:00:00Z"),
            Self::Email => (is_email(text), "an e-mail address"),
            Self::Uri => (is_uri(text), "a URI like https://example.com/"),
        };
        fits.then_some(())
            .ok_or_else(|| format!("must be {wanted}"))
    }
}

fn is_email(text: &str) -> bool {
    let parts = text.split_once('@');
    parts.is_some_and(|(name, host)| {
        !name.is_empty()
            && !host.is_empty()
            && !host.contains('@')
            && !text.contains(char::is_whitespace)
    })
}

fn is_uri(text: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme
                .chars()
                .all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    };
    text.split_once(':')
        .is_some_and(|(scheme, rest)| is_scheme(scheme) && !rest.is_empty())
        && !text.contains(char::is_whitespace)
}

/// The number that these ASCII digits spell.
fn digits(text: Option<&str>) -> Option<u32> {
    let text = text?;
    let all = text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

fn is_date(text: &str) -> bool {
    let (year, month, day) = (
        digits(text.get(..4)),
        digits(text.get(5..7)),
        digits(text.get(8..)),
    );
    let (Some(year), Some(month), Some(day), 10) = (year, month, day, text.len()) else {
        return false;
    };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    text.get(4..5) == Some("-") && text.get(7..8) == Some("-") && (1..=days).contains(&day)
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't']) else {
        return false;
    };
    let zone_at = time.find(['Z', 'z', '+', '-']);
    let Some((clock, zone)) = zone_at.and_then(|at| time.split_at_checked(at)) else {
        return false;
    };
    let is_zone = zone.eq_ignore_ascii_case("z")
        || (zone.len() == 6 && zone.get(3..4) == Some(":") && is_clock(zone.get(1..)));
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = clock.len() == 8
        && clock.get(5..6) == Some(":")
        && digits(clock.get(6..)).is_some_and(|second| second <= 60);
    is_date(date) && is_zone && is_fraction && seconds && is_clock(clock.get(..5))
}

/// `09:30`.
fn is_clock(text: Option<&str>) -> bool {
    let Some(text) = text.filter(|text| text.len() == 5 && text.get(2..3) == Some(":")) else {
        return false;
    };
    digits(text.get(..2)).is_some_and(|hour| hour < 24)
        && digits(text.get(3..)).is_some_and(|minute| minute < 60)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(schema: &Value) -> FormSchema {
        FormSchema::read(&schema.to_string()).unwrap()
    }

    fn content(value: &Value) -> FormContent {
        let mut content = FormContent::new();
        for (name, value) in value.as_object().unwrap() {
            content.set(name, FieldValue::from_json(value.clone()).unwrap());
        }
        content
    }

    /// ELIC-05, ELIC-06.
    #[test]
    fn every_kind_of_field_is_known() {
        let schema = form(&json!({"type": "object", "required": ["a"], "properties": {
            "z": {"type": "string", "title": "Z", "description": "last"},
            "a": {"type": "integer", "minimum": 1, "maximum": 3, "default": 2},
            "n": {"type": "number", "default": 0.5},
            "b": {"type": "boolean", "default": true},
            "plain": {"type": "string", "enum": ["x", "y"], "default": "y"},
            "named": {"type": "string", "enum": ["x", "y"], "enumNames": ["Ex", "Why"]},
            "misnamed": {"type": "string", "enum": ["x", "y"], "enumNames": ["Ex"]},
            "titled": {"type": "string", "oneOf": [{"const": "x", "title": "Ex"}]},
            "many": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}, "minItems": 1, "default": ["x"]},
            "titles": {"type": "array", "items": {"anyOf": [{"const": "x", "title": "Ex"}]}, "maxItems": 2},
            "odd": {"type": "object"},
            "broken": 7,
            "wrong": {"type": "integer", "default": "two"}
        }}));
        let names: Vec<_> = schema.fields.iter().map(|field| &*field.name).collect();
        // A map of JSON texts has them in the order of names here; a server's order is kept all the same.
        assert_eq!(names.len(), 13);
        let labels = |name: &str| match &schema.field(name).unwrap().kind {
            FieldKind::Choice(choices) | FieldKind::Choices { choices, .. } => choices
                .iter()
                .map(|choice| format!("{}={}", choice.value, choice.label()))
                .collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(labels("plain"), ["x=x", "y=y"]);
        assert_eq!(labels("named"), ["x=Ex", "y=Why"]);
        assert_eq!(labels("misnamed"), ["x=x", "y=y"]);
        assert_eq!(labels("titled"), ["x=Ex"]);
        assert_eq!(labels("many"), ["x=x", "y=y"]);
        assert_eq!(labels("titles"), ["x=Ex"]);
        assert_eq!(schema.field("z").unwrap().label(), "Z");
        for odd in ["odd", "broken"] {
            let kind = &schema.field(odd).unwrap().kind;
            assert!(matches!(kind, FieldKind::Unknown(_)), "{odd}: {kind:?}");
        }
        assert_eq!(
            serde_json::to_value(schema.defaults()).unwrap(),
            json!({"a": 2, "n": 0.5, "b": true, "plain": "y", "many": ["x"]})
        );
    }

    #[test]
    fn the_order_of_fields_is_the_servers() {
        let schema = FormSchema::read(
            r#"{"properties":{"z":{"type":"string"},"a":{"type":"string"},"m":{"type":"string"}}}"#,
        )
        .unwrap();
        let names: Vec<_> = schema.fields.iter().map(|field| &*field.name).collect();
        assert_eq!(names, ["z", "a", "m"]);
    }

    /// ELIC-08.
    #[test]
    fn answers_are_checked_before_they_leave() {
        let text = |more: Value| {
            let mut property = json!({"type": "string"});
            property
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            property
        };
        let cases = [
            (text(json!({})), json!("x"), ""),
            (text(json!({})), json!(7), "must be text"),
            (
                text(json!({"minLength": 2})),
                json!("é"),
                "at least 2 characters",
            ),
            (text(json!({"maxLength": 1})), json!("é"), ""),
            (
                text(json!({"maxLength": 1})),
                json!("xx"),
                "at most 1 characters",
            ),
            (text(json!({"pattern": "^a$"})), json!("b"), ""),
            (text(json!({"format": "email"})), json!("a@b"), ""),
            (text(json!({"format": "email"})), json!("a@"), "e-mail"),
            (text(json!({"format": "email"})), json!("a@b@c"), "e-mail"),
            (text(json!({"format": "uri"})), json!("urn:x"), ""),
            (text(json!({"format": "uri"})), json!("example.com"), "URI"),
            (text(json!({"format": "date"})), json!("2024-02-29"), ""),
            (text(json!({"format": "date"})), json!("2026-02-29"), "date"),
            (text(json!({"format": "date"})), json!("2026-1-1"), "date"),
            (
                text(json!({"format": "date-time"})),
                json!("2026-01-01T23:59:60.5Z"),
                "",
            ),
            (
                text(json!({"format": "date-time"})),
                json!("2026-01-01T09:00:00+01:00"),
                "",
            ),
            (
                text(json!({"format": "date-time"})),
                json!("2026-01-01 09:00"),
                "time",
            ),
            (
                text(json!({"format": "date-time"})),
                json!("2026-01-01T24:00:00Z"),
                "time",
            ),
            (
                text(json!({"format": "date-time"})),
                json!("2026-01-01T09:00:00"),
                "time",
            ),
            (text(json!({"format": "colour"})), json!("mauve"), ""),
            (json!({"type": "boolean"}), json!(false), ""),
            (json!({"type": "boolean"}), json!("false"), "true or false"),
            (json!({"type": "integer"}), json!(1), ""),
            (json!({"type": "integer"}), json!(1.0), ""),
            (json!({"type": "integer"}), json!(1.5), "whole"),
            (
                json!({"type": "integer", "minimum": 2}),
                json!(1),
                "at least 2",
            ),
            (
                json!({"type": "number", "maximum": 0.5}),
                json!(0.75),
                "at most 0.5",
            ),
            (json!({"type": "number"}), json!(true), "a number"),
            (json!({"enum": ["x"]}), json!("x"), ""),
            (json!({"enum": ["x"]}), json!("y"), "one of the choices"),
            (
                json!({"type": "array", "items": {"enum": ["x"]}}),
                json!(["x"]),
                "",
            ),
            (
                json!({"type": "array", "items": {"enum": ["x"]}}),
                json!(["y"]),
                "one of",
            ),
            (
                json!({"type": "array", "items": {"enum": ["x"]}}),
                json!("x"),
                "a list",
            ),
            (
                json!({"type": "array", "items": {"enum": ["x"]}, "minItems": 1}),
                json!([]),
                "at least 1",
            ),
            (json!({"type": "object"}), json!("x"), "can't fill in"),
        ];
        for (property, value, expected) in cases {
            let schema = form(&json!({"properties": {"f": property.clone()}}));
            let checked = schema.check(&content(&json!({"f": value.clone()})));
            let problem = checked.err().map(|problems| problems[0].to_string());
            let problem = problem.unwrap_or_default();
            assert_eq!(
                problem.is_empty(),
                expected.is_empty(),
                "{property} {value}: {problem}"
            );
            assert!(problem.contains(expected), "{property} {value}: {problem}");
        }
        let schema =
            form(&json!({"properties": {"i": {"type": "integer"}, "n": {"type": "number"}}}));
        let normalized = schema.normalized(&content(&json!({"i": 3.0, "n": 3.0})));
        assert_eq!(json!(normalized).to_string(), r#"{"i":3,"n":3.0}"#);
        let schema = form(&json!({"properties": {"f": {"type": "string"}}, "required": ["f"]}));
        let problems = schema.check(&content(&json!({"g": "secret"}))).unwrap_err();
        let shown: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["\"f\" is required", "\"g\" is not in the form"]);
    }

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
