//! Elicitation: what the host does when a server asks the person something.

use std::fmt;
use std::sync::Arc;

use mcp_jsonrpc::RawJson;
use mcp_proto::model::elicitation::{
    Elicitation, FormAnswer, FormElicitation, UrlAnswer, UrlElicitation,
};
use serde_json::value::{RawValue, to_raw_value};
use url::{Host, Url};

use crate::handlers::{Answered, Asked, HandlerError};
use crate::options::ClientOptions;

pub(crate) const METHOD: &str = "elicitation/create";

/// What is answered when the person does not: they went away.
const WHEN_LATE: &str = r#"{"action":"cancel"}"#;

type Handler<P, A> = Arc<dyn Fn(Asked<P>) -> Answered<A> + Send + Sync>;

/// The handlers of both modes.
#[derive(Clone, Default)]
pub(crate) struct ElicitationHandlers {
    form: Option<Handler<FormElicitation, FormAnswer>>,
    url: Option<Handler<WebPage, UrlAnswer>>,
}

/// A web page that a server wants the person to open.
///
/// Show [`WebPage::url`] in full, [`WebPage::host`] so that it can't be overlooked, and ask before anything is opened; don't
/// fetch it (ELIC-20, ELIC-21).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WebPage {
    /// What the server says about it.
    pub message: String,
    /// Its address, checked: `https`, or `http` on this machine; no user in it.
    pub url: String,
    /// Its host, as it is looked up: in Punycode where it has other letters.
    pub host: String,
    /// Whether the host has letters beyond ASCII: it may look like another one.
    pub is_international: bool,
    /// Names it in a later [`ElicitationComplete`](mcp_proto::connection::ServerNotification::ElicitationComplete).
    pub elicitation_id: Option<String>,
}

impl WebPage {
    fn read(asked: UrlElicitation) -> Result<Self, String> {
        let url =
            Url::parse(&asked.url).map_err(|error| format!("the address is none: {error}"))?;
        let is_local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        match url.scheme() {
            "https" => {}
            "http" if is_local => {}
            scheme => return Err(format!("{scheme} addresses are not opened, only https")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the address has a user in it".to_owned());
        }
        let host = url.host_str().unwrap_or_default().to_owned();
        Ok(Self {
            message: asked.message,
            is_international: host.split('.').any(|label| label.starts_with("xn--")),
            host,
            url: url.into(),
            elicitation_id: asked.elicitation_id,
        })
    }
}

impl ClientOptions {
    /// Lets servers ask for a form to be filled in: the handler shows it, says which server asks and why, and returns what the
    /// person did (ELIC-04, ELIC-09). What it accepts is checked against the form before it leaves; start from
    /// [`FormSchema::defaults`](mcp_proto::model::elicitation::FormSchema::defaults).
    ///
    /// When the question is taken back, or the call that waits for it is given up, the handler's future is dropped.
    #[must_use]
    pub fn with_form_elicitation<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(Asked<FormElicitation>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<FormAnswer, HandlerError>> + Send + 'static,
    {
        self.config.capabilities = self.config.capabilities.with_form_elicitation();
        self.elicitation.form = Some(Arc::new(move |asked| Box::pin(handler(asked))));
        self.insert_elicitation();
        self
    }

    /// Lets servers ask for a person to be sent to a web page, for what must not pass through the host: passwords, payments.
    /// The handler asks the person, and opens the page if they agree; [`UrlAnswer::Accept`] says no more than that (ELIC-22).
    #[must_use]
    pub fn with_url_elicitation<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(Asked<WebPage>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<UrlAnswer, HandlerError>> + Send + 'static,
    {
        self.config.capabilities = self.config.capabilities.with_url_elicitation();
        self.elicitation.url = Some(Arc::new(move |asked| Box::pin(handler(asked))));
        self.insert_elicitation();
        self
    }

    fn insert_elicitation(&mut self) {
        let handlers = self.elicitation.clone();
        self.insert_handler(METHOD.to_owned(), Some(WHEN_LATE), move |asked| {
            handlers.clone().answer(asked)
        });
    }
}

/// Shows which modes there are.
impl fmt::Debug for ElicitationHandlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElicitationHandlers")
            .field("form", &self.form.is_some())
            .field("url", &self.url.is_some())
            .finish()
    }
}

impl ElicitationHandlers {
    async fn answer(self, asked: Asked<Option<RawJson>>) -> Result<Box<RawValue>, HandlerError> {
        let (asked, params) = asked.split();
        let params = params.ok_or_else(|| HandlerError::invalid("there are no parameters"))?;
        match Elicitation::read(params.as_str()).map_err(HandlerError::invalid)? {
            Elicitation::Form(form) => {
                let handler = self.form.ok_or_else(|| undeclared("forms"))?;
                let schema = form.schema.clone();
                let mut answer = handler(asked.with(form)).await?;
                if let FormAnswer::Accept(content) = &mut answer {
                    schema.check(content).map_err(|problems| {
                        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
                        let problems = problems.join(", ");
                        HandlerError::failed(format!(
                            "the answer does not fit the form: {problems}"
                        ))
                    })?;
                    *content = schema.normalized(content);
                }
                json(&answer)
            }
            Elicitation::Url(page) => {
                let handler = self.url.ok_or_else(|| undeclared("web pages"))?;
                let page = WebPage::read(page).map_err(HandlerError::invalid)?;
                json(&handler(asked.with(page)).await?)
            }
        }
    }
}

/// ELIC-03.
fn undeclared(what: &str) -> HandlerError {
    HandlerError::invalid(format!("this client did not declare {what}"))
}

fn json<T: serde::Serialize>(answer: &T) -> Result<Box<RawValue>, HandlerError> {
    to_raw_value(answer).map_err(|error| HandlerError::failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c229_only_safe_addresses_are_shown() {
        let read = |url: &str| {
            let params = serde_json::json!({"mode": "url", "message": "?", "url": url});
            let Ok(Elicitation::Url(page)) = Elicitation::read(&params.to_string()) else {
                panic!("no page");
            };
            WebPage::read(page)
        };
        let cases = [
            ("https://pay.example/x?y#z", "pay.example", false),
            ("HTTPS://Pay.Example", "pay.example", false),
            ("http://localhost:8080/", "localhost", false),
            ("http://127.0.0.1/", "127.0.0.1", false),
            ("http://[::1]/", "[::1]", false),
            ("https://p\u{430}y.example/", "xn--py-7kc.example", true),
        ];
        for (url, host, international) in cases {
            let page = read(url).unwrap();
            assert_eq!(
                (&*page.host, page.is_international),
                (host, international),
                "{url}"
            );
        }
        for bad in [
            "http://pay.example/",
            "http://localhost.example/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://user:secret@pay.example/",
            "pay.example",
            "",
        ] {
            let error = read(bad).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
