//! Finding a program the way the system would, with an error that says what was searched (C018).

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why a program was not found.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum LookUpError {
    /// The name is empty.
    #[error("the command is empty")]
    Empty,
    /// A path that leads nowhere.
    #[error("no such file: {}", path.display())]
    NoSuchFile {
        /// The path.
        path: PathBuf,
    },
    /// A path to something that can't be started.
    #[error("{} {what}", path.display())]
    NotAProgram {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        what: &'static str,
    },
    /// A name that is in no folder of the search path.
    #[error("command {program:?} not found; searched {searched}{}", also(elsewhere.as_deref()))]
    NotInPath {
        /// The name.
        program: String,
        /// What was searched.
        searched: Searched,
        /// A place outside of the search path where a program of this name is.
        elsewhere: Option<PathBuf>,
    },
}

/// The folders that were searched.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Searched(Vec<PathBuf>);

impl Searched {
    /// The folders, in order.
    pub fn folders(&self) -> &[PathBuf] {
        &self.0
    }
}

impl fmt::Display for Searched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("nothing, since PATH is not set");
        }
        f.write_str("PATH: ")?;
        for (index, folder) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ":" };
            write!(f, "{separator}{}", folder.display())?;
        }
        Ok(())
    }
}

fn also(elsewhere: Option<&Path>) -> String {
    elsewhere.map_or_else(String::new, |path| {
        format!("; there is one at {}, which is not in PATH", path.display())
    })
}

/// Finds `program`: a path relative to `cwd` if it has a slash, else a name in the folders of `path`.
///
/// # Errors
/// What was searched, and what was found instead.
pub fn look_up(
    program: &OsStr,
    path: Option<&OsStr>,
    cwd: Option<&Path>,
    home: Option<&Path>,
) -> Result<PathBuf, LookUpError> {
    if program.is_empty() {
        return Err(LookUpError::Empty);
    }
    let absolute = |path: &Path| match cwd {
        Some(cwd) if path.is_relative() => cwd.join(path),
        _ => path.to_owned(),
    };
    if Path::new(program).components().count() > 1 || program.as_encoded_bytes().contains(&b'/') {
        let file = absolute(Path::new(program));
        return match what_is(&file) {
            What::Program => Ok(file),
            What::Nothing => Err(LookUpError::NoSuchFile { path: file }),
            What::Folder => Err(LookUpError::NotAProgram {
                path: file,
                what: "is a folder",
            }),
            What::OtherFile => Err(LookUpError::NotAProgram {
                path: file,
                what: "is not executable",
            }),
        };
    }
    let folders: Vec<_> = path
        .map(|path| std::env::split_paths(path).collect())
        .unwrap_or_default();
    let mut unusable = None;
    for folder in &folders {
        let file = absolute(&folder.join(program));
        match what_is(&file) {
            What::Program => return Ok(file),
            What::OtherFile => unusable = unusable.or(Some(file)),
            What::Folder | What::Nothing => {}
        }
    }
    if let Some(path) = unusable {
        return Err(LookUpError::NotAProgram {
            path,
            what: "is not executable",
        });
    }
    Err(LookUpError::NotInPath {
        program: program.to_string_lossy().into_owned(),
        searched: Searched(folders),
        elsewhere: home.and_then(|home| elsewhere(program, home)),
    })
}

/// Where version managers and installers put programs that a desktop's PATH does not know.
fn elsewhere(program: &OsStr, home: &Path) -> Option<PathBuf> {
    const FOLDERS: &[&str] = &[
        ".local/bin",
        ".cargo/bin",
        ".bun/bin",
        ".deno/bin",
        ".volta/bin",
        ".asdf/shims",
        ".local/share/mise/shims",
        ".pyenv/shims",
    ];
    /// Folders with a folder per version, and where the programs are in that.
    const VERSIONED: &[(&str, &str)] = &[
        (".nvm/versions/node", "bin"),
        (".local/share/fnm/node-versions", "installation/bin"),
    ];
    let fixed = FOLDERS.iter().map(|folder| home.join(folder));
    let system = ["/usr/local/bin", "/opt/homebrew/bin"]
        .iter()
        .map(PathBuf::from);
    let versioned = VERSIONED.iter().flat_map(|(folder, rest)| {
        let entries = std::fs::read_dir(home.join(folder))
            .into_iter()
            .flatten()
            .flatten();
        let mut found: Vec<_> = entries.map(|entry| entry.path().join(rest)).collect();
        // The newest version, more or less: names sort well enough for a hint.
        found.sort();
        found.into_iter().rev()
    });
    fixed
        .chain(system)
        .chain(versioned)
        .map(|folder| folder.join(program))
        .find(|file| matches!(what_is(file), What::Program))
}

enum What {
    Folder,
    Nothing,
    OtherFile,
    Program,
}

fn what_is(file: &Path) -> What {
    use std::os::unix::fs::PermissionsExt as _;
    match file.metadata() {
        Err(_) => What::Nothing,
        Ok(metadata) if metadata.is_dir() => What::Folder,
        Ok(metadata) if metadata.permissions().mode() & 0o111 != 0 => What::Program,
        Ok(_) => What::OtherFile,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn c018_errors_say_what_was_searched() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let file = |name: &str, mode: u32| {
            let path = root.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        };
        file("bin/good", 0o755);
        file("bin/plain", 0o644);
        file("home/.nvm/versions/node/v20.1.0/bin/npx", 0o755);
        let bin = root.join("bin");
        let path = std::env::join_paths([Path::new("/nowhere"), &bin]).unwrap();
        let home = root.join("home");
        let find = |program: &str| {
            look_up(OsStr::new(program), Some(&path), Some(root), Some(&home)).map_err(|error| {
                error
                    .to_string()
                    .replace(&root.display().to_string(), "ROOT")
            })
        };
        assert_eq!(find("good"), Ok(bin.join("good")));
        assert_eq!(find("bin/good"), Ok(bin.join("good")));
        assert_eq!(find("./bin/good"), Ok(root.join("./bin/good")));
        let cases = [
            ("", "the command is empty"),
            ("plain", "ROOT/bin/plain is not executable"),
            ("./bin", "ROOT/./bin is a folder"),
            ("bin/missing", "no such file: ROOT/bin/missing"),
            (
                "missing",
                "command \"missing\" not found; searched PATH: /nowhere:ROOT/bin",
            ),
            (
                "npx",
                "command \"npx\" not found; searched PATH: /nowhere:ROOT/bin; \
                 there is one at ROOT/home/.nvm/versions/node/v20.1.0/bin/npx, which is not in PATH",
            ),
        ];
        for (program, expected) in cases {
            assert_eq!(find(program), Err(expected.to_owned()), "{program}");
        }
        let error = look_up(OsStr::new("x"), None, None, None).unwrap_err();
        assert_eq!(
            error.to_string(),
            "command \"x\" not found; searched nothing, since PATH is not set"
        );
    }
}
