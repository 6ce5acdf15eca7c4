//! The search for metadata, and what each answer to it leads to.

use std::collections::VecDeque;

use url::Url;

use super::config::Reason;
use super::machine::{AuthFlow, Purpose, ServerSearch, Step, fail_at};
use super::output::Override;
use crate::document::{Document, not_json};
use crate::error::{AuthError, Fault, Stage};
use crate::evidence::shown_address;
use crate::fetch_policy::UrlRefusal;
use crate::http::{FetchKind, HttpRequest, HttpResponse};
use crate::resource_metadata::{self, ResourceMetadata, canonical_resource};
use crate::server_metadata::{self, ServerMetadata};
use crate::token::status;

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
    pub(super) fn find_legacy_server(&mut self, now: u64) -> Step {
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
    pub(super) fn known_issuers(&self) -> Vec<String> {
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

    pub(super) fn find_server(&mut self, issuer: String, now: u64) -> Step {
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
