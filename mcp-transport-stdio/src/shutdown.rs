//! The stop ladder as a pure machine: what happened and the time go in, what to do and the next deadline come out.
//!
//! | Phase | Input | Action | Next |
//! |---|---|---|---|
//! | Running | stop | close the input | InputClosed, until the close grace ends |
//! | Running | kill | KILL the group | Killed |
//! | Running | the leader exited | KILL the group, or leave it (a clean exit, if so chosen), reap | Gone |
//! | InputClosed | time | TERM the group | Terminated, until the term grace ends |
//! | Terminated | time | KILL the group | Killed, until the kill grace ends |
//! | InputClosed, Terminated, Killed | the leader exited | KILL the group, reap | Gone |
//! | InputClosed, Terminated | kill | KILL the group | Killed |
//! | Killed | time | give up | Gone, leader left behind |
//! | Gone | any | – | Gone |
//!
//! The group is always signalled *before* its leader is reaped: until then the leader's number, which is the group's,
//! can't belong to anybody else. After that it is never signalled again.
//!
//! Rules: STDIO-20, C022, C025 (a container's client gets its time), C026, C027.

use std::fmt;
use std::time::{Duration, Instant};

use crate::exit::Exit;

/// How a server is stopped.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct StopPolicy {
    /// How long it may take to exit after its input was closed. Default 2 s.
    pub close_grace: Duration,
    /// How long it may take after TERM. Default 2 s.
    pub term_grace: Duration,
    /// How long the system may take to end it after KILL. Default 2 s.
    pub kill_grace: Duration,
    /// Whether processes that a server started are left alone when the server exits by itself with status 0 (C026).
    /// Default: no, descendants die with it.
    pub release_on_clean_exit: bool,
}

impl Default for StopPolicy {
    fn default() -> Self {
        Self {
            close_grace: Duration::from_secs(2),
            term_grace: Duration::from_secs(2),
            kill_grace: Duration::from_secs(2),
            release_on_clean_exit: false,
        }
    }
}

/// How far a stop had to go.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
#[non_exhaustive]
pub enum StopPhase {
    /// The server runs, or exited by itself.
    Running,
    /// Its input was closed.
    InputClosed,
    /// TERM was sent.
    Terminated,
    /// KILL was sent.
    Killed,
}

impl fmt::Display for StopPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "by itself",
            Self::InputClosed => "after its input was closed",
            Self::Terminated => "after TERM",
            Self::Killed => "after KILL",
        })
    }
}

/// What happened.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Input {
    /// Stop it in order.
    Stop,
    /// End it now.
    Kill,
    /// The leader exited; it was not reaped yet.
    LeaderExited(Exit),
    /// Time has passed.
    Time,
}

/// What to do.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Close the server's input.
    CloseInput,
    /// Send KILL to the group.
    KillGroup,
    /// Reap the leader: it is over.
    Reap,
    /// Send TERM to the group.
    TermGroup,
}

/// A server on its way from running to gone.
#[derive(Debug)]
pub struct StopLadder {
    policy: StopPolicy,
    phase: StopPhase,
    deadline: Option<Instant>,
    gone: bool,
}

impl StopLadder {
    /// A server that runs.
    pub fn new(policy: StopPolicy) -> Self {
        Self {
            policy,
            phase: StopPhase::Running,
            deadline: None,
            gone: false,
        }
    }

    /// Takes an input; carry out the actions in order.
    pub fn handle(&mut self, input: Input, now: Instant) -> Vec<Action> {
        if self.gone {
            return Vec::new();
        }
        match (self.phase, input) {
            (StopPhase::Running, Input::Stop) => {
                self.enter(StopPhase::InputClosed, self.policy.close_grace, now);
                vec![Action::CloseInput]
            }
            (phase, Input::Kill) if phase != StopPhase::Killed => self.kill(now),
            (phase, Input::LeaderExited(exit)) => {
                self.gone = true;
                self.deadline = None;
                let clean = phase == StopPhase::Running && exit.is_success();
                if clean && self.policy.release_on_clean_exit {
                    vec![Action::Reap]
                } else {
                    vec![Action::KillGroup, Action::Reap]
                }
            }
            (phase, Input::Time) if self.deadline.is_some_and(|deadline| deadline <= now) => {
                match phase {
                    StopPhase::InputClosed => {
                        self.enter(StopPhase::Terminated, self.policy.term_grace, now);
                        vec![Action::TermGroup]
                    }
                    StopPhase::Terminated => self.kill(now),
                    StopPhase::Killed | StopPhase::Running => {
                        self.gone = true;
                        self.deadline = None;
                        vec![Action::Reap]
                    }
                }
            }
            _ => Vec::new(),
        }
    }

    /// When to hand in [`Input::Time`].
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// How far it had to go.
    pub fn phase(&self) -> StopPhase {
        self.phase
    }

    /// Whether it is over.
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    fn kill(&mut self, now: Instant) -> Vec<Action> {
        self.enter(StopPhase::Killed, self.policy.kill_grace, now);
        vec![Action::KillGroup]
    }

    fn enter(&mut self, phase: StopPhase, grace: Duration, now: Instant) {
        self.phase = phase;
        self.deadline = now.checked_add(grace);
    }
}

#[cfg(test)]
mod tests {
    use super::Action::{CloseInput, KillGroup, Reap, TermGroup};
    use super::Input::{Kill, LeaderExited, Stop, Time};
    use super::*;

    /// Inputs with the second they come at, and the actions expected of each.
    fn check(policy: StopPolicy, steps: &[(u64, Input, &[Action])], phase: StopPhase, gone: bool) {
        let start = Instant::now();
        let mut ladder = StopLadder::new(policy);
        for (index, (at, input, expected)) in steps.iter().enumerate() {
            let actions = ladder.handle(*input, start + Duration::from_secs(*at));
            assert_eq!(&actions, expected, "step {index}: {input:?}");
        }
        assert_eq!((ladder.phase(), ladder.is_gone()), (phase, gone));
        assert!(!gone || ladder.deadline().is_none());
    }

    #[test]
    fn the_table_row_by_row() {
        let policy = StopPolicy::default();
        let clean = LeaderExited(Exit::Status(0));
        let crash = LeaderExited(Exit::Status(3));
        check(
            policy,
            &[(0, Stop, &[CloseInput]), (1, clean, &[KillGroup, Reap])],
            StopPhase::InputClosed,
            true,
        );
        check(
            policy,
            &[
                (0, Stop, &[CloseInput]),
                (1, Time, &[]),
                (2, Time, &[TermGroup]),
                (3, Time, &[]),
                (3, clean, &[KillGroup, Reap]),
            ],
            StopPhase::Terminated,
            true,
        );
        check(
            policy,
            &[
                (0, Stop, &[CloseInput]),
                (2, Time, &[TermGroup]),
                (4, Time, &[KillGroup]),
                (4, crash, &[KillGroup, Reap]),
            ],
            StopPhase::Killed,
            true,
        );
        // A process that not even KILL ends (it hangs in the system): bounded all the same.
        check(
            policy,
            &[
                (0, Kill, &[KillGroup]),
                (1, Time, &[]),
                (2, Time, &[Reap]),
                (9, clean, &[]),
                (9, Stop, &[]),
            ],
            StopPhase::Killed,
            true,
        );
        check(
            policy,
            &[
                (0, Stop, &[CloseInput]),
                (0, Stop, &[]),
                (1, Kill, &[KillGroup]),
                (1, Kill, &[]),
            ],
            StopPhase::Killed,
            false,
        );
        // It exits by itself: descendants die with it, unless chosen otherwise after a clean exit.
        check(
            policy,
            &[(0, clean, &[KillGroup, Reap])],
            StopPhase::Running,
            true,
        );
        let release = StopPolicy {
            release_on_clean_exit: true,
            ..policy
        };
        check(release, &[(0, clean, &[Reap])], StopPhase::Running, true);
        check(
            release,
            &[(0, crash, &[KillGroup, Reap])],
            StopPhase::Running,
            true,
        );
        check(
            release,
            &[(0, Stop, &[CloseInput]), (1, clean, &[KillGroup, Reap])],
            StopPhase::InputClosed,
            true,
        );
    }
}
