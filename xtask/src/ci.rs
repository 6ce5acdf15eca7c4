//! The gate: every check that a change must pass, quick ones first.

use std::time::Instant;

use crate::step::{Error, cargo, did_you_mean, execute, root, say, succeeds};
use crate::{conformance, interop, layering, tidy};

type Check = fn() -> Result<(), String>;

/// The steps in order.
const STEPS: &[(&str, Check)] = &[
    ("fmt", || execute(cargo().args(["fmt", "--all", "--check"]))),
    ("layering", layering::run),
    ("tidy", tidy::run),
    ("clippy", || {
        execute(cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
    }),
    ("docs", || {
        execute(cargo().env("RUSTDOCFLAGS", "-D warnings").args([
            "doc",
            "--workspace",
            "--no-deps",
            "--document-private-items",
        ]))
    }),
    ("features", || {
        // Each subset that a host may choose: an item used only behind a feature shows here.
        let subsets = [
            ("mcp-client", ""),
            ("mcp-client", "stdio"),
            ("mcp-client", "http"),
            ("mcp-transport-http", ""),
            ("mcp-transport-http", "bundled-roots,ring"),
        ];
        for (package, features) in subsets {
            execute(cargo().args([
                "clippy",
                "-p",
                package,
                "--no-default-features",
                "--features",
                features,
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ]))?;
        }
        Ok(())
    }),
    ("alone", || {
        // Alone, because another crate of the workspace may switch on a feature that one of these needs.
        for name in layering::SANS_IO
            .iter()
            .filter(|name| root().join(name).exists())
        {
            execute(cargo().args(["check", "-p", name]))?;
        }
        Ok(())
    }),
    ("deny", deny),
    ("test", || {
        execute(
            cargo()
                .env("INSTA_UPDATE", "no")
                .args(["test", "--workspace"]),
        )
    }),
    ("interop", interop::run),
    ("conformance", conformance::run_all),
];

/// The names of the steps in order.
pub(crate) fn step_names() -> Vec<&'static str> {
    STEPS.iter().map(|(name, _)| *name).collect()
}

/// Runs the chosen steps, all of them also after a failure, and sums up at the end.
pub(crate) fn run(args: &[String]) -> Result<(), Error> {
    let (mut only, mut skip) = (Vec::new(), Vec::new());
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let list = match word.as_str() {
            "--only" => &mut only,
            "--skip" => &mut skip,
            other => {
                return Err(Error::Usage(format!(
                    "unknown option {other:?}; see `cargo xtask help`"
                )));
            }
        };
        list.push(known_step(word, words.next())?);
    }
    let (mut times, mut failures) = (Vec::new(), Vec::new());
    for (name, check) in STEPS {
        if (!only.is_empty() && !only.contains(name)) || skip.contains(name) {
            continue;
        }
        say(&format!("== {name}"));
        let start = Instant::now();
        let outcome = check();
        let seconds = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => {
                say(&format!("== {name}: passed in {seconds:.1} s"));
                times.push(format!("{name} {seconds:.1} s"));
            }
            Err(error) => {
                say(&format!("== {name}: FAILED after {seconds:.1} s: {error}"));
                failures.push((*name, error));
            }
        }
    }
    say(&format!("== passed: {}", times.join(", ")));
    if failures.is_empty() {
        return Ok(());
    }
    let lines = failures
        .iter()
        .map(|(name, error)| format!("{name}: {error}\n  again: cargo xtask ci --only {name}"));
    Err(Error::Failed(format!(
        "{} steps failed\n{}",
        failures.len(),
        lines.collect::<Vec<_>>().join("\n")
    )))
}

fn known_step(option: &str, name: Option<&String>) -> Result<&'static str, Error> {
    let Some(name) = name else {
        return Err(Error::Usage(format!("{option} needs the name of a step")));
    };
    let names = step_names();
    names
        .iter()
        .find(|known| *known == name)
        .copied()
        .ok_or_else(|| {
            Error::Usage(format!(
                "there is no step {name:?}{}; the steps are {}",
                did_you_mean(name, names.iter().copied()),
                names.join(", ")
            ))
        })
}

/// Licences, sources and duplicate versions. Too slow to build in every run, so a missing tool is said and not installed.
fn deny() -> Result<(), String> {
    if !succeeds("cargo-deny", &["--version"]) {
        say("NOT CHECKED: cargo-deny is not installed (`cargo install --locked cargo-deny`)");
        return Ok(());
    }
    execute(cargo().args(["deny", "--offline", "check", "bans", "licenses", "sources"]))
}
