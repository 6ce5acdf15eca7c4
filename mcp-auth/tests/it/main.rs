//! Whole flows against servers that are tables.

mod discovery;
mod login;
mod other_ways;
mod random_answers;
mod refresh;

use std::collections::BTreeMap;

use mcp_auth::credentials::TokenSet;
use mcp_auth::error::AuthError;
use mcp_auth::flow::{
    AuthFlow, Authorized, BrowserLogin, CallbackVerdict, FlowConfig, Output, Reason, Start,
};
use mcp_auth::http::{HttpRequest, HttpResponse};
use mcp_auth::registration::ClientIdentity;
use mcp_auth::www_authenticate::TokenChallenge;
use serde_json::{Value, json};
use url::{Url, form_urlencoded};

const ENDPOINT: &str = "https://h.example/mcp";
const PRM: &str = "https://h.example/.well-known/oauth-protected-resource/mcp";
const ROOT_PRM: &str = "https://h.example/.well-known/oauth-protected-resource";
const ISSUER: &str = "https://as.example";
const AS: &str = "https://as.example/.well-known/oauth-authorization-server";
const OPENID: &str = "https://as.example/.well-known/openid-configuration";
const REGISTER: &str = "https://as.example/register";
const TOKEN: &str = "https://as.example/token";
const REDIRECT: &str = "http://127.0.0.1:7777/callback";

/// The time at which flows start.
const NOW: u64 = 1_000_000;

/// A flow, what its servers answer, and what was asked.
struct World {
    flow: AuthFlow,
    now: u64,
    /// By address. Several answers of one address are given in turn, the last one for ever. Without one: 404.
    answers: BTreeMap<String, Vec<HttpResponse>>,
    asked: Vec<HttpRequest>,
    saved: Vec<String>,
    /// What stopped the last run.
    stop: Stop,
}

/// What a run of the world ends with.
#[derive(Clone, Debug)]
enum Stop {
    NotStarted,
    Browser(Box<BrowserLogin>),
    NeedClientId(String),
    Reload,
    Done(Box<Authorized>),
    Failed(Box<AuthError>),
}

fn config() -> FlowConfig {
    let identity = ClientIdentity::new("host", REDIRECT);
    FlowConfig::new(Url::parse(ENDPOINT).expect("an address"), identity)
}

fn ok(document: Value) -> HttpResponse {
    HttpResponse::new(200, document.to_string()).with_header("Content-Type", "application/json")
}

fn resource_document() -> Value {
    json!({ "resource": ENDPOINT, "authorization_servers": [ISSUER] })
}

fn server_document() -> Value {
    json!({
        "issuer": ISSUER,
        "authorization_endpoint": "https://as.example/authorize",
        "token_endpoint": TOKEN,
        "registration_endpoint": REGISTER,
        "code_challenge_methods_supported": ["S256"],
    })
}

/// Random bytes that differ from call to call.
fn counting() -> impl FnMut(&mut [u8]) + Send + 'static {
    let mut next = 0_u8;
    move |bytes: &mut [u8]| {
        next = next.wrapping_add(1);
        bytes.fill(next);
    }
}

impl World {
    /// A server and an authorization server where everything is right.
    fn new(config: FlowConfig) -> Self {
        let mut world = Self::empty(config);
        world.answer(PRM, ok(resource_document()));
        world.answer(AS, ok(server_document()));
        world.answer(REGISTER, ok(json!({ "client_id": "given" })));
        world.answer(
            TOKEN,
            ok(json!({ "access_token": "CANARY-access", "refresh_token": "CANARY-refresh", "expires_in": 3600 })),
        );
        world
    }

    fn empty(config: FlowConfig) -> Self {
        Self {
            flow: AuthFlow::new(config, counting()),
            now: NOW,
            answers: BTreeMap::new(),
            asked: Vec::new(),
            saved: Vec::new(),
            stop: Stop::NotStarted,
        }
    }

    /// Replaces what an address answers.
    fn answer(&mut self, address: &str, response: HttpResponse) {
        self.answers.insert(address.to_owned(), vec![response]);
    }

    fn answer_in_turn(&mut self, address: &str, responses: Vec<HttpResponse>) {
        self.answers.insert(address.to_owned(), responses);
    }

    fn start(&mut self, start: Start) -> &Stop {
        self.flow.start(start, self.now);
        self.run()
    }

    fn challenged(&mut self, field: &str) -> &Stop {
        let mut start = Start::new(Reason::Unauthorized);
        start.challenge = TokenChallenge::read([field]);
        self.start(start)
    }

    /// Answers fetches until something else is wanted.
    fn run(&mut self) -> &Stop {
        loop {
            match self.flow.poll_output() {
                Output::Fetch(request) => {
                    let response = self.next_answer(request.url.as_str());
                    self.asked.push(*request);
                    self.flow.handle_response(&response, self.now);
                }
                Output::SaveRegistration(registration) => self.saved.push(registration.client_id),
                Output::OpenBrowser(login) => self.stop = Stop::Browser(login),
                Output::NeedClientId { issuer, .. } => self.stop = Stop::NeedClientId(issuer),
                Output::ReloadTokens(_) => self.stop = Stop::Reload,
                Output::Done(authorized) => self.stop = Stop::Done(authorized),
                Output::Failed(error) => self.stop = Stop::Failed(error),
                _ => return &self.stop,
            }
        }
    }

    fn next_answer(&mut self, address: &str) -> HttpResponse {
        match self.answers.get_mut(address) {
            Some(answers) if answers.len() > 1 => answers.remove(0),
            Some(answers) => answers[0].clone(),
            None => HttpResponse::new(404, "not here"),
        }
    }

    /// The browser's answer, with a code, the right `state` and what is added.
    fn call_back(&mut self, more: &str) -> &Stop {
        let state = self.query("state");
        let callback = format!("{REDIRECT}?code=CANARY-code&state={state}{more}");
        let verdict = self.flow.handle_callback(&callback, self.now);
        assert_eq!(verdict, CallbackVerdict::Taken);
        self.run()
    }

    /// A parameter of the authorization request.
    fn query(&self, name: &str) -> String {
        let Stop::Browser(login) = &self.stop else {
            panic!("no browser: {:?}", self.stop);
        };
        let found = login.url.query_pairs().find(|(known, _)| known == name);
        found.map_or_else(|| "-".to_owned(), |(_, value)| value.into_owned())
    }

    fn tokens(&self) -> &TokenSet {
        match &self.stop {
            Stop::Done(authorized) => &authorized.tokens,
            other => panic!("no tokens: {other:?}"),
        }
    }

    fn error(&self) -> String {
        match &self.stop {
            Stop::Failed(error) => error.to_string(),
            other => panic!("no error: {other:?}"),
        }
    }

    /// The addresses that were asked, in order.
    fn asked(&self) -> Vec<&str> {
        self.asked
            .iter()
            .map(|request| request.url.as_str())
            .collect()
    }

    /// A parameter of the last token request.
    fn sent(&self, name: &str) -> String {
        let body = self.asked.last().and_then(|asked| asked.body.as_ref());
        let body = body.expect("a POST");
        let found =
            form_urlencoded::parse(body.reveal().as_bytes()).find(|(known, _)| known == name);
        found.map_or_else(|| "-".to_owned(), |(_, value)| value.into_owned())
    }
}
