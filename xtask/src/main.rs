//! Development tasks: `cargo xtask help`.

mod ci;
mod conformance;
mod field_cases;
mod interop;
mod layering;
mod locked;
mod step;
mod tidy;

use std::process::ExitCode;

use crate::step::Error;

/// The tasks with what they do, in the order of the help.
const TASKS: &[(&str, &str, &str)] = &[
    (
        "ci",
        "[--only STEP]... [--skip STEP]...",
        "the whole gate, quick checks first",
    ),
    ("layering", "", "which crate may depend on which"),
    (
        "tidy",
        "",
        "module docs, stubs, local paths, locks, field cases, the README's commands",
    ),
    (
        "test-interop",
        "",
        "our client against servers that others wrote",
    ),
    (
        "test-conformance",
        conformance::USAGE,
        "our client, judged by the official suite",
    ),
    ("help", "", "this text"),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = args
        .split_first()
        .map_or(("help", &[][..]), |(task, rest)| (task.as_str(), rest));
    match run(task, rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            step::say(&format!("error: {error}"));
            match error {
                Error::Usage(_) => ExitCode::from(2),
                Error::Failed(_) => ExitCode::FAILURE,
            }
        }
    }
}

fn run(task: &str, rest: &[String]) -> Result<(), Error> {
    if !matches!(task, "ci" | "test-conformance")
        && let Some(word) = rest.first()
    {
        return Err(Error::Usage(format!(
            "the task {task} takes no {word:?}\n\n{}",
            help()
        )));
    }
    match task {
        "ci" => ci::run(rest),
        "layering" => layering::run().map_err(Error::Failed),
        "tidy" => tidy::run().map_err(Error::Failed),
        "test-interop" => interop::run().map_err(Error::Failed),
        "test-conformance" => conformance::run(rest),
        "help" | "--help" | "-h" => {
            step::say(&help());
            Ok(())
        }
        other => {
            let names = TASKS.iter().map(|(name, ..)| *name);
            Err(Error::Usage(format!(
                "there is no task {other:?}{}\n\n{}",
                step::did_you_mean(other, names),
                help()
            )))
        }
    }
}

fn help() -> String {
    let mut text = "Development tasks. Run one with `cargo xtask TASK`.\n\n".to_owned();
    for (name, options, what) in TASKS {
        let usage = format!("{name} {options}");
        // A long one has a line of its own.
        let gap = if usage.len() > 40 {
            "\n                                           "
        } else {
            " "
        };
        text.push_str(&format!("  {usage:40}{gap}{what}\n"));
    }
    text.push_str(&format!("\nSteps of ci: {}", ci::step_names().join(", ")));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_are_bad_usage_and_name_the_nearest() {
        let cases: &[(&[&str], &str)] = &[
            (&["tidi"], "did you mean \"tidy\"?"),
            (&["test-interopp"], "did you mean \"test-interop\"?"),
            (&["completely-else"], "there is no task"),
            (&["tidy", "--fast"], "takes no \"--fast\""),
            (&["ci", "--only"], "--only needs the name of a step"),
            (&["ci", "--only", "clipy"], "did you mean \"clippy\"?"),
            (&["ci", "--skip", "nothing"], "there is no step"),
            (&["ci", "fmt"], "unknown option \"fmt\""),
        ];
        for (words, expected) in cases {
            let rest: Vec<_> = words[1..].iter().map(|word| (*word).to_owned()).collect();
            match run(words[0], &rest) {
                Err(Error::Usage(text)) => assert!(text.contains(expected), "{words:?}: {text}"),
                other => panic!("{words:?}: {other:?}"),
            }
        }
    }
}
