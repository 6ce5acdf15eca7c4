//! What a tool's input schema says about its arguments, as far as a command line needs it.
//!
//! Top-level properties only; nested rules are the server's to check.

use serde_json::{Map, Value};

/// A tool's arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    pub(crate) properties: Vec<Property>,
    /// Whether arguments beyond the listed ones may be given.
    pub(crate) open: bool,
}

/// One argument.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
    pub(crate) choices: Vec<Value>,
    pub(crate) default: Option<Value>,
    pub(crate) description: Option<String>,
}

/// What values an argument takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Any,
    /// A list; of scalars of this kind where that is known.
    Array(Option<Scalar>),
    Object,
    Scalar(Scalar),
}

/// A kind of plain value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Scalar {
    Boolean,
    Integer,
    Null,
    Number,
    String,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Array(_) => "array",
            Self::Object => "object",
            Self::Scalar(scalar) => scalar.name(),
        }
    }
}

impl Scalar {
    fn read(name: &str) -> Option<Self> {
        Some(match name {
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "null" => Self::Null,
            "number" => Self::Number,
            "string" => Self::String,
            _ => return None,
        })
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Null => "null",
            Self::Number => "number",
            Self::String => "string",
        }
    }
}

impl Schema {
    /// Reads a schema leniently: what is not understood takes anything.
    pub(crate) fn read(text: &str) -> Self {
        let Ok(Value::Object(schema)) = serde_json::from_str(text) else {
            return Self {
                properties: Vec::new(),
                open: true,
            };
        };
        let empty = Map::new();
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        let required: Vec<_> = schema
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        // A schema without any property, or with rules elsewhere, can't tell a wrong name from a right one.
        let elsewhere = ["allOf", "anyOf", "oneOf", "$ref", "patternProperties"]
            .iter()
            .any(|key| schema.contains_key(*key));
        let more = schema
            .get("additionalProperties")
            .is_some_and(|more| *more != Value::Bool(false));
        let mut read: Vec<_> = properties
            .iter()
            .map(|(name, value)| Property::read(name, value, required.contains(&name.as_str())))
            .collect();
        for name in required
            .iter()
            .filter(|name| !properties.contains_key(**name))
        {
            read.push(Property::read(name, &Value::Bool(true), true));
        }
        // Required ones first, in the order that the schema requires them.
        read.sort_by_key(|property| {
            required
                .iter()
                .position(|name| *name == property.name)
                .unwrap_or(usize::MAX)
        });
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        Self {
            open: more
                || elsewhere
                || (read.is_empty() && !closed && !schema.contains_key("properties")),
            properties: read,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Property> {
        self.properties
            .iter()
            .find(|property| property.name == name)
    }

    /// `a: number, b?: integer`
    pub(crate) fn signature(&self) -> String {
        let property = |property: &Property| {
            let mark = if property.required { "" } else { "?" };
            format!(
                "{}{mark}: {}",
                crate::text::one_line(&property.name, 40),
                property.shape()
            )
        };
        let mut parts: Vec<_> = self.properties.iter().map(property).collect();
        if self.open && self.properties.is_empty() {
            parts.push("…".to_owned());
        }
        parts.join(", ")
    }
}

impl Property {
    fn read(name: &str, schema: &Value, required: bool) -> Self {
        let types: Vec<_> = match schema.get("type") {
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        // A type that may also be null is that type on a command line.
        let plain: Vec<_> = types
            .iter()
            .copied()
            .filter(|name| *name != "null")
            .collect();
        let kind = match (plain.as_slice(), types.as_slice()) {
            ([], ["null"]) => Kind::Scalar(Scalar::Null),
            (["array"], _) => {
                let items = schema
                    .get("items")
                    .and_then(|items| items.get("type"))
                    .and_then(Value::as_str);
                Kind::Array(items.and_then(Scalar::read))
            }
            (["object"], _) => Kind::Object,
            ([one], _) => Scalar::read(one).map_or(Kind::Any, Kind::Scalar),
            _ => Kind::Any,
        };
        Self {
            name: name.to_owned(),
            kind,
            required,
            choices: schema
                .get("enum")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            default: schema.get("default").cloned(),
            description: schema
                .get("description")
                .and_then(Value::as_str)
                .map(str::to_owned),
        }
    }

    /// `integer`, `string[]`, `on|off`
    pub(crate) fn shape(&self) -> String {
        if !self.choices.is_empty() {
            let choices = self.choices.iter().map(|choice| {
                choice
                    .as_str()
                    .map_or_else(|| choice.to_string(), str::to_owned)
            });
            return crate::text::one_line(&choices.collect::<Vec<_>>().join("|"), 60);
        }
        match self.kind {
            Kind::Array(Some(items)) => format!("{}[]", items.name()),
            kind => kind.name().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures() {
        let cases = [
            (
                r#"{"type":"object","properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["a"]}"#,
                "a: string, b?: integer",
                false,
            ),
            (
                r#"{"properties":{"s":{"enum":["x","y"]},"l":{"type":"array","items":{"type":"string"}}}}"#,
                "s?: x|y, l?: string[]",
                false,
            ),
            (
                r#"{"properties":{"n":{"type":["integer","null"]},"m":{"type":["integer","string"]},"x":true}}"#,
                "n?: integer, m?: any, x?: any",
                false,
            ),
            (r#"{"type":"object"}"#, "…", true),
            (r#"{"type":"object","properties":{}}"#, "", false),
            (
                r#"{"type":"object","properties":{},"additionalProperties":true}"#,
                "…",
                true,
            ),
            ("true", "…", true),
            (r#"{"required":["z"]}"#, "z: any", false),
        ];
        for (schema, signature, open) in cases {
            let schema_read = Schema::read(schema);
            let mut expected: Vec<_> = signature.split(", ").collect();
            let got = schema_read.signature();
            let mut got: Vec<_> = got.split(", ").collect();
            expected.sort_unstable();
            got.sort_unstable();
            assert_eq!((got, schema_read.open), (expected, open), "{schema}");
        }
    }
}
