//! Spans of connections and calls, with the names that OpenTelemetry has for the Model Context Protocol.
//!
//! | span | level, target | members |
//! |---|---|---|
//! | `connection` | info, `mcp_client` | `server`, `mcp.protocol.version`, `network.transport` |
//! | `call`, by `otel.name`: `tools/call add` | info, `mcp_client` | `server`, `mcp.method.name`, `mcp.protocol.version`, `gen_ai.operation.name`, `gen_ai.tool.name`, `gen_ai.prompt.name`, `mcp.resource.uri`, `jsonrpc.request.id`, `rpc.response.status_code`, `error.type`, `otel.kind`, `otel.status_code` |
//!
//! One call is one span, whatever it takes. Arguments, results and session ids are not in it.

use std::fmt;
use std::sync::Arc;

use mcp_jsonrpc::RequestId;
use mcp_proto::meta::RequestMeta;
use tracing::field::Empty;
use tracing::{Span, field};

use crate::error::{Error, ErrorKind};
use crate::logical_call::About;

/// The trace that a request belongs to, in the W3C's formats.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct TraceContext {
    /// `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`.
    pub traceparent: String,
    /// What tracing systems add.
    pub tracestate: Option<String>,
    /// What the host adds: it reaches every server that is called.
    pub baggage: Option<String>,
}

impl TraceContext {
    /// A trace by its `traceparent`.
    pub fn new(traceparent: impl Into<String>) -> Self {
        Self {
            traceparent: traceparent.into(),
            ..Self::default()
        }
    }
}

/// Says which trace the current span belongs to: a host asks its tracing system here.
#[derive(Clone)]
pub(crate) struct TraceSource(Arc<dyn Fn() -> Option<TraceContext> + Send + Sync>);

impl TraceSource {
    pub(crate) fn new(source: impl Fn() -> Option<TraceContext> + Send + Sync + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// Adds the trace to the `_meta` of a request (JR-54).
    pub(crate) fn add_to(&self, meta: RequestMeta) -> RequestMeta {
        let Some(context) = (self.0)() else {
            return meta;
        };
        let meta = meta.with_trace_context(&context.traceparent, context.tracestate.as_deref());
        match &context.baggage {
            Some(baggage) => meta.with_baggage(baggage),
            None => meta,
        }
    }
}

impl fmt::Debug for TraceSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TraceSource")
    }
}

/// The span of a connection.
pub(crate) fn connection_span(server: &str) -> Span {
    tracing::info_span!(
        target: "mcp_client",
        "connection",
        server,
        "mcp.protocol.version" = Empty,
        "network.transport" = Empty,
    )
}

/// The span of a logical call.
pub(crate) fn call_span(server: &str, version: &str, about: About<'_>) -> Span {
    let About {
        method, subject, ..
    } = about;
    let name = match method {
        "tools/call" | "prompts/get" => format_args!("{method} {subject}"),
        _ => format_args!("{method}"),
    };
    let is = |wanted: &str| (method == wanted).then_some(subject);
    tracing::info_span!(
        target: "mcp_client",
        "call",
        server,
        "otel.name" = %name,
        "otel.kind" = "client",
        "mcp.method.name" = method,
        "mcp.protocol.version" = version,
        "gen_ai.operation.name" = is("tools/call").map(|_| "execute_tool"),
        "gen_ai.tool.name" = is("tools/call"),
        "gen_ai.prompt.name" = is("prompts/get"),
        "mcp.resource.uri" = is("resources/read"),
        "jsonrpc.request.id" = Empty,
        "rpc.response.status_code" = Empty,
        "error.type" = Empty,
        "otel.status_code" = Empty,
    )
}

/// Notes the newest request of a call.
pub(crate) fn record_request(span: &Span, id: &RequestId) {
    if !span.is_disabled() {
        span.record("jsonrpc.request.id", field::display(id));
    }
}

/// Notes that a call failed.
pub(crate) fn record_error(span: &Span, error: &Error) {
    if span.is_disabled() {
        return;
    }
    match error.as_rpc() {
        Some(rpc) => {
            span.record("rpc.response.status_code", field::display(rpc.code));
            span.record("error.type", field::display(rpc.code));
        }
        None => {
            span.record("error.type", error_type(error.kind()));
        }
    }
    span.record("otel.status_code", "ERROR");
}

/// Notes that the tool itself says that it failed.
pub(crate) fn record_tool_error(span: &Span) {
    span.record("error.type", "tool_error");
    span.record("otel.status_code", "ERROR");
}

/// A kind of error as one word.
fn error_type(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Closed => "closed",
        ErrorKind::ConnectionLost => "connection_lost",
        ErrorKind::Handshake => "handshake",
        ErrorKind::InvalidAnswer => "invalid_answer",
        ErrorKind::NotAnswered => "not_answered",
        ErrorKind::Refused => "refused",
        ErrorKind::Rpc => "rpc",
        ErrorKind::Start => "start",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Unauthorized => "unauthorized",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::UnknownTool => "unknown_tool",
        ErrorKind::Usage => "usage",
    }
}
