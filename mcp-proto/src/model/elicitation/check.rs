//! Whether what a person filled in may leave (ELIC-08).

use mcp_jsonrpc::RequestId;
use serde_json::Number;

use super::{
    FieldChoice, FieldKind, FieldValue, FormContent, FormField, FormSchema, NumberRange, TextFormat,
};

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

impl FieldKind {
    pub(super) fn check(&self, value: &FieldValue) -> Result<(), String> {
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
    use serde_json::{Value, json};

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
}
