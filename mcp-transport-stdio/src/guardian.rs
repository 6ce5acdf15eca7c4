//! Ends the servers of a host that was killed.
//!
//! When a host dies without a chance to stop its servers, their input closes with it, which most of them obey. For those
//! that don't, and for their descendants, one small `/bin/sh` per host stands by from the first server on: it knows the
//! process groups that run, reads from a pipe that the host holds, and when that pipe ends it sends TERM and soon after
//! KILL to every group still listed. After an orderly end nothing is listed, and it exits at once.
//!
//! It needs no helper program and no unsafe code, and works however the host ends. Other ways were looked at: a
//! parent-death signal (Linux) is tied to the thread that started the process and does not reach descendants; control
//! groups need rights that a host may not have.
//!
//! A host that can't start it goes on without, with a warning.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How long a group may take to end after TERM, in seconds, as a word of the script.
const GRACE: &str = "0.3";

/// Reads `+GROUP` and `-GROUP` lines until the pipe ends.
const SCRIPT: &str = r#"
trap '' INT TERM HUP QUIT TSTP
listed=' '
while IFS= read -r line; do
    number=${line#?}
    case $line in
        +*) listed="$listed$number " ;;
        -*) case $listed in *" $number "*) listed="${listed%% "$number" *} ${listed#* "$number" }" ;; esac ;;
    esac
done
[ -n "${listed#"${listed%%[! ]*}"}" ] || exit 0
for number in $listed; do kill -s TERM -- "-$number"; done
sleep "$1" || sleep 1
for number in $listed; do kill -s KILL -- "-$number"; done
"#;

static GUARDIAN: Mutex<Guardian> = Mutex::new(Guardian {
    child: None,
    groups: BTreeSet::new(),
});

struct Guardian {
    child: Option<Child>,
    groups: BTreeSet<u32>,
}

fn lock() -> MutexGuard<'static, Guardian> {
    GUARDIAN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The process id of this host's guardian, once there is one: so that it can be told from what a server left behind.
pub fn pid() -> Option<u32> {
    lock().child.as_ref().map(Child::id)
}

/// Puts a process group on the list.
pub(crate) fn watch(group: u32) {
    let mut guardian = lock();
    guardian.groups.insert(group);
    if let Err(error) = guardian.tell(&format!("+{group}\n")) {
        tracing::warn!(
            target: "mcp_transport_stdio", %error,
            "the guardian could not be started; servers may outlive this program if it is killed"
        );
    }
}

/// Takes a process group off the list.
pub(crate) fn release(group: u32) {
    let mut guardian = lock();
    guardian.groups.remove(&group);
    if guardian.child.is_some() {
        // If that fails the guardian is gone, and the next one is told only what is on the list.
        let _ = guardian.tell(&format!("-{group}\n"));
    }
}

impl Guardian {
    /// Writes a line; starts the guardian if there is none, or the one there was has been killed.
    fn tell(&mut self, line: &str) -> io::Result<()> {
        if let Some(child) = &mut self.child
            && let Some(pipe) = &mut child.stdin
            && pipe.write_all(line.as_bytes()).is_ok()
        {
            return Ok(());
        }
        if let Some(mut dead) = self.child.take() {
            // Its pipe is broken, or full since it was stopped: it is of no use any more.
            drop(dead.stdin.take());
            let _ = dead.kill();
            let _ = dead.wait();
        }
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "mcp-guardian", GRACE])
            .current_dir("/")
            .env_clear();
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A group of its own: what is sent to the host's group from a terminal must not end it.
        let mut child = command.process_group(0).spawn()?;
        if let Some(pipe) = &child.stdin {
            // A guardian that was stopped must not hold up the host.
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        let all: String = self
            .groups
            .iter()
            .map(|group| format!("+{group}\n"))
            .collect();
        let told = child
            .stdin
            .as_mut()
            .map_or(Ok(()), |pipe| pipe.write_all(all.as_bytes()));
        self.child = Some(child);
        told
    }
}
