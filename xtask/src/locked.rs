//! What is installed by lock file below the target folder.
//!
//! Everything is pinned with a hash, and no lock names a registry: whichever the package manager is set up for is asked.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::step::{execute, root, say};

/// Installs what `files` below `source` (relative to the workspace) pin into `place`, unless that was done with the same
/// files before.
pub(crate) fn install(
    source: &str,
    place: PathBuf,
    what: &str,
    files: &[&str],
    install: fn(&Path, &Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let source = root().join(source);
    let stamp = place.join("installed");
    let read = |name: &&str| {
        let path = source.join(name);
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let wanted = files
        .iter()
        .map(read)
        .collect::<Result<Vec<_>, _>>()?
        .join("\n");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(place);
    }
    say(&format!("installing {what} into {}", place.display()));
    fresh_folder(&place)?;
    install(&source, &place)?;
    std::fs::write(&stamp, wanted).map_err(|error| format!("{}: {error}", stamp.display()))?;
    Ok(place)
}

/// Empties a folder, or makes it.
pub(crate) fn fresh_folder(place: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    if place.exists() {
        std::fs::remove_dir_all(place).map_err(failed)?;
    }
    std::fs::create_dir_all(place).map_err(failed)
}

/// Copies these files and installs what their lock pins, without running anything of it.
pub(crate) fn npm_ci(source: &Path, place: &Path, files: &[&str]) -> Result<(), String> {
    for name in files {
        std::fs::copy(source.join(name), place.join(name))
            .map_err(|error| format!("{name}: {error}"))?;
    }
    execute(npm(place, "ci").args(["--ignore-scripts"]))
}

/// `npm COMMAND` in a folder, saying only what is wrong.
pub(crate) fn npm(place: &Path, command: &str) -> Command {
    let mut npm = Command::new("npm");
    npm.current_dir(place)
        .args([command, "--no-audit", "--no-fund", "--loglevel=error"]);
    npm
}

/// What is wrong with a lock of npm.
pub(crate) fn check_npm_lock(text: &str) -> Vec<String> {
    let lock: Value = serde_json::from_str(text).unwrap_or_default();
    let Some(packages) = lock["packages"].as_object().filter(|all| all.len() > 1) else {
        return vec!["has no packages".to_owned()];
    };
    let mut faults = Vec::new();
    for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
        if package["integrity"].as_str().is_none() {
            faults.push(format!("{name} has no integrity"));
        }
        if package.get("resolved").is_some() {
            faults.push(format!(
                "{name} names a registry; write the lock with `npm install --package-lock-only \
                 --omit-lockfile-registry-resolved`"
            ));
        }
    }
    faults
}

/// The version that a lock of npm pins for a package.
pub(crate) fn pinned_by_npm(lock: &str, package: &str) -> Result<String, String> {
    let text =
        std::fs::read_to_string(root().join(lock)).map_err(|error| format!("{lock}: {error}"))?;
    let read: Value = serde_json::from_str(&text).map_err(|error| format!("{lock}: {error}"))?;
    let version = read["packages"][format!("node_modules/{package}")]["version"].as_str();
    version
        .map(str::to_owned)
        .ok_or_else(|| format!("{lock} does not pin {package}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn npm_locks_that_pin_too_little_are_found() {
        let npm = |package: Value| json!({"packages": {"": {}, "node_modules/a": package}});
        let cases: &[(Value, usize)] = &[
            (npm(json!({"version": "1", "integrity": "sha512-x"})), 0),
            (npm(json!({"version": "1"})), 1),
            (
                npm(json!({"integrity": "sha512-x", "resolved": "https://somewhere/a"})),
                1,
            ),
            (json!({"packages": {"": {}}}), 1),
            (json!({}), 1),
        ];
        for (lock, count) in cases {
            let faults = check_npm_lock(&lock.to_string());
            assert_eq!(faults.len(), *count, "{lock}: {faults:?}");
        }
    }
}
