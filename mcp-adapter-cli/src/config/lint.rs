//! Command lines that usually don't work as meant. Hints only: nothing is rewritten.

/// What is suspicious about a command line.
pub(crate) fn lint(command: &str, args: &[String]) -> Vec<String> {
    let mut hints = Vec::new();
    let program = program_name(command);
    let has = |names: &[&str]| args.iter().any(|arg| names.contains(&arg.as_str()));
    match program.as_str() {
        "npx" if !has(&["-y", "--yes", "--no", "--no-install"]) => hints.push(
            "npx without -y asks whether to install, and takes the first message for the answer"
                .to_owned(),
        ),
        "docker" | "podman" if args.first().is_some_and(|arg| arg == "run") => {
            if !has_short_flag(args, 'i') && !has(&["--interactive", "--interactive=true"]) {
                hints.push(format!(
                    "{program} run without -i gives the server no input; it ends at once"
                ));
            }
            if !has(&["--rm", "--rm=true"]) {
                hints.push(format!(
                    "{program} run without --rm leaves a container behind after each start"
                ));
            }
            if has_short_flag(args, 't') || has(&["--tty", "--tty=true"]) {
                hints.push(format!(
                    "{program} run with -t puts a terminal in between, which alters messages"
                ));
            }
        }
        _ => {}
    }
    if args.is_empty() && command.split_whitespace().count() > 1 && !command.contains(['/', '\\']) {
        hints
            .push("\"command\" is the program alone; put the other words into \"args\"".to_owned());
    }
    hints
}

/// The name of a program without folder and extension, in lower case.
fn program_name(command: &str) -> String {
    let name = command.rsplit(['/', '\\']).next().unwrap_or_default();
    let name = name.to_lowercase();
    let stem = [".exe", ".cmd", ".bat"]
        .iter()
        .find_map(|end| name.strip_suffix(end));
    stem.unwrap_or(&name).to_owned()
}

/// Whether `-i`, or a bundle such as `-it`, stands among the options before the image.
fn has_short_flag(args: &[String], flag: char) -> bool {
    args.iter().any(|arg| {
        let letters = arg.strip_prefix('-').unwrap_or_default();
        let bundle = !letters.is_empty() && letters.chars().all(|c| "itdP".contains(c));
        bundle && letters.contains(flag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c011_c025_suspicious_commands_get_hints() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            ("npx", &["-y", "server"], &[]),
            ("npx", &["server"], &["npx without -y"]),
            ("C:\\node\\npx.cmd", &["server"], &["npx without -y"]),
            ("docker", &["run", "-i", "--rm", "img"], &[]),
            ("docker", &["run", "img"], &["without -i", "without --rm"]),
            (
                "/usr/bin/docker",
                &["run", "-it", "--rm", "img"],
                &["with -t"],
            ),
            ("docker", &["compose", "up"], &[]),
            ("npx -y server", &[], &["the program alone"]),
            ("/opt/my tools/server", &[], &[]),
            ("uvx", &["server"], &[]),
        ];
        for (command, args, expected) in cases {
            let args: Vec<_> = args.iter().map(|arg| (*arg).to_owned()).collect();
            let hints = lint(command, &args);
            assert_eq!(hints.len(), expected.len(), "{command} {args:?}: {hints:?}");
            for (hint, part) in hints.iter().zip(*expected) {
                assert!(hint.contains(part), "{hint}");
            }
        }
    }
}
