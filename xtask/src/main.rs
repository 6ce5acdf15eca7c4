//! Development tasks: `cargo xtask help`.

mod ci;
mod field_cases;
mod interop;
mod layering;
mod step;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
Development tasks. Run one with `cargo xtask TASK`.

  ci [--only STEP] [--skip STEP]...   the whole gate, quick checks first
  layering                            which crate may depend on which
  tidy                                module docs, stubs, local paths, field cases, the README's commands
  test-interop [--keep-going]         our client against servers that others wrote
  help                                this text
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = args
        .split_first()
        .map_or(("help", &[][..]), |(task, rest)| (task.as_str(), rest));
    let outcome = match task {
        "ci" => ci::run(rest),
        "layering" => layering::run(),
        "tidy" => tidy::run(),
        "test-interop" => interop::run(),
        "help" | "--help" | "-h" => {
            step::say(HELP);
            Ok(())
        }
        other => {
            step::say(&format!("error: there is no task {other:?}\n\n{HELP}"));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            step::say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}
