//! The machine: its inputs, its one request in flight, its end.

use std::collections::VecDeque;
use std::fmt;
use std::mem;
use std::net::IpAddr;

use url::Url;

use super::config::{FlowConfig, Reason, Start};
use super::output::{Authorized, CallbackVerdict, Output, Override};
use crate::authorization::{Callback, PendingAuthorization, read_callback};
use crate::credentials::{Registration, TokenSet};
use crate::dpop::{DpopDecision, DpopProver};
use crate::error::{Attempt, AuthError, Fault, Stage, unreachable};
use crate::evidence::shown_url;
use crate::fetch_policy::{FetchPolicy, UrlRefusal, takes_tokens};
use crate::http::{FetchKind, HttpRequest, HttpResponse};
use crate::random::{RandomBytes, word};
use crate::resource_metadata::ResourceMetadata;
use crate::secret::Secret;
use crate::server_metadata::ServerMetadata;
use crate::token::{Grant, TokenRequest};

/// One way to a token. See the [module](super) for how to drive it.
pub struct AuthFlow {
    pub(super) config: FlowConfig,
    pub(super) fetch_policy: FetchPolicy,
    random: Box<dyn RandomBytes + Send>,
    outputs: VecDeque<Output>,
    fetches: u32,
    pub(super) trail: Vec<Attempt>,
    pub(super) overrides: Vec<Override>,
    pub(super) start: Start,
    /// What is known of the resource; for an old server what is assumed of it.
    pub(super) resource: Option<ResourceMetadata>,
    pub(super) server: Option<ServerMetadata>,
    pub(super) registration: Option<Registration>,
    pub(super) dpop: Option<DpopProver>,
    pub(super) reloads: u32,
    state: State,
}

/// How often tokens are read from the store again in one flow.
const MAX_RELOADS: u32 = 2;

enum State {
    /// Not started, or between two inputs.
    Idle,
    Fetching(Box<Fetching>),
    WaitingForClient {
        refused: Option<Fault>,
    },
    WaitingForBrowser {
        pending: Box<PendingAuthorization>,
        deadline: u64,
    },
    WaitingForStore {
        refused: Secret,
    },
    Finished,
}

/// The request in flight.
struct Fetching {
    url: Url,
    kind: FetchKind,
    purpose: Purpose,
    redirects: u32,
    nonce_retried: bool,
    deadline: u64,
}

/// What an answer is for.
#[derive(Clone)]
pub(super) enum Purpose {
    /// Resource metadata, and where to look next.
    Resource(VecDeque<String>),
    /// Metadata of an authorization server.
    Server(ServerSearch),
    /// A registration.
    Register,
    /// A token.
    Token(Box<TokenRequest>),
}

/// Where metadata of an authorization server is looked for.
#[derive(Clone)]
pub(super) struct ServerSearch {
    pub(super) issuer: String,
    pub(super) rest: VecDeque<String>,
    /// A document of another issuer, and where it was.
    pub(super) mismatch: Option<(Fault, String)>,
    pub(super) legacy: bool,
}

pub(super) type Step = Result<(), Box<AuthError>>;

impl AuthFlow {
    /// A flow that was not started. `random` gives bytes that nobody can guess.
    pub fn new(config: FlowConfig, random: impl RandomBytes + Send + 'static) -> Self {
        let fetch_policy =
            FetchPolicy::new(&config.endpoint, &config.server_addresses, &config.policy);
        Self {
            config,
            fetch_policy,
            random: Box::new(random),
            outputs: VecDeque::new(),
            fetches: 0,
            trail: Vec::new(),
            overrides: Vec::new(),
            start: Start::default(),
            resource: None,
            server: None,
            registration: None,
            dpop: None,
            reloads: 0,
            state: State::Idle,
        }
    }

    /// Begins. A flow begins once; a second start is ignored.
    pub fn start(&mut self, mut start: Start, now: u64) {
        if self.fetches > 0 || !matches!(self.state, State::Idle) {
            return;
        }
        // Tokens that were obtained for another server are none (AUTH-43).
        start.tokens = start
            .tokens
            .filter(|tokens| tokens.is_for(&self.config.endpoint));
        self.start = start;
        let step = if !takes_tokens(&self.config.endpoint) {
            let refusal = UrlRefusal::Scheme(self.config.endpoint.scheme().to_owned());
            let fault = Fault::UrlRefused(refusal);
            Err(fail_at(
                Stage::ResourceMetadata,
                &self.config.endpoint,
                fault,
            ))
        } else if self.start.reason == Reason::Expired && self.can_refresh() {
            self.refresh(now)
        } else {
            self.discover(now)
        };
        self.settle(step);
    }

    /// What to do next. Call it until it says [`Output::Wait`], after each input.
    pub fn poll_output(&mut self) -> Output {
        self.outputs.pop_front().unwrap_or_else(|| Output::Wait {
            deadline: self.deadline(),
        })
    }

    /// Whether it ended.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    /// What was fetched so far, in order.
    pub fn trail(&self) -> &[Attempt] {
        &self.trail
    }

    /// Judges what the name of a request's address resolved to, before it is connected to (SEC-02). What the user named, an
    /// identity provider, may be anywhere.
    ///
    /// # Errors
    ///
    /// Why it must not be connected to; hand it to [`handle_fetch_refused`](Self::handle_fetch_refused).
    pub fn judge_addresses(&self, kind: FetchKind, addresses: &[IpAddr]) -> Result<(), UrlRefusal> {
        if kind == FetchKind::IdentityProvider {
            return Ok(());
        }
        self.fetch_policy.judge_addresses(addresses)
    }

    /// The answer to the last [`Output::Fetch`]. One that nothing waits for is ignored.
    pub fn handle_response(&mut self, response: &HttpResponse, now: u64) {
        let Some(fetching) = self.take_fetching() else {
            return;
        };
        let step = self.answered(*fetching, response, now);
        self.settle(step);
    }

    /// There is no answer. `detail` says why, in a few words; it is shown.
    pub fn handle_fetch_error(&mut self, detail: &str) {
        if let Some(fetching) = self.take_fetching() {
            let error = self.error_at(&fetching, unreachable(detail));
            self.settle(Err(error));
        }
    }

    /// The request was not sent, since its name resolved to an address that is refused.
    pub fn handle_fetch_refused(&mut self, refusal: UrlRefusal) {
        if let Some(fetching) = self.take_fetching() {
            let error = self.error_at(&fetching, Fault::UrlRefused(refusal));
            self.settle(Err(error));
        }
    }

    /// What came back through the browser, or what a person pasted.
    pub fn handle_callback(&mut self, callback: &str, now: u64) -> CallbackVerdict {
        let State::WaitingForBrowser { pending, .. } = &self.state else {
            return CallbackVerdict::NotOurs;
        };
        let found = read_callback(callback, pending);
        if found == Callback::NotOurs {
            return CallbackVerdict::NotOurs;
        }
        // Taken out of the state: an answer is used once.
        let State::WaitingForBrowser { pending, .. } = mem::replace(&mut self.state, State::Idle)
        else {
            return CallbackVerdict::NotOurs;
        };
        let step = match found {
            Callback::Code(code) => {
                let grant = Grant::AuthorizationCode {
                    code,
                    verifier: pending.verifier,
                    redirect_uri: pending.redirect_uri,
                };
                self.ask_for_token(grant, None, now)
            }
            Callback::Refused(fault) => Err(fail(Stage::Callback, fault)),
            Callback::NotOurs => Ok(()),
        };
        self.settle(step);
        CallbackVerdict::Taken
    }

    /// The client id that a person gave, or `None` if nobody did.
    pub fn handle_client(&mut self, registration: Option<Registration>, now: u64) {
        let State::WaitingForClient { .. } = &self.state else {
            return;
        };
        let State::WaitingForClient { refused } = mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        let step = match registration {
            Some(registration) => self.use_given_client(registration, now),
            None => Err(fail(
                Stage::Registration,
                refused.unwrap_or(Fault::NoClient),
            )),
        };
        self.settle(step);
    }

    /// What the store holds after a refresh was refused, read under its lock.
    pub fn handle_stored(&mut self, tokens: Option<TokenSet>, now: u64) {
        let State::WaitingForStore { .. } = &self.state else {
            return;
        };
        let State::WaitingForStore { refused } = mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        let tokens = tokens.filter(|tokens| {
            tokens.is_for(&self.config.endpoint) && tokens.refresh_token.as_ref() != Some(&refused)
        });
        let step = match tokens {
            Some(tokens) if !tokens.is_expired(now) => {
                self.finish(Output::Done(Box::new(Authorized {
                    tokens,
                    registration: None,
                    refreshed: true,
                    overrides: self.overrides.clone(),
                })));
                Ok(())
            }
            Some(tokens) if tokens.refresh_token.is_some() && self.reloads < MAX_RELOADS => {
                self.start.tokens = Some(tokens);
                self.refresh(now)
            }
            _ => self.log_in_after_refusal(now),
        };
        self.settle(step);
    }

    /// The time of the deadline came. Before it, nothing happens.
    pub fn handle_timeout(&mut self, now: u64) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        let error = match self.take_fetching() {
            Some(fetching) => self.error_at(&fetching, Fault::TimedOut),
            None => fail(Stage::Authorization, Fault::TimedOut),
        };
        self.settle(Err(error));
    }

    fn deadline(&self) -> Option<u64> {
        match &self.state {
            State::Fetching(fetching) => Some(fetching.deadline),
            State::WaitingForBrowser { deadline, .. } => Some(*deadline),
            _ => None,
        }
    }

    fn take_fetching(&mut self) -> Option<Box<Fetching>> {
        match mem::replace(&mut self.state, State::Idle) {
            State::Fetching(fetching) => Some(fetching),
            other => {
                self.state = other;
                None
            }
        }
    }

    /// Sends a request and waits for its answer.
    pub(super) fn fetch(&mut self, request: HttpRequest, purpose: Purpose, now: u64) -> Step {
        let redirects = 0;
        self.send(request, purpose, redirects, false, now)
    }

    fn send(
        &mut self,
        mut request: HttpRequest,
        purpose: Purpose,
        redirects: u32,
        nonce_retried: bool,
        now: u64,
    ) -> Step {
        let limits = &self.config.limits;
        if self.fetches >= limits.max_fetches {
            let stage = stage_of(&purpose);
            return Err(fail(stage, Fault::TooManyFetches(limits.max_fetches)));
        }
        self.fetches += 1;
        request.max_body_bytes = match purpose {
            Purpose::Resource(_) | Purpose::Server(_) => limits.max_metadata_bytes,
            Purpose::Register | Purpose::Token(_) => limits.max_token_bytes,
        };
        request.timeout = limits.fetch_timeout;
        let seconds = limits.fetch_timeout.as_secs().max(1);
        self.state = State::Fetching(Box::new(Fetching {
            url: request.url.clone(),
            kind: request.kind,
            purpose,
            redirects,
            nonce_retried,
            deadline: now.saturating_add(seconds),
        }));
        self.outputs.push_back(Output::Fetch(Box::new(request)));
        Ok(())
    }

    /// Sends a token request, with a proof if tokens are to be bound to a key.
    pub(super) fn fetch_token(&mut self, request: TokenRequest, now: u64) -> Step {
        self.send_token(request, false, now)
    }

    fn send_token(&mut self, request: TokenRequest, nonce_retried: bool, now: u64) -> Step {
        let purpose = Purpose::Token(Box::new(request.clone()));
        let stage = stage_of(&purpose);
        let kind = match request.grant {
            Grant::TokenExchange { .. } => FetchKind::IdentityProvider,
            _ => FetchKind::Token,
        };
        let jti = self.word();
        let at = |fault| fail_at(stage, &request.endpoint, fault);
        let mut encoded = request.encode(kind, now, &jti).map_err(at)?;
        let bind = kind == FetchKind::Token;
        if let Some(dpop) = self.dpop.as_ref().filter(|_| bind) {
            let mut jti = [0; 16];
            self.random.fill(&mut jti);
            let proof = dpop
                .proof("POST", &request.endpoint, None, now, jti)
                .map_err(at)?;
            encoded.headers.push(("dpop", proof));
        }
        self.send(encoded, purpose, 0, nonce_retried, now)
    }

    fn answered(&mut self, fetching: Fetching, response: &HttpResponse, now: u64) -> Step {
        let metadata = matches!(fetching.purpose, Purpose::Resource(_) | Purpose::Server(_));
        if metadata && response.redirect().is_some() {
            return self.redirected(fetching, response, now);
        }
        self.note(&fetching.url, &format!("status {}", response.status));
        match fetching.purpose.clone() {
            Purpose::Resource(rest) => self.resource_answered(&fetching.url, rest, response, now),
            Purpose::Server(search) => self.server_answered(&fetching.url, search, response, now),
            Purpose::Register => self.register_answered(&fetching.url, response, now),
            Purpose::Token(request) => {
                let decision = self
                    .dpop
                    .as_mut()
                    .map(|dpop| dpop.handle_response(&request.endpoint, response));
                if decision == Some(DpopDecision::Retry) && !fetching.nonce_retried {
                    return self.send_token(*request, true, now);
                }
                self.token_answered(*request, response, now)
            }
        }
    }

    /// Each hop is judged like the first address, and counts (SEC-02).
    fn redirected(&mut self, fetching: Fetching, response: &HttpResponse, now: u64) -> Step {
        let location = response.redirect().unwrap_or_default();
        self.note(
            &fetching.url,
            &format!("status {}, a redirect", response.status),
        );
        let target = match fetching.url.join(location) {
            Ok(url) if !location.is_empty() => url,
            _ => return Err(self.error_at(&fetching, Fault::Redirect(response.status))),
        };
        let max = self.config.limits.max_redirects;
        if fetching.redirects >= max {
            return Err(self.error_at(&fetching, Fault::TooManyRedirects(max)));
        }
        let judged = self.fetch_policy.judge_url(&target);
        judged.map_err(|refusal| {
            let stage = stage_of(&fetching.purpose);
            fail_at(stage, &target, Fault::UrlRefused(refusal))
        })?;
        let mut request = HttpRequest::get(target, fetching.kind);
        self.add_legacy_header(&fetching.purpose, &mut request);
        self.send(
            request,
            fetching.purpose,
            fetching.redirects + 1,
            false,
            now,
        )
    }

    pub(super) fn note(&mut self, url: &Url, outcome: &str) {
        self.trail.push(Attempt::new(shown_url(url), outcome));
    }

    pub(super) fn note_override(&mut self, which: Override) {
        if !self.overrides.contains(&which) {
            self.overrides.push(which);
        }
    }

    fn error_at(&mut self, fetching: &Fetching, fault: Fault) -> Box<AuthError> {
        fail_at(stage_of(&fetching.purpose), &fetching.url, fault)
    }

    /// 256 random bits as text.
    pub(super) fn word(&mut self) -> Secret {
        word(&mut *self.random)
    }

    pub(super) fn random_bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.random.fill(&mut bytes);
        bytes
    }

    pub(super) fn wait_for_client(&mut self, issuer: String, refused: Option<Fault>) {
        self.outputs.push_back(Output::NeedClientId {
            issuer,
            refused: refused.clone(),
        });
        self.state = State::WaitingForClient { refused };
    }

    pub(super) fn wait_for_browser(
        &mut self,
        pending: PendingAuthorization,
        login: super::BrowserLogin,
    ) {
        self.state = State::WaitingForBrowser {
            pending: Box::new(pending),
            deadline: login.expires_at,
        };
        self.outputs.push_back(Output::OpenBrowser(Box::new(login)));
    }

    pub(super) fn wait_for_store(&mut self, tokens: &TokenSet, refused: Secret) {
        self.reloads += 1;
        self.outputs
            .push_back(Output::ReloadTokens(tokens.key(None)));
        self.state = State::WaitingForStore { refused };
    }

    pub(super) fn output(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn finish(&mut self, output: Output) {
        self.outputs.push_back(output);
        self.state = State::Finished;
    }

    fn settle(&mut self, step: Step) {
        if let Err(mut error) = step {
            error.trail.clone_from(&self.trail);
            self.finish(Output::Failed(error));
        }
    }
}

impl fmt::Debug for AuthFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Idle => "idle",
            State::Fetching(_) => "fetching",
            State::WaitingForClient { .. } => "waiting for a client id",
            State::WaitingForBrowser { .. } => "waiting for the browser",
            State::WaitingForStore { .. } => "waiting for the store",
            State::Finished => "finished",
        };
        f.debug_struct("AuthFlow")
            .field("state", &state)
            .field("fetches", &self.fetches)
            .finish_non_exhaustive()
    }
}

pub(super) fn stage_of(purpose: &Purpose) -> Stage {
    match purpose {
        Purpose::Resource(_) => Stage::ResourceMetadata,
        Purpose::Server(_) => Stage::ServerMetadata,
        Purpose::Register => Stage::Registration,
        Purpose::Token(request) => stage_of_grant(&request.grant),
    }
}

pub(super) fn stage_of_grant(grant: &Grant) -> Stage {
    match grant {
        Grant::RefreshToken(_) => Stage::Refresh,
        Grant::TokenExchange { .. } => Stage::IdentityProvider,
        _ => Stage::Token,
    }
}

pub(super) fn fail(stage: Stage, fault: Fault) -> Box<AuthError> {
    Box::new(AuthError::new(stage, fault))
}

pub(super) fn fail_at(stage: Stage, url: &Url, fault: Fault) -> Box<AuthError> {
    Box::new(AuthError::new(stage, fault).at(shown_url(url)))
}
