//! OAuth for the Model Context Protocol's client side, without I/O.

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
