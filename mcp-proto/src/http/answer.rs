//! What form an answer has, from its status and content type.
//!
//! | status | content type | form |
//! |---|---|---|
//! | 202, 204, 205 | any | none: accepted without an answer |
//! | other 2xx | `application/json`, `…+json` | JSON |
//! | other 2xx | `text/event-stream` | a stream of events |
//! | other 2xx | none, `text/plain`, `application/octet-stream` | look at the first bytes (C108) |
//! | other 2xx | anything else | refused: a page, not an answer |
//! | any other | any | an error; its body may hold a JSON-RPC error (HTTP-06) |

use super::failure::HttpFailureKind;

/// What form an answer has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AnswerForm {
    /// Accepted, without an answer.
    Accepted,
    /// An error status.
    Error,
    /// A stream of events.
    EventStream,
    /// One JSON message.
    Json,
    /// The label does not tell: [`sniff`] the first bytes.
    Unlabelled,
    /// No answer of this protocol.
    Unusable(HttpFailureKind),
}

/// The media type without parameters, in lower case (C107); the first one where something on the way folded several.
pub fn media_type(content_type: &str) -> String {
    let end = content_type.find([';', ',']).unwrap_or(content_type.len());
    content_type
        .get(..end)
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// The form of an answer.
pub fn answer_form(status: u16, content_type: Option<&str>) -> AnswerForm {
    match status {
        202 | 204 | 205 => return AnswerForm::Accepted,
        200..=299 => {}
        _ => return AnswerForm::Error,
    }
    let media = content_type.map(media_type).unwrap_or_default();
    match media.as_str() {
        "application/json" => AnswerForm::Json,
        "text/event-stream" => AnswerForm::EventStream,
        "" | "text/plain" | "application/octet-stream" => AnswerForm::Unlabelled,
        "text/html" | "application/xhtml+xml" => AnswerForm::Unusable(HttpFailureKind::Html),
        json if json.ends_with("+json") => AnswerForm::Json,
        _ => AnswerForm::Unusable(HttpFailureKind::ContentType),
    }
}

/// The form of an unlabelled answer, from its first bytes; `None` while they do not tell and more may come.
pub fn sniff(start: &[u8], is_all: bool) -> Option<AnswerForm> {
    const EVENTS: &[&[u8]] = &[b"data:", b"event:", b"id:", b"retry:", b":"];
    const MARK: &[u8] = b"\xef\xbb\xbf";
    if !is_all && MARK.starts_with(start) {
        // A cut may go through the mark.
        return None;
    }
    let start = start.strip_prefix(MARK).unwrap_or(start);
    let start = start.trim_ascii_start();
    if let Some(first) = start.first() {
        match first {
            b'{' | b'[' => return Some(AnswerForm::Json),
            b'<' => return Some(AnswerForm::Unusable(HttpFailureKind::Html)),
            _ => {}
        }
        if EVENTS.iter().any(|field| start.starts_with(field)) {
            return Some(AnswerForm::EventStream);
        }
        if EVENTS.iter().any(|field| field.starts_with(start)) && !is_all {
            return None;
        }
        return Some(AnswerForm::Unusable(HttpFailureKind::ContentType));
    }
    is_all.then_some(AnswerForm::Unusable(HttpFailureKind::Empty))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c107_c114_forms_follow_status_and_type() {
        use AnswerForm::{Accepted, Error, EventStream, Json, Unlabelled, Unusable};
        let cases = [
            (200, Some("application/json"), Json),
            (200, Some("Application/JSON; charset=UTF-8"), Json),
            (200, Some("application/json, application/json"), Json),
            (200, Some("application/problem+json"), Json),
            (201, Some("application/json"), Json),
            (200, Some("text/event-stream;charset=utf-8"), EventStream),
            (200, None, Unlabelled),
            (200, Some(""), Unlabelled),
            (200, Some("text/plain"), Unlabelled),
            (200, Some("text/html"), Unusable(HttpFailureKind::Html)),
            (
                200,
                Some("image/png"),
                Unusable(HttpFailureKind::ContentType),
            ),
            (202, Some("application/json"), Accepted),
            (204, None, Accepted),
            (302, Some("text/html"), Error),
            (400, Some("application/json"), Error),
            (502, Some("text/html"), Error),
            (101, None, Error),
        ];
        for (status, content_type, form) in cases {
            assert_eq!(
                answer_form(status, content_type),
                form,
                "{status} {content_type:?}"
            );
        }
    }

    #[test]
    fn c108_unlabelled_answers_are_looked_at() {
        let cases: &[(&[u8], bool, Option<AnswerForm>)] = &[
            (b" \r\n{\"a\"", false, Some(AnswerForm::Json)),
            (b"\xef\xbb\xbf[", false, Some(AnswerForm::Json)),
            (b"data: {", false, Some(AnswerForm::EventStream)),
            (b": hi", false, Some(AnswerForm::EventStream)),
            (b"da", false, None),
            (
                b"da",
                true,
                Some(AnswerForm::Unusable(HttpFailureKind::ContentType)),
            ),
            (b"", false, None),
            (
                b" \n",
                true,
                Some(AnswerForm::Unusable(HttpFailureKind::Empty)),
            ),
            (
                b"<!doctype",
                false,
                Some(AnswerForm::Unusable(HttpFailureKind::Html)),
            ),
            (
                b"ok",
                false,
                Some(AnswerForm::Unusable(HttpFailureKind::ContentType)),
            ),
        ];
        for (start, is_all, form) in cases {
            assert_eq!(sniff(start, *is_all), *form, "{start:?} {is_all}");
        }
    }
}
