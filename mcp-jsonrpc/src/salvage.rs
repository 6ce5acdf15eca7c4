//! Finds the id of a message that can't be read whole.
//!
//! A message that is too long, cut off or broken still belongs to somebody: the call that waits for it. This scanner
//! finds the top-level `id` of a JSON object and whether it has a `method`, in one pass over any chunks, in constant
//! memory. It never judges whether the whole is well-formed; it only looks as far as the structure makes sense.

use crate::RequestId;

/// Longest id that is kept, in bytes of its JSON text. A longer one is not found.
pub const MAX_ID_BYTES: usize = 256;

/// Longest member name that is compared; longer ones are neither `id` nor `method`.
const MAX_KEY_BYTES: usize = 16;

/// What a [`EnvelopeScanner`] found.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct Salvaged {
    /// The top-level `id`, if it is a string or an integer.
    pub id: Option<RequestId>,
    /// Whether there is a top-level `method`: then the message is no answer.
    pub has_method: bool,
}

/// An incremental scanner over the text of one JSON object.
#[derive(Clone, Debug)]
pub struct EnvelopeScanner {
    place: Place,
    /// Nesting depth inside the object; 0 is the object's own level.
    depth: u64,
    in_string: bool,
    escaped: bool,
    text: Vec<u8>,
    found: Salvaged,
}

/// Where in the top-level object the scanner is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Place {
    /// Before the opening brace.
    Start,
    /// Before or inside a member's name.
    Key,
    /// Between a name and its colon.
    Colon,
    /// In the value of `id`.
    Id,
    /// In any other value.
    Value,
    /// Behind the object, or where it makes no sense.
    Over,
}

impl EnvelopeScanner {
    /// A scanner that has seen nothing.
    pub fn new() -> Self {
        Self {
            place: Place::Start,
            depth: 0,
            in_string: false,
            escaped: false,
            text: Vec::new(),
            found: Salvaged::default(),
        }
    }

    /// Looks at the next bytes. Chunks may be cut anywhere.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.place == Place::Over {
                return;
            }
            if self.in_string && !self.escaped && !self.keeps_text() {
                // The bulk of a large message: jump to the next byte that matters.
                let Some(at) = memchr::memchr2(b'"', b'\\', bytes) else {
                    return;
                };
                if at > 0 {
                    bytes = bytes.get(at..).unwrap_or_default();
                    continue;
                }
            }
            self.byte(byte);
            bytes = rest;
        }
    }

    /// What was found so far. An id that stands at the very end of a cut message is not counted: it may be cut itself.
    pub fn found(&self) -> &Salvaged {
        &self.found
    }

    /// Whether the bytes of the present token are kept.
    fn keeps_text(&self) -> bool {
        self.depth == 0 && matches!(self.place, Place::Key | Place::Id)
    }

    fn keep(&mut self, byte: u8) {
        let limit = if self.place == Place::Key {
            MAX_KEY_BYTES
        } else {
            MAX_ID_BYTES
        };
        // One byte above the limit marks it as too long.
        if self.keeps_text() && self.text.len() <= limit {
            self.text.push(byte);
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => {
                    self.in_string = false;
                    if self.depth == 0 && self.place == Place::Key {
                        self.place = Place::Colon;
                    }
                }
                _ => {}
            }
            return;
        }
        match (self.place, byte) {
            (_, b' ' | b'\t' | b'\r' | b'\n') => {
                // `7 7` is not 77. One space stands for all, so that wide gaps don't fill the limit.
                if !self.text.is_empty() && !self.text.ends_with(b" ") {
                    self.keep(b' ');
                }
            }
            (Place::Start, 0) => {}
            (Place::Start, b'{') => self.place = Place::Key,
            (Place::Key, b'"') => {
                self.text.clear();
                self.in_string = true;
                self.keep(byte);
            }
            (Place::Colon, b':') => {
                self.place = match self.key().as_deref() {
                    Some("id") => Place::Id,
                    Some("method") => {
                        self.found.has_method = true;
                        Place::Value
                    }
                    _ => Place::Value,
                };
                self.text.clear();
            }
            (Place::Key, b',') => {}
            (Place::Id | Place::Value, b'"') => {
                self.in_string = true;
                self.keep(byte);
            }
            (Place::Id | Place::Value, b'{' | b'[') => {
                self.keep(byte);
                self.depth += 1;
            }
            (Place::Id | Place::Value, b'}' | b']') if self.depth > 0 => self.depth -= 1,
            (Place::Id | Place::Value, b',' | b'}') if self.depth == 0 => {
                self.end_of_value();
                self.place = if byte == b',' {
                    Place::Key
                } else {
                    Place::Over
                };
            }
            (Place::Id | Place::Value, _) => self.keep(byte),
            _ => self.place = Place::Over,
        }
    }

    fn end_of_value(&mut self) {
        if self.place == Place::Id && self.text.len() <= MAX_ID_BYTES && self.found.id.is_none() {
            self.found.id = std::str::from_utf8(&self.text)
                .ok()
                .and_then(RequestId::from_json);
        }
        self.text.clear();
    }

    /// The name just read, with its escapes undone.
    fn key(&self) -> Option<String> {
        if self.text.len() > MAX_KEY_BYTES {
            return None;
        }
        serde_json::from_slice(&self.text).ok()
    }
}

impl Default for EnvelopeScanner {
    fn default() -> Self {
        Self::new()
    }
}

/// The id of the request that this broken message answers, if that can be told and it is no request itself.
pub fn salvage_answer(bytes: &[u8]) -> Option<RequestId> {
    let mut scanner = EnvelopeScanner::new();
    scanner.push(bytes);
    let Salvaged { id, has_method } = scanner.found;
    if has_method { None } else { id }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_wherever_they_stand_and_however_it_is_cut() {
        let n = |id: i64| Some(RequestId::from(id));
        let cases: &[(&str, Option<RequestId>, bool)] = &[
            (r#"{"jsonrpc":"2.0","id":7,"result":{"#, n(7), false),
            (
                r#"{"result":{"id":1,"a":["}",{"id":2}]},"id":7}"#,
                n(7),
                false,
            ),
            (r#"{"result":"\"id\":1,\\","id": 7 }"#, n(7), false),
            (
                r#"{ "i\u0064" : "a\"b" , "x":1"#,
                Some("a\"b".into()),
                false,
            ),
            (r#"{"id":7.0,"result":1}"#, n(7), false),
            (r#"{"id":null,"result":1}"#, None, false),
            (r#"{"id":[7],"result":1}"#, None, false),
            (r#"{"id":{"id":7},"result":1}"#, None, false),
            (r#"{"id":7,"id":8,"#, n(7), false),
            (r#"{"id":7,"method":"x","params":{"#, n(7), true),
            (r#"{"params":{"id":1},"method":"x","id":7}"#, n(7), true),
            (r#"{"id":7"#, None, false), // may be the start of 77
            (r#"{"id":"7"#, None, false),
            (r#"{"id":7,,}"#, n(7), false),
            (r#"{"id":7 7,"x":1}"#, None, false),
            ("{\"id\" \n:\t7 \r\n , \"x\":1}", n(7), false),
            (" \0{\"id\":7}", n(7), false), // C014
            (r#"[{"id":7}]"#, None, false),
            ("", None, false),
            ("noise", None, false),
            (
                r#"{"a-name-that-is-longer-than-any":1,"id":7,"#,
                n(7),
                false,
            ),
        ];
        for (text, id, has_method) in cases {
            let expected = Salvaged {
                id: id.clone(),
                has_method: *has_method,
            };
            for size in 1..=text.len().max(1) {
                let mut scanner = EnvelopeScanner::new();
                text.as_bytes()
                    .chunks(size)
                    .for_each(|chunk| scanner.push(chunk));
                assert_eq!(scanner.found(), &expected, "{text} in chunks of {size}");
            }
        }
    }

    #[test]
    fn long_ids_are_not_kept() {
        let at = format!(r#"{{"id":"{}","x":1}}"#, "x".repeat(MAX_ID_BYTES - 2));
        let above = format!(r#"{{"id":"{}","x":1}}"#, "x".repeat(MAX_ID_BYTES - 1));
        assert!(salvage_answer(at.as_bytes()).is_some());
        assert_eq!(salvage_answer(above.as_bytes()), None);
    }
}
