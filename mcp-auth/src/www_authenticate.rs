//! `WWW-Authenticate`: what a server asks for with a 401 or 403 (AUTH-02).
//!
//! One field may hold several challenges, and there may be several fields. Parameters and challenges are both separated by
//! commas, so a name with `=` behind it belongs to the challenge before it. Known sloppiness is read, not refused:
//! unquoted addresses, missing commas between parameters, a quote that is never closed. Input is bounded; nothing here
//! fails, since a challenge that can't be read is a server that gives no hints.

use serde::{Deserialize, Serialize};

use crate::evidence::shown;
use crate::scope::ScopeSet;

/// Bytes of one field that are read.
pub const MAX_FIELD_BYTES: usize = 16 * 1024;
/// Challenges that are read.
pub const MAX_CHALLENGES: usize = 16;
/// Parameters of one challenge that are read.
pub const MAX_PARAMETERS: usize = 32;

/// One challenge of any scheme.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct Challenge {
    /// The scheme, in lower case.
    pub scheme: String,
    /// The one unnamed value that schemes like `Negotiate` carry.
    pub token68: Option<String>,
    /// Parameters in their order, names in lower case. Of a name that comes twice the first counts.
    pub parameters: Vec<(String, String)>,
}

impl Challenge {
    /// A parameter, by its name in lower case.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }
}

/// How a token is sent.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TokenScheme {
    /// `Authorization: Bearer` (RFC 6750).
    #[default]
    Bearer,
    /// `Authorization: DPoP` with a proof (RFC 9449).
    Dpop,
}

impl TokenScheme {
    /// As it stands before the token.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bearer => "Bearer",
            Self::Dpop => "DPoP",
        }
    }
}

/// What the challenges for a token say together.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct TokenChallenge {
    /// The schemes that are offered, in their order, each once.
    pub schemes: Vec<TokenScheme>,
    /// Where the protected resource metadata is, as given.
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs.
    pub scope: Option<ScopeSet>,
    /// `invalid_token`, `insufficient_scope`, `use_dpop_nonce` or another code.
    pub error: Option<String>,
    /// What the server says about it, made fit to be shown.
    pub error_description: Option<String>,
}

impl TokenChallenge {
    /// Reads all fields of a response; `None` if no challenge asks for a token.
    ///
    /// Servers that offer `Bearer` and `DPoP` name things in either or in both, so each thing is taken from the first
    /// challenge that has it.
    pub fn read<'a>(fields: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let mut found = Self::default();
        for challenge in parse(fields) {
            let scheme = match challenge.scheme.as_str() {
                "bearer" => TokenScheme::Bearer,
                "dpop" => TokenScheme::Dpop,
                _ => continue,
            };
            if !found.schemes.contains(&scheme) {
                found.schemes.push(scheme);
            }
            let take = |have: &mut Option<String>, name: &str| {
                if have.is_none() {
                    *have = challenge
                        .parameter(name)
                        .filter(|value| !value.is_empty())
                        .map(str::to_owned);
                }
            };
            take(&mut found.resource_metadata, "resource_metadata");
            take(&mut found.error, "error");
            if found.error_description.is_none() {
                found.error_description = challenge.parameter("error_description").map(shown);
            }
            if found.scope.is_none() {
                found.scope = challenge
                    .parameter("scope")
                    .map(ScopeSet::parse)
                    .filter(|scope| !scope.is_empty());
            }
        }
        (!found.schemes.is_empty()).then_some(found)
    }

    /// Whether more scopes are asked for (AUTH-50).
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }
}

/// All challenges of all fields of a response.
pub fn parse<'a>(fields: impl IntoIterator<Item = &'a str>) -> Vec<Challenge> {
    let mut challenges = Vec::new();
    for field in fields {
        let mut end = field.len().min(MAX_FIELD_BYTES);
        while !field.is_char_boundary(end) {
            end -= 1;
        }
        let mut reader = Reader {
            text: &field[..end],
            at: 0,
        };
        // A field starts with a scheme: a parameter there belongs to nothing.
        let first = challenges.len();
        read_field(&mut reader, &mut challenges, first);
        if challenges.len() >= MAX_CHALLENGES {
            break;
        }
    }
    challenges
}

fn read_field(reader: &mut Reader<'_>, challenges: &mut Vec<Challenge>, first: usize) {
    loop {
        reader.skip(|byte| byte == b',' || is_space(byte));
        if reader.is_done() {
            return;
        }
        let start = reader.at;
        let name = reader.token();
        if name.is_empty() {
            reader.skip_element();
            continue;
        }
        if reader.equals_follows() {
            let value = reader.value();
            if challenges.len() > first
                && let Some(challenge) = challenges.last_mut()
            {
                add_parameter(challenge, name, value);
            }
            reader.skip_junk();
            continue;
        }
        if start > 0 && !reader.element_starts(start) {
            // A word behind a parameter, such as the second scope of an unquoted list.
            reader.skip_junk();
            continue;
        }
        if challenges.len() >= MAX_CHALLENGES {
            return;
        }
        challenges.push(Challenge {
            scheme: name.to_ascii_lowercase(),
            token68: reader.token68(),
            parameters: Vec::new(),
        });
    }
}

fn add_parameter(challenge: &mut Challenge, name: &str, value: String) {
    let name = name.to_ascii_lowercase();
    if challenge.parameters.len() < MAX_PARAMETERS && challenge.parameter(&name).is_none() {
        challenge.parameters.push((name, value));
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn is_done(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Moves past bytes that `wanted` takes, all of them ASCII.
    fn skip(&mut self, wanted: impl Fn(u8) -> bool) -> usize {
        let count = self
            .rest()
            .iter()
            .take_while(|byte| byte.is_ascii() && wanted(**byte))
            .count();
        self.at += count;
        count
    }

    fn token(&mut self) -> &'a str {
        let start = self.at;
        self.skip(is_token);
        &self.text[start..self.at]
    }

    /// Whether `=` comes next, with or without spaces; moves behind it.
    fn equals_follows(&mut self) -> bool {
        let start = self.at;
        self.skip(is_space);
        if self.rest().first() == Some(&b'=') {
            self.at += 1;
            self.skip(is_space);
            return true;
        }
        self.at = start;
        false
    }

    fn value(&mut self) -> String {
        if self.rest().first() == Some(&b'"') {
            self.at += 1;
            return self.quoted();
        }
        let rest = &self.text[self.at..];
        let end = rest
            .find(|char: char| char == ',' || char.is_ascii_whitespace())
            .unwrap_or(rest.len());
        self.at += end;
        rest[..end].to_owned()
    }

    fn quoted(&mut self) -> String {
        let mut value = String::new();
        let mut escaped = false;
        for char in self.text[self.at..].chars() {
            self.at += char.len_utf8();
            match char {
                '"' if !escaped => return value,
                '\\' if !escaped => escaped = true,
                _ => {
                    value.push(char);
                    escaped = false;
                }
            }
        }
        value
    }

    /// The unnamed value of a scheme, if what follows is one up to the next comma.
    fn token68(&mut self) -> Option<String> {
        let start = self.at;
        if self.skip(is_space) > 0 {
            let from = self.at;
            let length = self.skip(is_token68);
            self.skip(|byte| byte == b'=');
            let value = &self.text[from..self.at];
            self.skip(is_space);
            if length > 0 && self.rest().first().is_none_or(|byte| *byte == b',') {
                return Some(value.to_owned());
            }
        }
        self.at = start;
        None
    }

    /// Whether the word at `start` is the first of its list element.
    fn element_starts(&self, start: usize) -> bool {
        self.text[..start]
            .trim_end_matches([' ', '\t'])
            .ends_with(',')
            || self.text[..start].trim().is_empty()
    }

    /// After a parameter: to the next comma or parameter.
    fn skip_junk(&mut self) {
        loop {
            self.skip(is_space);
            match self.rest().first() {
                None | Some(b',') => return,
                Some(_) => {}
            }
            let start = self.at;
            if !self.token().is_empty() {
                if self.equals_follows() {
                    self.at = start;
                    return;
                }
                continue;
            }
            self.skip_char();
        }
    }

    /// To the next comma that stands in no quotes.
    fn skip_element(&mut self) {
        while let Some(byte) = self.rest().first() {
            match byte {
                b',' => return,
                b'"' => {
                    self.at += 1;
                    self.quoted();
                }
                _ => self.skip_char(),
            }
        }
    }

    fn skip_char(&mut self) {
        self.at += self.text[self.at..]
            .chars()
            .next()
            .map_or(1, char::len_utf8);
    }
}

fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_token68(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Challenges as `scheme[token68] name=value; name=value`.
    fn printed(fields: &[&str]) -> Vec<String> {
        let one = |challenge: Challenge| {
            let mut text = challenge.scheme;
            if let Some(value) = challenge.token68 {
                text += &format!("[{value}]");
            }
            for (name, value) in challenge.parameters {
                text += &format!(" {name}={value};");
            }
            text
        };
        parse(fields.iter().copied()).into_iter().map(one).collect()
    }

    #[test]
    fn fields_are_read_as_the_grammar_says() {
        let cases: &[(&[&str], &[&str])] = &[
            (&["Bearer"], &["bearer"]),
            (
                &[r#"BEARER Realm="a, b=\"c\"", SCOPE="x y""#],
                &[r#"bearer realm=a, b="c"; scope=x y;"#],
            ),
            (
                &["Basic realm=x, Bearer scope=y"],
                &["basic realm=x;", "bearer scope=y;"],
            ),
            (&["Negotiate, Bearer a=b"], &["negotiate", "bearer a=b;"]),
            (
                &["Negotiate aGk=, DPoP algs=\"ES256 PS256\""],
                &["negotiate[aGk=]", "dpop algs=ES256 PS256;"],
            ),
            (
                &["Basic realm=x", "Bearer a = \"b\" , c=d"],
                &["basic realm=x;", "bearer a=b; c=d;"],
            ),
            (&["Bearer a=1, a=2, b=3"], &["bearer a=1; b=3;"]),
            (&[",, ,Bearer a=b,,", ""], &["bearer a=b;"]),
        ];
        for (fields, expected) in cases {
            assert_eq!(printed(fields), *expected, "{fields:?}");
        }
    }

    #[test]
    fn sloppy_fields_are_read_as_they_are_meant() {
        let cases: &[(&str, &[&str])] = &[
            (
                "Bearer resource_metadata=https://h/a?b=c, scope=x",
                &["bearer resource_metadata=https://h/a?b=c; scope=x;"],
            ),
            (
                r#"Bearer realm="x" scope="y""#,
                &["bearer realm=x; scope=y;"],
            ),
            ("Bearer scope=a b c, error=d", &["bearer scope=a; error=d;"]),
            (
                r#"Bearer scope="never closed, a=b"#,
                &["bearer scope=never closed, a=b;"],
            ),
            ("realm=x, Bearer a=b", &["bearer a=b;"]),
            ("\"Bearer a=b\", é, Bearer c=d", &["bearer c=d;"]),
            ("Bearer a=\"b\"é, c=d", &["bearer a=b; c=d;"]),
        ];
        for (field, expected) in cases {
            assert_eq!(printed(&[field]), *expected, "{field:?}");
        }
    }

    #[test]
    fn auth_02_what_asks_for_a_token_is_put_together() {
        let challenge = TokenChallenge::read([
            r#"Basic realm="old", DPoP algs="ES256", error="use_dpop_nonce""#,
            r#"Bearer resource_metadata="https://h/prm", scope="a  b a", error="invalid_token", error_description="a
 b""#,
        ])
        .unwrap();
        assert_eq!(challenge.schemes, [TokenScheme::Dpop, TokenScheme::Bearer]);
        assert_eq!(
            challenge.resource_metadata.as_deref(),
            Some("https://h/prm")
        );
        assert_eq!(challenge.scope.unwrap().to_string(), "a b");
        assert_eq!(challenge.error.as_deref(), Some("use_dpop_nonce"));
        assert_eq!(challenge.error_description.as_deref(), Some("a b"));
        assert_eq!(
            TokenChallenge::read([r#"Basic realm="x", scope="a""#]),
            None
        );
        assert_eq!(TokenChallenge::read([]), None);
    }

    #[test]
    fn what_is_read_is_bounded() {
        let many = "Bearer a=b, ".repeat(100);
        assert_eq!(parse([many.as_str(), many.as_str()]).len(), MAX_CHALLENGES);
        let wide: String = (0..100).map(|n| format!("p{n}=v, ")).collect();
        let challenges = parse([format!("Bearer {wide}").as_str()]);
        assert_eq!(challenges[0].parameters.len(), MAX_PARAMETERS);
        let long = format!("Bearer scope=\"{}é\"", "x".repeat(MAX_FIELD_BYTES - 15));
        assert!(parse([long.as_str()])[0].parameters[0].1.len() < MAX_FIELD_BYTES);
    }

    proptest! {
        #[test]
        fn any_field_is_read(fields in prop::collection::vec("\\PC{0,60}", 0..4)) {
            parse(fields.iter().map(String::as_str));
        }

        #[test]
        fn anything_like_a_challenge_is_read(field in r#"([A-Za-z]{1,4}|[ ,="\\]|é){0,60}"#) {
            let challenges = parse([field.as_str()]);
            prop_assert!(challenges.len() <= MAX_CHALLENGES);
        }

        #[test]
        fn a_quoted_value_comes_back_as_it_was(value in "[ -~]{0,40}", before in "[a-z]{1,5}") {
            let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
            let field = format!("Basic realm=x, Bearer {before}=1, v=\"{quoted}\", last=2");
            let challenges = parse([field.as_str()]);
            prop_assert_eq!(challenges.len(), 2);
            if before != "v" {
                prop_assert_eq!(challenges[1].parameter("v"), Some(value.as_str()));
            }
            if before != "last" {
                prop_assert_eq!(challenges[1].parameter("last"), Some("2"));
            }
        }
    }
}
