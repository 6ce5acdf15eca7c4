//! Reading JSON objects that others wrote: members by name, wrong types left out or named, values never shown.

use serde_json::{Map, Value};

use crate::error::Fault;
use crate::evidence::shown;
use crate::http::HttpResponse;

/// Entries of one list that are read.
pub(crate) const MAX_ENTRIES: usize = 256;

/// A JSON object that others wrote.
#[derive(Clone)]
pub(crate) struct Document(Map<String, Value>);

impl Document {
    /// Reads the body of an answer. `may_hold_secrets`: nothing of it is shown then (C202).
    pub(crate) fn read(response: &HttpResponse, may_hold_secrets: bool) -> Result<Self, Fault> {
        match Self::parse(&response.body) {
            Some(document) => Ok(document),
            None => Err(not_json(response, may_hold_secrets)),
        }
    }

    pub(crate) fn parse(body: &[u8]) -> Option<Self> {
        // A byte order mark stands before some documents.
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        serde_json::from_slice(body).ok().map(Self)
    }

    pub(crate) fn of(object: Map<String, Value>) -> Self {
        Self(object)
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str().filter(|text| !text.is_empty())
    }

    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// The strings of a list; `None` if there is no list. Entries of other types are left out.
    pub(crate) fn list(&self, name: &str) -> Option<Vec<String>> {
        let entries = self.0.get(name)?.as_array()?;
        let texts = entries.iter().filter_map(Value::as_str);
        Some(texts.take(MAX_ENTRIES).map(str::to_owned).collect())
    }
}

/// What stands where JSON should.
pub(crate) fn not_json(response: &HttpResponse, may_hold_secrets: bool) -> Fault {
    let start = String::from_utf8_lossy(&response.body[..response.body.len().min(1024)]);
    let start = shown(&start);
    let is_html = start.starts_with('<');
    let media_type = match response.media_type() {
        _ if response.body.is_empty() => "nothing".to_owned(),
        media_type if media_type.is_empty() && is_html => "text/html".to_owned(),
        media_type if media_type.is_empty() => "something unnamed".to_owned(),
        media_type => shown(&media_type),
    };
    // A page for people holds no token; anything else might.
    let start = if may_hold_secrets && !is_html {
        String::new()
    } else {
        start
    };
    Fault::NotJson { media_type, start }
}
