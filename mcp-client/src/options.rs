//! Settings of a client and of a call.

use std::time::Duration;

use mcp_jsonrpc::Deadline;
use mcp_proto::connection::ClientConfig;
use mcp_proto::meta::RequestMeta;
use mcp_proto::model::implementation::Implementation;
use mcp_proto::model::page::PageLimits;

use crate::progress::ProgressSender;

/// Settings of a [`Client`](crate::Client).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The server's name in errors and logs. Default: what the transport connects to.
    pub name: Option<String>,
    /// The protocol's settings: era, timeouts of the start, sizes.
    pub config: ClientConfig,
    /// Limits of a call that sets none itself. Default: 60 s of silence, 10 min in all.
    pub call_deadline: Deadline,
    /// Limits of a walk through a paged list.
    pub page_limits: PageLimits,
    /// Whether a modern server that announces changes of its tools is asked to tell them, once the list was fetched (C180).
    /// Default: yes. It costs a stream that stays open; without it the list is as fresh as the host asks for it.
    pub watch_lists: bool,
    /// How much is kept for a slow reader of notifications.
    pub notification_limits: NotificationLimits,
}

impl ClientOptions {
    /// The defaults for a host of this name and version.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            name: None,
            config: ClientConfig::new(Implementation::new(name, version)),
            call_deadline: Deadline::new(
                Some(Duration::from_secs(60)),
                Some(Duration::from_secs(600)),
            ),
            page_limits: PageLimits::default(),
            watch_lists: true,
            notification_limits: NotificationLimits::default(),
        }
    }

    /// Names the server in errors and logs.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// How much is kept for one [`Notifications`](crate::Notifications) stream. What is more pushes out the oldest, visibly.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct NotificationLimits {
    /// Most notifications. Default 256.
    pub max_notifications: usize,
    /// Most bytes of their contents. Default 1 MiB.
    pub max_bytes: usize,
}

impl Default for NotificationLimits {
    fn default() -> Self {
        Self {
            max_notifications: 256,
            max_bytes: 1024 * 1024,
        }
    }
}

/// Settings of one call.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CallOptions {
    /// How long it may take. Default: [`ClientOptions::call_deadline`].
    pub deadline: Option<Deadline>,
    /// Where progress goes. Default: none is asked for.
    pub progress: Option<ProgressSender>,
    /// What is added to the request's `_meta`: trace context and the like.
    pub meta: RequestMeta,
    /// Whether doing it twice is doing it once: then a call whose answer was lost on the way is repeated once by itself (D2).
    /// Default: no, whatever hints a tool carries. Methods that only read are repeated anyway.
    pub repeatable: bool,
}

impl CallOptions {
    /// Sets the limits.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Deadline) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Asks for progress.
    #[must_use]
    pub fn with_progress(mut self, progress: ProgressSender) -> Self {
        self.progress = Some(progress);
        self
    }

    /// Says that doing it twice is doing it once.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Adds to the request's `_meta`.
    #[must_use]
    pub fn with_meta(mut self, meta: RequestMeta) -> Self {
        self.meta = meta;
        self
    }
}
