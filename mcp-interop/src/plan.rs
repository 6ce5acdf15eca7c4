//! What to try: written by `xtask`, read here.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// All servers, and where the report goes.
#[derive(Debug, Deserialize)]
pub(crate) struct Plan {
    pub(crate) servers: Vec<Server>,
    pub(crate) report: PathBuf,
}

/// One server.
#[derive(Debug, Deserialize)]
pub(crate) struct Server {
    pub(crate) name: String,
    /// The version of the package, for the report.
    pub(crate) package_version: String,
    pub(crate) command: String,
    #[serde(default)]
    pub(crate) args: Vec<String>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) expect_version: String,
    pub(crate) least_tools: usize,
    pub(crate) calls: Vec<Call>,
}

/// One call and what its result must be like.
#[derive(Debug, Deserialize)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    /// Parts that the text or the structured result must contain.
    #[serde(default)]
    pub(crate) expect: Vec<String>,
    /// The kinds of the content blocks in order, as the wire names them; `None` when they do not matter.
    pub(crate) expect_blocks: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) expect_error: bool,
    #[serde(default)]
    pub(crate) least_progress: usize,
}

impl Plan {
    pub(crate) fn read(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }
}
