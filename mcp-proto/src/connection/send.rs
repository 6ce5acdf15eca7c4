//! Messages on their way: encoding requests, notifications and answers, and what goes with them.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use mcp_jsonrpc::{Deadline, RequestId, encode};
use serde::Serialize;

use super::client::{Call, ClientConnection, Pending, RequestOptions};
use super::exchange::ChannelKind;
use super::outbound::{ExchangeHead, Outbound, OutboundKind};
use super::session::SessionChange;
use crate::error::UsageError;
use crate::http;
use crate::lifecycle::EraPolicy;
use crate::members::Members;
use crate::meta::{self, MetaParts};
use crate::method::{self, RawParams};
use crate::model::lifecycle::InitializeParams;
use crate::version::{Era, ProtocolVersion};

impl<T: Clone> ClientConnection<T> {
    pub(super) fn send_request(
        &mut self,
        method: &str,
        write: impl FnOnce(&mut BytesMut) -> Result<String, UsageError>,
        options: &RequestOptions,
        token: T,
        now: Instant,
    ) -> Result<RequestId, UsageError> {
        let limits = self.config.limits;
        if self.in_flight.len() >= limits.max_in_flight {
            return Err(UsageError::TooManyInFlight {
                limit: limits.max_in_flight,
            });
        }
        if self.queue.bytes() >= limits.max_queued_bytes {
            let queued_bytes = self.queue.bytes();
            return Err(UsageError::OutgoingFull {
                queued_bytes,
                limit_bytes: limits.max_queued_bytes,
            });
        }
        let id = self.in_flight.next_id();
        let parts = MetaParts {
            era_members: &self.era_members,
            progress_token: match &id {
                RequestId::Number(number) if options.progress => Some(*number),
                _ => None,
            },
            log_level: self.log_level.filter(|_| self.spoken().0 == Era::Modern),
            host: Some(&options.meta),
        };
        self.scratch.clear();
        let mut params = 0..0;
        encode::request(&mut self.scratch, &id, method, |out| {
            params.start = out.len();
            let own = write(out)?;
            options.input.splice(out, params.start);
            parts.splice(out, params.start, &own);
            params.end = out.len();
            Ok(())
        })?;
        if self.scratch.len() > limits.max_message_bytes {
            let bytes = self.scratch.len();
            // Don't hold on to a buffer of that size.
            self.scratch = BytesMut::new();
            return Err(UsageError::RequestTooLarge {
                bytes,
                limit_bytes: limits.max_message_bytes,
            });
        }
        let params = self.scratch.get(params).unwrap_or_default();
        let params = std::str::from_utf8(params).unwrap_or_default();
        let head = self.head(self.spoken(), method, params)?;
        let legacy = head.as_ref().is_some_and(|head| head.era == Era::Legacy);
        let changes = legacy.then(|| SessionChange::of(method, params)).flatten();
        let call = Call {
            token,
            sent: false,
            reports: options.progress,
            progress: None,
            may_be_asked: method::may_be_asked(method),
            changes: changes.map(Box::new),
        };
        let id = self
            .in_flight
            .insert(Pending::Call(call), options.deadline, now);
        let line = self.scratch.split().freeze();
        self.queue
            .push(Outbound::new(line, OutboundKind::Request(id.clone())).with_head(head));
        Ok(id)
    }

    /// What is spoken now: the era, and the version once it is agreed on.
    fn spoken(&self) -> (Era, Option<&ProtocolVersion>) {
        self.agreement
            .as_ref()
            .map_or((Era::Legacy, None), |agreement| {
                (agreement.era, Some(&agreement.version))
            })
    }

    /// What the exchange of a message needs; `None` where messages share a channel.
    fn head(
        &self,
        (era, version): (Era, Option<&ProtocolVersion>),
        method: &str,
        params: &str,
    ) -> Result<Option<ExchangeHead>, UsageError> {
        if self.channel == ChannelKind::Shared {
            return Ok(None);
        }
        let fields = match (era, version) {
            (Era::Modern, Some(version)) => http::modern_fields(
                version,
                method,
                params,
                &self.tool_headers,
                &self.config.named_by,
            )?,
            (Era::Legacy, Some(version)) => http::legacy_fields(version),
            (_, None) => Vec::new(),
        };
        Ok(Some(ExchangeHead {
            era,
            method: method.to_owned(),
            fields,
        }))
    }

    pub(super) fn send_probe(&mut self, version: &ProtocolVersion, now: Instant) {
        // Where nothing can follow the probe, it may take all the time there is.
        let limit = match self.config.policy {
            EraPolicy::Auto => self.config.probe_timeout,
            EraPolicy::Legacy | EraPolicy::Modern => Duration::MAX,
        };
        // Where a handshake may follow, it gets at least half of what is left.
        let left = self.time_to_start(now);
        let limit = limit.min(if self.config.policy == EraPolicy::Auto {
            left / 2
        } else {
            left
        });
        let members = self.modern_members(version);
        let parts = MetaParts {
            era_members: &members,
            ..MetaParts::default()
        };
        let spoken = (Era::Modern, Some(version));
        let id = self.send_as(
            spoken,
            Pending::Probe,
            "server/discover",
            limit,
            now,
            |out| {
                out.put_slice(b"{}");
                parts.splice(out, out.len() - 2, "");
            },
        );
        // Of an earlier probe, met with silence, the exchange may be open still.
        if let Some(earlier) = self.probe_id.replace(id) {
            self.abort(&earlier);
        }
    }

    pub(super) fn send_initialize(&mut self, version: &ProtocolVersion, now: Instant) {
        let limit = self.time_to_start(now);
        let params = serde_json::json!(InitializeParams {
            protocol_version: version,
            capabilities: &self.config.capabilities.of_era(Era::Legacy),
            client_info: &self.config.client_info,
        });
        // Its version is an offer, not yet agreed on (HTTPL-02).
        let spoken = (Era::Legacy, None);
        self.send_as(
            spoken,
            Pending::Initialize,
            "initialize",
            limit,
            now,
            |out| {
                out.put_slice(params.to_string().as_bytes());
            },
        );
    }

    /// Sends a request of the connection's own, in what was agreed on.
    pub(super) fn send_own_request(
        &mut self,
        pending: Pending<T>,
        method: &str,
        limit: Duration,
        now: Instant,
        write: impl FnOnce(&mut BytesMut),
    ) -> RequestId {
        let agreement = self.agreement.clone();
        let spoken = agreement.as_ref().map_or((Era::Legacy, None), |agreement| {
            (agreement.era, Some(&agreement.version))
        });
        self.send_as(spoken, pending, method, limit, now, write)
    }

    fn send_as(
        &mut self,
        spoken: (Era, Option<&ProtocolVersion>),
        pending: Pending<T>,
        method: &str,
        limit: Duration,
        now: Instant,
        write: impl FnOnce(&mut BytesMut),
    ) -> RequestId {
        let id = self.in_flight.insert(pending, Deadline::total(limit), now);
        self.scratch.clear();
        let Ok(()) = encode::request(&mut self.scratch, &id, method, |out| {
            write(out);
            Ok::<_, std::convert::Infallible>(())
        });
        let line = self.scratch.split().freeze();
        // None of these methods has a parameter that goes into a header.
        let head = self.head(spoken, method, "{}").unwrap_or_default();
        self.queue
            .push(Outbound::new(line, OutboundKind::Request(id.clone())).with_head(head));
        id
    }

    pub(super) fn send_notification(&mut self, method: &str, params: Option<&serde_json::Value>) {
        self.scratch.clear();
        let Ok(()) = encode::notification(&mut self.scratch, method, |out| {
            if let Some(params) = params {
                out.put_slice(params.to_string().as_bytes());
            }
            Ok::<_, std::convert::Infallible>(())
        });
        let line = self.scratch.split().freeze();
        let head = self.head(self.spoken(), method, "{}").unwrap_or_default();
        self.queue
            .push(Outbound::new(line, OutboundKind::Notification).with_head(head));
    }

    /// Sends an answer, or several in an array, to the server's own requests.
    pub(super) fn send_response(&mut self, line: Bytes) {
        let head = self.head(self.spoken(), "", "{}").unwrap_or_default();
        self.queue
            .push(Outbound::new(line, OutboundKind::Response).with_head(head));
    }

    pub(super) fn modern_members(&self, version: &ProtocolVersion) -> String {
        let info = self
            .config
            .send_client_info
            .then_some(&self.config.client_info);
        let capabilities = self.config.capabilities.of_era(Era::Modern);
        meta::modern_members(version, info, &capabilities)
    }

    /// A request is not wanted any more: takes it back, or tells the server.
    pub(super) fn withdraw(&mut self, id: &RequestId, sent: bool, reason: &str) {
        if sent {
            // In the modern era closing the stream says it all, and nothing else is allowed (HTTPM-10, CAN-08).
            let per_exchange = self.channel == ChannelKind::PerExchange;
            if !(per_exchange && self.spoken().0 == Era::Modern) {
                let params = serde_json::json!({ "requestId": id, "reason": reason });
                self.send_notification("notifications/cancelled", Some(&params));
            }
            self.abort(id);
        } else {
            self.queue.take_back(id);
        }
    }
}

/// Writes typed parameters, which have no `_meta` of their own.
pub(super) fn write_params<P: Serialize>(
    out: &mut BytesMut,
    method: &str,
    params: &P,
) -> Result<String, UsageError> {
    let start = out.len();
    serde_json::to_writer(out.writer(), params).map_err(|error| UsageError::Encode {
        method: method.to_owned(),
        reason: error.to_string(),
    })?;
    if out.get(start) == Some(&b'{') {
        Ok(String::new())
    } else {
        Err(UsageError::ParamsNotAnObject {
            method: method.to_owned(),
        })
    }
}

/// Writes raw parameters without their `_meta`, and returns its entries as text without braces.
pub(super) fn write_raw_params(
    out: &mut BytesMut,
    method: &str,
    params: RawParams<'_>,
) -> Result<String, UsageError> {
    let Some(params) = params.filter(|params| params.get() != "null") else {
        // Also where a method takes none: a modern request always has parameters (VER-33), and some servers stumble
        // over their absence (C085).
        out.put_slice(b"{}");
        return Ok(String::new());
    };
    let not_an_object = || UsageError::ParamsNotAnObject {
        method: method.to_owned(),
    };
    let members = Members::read(params.get()).ok_or_else(not_an_object)?;
    let mut own = String::new();
    if let Some(raw) = members.get("_meta") {
        let entries = Members::read(raw.get()).ok_or_else(not_an_object)?;
        for (key, _) in &entries.0 {
            meta::check_key(key)?;
        }
        own = join(&entries, None);
    }
    out.put_u8(b'{');
    out.put_slice(join(&members, Some("_meta")).as_bytes());
    out.put_u8(b'}');
    Ok(own)
}

/// The members as text without braces.
fn join(members: &Members<'_>, except: Option<&str>) -> String {
    let kept = members
        .0
        .iter()
        .filter(|(key, _)| Some(Cow::as_ref(key)) != except);
    let texts: Vec<_> = kept
        .map(|(key, raw)| format!("{}:{}", serde_json::Value::from(key.as_ref()), raw.get()))
        .collect();
    texts.join(",")
}
