//! One request to the server: headers, redirects, refusals that may be asked again. The same for every kind of exchange.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION};
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use mcp_proto::backoff::Backoff;
use mcp_proto::http::{AnswerForm, Delivery, HttpFailure, HttpFailureKind, answer_form};

use crate::body::{Body, BodyError};
use crate::connect::{HttpClient, SendError, SetupError};
use crate::evidence::shown;
use crate::headers::HeaderRequest;
use crate::retry_after::retry_after;
use crate::server::{HttpServer, with_token};
use crate::session::Session;

/// How long what is not needed is read for.
const DISCARDED_WITHIN: Duration = Duration::from_secs(1);

/// How many values of a provider's headers are remembered.
const MAX_PROVIDED: usize = 16;

/// Shortest secret that is taken out of what a server wrote; shorter ones stand in any text.
const MIN_HIDDEN_BYTES: usize = 6;

/// The first wait after a refusal that does not say how long to wait.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// What is needed to talk to one server.
pub(crate) struct Context {
    pub(crate) server: HttpServer,
    pub(crate) client: HttpClient,
    pub(crate) session: Session,
    base_headers: HeaderMap,
    uri: Uri,
    jitter_seed: u64,
    /// The newest values that the provider of headers gave.
    provided: Mutex<VecDeque<String>>,
}

/// Without the URL, whose query may be secret.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// A request in the making.
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) body: Bytes,
    /// Headers of the protocol.
    pub(crate) headers: HeaderMap,
    /// Another URL of the server than its own.
    pub(crate) uri: Option<Uri>,
    /// Whether it may be made again although it may have been carried out.
    pub(crate) is_safe: bool,
}

impl Ask {
    /// A message to be posted.
    pub(crate) fn post(body: Bytes) -> Self {
        let mut headers = HeaderMap::new();
        // Both on every POST, and nothing behind the media type (HTTP-02, C106, C107).
        headers.insert(
            ACCEPT,
            HeaderValue::from_static("application/json, text/event-stream"),
        );
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self {
            method: Method::POST,
            body,
            headers,
            uri: None,
            is_safe: false,
        }
    }

    /// A stream of events.
    pub(crate) fn events() -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        Self {
            method: Method::GET,
            body: Bytes::new(),
            headers,
            uri: None,
            is_safe: true,
        }
    }

    /// The end of a session.
    pub(crate) fn delete() -> Self {
        Self {
            method: Method::DELETE,
            body: Bytes::new(),
            headers: HeaderMap::new(),
            uri: None,
            is_safe: true,
        }
    }
}

impl Context {
    pub(crate) fn new(server: HttpServer, jitter_seed: u64) -> Result<Arc<Self>, SetupError> {
        let client = HttpClient::new(&server.endpoint, &server.connect)?;
        let uri = server
            .endpoint
            .as_str()
            .parse()
            .map_err(|error: http::uri::InvalidUri| SetupError::Endpoint {
                reason: error.to_string(),
            })?;
        Ok(Arc::new(Self {
            base_headers: server.base_headers(),
            client,
            session: Session::default(),
            server,
            uri,
            jitter_seed,
            provided: Mutex::default(),
        }))
    }

    pub(crate) fn jitter_seed(&self) -> u64 {
        self.jitter_seed
    }

    /// As [`Context::ask`], for the stream that nothing depends on: it is no request that waits for an answer, and a refusal
    /// is final.
    pub(crate) async fn ask_quietly(&self, ask: &Ask) -> Result<Response<Incoming>, HttpFailure> {
        let request = self
            .request(ask, self.uri.clone(), HeaderRequest::default())
            .await?;
        self.client.send(request).await.map_err(of_send)
    }

    /// Makes a request and waits for the head of its final answer, which may be an error.
    ///
    /// A redirect to the same origin that keeps the method is followed once (HTTP-13, C110). A refusal that says to come
    /// back is obeyed within limits (HTTP-16, C112). After a 401 the provider of headers is asked once more.
    pub(crate) async fn ask(&self, ask: &Ask) -> Result<Response<Incoming>, HttpFailure> {
        let limits = &self.server.limits;
        let mut uri = ask.uri.clone();
        let mut redirected = false;
        let mut refused = false;
        let mut waits = 0;
        let mut backoff = Backoff::new(FIRST_WAIT, limits.longest_wait, self.jitter_seed);
        loop {
            let target = uri.as_ref().unwrap_or(&self.uri).clone();
            let request = self.request(ask, target, HeaderRequest { refused }).await?;
            let sequence = self.session.sent();
            let waiting = Waiting(&self.session, sequence);
            let response = self.client.send(request).await.map_err(of_send)?;
            waiting.answered(response.version());
            let status = response.status().as_u16();
            match status {
                307 | 308 if !redirected && let Some(next) = self.same_origin(&response) => {
                    redirected = true;
                    uri = Some(next);
                }
                300..=399 => return Err(self.redirect(status, &response)),
                401 if !refused && self.server.provider.is_some() => refused = true,
                429 | 503 if waits < limits.max_waits => {
                    let asked = retry_after(response.headers(), SystemTime::now());
                    // What was refused for its number was not carried out; of the rest nobody knows.
                    if status == 503 && (!ask.is_safe || asked.is_none()) {
                        return Ok(response);
                    }
                    let wait = asked.unwrap_or_else(|| backoff.next_delay());
                    if wait > limits.longest_wait {
                        return Ok(response);
                    }
                    waits += 1;
                    tracing::debug!(target: "mcp_transport_http", status, ?wait, "refused for now; waiting");
                    tokio::time::sleep(wait).await;
                }
                _ => return Ok(response),
            }
        }
    }

    async fn request(
        &self,
        ask: &Ask,
        uri: Uri,
        why: HeaderRequest,
    ) -> Result<Request<Full<Bytes>>, HttpFailure> {
        let mut headers = self.base_headers.clone();
        if let Some(provider) = &self.server.provider {
            let failed = |reason: String| {
                HttpFailure::new(HttpFailureKind::HeaderProvider, Delivery::NotSent, reason)
            };
            let limit = self.server.limits.header_timeout;
            tokio::time::timeout(limit, provider.provide(why, &mut headers))
                .await
                .map_err(|_| failed(format!("nothing within {limit:?} (limit header_timeout)")))?
                .map_err(failed)?;
            self.remember_provided(&headers);
        }
        // Those of the protocol come last: nothing of the host's can weaken them (C106).
        headers.extend(ask.headers.clone());
        let mut request = Request::new(Full::new(ask.body.clone()));
        *request.method_mut() = ask.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers;
        Ok(request)
    }

    fn remember_provided(&self, headers: &HeaderMap) {
        let mut provided = self.provided.lock().unwrap_or_else(PoisonError::into_inner);
        let secrets = headers.values().filter(|value| value.is_sensitive());
        for secret in secrets.filter_map(|value| value.to_str().ok()) {
            if !provided.iter().any(|known| known == secret) {
                provided.push_back(secret.to_owned());
            }
        }
        while provided.len() > MAX_PROVIDED {
            provided.pop_front();
        }
    }

    /// The start of what a server wrote, as evidence. What it repeats of our secrets is left out (D10, SEC-09).
    pub(crate) fn shown(&self, text: &[u8]) -> String {
        let provided = self.provided.lock().unwrap_or_else(PoisonError::into_inner);
        let provided: Vec<_> = provided.iter().cloned().collect();
        let session = self.session.id();
        let session = session.as_ref().and_then(|id| id.to_str().ok());
        let mut secrets = self.server.secrets();
        secrets.extend(provided.iter().flat_map(|value| with_token(value)));
        secrets.extend(session.map(ToOwned::to_owned));
        secrets.retain(|secret| secret.len() >= MIN_HIDDEN_BYTES);
        // The longest first: one may contain another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        let text = String::from_utf8_lossy(text).into_owned();
        let text = secrets
            .iter()
            .fold(text, |text, secret| text.replace(secret, "***"));
        shown(text.as_bytes())
    }

    /// Where a redirect leads, if that is on the server's own origin.
    fn same_origin(&self, response: &Response<Incoming>) -> Option<Uri> {
        let location = response.headers().get(LOCATION)?.to_str().ok()?;
        self.server
            .endpoint
            .resolve(location)
            .ok()?
            .as_str()
            .parse()
            .ok()
    }

    fn redirect(&self, status: u16, response: &Response<Incoming>) -> HttpFailure {
        let location = response.headers().get(LOCATION);
        let detail = location.map_or_else(
            || "without a target".to_owned(),
            |location| {
                let text = self.shown(location.as_bytes());
                // A target's query may hold a secret.
                let end = text.find('?').unwrap_or(text.len());
                format!("to {}", text.get(..end).unwrap_or_default())
            },
        );
        HttpFailure::of_status(status, false, detail)
    }

    /// Reads an answer that is an error, and says what it means. `in_session`: the request named a session.
    pub(crate) async fn refusal(
        &self,
        response: Response<Incoming>,
        in_session: bool,
    ) -> (HttpFailure, Bytes) {
        let status = response.status().as_u16();
        let wait = retry_after(response.headers(), SystemTime::now());
        let body = self.error_body(response).await;
        let failure = HttpFailure::of_status(status, in_session, self.shown(&body))
            .with_retry_after(wait.filter(|_| matches!(status, 429 | 503)));
        (failure, body)
    }

    /// The start of an error's body, read for a bounded time.
    async fn error_body(&self, response: Response<Incoming>) -> Bytes {
        self.start_of(response, self.server.limits.error_timeout)
            .await
    }

    async fn start_of(&self, response: Response<Incoming>, limit: Duration) -> Bytes {
        let (head, incoming) = response.into_parts();
        let Ok(mut body) = Body::new(&head.headers, incoming) else {
            return Bytes::new();
        };
        body.start(self.server.limits.max_error_bytes, limit).await
    }

    /// Reads an answer that is not needed, so that its connection can be used again; gives up soon.
    pub(crate) async fn discard(&self, response: Response<Incoming>) {
        drop(self.start_of(response, DISCARDED_WITHIN).await);
    }

    /// A failure whose body could not be read to its end.
    pub(crate) fn broken(&self, error: BodyError, status: u16) -> HttpFailure {
        let (kind, detail) = match error {
            BodyError::Cut(reason) => (HttpFailureKind::Cut, reason),
            BodyError::Encoding(name) => (
                HttpFailureKind::ContentType,
                format!("content encoding {name}, which was not asked for"),
            ),
            BodyError::TooLong => (
                HttpFailureKind::TooLong,
                format!(
                    "more than {} bytes (limit max_message_bytes)",
                    self.server.limits.max_message_bytes
                ),
            ),
        };
        HttpFailure::new(kind, Delivery::Unknown, detail).with_status(status)
    }
}

/// The form of an answer's body.
pub(crate) fn form(response: &Response<Incoming>) -> AnswerForm {
    let content_type = response.headers().get(CONTENT_TYPE);
    let content_type = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()));
    answer_form(response.status().as_u16(), content_type.as_deref())
}

/// A request that waits for its answer to begin, until it is answered or given up.
struct Waiting<'a>(&'a Session, u64);

impl Waiting<'_> {
    fn answered(self, version: http::Version) {
        self.0.answered(self.1, Some(version));
        std::mem::forget(self);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.answered(self.1, None);
    }
}

fn of_send(error: SendError) -> HttpFailure {
    let (kind, delivery) = match (&error, error.was_sent()) {
        (SendError::Http { .. }, true) => (HttpFailureKind::Cut, Delivery::Unknown),
        (SendError::Http { .. }, false) => (HttpFailureKind::Cut, Delivery::NotSent),
        (_, true) => (HttpFailureKind::Connect, Delivery::Unknown),
        (_, false) => (HttpFailureKind::Connect, Delivery::NotSent),
    };
    HttpFailure::new(kind, delivery, error.to_string())
}
