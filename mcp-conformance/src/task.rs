//! What the suite hands over: the server's URL as the last argument, all else as variables.

use mcp_client::mcp_proto::{Era, ProtocolVersion};
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// The variables, as the suite names them.
const SCENARIO: &str = "MCP_CONFORMANCE_SCENARIO";
const VERSION: &str = "MCP_CONFORMANCE_PROTOCOL_VERSION";
const CONTEXT: &str = "MCP_CONFORMANCE_CONTEXT";

/// One scenario to carry out.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Task {
    /// Its name, such as `tools_call`.
    pub(crate) scenario: String,
    /// Where the server listens.
    pub(crate) url: String,
    /// The version that the server speaks.
    version: ProtocolVersion,
    /// What the scenario tells beforehand, as JSON. There may be secrets in it.
    context: Option<String>,
}

impl Task {
    /// The task that this process was started for.
    pub(crate) fn from_environment() -> Result<Self, Failure> {
        let url = std::env::args().skip(1).last();
        Self::read(url, |name| std::env::var(name).ok())
    }

    fn read(
        url: Option<String>,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Failure> {
        let needed = |name: &str| {
            variable(name).ok_or_else(|| Failure::Usage(format!("{name} is not set; {HOW}")))
        };
        Ok(Self {
            scenario: needed(SCENARIO)?,
            url: url
                .ok_or_else(|| Failure::Usage(format!("the server's URL is missing; {HOW}")))?,
            version: ProtocolVersion::new(needed(VERSION)?),
            context: variable(CONTEXT),
        })
    }

    /// The era of the version that the server speaks.
    pub(crate) fn era(&self) -> Era {
        if self.version > ProtocolVersion::NEWEST_LEGACY {
            Era::Modern
        } else {
            Era::Legacy
        }
    }

    /// What the scenario tells beforehand.
    pub(crate) fn context<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        let Some(context) = &self.context else {
            return Err(Failure::Usage(format!(
                "{CONTEXT} is not set, and {} needs it",
                self.scenario
            )));
        };
        // The error of the parser would quote what is in it.
        serde_json::from_str(context).map_err(|error| {
            Failure::Usage(format!(
                "{CONTEXT} is not what {} needs: line {}, column {}",
                self.scenario,
                error.line(),
                error.column()
            ))
        })
    }
}

/// How the program is started.
const HOW: &str = "the suite starts this program: `cargo xtask test-conformance`";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_read_from_what_the_suite_hands_over() {
        let all = [
            (SCENARIO, "tools_call"),
            (VERSION, "2026-07-28"),
            (CONTEXT, r#"{"name":"x","key":[1]}"#),
        ];
        let read = |url: Option<&str>, without: &str| {
            Task::read(url.map(str::to_owned), |name| {
                let found = all
                    .iter()
                    .find(|(known, _)| *known == name && *known != without);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let task = read(Some("http://localhost:1/mcp"), "").unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(
            (task.scenario.as_str(), task.era()),
            ("tools_call", Era::Modern)
        );
        let context: serde_json::Value = task.context().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(context["key"][0], 1);
        for (url, without, named) in [
            (None, "", "URL"),
            (Some("x"), SCENARIO, SCENARIO),
            (Some("x"), VERSION, VERSION),
        ] {
            let failure = read(url, without).err().map(|failure| failure.to_string());
            assert!(failure.is_some_and(|text| text.contains(named)), "{named}");
        }
        let task = read(Some("x"), CONTEXT).unwrap_or_else(|e| panic!("{e}"));
        assert!(task.context::<serde_json::Value>().is_err());
    }

    #[test]
    fn a_context_that_can_not_be_read_is_not_shown() {
        let task = Task {
            scenario: "auth/x".to_owned(),
            url: String::new(),
            version: ProtocolVersion::NEWEST_LEGACY,
            context: Some(r#"{"client_secret":"hush"}"#.to_owned()),
        };
        let failure = task.context::<Vec<u8>>().err().map(|f| f.to_string());
        assert!(failure.is_some_and(|text| text.contains("auth/x") && !text.contains("hush")));
        assert_eq!(task.era(), Era::Legacy);
    }
}
