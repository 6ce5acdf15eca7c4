//! All files together: one list of servers.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use super::locate::Located;
use super::model::{Entry, FileContents, Place, Problem, Scope};
use super::read::read;

/// Largest file that is read; a configuration is a few KiB.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// The servers of all files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    /// Each id once, in the order of the files.
    pub(crate) entries: Vec<Entry>,
    /// Oddities outside of any server.
    pub(crate) notes: Vec<Problem>,
    /// Files that can't be read at all.
    pub(crate) failures: Vec<Problem>,
}

impl Setup {
    /// Reads the files. Of two entries with one id the later file's counts; what the user disabled stays disabled.
    pub(crate) fn load(located: &Located) -> Self {
        let mut setup = Self::default();
        for (file, scope) in &located.files {
            match read_file(file).and_then(|text| read(&text, file, *scope)) {
                Ok(contents) => setup.add(contents),
                Err(problem) => setup.failures.push(problem),
            }
        }
        setup
    }

    fn add(&mut self, contents: FileContents) {
        self.notes.extend(contents.notes);
        for mut entry in contents.entries {
            match self
                .entries
                .iter_mut()
                .find(|earlier| earlier.id == entry.id)
            {
                Some(earlier) => {
                    if earlier.scope == Scope::User && earlier.disabled {
                        entry.disabled = true;
                    }
                    let message = format!("{:?} replaces the one at {}", entry.id, earlier.place);
                    entry.notes.push(Problem {
                        place: entry.place.clone(),
                        message,
                    });
                    *earlier = entry;
                }
                None => self.entries.push(entry),
            }
        }
    }

    pub(crate) fn get(&self, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.id == id)
    }
}

fn read_file(file: &Path) -> Result<String, Problem> {
    let text = || -> io::Result<String> {
        let mut bytes = Vec::new();
        fs::File::open(file)?
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other("the file is larger than 4 MiB"));
        }
        String::from_utf8(bytes).map_err(|_| io::Error::other("the file is not UTF-8"))
    };
    text().map_err(|error| Problem {
        place: Place {
            file: file.to_owned(),
            line: 1,
        },
        message: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_files_win_and_what_the_user_disabled_stays_so() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let user = write(
            "user.json",
            r#"{"mcpServers": {"a": {"command": "u"}, "b": {"command": "u", "disabled": true}, "c": {"command": "u"}}}"#,
        );
        let project = write(
            "project.json",
            r#"{"mcpServers": {"b": {"command": "p"}, "a": {"command": "p"}, "d": {"command": "p"}}}"#,
        );
        let located = Located {
            files: vec![
                (user, Scope::User),
                (project, Scope::Project),
                (folder.path().join("none.json"), Scope::Named),
            ],
            searched: Vec::new(),
        };
        let setup = Setup::load(&located);
        let shown: Vec<_> = setup
            .entries
            .iter()
            .map(|entry| (entry.id.as_str(), entry.scope, entry.disabled))
            .collect();
        assert_eq!(
            shown,
            [
                ("a", Scope::Project, false),
                ("b", Scope::Project, true),
                ("c", Scope::User, false),
                ("d", Scope::Project, false)
            ]
        );
        assert_eq!(setup.failures.len(), 1);
        assert!(setup.failures[0].to_string().contains("none.json:1: "));
    }
}
