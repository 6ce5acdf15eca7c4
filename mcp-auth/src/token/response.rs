//! What a token endpoint answers (C183, C184, C202, C203).

use serde_json::Value;
use url::form_urlencoded::{self};

use crate::document::{Document, not_json};
use crate::error::{Fault, OauthError};
use crate::evidence::{shown, shown_without};
use crate::http::HttpResponse;
use crate::scope::ScopeSet;
use crate::secret::Secret;
use crate::www_authenticate::TokenScheme;

use super::request::FORM;
/// The longest life of a token that is believed, in seconds: ten years.
const MAX_EXPIRES_IN: u64 = 10 * 366 * 24 * 3600;

/// A token, as it came.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct TokenResponse {
    /// The token.
    pub access_token: Secret,
    /// How it is sent; `None` for one that is not sent to a resource, such as an ID-JAG.
    pub scheme: Option<TokenScheme>,
    /// How long it lives, in seconds; `None` if the server does not say (C184).
    pub expires_in: Option<u64>,
    /// The token that renews it; `None` means that an old one stays valid (C183).
    pub refresh_token: Option<Secret>,
    /// The scopes that were granted, if they are named.
    pub scope: Option<ScopeSet>,
    /// What kind of token it is, for exchanges.
    pub issued_token_type: Option<String>,
}

impl TokenResponse {
    /// Reads an answer: JSON, or a form as some servers send it, with an `error` that wins over any status (C203).
    ///
    /// # Errors
    ///
    /// What is wrong, naming members but never values.
    pub fn read(
        response: &HttpResponse,
        max_bytes: usize,
        secrets: &[Secret],
    ) -> Result<Self, Fault> {
        if response.body.len() > max_bytes {
            return Err(Fault::TooLong(max_bytes));
        }
        if response.redirect().is_some() {
            return Err(Fault::Redirect(response.status));
        }
        let Some(document) = Document::parse(&response.body).or_else(|| form(response)) else {
            if response.is_success() {
                return Err(not_json(response, true));
            }
            return Err(status(response, secrets));
        };
        if let Some(error) = oauth_error(&document, response.status, secrets) {
            return Err(Fault::Refused(error));
        }
        if !response.is_success() {
            return Err(status(response, secrets));
        }
        let access_token = document
            .text("access_token")
            .ok_or(Fault::Malformed("`access_token` is missing or no text"))?;
        if !access_token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Fault::Malformed(
                "`access_token` holds characters that no header can carry",
            ));
        }
        let scheme = match document.value("token_type") {
            None => Some(TokenScheme::Bearer),
            Some(Value::String(kind)) => scheme(kind)?,
            Some(_) => return Err(Fault::Malformed("`token_type` is no text")),
        };
        let scope = match document.value("scope") {
            Some(Value::String(text)) => Some(ScopeSet::parse(text)),
            Some(Value::Array(list)) => Some(list.iter().filter_map(Value::as_str).collect()),
            _ => None,
        };
        Ok(Self {
            access_token: Secret::new(access_token),
            scheme,
            expires_in: document.value("expires_in").and_then(seconds),
            refresh_token: document.text("refresh_token").map(Secret::from),
            scope: scope.filter(|scope| !scope.is_empty()),
            issued_token_type: document.text("issued_token_type").map(str::to_owned),
        })
    }
}

fn scheme(kind: &str) -> Result<Option<TokenScheme>, Fault> {
    match kind.to_ascii_lowercase().as_str() {
        "" | "bearer" => Ok(Some(TokenScheme::Bearer)),
        "dpop" => Ok(Some(TokenScheme::Dpop)),
        // RFC 8693: not applicable.
        "n_a" => Ok(None),
        _ => Err(Fault::TokenType(shown(kind))),
    }
}

/// A number, or a text that is one; nothing that is less than no time or longer than ten years.
fn seconds(value: &Value) -> Option<u64> {
    let seconds = match value {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    // `as` keeps within the range and takes what is no number as 0.
    Some((seconds as u64).min(MAX_EXPIRES_IN))
}

/// An answer in the form that browsers post.
fn form(response: &HttpResponse) -> Option<Document> {
    if response.media_type() != FORM && !response.body.starts_with(b"access_token=") {
        return None;
    }
    let object = form_urlencoded::parse(&response.body)
        .map(|(name, value)| (name.into_owned(), Value::String(value.into_owned())))
        .collect();
    Some(Document::of(object))
}

/// The error object of an answer, whatever its status.
pub(crate) fn oauth_error(
    document: &Document,
    status: u16,
    secrets: &[Secret],
) -> Option<OauthError> {
    let error = match document.value("error")? {
        Value::String(error) if error.is_empty() => return None,
        Value::String(error) => error,
        _ => "an error without a code",
    };
    let description = document
        .text("error_description")
        .or_else(|| document.text("message"));
    Some(OauthError::new(error, description, status, secrets))
}

/// An error status without an error object. The body is shown if it can hold no token.
pub(crate) fn status(response: &HttpResponse, secrets: &[Secret]) -> Fault {
    let start = String::from_utf8_lossy(&response.body[..response.body.len().min(1024)]);
    let detail =
        if start.contains("token\"") || start.contains("secret\"") || start.contains("token=") {
            String::new()
        } else {
            shown_without(&start, secrets)
        };
    Fault::Status {
        status: response.status,
        detail,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(status: u16, media_type: &str, body: &str) -> Result<TokenResponse, Fault> {
        let response = HttpResponse::new(status, body).with_header("Content-Type", media_type);
        TokenResponse::read(&response, 4096, &[Secret::new("CANARY-code")])
    }

    #[test]
    fn c184_lives_are_read_in_any_form() {
        for (value, expected) in [
            ("3600", Some(3600)),
            ("\"3600\"", Some(3600)),
            ("\" 60.9 \"", Some(60)),
            ("3.6e3", Some(3600)),
            ("0", Some(0)),
            ("-1", Some(0)),
            ("1e300", Some(MAX_EXPIRES_IN)),
            ("\"soon\"", None),
            ("null", None),
            ("[1]", None),
        ] {
            let body = format!(r#"{{"access_token":"t","expires_in":{value}}}"#);
            assert_eq!(
                read(200, "application/json", &body).unwrap().expires_in,
                expected,
                "{value}"
            );
        }
        assert_eq!(
            read(200, "", r#"{"access_token":"t"}"#).unwrap().expires_in,
            None
        );
    }

    #[test]
    fn c202_sloppy_answers_are_read() {
        for kind in ["\"bearer\"", "\"BEARER\"", "\"\"", "null"] {
            let body = format!(
                r#"{{"access_token":"t","token_type":{kind},"scope":["a","b"],"refresh_token":""}}"#
            );
            let token = read(200, "text/plain", &body).unwrap();
            assert_eq!(token.scheme, Some(TokenScheme::Bearer), "{kind}");
            assert_eq!(token.scope.unwrap().to_string(), "a b");
            assert_eq!(token.refresh_token, None);
        }
        let dpop = read(200, "", r#"{"access_token":"t","token_type":"dpop"}"#).unwrap();
        assert_eq!(dpop.scheme, Some(TokenScheme::Dpop));
        let exchanged = read(200, "", r#"{"access_token":"t","token_type":"N_A"}"#).unwrap();
        assert_eq!(exchanged.scheme, None);
    }

    #[test]
    fn c202_errors_name_members_and_no_values() {
        for (status, media_type, body, expected) in [
            (
                200,
                "application/json",
                r#"{"token":"CANARY"}"#,
                "`access_token` is missing or no text",
            ),
            (
                200,
                "application/json",
                r#"{"access_token":["CANARY"]}"#,
                "`access_token` is missing or no text",
            ),
            (
                200,
                "application/json",
                r#"{"access_token":"CANARY\n"}"#,
                "`access_token` holds characters that no header can carry",
            ),
            (
                200,
                "application/json",
                r#"{"access_token":"CANARY","token_type":{"a":1}}"#,
                "`token_type` is no text",
            ),
            (
                200,
                "application/json",
                r#"{"access_token":"CANARY","token_type":"mac"}"#,
                "tokens of type `mac` can't be used",
            ),
            (
                200,
                "application/json",
                r#"{"access_token":"CANARY""#,
                "not a JSON object but application/json",
            ),
            (
                200,
                "application/json",
                r#""CANARY""#,
                "not a JSON object but application/json",
            ),
            (200, "", "", "not a JSON object but nothing"),
            (
                200,
                "text/html; charset=utf-8",
                "<html>\n<title>Sign in</title>",
                "not a JSON object but text/html: <html> <title>Sign in</title>",
            ),
            (
                502,
                "text/html",
                "<h1>Bad gateway</h1>",
                "status 502: <h1>Bad gateway</h1>",
            ),
            (
                500,
                "application/json",
                r#"{"access_token":"CANARY"}"#,
                "status 500",
            ),
            (
                404,
                "text/plain",
                "no CANARY-code here",
                "status 404: no *** here",
            ),
            (
                302,
                "",
                "CANARY",
                "a redirect that is not followed (status 302)",
            ),
        ] {
            let fault = read(status, media_type, body).unwrap_err();
            assert_eq!(fault.to_string(), expected);
        }
        let long = format!(r#"{{"access_token":"{}"}}"#, "x".repeat(4096));
        assert_eq!(read(200, "", &long), Err(Fault::TooLong(4096)));
    }

    #[test]
    fn c203_forms_and_errors_with_any_status() {
        let form = read(
            200,
            FORM,
            "access_token=a%2Bb&token_type=bearer&expires_in=60&scope=x+y",
        )
        .unwrap();
        assert_eq!(form.access_token.reveal(), "a+b");
        assert_eq!(
            (form.expires_in, form.scope.unwrap().to_string()),
            (Some(60), "x y".to_owned())
        );
        assert!(read(200, "text/plain", "access_token=a").is_ok());
        for (status, media_type, body) in [
            (
                200,
                "application/json",
                r#"{"error":"invalid_grant","error_description":"CANARY-code is used"}"#,
            ),
            (
                400,
                "application/json",
                r#"{"error":"invalid_grant","error_description":"CANARY-code is used","access_token":"t"}"#,
            ),
            (
                200,
                FORM,
                "error=invalid_grant&error_description=CANARY-code+is+used",
            ),
        ] {
            let fault = read(status, media_type, body).unwrap_err();
            assert_eq!(fault.to_string(), "refused: invalid_grant (*** is used)");
            assert_eq!(fault.advice(), Some("log in again"));
        }
        let fault = read(500, "", r#"{"error":{"code":7},"message":"broken"}"#).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "refused: an error without a code (broken)"
        );
    }

    proptest! {
        #[test]
        fn any_answer_is_read(status in 100_u16..600, media_type in "(application/json|text/html|application/x-www-form-urlencoded|)", body in "\\PC{0,80}") {
            let _ = read(status, &media_type, &body);
        }

        #[test]
        fn no_error_quotes_a_token(member in "[a-z_]{1,14}", junk in "[\\]}\",:a-z ]{0,10}") {
            let body = format!(r#"{{"{member}":"CANARY","access_token":7}}{junk}"#);
            if member != "error"
                && let Err(fault) = read(200, "application/json", &body)
            {
                prop_assert!(!fault.to_string().contains("CANARY"), "{}", fault);
            }
        }
    }
}
