//! Connections to one origin: dialling, proxies, TLS, the pool.
//!
//! From the outside in: [`client`] pools connections and repeats what a server certainly did not process, [`connector`]
//! makes one of them within its time, [`tls`] says whom to trust, [`dial`] brings the bytes there, through a proxy of
//! [`proxy`] and a [`tunnel`] if there is one.

mod client;
mod connector;
mod dial;
mod dialer;
mod error;
mod failure;
mod names;
mod options;
mod proxy;
mod resolve;
mod stream;
#[cfg(test)]
mod tests;
mod tls;
mod tunnel;
mod verify;

pub(crate) use client::HttpClient;
pub use dialer::{AsyncReadWrite, Dialer};
pub use error::{SendError, SetupError};
pub use options::{ClientIdentity, ConnectOptions, HttpVersion, ProxyChoice, Roots, TlsOptions};
