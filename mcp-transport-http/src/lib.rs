//! MCP servers over HTTP.

mod connect;
mod endpoint;

pub use connect::{ClientIdentity, ConnectOptions, HttpVersion, ProxyChoice, Roots, TlsOptions};
pub use endpoint::{Endpoint, EndpointError};
