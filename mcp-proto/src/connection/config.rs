//! What a connection is told before it starts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::lifecycle::EraPolicy;
use crate::model::capability::ClientCapabilities;
use crate::model::implementation::Implementation;
use crate::version::Era;

/// Settings of a [`ClientConnection`](super::ClientConnection). Plain data: change what differs from the defaults.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientConfig {
    /// Who this client is.
    pub client_info: Implementation,
    /// Whether modern requests carry `client_info` (VER-31). Default: yes.
    pub send_client_info: bool,
    /// What this client can do. Default: nothing.
    pub capabilities: ClientCapabilities,
    /// Which eras may be spoken. Default: find out.
    pub policy: EraPolicy,
    /// The era that this server spoke last time: [`Era::Legacy`] saves the probe. A wrong hint costs one more round.
    pub hint: Option<Era>,
    /// How long a probe for the modern era may stay unanswered before the handshake begins, at most half of what is left
    /// of `start_timeout`. Default 3 s: old servers
    /// that say nothing to unknown methods cost this once (C047), while a late answer is still used.
    pub probe_timeout: Duration,
    /// How long all of it may take, probe included, until the connection is ready. Default 30 s: the first run of a
    /// package runner downloads the server (C042).
    pub start_timeout: Duration,
    /// Whether HTTP+SSE, the transport of 2024-11-05, is tried where Streamable HTTP is refused as the rules say
    /// (SSE24-02). Default: yes. Means nothing on other channels.
    pub old_http_transport: bool,
    /// How long a subscription may wait for its acknowledgement (SUB-18). Default 30 s.
    pub listen_timeout: Duration,
    /// Chooses the jitter of waits, so that many clients do not come back together. Default 0.
    pub jitter_seed: u64,
    /// Whether a handshake may end on a version older than the newest legacy one that this crate does not know (C052).
    /// Default: no.
    pub tolerate_older_version: bool,
    /// The id of the first request. Default 1. A connection that goes on where another ended starts higher, so that no
    /// id is ever used twice (C070).
    pub first_request_id: i64,
    /// Methods of the server that the host answers, in the legacy era: see [`Event::ServerRequest`](super::Event). The
    /// capability that allows each must stand in `capabilities`. Default: none.
    pub answers: BTreeSet<String>,
    /// Values of `resultType` that extensions add, and that `capabilities` declares (JR-42). Default: none.
    pub result_types: BTreeSet<String>,
    /// Methods of extensions, each with the parameter that `Mcp-Name` repeats (HTTPM-04). Default: none.
    pub named_by: BTreeMap<String, String>,
    /// Sizes and counts.
    pub limits: ConnectionLimits,
}

impl ClientConfig {
    /// The defaults for a client of this name.
    pub fn new(client_info: Implementation) -> Self {
        Self {
            client_info,
            send_client_info: true,
            capabilities: ClientCapabilities::new(),
            policy: EraPolicy::Auto,
            hint: None,
            probe_timeout: Duration::from_secs(3),
            start_timeout: Duration::from_secs(30),
            old_http_transport: true,
            listen_timeout: Duration::from_secs(30),
            jitter_seed: 0,
            tolerate_older_version: false,
            first_request_id: 1,
            answers: BTreeSet::new(),
            result_types: BTreeSet::new(),
            named_by: BTreeMap::new(),
            limits: ConnectionLimits::default(),
        }
    }
}

/// How much of everything a connection takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ConnectionLimits {
    /// Longest message in either direction, in bytes. Default 16 MiB of payload and 64 KiB for what stands around it.
    pub max_message_bytes: usize,
    /// Most requests in flight. Default 4,096.
    pub max_in_flight: usize,
    /// Most bytes that wait to be sent before new requests are refused. Default 64 MiB.
    pub max_queued_bytes: usize,
    /// Most answers to the server's own requests that wait to be sent; a server that asks on without reading gets no
    /// more of them. Default 256.
    pub max_queued_answers: usize,
    /// Most bytes of such answers: a server chooses the ids that they repeat. Default 1 MiB.
    pub max_queued_answer_bytes: usize,
    /// Most requests of the server that wait for the host's answer. Default 64.
    pub max_server_requests: usize,
    /// Most subscriptions. Default 64.
    pub max_subscriptions: usize,
    /// Most legacy resource subscriptions that are restored in a new session. Default 1,024.
    pub max_restored_subscriptions: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            max_message_bytes: mcp_jsonrpc::frame::DEFAULT_MAX_FRAME_BYTES,
            max_in_flight: 4096,
            max_queued_bytes: 64 * 1024 * 1024,
            max_queued_answers: 256,
            max_queued_answer_bytes: 1024 * 1024,
            max_server_requests: 64,
            max_subscriptions: 64,
            max_restored_subscriptions: 1024,
        }
    }
}
