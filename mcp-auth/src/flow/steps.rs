//! What each answer leads to.

use std::collections::VecDeque;

use url::Url;

use super::config::{Reason, Way};
use super::machine::{AuthFlow, Purpose, ServerSearch, Step, fail, fail_at, stage_of_grant};
use super::output::{Authorized, BrowserLogin, Output, Override};
use crate::authorization::PendingAuthorization;
use crate::credentials::{Registration, RegistrationSource, TokenSet};
use crate::document::{Document, not_json};
use crate::dpop::DpopProver;
use crate::error::{AuthError, Fault, Stage};
use crate::evidence::{shown, shown_address};
use crate::fetch_policy::{UrlRefusal, is_redirect_uri, judge_for_browser};
use crate::http::{FetchKind, HttpRequest, HttpResponse};
use crate::pkce::Verifier;
use crate::policy::ResourceParameter;
use crate::registration::{self, RegistrationPlan};
use crate::resource_metadata::{self, ResourceMetadata, canonical_resource};
use crate::scope::{ScopeSet, ScopeSources};
use crate::server_metadata::{self, ClientAuthMethod, ServerMetadata};
use crate::signing::SigningKey;
use crate::token::{
    Client, ClientAuth, Grant, ID_JAG, TokenRequest, TokenResponse, choose_auth, status,
};
use crate::www_authenticate::TokenScheme;

/// The version that old servers were asked with (AUTH-08).
const LEGACY_VERSION: &str = "2025-03-26";

/// Whether an answer to a search means that there is nothing at this address, or that something is wrong (C187).
enum Found {
    Document(Document),
    /// Not here; why.
    Not(String),
}

/// Reads an answer to a search for metadata.
fn found(response: &HttpResponse, max_bytes: usize) -> Result<Found, Fault> {
    if response.body.len() > max_bytes {
        return Err(Fault::TooLong(max_bytes));
    }
    match response.status {
        200..=299 => Ok(match Document::parse(&response.body) {
            Some(document) => Found::Document(document),
            // Sites that answer every address with their start page.
            None => Found::Not(not_json(response, false).to_string()),
        }),
        429 => Err(status(response, &[])),
        400..=499 => Ok(Found::Not(format!("status {}", response.status))),
        _ => Err(status(response, &[])),
    }
}

/// The search for metadata (AUTH-02 to AUTH-08).
impl AuthFlow {
    pub(super) fn discover(&mut self, now: u64) -> Step {
        let from_challenge = self
            .start
            .challenge
            .as_ref()
            .and_then(|challenge| challenge.resource_metadata.as_deref());
        let candidates = resource_metadata::candidates(&self.config.endpoint, from_challenge);
        self.next_resource(candidates.into(), now)
    }

    fn next_resource(&mut self, mut rest: VecDeque<String>, now: u64) -> Step {
        while let Some(address) = rest.pop_front() {
            match self.fetch_policy.judge(&address) {
                Ok(url) => {
                    let request = HttpRequest::get(url, FetchKind::ResourceMetadata);
                    return self.fetch(request, Purpose::Resource(rest), now);
                }
                // Servers behind a proxy announce http addresses; the others are tried all the same.
                Err(refusal) => self.note_refused(&address, &refusal),
            }
        }
        if !self.config.policy.legacy_discovery {
            let endpoint = self.config.endpoint.clone();
            return Err(fail_at(
                Stage::ResourceMetadata,
                &endpoint,
                Fault::NoMetadata,
            ));
        }
        self.resource = Some(ResourceMetadata {
            resource: canonical_resource(&self.config.endpoint),
            ..ResourceMetadata::default()
        });
        self.find_legacy_server(now)
    }

    /// The server's own origin (AUTH-08).
    fn find_legacy_server(&mut self, now: u64) -> Step {
        self.note_override(Override::LegacyDiscovery);
        self.next_server(
            ServerSearch {
                issuer: server_metadata::legacy_issuer(&self.config.endpoint),
                rest: [server_metadata::legacy_candidate(&self.config.endpoint)].into(),
                mismatch: None,
                legacy: true,
            },
            now,
        )
    }

    fn note_refused(&mut self, address: &str, refusal: &UrlRefusal) {
        let outcome = format!("not asked: {refusal}");
        self.trail
            .push(crate::error::Attempt::new(shown_address(address), outcome));
    }

    pub(super) fn resource_answered(
        &mut self,
        url: &Url,
        rest: VecDeque<String>,
        response: &HttpResponse,
        now: u64,
    ) -> Step {
        let at = |fault| fail_at(Stage::ResourceMetadata, url, fault);
        let document = match found(response, self.config.limits.max_metadata_bytes).map_err(at)? {
            Found::Document(document) => document,
            Found::Not(outcome) => {
                self.amend(&outcome);
                return self.next_resource(rest, now);
            }
        };
        let policy = self.config.policy.clone();
        let metadata =
            ResourceMetadata::read(&document, &self.config.endpoint, &policy).map_err(at)?;
        if policy.trusted_resource.as_deref() == Some(metadata.resource.as_str()) {
            self.note_override(Override::TrustedResource);
        }
        let preferred: Vec<String> = self.known_issuers();
        let issuer = metadata
            .choose(preferred.iter().map(String::as_str))
            .map(str::to_owned);
        self.resource = Some(metadata);
        let issuer = match issuer {
            Err(_) if policy.legacy_discovery => return self.find_legacy_server(now),
            issuer => issuer.map_err(at)?,
        };
        if self.start.reason == Reason::Unauthorized
            && self.can_refresh()
            && self.tokens_are_of(&issuer)
        {
            return self.refresh(now);
        }
        self.find_server(issuer, now)
    }

    /// Issuers where the client is known, the most binding first.
    fn known_issuers(&self) -> Vec<String> {
        let own = self.config.identity.pre_registered.as_ref();
        let tokens = self.start.tokens.as_ref();
        let known = self.start.registrations.iter();
        own.and_then(|own| own.issuer.clone())
            .into_iter()
            .chain(tokens.map(|tokens| tokens.issuer.clone()))
            .chain(known.filter_map(|known| known.issuer.clone()))
            .collect()
    }

    /// Whether the stored tokens came from this issuer, for this resource (AUTH-24).
    fn tokens_are_of(&self, issuer: &str) -> bool {
        let trusted = self.config.policy.trusted_issuer.as_deref();
        let resource = self
            .resource
            .as_ref()
            .map(|resource| resource.resource.as_str());
        self.start.tokens.as_ref().is_some_and(|tokens| {
            let same = tokens.issuer == issuer || trusted == Some(tokens.issuer.as_str());
            same && resource.is_none_or(|resource| tokens.resource == resource)
        })
    }

    fn find_server(&mut self, issuer: String, now: u64) -> Step {
        let named = |fault| {
            Box::new(AuthError::new(Stage::ServerMetadata, fault).at(shown_address(&issuer)))
        };
        self.fetch_policy
            .judge(&issuer)
            .map_err(|refusal| named(Fault::UrlRefused(refusal)))?;
        let rest = server_metadata::candidates(&issuer).map_err(named)?.into();
        self.next_server(
            ServerSearch {
                issuer,
                rest,
                mismatch: None,
                legacy: false,
            },
            now,
        )
    }

    fn next_server(&mut self, mut search: ServerSearch, now: u64) -> Step {
        let Some(address) = search.rest.pop_front() else {
            if search.legacy {
                self.note_override(Override::LegacyEndpoints);
                let defaults = ServerMetadata::legacy_defaults(&self.config.endpoint);
                return self.use_server(defaults, now);
            }
            let error = match search.mismatch {
                Some((fault, url)) => AuthError::new(Stage::ServerMetadata, fault).at(url),
                None => {
                    let issuer = shown_address(&search.issuer);
                    AuthError::new(Stage::ServerMetadata, Fault::NoMetadata).at(issuer)
                }
            };
            return Err(Box::new(error));
        };
        let url = self.fetch_policy.judge(&address).map_err(|refusal| {
            let error = AuthError::new(Stage::ServerMetadata, Fault::UrlRefused(refusal));
            Box::new(error.at(shown_address(&address)))
        })?;
        let mut request = HttpRequest::get(url, FetchKind::ServerMetadata);
        let purpose = Purpose::Server(search);
        self.add_legacy_header(&purpose, &mut request);
        self.fetch(request, purpose, now)
    }

    pub(super) fn add_legacy_header(&self, purpose: &Purpose, request: &mut HttpRequest) {
        if matches!(purpose, Purpose::Server(search) if search.legacy) {
            request
                .headers
                .push(("mcp-protocol-version", LEGACY_VERSION.into()));
        }
    }

    pub(super) fn server_answered(
        &mut self,
        url: &Url,
        mut search: ServerSearch,
        response: &HttpResponse,
        now: u64,
    ) -> Step {
        let at = |fault| fail_at(Stage::ServerMetadata, url, fault);
        let document = match found(response, self.config.limits.max_metadata_bytes).map_err(at)? {
            Found::Document(document) => document,
            Found::Not(outcome) => {
                self.amend(&outcome);
                return self.next_server(search, now);
            }
        };
        match ServerMetadata::read(&document, &search.issuer, &self.config.policy) {
            Ok(metadata) => {
                if metadata.issuer != search.issuer {
                    self.note_override(Override::TrustedIssuer);
                }
                self.use_server(metadata, now)
            }
            // A document of somebody else is not used (AUTH-07). Hosts of many issuers may have the right one elsewhere.
            Err(fault @ Fault::IssuerMismatch { .. }) if !search.legacy => {
                self.amend(&fault.to_string());
                let found = (fault, crate::evidence::shown_url(url));
                search.mismatch.get_or_insert(found);
                self.next_server(search, now)
            }
            Err(fault) => Err(at(fault)),
        }
    }

    /// Says more about the last fetch.
    fn amend(&mut self, outcome: &str) {
        if let Some(last) = self.trail.last_mut() {
            outcome.clone_into(&mut last.outcome);
        }
    }
}

/// From metadata to a request for a token.
impl AuthFlow {
    fn use_server(&mut self, server: ServerMetadata, now: u64) -> Step {
        let stage = Stage::ServerMetadata;
        let issuer = shown_address(&server.issuer);
        let at = |fault| Box::new(AuthError::new(stage, fault).at(issuer.clone()));
        // Judged before anybody logs in for nothing.
        let endpoint = server
            .token_endpoint
            .as_deref()
            .ok_or_else(|| at(Fault::MissingEndpoint("token_endpoint")))?;
        self.judge(stage, endpoint)?;
        if matches!(self.config.way, Way::Browser) {
            server.check_pkce(&self.config.policy).map_err(at)?;
            let mut strict = self.config.policy.clone();
            strict.assume_pkce = false;
            if server.check_pkce(&strict).is_err() {
                self.note_override(Override::AssumedPkce);
            }
            let endpoint = server
                .authorization_endpoint
                .as_deref()
                .ok_or_else(|| at(Fault::MissingEndpoint("authorization_endpoint")))?;
            judge_for_browser(endpoint).map_err(|refusal| {
                let error = AuthError::new(Stage::Authorization, Fault::UrlRefused(refusal));
                Box::new(error.at(shown_address(endpoint)))
            })?;
            if !self.config.interactive {
                return Err(at(Fault::LoginNeeded));
            }
            if !is_redirect_uri(&self.config.identity.redirect_uri) {
                return Err(fail(Stage::Authorization, Fault::RedirectUri));
            }
        }
        self.bind_to_key(&server)?;
        let plan = registration::plan(
            &self.config.identity,
            &self.start.registrations,
            &server,
            now,
        )
        .map_err(|fault| fail(Stage::Registration, fault))?;
        self.server = Some(server);
        match (plan, &self.config.way) {
            (RegistrationPlan::Use(registration), _) => {
                self.registration = Some(registration);
                self.ask(now)
            }
            (RegistrationPlan::Register(endpoint), Way::Browser) => self.register(&endpoint, now),
            (RegistrationPlan::AskUser, Way::Browser) => {
                self.ask_for_client(None);
                Ok(())
            }
            // These clients are registered by people (AUTH-60).
            _ => Err(fail(Stage::Registration, Fault::NoClient)),
        }
    }

    fn judge(&self, stage: Stage, address: &str) -> Result<Url, Box<AuthError>> {
        self.fetch_policy.judge(address).map_err(|refusal| {
            let error = AuthError::new(stage, Fault::UrlRefused(refusal));
            Box::new(error.at(shown_address(address)))
        })
    }

    /// Decides whether tokens are bound to a key.
    fn bind_to_key(&mut self, server: &ServerMetadata) -> Step {
        let required = self
            .resource
            .as_ref()
            .is_some_and(|resource| resource.dpop_bound_access_tokens_required);
        let challenged = self
            .start
            .challenge
            .as_ref()
            .is_some_and(|challenge| challenge.schemes.contains(&TokenScheme::Dpop));
        match &self.config.dpop_key {
            Some(key) if required || challenged || server.takes_dpop() => {
                let key = key.clone();
                self.use_dpop_key(&key)
            }
            None if required => Err(fail(
                Stage::Token,
                Fault::Configuration(
                    "the server wants tokens that are bound to a key, and no `dpop_key` is set",
                ),
            )),
            _ => Ok(()),
        }
    }

    fn use_dpop_key(&mut self, key: &crate::secret::Secret) -> Step {
        let prover = SigningKey::from_pkcs8(key).and_then(DpopProver::new);
        self.dpop = Some(prover.map_err(|fault| fail(Stage::Token, fault))?);
        Ok(())
    }

    fn register(&mut self, endpoint: &str, now: u64) -> Step {
        let endpoint = self.judge(Stage::Registration, endpoint)?;
        let scope = self.scope();
        let Some(server) = &self.server else {
            return Ok(());
        };
        let request = registration::request(
            &self.config.identity,
            endpoint,
            server,
            scope.as_ref(),
            self.config.wants_refresh,
        )
        .map_err(|fault| fail(Stage::Registration, fault))?;
        self.fetch(request, Purpose::Register, now)
    }

    pub(super) fn register_answered(
        &mut self,
        url: &Url,
        response: &HttpResponse,
        now: u64,
    ) -> Step {
        let issuer = self.issuer();
        let redirect_uri = self.config.identity.redirect_uri.clone();
        let limit = self.config.limits.max_token_bytes;
        match registration::read_response(response, limit, &issuer, &redirect_uri) {
            Ok(registration) => {
                self.output(Output::SaveRegistration(Box::new(registration.clone())));
                self.registration = Some(registration);
                self.ask(now)
            }
            // The server takes no registrations from strangers; a person may have one (AUTH-20).
            Err(
                fault @ Fault::Status {
                    status: 401 | 403 | 404 | 405,
                    ..
                },
            ) => {
                self.ask_for_client(Some(fault));
                Ok(())
            }
            Err(fault) => Err(fail_at(Stage::Registration, url, fault)),
        }
    }

    fn ask_for_client(&mut self, refused: Option<Fault>) {
        let issuer = self.issuer();
        self.wait_for_client(issuer, refused);
    }

    pub(super) fn use_given_client(&mut self, mut registration: Registration, now: u64) -> Step {
        let issuer = self.issuer();
        if !registration.is_for(&issuer) {
            let registered = registration.issuer.unwrap_or_default();
            return Err(fail(
                Stage::Registration,
                Fault::RegisteredElsewhere {
                    registered: shown(&registered),
                    found: shown(&issuer),
                },
            ));
        }
        registration.issuer = Some(issuer);
        self.output(Output::SaveRegistration(Box::new(registration.clone())));
        self.registration = Some(registration);
        self.ask(now)
    }

    fn issuer(&self) -> String {
        self.server
            .as_ref()
            .map(|server| server.issuer.clone())
            .unwrap_or_default()
    }

    /// The first request of the chosen way.
    fn ask(&mut self, now: u64) -> Step {
        match self.config.way.clone() {
            Way::Browser => self.open_browser(now),
            Way::ClientCredentials => {
                let scope = self.scope();
                self.ask_for_token(Grant::ClientCredentials, scope, now)
            }
            Way::WorkloadIdentity { assertion } => {
                let scope = self.scope();
                self.ask_for_token(Grant::JwtBearer(assertion), scope, now)
            }
            Way::Enterprise(login) => {
                let refused = |refusal| {
                    let error = AuthError::new(Stage::IdentityProvider, Fault::UrlRefused(refusal));
                    Box::new(error.at(shown_address(&login.token_endpoint)))
                };
                let endpoint = judge_for_browser(&login.token_endpoint).map_err(refused)?;
                let grant = Grant::TokenExchange {
                    subject_token: login.subject_token,
                    subject_token_type: login.subject_token_type,
                    requested_token_type: ID_JAG.to_owned(),
                    audience: self.issuer(),
                };
                let mut request = TokenRequest::new(endpoint, login.issuer, grant, login.client);
                request.resource = self.resource_parameter();
                request.scope = self.scope();
                self.fetch_token(request, now)
            }
        }
    }

    fn open_browser(&mut self, now: u64) -> Step {
        let (state, verifier) = (self.word(), Verifier::new(self.random_bytes()));
        let (scope, resource) = (self.scope(), self.resource_parameter());
        let (Some(server), Some(registration)) = (&self.server, &self.registration) else {
            return Ok(());
        };
        let endpoint = server.authorization_endpoint.as_deref().unwrap_or_default();
        let endpoint = judge_for_browser(endpoint)
            .map_err(|refusal| fail(Stage::Authorization, Fault::UrlRefused(refusal)))?;
        let pending = PendingAuthorization {
            issuer: server.issuer.clone(),
            iss_supported: server.authorization_response_iss_parameter_supported,
            state,
            verifier,
            client_id: registration.client_id.clone(),
            redirect_uri: self.config.identity.redirect_uri.clone(),
            scope,
            resource,
        };
        let seconds = self.config.limits.login_timeout.as_secs().max(1);
        let login = BrowserLogin {
            url: pending.authorization_url(&endpoint),
            redirect_uri: pending.redirect_uri.clone(),
            issuer: pending.issuer.clone(),
            expires_at: now.saturating_add(seconds),
        };
        self.wait_for_browser(pending, login);
        Ok(())
    }

    /// The scopes of this flow's request (AUTH-40 to AUTH-42, AUTH-50).
    fn scope(&self) -> Option<ScopeSet> {
        if let Reason::StepUp(scope) = &self.start.reason {
            return Some(scope.clone()).filter(|scope| !scope.is_empty());
        }
        let server = self.server.as_ref();
        let first = crate::scope::initial(&ScopeSources {
            configured: self.config.scope.as_ref(),
            challenge: self
                .start
                .challenge
                .as_ref()
                .and_then(|challenge| challenge.scope.as_ref()),
            resource: self
                .resource
                .as_ref()
                .and_then(|resource| resource.scopes_supported.as_ref()),
            server: server.and_then(|server| server.scopes_supported.as_ref()),
            wants_refresh: self.config.wants_refresh && matches!(self.config.way, Way::Browser),
        });
        // A new login at the same place does not lose what step-ups asked for.
        let earlier = self
            .start
            .tokens
            .as_ref()
            .filter(|tokens| server.is_some_and(|server| server.issuer == tokens.issuer))
            .map(|tokens| &tokens.requested_scope)
            .filter(|earlier| !earlier.is_empty());
        match (first, earlier) {
            (Some(first), Some(earlier)) => Some(first.union(earlier)),
            (None, Some(earlier)) if self.config.scope.is_none() => Some(earlier.clone()),
            (first, _) => first,
        }
    }

    /// What is sent as `resource` (AUTH-31, C186).
    fn resource_parameter(&mut self) -> Option<String> {
        let announced = self.announced_resource();
        self.overridden_resource(announced)
    }

    fn announced_resource(&self) -> String {
        self.resource.as_ref().map_or_else(
            || canonical_resource(&self.config.endpoint),
            |resource| resource.resource.clone(),
        )
    }

    fn overridden_resource(&mut self, announced: String) -> Option<String> {
        let sent = match &self.config.policy.resource_parameter {
            ResourceParameter::AsAnnounced => return Some(announced),
            ResourceParameter::Fixed(value) => Some(value.clone()),
            ResourceParameter::Omit => None,
        };
        self.note_override(Override::ResourceParameter);
        sent
    }

    /// A request to the authorization server, by the client that is registered there.
    pub(super) fn ask_for_token(
        &mut self,
        grant: Grant,
        scope: Option<ScopeSet>,
        now: u64,
    ) -> Step {
        let stage = stage_of_grant(&grant);
        let resource = self.resource_parameter();
        let (Some(server), Some(registration)) = (&self.server, &self.registration) else {
            return Ok(());
        };
        let endpoint = server.token_endpoint.clone().unwrap_or_default();
        let endpoint = self.judge(stage, &endpoint)?;
        let client = self.client(
            registration,
            server.token_endpoint_auth_methods_supported.as_deref(),
            stage,
        )?;
        let mut request = TokenRequest::new(endpoint, server.issuer.clone(), grant, client);
        request.resource = resource;
        request.scope = scope;
        self.fetch_token(request, now)
    }

    fn client(
        &self,
        registration: &Registration,
        listed: Option<&[String]>,
        stage: Stage,
    ) -> Result<Client, Box<AuthError>> {
        // A workload is known by its statement.
        let by_statement = matches!(self.config.way, Way::WorkloadIdentity { .. })
            && registration.client_secret.is_none()
            && self.config.client_key.is_none();
        let auth = if by_statement {
            ClientAuth::None
        } else {
            choose_auth(
                registration.auth_method,
                listed,
                registration.client_secret.as_ref(),
                self.config.client_key.as_ref(),
            )
            .map_err(|fault| fail(stage, fault))?
        };
        Ok(Client::new(registration.client_id.clone(), auth))
    }
}

/// Refreshing, and what token requests lead to.
impl AuthFlow {
    pub(super) fn can_refresh(&self) -> bool {
        self.start
            .tokens
            .as_ref()
            .is_some_and(|tokens| tokens.refresh_token.is_some())
    }

    pub(super) fn refresh(&mut self, now: u64) -> Step {
        let Some(tokens) = self.start.tokens.clone() else {
            return self.discover(now);
        };
        let Some(token) = tokens.refresh_token.clone() else {
            return self.discover(now);
        };
        let endpoint = self.judge(Stage::Refresh, &tokens.token_endpoint)?;
        let registration = self.registration_of(&tokens);
        let client = self.client(&registration, None, Stage::Refresh)?;
        if let Some(key) = tokens
            .dpop_key
            .as_ref()
            .filter(|_| tokens.scheme == TokenScheme::Dpop)
        {
            self.use_dpop_key(key)?;
        }
        self.registration = Some(registration);
        let mut request = TokenRequest::new(
            endpoint,
            tokens.issuer.clone(),
            Grant::RefreshToken(token),
            client,
        );
        request.resource = self.overridden_resource(tokens.resource);
        self.fetch_token(request, now)
    }

    /// The client that tokens were given to. What was kept knows how it authenticates; what is configured has the newest
    /// secret.
    fn registration_of(&self, tokens: &TokenSet) -> Registration {
        let kept = self.start.registrations.iter().find(|known| {
            known.client_id == tokens.client_id
                && known.issuer.as_deref() == Some(tokens.issuer.as_str())
        });
        let own = self
            .config
            .identity
            .pre_registered
            .as_ref()
            .filter(|own| own.client_id == tokens.client_id && own.is_for(&tokens.issuer));
        let mut registration = match (own, kept) {
            (Some(own), kept) => {
                let mut own = own.clone();
                own.auth_method = own
                    .auth_method
                    .or_else(|| kept.and_then(|kept| kept.auth_method));
                own
            }
            (None, Some(kept)) => kept.clone(),
            (None, None) => {
                Registration::new(RegistrationSource::Dynamic, None, tokens.client_id.clone())
            }
        };
        registration.issuer = Some(tokens.issuer.clone());
        registration
    }

    pub(super) fn token_answered(
        &mut self,
        request: TokenRequest,
        response: &HttpResponse,
        now: u64,
    ) -> Step {
        let stage = stage_of_grant(&request.grant);
        let limit = self.config.limits.max_token_bytes;
        let read = TokenResponse::read(response, limit, &request.secrets());
        match (read, &request.grant) {
            (Ok(token), Grant::TokenExchange { .. }) => {
                if token
                    .issued_token_type
                    .as_deref()
                    .is_some_and(|kind| kind != ID_JAG)
                {
                    let fault =
                        Fault::Malformed("`issued_token_type` is not the type that was asked for");
                    return Err(fail_at(stage, &request.endpoint, fault));
                }
                let scope = self.scope();
                self.ask_for_token(Grant::JwtBearer(token.access_token), scope, now)
            }
            (Ok(token), _) => self.authorized(&request, token, now),
            (Err(fault), Grant::RefreshToken(token)) => match refresh_refusal(&fault) {
                RefreshRefusal::Token => {
                    if let Some(tokens) = self.start.tokens.clone() {
                        self.wait_for_store(&tokens, token.clone());
                    }
                    Ok(())
                }
                RefreshRefusal::Client => {
                    // Registered anew below, if the server gave the id itself.
                    let client_id = request.client.id;
                    self.start
                        .registrations
                        .retain(|known| known.client_id != client_id);
                    self.log_in_after_refusal(now)
                }
                RefreshRefusal::Request => self.log_in_after_refusal(now),
                RefreshRefusal::Nothing => Err(fail_at(stage, &request.endpoint, fault)),
            },
            (Err(fault), _) => Err(fail_at(stage, &request.endpoint, fault)),
        }
    }

    /// The refresh token is of no use. What was requested with it is remembered for the scopes of the login.
    pub(super) fn log_in_after_refusal(&mut self, now: u64) -> Step {
        if let Some(tokens) = &mut self.start.tokens {
            tokens.refresh_token = None;
        }
        self.registration = None;
        self.dpop = None;
        let Some(resource) = &self.resource else {
            return self.discover(now);
        };
        let preferred = self.known_issuers();
        let issuer = resource
            .choose(preferred.iter().map(String::as_str))
            .map_err(|fault| fail(Stage::ResourceMetadata, fault))?
            .to_owned();
        self.find_server(issuer, now)
    }

    fn authorized(&mut self, request: &TokenRequest, token: TokenResponse, now: u64) -> Step {
        let stage = stage_of_grant(&request.grant);
        let Some(scheme) = token.scheme else {
            let fault = Fault::TokenType("N_A".to_owned());
            return Err(fail_at(stage, &request.endpoint, fault));
        };
        let refreshed = matches!(request.grant, Grant::RefreshToken(_));
        let old = self.start.tokens.as_ref().filter(|_| refreshed);
        let bound = scheme == TokenScheme::Dpop;
        let dpop_key = old
            .and_then(|old| old.dpop_key.clone())
            .or_else(|| self.config.dpop_key.clone())
            .filter(|_| bound);
        if bound && (dpop_key.is_none() || self.dpop.is_none()) {
            let fault = Fault::Configuration("the token is bound to a key that was never shown");
            return Err(fail_at(stage, &request.endpoint, fault));
        }
        let (requested_scope, resource) = match old {
            Some(old) => (old.requested_scope.clone(), old.resource.clone()),
            None => (self.scope().unwrap_or_default(), self.announced_resource()),
        };
        let tokens = TokenSet {
            endpoint: canonical_resource(&self.config.endpoint),
            resource,
            issuer: request.issuer.clone(),
            token_endpoint: request.endpoint.to_string(),
            client_id: request.client.id.clone(),
            access_token: token.access_token,
            scheme,
            obtained_at: now,
            expires_at: token.expires_in.map(|seconds| now.saturating_add(seconds)),
            // An answer without a new one leaves the old one valid (C183).
            refresh_token: token
                .refresh_token
                .or_else(|| old.and_then(|old| old.refresh_token.clone())),
            granted_scope: token
                .scope
                .or_else(|| old.and_then(|old| old.granted_scope.clone())),
            requested_scope,
            dpop_key,
        };
        let mut registration = self.registration.clone();
        if let Some(registration) = &mut registration {
            registration.auth_method = Some(match &request.client.auth {
                ClientAuth::None => ClientAuthMethod::None,
                ClientAuth::SecretBasic(_) => ClientAuthMethod::ClientSecretBasic,
                ClientAuth::SecretPost(_) => ClientAuthMethod::ClientSecretPost,
                ClientAuth::PrivateKeyJwt { .. } => ClientAuthMethod::PrivateKeyJwt,
            });
        }
        let overrides = self.overrides.clone();
        self.finish(Output::Done(Box::new(Authorized {
            tokens,
            registration,
            refreshed,
            overrides,
        })));
        Ok(())
    }
}

/// What a refused refresh says.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum RefreshRefusal {
    /// The refresh token ended, or somebody else used it.
    Token,
    /// The server does not know the client any more.
    Client,
    /// The server takes no such request.
    Request,
    /// Nothing: the server is in trouble, and the login is still good.
    Nothing,
}

fn refresh_refusal(fault: &Fault) -> RefreshRefusal {
    let Fault::Refused(error) = fault else {
        return RefreshRefusal::Nothing;
    };
    match error.error.as_str() {
        "invalid_grant" => RefreshRefusal::Token,
        "invalid_client" | "unauthorized_client" => RefreshRefusal::Client,
        "server_error" | "temporarily_unavailable" | "slow_down" | "use_dpop_nonce" => {
            RefreshRefusal::Nothing
        }
        _ if error.status >= 500 || error.status == 429 => RefreshRefusal::Nothing,
        _ => RefreshRefusal::Request,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::OauthError;

    #[test]
    fn c181_only_a_refusal_of_the_token_ends_a_login() {
        for (error, status, expected) in [
            ("invalid_grant", 400, RefreshRefusal::Token),
            ("invalid_grant", 200, RefreshRefusal::Token),
            ("invalid_client", 401, RefreshRefusal::Client),
            ("invalid_scope", 400, RefreshRefusal::Request),
            ("server_error", 400, RefreshRefusal::Nothing),
            ("whatever", 503, RefreshRefusal::Nothing),
            ("whatever", 429, RefreshRefusal::Nothing),
        ] {
            let fault = Fault::Refused(OauthError::new(error, None, status, &[]));
            assert_eq!(refresh_refusal(&fault), expected, "{error} {status}");
        }
        assert_eq!(refresh_refusal(&Fault::TimedOut), RefreshRefusal::Nothing);
    }
}
