//! How much of everything the transport takes, and how long it waits.

use std::time::Duration;

/// Limits of the transport itself; those of the protocol are elsewhere.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Longest message in either form, JSON or event, in bytes. Default 16 MiB of payload and 64 KiB for what stands around
    /// it (C136).
    pub max_message_bytes: usize,
    /// Most requests under way at once, streams of subscriptions counted; more wait their turn. Default 256. Over HTTP/1.1 each
    /// needs a connection.
    pub max_requests: usize,
    /// Most bytes of an error's body that are read. Default 64 KiB.
    pub max_error_bytes: usize,
    /// How long an error's body is read. Default 5 s.
    pub error_timeout: Duration,
    /// How long a notification or an answer of ours may take to be accepted. Default 30 s.
    pub notification_timeout: Duration,
    /// How long a server of the old transport may take to accept a request: some do only when they are done with it. The
    /// call's own limits hold as well. Default 15 min.
    pub old_request_timeout: Duration,
    /// How long a stream may go on after it brought the answer (C135). Default 1 s.
    pub drain_timeout: Duration,
    /// How often a refused request is made again after a wait (429, 503). Default 3.
    pub max_waits: u32,
    /// Longest such wait; a server that asks for more is not waited for (C112). Default 60 s.
    pub longest_wait: Duration,
    /// How often in a row a broken stream is resumed without anything new on it (HTTPL-34). Default 5.
    pub max_resumptions: u32,
    /// Longest wait before a stream is resumed, whatever the server asks for. Default 5 min.
    pub longest_resume_wait: Duration,
    /// How long the session may take to be deleted at the end (C101). Default 2 s.
    pub delete_timeout: Duration,
    /// How long the old transport may take to name its endpoint (SSE24-03). Default 10 s.
    pub endpoint_timeout: Duration,
    /// How long a provider of headers may take. Default 30 s.
    pub header_timeout: Duration,
}

impl Default for HttpLimits {
    fn default() -> Self {
        Self {
            max_message_bytes: mcp_jsonrpc::frame::DEFAULT_MAX_FRAME_BYTES,
            max_requests: 256,
            max_error_bytes: 64 * 1024,
            error_timeout: Duration::from_secs(5),
            notification_timeout: Duration::from_secs(30),
            old_request_timeout: Duration::from_secs(900),
            drain_timeout: Duration::from_secs(1),
            max_waits: 3,
            longest_wait: Duration::from_secs(60),
            max_resumptions: 5,
            longest_resume_wait: Duration::from_secs(300),
            delete_timeout: Duration::from_secs(2),
            endpoint_timeout: Duration::from_secs(10),
            header_timeout: Duration::from_secs(30),
        }
    }
}
