//! What the Model Context Protocol adds to the JSON-RPC error codes.
//!
//! Rules: the error code table of section 1; JR-30 (no meaning in `-32000..=-32019` except `-32002`).

use mcp_jsonrpc::ErrorCode;

/// `-1`, legacy: the user rejected a sampling request.
pub const USER_REJECTED: ErrorCode = ErrorCode::new(-1);
/// `-32002`, legacy: no such resource.
pub const RESOURCE_NOT_FOUND: ErrorCode = ErrorCode::new(-32002);
/// `-32042`, 2025-11-25: the call needs a URL elicitation first.
pub const URL_ELICITATION_REQUIRED: ErrorCode = ErrorCode::new(-32042);
/// `-32020`, modern: HTTP headers and body disagree.
pub const HEADER_MISMATCH: ErrorCode = ErrorCode::new(-32020);
/// `-32021`, modern: the request needs a client capability that it did not declare.
pub const MISSING_REQUIRED_CLIENT_CAPABILITY: ErrorCode = ErrorCode::new(-32021);
/// `-32022`, modern: the server does not speak the request's version.
pub const UNSUPPORTED_PROTOCOL_VERSION: ErrorCode = ErrorCode::new(-32022);

/// Whether only a modern server sends this code: then falling back to `initialize` is forbidden (VER-51, VER-52).
pub fn is_modern_evidence(code: ErrorCode) -> bool {
    [
        HEADER_MISMATCH,
        MISSING_REQUIRED_CLIENT_CAPABILITY,
        UNSUPPORTED_PROTOCOL_VERSION,
    ]
    .contains(&code)
}
