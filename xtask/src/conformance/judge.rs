//! Whether a scenario was passed, judged by what the suite wrote down and by how the client ended.
//!
//! Stricter than the suite: a warning is a fault, a scenario in which nothing succeeded was not passed, and neither was one
//! whose client did not end well.

use std::collections::BTreeMap;

use serde_json::Value;

/// What is known about one run of a scenario.
#[derive(Debug)]
pub(crate) struct Seen<'a> {
    /// What the suite wrote into `checks.json`, if it did.
    pub(crate) checks: Result<&'a str, String>,
    /// How the client ended; `None` when it did not, or was never started.
    pub(crate) client_exit: Option<i32>,
    /// How the suite ended, where it ran this scenario alone.
    pub(crate) suite: Option<SuiteEnd>,
}

/// How the suite ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SuiteEnd {
    /// By itself, with this code; `None` after a signal.
    Exit(Option<i32>),
    /// It was ended: it did not end in time.
    Killed,
}

/// What came of it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Verdict {
    /// How many checks had which status.
    pub(crate) counts: BTreeMap<String, usize>,
    /// Why it was not passed; none: it was.
    pub(crate) faults: Vec<String>,
}

impl Verdict {
    pub(crate) fn passed(&self) -> bool {
        self.faults.is_empty()
    }

    /// The numbers in words: `9 passed, 2 skipped`.
    pub(crate) fn summary(&self) -> String {
        let words = [
            ("SUCCESS", "passed"),
            ("FAILURE", "failed"),
            ("WARNING", "warned"),
            ("SKIPPED", "skipped"),
        ];
        let shown = words.iter().filter_map(|(status, word)| {
            let count = self.counts.get(*status)?;
            Some(format!("{count} {word}"))
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// Most faults that one verdict names; the rest is counted.
const MAX_FAULTS: usize = 8;

/// Judges one run. `named` are the checks, by name or id, that must have succeeded.
pub(crate) fn judge(seen: &Seen<'_>, named: &[&str]) -> Verdict {
    let mut verdict = Verdict::default();
    match seen.checks.as_ref().map(|text| serde_json::from_str(text)) {
        Ok(Ok(Value::Array(checks))) => judge_checks(&checks, named, &mut verdict),
        Ok(_) => verdict
            .faults
            .push("the suite's checks are no list".to_owned()),
        Err(reason) => verdict.faults.push(reason.clone()),
    }
    match seen.client_exit {
        Some(0) => {}
        Some(code) => verdict
            .faults
            .push(format!("the client exited with {code}")),
        None => verdict.faults.push("the client did not end".to_owned()),
    }
    match seen.suite {
        None | Some(SuiteEnd::Exit(Some(0))) => {}
        Some(SuiteEnd::Killed) => verdict
            .faults
            .push("the suite did not end in time".to_owned()),
        // It repeats what the checks or the client's exit say; worth a word only if they say nothing.
        Some(SuiteEnd::Exit(code)) if verdict.faults.is_empty() => {
            let code = code.map_or_else(|| "a signal".to_owned(), |code| code.to_string());
            verdict.faults.push(format!("the suite exited with {code}"));
        }
        Some(SuiteEnd::Exit(_)) => {}
    }
    let more = verdict.faults.len().saturating_sub(MAX_FAULTS);
    if more > 0 {
        verdict.faults.truncate(MAX_FAULTS);
        verdict.faults.push(format!("and {more} more"));
    }
    verdict
}

fn judge_checks(checks: &[Value], named: &[&str], verdict: &mut Verdict) {
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let mut succeeded = Vec::new();
    for check in checks {
        let (status, name) = (text(check, "status"), text(check, "name"));
        match status.as_str() {
            "INFO" | "SKIPPED" => {}
            "SUCCESS" => succeeded.extend([name, text(check, "id")]),
            // Also a status that is not known: it may be a new kind of failure.
            _ => {
                let message = text(check, "errorMessage");
                let message = message.lines().next().unwrap_or_default();
                let separator = if message.is_empty() { "" } else { ": " };
                verdict
                    .faults
                    .push(format!("{status} {name}{separator}{message}"));
            }
        }
        *verdict.counts.entry(status).or_default() += 1;
    }
    if succeeded.is_empty() {
        verdict.faults.push("nothing succeeded".to_owned());
        return;
    }
    for wanted in named {
        if !succeeded.iter().any(|name| name == wanted) {
            verdict
                .faults
                .push(format!("the check {wanted} did not succeed"));
        }
    }
}

/// The scenario whose results are in a folder, from its path below the results: `auth/NAME-2026-12-01T15-38-32-161Z`.
pub(crate) fn scenario_of(folder: &str) -> Option<&str> {
    const STAMP: &str = "-0000-00-00T00-00-00-000Z";
    let cut = folder.len().checked_sub(STAMP.len())?;
    let (name, stamp) = (folder.get(..cut)?, folder.get(cut..)?);
    let fits = stamp
        .chars()
        .zip(STAMP.chars())
        .all(|(c, pattern)| c == pattern || (pattern == '0' && c.is_ascii_digit()));
    (fits && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checks(statuses: &[&str]) -> String {
        let checks: Vec<_> = statuses
            .iter()
            .enumerate()
            .map(|(index, status)| {
                json!({"id": "group", "name": format!("check-{index}"), "status": status})
            })
            .collect();
        json!(checks).to_string()
    }

    fn judged(statuses: &[&str], exit: Option<i32>, suite: SuiteEnd, named: &[&str]) -> Verdict {
        let text = checks(statuses);
        let seen = Seen {
            checks: Ok(&text),
            client_exit: exit,
            suite: Some(suite),
        };
        judge(&seen, named)
    }

    #[test]
    fn only_a_clean_run_passes() {
        const FINE: SuiteEnd = SuiteEnd::Exit(Some(0));
        type Case<'a> = (
            &'a [&'a str],
            Option<i32>,
            SuiteEnd,
            &'a [&'a str],
            &'a [&'a str],
        );
        let cases: &[Case<'_>] = &[
            (&["SUCCESS"], Some(0), FINE, &[], &[]),
            (&["INFO", "SUCCESS", "SKIPPED"], Some(0), FINE, &[], &[]),
            (&["SUCCESS"], Some(0), FINE, &["check-0"], &[]),
            (&["SUCCESS"], Some(0), FINE, &["group"], &[]),
            // What a client that does nothing gets.
            (&[], Some(0), FINE, &[], &["nothing succeeded"]),
            (
                &["SKIPPED", "INFO"],
                Some(0),
                FINE,
                &[],
                &["nothing succeeded"],
            ),
            (
                &["SUCCESS", "SKIPPED"],
                Some(0),
                FINE,
                &["check-0", "check-1"],
                &["the check check-1 did not succeed"],
            ),
            (
                &["SUCCESS", "WARNING"],
                Some(0),
                FINE,
                &[],
                &["WARNING check-1"],
            ),
            (
                &["SUCCESS", "FAILURE"],
                Some(0),
                FINE,
                &[],
                &["FAILURE check-1"],
            ),
            (&["SUCCESS", "ODD"], Some(0), FINE, &[], &["ODD check-1"]),
            (
                &["SUCCESS"],
                Some(1),
                SuiteEnd::Exit(Some(1)),
                &[],
                &["the client exited with 1"],
            ),
            (&["SUCCESS"], None, FINE, &[], &["the client did not end"]),
            (
                &["SUCCESS"],
                Some(0),
                SuiteEnd::Exit(Some(1)),
                &[],
                &["the suite exited with 1"],
            ),
            (
                &["SUCCESS"],
                Some(0),
                SuiteEnd::Exit(None),
                &[],
                &["the suite exited with a signal"],
            ),
            (
                &["SUCCESS"],
                None,
                SuiteEnd::Killed,
                &[],
                &["the client did not end", "the suite did not end in time"],
            ),
        ];
        for (statuses, exit, suite, named, expected) in cases {
            let verdict = judged(statuses, *exit, *suite, named);
            assert_eq!(verdict.faults, *expected, "{statuses:?} {exit:?} {suite:?}");
            assert_eq!(verdict.passed(), expected.is_empty());
        }
    }

    #[test]
    fn results_that_are_not_there_are_a_fault() {
        for (checks, fault) in [
            (Err("no checks.json".to_owned()), "no checks.json"),
            (Ok("{}"), "the suite's checks are no list"),
            (Ok("[cut off"), "the suite's checks are no list"),
        ] {
            let seen = Seen {
                checks,
                client_exit: Some(0),
                suite: None,
            };
            assert_eq!(judge(&seen, &[]).faults, [fault]);
        }
    }

    #[test]
    fn faults_are_counted_and_cut() {
        let verdict = judged(&["FAILURE"; 20], Some(0), SuiteEnd::Exit(Some(1)), &[]);
        assert_eq!(verdict.faults.len(), MAX_FAULTS + 1);
        assert_eq!(verdict.faults[MAX_FAULTS], "and 13 more");
        assert_eq!(verdict.summary(), "20 failed");
        let verdict = judged(
            &["SUCCESS", "SKIPPED", "INFO", "SUCCESS"],
            Some(0),
            SuiteEnd::Exit(Some(0)),
            &[],
        );
        assert_eq!(verdict.summary(), "2 passed, 1 skipped");
    }

    #[test]
    fn folders_of_results_name_their_scenario() {
        for (folder, scenario) in [
            ("tools_call-2026-12-01T15-38-32-159Z", Some("tools_call")),
            (
                "auth/dpop-nonce-2026-12-01T15-38-32-162Z",
                Some("auth/dpop-nonce"),
            ),
            ("tools_call", None),
            ("-2026-12-01T15-38-32-159Z", None),
            ("tools_call-2026-12-01T15-38-32-x59Z", None),
            ("größe-größe-größe-größe-größe", None),
        ] {
            assert_eq!(scenario_of(folder), scenario, "{folder}");
        }
    }
}
