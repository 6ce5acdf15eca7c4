//! Refreshing, and what the answers to token requests lead to.

use super::machine::{AuthFlow, Step, fail, fail_at, stage_of_grant};
use super::output::{Authorized, Output};
use crate::credentials::{Registration, RegistrationSource, TokenSet};
use crate::error::{Fault, Stage};
use crate::http::HttpResponse;
use crate::resource_metadata::canonical_resource;
use crate::server_metadata::ClientAuthMethod;
use crate::token::{ClientAuth, Grant, ID_JAG, TokenRequest, TokenResponse};
use crate::www_authenticate::TokenScheme;

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
