//! A tool's result as parts that any host can use.
//!
//! [`convert_tool_result`] is total and pure: every result converts, and what was cut, dropped or not understood stands
//! in [`ToolOutput::notes`]. Limits, accepted media types and audiences are policy; the wording for a model or a person
//! is the host's.
//!
//! Rules: TOOL-12 (`isError` is a value), TOOL-16 (`null` is not absent), C152 (structured results are never lost),
//! C153 (errors keep all parts), C154 (unknown and broken blocks become raw parts), C226 (huge texts are cut visibly).

mod convert_result;
mod note;
mod part;
mod policy;

pub use convert_result::{ToolOutput, convert_tool_result};
pub use note::{DropReason, Note};
pub use part::{Part, ResourcePartBody, TextCut};
pub use policy::{Audience, ConvertPolicy};
