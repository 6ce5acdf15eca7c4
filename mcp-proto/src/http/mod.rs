//! What the protocol says about HTTP: the header fields of a request, and what an answer means.
//!
//! Pure: a status is a number, a header is text. The transport that moves them is another crate's work.
//!
//! Rules: HTTP-01 to HTTP-17, HTTPM-01 to HTTPM-31, HTTPL-02, HTTPL-03, and the table of section 2.4.

mod answer;
mod failure;
mod field;
mod mirror;
mod request_fields;

pub use answer::{AnswerForm, answer_form, media_type, sniff};
pub use failure::{Delivery, HttpFailure, HttpFailureKind, names_lost_session};
pub(crate) use failure::{suggests_old_transport, tells_era};
pub use field::{HeaderField, encode_value};
pub use mirror::{InvalidMirror, MAX_SAFE_INTEGER, MirroredParams, ToolHeaders};
pub use request_fields::{PROTOCOL_VERSION_FIELD, is_reserved, legacy_fields, modern_fields};
