//! What servers and proxies do to connections.

#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
mod authority;
mod dialling;
mod http2;
mod kit;
mod pooling;
mod proxies;
#[cfg(any(feature = "ring", feature = "aws-lc-rs"))]
mod trust;
