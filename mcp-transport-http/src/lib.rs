//! MCP servers over HTTP.
//!
//! Moves messages between a [`ClientConnection`](mcp_proto::connection::ClientConnection) and a server: each message of ours
//! is a POST of its own, what comes back is JSON or a stream of events. What a message means is not known here, except
//! where HTTP itself depends on it: which request opens a session, and which answer ends a stream.
//!
//! 1. Describe the server: [`HttpServer`].
//! 2. Open a channel: [`HttpConnector::open`], or [`HttpConnector::open_old`] for the transport of 2024-11-05.
//! 3. Hand what the connection wants to send to the [`HttpSink`], and what the [`HttpSource`] yields to the connection.
//! 4. Say what was agreed on with [`HttpControl::agreed`]; end with [`HttpControl::close`].
//!
//! Rules: HTTP-01 to HTTP-17, HTTPM-01 to HTTPM-13, HTTPL-01 to HTTPL-35, SSE24-01 to SSE24-06.

#![forbid(unsafe_code)]

mod body;
mod channel;
mod connect;
mod endpoint;
mod events;
mod evidence;
mod exchange;
mod headers;
mod limits;
mod old;
mod request;
mod resume;
mod retry_after;
mod server;
mod server_stream;
mod session;

pub use channel::{HttpChannel, HttpConnector, HttpControl, HttpSink, HttpSource, SessionEnd};
pub use connect::{
    AsyncReadWrite, ClientIdentity, ConnectOptions, Dialer, HttpVersion, ProxyChoice, Roots,
    SendError, SetupError, TlsOptions,
};
pub use endpoint::{Endpoint, EndpointError};
pub use exchange::HttpEvent;
pub use headers::{HeaderError, HeaderProvider, HeaderRequest, ProvidedHeaders};
pub use limits::HttpLimits;
pub use old::OldTransportError;
pub use server::{HttpServer, HttpTransport};
