//! What servers and proxies do to connections.

mod dialling;
mod http2;
mod kit;
mod pooling;
mod proxies;
#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
mod trust;
