//! One login, one refresh or one step-up, from the challenge to the token: a state machine over values.
//!
//! ```text
//! start --> [refresh with the stored token]     (Expired)
//!   |
//!   v
//! resource metadata: challenge, path, root --> [refresh]     (Unauthorized, same issuer and resource)
//!   |   \ none found: the server's origin (legacy_discovery)     |
//!   v                                                            | refused: is there a newer one in the store?
//! server metadata: OAuth, OpenID, OpenID behind the path <-------+
//!   |
//!   +-- a person: client id --> browser --> callback --> code for token --> done
//!   +-- client credentials, a workload's identity ----------------------> done
//!   +-- an identity provider's token: exchange --> ID-JAG for token ----> done
//! ```
//!
//! Every arrow out of a box is a failure as well, with stage, address and advice. The machine has one request in flight at
//! most. Whoever drives it:
//!
//! 1. calls [`AuthFlow::start`];
//! 2. calls [`AuthFlow::poll_output`] until it says [`Output::Wait`], and acts on each output;
//! 3. waits for what was asked for, hands it to one of the `handle_` functions, or calls
//!    [`AuthFlow::handle_timeout`] at the deadline that `Wait` carries;
//! 4. goes on with 2 until [`Output::Done`] or [`Output::Failed`].

mod asking;
mod attempts;
mod config;
mod machine;
mod output;
mod search;
mod tokens;

pub use attempts::{AttemptDecision, Attempts};
pub use config::{EnterpriseLogin, FlowConfig, Reason, Start, Way};
pub use machine::AuthFlow;
pub use output::{Authorized, BrowserLogin, CallbackVerdict, Output, Override};
