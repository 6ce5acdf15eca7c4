//! Rules about the repository's text that no compiler checks.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::step::{output, root, say};
use crate::{field_cases, interop, layering};

/// Files longer than this are worth a look; they are reported, not refused.
const LONG_FILE_LINES: usize = 800;

/// The README's two commands: the only ones in its first block, and CI runs both as they stand there.
const README_COMMANDS: &[&str] = &[
    "cargo run -p mcp-adapter-cli -- demo",
    "cargo test --workspace",
];

/// A file that git knows.
type Source = (PathBuf, String);

pub(crate) fn run() -> Result<(), String> {
    let sources = sources()?;
    let mut faults = faults(&sources);
    let rust: Vec<_> = sources
        .iter()
        .filter(|(path, _)| is_rust(path))
        .cloned()
        .collect();
    let design = sources
        .iter()
        .find(|(path, _)| path == Path::new("DESIGN.md"))
        .map_or("", |(_, text)| text);
    let cases = field_cases::check(&rust, design);
    faults.extend(cases.faults);
    for (path, text) in &rust {
        let lines = text.lines().count();
        if lines > LONG_FILE_LINES {
            say(&format!("long: {} has {lines} lines", path.display()));
        }
    }
    cases.lines.iter().for_each(|line| say(line));
    if faults.is_empty() {
        say(&format!("{} files are tidy", sources.len()));
        return Ok(());
    }
    Err(faults.join("\n"))
}

/// All that is wrong, the field cases left out.
fn faults(sources: &[Source]) -> Vec<String> {
    let files = sources
        .iter()
        .flat_map(|(path, text)| check_file(path, text));
    let manifests = check_manifests(sources);
    files
        .chain(manifests)
        .chain(check_commands(sources))
        .chain(interop::check_locks())
        .collect()
}

/// Text files under version control, or about to be.
fn sources() -> Result<Vec<Source>, String> {
    let mut git = Command::new("git");
    git.current_dir(root()).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]);
    let files = output(&mut git)?;
    let read = |name: &str| {
        Some((
            PathBuf::from(name),
            std::fs::read_to_string(root().join(name)).ok()?,
        ))
    };
    Ok(files
        .split('\0')
        .filter(|name| !name.is_empty())
        .filter_map(read)
        .collect())
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

fn check_file(path: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut fault =
        |line: usize, what: &str| faults.push(format!("{}:{line}: {what}", path.display()));
    if is_rust(path) && !text.trim_start().starts_with("//!") && !text.starts_with("#!/") {
        fault(
            1,
            "a module opens with `//!`: what it is for, and what it must not know",
        );
    }
    // Words are put together here, so that this file does not break its own rules.
    let machine = [["/wo", "rk/"].concat(), ["/ro", "ot/"].concat()];
    let registries = [
        ["registry.npm", "js"].concat(),
        ["pypi.", "org"].concat(),
        ["python", "hosted"].concat(),
        ["static.", "crates"].concat(),
    ];
    let silenced = [
        ["#[ig", "nore"].concat(),
        ["FIX", "ME"].concat(),
        ["XX", "X"].concat(),
        ["todo", "!("].concat(),
        ["unimpl", "emented!("].concat(),
    ];
    let outside = ["../sh", "ared"].concat();
    let may_look_outside = path.starts_with("xtask") || path.starts_with(".ci");
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if machine.iter().any(|part| line.contains(part)) || has_home_path(line) {
            fault(number, "a path of some machine");
        }
        if registries.iter().any(|part| line.contains(part)) {
            fault(number, "the host of a package registry");
        }
        if is_rust(path)
            && let Some((before, rest)) = line.split_once("Spec: ")
            && before.trim_start().starts_with("//")
            && !is_citation(rest)
        {
            fault(
                number,
                "a citation reads `Spec: VERSION page#anchor`, such as 2026-07-28 basic/lifecycle",
            );
        }
        if is_rust(path) && silenced.iter().any(|part| line.contains(part)) {
            fault(number, "a stub or a silenced test");
        }
        if !may_look_outside && line.contains(&outside) {
            fault(number, "a folder that a clone does not have");
        }
    }
    faults
}

/// `/home/NAME/` in a path.
fn has_home_path(line: &str) -> bool {
    let home = ["/ho", "me/"].concat();
    line.split(&home).skip(1).any(|rest| {
        rest.split_once('/').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase())
        })
    })
}

/// Each crate takes its lints and dependencies from the workspace; crates without I/O forbid unsafe code.
fn check_manifests(sources: &[Source]) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in sources {
        if path.file_name().is_none_or(|name| name != "Cargo.toml")
            || path == Path::new("Cargo.toml")
        {
            continue;
        }
        let shown = path.display();
        if !text.contains("[lints]\nworkspace = true") {
            faults.push(format!(
                "{shown}: takes its lints from the workspace (`[lints] workspace = true`)"
            ));
        }
        let mut in_dependencies = false;
        for line in text.lines() {
            if line.starts_with('[') {
                in_dependencies = line.contains("dependencies");
            } else if in_dependencies
                && line.contains('=')
                && !line.starts_with('#')
                && !line.contains("workspace = true")
            {
                faults.push(format!(
                    "{shown}: declare the version in the workspace: {line}"
                ));
            }
        }
    }
    for name in layering::SANS_IO {
        let lib = Path::new(name).join("src/lib.rs");
        if let Some((_, text)) = sources.iter().find(|(path, _)| *path == lib)
            && !text.contains("#![forbid(unsafe_code)]")
        {
            faults.push(format!(
                "{}: a crate without I/O forbids unsafe code",
                lib.display()
            ));
        }
    }
    faults
}

/// The first block of the README has its two commands and no other, and CI runs each on a line of its own.
fn check_commands(sources: &[Source]) -> Vec<String> {
    let text = |name: &str| {
        sources
            .iter()
            .find(|(path, _)| path == Path::new(name))
            .map_or("", |(_, text)| text.as_str())
    };
    let mut faults = Vec::new();
    let shown = first_commands(text("README.md"));
    if shown != README_COMMANDS {
        faults.push(format!(
            "README.md: its first block shows {shown:?}, expected {README_COMMANDS:?}"
        ));
    }
    for command in README_COMMANDS {
        let runs = |line: &str| {
            line.trim()
                .strip_prefix(command)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(" 2>&1 |"))
        };
        if !text(".ci/run").lines().any(runs) {
            faults.push(format!(".ci/run: does not run the README's `{command}`"));
        }
    }
    faults
}

/// The commands of the first console block, without their comments.
fn first_commands(readme: &str) -> Vec<&str> {
    readme
        .split_once("```console\n")
        .and_then(|(_, rest)| rest.split_once("```"))
        .map_or("", |(block, _)| block)
        .lines()
        .filter_map(|line| line.strip_prefix("$ "))
        .map(|line| line.split(" #").next().unwrap_or(line).trim())
        .collect()
}

/// Versions that a citation such as `Spec: 2026-07-28 basic/transports/stdio#shutdown` can name.
const SPEC_VERSIONS: &[&str] = &[
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
];

/// Whether a citation in a comment has its form: a version, then a page with or without an anchor.
fn is_citation(rest: &str) -> bool {
    let mut words = rest.split_whitespace();
    let (version, page) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    SPEC_VERSIONS.contains(&version)
        && page.starts_with(|c: char| c.is_ascii_lowercase())
        && page.contains(['/', '#'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untidy_text_is_found() {
        let cases = [
            ("a.rs", "fn main() {}\n", 1),
            ("a.rs", "//! Fine.\nfn main() {}\n", 0),
            ("a.md", "see /wor\u{6b}/x and /hom\u{65}/ann/x\n", 1),
            ("a.md", "see /home/USER/x and /workspace\n", 0),
            ("a.rs", "//! X\n// FIX\u{4d}E\n", 1),
            ("a.md", "pypi.or\u{67}\n", 1),
            ("a.md", "../share\u{64}/x\n", 1),
            ("xtask/a.md", "../share\u{64}/x\n", 0),
            (
                "a.rs",
                "//! X\n// Spec: 2026-07-28 basic/lifecycle#probe.\n",
                0,
            ),
            ("a.rs", "//! X\n// Spec: 2026-7-28 basic/lifecycle\n", 1),
            ("a.rs", "//! X\n// Spec: 2026-07-28 says so\n", 1),
        ];
        for (path, text, count) in cases {
            let faults = check_file(Path::new(path), text);
            assert_eq!(faults.len(), count, "{path} {text}: {faults:?}");
        }
    }

    #[test]
    fn manifests_are_checked() {
        let source = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
        let good = "[dependencies]\nserde.workspace = true\n\n[lints]\nworkspace = true\n";
        assert!(check_manifests(&[source("a/Cargo.toml", good)]).is_empty());
        assert_eq!(
            check_manifests(&[source("a/Cargo.toml", "[dependencies]\nserde = \"1\"\n")]).len(),
            2
        );
        assert_eq!(
            check_manifests(&[source("mcp-proto/src/lib.rs", "//! X\n")]).len(),
            1
        );
    }

    #[test]
    fn the_two_commands_stand_in_the_readme_and_in_ci() {
        let source = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
        let [demo, tests] = README_COMMANDS else {
            panic!("two commands")
        };
        let good = format!("x\n```console\n$ {demo}   # a\n$ {tests}\n```\n");
        let script = format!("{demo}\n{tests} 2>&1 | tee log\n");
        let one = format!("```console\n$ {tests}\n```\n");
        let more = good.replace("\n$", "\n$ ls\n$");
        let other = script.replace("test --workspace", "test --workspace --release");
        for (readme, script, faults) in [
            (good.as_str(), script.as_str(), 0),
            (&one, &script, 1),
            (&more, &script, 1),
            (&good, &other, 1),
            ("", "", 3),
        ] {
            let found = check_commands(&[source("README.md", readme), source(".ci/run", script)]);
            assert_eq!(found.len(), faults, "{readme} {script}: {found:?}");
        }
    }

    #[test]
    fn this_repository_is_tidy() {
        let faults = faults(&sources().unwrap());
        assert!(faults.is_empty(), "{faults:#?}");
    }
}
