//! What a form asks for.

use serde_json::value::RawValue;
use serde_json::{Number, Value};

use super::{FieldValue, FormContent};
use crate::members::Members;
use crate::model::content::whole_number;

/// Most fields of a form.
pub const MAX_FORM_FIELDS: usize = 256;

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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(schema: &Value) -> FormSchema {
        FormSchema::read(&schema.to_string()).unwrap()
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
}
