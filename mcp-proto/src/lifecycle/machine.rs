//! The machine of the table in the module above.

use mcp_jsonrpc::{ErrorObject, MessageFault, RawJson, TimedOut};

use super::agreement::{Agreement, EraPolicy, ProbeOutcome};
use super::handshake_error::{HandshakeError, HandshakeFailure};
use crate::code;
use crate::error::ChannelEnd;
use crate::http::{HttpFailure, suggests_old_transport, tells_era};
use crate::model::lifecycle::{DiscoverResult, InitializeResult, versions_in_error};
use crate::version::{Era, ProtocolVersion};

/// What the machine needs to know about the client.
#[derive(Clone, Debug)]
pub(crate) struct LifecycleOptions {
    pub(crate) policy: EraPolicy,
    pub(crate) hint: Option<Era>,
    pub(crate) tolerate_older_version: bool,
    /// Whether the transport of 2024-11-05 may be tried.
    pub(crate) old_transport: bool,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Input {
    Start,
    /// The probe was answered, in time or late.
    Probe(Answer),
    ProbeSilent(TimedOut),
    Initialize(Answer),
    InitializeSilent(TimedOut),
    ChannelEnded(ChannelEnd),
    ChannelOpened,
    ReopenFailed(String),
    /// The server has forgotten the session (HTTPL-12).
    SessionLost,
    Close,
}

/// How a lifecycle request was answered.
pub(crate) type Answer = Result<RawJson, Unanswered>;

/// An answer that is no result.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// An error, and the HTTP status that it came with if that was one of failure.
    Error(ErrorObject, Option<u16>),
    Fault(MessageFault),
    Http(HttpFailure),
}

/// What to do about it.
#[derive(Debug)]
pub(crate) enum Action {
    /// Nothing.
    None,
    /// Send `server/discover` at this version.
    Probe(ProtocolVersion),
    /// Send `initialize` with this version.
    Initialize(ProtocolVersion),
    /// Open the channel again.
    Reopen(ReopenAs),
    /// Ready; in the legacy era send `notifications/initialized` first.
    Ready,
    /// It failed; [`Lifecycle::failure`] says why.
    Failed,
    /// It is over.
    Closed,
}

/// The state of a connection's life.
#[derive(Debug)]
pub(crate) enum Lifecycle {
    Idle,
    /// `refusal`: how `initialize` failed, when the probe follows one; then there is nothing left to fall back to.
    Probing {
        tried: Vec<ProtocolVersion>,
        refusal: Option<HandshakeFailure>,
    },
    /// `refusal`: how `initialize` failed, when the old transport is tried after it.
    Reopening {
        probe: Option<ProbeOutcome>,
        refusal: Option<HandshakeFailure>,
    },
    Initializing(Initializing),
    Ready(Box<Agreement>),
    Failed(Box<HandshakeError>),
    Closed,
}

/// A handshake under way.
#[derive(Debug, Default)]
pub(crate) struct Initializing {
    tried: Vec<ProtocolVersion>,
    /// What came of the probe before it.
    probe: Option<ProbeOutcome>,
    /// A discovery that came too late for the probe.
    held: Option<DiscoverResult>,
    /// Whether the probe went over this very channel: a server may answer it and then exit (C048).
    probed_here: bool,
    /// Whether this goes over the transport of 2024-11-05.
    old_transport: bool,
    /// Whether this opens a new session in place of one that was lost: then the era is known.
    restoring: bool,
}

/// What channel is wanted in place of the last one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a connector must know each kind of channel"
)]
pub enum ReopenAs {
    /// The same again: the server ended it over the probe (C048).
    Same,
    /// HTTP+SSE, the transport of 2024-11-05 (SSE24-02).
    OldHttp,
}

impl Lifecycle {
    pub(crate) fn agreement(&self) -> Option<&Agreement> {
        match self {
            Self::Ready(agreement) => Some(agreement),
            _ => None,
        }
    }

    pub(crate) fn failure(&self) -> Option<&HandshakeError> {
        match self {
            Self::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// Takes one input. The caller carries out the action.
    pub(crate) fn step(self, input: Input, options: &LifecycleOptions) -> (Self, Action) {
        match (self, input) {
            (state @ (Self::Failed(_) | Self::Closed), _) => (state, Action::None),
            (_, Input::Close) => (Self::Closed, Action::Closed),
            (Self::Idle, Input::Start) => start(options),
            (Self::Probing { tried, refusal }, input) => probing(tried, refusal, input, options),
            (Self::Reopening { probe, refusal }, Input::ChannelOpened) => initialize(
                ProtocolVersion::NEWEST_LEGACY,
                Initializing {
                    probe,
                    old_transport: refusal.is_some(),
                    ..Initializing::default()
                },
            ),
            (
                Self::Reopening {
                    probe,
                    refusal: Some(refusal),
                },
                Input::ReopenFailed(reason),
            ) => fail(
                HandshakeFailure::OldTransport {
                    refusal: Box::new(refusal),
                    reason,
                },
                probe,
            ),
            (Self::Reopening { probe, .. }, Input::ReopenFailed(reason)) => {
                fail(HandshakeFailure::ReopenFailed { reason }, probe)
            }
            (Self::Ready(agreement), Input::SessionLost) => initialize(
                agreement.version,
                Initializing {
                    restoring: true,
                    ..Initializing::default()
                },
            ),
            (Self::Initializing(state), input) => initializing(state, input, options),
            (Self::Ready(_) | Self::Idle, Input::ChannelEnded(_)) => (Self::Closed, Action::Closed),
            (state, _) => (state, Action::None),
        }
    }
}

fn start(options: &LifecycleOptions) -> (Lifecycle, Action) {
    match (options.policy, options.hint) {
        (EraPolicy::Legacy, _) | (EraPolicy::Auto, Some(Era::Legacy)) => {
            initialize(ProtocolVersion::NEWEST_LEGACY, Initializing::default())
        }
        (EraPolicy::Auto | EraPolicy::Modern, _) => {
            probe(ProtocolVersion::NEWEST_MODERN, Vec::new(), None)
        }
    }
}

fn probe(
    version: ProtocolVersion,
    mut tried: Vec<ProtocolVersion>,
    refusal: Option<HandshakeFailure>,
) -> (Lifecycle, Action) {
    tried.push(version.clone());
    (
        Lifecycle::Probing { tried, refusal },
        Action::Probe(version),
    )
}

/// Begins a handshake at this version; `state` is what led to it.
fn initialize(version: ProtocolVersion, mut state: Initializing) -> (Lifecycle, Action) {
    state.tried.push(version.clone());
    (Lifecycle::Initializing(state), Action::Initialize(version))
}

fn fail(failure: HandshakeFailure, probe: Option<ProbeOutcome>) -> (Lifecycle, Action) {
    (
        Lifecycle::Failed(Box::new(HandshakeError { failure, probe })),
        Action::Failed,
    )
}

/// The newest version of an era that both sides speak and that was not tried yet.
fn common(
    era: Era,
    theirs: &[ProtocolVersion],
    tried: &[ProtocolVersion],
) -> Option<ProtocolVersion> {
    ProtocolVersion::known_of(era)
        .find(|version| theirs.contains(version) && !tried.contains(version))
}

/// The versions that a policy lets this client speak, newest first.
fn ours(policy: EraPolicy) -> Vec<ProtocolVersion> {
    let allowed = |version: &ProtocolVersion| match policy {
        EraPolicy::Auto => true,
        EraPolicy::Legacy => version.era() == Era::Legacy,
        EraPolicy::Modern => version.era() == Era::Modern,
    };
    ProtocolVersion::KNOWN
        .into_iter()
        .rev()
        .filter(allowed)
        .collect()
}

fn probing(
    tried: Vec<ProtocolVersion>,
    refusal: Option<HandshakeFailure>,
    input: Input,
    options: &LifecycleOptions,
) -> (Lifecycle, Action) {
    let outcome = match input {
        Input::Probe(Ok(result)) => match DiscoverResult::read(result.as_str()) {
            Ok(discovery) => return discovered(discovery, options),
            Err(reason) => ProbeOutcome::NoDiscovery { reason },
        },
        Input::Probe(Err(Unanswered::Error(error, _)))
            if error.code == code::UNSUPPORTED_PROTOCOL_VERSION =>
        {
            let theirs = versions_in_error(&error).unwrap_or_default();
            if let Some(version) = common(Era::Modern, &theirs, &tried) {
                return probe(version, tried, refusal);
            }
            let named = common(Era::Modern, &theirs, &[]);
            match (named, tried.as_slice()) {
                // It names the very version that was asked for: whatever was in the way may be gone. Once, it never loops.
                (Some(version), [_]) => return probe(version, tried, refusal),
                // The lists have a version in common, so they would explain nothing.
                (Some(_), _) if common(Era::Legacy, &theirs, &[]).is_none() => {
                    return fail(
                        HandshakeFailure::Refused {
                            method: "server/discover",
                            error,
                        },
                        None,
                    );
                }
                _ => {}
            }
            return only_legacy_in_common(theirs, ProbeOutcome::Error(error), options);
        }
        Input::Probe(Err(Unanswered::Error(error, _))) if code::is_modern_evidence(error.code) => {
            return fail(
                HandshakeFailure::Refused {
                    method: "server/discover",
                    error,
                },
                None,
            );
        }
        // Not the server's word on its era, though it may be in its form: too many requests, or no entry (section 2.4).
        Input::Probe(Err(Unanswered::Error(error, Some(status)))) if !tells_era(status) => {
            let refused = HandshakeFailure::Refused {
                method: "server/discover",
                error,
            };
            return fail(refusal.unwrap_or(refused), None);
        }
        Input::Probe(Err(Unanswered::Error(error, _))) => ProbeOutcome::Error(error),
        Input::Probe(Err(Unanswered::Fault(fault))) => ProbeOutcome::Fault(fault),
        Input::Probe(Err(Unanswered::Http(failure))) if failure.is_legacy_evidence() => {
            ProbeOutcome::Http(failure)
        }
        Input::Probe(Err(Unanswered::Http(failure))) => {
            return fail(
                refusal.unwrap_or(HandshakeFailure::Http {
                    method: "server/discover",
                    failure,
                }),
                None,
            );
        }
        Input::ProbeSilent(timed_out) => ProbeOutcome::Silence {
            waited: timed_out.limit,
        },
        Input::ChannelEnded(end) if options.policy == EraPolicy::Auto && refusal.is_none() => {
            return (
                Lifecycle::Reopening {
                    probe: Some(ProbeOutcome::Ended(end)),
                    refusal: None,
                },
                Action::Reopen(ReopenAs::Same),
            );
        }
        Input::ChannelEnded(end) => {
            return fail(
                HandshakeFailure::ChannelEnded {
                    awaited: "server/discover",
                    end,
                },
                None,
            );
        }
        _ => return (Lifecycle::Probing { tried, refusal }, Action::None),
    };
    match (refusal, options.policy) {
        (Some(refusal), _) => fail(refusal, Some(outcome)),
        (None, EraPolicy::Modern) => fail(HandshakeFailure::NotModern, Some(outcome)),
        (None, _) => initialize(
            ProtocolVersion::NEWEST_LEGACY,
            Initializing {
                probe: Some(outcome),
                probed_here: true,
                ..Initializing::default()
            },
        ),
    }
}

fn discovered(discovery: DiscoverResult, options: &LifecycleOptions) -> (Lifecycle, Action) {
    let Some(version) = common(Era::Modern, &discovery.supported_versions, &[]) else {
        let theirs = discovery.supported_versions;
        return only_legacy_in_common(theirs.clone(), ProbeOutcome::OtherVersions(theirs), options);
    };
    ready(Agreement {
        era: Era::Modern,
        version,
        capabilities: discovery.capabilities,
        server_info: discovery.server_info,
        instructions: discovery.instructions,
        probe: None,
    })
}

fn ready(agreement: Agreement) -> (Lifecycle, Action) {
    (Lifecycle::Ready(Box::new(agreement)), Action::Ready)
}

/// VER-57: the server named its versions and no modern one is ours.
fn only_legacy_in_common(
    theirs: Vec<ProtocolVersion>,
    outcome: ProbeOutcome,
    options: &LifecycleOptions,
) -> (Lifecycle, Action) {
    match common(Era::Legacy, &theirs, &[]) {
        Some(version) if options.policy == EraPolicy::Auto => initialize(
            version,
            Initializing {
                probe: Some(outcome),
                ..Initializing::default()
            },
        ),
        _ => fail(
            HandshakeFailure::NoCommonVersion {
                ours: ours(options.policy),
                theirs,
            },
            Some(outcome),
        ),
    }
}

impl Initializing {
    /// A discovery that came too late for the probe and that can be used: it counts once the handshake fails, in whatever way.
    fn take_held(&mut self, options: &LifecycleOptions) -> Option<DiscoverResult> {
        // HTTP+SSE carries the legacy era only (SSE24-06).
        let auto = options.policy == EraPolicy::Auto && !self.old_transport;
        self.held
            .take_if(|held| auto && common(Era::Modern, &held.supported_versions, &[]).is_some())
    }
}

fn initializing(
    mut state: Initializing,
    input: Input,
    options: &LifecycleOptions,
) -> (Lifecycle, Action) {
    if matches!(
        input,
        Input::Initialize(Err(_)) | Input::InitializeSilent(_)
    ) && let Some(held) = state.take_held(options)
    {
        return discovered(held, options);
    }
    let failure = match input {
        Input::Initialize(Ok(result)) => match InitializeResult::read(result.as_str()) {
            Ok(result) => return initialized(result, state.probe, options),
            Err(reason) => HandshakeFailure::InvalidResult { reason },
        },
        Input::Initialize(Err(Unanswered::Error(error, status))) => {
            return refused(state, error, status, options);
        }
        Input::Initialize(Err(Unanswered::Http(failure))) => {
            let (evidence, old) = (
                failure.is_legacy_evidence(),
                failure.suggests_old_transport(),
            );
            let failure = HandshakeFailure::Http {
                method: "initialize",
                failure,
            };
            return go_on_after(state, failure, evidence, old, options);
        }
        Input::Initialize(Err(Unanswered::Fault(fault))) => HandshakeFailure::Fault(fault),
        Input::InitializeSilent(timed_out) => HandshakeFailure::TimedOut {
            method: "initialize",
            timed_out,
        },
        Input::ChannelEnded(end) => match state {
            // The probe's own outcome says more than this end does.
            Initializing {
                probed_here: true,
                probe: Some(probe),
                ..
            } => {
                return (
                    Lifecycle::Reopening {
                        probe: Some(probe),
                        refusal: None,
                    },
                    Action::Reopen(ReopenAs::Same),
                );
            }
            state => {
                return fail(
                    HandshakeFailure::ChannelEnded {
                        awaited: "initialize",
                        end,
                    },
                    state.probe,
                );
            }
        },
        Input::Probe(answer) => {
            let late = answer
                .ok()
                .and_then(|result| DiscoverResult::read(result.as_str()).ok());
            let held = late.or(state.held);
            return (
                Lifecycle::Initializing(Initializing { held, ..state }),
                Action::None,
            );
        }
        _ => return (Lifecycle::Initializing(state), Action::None),
    };
    fail(failure, state.probe)
}

/// The server answered `initialize` with an error.
fn refused(
    state: Initializing,
    error: ErrorObject,
    status: Option<u16>,
    options: &LifecycleOptions,
) -> (Lifecycle, Action) {
    // HTTP+SSE carries the legacy era only (SSE24-06).
    let auto = options.policy == EraPolicy::Auto && !state.old_transport;
    let theirs = versions_in_error(&error).unwrap_or_default();
    // VER-18: once; a second refusal ends it.
    if let (1, Some(version)) = (
        state.tried.len(),
        common(Era::Legacy, &theirs, &state.tried),
    ) {
        return initialize(
            version,
            Initializing {
                probed_here: false,
                ..state
            },
        );
    }
    // VER-58: unless a probe was answered already in a way that speaks against the modern era.
    let unanswered = matches!(
        state.probe,
        None | Some(ProbeOutcome::Silence { .. } | ProbeOutcome::Ended(_))
    );
    let modern = code::is_modern_evidence(error.code);
    let failure = HandshakeFailure::Refused {
        method: "initialize",
        error,
    };
    // An answer to the probe may be under way still: over HTTP a slow start answers both at once, in any order.
    let unnamed = (modern && theirs.is_empty()).then_some(ProtocolVersion::NEWEST_MODERN);
    if let (true, true, Some(version)) = (
        auto && !state.restoring,
        unanswered,
        common(Era::Modern, &theirs, &[]).or(unnamed),
    ) {
        return probe(version, Vec::new(), Some(failure));
    }
    let old = !modern && status.is_some_and(suggests_old_transport);
    go_on_after(state, failure, status.is_none_or(tells_era), old, options)
}

/// `initialize` failed. A hint may have been wrong (VER-55), and there is an older transport (SSE24-02).
///
/// `evidence`: the failure says something about the server. `old`: it leaves the old transport to be tried.
fn go_on_after(
    state: Initializing,
    failure: HandshakeFailure,
    evidence: bool,
    old: bool,
    options: &LifecycleOptions,
) -> (Lifecycle, Action) {
    if state.restoring || state.old_transport {
        return fail(failure, state.probe);
    }
    let hinted = options.policy == EraPolicy::Auto && options.hint == Some(Era::Legacy);
    if hinted && evidence && state.probe.is_none() {
        return probe(ProtocolVersion::NEWEST_MODERN, Vec::new(), Some(failure));
    }
    if old && options.old_transport {
        return (
            Lifecycle::Reopening {
                probe: state.probe,
                refusal: Some(failure),
            },
            Action::Reopen(ReopenAs::OldHttp),
        );
    }
    fail(failure, state.probe)
}

fn initialized(
    result: InitializeResult,
    probe: Option<ProbeOutcome>,
    options: &LifecycleOptions,
) -> (Lifecycle, Action) {
    let version = result.protocol_version;
    let known = version.is_known() && version.era() == Era::Legacy;
    let tolerated = options.tolerate_older_version && version < ProtocolVersion::NEWEST_LEGACY;
    if !known && !tolerated {
        let failure = HandshakeFailure::NoCommonVersion {
            ours: ours(EraPolicy::Legacy),
            theirs: vec![version],
        };
        return fail(failure, probe);
    }
    ready(Agreement {
        era: Era::Legacy,
        version,
        capabilities: result.capabilities,
        server_info: result.server_info,
        instructions: result.instructions,
        probe,
    })
}
