//! What a tool's input schema says about its arguments, as far as a command line needs it.
//!
//! Top-level properties only: their types, choices and the types of list items, through local references and simple
//! combinations. Nested rules are the server's to check. What is not understood takes anything.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value};

/// How many references and combinations are followed into each other.
const MAX_DEPTH: usize = 8;

/// How many parts of a schema are looked at: references can multiply without end.
const MAX_VISITS: usize = 20_000;

/// Longest list of choices that is checked here; a longer one is the server's to check.
const MAX_CHOICES: usize = 1000;

/// A tool's arguments.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    /// Required ones first, else in the server's order.
    pub(crate) properties: Vec<Property>,
    /// Whether arguments beyond the listed ones may be given.
    pub(crate) open: bool,
}

/// One argument.
#[derive(Clone, Debug)]
pub(crate) struct Property {
    pub(crate) name: String,
    pub(crate) shape: Shape,
    pub(crate) required: bool,
    pub(crate) default: Option<Value>,
    pub(crate) example: Option<Value>,
    pub(crate) description: Option<String>,
    /// `1..50`, when the schema has bounds.
    pub(crate) range: Option<String>,
}

/// A set of JSON types.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) struct Types(u8);

impl Types {
    pub(crate) const ARRAY: Self = Self(1);
    pub(crate) const BOOLEAN: Self = Self(1 << 1);
    /// Whole numbers; [`Types::NUMBER`] includes them.
    pub(crate) const INTEGER: Self = Self(1 << 2);
    pub(crate) const NULL: Self = Self(1 << 3);
    pub(crate) const NUMBER: Self = Self(1 << 2 | 1 << 4);
    pub(crate) const OBJECT: Self = Self(1 << 5);
    pub(crate) const STRING: Self = Self(1 << 6);
    pub(crate) const ALL: Self = Self(0x7f);
    const NONE: Self = Self(0);

    const NAMED: [(Self, &'static str); 7] = [
        (Self::STRING, "string"),
        (Self::NUMBER, "number"),
        (Self::INTEGER, "integer"),
        (Self::BOOLEAN, "boolean"),
        (Self::ARRAY, "array"),
        (Self::OBJECT, "object"),
        (Self::NULL, "null"),
    ];

    pub(crate) fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn named(name: &str) -> Self {
        let known = Self::NAMED.iter().find(|(_, known)| *known == name);
        known.map_or(Self::NONE, |(types, _)| *types)
    }

    /// The type of a JSON text, told by how it begins; numbers that are whole are integers however they are written.
    pub(crate) fn of(json: &str) -> Self {
        match json.as_bytes().first() {
            Some(b'[') => Self::ARRAY,
            Some(b'{') => Self::OBJECT,
            Some(b'"') => Self::STRING,
            Some(b't' | b'f') => Self::BOOLEAN,
            Some(b'n') => Self::NULL,
            _ if is_whole(json) => Self::INTEGER,
            _ => Self::NUMBER,
        }
    }
}

/// Whether a JSON number is a whole one.
fn is_whole(number: &str) -> bool {
    !number.contains(['.', 'e', 'E'])
        || number
            .parse::<f64>()
            .is_ok_and(|number| number.fract() == 0.0)
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::ALL {
            return f.write_str("any");
        }
        let mut rest = *self;
        let mut names = Vec::new();
        for (types, name) in Self::NAMED {
            if rest.contains(types) {
                rest = Self(rest.0 & !types.0);
                names.push(name);
            }
        }
        f.write_str(if names.is_empty() { "nothing" } else { "" })?;
        f.write_str(&names.join(" or "))
    }
}

impl fmt::Debug for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Which values an argument takes.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) types: Types,
    /// The only values; empty when there are no such.
    pub(crate) choices: Vec<Value>,
    /// Of the items, when it may be a list whose items are described.
    pub(crate) items: Option<Box<Self>>,
}

impl Shape {
    pub(crate) const ANY: Self = Self {
        types: Types::ALL,
        choices: Vec::new(),
        items: None,
    };

    fn of_types(types: Types) -> Self {
        Self { types, ..Self::ANY }
    }

    fn read(schema: &Value, root: &Value, depth: usize, visits: &mut usize) -> Self {
        let schema = match schema {
            Value::Bool(false) => return Self::of_types(Types::NONE),
            Value::Object(schema) if depth < MAX_DEPTH && *visits < MAX_VISITS => schema,
            _ => return Self::ANY,
        };
        *visits += 1;
        let mut below = |schema: &Value| Self::read(schema, root, depth + 1, visits);
        let mut shape = Self::ANY;
        match schema.get("type") {
            Some(Value::String(name)) => shape.types = Types::named(name),
            Some(Value::Array(names)) => {
                let names = names.iter().filter_map(Value::as_str);
                shape.types = names.map(Types::named).fold(Types::NONE, Types::union);
            }
            _ => {}
        }
        // Types from a newer dialect: leave them to the server.
        if shape.types == Types::NONE {
            shape.types = Types::ALL;
        }
        shape.items = schema.get("items").map(|items| Box::new(below(items)));
        let choices = match (schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(choices)), _) => choices.clone(),
            (_, Some(only)) => vec![only.clone()],
            _ => Vec::new(),
        };
        if (1..=MAX_CHOICES).contains(&choices.len()) {
            shape = shape.and(Self::of_choices(choices));
        }
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let target = target.strip_prefix('#').and_then(|at| root.pointer(at));
            if let Some(target) = target {
                shape = shape.and(below(target));
            }
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(Value::Array(branches)) = schema.get(key)
                && let Some(either) = branches.iter().map(&mut below).reduce(Self::or)
            {
                shape = shape.and(either);
            }
        }
        if let Some(Value::Array(branches)) = schema.get("allOf") {
            shape = branches.iter().map(&mut below).fold(shape, Self::and);
        }
        shape
    }

    fn of_choices(choices: Vec<Value>) -> Self {
        let types = choices.iter().map(|choice| Types::of(&choice.to_string()));
        Self {
            types: types.fold(Types::NONE, Types::union),
            choices,
            items: None,
        }
    }

    fn or(self, other: Self) -> Self {
        // `null` beside choices is one more choice.
        let choices = |shape: Self| match shape.types {
            Types::NULL => vec![Value::Null],
            _ => shape.choices,
        };
        let types = self.types.union(other.types);
        let items = self.items.clone().or_else(|| other.items.clone());
        let (mut mine, theirs) = (choices(self), choices(other));
        let open = mine.is_empty() || theirs.is_empty() || types == Types::NULL;
        if open || mine.len() + theirs.len() > MAX_CHOICES {
            mine.clear();
        } else {
            mine.extend(theirs);
        }
        Self {
            types,
            choices: mine,
            items,
        }
    }

    fn and(self, other: Self) -> Self {
        let choices = match (self.choices.is_empty(), other.choices.is_empty()) {
            (true, _) => other.choices,
            (_, true) => self.choices,
            (false, false) => {
                let both = self.choices.into_iter();
                both.filter(|choice| other.choices.contains(choice))
                    .collect()
            }
        };
        Self {
            types: self.types.intersection(other.types),
            choices,
            items: self.items.or(other.items),
        }
    }

    /// Whether the text of a JSON value fits.
    pub(crate) fn takes(&self, json: &str) -> bool {
        self.types.contains(Types::of(json))
            && (self.choices.is_empty()
                || serde_json::from_str(json).is_ok_and(|value| self.choices.contains(&value)))
    }
}

/// A choice as one types it: strings bare.
pub(crate) fn written(choice: &Value) -> String {
    choice
        .as_str()
        .map_or_else(|| choice.to_string(), str::to_owned)
}

/// `integer`, `string[]`, `on|off`
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.choices.is_empty() {
            let choices: Vec<_> = self.choices.iter().map(written).collect();
            return f.write_str(&crate::text::one_line(&choices.join("|"), 60));
        }
        // On a command line, a type that may also be null is that type.
        let plain = Types(self.types.0 & !Types::NULL.0);
        let types = if plain == Types::NONE || self.types == Types::ALL {
            self.types
        } else {
            plain
        };
        match &self.items {
            Some(items) if types == Types::ARRAY => write!(f, "{items}[]"),
            _ => f.write_str(&types.to_string().replace(" or ", "|")),
        }
    }
}

impl Schema {
    /// Reads a schema leniently.
    pub(crate) fn read(text: &str) -> Self {
        let root: Value = serde_json::from_str(text).unwrap_or(Value::Bool(true));
        let Some(schema) = root.as_object() else {
            return Self {
                properties: Vec::new(),
                open: true,
            };
        };
        let empty = Map::new();
        let properties = schema.get("properties").and_then(Value::as_object);
        let properties = properties.unwrap_or(&empty);
        // Where each required name stands in the list.
        let mut required = HashMap::new();
        let listed = schema.get("required").and_then(Value::as_array);
        for name in listed.into_iter().flatten().filter_map(Value::as_str) {
            let at = required.len();
            required.entry(name).or_insert(at);
        }
        let names = serde_json::from_str::<Top>(text).map_or_else(|_| Vec::new(), |top| top.0);
        let mut visits = 0;
        let mut property =
            |name: &str, value| Property::read(name, value, &root, &required, &mut visits);
        let mut read: Vec<_> = names
            .iter()
            .filter_map(|name| properties.get_key_value(name))
            .map(|(name, value)| property(name, value))
            .collect();
        for name in required.keys() {
            if !properties.contains_key(*name) {
                read.push(property(name, &Value::Bool(true)));
            }
        }
        // Required ones first, in the order that the schema requires them.
        read.sort_by_key(|property| {
            let at = required.get(property.name.as_str());
            at.copied().unwrap_or(usize::MAX)
        });
        // A schema that lists no property, or has rules elsewhere, can't tell a wrong name from a right one. One that
        // lists some and says nothing about others is taken as closed: a typing error is more likely than an extra.
        let elsewhere = ["allOf", "anyOf", "oneOf", "$ref", "patternProperties"];
        let elsewhere = elsewhere.iter().any(|key| schema.contains_key(*key));
        let more = schema.get("additionalProperties");
        let closed = more == Some(&Value::Bool(false));
        Self {
            open: more.is_some_and(|_| !closed)
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
            let name = crate::text::one_line(&property.name, 40);
            format!("{name}{mark}: {}", property.shape)
        };
        let mut parts: Vec<_> = self.properties.iter().map(property).collect();
        if self.open && self.properties.is_empty() {
            parts.push(crate::text::ellipsis().to_owned());
        }
        parts.join(", ")
    }
}

impl Property {
    fn read(
        name: &str,
        schema: &Value,
        root: &Value,
        required: &HashMap<&str, usize>,
        visits: &mut usize,
    ) -> Self {
        let bound = |key: &str| {
            schema
                .get(key)
                .filter(|bound| bound.is_number())
                .map(ToString::to_string)
        };
        let range = match (bound("minimum"), bound("maximum")) {
            (None, None) => None,
            (low, high) => Some(format!(
                "{}..{}",
                low.unwrap_or_default(),
                high.unwrap_or_default()
            )),
        };
        let examples = schema.get("examples").and_then(Value::as_array);
        let text = |key: &str| schema.get(key).and_then(Value::as_str).map(str::to_owned);
        Self {
            name: name.to_owned(),
            shape: Shape::read(schema, root, 0, visits),
            required: required.contains_key(name),
            default: schema.get("default").cloned(),
            example: examples.and_then(|examples| examples.first()).cloned(),
            description: text("description"),
            range,
        }
    }
}

/// The names of the properties in the order of the text, which a map of values does not keep.
struct Top(Vec<String>);

impl<'de> Deserialize<'de> for Top {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        struct Wire {
            #[serde(default)]
            properties: Names,
        }
        Wire::deserialize(deserializer).map(|wire| Self(wire.properties.0))
    }
}

#[derive(Default)]
struct Names(Vec<String>);

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
                let mut names = Names::default();
                let mut seen = HashSet::new();
                while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
                    if seen.insert(name.clone()) {
                        names.0.push(name);
                    }
                }
                Ok(names)
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures() {
        let cases = [
            (
                r#"{"type":"object","properties":{"z":{"type":"integer"},"b":{"type":"boolean"},"a":{"type":"string"}},"required":["a"]}"#,
                "a: string, z?: integer, b?: boolean",
                false,
            ),
            (
                r#"{"properties":{"s":{"enum":["x","y"]},"l":{"type":"array","items":{"type":"string"}}}}"#,
                "s?: x|y, l?: string[]",
                false,
            ),
            (
                r#"{"properties":{"n":{"type":["integer","null"]},"m":{"type":["integer","string"]},"x":true}}"#,
                "n?: integer, m?: string|integer, x?: any",
                false,
            ),
            (
                r##"{"properties":{"c":{"$ref":"#/$defs/Colour"},"o":{"anyOf":[{"$ref":"#/$defs/Colour"},{"type":"null"}]}},
                    "$defs":{"Colour":{"enum":["red","blue"],"type":"string"}}}"##,
                "c?: red|blue, o?: red|blue|null",
                false,
            ),
            (
                r#"{"properties":{"o":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null},"k":{"const":"only"}}}"#,
                "o?: integer, k?: only",
                false,
            ),
            (
                r##"{"properties":{"loop":{"$ref":"#/properties/loop"},"none":false,"new":{"type":"decimal"}}}"##,
                "loop?: any, none?: nothing, new?: any",
                false,
            ),
            (r#"{"type":"object"}"#, "…", true),
            (r#"{"type":"object","properties":{}}"#, "", false),
            (
                r#"{"type":"object","properties":{},"additionalProperties":true}"#,
                "…",
                true,
            ),
            (
                r#"{"properties":{"a":{}},"additionalProperties":{"type":"string"}}"#,
                "a?: any",
                true,
            ),
            ("true", "…", true),
            (r#"{"properties":7}"#, "", false),
            (r#"{"required":["z"]}"#, "z: any", false),
        ];
        for (text, signature, open) in cases {
            let schema = Schema::read(text);
            assert_eq!(
                (schema.signature().as_str(), schema.open),
                (signature, open),
                "{text}"
            );
        }
    }

    #[test]
    fn references_that_multiply_end() {
        let many = vec![r##"{"$ref":"#/properties/a"}"##; 100].join(",");
        let schema = format!(r#"{{"properties":{{"a":{{"anyOf":[{many}]}}}}}}"#);
        assert_eq!(Schema::read(&schema).signature(), "a?: any");
        let long: Vec<_> = (0..=MAX_CHOICES).collect();
        let schema = format!(r#"{{"properties":{{"a":{{"type":"integer","enum":{long:?}}}}}}}"#);
        assert_eq!(Schema::read(&schema).signature(), "a?: integer");
    }

    #[test]
    fn types_of_json_texts() {
        let cases = [
            ("1", Types::INTEGER),
            ("2.0", Types::INTEGER),
            ("1e3", Types::INTEGER),
            ("2.5", Types::NUMBER),
            ("12345678901234567890123", Types::INTEGER),
            ("\"x\"", Types::STRING),
            ("null", Types::NULL),
        ];
        for (json, types) in cases {
            assert_eq!(Types::of(json), types, "{json}");
        }
        assert!(Types::NUMBER.contains(Types::INTEGER) && !Types::INTEGER.contains(Types::NUMBER));
        assert_eq!(
            Types::STRING.union(Types::NULL).to_string(),
            "string or null"
        );
    }
}
