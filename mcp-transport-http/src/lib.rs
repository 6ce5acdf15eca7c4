//! MCP servers over HTTP.

mod connect;
mod endpoint;

pub use connect::{
    AsyncReadWrite, ClientIdentity, ConnectOptions, Dialer, HttpVersion, ProxyChoice, Roots,
    SendError, SetupError, TlsOptions,
};
pub use endpoint::{Endpoint, EndpointError};
