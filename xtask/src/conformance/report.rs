//! What came of it: a table for people, a file for programs, and how many passed.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::baseline::Standing;
use super::judge::Verdict;

/// The run that a row belongs to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Run {
    /// A scenario alone.
    Single,
    /// The frozen requirements of the row's wire.
    Requirements,
    /// What the suite runs with the frozen requirements and does not score. It counts for nothing.
    NotScored,
}

/// One scenario at one wire.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) run: Run,
    pub(crate) wire: String,
    pub(crate) scenario: String,
    pub(crate) verdict: Verdict,
    pub(crate) standing: Standing,
    pub(crate) seconds: f64,
}

/// How wide the columns are: version, scenario, result.
const COLUMNS: (usize, usize, usize) = (10, 41, 14);

/// Most faults that a line of the table names; the file and the end of the run name all.
const MAX_SHOWN_FAULTS: usize = 2;

/// The table's head.
pub(crate) fn head() -> String {
    let (wire, scenario, result) = COLUMNS;
    format!(
        "{:wire$}  {:scenario$}  {:result$}  {:>5}  what",
        "version", "scenario", "result", "s"
    )
}

impl Row {
    /// The row as a line of the table.
    pub(crate) fn line(&self) -> String {
        let (wire, scenario, width) = COLUMNS;
        let faults = || {
            let all = &self.verdict.faults;
            let shown: Vec<_> = all.iter().take(MAX_SHOWN_FAULTS).cloned().collect();
            let more = if all.len() > shown.len() { "; …" } else { "" };
            format!("{}{more}", shown.join("; "))
        };
        let (result, what) = match &self.standing {
            Standing::Passed => ("pass", self.verdict.summary()),
            Standing::KnownFailing(reason) => ("known failing", reason.clone()),
            Standing::Failed => ("FAIL", faults()),
            Standing::PassedInSpite => {
                ("PASS, IN SPITE", "it is listed as known failing".to_owned())
            }
        };
        format!(
            "{:wire$}  {:scenario$}  {result:width$}  {:>5.1}  {what}",
            self.wire, self.scenario, self.seconds
        )
    }

    /// What makes the whole run fail, if this does.
    pub(crate) fn complaint(&self) -> Option<String> {
        let at = format!("{} at {}", self.scenario, self.wire);
        let within = match self.run {
            Run::Single => "",
            Run::Requirements => " (within the frozen requirements)",
            Run::NotScored => return None,
        };
        match &self.standing {
            Standing::Passed | Standing::KnownFailing(_) => None,
            Standing::Failed => Some(format!("{at}{within}: {}", self.verdict.faults.join("; "))),
            Standing::PassedInSpite => Some(format!(
                "{at}{within} passes and is listed as known failing: take it off the list with --baseline"
            )),
        }
    }

    fn json(&self) -> Value {
        let (result, reason) = match &self.standing {
            Standing::Passed => ("passed", None),
            Standing::KnownFailing(reason) => ("known failing", Some(reason)),
            Standing::Failed => ("failed", None),
            Standing::PassedInSpite => ("passed in spite", None),
        };
        json!({
            "run": match self.run {
                Run::Single => "single",
                Run::Requirements => "requirements",
                Run::NotScored => "not scored",
            },
            "version": self.wire, "scenario": self.scenario, "result": result, "reason": reason,
            "checks": self.verdict.counts, "faults": self.verdict.faults, "seconds": self.seconds,
        })
    }
}

/// How many there are, pass, and are known not to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Count {
    all: usize,
    passed: usize,
    known: usize,
}

impl Count {
    fn add(&mut self, row: &Row) {
        self.all += 1;
        self.passed += usize::from(row.verdict.passed());
        self.known += usize::from(matches!(row.standing, Standing::KnownFailing(_)));
    }

    /// `24 of 69 pass strictly; 45 known failing`.
    pub(crate) fn text(self) -> String {
        let bad = self.all - self.passed - self.known;
        let known = match self.known {
            0 => String::new(),
            known => format!("; {known} known failing"),
        };
        let bad = match bad {
            0 => String::new(),
            bad => format!("; {bad} FAIL"),
        };
        format!("{} of {} pass strictly{known}{bad}", self.passed, self.all)
    }

    fn json(self) -> Value {
        json!({"all": self.all, "passed": self.passed, "known_failing": self.known})
    }
}

/// Counts the rows of a kind of run: all of them, and by wire.
pub(crate) fn count(rows: &[Row], run: Run) -> (Count, BTreeMap<&str, Count>) {
    let (mut all, mut by_wire) = (Count::default(), BTreeMap::<&str, Count>::new());
    for row in rows.iter().filter(|row| row.run == run) {
        all.add(row);
        by_wire.entry(&row.wire).or_default().add(row);
    }
    (all, by_wire)
}

/// The lines under the table.
pub(crate) fn summary(rows: &[Row], null_client: Option<(usize, usize)>) -> Vec<String> {
    let (all, by_wire) = count(rows, Run::Single);
    let mut lines: Vec<_> = by_wire
        .iter()
        .map(|(wire, count)| format!("{wire}: {}", count.text()))
        .collect();
    let (_, required) = count(rows, Run::Requirements);
    let (_, beyond) = count(rows, Run::NotScored);
    for (wire, count) in required {
        let beyond = beyond.get(wire).copied().unwrap_or_default();
        lines.push(format!(
            "requirements {wire}, frozen: {}; not scored, and run all the same: {} of {}",
            count.text(),
            beyond.passed,
            beyond.all
        ));
    }
    if let Some((passed, of)) = null_client {
        lines.push(format!("a client that does nothing: {passed} of {of}"));
    }
    lines.push(format!("in all: {}", all.text()));
    lines
}

/// The file for programs.
pub(crate) fn document(
    rows: &[Row],
    suite: &str,
    null_client: Option<(usize, usize)>,
    complaints: &[String],
) -> Value {
    let group = |run| {
        let (all, by_wire) = count(rows, run);
        let by_wire: BTreeMap<_, _> = by_wire.iter().map(|(wire, c)| (*wire, c.json())).collect();
        json!({"in_all": all.json(), "by_version": by_wire})
    };
    json!({
        "suite": suite,
        "single": group(Run::Single),
        "requirements": group(Run::Requirements),
        "null_client": null_client.map(|(passed, of)| json!({"all": of, "passed": passed})),
        "complaints": complaints,
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(run: Run, wire: &str, scenario: &str, standing: Standing) -> Row {
        let passed = matches!(standing, Standing::Passed | Standing::PassedInSpite);
        let fault = (!passed).then(|| "nothing succeeded".to_owned());
        Row {
            run,
            wire: wire.to_owned(),
            scenario: scenario.to_owned(),
            verdict: Verdict {
                counts: [("SUCCESS".to_owned(), usize::from(passed))].into(),
                faults: fault.into_iter().collect(),
            },
            standing,
            seconds: 1.25,
        }
    }

    fn rows() -> Vec<Row> {
        let known = Standing::KnownFailing("no keys yet".to_owned());
        vec![
            row(Run::Single, "2025-11-25", "initialize", Standing::Passed),
            row(Run::Single, "2025-11-25", "auth/dpop", known.clone()),
            row(Run::Single, "2026-07-28", "tools_call", Standing::Failed),
            row(
                Run::Single,
                "2026-07-28",
                "sse-retry",
                Standing::PassedInSpite,
            ),
            row(Run::Requirements, "2025-11-25", "auth/dpop", known),
            row(Run::NotScored, "2025-11-25", "x", Standing::Passed),
            row(Run::NotScored, "2025-11-25", "y", Standing::Failed),
        ]
    }

    #[test]
    fn the_table_hides_nothing() {
        let rows = rows();
        let lines: Vec<_> = rows.iter().map(Row::line).collect();
        for (line, parts) in lines.iter().zip([
            ["initialize", "pass ", "1 passed"],
            ["auth/dpop", "known failing", "no keys yet"],
            ["tools_call", "FAIL", "nothing succeeded"],
            ["sse-retry", "PASS, IN SPITE", "listed"],
            ["auth/dpop", "known failing", "no keys yet"],
        ]) {
            assert!(parts.iter().all(|part| line.contains(part)), "{line}");
            assert!(line.find("1.2").is_some(), "{line}");
        }
        assert_eq!(
            summary(&rows, Some((0, 48))),
            [
                "2025-11-25: 1 of 2 pass strictly; 1 known failing",
                "2026-07-28: 1 of 2 pass strictly; 1 FAIL",
                "requirements 2025-11-25, frozen: 0 of 1 pass strictly; 1 known failing; not scored, and run all \
                 the same: 1 of 2",
                "a client that does nothing: 0 of 48",
                "in all: 2 of 4 pass strictly; 1 known failing; 1 FAIL",
            ]
        );
    }

    #[test]
    fn what_is_not_as_known_is_a_complaint() {
        let complaints: Vec<_> = rows().iter().map(|row| row.complaint().is_some()).collect();
        assert_eq!(complaints, [false, false, true, true, false, false, false]);
        let required = row(Run::Requirements, "2025-11-25", "x", Standing::Failed);
        assert!(
            required
                .complaint()
                .unwrap()
                .contains("frozen requirements")
        );
    }

    #[test]
    fn the_file_has_what_the_table_has() {
        let complaints = ["x".to_owned()];
        let document = document(&rows(), "1.2.3", None, &complaints);
        assert_eq!(document["suite"], "1.2.3");
        assert_eq!(document["single"]["in_all"]["all"], 4);
        assert_eq!(
            document["single"]["by_version"]["2025-11-25"],
            json!({"all": 2, "passed": 1, "known_failing": 1})
        );
        assert_eq!(document["rows"][1]["reason"], "no keys yet");
        assert_eq!(document["null_client"], Value::Null);
        assert_eq!(document["complaints"][0], "x");
    }
}
