//! OAuth for the Model Context Protocol's client side, without I/O.

#![forbid(unsafe_code)]

mod document;
pub mod error;
pub mod evidence;
pub mod fetch_policy;
pub mod http;
pub mod policy;
pub mod resource_metadata;
pub mod scope;
pub mod secret;
pub mod server_metadata;
pub mod www_authenticate;
