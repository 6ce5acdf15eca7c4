//! What servers and proxies do to connections.
