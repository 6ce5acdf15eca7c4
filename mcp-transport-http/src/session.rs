//! What all exchanges with a server share: the session, what was agreed on, and which requests wait for an answer.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName, HeaderValue};
use mcp_proto::http::HeaderField;
use tokio::sync::Notify;
use tokio::time::Instant;

/// `Mcp-Session-Id`.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The state shared by the exchanges of one channel.
#[derive(Debug, Default)]
pub(crate) struct Session {
    state: Mutex<State>,
    /// A request was sent, or its answer began.
    pub(crate) traffic: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Marked as secret (SEC-09).
    id: Option<HeaderValue>,
    /// Header fields of every request, as agreed on.
    fields: Vec<HeaderField>,
    /// Requests whose answers did not begin yet, in the order they were sent.
    unanswered: BTreeMap<u64, Instant>,
    sequence: u64,
    /// Answers that began, those to `initialize` not counted.
    answers: u64,
    http_version: Option<http::Version>,
}

impl Session {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the session that an answer to `initialize` opened (HTTPL-10). `Err` for an id that is not visible ASCII
    /// (HTTPL-11).
    pub(crate) fn begin(&self, headers: &HeaderMap) -> Result<(), ()> {
        let id = match headers.get(SESSION_ID) {
            Some(id) if id.as_bytes().iter().all(u8::is_ascii_graphic) && !id.is_empty() => {
                let mut id = id.clone();
                id.set_sensitive(true);
                Some(id)
            }
            Some(_) => return Err(()),
            None => None,
        };
        let mut state = self.lock();
        state.id = id;
        state.answers = 0;
        Ok(())
    }

    /// A new session is about to be asked for: the old one is no more.
    pub(crate) fn forget(&self) {
        let mut state = self.lock();
        state.id = None;
        state.fields.clear();
    }

    /// The version was agreed on; these fields go with every request from now on.
    pub(crate) fn agree(&self, fields: Vec<HeaderField>) {
        self.lock().fields = fields;
    }

    pub(crate) fn id(&self) -> Option<HeaderValue> {
        self.lock().id.clone()
    }

    /// Adds session and version to a request that is no message of the protocol: GET and DELETE.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        let state = self.lock();
        if let Some(id) = &state.id {
            headers.insert(SESSION_ID, id.clone());
        }
        add_fields(&state.fields, headers);
    }

    /// A request goes out; call [`Session::answered`] with what this returns.
    pub(crate) fn sent(&self) -> u64 {
        let mut state = self.lock();
        state.sequence += 1;
        let sequence = state.sequence;
        state.unanswered.insert(sequence, Instant::now());
        drop(state);
        self.traffic.notify_waiters();
        sequence
    }

    /// Its answer began, or never will.
    pub(crate) fn answered(&self, sequence: u64, version: Option<http::Version>) {
        let mut state = self.lock();
        state.unanswered.remove(&sequence);
        if version.is_some() {
            state.answers += 1;
            state.http_version = version;
        }
        drop(state);
        self.traffic.notify_waiters();
    }

    /// The request that has waited longest for its answer to begin: its number, and since when.
    pub(crate) fn longest_wait(&self) -> Option<(u64, Instant)> {
        let state = self.lock();
        state
            .unanswered
            .first_key_value()
            .map(|(sequence, since)| (*sequence, *since))
    }

    /// How many answers began.
    pub(crate) fn answers(&self) -> u64 {
        self.lock().answers
    }

    /// The version of HTTP of the newest answer.
    pub(crate) fn http_version(&self) -> Option<http::Version> {
        self.lock().http_version
    }
}

/// Adds header fields of the protocol. Each is visible ASCII by construction.
pub(crate) fn add_fields(fields: &[HeaderField], headers: &mut HeaderMap) {
    for field in fields {
        let name = field.name.parse::<HeaderName>();
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&field.value)) {
            headers.insert(name, value);
        }
    }
}
