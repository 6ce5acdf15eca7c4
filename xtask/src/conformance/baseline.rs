//! What is known not to pass yet, with the reason: a file whose lines can only become fewer.
//!
//! A scenario that fails without standing there is a fault, and so is one that stands there and passes.

use std::collections::BTreeMap;

use super::scenarios;

/// The file, relative to the workspace.
pub(crate) const FILE: &str = "xtask/conformance/known-failing.txt";

/// How the file begins when it is written.
const HEAD: &str = "\
# Scenarios of the conformance suite that are known not to pass yet: scenario, version, reason.
# `cargo xtask test-conformance --baseline` writes it anew, and keeps the reasons of what is still failing.
";

/// The reason of an entry that was written and not looked at yet.
const NEW: &str = "NEW: ";

/// A scenario at a wire.
pub(crate) type Key = (String, String);

/// The entries with their reasons.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Baseline(BTreeMap<Key, String>);

/// How a result stands to what was known.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Standing {
    Passed,
    /// It fails, as is known, for this reason.
    KnownFailing(String),
    /// It fails, and should not.
    Failed,
    /// It passes, and is known not to: the entry must go.
    PassedInSpite,
}

impl Baseline {
    /// Reads the file's text.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut entries = BTreeMap::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let fault = |what: &str| format!("{FILE}:{}: {what}", index + 1);
            let mut words = line.split_whitespace();
            let (Some(name), Some(wire)) = (words.next(), words.next()) else {
                return Err(fault("expected a scenario, a version and a reason"));
            };
            let reason = words.collect::<Vec<_>>().join(" ");
            if reason.is_empty() {
                return Err(fault("the reason is missing"));
            }
            if reason.starts_with(NEW) {
                return Err(fault("say why in place of what was written by itself"));
            }
            if !scenarios::find(name).is_some_and(|scenario| scenario.wires.contains(&wire)) {
                return Err(fault(&format!("there is no scenario {name} at {wire}")));
            }
            let key = (name.to_owned(), wire.to_owned());
            if entries.insert(key, reason).is_some() {
                return Err(fault(&format!("{name} at {wire} stands there twice")));
            }
        }
        Ok(Self(entries))
    }

    /// How a result stands to what is known.
    pub(crate) fn standing(&self, scenario: &str, wire: &str, passed: bool) -> Standing {
        let key = (scenario.to_owned(), wire.to_owned());
        match (self.0.get(&key), passed) {
            (None, true) => Standing::Passed,
            (None, false) => Standing::Failed,
            (Some(_), true) => Standing::PassedInSpite,
            (Some(reason), false) => Standing::KnownFailing(reason.clone()),
        }
    }

    /// What the file should say after these results; what was not run stays as it was. A scenario may have been run twice:
    /// it passes if it always did.
    pub(crate) fn updated(&self, results: &[(Key, Result<(), String>)]) -> Self {
        let mut entries = self.0.clone();
        let fails = |key: &Key| results.iter().any(|(of, r)| of == key && r.is_err());
        for (key, outcome) in results {
            match outcome {
                Ok(()) if fails(key) => {}
                Ok(()) => drop(entries.remove(key)),
                Err(fault) => {
                    entries
                        .entry(key.clone())
                        .or_insert_with(|| format!("{NEW}{fault}"));
                }
            }
        }
        Self(entries)
    }

    /// The file's text.
    pub(crate) fn render(&self) -> String {
        let wide = |part: fn(&Key) -> &str| {
            self.0
                .keys()
                .map(|key| part(key).len())
                .max()
                .unwrap_or_default()
        };
        let (name, wire) = (wide(|key| &key.0), wide(|key| &key.1));
        let mut text = HEAD.to_owned();
        for (key, reason) in &self.0 {
            text.push_str(&format!(
                "{:name$}  {:wire$}  {}\n",
                key.0,
                key.1,
                reason.lines().next().unwrap_or_default()
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "# why\n\nauth/dpop  extension   no keys yet\ntools_call 2025-11-25 it is Monday\n";

    fn key(name: &str, wire: &str) -> Key {
        (name.to_owned(), wire.to_owned())
    }

    #[test]
    fn what_is_known_decides_what_a_result_means() {
        let baseline = Baseline::read(TEXT).unwrap();
        let known = |reason: &str| Standing::KnownFailing(reason.to_owned());
        for (name, wire, passed, expected) in [
            ("initialize", "2025-11-25", true, Standing::Passed),
            ("initialize", "2025-11-25", false, Standing::Failed),
            ("tools_call", "2025-11-25", true, Standing::PassedInSpite),
            ("tools_call", "2025-11-25", false, known("it is Monday")),
            ("tools_call", "2026-07-28", false, Standing::Failed),
            ("auth/dpop", "extension", false, known("no keys yet")),
        ] {
            let standing = baseline.standing(name, wire, passed);
            assert_eq!(standing, expected, "{name} {wire} {passed}");
        }
    }

    #[test]
    fn lines_that_say_too_little_are_refused() {
        for (text, expected) in [
            ("tools_call", ":1: expected a scenario"),
            ("\ntools_call 2025-11-25", ":2: the reason is missing"),
            ("tools_cal 2025-11-25 x", "no scenario tools_cal at"),
            (
                "tools_call extension x",
                "no scenario tools_call at extension",
            ),
            ("tools_call 2025-11-25 NEW: FAILURE x", "say why"),
            (
                "tools_call 2025-11-25 x\ntools_call 2025-11-25 y",
                "stands there twice",
            ),
        ] {
            let error = Baseline::read(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn an_update_keeps_reasons_and_drops_what_passes() {
        let baseline = Baseline::read(TEXT).unwrap();
        let updated = baseline.updated(&[
            (key("tools_call", "2025-11-25"), Ok(())),
            (key("sse-retry", "2025-11-25"), Err("too late".to_owned())),
            (key("sse-retry", "2025-11-25"), Ok(())),
        ]);
        let text = updated.render();
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "auth/dpop  extension   no keys yet",
                "sse-retry  2025-11-25  NEW: too late"
            ]
        );
        // What was written by itself waits for somebody to say why.
        assert!(Baseline::read(&text).is_err());
        let seen = text.replace("NEW: too late", "the clock is slow");
        assert!(Baseline::read(&seen).is_ok());
    }

    #[test]
    fn the_file_of_this_repository_can_be_read() {
        let text = std::fs::read_to_string(crate::step::root().join(FILE)).unwrap();
        let baseline = Baseline::read(&text).unwrap();
        assert_eq!(baseline.render(), text, "write it with --baseline");
    }
}
