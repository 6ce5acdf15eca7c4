//! Conversations of a connection with scripted peers, on a virtual clock.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "a test needs some instant to start from"
)]

mod asked;
mod calls;
mod edges;
mod exchanges;
mod http_values;
mod inbound;
mod lifecycle;
mod random_exchanges;
mod random_scripts;
mod random_sessions;
mod subscriptions;
mod transcripts;

use mcp_proto::connection::ClientConfig;
use mcp_proto::lifecycle::EraPolicy;
use mcp_proto::model::implementation::Implementation;

fn config() -> ClientConfig {
    ClientConfig::new(Implementation::new("test", "1.0"))
}

fn with_policy(policy: EraPolicy) -> ClientConfig {
    let mut config = config();
    config.policy = policy;
    config
}
