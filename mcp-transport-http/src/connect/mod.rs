//! Connections to one origin: dialling, proxies, TLS, the pool.

mod options;

pub use options::{ClientIdentity, ConnectOptions, HttpVersion, ProxyChoice, Roots, TlsOptions};
