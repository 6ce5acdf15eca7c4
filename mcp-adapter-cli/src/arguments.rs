//! `key=value` words as the arguments of a tool, typed by its schema and checked before anything is sent.
//!
//! | Form | Meaning |
//! |---|---|
//! | `key=value` | as the schema says: text for a string, else it must parse; JSON or text where the schema says nothing |
//! | `key:=json` | JSON, whatever the schema says |
//! | `key=@file`, `key:=@file` | text, or JSON, from a file |
//! | `key=@base64:file` | bytes from a file, in Base64 |
//! | `key=@@x` | the text `@x` |
//! | `key=a key=b` | a list, where the schema wants one |
//!
//! Values keep their text, so numbers keep their digits. Must not know: the file system (a function reads files).

use base64::Engine as _;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::nearest::nearest;
use crate::schema::{Property, Schema, Shape, Types, written};

/// Reads a file for `@file`.
pub(crate) type ReadFile<'a> = &'a dyn Fn(&str) -> Result<Vec<u8>, String>;

/// One argument that is wrong: its name, and what is wrong with it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Wrong {
    pub(crate) name: String,
    pub(crate) what: String,
}

fn wrong(name: &str, what: impl Into<String>) -> Wrong {
    Wrong {
        name: name.to_owned(),
        what: what.into(),
    }
}

/// The arguments as a JSON object, in the order in which they were given.
///
/// `base` is a whole object from `--args`; words win over it.
///
/// # Errors
/// All that is wrong, not just the first thing.
pub(crate) fn build(
    words: &[String],
    base: Option<&str>,
    schema: &Schema,
    check: bool,
    read_file: ReadFile<'_>,
) -> Result<Box<RawValue>, Vec<Wrong>> {
    let mut values: Vec<(String, String)> = Vec::new();
    let mut problems = Vec::new();
    if let Some(base) = base {
        match read_object(base) {
            Ok(members) => values = members,
            Err(problem) => problems.push(problem),
        }
    }
    let given: Vec<_> = words.iter().map(|word| Word::split(word)).collect();
    let mut done: Vec<&str> = Vec::new();
    for word in &given {
        let word = match word {
            Ok(word) => word,
            Err(problem) => {
                problems.push(problem.clone());
                continue;
            }
        };
        if done.contains(&word.key) {
            continue;
        }
        done.push(word.key);
        let all: Vec<_> = given
            .iter()
            .flatten()
            .filter(|other| other.key == word.key)
            .collect();
        match value_of(&all, schema.get(word.key), read_file) {
            Ok(text) => {
                values.retain(|(name, _)| name != word.key);
                values.push((word.key.to_owned(), text));
            }
            Err(what) => problems.push(wrong(word.key, what)),
        }
    }
    if check {
        problems.extend(check_against(&values, schema, &problems));
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let members: Vec<_> = values
        .iter()
        .map(|(name, text)| format!("{}:{text}", Value::from(name.as_str())))
        .collect();
    serde_json::from_str(&format!("{{{}}}", members.join(",")))
        .map_err(|error| vec![wrong("arguments", error.to_string())])
}

/// A word of the command line.
struct Word<'a> {
    key: &'a str,
    value: &'a str,
    json: bool,
}

impl<'a> Word<'a> {
    fn split(word: &'a str) -> Result<Self, Wrong> {
        let Some((key, value)) = word.split_once('=') else {
            return Err(wrong(word, "arguments are given as key=value"));
        };
        let (key, json) = key
            .strip_suffix(':')
            .map_or((key, false), |key| (key, true));
        if key.is_empty() {
            return Err(wrong(word, "the name in front of = is missing"));
        }
        Ok(Word { key, value, json })
    }
}

/// The JSON text of all words with one key.
fn value_of(
    words: &[&Word<'_>],
    property: Option<&Property>,
    read_file: ReadFile<'_>,
) -> Result<String, String> {
    let any = Shape::ANY;
    let shape = property.map_or(&any, |property| &property.shape);
    match words {
        [word] => {
            let whole = one(word, shape, read_file);
            // The only item of a list, where a list of such items is wanted.
            let items = shape.items.as_deref().filter(|items| {
                !word.json && shape.types.contains(Types::ARRAY) && items.types != Types::ALL
            });
            match (whole, items) {
                (Err(_), Some(items)) => Ok(format!("[{}]", one(word, items, read_file)?)),
                (whole, _) => whole,
            }
        }
        several if shape.types.contains(Types::ARRAY) && property.is_some() => {
            let items = shape.items.as_deref().unwrap_or(&any);
            let items = several
                .iter()
                .map(|word| one(word, items, read_file))
                .collect::<Result<Vec<_>, _>>()?;
            Ok(format!("[{}]", items.join(",")))
        }
        _ => Err("given more than once".to_owned()),
    }
}

/// The JSON text of one word.
fn one(word: &Word<'_>, shape: &Shape, read_file: ReadFile<'_>) -> Result<String, String> {
    let (text, from_file) = text_of(word.value, read_file)?;
    if word.json {
        return json(&text).ok_or_else(|| format!("{} is not JSON", shown(&text)));
    }
    // A file's contents are text, unless the schema wants something else.
    if from_file && shape.types == Types::ALL && shape.choices.is_empty() {
        return Ok(Value::from(text).to_string());
    }
    typed(&text, shape)
}

/// The text behind `=`, and whether it came from a file.
fn text_of(value: &str, read_file: ReadFile<'_>) -> Result<(String, bool), String> {
    if let Some(rest) = value.strip_prefix("@@") {
        return Ok((format!("@{rest}"), false));
    }
    if let Some(file) = value.strip_prefix("@base64:") {
        let bytes = read_file(file)?;
        return Ok((
            base64::engine::general_purpose::STANDARD.encode(bytes),
            true,
        ));
    }
    if let Some(file) = value.strip_prefix('@') {
        let text = String::from_utf8(read_file(file)?);
        return text
            .map(|text| (text, true))
            .map_err(|_| format!("{file} is not text; use @base64:{file}"));
    }
    Ok((value.to_owned(), false))
}

/// A value of a type that the schema wants: JSON where it fits, else text where that fits.
fn typed(text: &str, shape: &Shape) -> Result<String, String> {
    if !shape.choices.is_empty() {
        if let Some(choice) = shape.choices.iter().find(|choice| written(choice) == text) {
            return Ok(choice.to_string());
        }
        let names: Vec<_> = shape.choices.iter().map(written).collect();
        let hint = nearest(text, names.iter().map(String::as_str))
            .map_or_else(String::new, |name| format!("; did you mean {name}?"));
        return Err(format!(
            "expected one of {}, got {}{hint}",
            names.join(", "),
            shown(text)
        ));
    }
    let is_text = shape.types.contains(Types::STRING);
    let as_json = json(text).filter(|json| shape.takes(json));
    match as_json {
        // For a string, `007`, `true` and `"x"` are as good a text as any other.
        Some(json) if shape.types != Types::STRING && (!is_text || !json.starts_with('"')) => {
            Ok(json)
        }
        Some(json) if shape.types == Types::ALL => Ok(json),
        _ if is_text => Ok(Value::from(text).to_string()),
        _ => Err(expected(shape, text)),
    }
}

fn expected(shape: &Shape, text: &str) -> String {
    let what = match shape.types {
        Types::BOOLEAN => "true or false".to_owned(),
        Types::INTEGER => "an integer".to_owned(),
        Types::NUMBER => "a number".to_owned(),
        Types::OBJECT => "a JSON object".to_owned(),
        Types::ARRAY => "a JSON array".to_owned(),
        types => types.to_string(),
    };
    format!("expected {what}, got {}", shown(text))
}

/// The text, if it is JSON, without space around it.
fn json(text: &str) -> Option<String> {
    let raw: &RawValue = serde_json::from_str(text.trim()).ok()?;
    Some(raw.get().to_owned())
}

fn shown(text: &str) -> String {
    format!("{:?}", crate::text::one_line(text, 60))
}

/// The members of a JSON object in order, values as text.
fn read_object(text: &str) -> Result<Vec<(String, String)>, Wrong> {
    let not_an_object = |what: String| wrong("--args", what);
    let value: Value = serde_json::from_str(text).map_err(|error| {
        not_an_object(format!(
            "not JSON ({error}): {}; an example: --args '{{\"key\": 1}}'",
            shown(text)
        ))
    })?;
    if !value.is_object() {
        return Err(not_an_object(format!(
            "expected a JSON object, got {}",
            shown(text)
        )));
    }
    let members: std::collections::BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(text).map_err(|error| not_an_object(error.to_string()))?;
    Ok(members
        .into_iter()
        .map(|(name, raw)| (name, raw.get().to_owned()))
        .collect())
}

/// What the schema says against the values. Names with a problem already are not judged again.
fn check_against(values: &[(String, String)], schema: &Schema, known: &[Wrong]) -> Vec<Wrong> {
    let mut problems = Vec::new();
    for (name, text) in values {
        match schema.get(name) {
            Some(property) => problems.extend(check_value(property, text)),
            None if schema.open => {}
            None => {
                let names = schema
                    .properties
                    .iter()
                    .map(|property| property.name.as_str());
                let hint = nearest(name, names)
                    .map_or_else(String::new, |near| format!("; did you mean {near}?"));
                problems.push(wrong(name, format!("no such argument{hint}")));
            }
        }
    }
    for property in schema
        .properties
        .iter()
        .filter(|property| property.required)
    {
        let given = values.iter().any(|(name, _)| *name == property.name)
            || known.iter().any(|problem| problem.name == property.name);
        if !given {
            problems.push(wrong(&property.name, "required"));
        }
    }
    problems
}

/// Checks a value's top-level type and choice.
fn check_value(property: &Property, text: &str) -> Option<Wrong> {
    let shape = &property.shape;
    if shape.takes(text) {
        return None;
    }
    let what = if shape.choices.is_empty() {
        expected(shape, text)
    } else {
        format!("expected one of {shape}, got {}", shown(text))
    };
    Some(wrong(&property.name, what))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SCHEMA: &str = r#"{"type":"object","required":["s"],"properties":{
        "s":{"type":"string"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},
        "e":{"enum":["newest","relevance"]},"l":{"type":"array","items":{"type":"integer"}},"a":{"type":"array"},
        "o":{"type":"object"},"x":{},"os":{"type":["string","null"]},"oi":{"anyOf":[{"type":"integer"},{"type":"null"}]},
        "si":{"type":["string","integer"]},"sl":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]},
        "le":{"type":"array","items":{"enum":["up","down"]}}}}"#;

    fn files(name: &str) -> Result<Vec<u8>, String> {
        match name {
            "text" => Ok(b"from file".to_vec()),
            "json" => Ok(b"{\"k\": 1}".to_vec()),
            "bytes" => Ok(vec![0xff, 0]),
            other => Err(format!("{other}: no such file")),
        }
    }

    fn built(words: &str, base: Option<&str>) -> Result<String, String> {
        let words: Vec<_> = words
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        build(&words, base, &Schema::read(SCHEMA), true, &files)
            .map(|raw| raw.get().to_owned())
            .map_err(|problems| {
                problems
                    .iter()
                    .map(|problem| format!("{} {}", problem.name, problem.what))
                    .collect::<Vec<_>>()
                    .join("; ")
            })
    }

    #[test]
    fn c232_words_are_typed_by_the_schema() {
        let cases = [
            ("s=007", r#"{"s":"007"}"#),
            ("s=true", r#"{"s":"true"}"#),
            ("s=a=b", r#"{"s":"a=b"}"#),
            ("s=", r#"{"s":""}"#),
            (
                "s=x i=12345678901234567890123",
                r#"{"s":"x","i":12345678901234567890123}"#,
            ),
            (
                "s=x i=2.0 n=1e3 b=false",
                r#"{"s":"x","i":2.0,"n":1e3,"b":false}"#,
            ),
            ("s=x e=newest", r#"{"s":"x","e":"newest"}"#),
            ("s=x l=1 l=2", r#"{"s":"x","l":[1,2]}"#),
            ("s=x l=1", r#"{"s":"x","l":[1]}"#),
            ("s=x l=[1,2]", r#"{"s":"x","l":[1,2]}"#),
            (
                "s=x a=[{}] o={\"k\":1}",
                r#"{"s":"x","a":[{}],"o":{"k":1}}"#,
            ),
            ("s=x x=7", r#"{"s":"x","x":7}"#),
            ("s=x os=7 oi=7 si=7", r#"{"s":"x","os":"7","oi":7,"si":7}"#),
            (
                "s=x os=null oi=null si=true",
                r#"{"s":"x","os":null,"oi":null,"si":"true"}"#,
            ),
            ("s=x os=007 si=007", r#"{"s":"x","os":"007","si":"007"}"#),
            ("s=x os=\"q\"", r#"{"s":"x","os":"\"q\""}"#),
            ("s=x sl=a", r#"{"s":"x","sl":"a"}"#),
            ("s=x sl=[\"a\"]", r#"{"s":"x","sl":["a"]}"#),
            ("s=x sl=a sl=b", r#"{"s":"x","sl":["a","b"]}"#),
            ("s=x le=up", r#"{"s":"x","le":["up"]}"#),
            ("s=x x=seven", r#"{"s":"x","x":"seven"}"#),
            ("s:=\"j\"", r#"{"s":"j"}"#),
            (
                "s=@text o:=@json x=@base64:bytes",
                r#"{"s":"from file","o":{"k": 1},"x":"/wA="}"#,
            ),
            ("s=@@home", r#"{"s":"@home"}"#),
        ];
        for (words, expected) in cases {
            assert_eq!(built(words, None).as_deref(), Ok(expected), "{words}");
        }
        assert_eq!(
            built("i=2", Some(r#"{"s": "base", "i": 1, "b": true}"#)).as_deref(),
            Ok(r#"{"b":true,"s":"base","i":2}"#)
        );
    }

    #[test]
    fn what_is_wrong_is_said_before_anything_is_sent() {
        let cases = [
            ("", "s required"),
            ("s=x i=many", "i expected an integer, got \"many\""),
            ("s=x i=1.5", "i expected an integer, got \"1.5\""),
            ("s=x n=NaN", "n expected a number, got \"NaN\""),
            ("s=x b=yes", "b expected true or false, got \"yes\""),
            (
                "s=x e=newst",
                "e expected one of newest, relevance, got \"newst\"; did you mean newest?",
            ),
            ("s=x o=[]", "o expected a JSON object, got \"[]\""),
            ("s=x l=one", "l expected an integer, got \"one\""),
            ("s=x s=y", "s given more than once"),
            ("s:=7", "s expected string, got \"7\""),
            ("s:=null", "s expected string, got \"null\""),
            ("s=x oi=seven", "oi expected integer or null, got \"seven\""),
            ("s=x i:=1e400", "i expected an integer, got \"1e400\""),
            ("s=x e:=1", "e expected one of newest|relevance, got \"1\""),
            ("s=x a=b", "a expected a JSON array, got \"b\""),
            (
                "s=x le=upp",
                "le expected one of up, down, got \"upp\"; did you mean up?",
            ),
            ("s:=x", "s \"x\" is not JSON"),
            ("s=x word", "word arguments are given as key=value"),
            ("s=x =1", "=1 the name in front of = is missing"),
            ("s=@none", "s none: no such file"),
            ("s=@bytes", "s bytes is not text; use @base64:bytes"),
            ("s=x ss=1", "ss no such argument; did you mean s?"),
        ];
        for (words, expected) in cases {
            assert_eq!(built(words, None), Err(expected.to_owned()), "{words}");
        }
        assert!(
            built("", Some("[1]"))
                .unwrap_err()
                .contains("expected a JSON object")
        );
        assert!(built("", Some("{")).unwrap_err().contains("an example"));
    }

    /// The types that `SCHEMA` allows, told independently of how it is read.
    fn allowed(name: &str, value: &Value) -> bool {
        match name {
            "s" => value.is_string(),
            "i" => value.is_number() && value.as_f64().is_some_and(|number| number.fract() == 0.0),
            "n" => value.is_number(),
            "b" => value.is_boolean(),
            "e" => value == "newest" || value == "relevance",
            "l" | "a" | "le" => value.is_array(),
            "o" => value.is_object(),
            "os" => value.is_string() || value.is_null(),
            "oi" => allowed("i", value) || value.is_null(),
            "si" => allowed("i", value) || value.is_string(),
            "sl" => value.is_string() || value.is_array(),
            "x" => true,
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn nothing_is_sent_that_the_schema_forbids(
            words in prop::collection::vec(
                "(s|i|n|b|e|l|a|o|x|y|os|oi|si|sl|le):?=(null|true|-?[0-9]{1,3}(\\.5|e2)?|newest|\"a\"|[a-z0-9\\[\\]{}\",.-]{0,8})",
                0..6,
            ),
            base in prop::option::of(prop_oneof![
                Just(r#"{"s":null,"oi":2.5}"#), Just(r#"{"s":"x","i":2.5}"#), Just(r#"{"s":"x","e":7,"l":{}}"#),
            ]),
        ) {
            let schema = Schema::read(SCHEMA);
            if let Ok(raw) = build(&words, base, &schema, true, &files) {
                let value: Value = serde_json::from_str(raw.get()).unwrap();
                prop_assert!(value["s"].is_string());
                for (name, value) in value.as_object().unwrap() {
                    prop_assert!(allowed(name, value), "{name}: {value}");
                }
            }
        }

        #[test]
        fn any_words_and_any_schema_do_no_harm(
            words in prop::collection::vec(".{0,12}", 0..4),
            schema in r#"\{?("(type|properties|required|enum|anyOf|items|\$ref)":(\{|\[|"[a-z#/]*"|1|true)[\]}]?,?){0,4}\}?"#,
        ) {
            let _ = build(&words, None, &Schema::read(&schema), true, &files);
        }
    }
}
