//! Why a scenario was not carried out, and what the exit code says about it.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

/// Why a scenario was not carried out.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A call of the client failed.
    Client(mcp_client::Error),
    /// Something came back that should not.
    Unexpected(String),
    /// The suite has a scenario that this client does not know.
    UnknownScenario(String),
    /// This program was not started as the suite starts it.
    Usage(String),
}

impl Failure {
    /// 1: it went wrong; 2: bad usage; 3: a scenario that nobody wrote a part for.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Client(_) | Self::Unexpected(_) => 1,
            Self::Usage(_) => 2,
            Self::UnknownScenario(_) => 3,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Client(error) => {
                error.fmt(f)?;
                let mut source = error.source();
                while let Some(error) = source {
                    write!(f, ": {error}")?;
                    source = error.source();
                }
                Ok(())
            }
            Self::Unexpected(text) | Self::Usage(text) => f.write_str(text),
            Self::UnknownScenario(name) => write!(f, "the scenario {name:?} is not known"),
        }
    }
}

impl From<mcp_client::Error> for Failure {
    fn from(error: mcp_client::Error) -> Self {
        Self::Client(error)
    }
}

/// What was expected and did not come.
pub(crate) fn unexpected<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Unexpected(text.into()))
}
