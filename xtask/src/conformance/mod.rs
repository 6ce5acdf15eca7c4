//! Our client, judged by the official conformance suite.
//!
//! Installs the suite by lock file below the target folder, builds `mcp-conformance`, and has every scenario run alone at
//! every version that it belongs to, then the frozen requirements, and then a client that does nothing, which must not pass
//! anywhere. How strictly is told in [`mod@judge`], what is known not to pass yet in [`baseline`]. It knows nothing of the
//! protocol.

mod baseline;
mod judge;
mod options;
mod report;
mod scenarios;
mod suite;

use std::collections::BTreeMap;
use std::time::Instant;

use self::baseline::{Baseline, FILE, Key};
use self::judge::{Seen, SuiteEnd, Verdict, judge};
use self::options::Options;
pub(crate) use self::options::USAGE;
use self::report::{Row, Run};
use self::scenarios::{EXTENSION, REQUIREMENTS, SCENARIOS, WIRES};
pub(crate) use self::suite::LOCK;
use self::suite::{Outcome, PER_SCENARIO, PER_SUITE, Suite};
use crate::step::{Error, cargo, execute, root, say, target};

/// The whole run, as a step of the gate.
pub(crate) fn run_all() -> Result<(), String> {
    run(&[]).map_err(|error| error.to_string())
}

pub(crate) fn run(words: &[String]) -> Result<(), Error> {
    let options = Options::read(words)?;
    carry_out(&options).map_err(Error::Failed)
}

fn carry_out(options: &Options) -> Result<(), String> {
    let known = match &options.command {
        None => read_baseline()?,
        // What is known is known about our client.
        Some(_) => Baseline::default(),
    };
    let suite = Suite::install(options.package_version.as_deref())?;
    let client = match &options.command {
        None => {
            execute(cargo().args(["build", "--quiet", "-p", "mcp-conformance"]))?;
            suite::our_client()
        }
        Some(command) => command.clone(),
    };
    let session = Session {
        suite: &suite,
        client: &client,
        known: &known,
    };
    say(&format!("conformance suite {}", suite.version));
    let theirs = scenarios::read_list(&suite.list()?);
    let mut complaints = scenarios::differences(&theirs);
    let wanted = wanted(&theirs, options);
    if wanted.is_empty() {
        return Err("no scenario belongs to what was chosen".to_owned());
    }
    say(&report::head());
    let mut rows = Vec::new();
    for (scenario, wire) in &wanted {
        let row = session.try_one(scenario, wire)?;
        say(&row.line());
        rows.push(row);
    }
    let mut null_client = None;
    if options.is_whole() {
        for revision in REQUIREMENTS {
            let required = scenarios::read_requirements(&suite.requirements(revision)?);
            complaints.extend(scenarios::requirement_differences(revision, &required));
            let (found, unlike) = session.try_requirements(revision, &required)?;
            rows.extend(found);
            complaints.extend(unlike);
        }
        let (passed, of) = session.try_null_client()?;
        complaints.extend(passed.iter().map(|name| {
            format!("{name} passes with a client that does nothing: name the checks that it must succeed in")
        }));
        null_client = Some((passed.len(), of));
    }
    say("");
    for line in report::summary(&rows, null_client) {
        say(&line);
    }
    if options.baseline {
        write_baseline(&known, &rows)?;
    } else {
        complaints.extend(rows.iter().filter_map(Row::complaint));
    }
    let document = report::document(&rows, &suite.version, null_client, &complaints);
    let file = target().join("conformance/report.json");
    std::fs::write(&file, format!("{document:#}\n"))
        .map_err(|error| format!("{}: {error}", file.display()))?;
    say(&format!("as a file: {}", file.display()));
    if options.keep || !complaints.is_empty() {
        say(&format!("results: {}", suite.results().display()));
    } else {
        suite.discard_results();
    }
    if complaints.is_empty() {
        return Ok(());
    }
    Err(format!("not as known:\n  {}", complaints.join("\n  ")))
}

/// What is run, wire by wire in the suite's order; scenarios that are not known come last.
fn wanted(theirs: &BTreeMap<String, Vec<String>>, options: &Options) -> Vec<(String, String)> {
    let place = |name: &str| SCENARIOS.iter().position(|scenario| scenario.name == name);
    let wire_place = |wire: &str| WIRES.iter().position(|known| *known == wire);
    let mut wanted: Vec<_> = theirs
        .iter()
        .flat_map(|(name, wires)| wires.iter().map(|wire| (name.clone(), wire.clone())))
        .filter(|(name, wire)| options.wants(name, wire))
        .collect();
    wanted.sort_by_key(|(name, wire)| {
        (
            wire_place(wire).unwrap_or(usize::MAX),
            place(name).unwrap_or(usize::MAX),
        )
    });
    wanted
}

/// A suite, a client, and what is known about it.
struct Session<'a> {
    suite: &'a Suite,
    client: &'a str,
    known: &'a Baseline,
}

impl Session<'_> {
    /// One scenario alone.
    fn try_one(&self, scenario: &str, wire: &str) -> Result<Row, String> {
        let start = Instant::now();
        let mut what = vec!["--scenario", scenario];
        // An extension belongs to no version; the suite chooses one.
        if wire != EXTENSION {
            what.extend(["--spec-version", wire]);
        }
        let name = format!("{wire}/{}", scenario.replace('/', "+"));
        let outcome = self.suite.judge(self.client, &name, &what, PER_SCENARIO)?;
        let verdict = verdict(&outcome, &outcome.checks(), scenario, true);
        Ok(self.row(Run::Single, wire, scenario, verdict, start))
    }

    /// What the frozen requirements of a revision score, and what is run with it; also what of it the suite sees differently.
    fn try_requirements(
        &self,
        revision: &str,
        required: &[String],
    ) -> Result<(Vec<Row>, Option<String>), String> {
        let start = Instant::now();
        let name = format!("requirements-{revision}");
        let what = ["--requirements", revision];
        let outcome = self.suite.judge(self.client, &name, &what, PER_SUITE)?;
        let checks = outcome.checks();
        let row = |run, scenario: &String| {
            let verdict = verdict(&outcome, &checks, scenario, false);
            self.row(run, revision, scenario, verdict, start)
        };
        let mut rows: Vec<_> = required
            .iter()
            .map(|scenario| row(Run::Requirements, scenario))
            .collect();
        let unlike = match outcome.end {
            SuiteEnd::Exit(Some(0)) => None,
            end if rows.iter().all(|row| row.verdict.passed()) => Some(format!(
                "the frozen requirements of {revision} pass here, but the suite ended with {end:?}"
            )),
            _ => None,
        };
        let others = checks.keys().filter(|name| !required.contains(name));
        rows.extend(others.map(|scenario| row(Run::NotScored, scenario)));
        Ok((rows, unlike))
    }

    /// Whatever passes with a client that does nothing, of how many.
    fn try_null_client(&self) -> Result<(Vec<String>, usize), String> {
        let what = ["--suite", "all"];
        let outcome = self.suite.judge("true", "null-client", &what, PER_SUITE)?;
        let checks = outcome.checks();
        if checks.len() < SCENARIOS.len() {
            return Err(format!(
                "the run with a client that does nothing has results of {} scenarios, expected {}",
                checks.len(),
                SCENARIOS.len()
            ));
        }
        let passed = checks
            .keys()
            .filter(|scenario| verdict(&outcome, &checks, scenario, false).passed())
            .cloned()
            .collect();
        Ok((passed, checks.len()))
    }

    fn row(&self, run: Run, wire: &str, scenario: &str, verdict: Verdict, start: Instant) -> Row {
        Row {
            run,
            wire: wire.to_owned(),
            scenario: scenario.to_owned(),
            standing: self.known.standing(scenario, wire, verdict.passed()),
            verdict,
            seconds: start.elapsed().as_secs_f64(),
        }
    }
}

/// What the files of a run say about a scenario. `alone`: then the suite's own end counts, too.
fn verdict(
    outcome: &Outcome,
    checks: &BTreeMap<String, String>,
    scenario: &str,
    alone: bool,
) -> Verdict {
    let checks = checks
        .get(scenario)
        .map(String::as_str)
        .ok_or_else(|| "the suite wrote down no checks".to_owned());
    let seen = Seen {
        checks,
        client_exit: outcome.client_exit(scenario),
        suite: alone.then_some(outcome.end),
    };
    judge(&seen, scenarios::named_checks(scenario))
}

fn read_baseline() -> Result<Baseline, String> {
    let text =
        std::fs::read_to_string(root().join(FILE)).map_err(|error| format!("{FILE}: {error}"))?;
    Baseline::read(&text)
}

fn write_baseline(known: &Baseline, rows: &[Row]) -> Result<(), String> {
    let results: Vec<(Key, Result<(), String>)> = rows
        .iter()
        .filter(|row| row.run != Run::NotScored)
        .map(|row| {
            let outcome = match row.verdict.faults.first() {
                None => Ok(()),
                Some(fault) => Err(fault.clone()),
            };
            ((row.scenario.clone(), row.wire.clone()), outcome)
        })
        .collect();
    let text = known.updated(&results).render();
    std::fs::write(root().join(FILE), text).map_err(|error| format!("{FILE}: {error}"))?;
    say(&format!("written: {FILE}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_wire_by_wire_and_leaves_nothing_out() {
        let theirs = scenarios::read_list(
            "- zebra [2026-07-28]\n- tools_call [2025-06-18,2026-07-28]\n- initialize [2025-06-18]\n- auth/dpop [extension]",
        );
        let all = wanted(&theirs, &Options::default());
        let all: Vec<_> = all
            .iter()
            .map(|(name, wire)| format!("{wire} {name}"))
            .collect();
        assert_eq!(
            all,
            [
                "2025-06-18 initialize",
                "2025-06-18 tools_call",
                "2026-07-28 tools_call",
                "2026-07-28 zebra",
                "extension auth/dpop"
            ]
        );
        let one = Options {
            scenarios: vec!["tools_call".to_owned()],
            versions: vec!["2026-07-28".to_owned()],
            ..Options::default()
        };
        assert_eq!(wanted(&theirs, &one).len(), 1);
    }
}
