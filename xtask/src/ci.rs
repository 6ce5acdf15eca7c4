//! The gate: every check that a change must pass, quick ones first.

use std::time::Instant;

use crate::step::{cargo, execute, exists, say};
use crate::{interop, layering, tidy};

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
        execute(cargo().args([
            "clippy",
            "-p",
            "mcp-client",
            "--no-default-features",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]))
    }),
    ("alone", || {
        for name in ["mcp-jsonrpc", "mcp-proto"] {
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
];

pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let (mut only, mut skip) = (Vec::new(), Vec::new());
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let step = || {
            words
                .clone()
                .next()
                .cloned()
                .ok_or_else(|| format!("{word} needs the name of a step"))
        };
        match word.as_str() {
            "--only" => only.push(step()?),
            "--skip" => skip.push(step()?),
            other => return Err(format!("unknown option {other:?}; see `cargo xtask help`")),
        }
        words.next();
    }
    let names: Vec<_> = STEPS.iter().map(|(name, _)| *name).collect();
    if let Some(unknown) = only
        .iter()
        .chain(&skip)
        .find(|step| !names.contains(&step.as_str()))
    {
        return Err(format!(
            "there is no step {unknown:?}; the steps are {}",
            names.join(", ")
        ));
    }
    let mut times = Vec::new();
    for (name, check) in STEPS {
        let wanted = (only.is_empty() || only.iter().any(|step| step == name))
            && !skip.iter().any(|step| step == name);
        if !wanted {
            continue;
        }
        say(&format!("== {name}"));
        let start = Instant::now();
        check().map_err(|error| {
            format!("step {name}: {error}\n  again: cargo xtask ci --only {name}")
        })?;
        times.push(format!("{name} {:.1} s", start.elapsed().as_secs_f64()));
    }
    say(&format!("== passed: {}", times.join(", ")));
    Ok(())
}

/// Licences, sources and duplicate versions. Too slow to build in every run, so a missing tool is said and not installed.
fn deny() -> Result<(), String> {
    if !exists("cargo-deny", "--version") {
        say("NOT CHECKED: cargo-deny is not installed (`cargo install --locked cargo-deny`)");
        return Ok(());
    }
    execute(cargo().args(["deny", "--offline", "check", "bans", "licenses", "sources"]))
}
