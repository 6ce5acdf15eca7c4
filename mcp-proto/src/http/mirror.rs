//! Arguments that a tool wants repeated as header fields (`x-mcp-header`).
//!
//! Rules: HTTPM-20 to HTTPM-31. A property without a `type`, or with an array of types other than one primitive and
//! `null`, is refused, since the protocol does not say what its values are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};
use thiserror::Error;

use super::field::HeaderField;
use crate::error::UsageError;
use crate::members::Members;

const ANNOTATION: &str = "x-mcp-header";

/// The largest integer, in either direction, that a header may carry: 2^53 - 1.
pub const MAX_SAFE_INTEGER: i64 = (1 << 53) - 1;

/// Most subschemas that are looked at.
const MAX_SUBSCHEMAS: usize = 10_000;

/// What each tool of a server wants as header fields. Tools that want nothing need no entry.
pub type ToolHeaders = BTreeMap<String, MirroredParams>;

/// The arguments of one tool that become header fields.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct MirroredParams(Vec<Mirrored>);

#[derive(Clone, Debug, Eq, PartialEq)]
struct Mirrored {
    /// The keys from `arguments` to the value.
    path: Vec<String>,
    /// The whole field name, `Mcp-Param-…`.
    field: String,
}

/// Why the annotations of a tool are not valid; such a tool can't be called over HTTP (HTTPM-26).
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum InvalidMirror {
    /// The annotation is no non-empty token of RFC 9110.
    #[error("x-mcp-header of {place} is {found}, which is no header name")]
    Name {
        /// The property.
        place: String,
        /// What stands there.
        found: String,
    },
    /// Two properties want the same field.
    #[error("x-mcp-header {name:?} stands twice")]
    Repeated {
        /// The name.
        name: String,
    },
    /// The schema has too many parts to be searched.
    #[error("its schema has more than {limit} parts")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// The property is no string, integer or boolean.
    #[error("x-mcp-header of {place}, whose type is {found} and not string, integer or boolean")]
    Type {
        /// The property.
        place: String,
        /// Its type.
        found: String,
    },
    /// The schema is JSON that can't be looked into.
    #[error("its schema can't be read: nested too deeply, or with numbers or text past all bounds")]
    Unreadable,
    /// The annotation is not at a property that is reached through `properties` alone.
    #[error("x-mcp-header under {place}, where no single value can be found")]
    Unreachable {
        /// The keyword.
        place: String,
    },
}

impl MirroredParams {
    /// Reads the annotations of a tool's `inputSchema`.
    ///
    /// # Errors
    /// The first reason why they are not valid.
    pub fn read(schema: &RawValue) -> Result<Self, InvalidMirror> {
        let text = schema.get();
        // An escape may hide the word; nearly no schema has either.
        if !text.contains(ANNOTATION) && !text.contains("\\u") {
            return Ok(Self::default());
        }
        let root = match serde_json::from_str(text) {
            Ok(Value::Object(root)) => root,
            Ok(_) => return Ok(Self::default()),
            // Nested too deeply, say: what it wants as headers is not known.
            Err(_) if text.contains(ANNOTATION) => return Err(InvalidMirror::Unreadable),
            Err(_) => return Ok(Self::default()),
        };
        let mut walk = Walk::default();
        if root.contains_key(ANNOTATION) {
            return Err(InvalidMirror::Unreachable {
                place: "the root".to_owned(),
            });
        }
        walk.schema(&root, &mut Vec::new(), None)?;
        Ok(Self(walk.found))
    }

    /// Whether nothing is to be repeated.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields for a call with these arguments, given as JSON text.
    ///
    /// # Errors
    /// [`UsageError::UnfitHeaderArgument`] for a value that is no string, safe integer or boolean.
    pub fn fields(&self, tool: &str, arguments: &str) -> Result<Vec<HeaderField>, UsageError> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let mut fields = Vec::new();
        for Mirrored { path, field } in &self.0 {
            let value = find(arguments, path).map_err(|Unreadable| {
                unfit(tool, path, "stands in an object that can't be read")
            })?;
            let Some(value) = value else {
                continue;
            };
            if value.starts_with(['[', '{']) {
                return Err(unfit(tool, path, "is no string, integer or boolean"));
            }
            let text = match serde_json::from_str(value) {
                Ok(Value::Null) => continue,
                Ok(Value::String(text)) => text,
                Ok(Value::Bool(flag)) => flag.to_string(),
                Ok(Value::Number(number)) => integer(&number)
                    .ok_or_else(|| unfit(tool, path, "is no integer within 2^53 - 1"))?,
                Ok(Value::Array(_) | Value::Object(_)) | Err(_) => {
                    return Err(unfit(
                        tool,
                        path,
                        "is no text or number that can be written",
                    ));
                }
            };
            fields.push(HeaderField::new(field.clone(), &text));
        }
        Ok(fields)
    }
}

/// An object with keys that are no text.
struct Unreadable;

/// The text of the value that a path leads to, if there is one. The rest of the arguments is not looked at: nothing in it
/// matters here, however deep or odd it is.
fn find<'a>(arguments: &'a str, path: &[String]) -> Result<Option<&'a str>, Unreadable> {
    let mut value = arguments.trim_start();
    for key in path {
        if !value.starts_with('{') {
            return Ok(None);
        }
        match Members::read(value).ok_or(Unreadable)?.last(key) {
            Some(found) => value = found.get(),
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn unfit(tool: &str, path: &[String], reason: &'static str) -> UsageError {
    UsageError::UnfitHeaderArgument {
        tool: tool.to_owned(),
        argument: path.join("."),
        reason,
    }
}

/// The decimal text of an integer, also of one written as `42.0` (HTTPM-22).
fn integer(number: &Number) -> Option<String> {
    let value = match number.as_i64() {
        Some(value) => value,
        None => {
            let float = number.as_f64()?;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "its fraction is zero and its size is checked first"
            )]
            (float.fract() == 0.0 && float.abs() <= MAX_SAFE_INTEGER as f64)
                .then_some(float as i64)?
        }
    };
    (-MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER)
        .contains(&value)
        .then(|| value.to_string())
}

#[derive(Default)]
struct Walk {
    found: Vec<Mirrored>,
    names: BTreeSet<String>,
    seen: usize,
}

/// Keywords whose value is a schema, or an array or map of them, and that lead away from the one value that a property is.
const ONE: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
const MANY: &[&str] = &["allOf", "anyOf", "items", "oneOf", "prefixItems"];
const MAPS: &[&str] = &[
    "$defs",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "patternProperties",
];

impl Walk {
    /// Looks at one schema. `path` leads to its value; `under` is the keyword that cut the path off, if any.
    fn schema(
        &mut self,
        schema: &Map<String, Value>,
        path: &mut Vec<String>,
        under: Option<&str>,
    ) -> Result<(), InvalidMirror> {
        self.seen += 1;
        if self.seen > MAX_SUBSCHEMAS {
            return Err(InvalidMirror::TooLarge {
                limit: MAX_SUBSCHEMAS,
            });
        }
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (key, property) in properties {
                let Value::Object(property) = property else {
                    continue;
                };
                path.push(key.clone());
                if let Some(annotation) = property.get(ANNOTATION) {
                    if let Some(keyword) = under {
                        return Err(unreachable(keyword));
                    }
                    self.property(path, property, annotation)?;
                }
                self.schema(property, path, under)?;
                path.pop();
            }
        }
        let one = ONE.iter().filter_map(|key| Some((*key, schema.get(*key)?)));
        let many = MANY.iter().filter_map(|key| {
            let list = schema.get(*key)?.as_array()?;
            Some(list.iter().map(|value| (*key, value)))
        });
        let maps = MAPS.iter().filter_map(|key| {
            let map = schema.get(*key)?.as_object()?;
            Some(map.values().map(|value| (*key, value)))
        });
        let inner: Vec<_> = one.chain(many.flatten()).chain(maps.flatten()).collect();
        for (keyword, value) in inner {
            let Value::Object(value) = value else {
                continue;
            };
            if value.contains_key(ANNOTATION) {
                return Err(unreachable(keyword));
            }
            self.schema(value, path, Some(keyword))?;
        }
        Ok(())
    }

    fn property(
        &mut self,
        path: &[String],
        property: &Map<String, Value>,
        annotation: &Value,
    ) -> Result<(), InvalidMirror> {
        let place = || path.join(".");
        let name = annotation
            .as_str()
            .filter(|name| !name.is_empty() && name.bytes().all(is_tchar))
            .ok_or_else(|| InvalidMirror::Name {
                place: place(),
                found: excerpt(annotation),
            })?;
        let primitive = |value: &Value| {
            value
                .as_str()
                .is_some_and(|kind| matches!(kind, "string" | "integer" | "boolean"))
        };
        let fits = match property.get("type") {
            Some(Value::Array(types)) => {
                types.len() == 2
                    && types.iter().any(|kind| kind == "null")
                    && types.iter().any(primitive)
            }
            Some(kind) => primitive(kind),
            None => false,
        };
        if !fits {
            return Err(InvalidMirror::Type {
                place: place(),
                found: property
                    .get("type")
                    .map_or_else(|| "not given".to_owned(), excerpt),
            });
        }
        if !self.names.insert(name.to_ascii_lowercase()) {
            return Err(InvalidMirror::Repeated {
                name: name.to_owned(),
            });
        }
        self.found.push(Mirrored {
            path: path.to_vec(),
            field: format!("Mcp-Param-{name}"),
        });
        Ok(())
    }
}

fn unreachable(keyword: &str) -> InvalidMirror {
    InvalidMirror::Unreachable {
        place: keyword.to_owned(),
    }
}

fn excerpt(value: &impl fmt::Display) -> String {
    const MAX_SHOWN_BYTES: usize = 64;
    mcp_jsonrpc::clean_excerpt(value.to_string().as_bytes(), MAX_SHOWN_BYTES)
}

fn is_tchar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(schema: &str) -> Result<MirroredParams, InvalidMirror> {
        MirroredParams::read(&RawValue::from_string(schema.to_owned()).unwrap())
    }

    fn fields(schema: &str, arguments: &str) -> Result<Vec<String>, String> {
        read(schema)
            .unwrap()
            .fields("t", arguments)
            .map(|fields| {
                fields
                    .into_iter()
                    .map(|field| format!("{}: {}", field.name, field.value))
                    .collect()
            })
            .map_err(|error| error.to_string())
    }

    #[test]
    fn annotated_arguments_become_fields() {
        let schema = r#"{"type":"object","properties":{
            "tenant":{"type":"string","x-mcp-header":"Tenant"},
            "count":{"type":"integer","x-mcp-header":"Count"},
            "dry":{"type":["boolean","null"],"x-mcp-header":"Method"},
            "plain":{"type":"string"},
            "where":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}}"#;
        let cases: &[(&str, Result<&[&str], &str>)] = &[
            ("{}", Ok(&[])),
            (r#"{"tenant":null,"plain":"p"}"#, Ok(&[])),
            (r#"{"tenant":""}"#, Ok(&["Mcp-Param-Tenant: "])),
            (
                r#"{"tenant":"größe","count":42.0,"dry":false,"where":{"region":"eu"}}"#,
                Ok(&[
                    "Mcp-Param-Count: 42",
                    "Mcp-Param-Method: false",
                    "Mcp-Param-Tenant: =?base64?Z3LDtsOfZQ==?=",
                    "Mcp-Param-Region: eu",
                ]),
            ),
            (r#"{"where":7}"#, Ok(&[])),
            (
                r#"{"count":-9007199254740991}"#,
                Ok(&["Mcp-Param-Count: -9007199254740991"]),
            ),
            (
                r#"{"count":9007199254740992}"#,
                Err("t: the argument count goes into a header, but is no integer within 2^53 - 1"),
            ),
            (
                r#"{"count":1.5}"#,
                Err("t: the argument count goes into a header, but is no integer within 2^53 - 1"),
            ),
            (
                r#"{"tenant":["a"]}"#,
                Err(
                    "t: the argument tenant goes into a header, but is no string, integer or boolean",
                ),
            ),
            (
                r#"{"tenant":"a\r\nEvil: 1"}"#,
                Ok(&["Mcp-Param-Tenant: =?base64?YQ0KRXZpbDogMQ==?="]),
            ),
        ];
        for (arguments, expected) in cases {
            let found = fields(schema, arguments);
            let expected = expected
                .map(|fields| fields.iter().map(ToString::to_string).collect::<Vec<_>>())
                .map_err(str::to_owned);
            assert_eq!(found, expected, "{arguments}");
        }
    }

    #[test]
    fn annotations_elsewhere_make_a_tool_invalid() {
        let property = |inner: &str| format!(r#"{{"type":"object","properties":{{"a":{inner}}}}}"#);
        let invalid = [
            (property(r#"{"type":"string","x-mcp-header":""}"#), "no header name"),
            (property(r#"{"type":"string","x-mcp-header":"a b"}"#), "no header name"),
            (property(r#"{"type":"string","x-mcp-header":"a:b"}"#), "no header name"),
            (property(r#"{"type":"string","x-mcp-header":"gr\u00f6\u00dfe"}"#), "no header name"),
            (property(r#"{"type":"string","x-mcp-header":7}"#), "no header name"),
            (property(r#"{"type":"string","x\u002dmcp-header":7}"#), "no header name"),
            (property(r#"{"type":"number","x-mcp-header":"A"}"#), "whose type is"),
            (property(r#"{"type":"object","x-mcp-header":"A"}"#), "whose type is"),
            (property(r#"{"type":["string","integer"],"x-mcp-header":"A"}"#), "whose type is"),
            (property(r##"{"$ref":"#/$defs/x","x-mcp-header":"A"}"##), "whose type is not given"),
            (
                r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#.to_owned(),
                "stands twice",
            ),
            (property(r#"{"type":"array","items":{"type":"string","x-mcp-header":"A"}}"#), "under items"),
            (property(r#"{"items":[{"x-mcp-header":"A"}]}"#), "under items"),
            (r#"{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#.to_owned(), "under anyOf"),
            (r#"{"$defs":{"x":{"type":"string","x-mcp-header":"A"}}}"#.to_owned(), "under $defs"),
            (r#"{"then":{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}}"#.to_owned(), "under then"),
            (r#"{"type":"object","x-mcp-header":"A"}"#.to_owned(), "under the root"),
        ];
        for (schema, part) in invalid {
            let error = read(&schema).unwrap_err().to_string();
            assert!(error.contains(part), "{schema}: {error}");
        }
        let innocent = [
            property(r#"{"type":"string","default":{"x-mcp-header":"A"}}"#),
            property(r#"{"enum":["x-mcp-header"],"examples":[{"x-mcp-header":"A"}]}"#),
            r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#.to_owned(),
            "true".to_owned(),
            "{}".to_owned(),
        ];
        for schema in innocent {
            assert!(read(&schema).unwrap().is_empty(), "{schema}");
        }
    }

    #[test]
    fn a_schema_without_end_is_not_searched_for_ever() {
        let many = vec![r#"{"x":1}"#; MAX_SUBSCHEMAS].join(",");
        let schema = format!(r#"{{"description":"x-mcp-header","anyOf":[{many}]}}"#);
        assert_eq!(
            read(&schema),
            Err(InvalidMirror::TooLarge {
                limit: MAX_SUBSCHEMAS
            })
        );
    }
}
