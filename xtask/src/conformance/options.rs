//! The task's command line.

use crate::conformance::scenarios::{SCENARIOS, WIRES};
use crate::step::{Error, did_you_mean};

/// What the help shows.
pub(crate) const USAGE: &str = "[--scenario NAME]... [--version VERSION]... [--baseline] [--keep] \
                                [--package-version VERSION] [--command CLIENT]";

/// What is wanted.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Options {
    /// Only these scenarios; none: all.
    pub(crate) scenarios: Vec<String>,
    /// Only these wires; none: all.
    pub(crate) versions: Vec<String>,
    /// Whether the list of what is known to fail is written anew.
    pub(crate) baseline: bool,
    /// Whether the results of each scenario are kept.
    pub(crate) keep: bool,
    /// Another version of the suite than the one that is pinned.
    pub(crate) package_version: Option<String>,
    /// Another client than ours.
    pub(crate) command: Option<String>,
}

impl Options {
    pub(crate) fn read(words: &[String]) -> Result<Self, Error> {
        let mut options = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                words
                    .next()
                    .cloned()
                    .ok_or_else(|| Error::Usage(format!("{word} needs a value")))
            };
            match word.as_str() {
                "--baseline" => options.baseline = true,
                "--keep" => options.keep = true,
                "--package-version" => options.package_version = Some(value()?),
                "--command" => options.command = Some(value()?),
                "--version" => {
                    options
                        .versions
                        .push(known("version", value()?, WIRES.iter().copied())?)
                }
                // Another version of the suite may have others.
                "--scenario" => options.scenarios.push(value()?),
                other => {
                    return Err(Error::Usage(format!(
                        "unknown option {other:?}; the task takes {USAGE}"
                    )));
                }
            }
        }
        if options.package_version.is_none() {
            for name in &options.scenarios {
                let names = SCENARIOS.iter().map(|scenario| scenario.name);
                known("scenario", name.clone(), names)?;
            }
        }
        if options.baseline && (options.command.is_some() || options.package_version.is_some()) {
            return Err(Error::Usage(
                "--baseline is about our client and the pinned suite: leave --command and --package-version out"
                    .to_owned(),
            ));
        }
        Ok(options)
    }

    /// Whether everything is run.
    pub(crate) fn is_whole(&self) -> bool {
        self.scenarios.is_empty() && self.versions.is_empty()
    }

    /// Whether a scenario at a wire is wanted.
    pub(crate) fn wants(&self, scenario: &str, wire: &str) -> bool {
        let any = |list: &[String], name: &str| list.is_empty() || list.iter().any(|o| o == name);
        any(&self.scenarios, scenario) && any(&self.versions, wire)
    }
}

fn known<'a>(
    kind: &str,
    typed: String,
    names: impl Iterator<Item = &'a str> + Clone,
) -> Result<String, Error> {
    if names.clone().any(|name| name == typed) {
        return Ok(typed);
    }
    Err(Error::Usage(format!(
        "there is no {kind} {typed:?}{}",
        did_you_mean(&typed, names)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Options, Error> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Options::read(&words)
    }

    #[test]
    fn options_choose_what_is_run() {
        let options = read("--scenario initialize --version 2025-11-25 --keep").unwrap();
        assert!(options.keep && !options.baseline && !options.is_whole());
        for (scenario, wire, wanted) in [
            ("initialize", "2025-11-25", true),
            ("initialize", "2025-06-18", false),
            ("tools_call", "2025-11-25", false),
        ] {
            assert_eq!(options.wants(scenario, wire), wanted, "{scenario} {wire}");
        }
        let all = read("--baseline").unwrap();
        assert!(all.is_whole() && all.wants("anything", "extension"));
        // Another release may have other scenarios.
        assert!(read("--package-version 9.9.9 --scenario brand-new").is_ok());
    }

    #[test]
    fn mistakes_are_bad_usage() {
        for (line, expected) in [
            ("--scenario", "--scenario needs a value"),
            ("--scenario initialise", "did you mean \"initialize\"?"),
            ("--version 2025-11-26", "did you mean \"2025-11-25\"?"),
            ("--version 2024-11-05", "there is no version"),
            ("--fast", "unknown option"),
            ("--baseline --command true", "leave --command"),
        ] {
            match read(line) {
                Err(Error::Usage(text)) => assert!(text.contains(expected), "{line}: {text}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
