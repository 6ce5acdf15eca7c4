//! OAuth for the Model Context Protocol's client side, without I/O.
//!
//! A protected server answers 401. This crate knows what follows: where the metadata is, which authorization server to
//! trust, how to get a client id, what to open in a browser, which answer is ours, how tokens are got, renewed and bound
//! to a key. Requests go out as values, responses come in as values, and so do time and random bytes. It has no socket, no
//! clock, no store and no browser.
//!
//! It is strict: what the specification forbids is refused. For servers that deviate there are overrides, each with a
//! name, in [`policy::AuthPolicy`]; the ones that mattered come back with the tokens.
//!
//! # Driving it
//!
//! 1. Read the challenge with [`www_authenticate::TokenChallenge::read`], and the stored tokens under the lock that guards
//!    their refresh. For a 403 with `insufficient_scope`, ask [`scope::StepUp`] which scopes to go for.
//! 2. Make an [`flow::AuthFlow`] and start it.
//! 3. Call [`poll_output`](flow::AuthFlow::poll_output), act on what it says, and hand back what came of it, until it is
//!    [`Done`](flow::Output::Done) or [`Failed`](flow::Output::Failed).
//! 4. Store what `Done` holds, in one step, then let the lock go.
//!
//! ```
//! use mcp_auth::flow::{AuthFlow, FlowConfig, Output, Reason, Start};
//! use mcp_auth::http::HttpResponse;
//! use mcp_auth::registration::ClientIdentity;
//! use mcp_auth::www_authenticate::TokenChallenge;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = ClientIdentity::new("harbor", "http://127.0.0.1:7777/callback");
//! let config = FlowConfig::new("https://notes.example/mcp".parse()?, identity);
//! // Here: from the operating system.
//! let mut flow = AuthFlow::new(config, |bytes: &mut [u8]| bytes.fill(7));
//!
//! let mut start = Start::new(Reason::Unauthorized);
//! start.challenge = TokenChallenge::read([r#"Bearer scope="notes:read""#]);
//! let now = 1_800_000_000;
//! flow.start(start, now);
//!
//! // Servers that know one answer for each address.
//! let answer = |path: &str| match path {
//!     "/.well-known/oauth-protected-resource/mcp" => {
//!         r#"{"resource":"https://notes.example/mcp","authorization_servers":["https://login.example"]}"#
//!     }
//!     "/.well-known/oauth-authorization-server" => {
//!         r#"{"issuer":"https://login.example","authorization_endpoint":"https://login.example/authorize",
//!             "token_endpoint":"https://login.example/token","registration_endpoint":"https://login.example/register",
//!             "code_challenge_methods_supported":["S256"]}"#
//!     }
//!     "/register" => r#"{"client_id":"c-1"}"#,
//!     _ => r#"{"access_token":"t-1","token_type":"Bearer","expires_in":3600}"#,
//! };
//!
//! let tokens = loop {
//!     match flow.poll_output() {
//!         Output::Fetch(request) => {
//!             let response = HttpResponse::new(200, answer(request.url.path()));
//!             flow.handle_response(&response, now);
//!         }
//!         // Here: a browser, and a listener at the redirect address.
//!         Output::OpenBrowser(login) => {
//!             let state = login.url.query_pairs().find(|(name, _)| name == "state").ok_or("no state")?.1;
//!             let callback = format!("{}?code=abc&state={state}", login.redirect_uri);
//!             flow.handle_callback(&callback, now);
//!         }
//!         Output::Done(authorized) => break authorized.tokens,
//!         Output::Failed(error) => return Err(error),
//!         _ => {}
//!     }
//! };
//! assert_eq!(tokens.authorization().reveal(), "Bearer t-1");
//! assert_eq!(tokens.expires_at, Some(now + 3600));
//! # Ok(())
//! # }
//! ```
//!
//! Times are seconds since 1970.

#![forbid(unsafe_code)]

pub mod authorization;
pub mod credentials;
mod document;
pub mod dpop;
pub mod error;
pub mod evidence;
pub mod fetch_policy;
pub mod flow;
pub mod http;
pub mod pkce;
pub mod policy;
pub mod random;
pub mod registration;
pub mod resource_metadata;
pub mod scope;
pub mod secret;
pub mod server_metadata;
pub mod signing;
pub mod token;
pub mod www_authenticate;
