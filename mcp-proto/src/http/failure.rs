//! Why an exchange brought no answer, what that says about the server, and whether the request may have been carried out.

use std::fmt;
use std::time::Duration;

/// An exchange that brought no answer.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct HttpFailure {
    /// What kind.
    pub kind: HttpFailureKind,
    /// The status, if the server answered.
    pub status: Option<u16>,
    /// What was seen, cleaned and cut: the start of a body, the words of an error of the connection. May be empty.
    pub detail: String,
    /// What became of the request.
    pub delivery: Delivery,
    /// How long the server asks to wait, if it does.
    pub retry_after: Option<Duration>,
}

/// What became of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a request was not sent, was refused, or nobody knows"
)]
pub enum Delivery {
    /// No byte of it was sent.
    NotSent,
    /// The server, or something in front of it, refused it: it was not carried out.
    Refused,
    /// It may have been carried out.
    Unknown,
}

/// What kind of failure.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[non_exhaustive]
pub enum HttpFailureKind {
    /// A success without a body where an answer was due.
    Accepted,
    /// No connection could be made.
    Connect,
    /// A content type that is neither JSON nor a stream of events.
    ContentType,
    /// The connection was lost before the answer was whole (C125).
    Cut,
    /// An empty answer.
    Empty,
    /// 403.
    Forbidden,
    /// 502 or 504: something in front of the server got no answer from it (C113).
    Gateway,
    /// 431.
    HeadersTooLarge,
    /// The headers that a host's provider was asked for could not be had.
    HeaderProvider,
    /// A page for people: a wrong URL, or a login in front of the server (C114).
    Html,
    /// 405.
    MethodNotAllowed,
    /// An answer that answers no request of this exchange (HTTP-07).
    NoAnswer,
    /// 406.
    NotAcceptable,
    /// 404 without a session.
    NotFound,
    /// 429.
    RateLimited,
    /// A redirect that is not followed (HTTP-13).
    Redirect,
    /// The session id that the server gave is not visible ASCII (HTTPL-11).
    SessionId,
    /// 404 to a request with a session (HTTPL-12).
    SessionLost,
    /// Any other 5xx.
    ServerError,
    /// The stream ended without an answer, and can't be resumed.
    StreamEnded,
    /// 413.
    TooLarge,
    /// An answer past the limit.
    TooLong,
    /// 401.
    Unauthorized,
    /// 503.
    Unavailable,
    /// Any other status.
    Status,
}

impl HttpFailure {
    /// A failure of an exchange whose status does not matter.
    pub fn new(kind: HttpFailureKind, delivery: Delivery, detail: impl Into<String>) -> Self {
        Self {
            kind,
            status: None,
            detail: detail.into(),
            delivery,
            retry_after: None,
        }
    }

    /// A failure by an error status. `in_session`: the request named a session.
    pub fn of_status(status: u16, in_session: bool, detail: impl Into<String>) -> Self {
        let kind = match status {
            300..=399 => HttpFailureKind::Redirect,
            401 => HttpFailureKind::Unauthorized,
            403 => HttpFailureKind::Forbidden,
            404 if in_session => HttpFailureKind::SessionLost,
            404 => HttpFailureKind::NotFound,
            405 => HttpFailureKind::MethodNotAllowed,
            406 => HttpFailureKind::NotAcceptable,
            413 => HttpFailureKind::TooLarge,
            429 => HttpFailureKind::RateLimited,
            431 => HttpFailureKind::HeadersTooLarge,
            502 | 504 => HttpFailureKind::Gateway,
            503 => HttpFailureKind::Unavailable,
            500..=599 => HttpFailureKind::ServerError,
            _ => HttpFailureKind::Status,
        };
        let delivery = match status {
            300..=499 => Delivery::Refused,
            _ => Delivery::Unknown,
        };
        Self {
            status: Some(status),
            ..Self::new(kind, delivery, detail)
        }
    }

    /// Adds the status of an answer that could not be used.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Adds how long the server asks to wait.
    #[must_use]
    pub fn with_retry_after(mut self, retry_after: Option<Duration>) -> Self {
        self.retry_after = retry_after;
        self
    }

    /// Whether this, as the answer to a probe, shows a server of the legacy era (section 2.4). What any server, or anything
    /// in front of it, may answer shows nothing.
    pub fn is_legacy_evidence(&self) -> bool {
        match self.status {
            Some(status @ 300..=599) => tells_era(status),
            _ => matches!(
                self.kind,
                HttpFailureKind::Accepted
                    | HttpFailureKind::Empty
                    | HttpFailureKind::NoAnswer
                    | HttpFailureKind::StreamEnded
            ),
        }
    }

    /// Whether this, as the answer to `initialize`, leaves the transport of 2024-11-05 to be tried (SSE24-02).
    pub fn suggests_old_transport(&self) -> bool {
        self.status.is_some_and(suggests_old_transport)
    }
}

/// Whether the body of a refusal to a request with a session says that the session is gone, although the status is not 404
/// (C099).
pub fn names_lost_session(status: u16, body: &[u8]) -> bool {
    const GONE: &[&str] = &[
        "not found",
        "expired",
        "invalid",
        "no valid",
        "unknown",
        "missing",
    ];
    if !matches!(status, 400 | 401 | 410) {
        return false;
    }
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    text.contains("session") && GONE.iter().any(|word| text.contains(word))
}

/// Whether a status of failure says something about the server's era, with or without a JSON-RPC error in the body: not if
/// any server, or anything in front of it, may answer so.
pub(crate) fn tells_era(status: u16) -> bool {
    matches!(status, 400..=499) && !matches!(status, 401 | 403 | 407 | 408 | 413 | 429 | 431)
}

/// As [`HttpFailure::suggests_old_transport`], from a status alone.
pub(crate) fn suggests_old_transport(status: u16) -> bool {
    matches!(status, 400 | 404 | 405)
}

impl fmt::Display for HttpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(status) = self.status {
            write!(f, "HTTP {status}: ")?;
        }
        f.write_str(match self.kind {
            HttpFailureKind::Accepted => "the request was accepted, but not answered",
            HttpFailureKind::Connect => "no connection",
            HttpFailureKind::ContentType => "the answer is neither JSON nor a stream of events",
            HttpFailureKind::Cut => "the connection was lost before the answer was whole",
            HttpFailureKind::Empty => "the answer is empty",
            HttpFailureKind::Forbidden => "access is forbidden",
            HttpFailureKind::Gateway => "something in front of the server got no answer from it",
            HttpFailureKind::HeaderProvider => "the headers for the request could not be had",
            HttpFailureKind::HeadersTooLarge => "the request's headers are too large for the server",
            HttpFailureKind::Html => {
                "the answer is an HTML page; is this the right URL, or is there a login in front of it?"
            }
            HttpFailureKind::MethodNotAllowed => {
                "the URL does not take POST; is this the right URL?"
            }
            HttpFailureKind::NoAnswer => "the answer answers another request, or none",
            HttpFailureKind::NotAcceptable => {
                "the server does not answer in a form that was asked for (sent: Accept: application/json, text/event-stream)"
            }
            HttpFailureKind::NotFound => "there is no MCP server at this URL",
            HttpFailureKind::RateLimited => "too many requests",
            HttpFailureKind::Redirect => "the server redirects, which is not followed",
            HttpFailureKind::ServerError => "the server failed",
            HttpFailureKind::SessionId => {
                "the session id that the server gave is not visible ASCII"
            }
            HttpFailureKind::SessionLost => "the server has forgotten the session",
            HttpFailureKind::Status => "the request was not accepted",
            HttpFailureKind::StreamEnded => "the stream ended without an answer",
            HttpFailureKind::TooLarge => "the request is too large for the server",
            HttpFailureKind::TooLong => "the answer is longer than allowed",
            HttpFailureKind::Unauthorized => "the server wants to know who is asking",
            HttpFailureKind::Unavailable => "the server is not available at the moment",
        })?;
        if let Some(wait) = self.retry_after {
            write!(f, ", try again after {wait:?}")?;
        }
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for HttpFailure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_say_what_became_of_the_request() {
        use Delivery::{Refused, Unknown};
        use HttpFailureKind as Kind;
        let cases = [
            (301, false, Kind::Redirect, Refused, false),
            (400, false, Kind::Status, Refused, true),
            (401, false, Kind::Unauthorized, Refused, false),
            (403, false, Kind::Forbidden, Refused, false),
            (404, false, Kind::NotFound, Refused, true),
            (404, true, Kind::SessionLost, Refused, true),
            (405, false, Kind::MethodNotAllowed, Refused, true),
            (406, false, Kind::NotAcceptable, Refused, true),
            (413, false, Kind::TooLarge, Refused, false),
            (415, false, Kind::Status, Refused, true),
            (429, false, Kind::RateLimited, Refused, false),
            (431, false, Kind::HeadersTooLarge, Refused, false),
            (500, false, Kind::ServerError, Unknown, false),
            (502, false, Kind::Gateway, Unknown, false),
            (503, false, Kind::Unavailable, Unknown, false),
            (504, false, Kind::Gateway, Unknown, false),
        ];
        for (status, in_session, kind, delivery, legacy) in cases {
            let failure = HttpFailure::of_status(status, in_session, "");
            assert_eq!(
                (failure.kind, failure.delivery, failure.is_legacy_evidence()),
                (kind, delivery, legacy),
                "{status}"
            );
        }
    }

    #[test]
    fn c099_words_tell_a_lost_session() {
        let cases = [
            (
                400,
                r#"{"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#,
                true,
            ),
            (401, "Session expired", true),
            (400, "bad arguments", false),
            (400, "the session variable x is too long", false),
            (403, "session not found", false),
            (500, "session not found", false),
        ];
        for (status, body, lost) in cases {
            assert_eq!(
                names_lost_session(status, body.as_bytes()),
                lost,
                "{status} {body}"
            );
        }
    }

    #[test]
    fn c114_a_page_is_no_evidence() {
        for (kind, legacy) in [
            (HttpFailureKind::Html, false),
            (HttpFailureKind::Connect, false),
            (HttpFailureKind::Cut, false),
            (HttpFailureKind::Empty, true),
            (HttpFailureKind::StreamEnded, true),
        ] {
            let failure = HttpFailure::new(kind, Delivery::Unknown, "").with_status(200);
            assert_eq!(failure.is_legacy_evidence(), legacy, "{kind:?}");
        }
    }

    #[test]
    fn failures_show_status_and_evidence() {
        let failure = HttpFailure::of_status(429, false, "slow down")
            .with_retry_after(Some(Duration::from_secs(2)));
        assert_eq!(
            failure.to_string(),
            "HTTP 429: too many requests, try again after 2s (slow down)"
        );
    }
}
