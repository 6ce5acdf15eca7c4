//! Variables in configured values: `${VAR}`, `${VAR:-default}`, `${env:VAR}`; `$${` is a literal `${`.
//!
//! One pass without nesting; a bare `$VAR` is text. A variable without a value is an error that names it, so that no
//! program ever starts with a literal `${…}` in its arguments (C217).

use std::fmt;

/// A value with its variables filled in. Its text may hold secrets.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Expanded {
    pub(crate) text: String,
    /// The variables used, in order, with where their values came from.
    pub(crate) used: Vec<(String, Origin)>,
}

/// Where a variable's value came from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Origin {
    /// The default written in the file.
    Default,
    /// The environment, or a folder known to this program.
    Known,
}

/// Why a value can't be filled in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ExpandError {
    /// No `}`.
    Unclosed,
    /// No value and no default.
    Unset { name: String },
    /// A form that other hosts may know.
    Unsupported { written: String },
}

impl fmt::Display for ExpandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unclosed => {
                f.write_str("a ${ without its }; write $${ for the characters themselves")
            }
            Self::Unset { name } => write!(
                f,
                "{name} is not set; set it, or write ${{{name}:-default}}"
            ),
            Self::Unsupported { written } => write!(f, "${{{written}}} is not supported here"),
        }
    }
}

/// Fills in the variables of `text`.
///
/// # Errors
/// See [`ExpandError`]; nothing is left half expanded.
pub(crate) fn expand(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Expanded, ExpandError> {
    let mut expanded = Expanded {
        text: String::with_capacity(text.len()),
        used: Vec::new(),
    };
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            expanded.text.push_str(before);
            expanded.text.push_str("${");
            rest = after;
            continue;
        }
        expanded.text.push_str(before);
        let (written, after) = after.split_once('}').ok_or(ExpandError::Unclosed)?;
        let (name, default) = match written.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (written, None),
        };
        let name = name.strip_prefix("env:").unwrap_or(name);
        if !is_name(name) {
            return Err(ExpandError::Unsupported {
                written: written.to_owned(),
            });
        }
        // As in a shell, `:-` also replaces an empty value.
        let value = lookup(name).filter(|value| default.is_none() || !value.is_empty());
        let (value, origin) = match (value, default) {
            (Some(value), _) => (value, Origin::Known),
            (None, Some(default)) => (default.to_owned(), Origin::Default),
            (None, None) => {
                return Err(ExpandError::Unset {
                    name: name.to_owned(),
                });
            }
        };
        expanded.text.push_str(&value);
        expanded.used.push((name.to_owned(), origin));
        rest = after;
    }
    expanded.text.push_str(rest);
    Ok(expanded)
}

/// As [`expand`], the text alone.
///
/// # Errors
/// As [`expand`].
pub(crate) fn expand_text(
    text: &str,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<String, ExpandError> {
    expand(text, lookup).map(|expanded| expanded.text)
}

/// Whether a variable of the environment can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let mut chars = name.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<String> {
        match name {
            "HOME" => Some("/h/ada".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRICKY" => Some("${HOME}".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn c217_variables_are_filled_in_or_named() {
        let unset = |name: &str| {
            Err(ExpandError::Unset {
                name: name.to_owned(),
            })
        };
        let unsupported = |written: &str| {
            Err(ExpandError::Unsupported {
                written: written.to_owned(),
            })
        };
        let cases = [
            ("plain $HOME $ {", Ok("plain $HOME $ {")),
            ("${HOME}/x", Ok("/h/ada/x")),
            ("${env:HOME}/x", Ok("/h/ada/x")),
            ("a${HOME}b${HOME}", Ok("a/h/adab/h/ada")),
            ("${NONE:-a:-b}", Ok("a:-b")),
            ("${env:NONE:-}", Ok("")),
            ("${EMPTY}", Ok("")),
            ("${EMPTY:-full}", Ok("full")),
            ("${TRICKY}", Ok("${HOME}")),
            ("$${HOME}", Ok("${HOME}")),
            ("$$${HOME}", Ok("$${HOME}")),
            ("${workspaceFolder}", unset("workspaceFolder")),
            ("${NONE}", unset("NONE")),
            ("${input:token}", unsupported("input:token")),
            ("${}", unsupported("")),
            ("${A B}", unsupported("A B")),
            ("x${HOME", Err(ExpandError::Unclosed)),
        ];
        for (text, expected) in cases {
            let found = expand(text, &lookup).map(|expanded| expanded.text);
            assert_eq!(found, expected.map(str::to_owned), "{text}");
        }
    }

    #[test]
    fn origins_are_told() {
        let expanded = expand("${HOME}${NONE:-x}", &lookup).unwrap();
        assert_eq!(
            expanded.used,
            [
                ("HOME".to_owned(), Origin::Known),
                ("NONE".to_owned(), Origin::Default)
            ]
        );
    }
}
