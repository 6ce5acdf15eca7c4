//! What to try: written by `xtask`, read here.

use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;

/// All servers, and where the report goes.
#[derive(Debug, Deserialize)]
pub(crate) struct Plan {
    pub(crate) servers: Vec<Server>,
    /// The server that is put behind a reverse proxy, if one is.
    pub(crate) proxied: Option<Proxied>,
    /// A folder for whatever servers write.
    pub(crate) work: PathBuf,
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
    /// How it is reached, if not over its pipes. Its port is in `PORT` and its last argument.
    pub(crate) http: Option<Http>,
    pub(crate) expect_version: String,
    pub(crate) least_tools: usize,
    pub(crate) calls: Vec<Call>,
    #[serde(default)]
    pub(crate) requests: Vec<Request>,
}

/// How a server is reached over HTTP.
#[derive(Debug, Deserialize)]
pub(crate) struct Http {
    pub(crate) path: String,
    /// The transport that is to be found.
    pub(crate) transport: String,
    /// Whether there is a session, to be deleted at the end.
    #[serde(default)]
    pub(crate) has_session: bool,
    /// The era that is pinned, if it is not to be found out.
    pub(crate) era: Option<String>,
}

/// A server behind a reverse proxy.
#[derive(Debug, Deserialize)]
pub(crate) struct Proxied {
    /// The program of the reverse proxy.
    pub(crate) nginx: PathBuf,
    pub(crate) command: String,
    pub(crate) args: Vec<String>,
    pub(crate) path: String,
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

/// One request and what its result must contain.
#[derive(Debug, Deserialize)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) params: Value,
    pub(crate) expect: Vec<String>,
}

impl Plan {
    pub(crate) fn read(path: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }
}
