//! Which files are read: the ones the user names and no others, else the nearest project file and the user's own.
//!
//! Files of other programs are never read.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::model::Scope;

/// What a project's file may be called, best first.
const PROJECT_NAMES: [&str; 3] = [".mcp.json", "mcp.json", ".mcp/mcp.json"];
/// The variable that names files, as [`env::split_paths`] takes them.
pub(crate) const CONFIG_VARIABLE: &str = "MCPLINE_CONFIG";

/// Where to look.
#[derive(Clone, Debug, Default)]
pub(crate) struct Folders {
    /// The working folder.
    pub(crate) current: PathBuf,
    /// The user's home.
    pub(crate) home: Option<PathBuf>,
    /// The user's configuration of this program.
    pub(crate) config: Option<PathBuf>,
    /// What this program remembers; shared by every host of the project, since approvals are (D17).
    pub(crate) state: Option<PathBuf>,
}

impl Folders {
    /// From the environment, by the XDG rules on every platform but Windows.
    pub(crate) fn from_environment() -> std::io::Result<Self> {
        let variable = |name: &str| env::var_os(name).map(PathBuf::from);
        // The XDG rules ignore what is not absolute.
        let absolute = |name: &str| variable(name).filter(|path| path.is_absolute());
        let home = env::home_dir().filter(|home| home.is_absolute());
        let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
        let (config, state) = if cfg!(windows) {
            (absolute("APPDATA"), absolute("LOCALAPPDATA"))
        } else {
            (
                absolute("XDG_CONFIG_HOME").or_else(|| below_home(".config")),
                absolute("XDG_STATE_HOME").or_else(|| below_home(".local/state")),
            )
        };
        Ok(Self {
            current: env::current_dir()?,
            config: config.map(|path| path.join("mcpline")),
            state: state.map(|path| path.join("mcp")),
            home,
        })
    }

    /// The user's own file, whether it exists or not.
    pub(crate) fn user_file(&self) -> Option<PathBuf> {
        self.config.as_ref().map(|folder| folder.join("mcp.json"))
    }
}

/// The files to read, the more important last; and where was looked.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Located {
    pub(crate) files: Vec<(PathBuf, Scope)>,
    /// Where a project's file was looked for.
    pub(crate) searched: Vec<PathBuf>,
}

/// Finds the files. Files that were named are not checked for existence: reading them will say it better.
pub(crate) fn locate(
    named: &[PathBuf],
    variable: Option<&OsStr>,
    folders: &Folders,
    exists: &dyn Fn(&Path) -> bool,
) -> Located {
    let from_variable = || variable.map(|paths| env::split_paths(paths).collect::<Vec<_>>());
    let named = if named.is_empty() {
        from_variable().unwrap_or_default()
    } else {
        named.to_vec()
    };
    let mut located = Located::default();
    let named: Vec<_> = named
        .into_iter()
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if !named.is_empty() {
        let whole = |path: PathBuf| (folders.current.join(path), Scope::Named);
        located.files = named.into_iter().map(whole).collect();
        return located;
    }
    if let Some(file) = folders.user_file().filter(|file| exists(file)) {
        located.files.push((file, Scope::User));
    }
    for folder in project_folders(&folders.current, exists) {
        let mut candidates = PROJECT_NAMES.iter().map(|name| folder.join(name));
        let found = candidates.find(|path| exists(path));
        located.searched.push(folder.to_owned());
        if let Some(file) = found {
            located.files.push((file, Scope::Project));
            break;
        }
    }
    located
}

/// The working folder and those above it up to the root of the repository. Outside of a repository only the working
/// folder counts: a folder above may belong to somebody else.
fn project_folders<'a>(
    current: &'a Path,
    exists: &dyn Fn(&Path) -> bool,
) -> impl Iterator<Item = &'a Path> {
    let depth = current
        .ancestors()
        .position(|folder| exists(&folder.join(".git")));
    current.ancestors().take(depth.unwrap_or(0) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(named: &[&str], variable: Option<&str>, existing: &[&str]) -> Vec<(String, Scope)> {
        let folders = Folders {
            current: "/h/ada/repo/src".into(),
            config: Some("/h/ada/.config/mcpline".into()),
            ..Folders::default()
        };
        let named: Vec<_> = named.iter().map(PathBuf::from).collect();
        let exists = |path: &Path| existing.iter().any(|known| Path::new(known) == path);
        let located = locate(&named, variable.map(OsStr::new), &folders, &exists);
        let shown = |(path, scope): (PathBuf, Scope)| (path.display().to_string(), scope);
        located.files.into_iter().map(shown).collect()
    }

    fn found(files: &[(&str, Scope)]) -> Vec<(String, Scope)> {
        files
            .iter()
            .map(|(path, scope)| ((*path).to_owned(), *scope))
            .collect()
    }

    #[test]
    fn named_files_exclude_all_others() {
        let all = [
            "/h/ada/repo/.mcp.json",
            "/h/ada/.config/mcpline/mcp.json",
            "/h/ada/repo/.git",
        ];
        let files = check(&["x.json", "/y.json"], Some("/z.json"), &all);
        assert_eq!(
            files,
            found(&[
                ("/h/ada/repo/src/x.json", Scope::Named),
                ("/y.json", Scope::Named)
            ])
        );
        let files = check(&[], Some("/z.json:w.json"), &all);
        assert_eq!(
            files,
            found(&[
                ("/z.json", Scope::Named),
                ("/h/ada/repo/src/w.json", Scope::Named)
            ])
        );
    }

    #[test]
    fn the_nearest_project_file_wins_up_to_the_repository() {
        let user = "/h/ada/.config/mcpline/mcp.json";
        let git = "/h/ada/repo/.git";
        let project = |path| found(&[(path, Scope::Project)]);
        let cases: &[(&[&str], Vec<(String, Scope)>)] = &[
            (
                &[git, "/h/ada/repo/.mcp.json"],
                project("/h/ada/repo/.mcp.json"),
            ),
            (
                &[git, "/h/ada/repo/mcp.json", "/h/ada/repo/.mcp/mcp.json"],
                project("/h/ada/repo/mcp.json"),
            ),
            (
                &[
                    git,
                    "/h/ada/repo/.mcp.json",
                    "/h/ada/repo/src/.mcp/mcp.json",
                ],
                project("/h/ada/repo/src/.mcp/mcp.json"),
            ),
            (&[git, "/h/ada/.mcp.json"], vec![]),
            (&["/h/ada/repo/.mcp.json"], vec![]),
            (
                &["/h/ada/repo/src/mcp.json"],
                project("/h/ada/repo/src/mcp.json"),
            ),
            (
                &[git, user, "/h/ada/repo/.mcp.json"],
                found(&[
                    (user, Scope::User),
                    ("/h/ada/repo/.mcp.json", Scope::Project),
                ]),
            ),
        ];
        for (existing, files) in cases {
            assert_eq!(&check(&[], None, existing), files, "{existing:?}");
        }
    }
}
