//! Filling in the variables of one entry.

use std::path::{Path, PathBuf};

use super::expand::{Origin, expand};
use super::locate::Folders;
use super::model::{Entry, Place, Problem, Scope};

/// Fills in variables and remembers which.
pub(crate) struct Filler<'a> {
    place: &'a Place,
    file_folder: &'a Path,
    /// What the entry belongs to: its project, or where the user stands.
    base: &'a Path,
    home: Option<&'a Path>,
    variable: &'a dyn Fn(&str) -> Option<String>,
    expansions: Vec<(String, String, Origin)>,
}

impl<'a> Filler<'a> {
    pub(crate) fn new(
        entry: &'a Entry,
        folders: &'a Folders,
        variable: &'a dyn Fn(&str) -> Option<String>,
    ) -> Self {
        let file_folder = entry.place.file.parent().unwrap_or(&folders.current);
        let base = match entry.scope {
            // What a project's file starts does not depend on where in the project one stands.
            Scope::Project => project_folder(file_folder),
            Scope::Named | Scope::User => &folders.current,
        };
        Self {
            place: &entry.place,
            file_folder,
            base,
            home: folders.home.as_deref(),
            variable,
            expansions: Vec::new(),
        }
    }

    /// The folder that the entry's file is in.
    pub(crate) fn folder(&self) -> &'a Path {
        self.file_folder
    }

    /// The folder that the entry belongs to.
    pub(crate) fn base(&self) -> PathBuf {
        self.base.to_owned()
    }

    /// The text of a key with its variables filled in.
    ///
    /// # Errors
    /// Names the key and the variable that has no value.
    pub(crate) fn fill(&mut self, key: &str, text: &str) -> Result<String, Problem> {
        let path_text = |path: &Path| path.to_str().map(str::to_owned);
        let lookup = |name: &str| match name {
            "configDir" => path_text(self.file_folder),
            "userHome" => self.home.and_then(path_text),
            "workspaceFolder" => path_text(self.base),
            _ => (self.variable)(name),
        };
        match expand(text, &lookup) {
            Ok(expanded) => {
                let used = expanded.used.into_iter();
                self.expansions
                    .extend(used.map(|(name, origin)| (key.to_owned(), name, origin)));
                Ok(expanded.text)
            }
            Err(error) => Err(Problem {
                place: self.place.clone(),
                message: format!("{key}: {error}"),
            }),
        }
    }

    /// Variables filled in: key of the entry, name, origin.
    pub(crate) fn into_expansions(self) -> Vec<(String, String, Origin)> {
        self.expansions
    }
}

/// The project that a file in this folder belongs to.
fn project_folder(file_folder: &Path) -> &Path {
    if file_folder.file_name().is_some_and(|name| name == ".mcp") {
        file_folder.parent().unwrap_or(file_folder)
    } else {
        file_folder
    }
}
