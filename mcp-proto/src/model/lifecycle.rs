//! `initialize` and `server/discover`: parameters and results.
//!
//! Rules: VER-10 to VER-19 (handshake), VER-36, VER-37 (discovery).

use serde::Serialize;

use crate::members::Members;
use crate::meta::SERVER_INFO;
use crate::model::capability::{ClientCapabilities, ServerCapabilities};
use crate::model::implementation::Implementation;
use crate::version::ProtocolVersion;

/// Parameters of `initialize`.
///
/// ```json
/// {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "harbor", "version": "0.3.0"}}
/// ```
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InitializeParams<'a> {
    /// The version offered; always a legacy one (VER-11).
    pub protocol_version: &'a ProtocolVersion,
    /// What this client can do.
    pub capabilities: &'a ClientCapabilities,
    /// Who this client is.
    pub client_info: &'a Implementation,
}

/// Result of `initialize`.
///
/// ```json
/// {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
///  "serverInfo": {"name": "notes", "version": "2.1.0"}, "instructions": "Be brief."}
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InitializeResult {
    /// The version that the server chose; it wins (VER-13).
    pub protocol_version: ProtocolVersion,
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// Who the server says it is; `None` when it does not say, which the protocol asks it to.
    pub server_info: Option<Implementation>,
    /// Text for the model.
    pub instructions: Option<String>,
}

impl InitializeResult {
    /// Reads a result; the version is the one member that must be right.
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        let members = Members::read(text).ok_or("it is no object")?;
        let protocol_version = members
            .text("protocolVersion")
            .ok_or("it has no protocolVersion")?;
        Ok(Self {
            protocol_version: ProtocolVersion::new(protocol_version),
            capabilities: ServerCapabilities::read(members.get("capabilities")),
            server_info: members.parse("serverInfo"),
            instructions: members.text("instructions"),
        })
    }
}

/// Result of `server/discover`.
///
/// ```json
/// {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
///  "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "notes", "version": "2.1.0"}}}
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DiscoverResult {
    /// The versions that the server speaks, of either era.
    pub supported_versions: Vec<ProtocolVersion>,
    /// What the server can do.
    pub capabilities: ServerCapabilities,
    /// Who the server says it is.
    pub server_info: Option<Implementation>,
    /// Text for the model.
    pub instructions: Option<String>,
}

impl DiscoverResult {
    /// Reads a result; without a list of versions it is no discovery (some old servers answer `{}` to anything).
    pub(crate) fn read(text: &str) -> Result<Self, &'static str> {
        let members = Members::read(text).ok_or("it is no object")?;
        let supported_versions = members
            .parse("supportedVersions")
            .ok_or("it has no list of supportedVersions")?;
        // A `serverInfo` at the top level is obsolete and ignored (VER-37).
        let meta = members
            .get("_meta")
            .and_then(|raw| Members::read(raw.get()));
        Ok(Self {
            supported_versions,
            capabilities: ServerCapabilities::read(members.get("capabilities")),
            server_info: meta.and_then(|meta| meta.parse(SERVER_INFO)),
            instructions: members.text("instructions"),
        })
    }
}

/// The versions that an error's data names: `data.supported` of `-32022` and of some handshake errors (VER-18, VER-40).
pub(crate) fn versions_in_error(error: &mcp_jsonrpc::ErrorObject) -> Option<Vec<ProtocolVersion>> {
    Members::read(error.data.as_ref()?.as_str())?.parse("supported")
}
