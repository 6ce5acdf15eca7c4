//! What the protocol deprecates. It works as long as versions have it (DEP-02); new hosts do without (DEP-01).
//!
//! | what | deprecated in | leaves the protocol | in its place |
//! |---|---|---|---|
//! | [`logging`] | 2026-07-28 | at the earliest a revision after 2027-07-28 | standard error, OpenTelemetry |
//! | [`roots`] | 2026-07-28 | the same | tool arguments, configuration |
//! | [`sampling`] | 2026-07-28 | the same | the server's own access to a model |

pub mod logging;
pub mod roots;
pub mod sampling;
