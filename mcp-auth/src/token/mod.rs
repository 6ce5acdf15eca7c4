//! Token requests and what comes back.

mod request;
mod response;

pub use request::{Client, ClientAuth, Grant, ID_JAG, ID_TOKEN, TokenRequest, choose_auth};
pub use response::TokenResponse;
pub(crate) use response::{oauth_error, status};
