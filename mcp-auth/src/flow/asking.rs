//! From metadata to a request for a token: the client id, the browser, the scopes.

use url::Url;

use super::config::{Reason, Way};
use super::machine::{AuthFlow, Purpose, Step, fail, fail_at, stage_of_grant};
use super::output::{BrowserLogin, Output, Override};
use crate::authorization::PendingAuthorization;
use crate::credentials::Registration;
use crate::dpop::DpopProver;
use crate::error::{AuthError, Fault, Stage};
use crate::evidence::{shown, shown_address};
use crate::fetch_policy::{is_redirect_uri, judge_for_browser};
use crate::http::HttpResponse;
use crate::pkce::Verifier;
use crate::policy::ResourceParameter;
use crate::registration::{self, RegistrationPlan};
use crate::resource_metadata::canonical_resource;
use crate::scope::{ScopeSet, ScopeSources};
use crate::server_metadata::ServerMetadata;
use crate::signing::SigningKey;
use crate::token::{Client, ClientAuth, Grant, ID_JAG, TokenRequest, choose_auth};
use crate::www_authenticate::TokenScheme;

/// From metadata to a request for a token.
impl AuthFlow {
    pub(super) fn use_server(&mut self, server: ServerMetadata, now: u64) -> Step {
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

    pub(super) fn judge(&self, stage: Stage, address: &str) -> Result<Url, Box<AuthError>> {
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

    pub(super) fn use_dpop_key(&mut self, key: &crate::secret::Secret) -> Step {
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

    pub(super) fn issuer(&self) -> String {
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
    pub(super) fn scope(&self) -> Option<ScopeSet> {
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

    pub(super) fn announced_resource(&self) -> String {
        self.resource.as_ref().map_or_else(
            || canonical_resource(&self.config.endpoint),
            |resource| resource.resource.clone(),
        )
    }

    pub(super) fn overridden_resource(&mut self, announced: String) -> Option<String> {
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

    pub(super) fn client(
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
