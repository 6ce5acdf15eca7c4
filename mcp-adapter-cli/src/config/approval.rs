//! Remembered approvals of what project files start (C218), by fingerprint.
//!
//! One small file, readable by its owner alone. A file that can't be read approves nothing.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The store.
#[derive(Clone, Debug)]
pub(crate) struct Approvals(PathBuf);

#[derive(Default, Deserialize, Serialize)]
struct Stored {
    v: u32,
    approved: BTreeSet<String>,
}

impl Approvals {
    /// The store in the state folder.
    pub(crate) fn in_folder(state: &Path) -> Self {
        Self(state.join("approvals.json"))
    }

    pub(crate) fn contains(&self, fingerprint: &str) -> bool {
        self.read()
            .is_ok_and(|stored| stored.approved.contains(fingerprint))
    }

    /// Adds approvals. Two programs at once lose none.
    ///
    /// # Errors
    /// When the file can't be written, or is there and can't be read: it is never overwritten blindly.
    pub(crate) fn add(&self, fingerprints: &[String]) -> io::Result<()> {
        let folder = self.0.parent().unwrap_or_else(|| Path::new("."));
        fs::create_dir_all(folder)?;
        let lock = private(OpenOptions::new().create(true).truncate(false).write(true))
            .open(self.0.with_extension("lock"))?;
        lock.lock()?;
        let mut stored = match self.read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Stored::default(),
            other => other?,
        };
        stored.v = 1;
        stored.approved.extend(fingerprints.iter().cloned());
        let fresh = self.0.with_extension(format!("new-{}", std::process::id()));
        // A leftover of this name is from a process that is gone.
        let _ = fs::remove_file(&fresh);
        let mut file = private(OpenOptions::new().create_new(true).write(true)).open(&fresh)?;
        let written = serde_json::to_vec_pretty(&stored)
            .map_err(io::Error::from)
            .and_then(|text| file.write_all(&text))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&fresh, &self.0));
        if written.is_err() {
            let _ = fs::remove_file(&fresh);
        }
        written
    }

    fn read(&self) -> io::Result<Stored> {
        let mut text = String::new();
        File::open(&self.0)?
            .take(MAX_FILE_BYTES)
            .read_to_string(&mut text)?;
        Ok(serde_json::from_str(&text)?)
    }
}

#[cfg(unix)]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600)
}

#[cfg(not(unix))]
fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn approvals_are_kept_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state/mcp");
        let approvals = Approvals::in_folder(&state);
        assert!(!approvals.contains("sha256:a"));
        approvals.add(&["sha256:a".to_owned()]).unwrap();
        approvals.add(&["sha256:b".to_owned()]).unwrap();
        assert!(approvals.contains("sha256:a") && approvals.contains("sha256:b"));
        assert!(!approvals.contains("sha256:c"));
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            for file in fs::read_dir(&state).unwrap() {
                let mode = file.unwrap().metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o600);
            }
        }
    }

    #[test]
    fn c210_a_file_that_cannot_be_read_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("approvals.json");
        fs::write(&file, "not json").unwrap();
        let approvals = Approvals::in_folder(folder.path());
        assert!(!approvals.contains("sha256:a"));
        assert!(approvals.add(&["sha256:a".to_owned()]).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "not json");
    }
}
