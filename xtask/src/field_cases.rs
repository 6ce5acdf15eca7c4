//! Which of the handed field cases a test names, and which the design explains.
//!
//! The cases are a table outside of the repository, one row per fault that users met. A row is covered when a test names
//! its id, or when DESIGN.md lists it with the reason why no test does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::step::root;

/// Where the table is, if it is here at all.
const TABLE: &str = "../shared/cases/field-cases.md";

/// Groups that must be covered whole by now.
const DONE_GROUPS: &[char] = &['A', 'B', 'C', 'D', 'E', 'F'];

/// What is covered and what is not.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) lines: Vec<String>,
    pub(crate) faults: Vec<String>,
}

/// Compares the table with what `sources` (Rust files) and DESIGN.md name. Without a table there is nothing to compare.
pub(crate) fn check(sources: &[(PathBuf, String)], design: &str) -> Report {
    let table = match std::fs::read_to_string(root().join(TABLE)) {
        Ok(table) => table,
        Err(_) if std::env::var_os("CI").is_some_and(|ci| ci == "true") => {
            return Report {
                faults: vec![format!("the field cases are missing ({TABLE})")],
                ..Report::default()
            };
        }
        Err(_) => {
            return Report {
                lines: vec!["field cases: no table here, not checked".to_owned()],
                ..Report::default()
            };
        }
    };
    compare(&table, &tested(sources), &ids(design))
}

/// Ids that stand in tests: in a `tests` folder, or behind `#[cfg(test)]` or the start of a test module.
fn tested(sources: &[(PathBuf, String)]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (path, text) in sources {
        let in_tests = path.components().any(|part| part.as_os_str() == "tests");
        let text = if in_tests {
            text
        } else {
            text.split_once("#[cfg(test)]")
                .map_or("", |(_, tests)| tests)
        };
        found.extend(ids(text));
    }
    found
}

/// Ids such as `C001` or `c001` in a text, as they stand in the table.
fn ids(text: &str) -> BTreeSet<String> {
    let bytes = text.as_bytes();
    let mut found = BTreeSet::new();
    for (at, window) in bytes.windows(4).enumerate() {
        let starts = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        let ends = bytes
            .get(at + 4)
            .is_none_or(|byte| !byte.is_ascii_alphanumeric());
        if starts
            && ends
            && matches!(window[0], b'C' | b'c')
            && window[1..].iter().all(u8::is_ascii_digit)
        {
            found.insert(String::from_utf8_lossy(window).to_uppercase());
        }
    }
    found
}

fn compare(table: &str, tested: &BTreeSet<String>, explained: &BTreeSet<String>) -> Report {
    let mut groups: BTreeMap<char, [Vec<String>; 3]> = BTreeMap::new();
    let mut group = None;
    for line in table.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            group = title
                .chars()
                .next()
                .filter(|_| title.get(1..2) == Some("."));
        }
        let id = line
            .strip_prefix("| ")
            .and_then(|rest| rest.split(' ').next())
            .filter(|id| ids(id).contains(*id));
        if let (Some(group), Some(id)) = (group, id) {
            let kind = if tested.contains(id) {
                0
            } else {
                1 + usize::from(!explained.contains(id))
            };
            groups.entry(group).or_default()[kind].push(id.to_owned());
        }
    }
    let mut report = Report::default();
    if groups.is_empty() {
        report
            .faults
            .push("the table of field cases could not be read".to_owned());
    }
    let mut sums = [0; 3];
    for (group, [tested, explained, open]) in &groups {
        for (sum, ids) in sums.iter_mut().zip([tested, explained, open]) {
            *sum += ids.len();
        }
        report.lines.push(format!(
            "field cases {group}: {} tested, {} explained in DESIGN.md, {} open",
            tested.len(),
            explained.len(),
            open.len()
        ));
        if DONE_GROUPS.contains(group) && !open.is_empty() {
            report.faults.push(format!(
                "field cases of group {group} without a test or a reason: {}",
                open.join(", ")
            ));
        }
    }
    report.lines.push(format!(
        "field cases in all: {} tested, {} explained, {} open",
        sums[0], sums[1], sums[2]
    ));
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_and_rows_are_judged() {
        let found = ids("fn c001_x() {} // C002, xC003 C0045 (C005)");
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["C001", "C002", "C005"]
        );
        let table = "## A. stdio\n| id | x |\n|---|---|\n| C001 | a |\n| C002 | b |\n| C003 | c |\n## Z. later\n| C009 | d |\n";
        let set = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        let report = compare(table, &set(&["C001"]), &set(&["C002"]));
        assert_eq!(
            report.faults,
            ["field cases of group A without a test or a reason: C003"]
        );
        assert_eq!(
            report.lines[0],
            "field cases A: 1 tested, 1 explained in DESIGN.md, 1 open"
        );
        assert!(!compare("", &set(&[]), &set(&[])).faults.is_empty());
    }
}
