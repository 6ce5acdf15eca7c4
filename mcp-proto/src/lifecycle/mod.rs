//! How a connection comes about, in both eras: a pure machine over a few inputs.
//!
//! | State | Input | Action | Next |
//! |---|---|---|---|
//! | Idle | start, Auto or Modern | probe: `server/discover` at the newest modern version | Probing |
//! | Idle | start, Legacy (or Auto with that hint) | `initialize` | Initializing |
//! | Probing | discovery, a modern version in common | – | Ready, modern |
//! | Probing | discovery, no modern version in common | Auto and a legacy one in common: `initialize` (VER-57) | Initializing, or Failed with both lists |
//! | Probing | `-32022` whose `supported` meets ours | probe again, once per version; the first one twice if it is named (VER-40) | Probing |
//! | Probing | `-32022` that names the first one once more, and no legacy one in common | – | Failed with the error |
//! | Probing | `-32022` with nothing modern in common | Auto and a legacy one in common: `initialize` | Initializing, or Failed with both lists |
//! | Probing | `-32020`, `-32021` | – | Failed; never falls back (VER-52) |
//! | Probing | any other error, any other result, timer | Auto: `initialize`, the probe's id stays reserved (VER-51, VER-56) | Initializing, or Failed |
//! | Probing | channel end | Auto: reopen (C048) | Reopening, or Failed |
//! | Reopening | channel open | `initialize` | Initializing |
//! | Reopening | opening failed | – | Failed, both causes kept |
//! | Initializing | result, a version we know | `notifications/initialized` | Ready, legacy |
//! | Initializing | result, a version we don't know | – | Failed with both lists (VER-13) |
//! | Initializing | late answer to the probe | hold it | Initializing |
//! | Initializing | error, HTTP failure or timer, and a discovery is held | Auto: use it | Ready, modern |
//! | Initializing | error that names a modern version of ours, or a modern error that names none, and no probe was answered yet | Auto: probe (VER-58) | Probing |
//! | Initializing | error that names another legacy version of ours | `initialize` at that version, once (VER-18) | Initializing |
//! | Initializing | channel end, the probe went over the same channel | reopen, once (C048) | Reopening |
//! | Initializing | any other error or HTTP 4xx, after a hint alone | probe (VER-55) | Probing |
//! | Initializing | HTTP 400, 404 or 405 without a modern error | open HTTP+SSE in its place, once (SSE24-02) | Reopening |
//! | Initializing | other error, timer, any other channel end | – | Failed, all causes kept |
//! | Probing | HTTP 4xx other than 401, 403, 407, 408, 413, 429, 431; an empty answer | as any other error (VER-53) | Initializing, or Failed |
//! | Probing | any other HTTP failure, or an error that came with one | – | Failed: it says nothing about the era |
//! | Ready | session lost | `initialize` at the same version (HTTPL-12) | Initializing |
//! | Ready | channel end | – | Closed |
//! | any | close | – | Closed |
//!
//! A failure is sticky: every later input leaves it in place.

mod agreement;
mod handshake_error;
mod machine;

pub use agreement::{Agreement, EraPolicy, ProbeOutcome};
pub use handshake_error::{HandshakeError, HandshakeFailure};
pub use machine::ReopenAs;
pub(crate) use machine::{Action, Input, Lifecycle, LifecycleOptions, Unanswered};
