//! Settings of a client and of a call.

use std::time::Duration;

use mcp_jsonrpc::{Deadline, RawJson};
use mcp_proto::cache::CacheLimits;
use mcp_proto::connection::ClientConfig;
use mcp_proto::meta::RequestMeta;
use mcp_proto::model::implementation::Implementation;
use mcp_proto::model::page::PageLimits;
use mcp_proto::rounds::InputAnswers;
use serde_json::value::RawValue;

use crate::deprecated::Roots;
use crate::elicitation::ElicitationHandlers;
use crate::handlers::{Asked, HandlerError, Handlers};
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
    /// How many results are kept that a modern server allows to be used again: `max_entries: 0` switches that off.
    pub cache_limits: CacheLimits,
    /// How often a server may ask for input before one call goes on (MRTR-12). Default 32.
    pub max_rounds: usize,
    /// How long the host may take to answer one question; what is late counts as cancelled, or as failed. Default 10 min. The
    /// clocks of the call that waits for it stand still meanwhile.
    pub answer_timeout: Duration,
    pub(crate) handlers: Handlers,
    pub(crate) elicitation: ElicitationHandlers,
    pub(crate) roots: Option<Roots>,
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
            cache_limits: CacheLimits::default(),
            max_rounds: 32,
            answer_timeout: Duration::from_secs(600),
            handlers: Handlers::default(),
            elicitation: ElicitationHandlers::default(),
            roots: None,
        }
    }

    /// Answers requests of servers that an extension adds. The handler gets the parameters, if they are an object, and returns
    /// the bare result. Declare the extension in [`ClientConfig::capabilities`], or servers should not ask.
    #[must_use]
    pub fn with_extension_handler<F, A>(mut self, method: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Asked<Option<RawJson>>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Box<RawValue>, HandlerError>> + Send + 'static,
    {
        self.insert_handler(method.into(), None, handler);
        self
    }

    pub(crate) fn insert_handler<F, A>(
        &mut self,
        method: String,
        when_late: Option<&'static str>,
        handler: F,
    ) where
        F: Fn(Asked<Option<RawJson>>) -> A + Send + Sync + 'static,
        A: Future<Output = Result<Box<RawValue>, HandlerError>> + Send + 'static,
    {
        self.config.answers.insert(method.clone());
        self.handlers
            .insert(method, when_late, move |asked| Box::pin(handler(asked)));
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
    /// Whether the server is asked although a result is kept that it allows to be used again. Default: no.
    pub refresh: bool,
    /// Answers to what the server asked when this call was made before: see [`Client::request_round`](crate::Client). Default:
    /// none.
    pub input: InputAnswers,
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

    /// Asks the server, whatever is kept.
    #[must_use]
    pub fn refresh(mut self) -> Self {
        self.refresh = true;
        self
    }

    /// Answers what the server asked when this call was made before.
    #[must_use]
    pub fn with_input(mut self, input: InputAnswers) -> Self {
        self.input = input;
        self
    }

    /// Adds to the request's `_meta`.
    #[must_use]
    pub fn with_meta(mut self, meta: RequestMeta) -> Self {
        self.meta = meta;
        self
    }
}
