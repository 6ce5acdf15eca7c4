//! A running server process: its exit, its error output, its end.
//!
//! Each process is watched by a task on the runtime it was started on, which is told of exits by SIGCHLD and polls
//! nothing. When that task is dropped before the process is gone (the runtime was shut down, or a panic unwinds), a plain
//! thread takes the stop ladder over.

use std::process::Child;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::process::ChildStdin;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use crate::exit::Exit;
use crate::guardian;
use crate::shutdown::{Action, Input, StopLadder, StopPhase, StopPolicy};
use crate::stderr::{STDERR_TAIL_BYTES, StderrLines, StderrRing};

/// How long descendants may take to be gone after KILL.
const GROUP_GRACE: Duration = Duration::from_secs(1);

/// How long the error output of a process that is gone is still read: a descendant that left the group may hold it open.
const STDERR_AFTER_END: Duration = Duration::from_millis(100);

/// How often a thread without a runtime looks whether the leader has exited.
const BLOCKING_INTERVAL: Duration = Duration::from_millis(10);

/// A server's process. Cheap to clone; when the last clone goes, the process is stopped in the background.
#[derive(Clone, Debug)]
pub struct Process(Arc<Handle>);

#[derive(Debug)]
struct Handle(Arc<Core>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close_input();
        self.0.request(|state| state.stop = true);
    }
}

/// How a process was stopped.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct StopReport {
    /// How far the ladder had to go.
    pub phase: StopPhase,
    /// How the leader ended; `None` if it did not.
    pub exit: Option<Exit>,
    /// How long that took from the request on; zero for a process that exited by itself.
    pub elapsed: Duration,
    /// Processes of the group that could not be ended. Those that left the group, as daemons do, are not looked for.
    pub leftovers: Vec<u32>,
    /// Somebody else in this program reaped the leader (SIGCHLD is ignored, perhaps): then its number can't be trusted, and
    /// the group was neither signalled nor looked at.
    pub unchecked: bool,
}

/// What the handles and the watching task share.
#[derive(Debug)]
pub(crate) struct Core {
    pid: Pid,
    state: Mutex<State>,
    wake: Notify,
    exit: watch::Sender<Option<Exit>>,
    report: watch::Sender<Option<StopReport>>,
    stderr: StderrRing,
    /// Ends the reading of the error output.
    reading: AbortHandle,
}

#[derive(Debug)]
struct State {
    child: Child,
    ladder: StopLadder,
    input: Option<ChildStdin>,
    /// Who waits to write to the input.
    writer: Option<Waker>,
    stop: bool,
    kill: bool,
    stop_began: Option<Instant>,
    /// Somebody else reaped the leader: its number may be reused, so the group must not be signalled.
    lost: bool,
}

impl Process {
    /// Watches a child that leads its own process group. Must run on a tokio runtime.
    pub(crate) fn watch(
        child: Child,
        pid: Pid,
        input: ChildStdin,
        (stderr, reading): (StderrRing, AbortHandle),
        policy: StopPolicy,
        exits: tokio::signal::unix::Signal,
    ) -> Self {
        let state = State {
            child,
            ladder: StopLadder::new(policy),
            input: Some(input),
            writer: None,
            stop: false,
            kill: false,
            stop_began: None,
            lost: false,
        };
        let core = Arc::new(Core {
            pid,
            state: Mutex::new(state),
            wake: Notify::new(),
            exit: watch::Sender::new(None),
            report: watch::Sender::new(None),
            stderr,
            reading,
        });
        guardian::watch(core.group());
        tokio::spawn(supervise(SuperviseGuard(Arc::clone(&core)), exits));
        Self(Arc::new(Handle(core)))
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.0
    }

    /// The process id of the leader, which is the number of its group.
    pub fn pid(&self) -> u32 {
        self.core().group()
    }

    /// How it ended; `None` while it runs.
    pub fn exit(&self) -> Option<Exit> {
        *self.core().exit.borrow()
    }

    /// Waits until the leader has exited.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn exited(&self) -> Exit {
        let mut exit = self.exit_watch();
        // The sender lives in what this handle holds, so the wait can't fail.
        exit.wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|exit| *exit)
            .unwrap_or(Exit::Unknown)
    }

    pub(crate) fn exit_watch(&self) -> watch::Receiver<Option<Exit>> {
        self.core().exit.subscribe()
    }

    /// The newest error output, at most 8 KiB, cleaned of control characters.
    pub fn stderr_tail(&self) -> String {
        self.core().stderr.tail(STDERR_TAIL_BYTES)
    }

    /// Waits until the error output was read to its end, which a descendant can delay for long.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn stderr_ended(&self) {
        self.core().stderr.ended().await;
    }

    /// The lines of the error output from now on.
    pub fn stderr_lines(&self) -> StderrLines {
        self.core().stderr.lines()
    }

    /// Stops it in order: closes its input, waits, TERM to its group, waits, KILL to its group, reaps. Bounded by the
    /// graces of the policy; can be called from several places, and again: all get the same report.
    ///
    /// # Cancel safety
    /// Dropping the future does not end the stopping.
    pub async fn stop(&self) -> StopReport {
        self.core().request(|state| state.stop = true);
        self.gone().await
    }

    /// Ends it now, with its group; [`Process::stop`] and [`Process::gone`] then return soon.
    pub fn kill(&self) {
        self.core().request(|state| state.kill = true);
    }

    /// Waits until it is gone, for whatever reason, and reaped.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn gone(&self) -> StopReport {
        let mut report = self.core().report.subscribe();
        let report = report
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|report| report.clone());
        report.unwrap_or(StopReport {
            phase: StopPhase::Running,
            exit: None,
            elapsed: Duration::ZERO,
            leftovers: Vec::new(),
            unchecked: false,
        })
    }
}

impl Core {
    fn group(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn request(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.wake.notify_one();
    }

    /// Lets somebody write to the input, if it is still open.
    pub(crate) fn with_input<R>(
        &self,
        write: impl FnOnce(Option<&mut ChildStdin>) -> R,
        waker: &Waker,
    ) -> R {
        let mut state = self.state();
        state.writer = Some(waker.clone());
        write(state.input.as_mut())
    }

    pub(crate) fn close_input(&self) {
        let mut state = self.state();
        let input = state.input.take();
        let writer = state.writer.take();
        drop(state);
        drop(input);
        if let Some(writer) = writer {
            writer.wake();
        }
    }

    /// Looks at everything once: requests, the leader's exit, the time. `true` when the leader is reaped.
    fn step(&self, now: Instant) -> bool {
        let mut state = self.state();
        let mut inputs = Vec::new();
        if state.kill {
            inputs.push(Input::Kill);
        } else if state.stop {
            inputs.push(Input::Stop);
        }
        if state.stop || state.kill {
            state.stop_began.get_or_insert(now);
        }
        if let Some(exit) = self.leader_exit(&mut state) {
            inputs.push(Input::LeaderExited(exit));
        }
        inputs.push(Input::Time);
        let actions: Vec<_> = inputs
            .into_iter()
            .flat_map(|input| state.ladder.handle(input, now))
            .collect();
        let mut close_input = false;
        for action in actions {
            match action {
                Action::CloseInput => close_input = true,
                Action::TermGroup => self.signal(&state, Signal::TERM),
                Action::KillGroup => self.signal(&state, Signal::KILL),
                // The exit was seen before; from here on the number is free.
                Action::Reap => {
                    let _ = state.child.try_wait();
                }
            }
        }
        let gone = state.ladder.is_gone();
        drop(state);
        if close_input || gone {
            self.close_input();
        }
        gone
    }

    /// Looks whether the leader has exited, without reaping it.
    fn leader_exit(&self, state: &mut State) -> Option<Exit> {
        if let Some(exit) = *self.exit.borrow() {
            return Some(exit);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let exit = match rustix::process::waitid(WaitId::Pid(self.pid), options) {
            Ok(None) => return None,
            Ok(Some(status)) => match (status.exit_status(), status.terminating_signal()) {
                (Some(status), _) => Exit::Status(status),
                (None, Some(signal)) => Exit::Signal(signal),
                (None, None) => Exit::Unknown,
            },
            Err(rustix::io::Errno::INTR) => return None,
            Err(_) => {
                state.lost = true;
                Exit::Unknown
            }
        };
        self.exit.send_replace(Some(exit));
        Some(exit)
    }

    fn signal(&self, state: &State, signal: Signal) {
        if !state.lost {
            // A group that is gone already is what is wanted.
            let _ = rustix::process::kill_process_group(self.pid, signal);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.state().ladder.deadline()
    }

    /// Live processes of the group after its leader was reaped.
    fn leftovers(&self) -> Vec<u32> {
        if self.state().lost || rustix::process::test_kill_process_group(self.pid).is_err() {
            return Vec::new();
        }
        live_members(self.group())
    }

    fn finish(&self, leftovers: Vec<u32>) {
        guardian::release(self.group());
        let state = self.state();
        self.reading.abort();
        let elapsed = state
            .stop_began
            .map_or(Duration::ZERO, |began| began.elapsed());
        let report = StopReport {
            phase: state.ladder.phase(),
            exit: *self.exit.borrow(),
            elapsed,
            leftovers,
            unchecked: state.lost,
        };
        drop(state);
        tracing::debug!(target: "mcp_transport_stdio", pid = self.group(), ?report, "the server process is gone");
        self.report.send_replace(Some(report));
    }
}

/// The live processes of a group. Zombies don't count: they are somebody else's to reap.
#[cfg(target_os = "linux")]
fn live_members(group: u32) -> Vec<u32> {
    let is_member = |pid: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // `pid (name) state ppid pgrp …`; the name may hold anything.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let pgrp: u32 = fields.nth(1)?.parse().ok()?;
        (pgrp == group && !matches!(state, "Z" | "X")).then_some(pid)
    };
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(is_member)
        .collect()
}

/// The group exists; elsewhere than on Linux there is no cheap way to tell who is in it.
#[cfg(not(target_os = "linux"))]
fn live_members(group: u32) -> Vec<u32> {
    vec![group]
}

/// Runs the ladder to its end.
async fn supervise(guard: SuperviseGuard, mut exits: tokio::signal::unix::Signal) {
    let core = &guard.0;
    while !core.step(Instant::now()) {
        let deadline = core.deadline().map(tokio::time::Instant::from_std);
        tokio::select! {
            _ = exits.recv() => {}
            () = core.wake.notified() => {}
            () = sleep_until(deadline) => {}
        }
    }
    let since = Instant::now();
    let mut leftovers = core.leftovers();
    let mut pause = Duration::from_millis(1);
    while !leftovers.is_empty() && since.elapsed() < GROUP_GRACE {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(50));
        leftovers = core.leftovers();
    }
    let _ = tokio::time::timeout(STDERR_AFTER_END, core.stderr.ended()).await;
    core.finish(leftovers);
    std::mem::forget(guard);
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Hands the ladder over to a thread when the watching task is dropped.
struct SuperviseGuard(Arc<Core>);

impl Drop for SuperviseGuard {
    fn drop(&mut self) {
        let core = Arc::clone(&self.0);
        core.close_input();
        core.request(|state| state.stop = true);
        let spawned = std::thread::Builder::new()
            .name("mcp-stop".to_owned())
            .spawn(move || supervise_blocking(&core));
        if spawned.is_err() {
            self.0.request(|state| state.kill = true);
            self.0.step(Instant::now());
        }
    }
}

fn supervise_blocking(core: &Core) {
    while !core.step(Instant::now()) {
        std::thread::sleep(BLOCKING_INTERVAL);
    }
    let since = Instant::now();
    let mut leftovers = core.leftovers();
    while !leftovers.is_empty() && since.elapsed() < GROUP_GRACE {
        std::thread::sleep(BLOCKING_INTERVAL);
        leftovers = core.leftovers();
    }
    core.finish(leftovers);
}
