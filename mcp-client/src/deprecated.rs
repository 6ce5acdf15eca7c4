//! What the protocol deprecates and hosts may still offer: sampling and roots. Off unless switched on (DEP-05).

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use mcp_proto::model::deprecated::roots::{InvalidRoot, ListRootsResult, Root};
use mcp_proto::model::deprecated::sampling::{CreateMessageParams, CreateMessageResult};
use serde_json::value::to_raw_value;
use url::Url;

use crate::client::Client;
use crate::handlers::{Asked, HandlerError};
use crate::options::ClientOptions;

/// A root at a path of this machine: absolute, as a URI with what URIs need escaped (C089).
///
/// # Errors
/// When the path is not absolute, or is none on this platform.
pub fn root_at(path: &Path) -> Result<Root, InvalidRoot> {
    let uri = Url::from_file_path(path).map_err(|()| InvalidRoot::NotAFile {
        uri: path.display().to_string(),
    })?;
    Root::new(uri)
}

/// The roots that one client offers.
#[derive(Clone, Debug)]
pub(crate) struct Roots(Arc<Mutex<Vec<Root>>>);

impl Roots {
    fn get(&self) -> Vec<Root> {
        let roots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        roots.clone()
    }
}

impl ClientOptions {
    /// Lets servers ask the host's model, without tools. The handler shows the question to a person, lets them change or
    /// refuse it, asks the model within `max_tokens`, and shows what it said (SAMP-02, SAMP-03). To refuse, return
    /// [`HandlerError::refused`].
    ///
    /// Deprecated by the protocol in 2026-07-28 (SEP-2577).
    #[must_use]
    pub fn with_sampling<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(Asked<CreateMessageParams>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, HandlerError>> + Send + 'static,
    {
        self.config.capabilities = self.config.capabilities.with_sampling();
        self.insert_sampling(handler, false);
        self
    }

    /// As [`ClientOptions::with_sampling`], for questions with tools too: the model's wish to use them is an answer, and the
    /// server runs them (SAMP-08).
    #[must_use]
    pub fn with_sampling_and_tools<F, A>(mut self, handler: F) -> Self
    where
        F: Fn(Asked<CreateMessageParams>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, HandlerError>> + Send + 'static,
    {
        self.config.capabilities = self.config.capabilities.with_sampling_tools();
        self.insert_sampling(handler, true);
        self
    }

    fn insert_sampling<F, A>(&mut self, handler: F, with_tools: bool)
    where
        F: Fn(Asked<CreateMessageParams>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<CreateMessageResult, HandlerError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.insert_handler("sampling/createMessage".to_owned(), None, move |asked| {
            let handler = Arc::clone(&handler);
            async move {
                let (asked, params) = asked.split();
                let params =
                    params.ok_or_else(|| HandlerError::invalid("there are no parameters"))?;
                let params =
                    CreateMessageParams::read(params.as_str()).map_err(HandlerError::invalid)?;
                if params.wants_tools() && !with_tools {
                    // SAMP-07.
                    return Err(HandlerError::invalid("this client did not declare tools"));
                }
                let version = asked.version.clone();
                let answer = handler(asked.with(params)).await?;
                answer.to_json(&version).map_err(HandlerError::failed)
            }
        });
    }

    /// Tells servers that ask which folders to work in; [`Client::set_roots`] changes them. A host gives only what the person
    /// agreed to (ROOT-06).
    ///
    /// Deprecated by the protocol in 2026-07-28 (SEP-2577).
    #[must_use]
    pub fn with_roots(mut self, roots: Vec<Root>) -> Self {
        self.config.capabilities = self.config.capabilities.with_roots();
        self.offer_roots(roots);
        self
    }

    fn offer_roots(&mut self, roots: Vec<Root>) {
        let roots = Roots(Arc::new(Mutex::new(roots)));
        self.roots = Some(roots.clone());
        self.insert_handler("roots/list".to_owned(), None, move |_| {
            let roots = roots.get();
            async move {
                to_raw_value(&ListRootsResult::new(&roots))
                    .map_err(|error| HandlerError::failed(error.to_string()))
            }
        });
    }

    /// Makes the roots those of one client alone: options may be used for several (VER-04).
    pub(crate) fn detach_roots(&mut self) {
        if let Some(roots) = self.roots.take() {
            self.offer_roots(roots.get());
        }
    }
}

impl Client {
    /// Changes the roots that [`ClientOptions::with_roots`] offered; a legacy server is told that they changed (ROOT-05), a
    /// modern one finds out when it asks. Without effect where none were offered.
    pub fn set_roots(&self, roots: Vec<Root>) {
        let shared = self.shared();
        let Some(offered) = &shared.options.roots else {
            return;
        };
        *offered.0.lock().unwrap_or_else(PoisonError::into_inner) = roots;
        shared.update(|state| state.connection.notify_roots_changed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c089_paths_become_uris() {
        let cases: &[(&str, Option<&str>)] = if cfg!(windows) {
            &[
                ("C:\\My Project", Some("file:///C:/My%20Project")),
                ("\\\\srv\\share", Some("file://srv/share")),
                ("relative", None),
            ]
        } else {
            &[
                ("/tmp/a#b", Some("file:///tmp/a%23b")),
                ("/tmp/a?b c%", Some("file:///tmp/a%3Fb%20c%25")),
                ("/tmp/\u{e9}", Some("file:///tmp/%C3%A9")),
                ("/", Some("file:///")),
                ("relative", None),
                ("", None),
            ]
        };
        for (path, expected) in cases {
            let root = root_at(Path::new(path)).ok();
            let uri = root.as_ref().map(|root| root.uri.as_str());
            assert_eq!(uri, *expected, "{path}");
            let back = uri.and_then(|uri| Url::parse(uri).ok()?.to_file_path().ok());
            assert_eq!(back.is_some(), expected.is_some());
            assert!(back.is_none_or(|back| back == Path::new(path)), "{path}");
        }
    }
}
