//! The table of requests that were sent and not answered yet.
//!
//! Invariant: each inserted entry comes back exactly once, through [`InFlight::settle`], [`InFlight::abandon`],
//! [`InFlight::expire`] or [`InFlight::drain`].
//!
//! Rules: JR-03 (ids are never used again), JR-08 (late answers), VER-21 and VER-24 (deadlines and pauses).

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::{Deadline, RequestId, TimedOut, TimeoutKind};

/// How many abandoned ids are remembered to tell a late answer from a bogus one (C067).
///
/// A late answer to a request that was abandoned longer ago is reported as [`Settled::Duplicate`], which is as harmless.
pub const MAX_ABANDONED_IDS: usize = 1024;

/// What an answer's id means.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "an id is in flight, was abandoned, was settled, or was never ours"
)]
pub enum Settled<T> {
    /// The request was in flight; it no longer is.
    Matched(T),
    /// Nobody waits for it any more: it was cancelled or timed out (C067, C068).
    Late,
    /// It was answered before (C069).
    Duplicate,
    /// No request of ours ever had this id.
    Unknown,
}

/// Requests in flight, each with what the caller wants back.
#[derive(Debug)]
pub struct InFlight<T> {
    entries: BTreeMap<i64, Entry<T>>,
    first_id: i64,
    next_id: i64,
    abandoned: VecDeque<i64>,
    /// Never later than the earliest deadline. It may be earlier, since removing an entry does not search for the next
    /// one: a wake-up too early costs one search, a search per answer would cost more.
    earliest: Option<Instant>,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    deadline: Deadline,
    started: Instant,
    heard: Instant,
    paused_at: Option<Instant>,
    pauses: u32,
}

impl<T> Entry<T> {
    /// When the entry runs out of time, and by which limit; `None` while paused or without limits.
    fn due(&self) -> Option<(Instant, TimedOut)> {
        if self.paused_at.is_some() {
            return None;
        }
        let at = |start: Instant, limit: Option<Duration>, kind| {
            // A limit past the end of the clock is no limit.
            limit.and_then(|limit| Some((start.checked_add(limit)?, TimedOut { kind, limit })))
        };
        let idle = at(self.heard, self.deadline.idle, TimeoutKind::Idle);
        let total = at(self.started, self.deadline.total, TimeoutKind::Total);
        match (idle, total) {
            (Some(idle), Some(total)) => Some(if total.0 <= idle.0 { total } else { idle }),
            (one, other) => one.or(other),
        }
    }
}

impl<T> InFlight<T> {
    /// An empty table whose first id is 1.
    pub fn new() -> Self {
        Self::starting_at(1)
    }

    /// An empty table whose first id is `first_id`, for a connection that goes on where another one ended (C070).
    pub fn starting_at(first_id: i64) -> Self {
        Self {
            entries: BTreeMap::new(),
            first_id,
            next_id: first_id,
            abandoned: VecDeque::new(),
            earliest: None,
        }
    }

    /// The id that the next [`InFlight::insert`] will give out.
    pub fn next_id(&self) -> RequestId {
        RequestId::Number(self.next_id)
    }

    /// Adds an entry and gives it an id that was never used before.
    pub fn insert(&mut self, value: T, deadline: Deadline, now: Instant) -> RequestId {
        let id = self.next_id;
        self.next_id += 1;
        let entry = Entry {
            value,
            deadline,
            started: now,
            heard: now,
            paused_at: None,
            pauses: 0,
        };
        self.note_due(entry.due());
        self.entries.insert(id, entry);
        RequestId::Number(id)
    }

    /// How many requests are in flight.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entry of a request in flight.
    pub fn get(&self, id: &RequestId) -> Option<&T> {
        self.entries.get(number(id)?).map(|entry| &entry.value)
    }

    /// The entry of a request in flight, to be changed.
    pub fn get_mut(&mut self, id: &RequestId) -> Option<&mut T> {
        self.entries
            .get_mut(number(id)?)
            .map(|entry| &mut entry.value)
    }

    /// The ids of requests in flight whose entries are such, oldest first.
    pub fn ids_where(&self, wanted: impl Fn(&T) -> bool) -> Vec<RequestId> {
        let wanted = self
            .entries
            .iter()
            .filter(|(_, entry)| wanted(&entry.value));
        wanted.map(|(id, _)| RequestId::Number(*id)).collect()
    }

    /// An answer with this id arrived. Ids compare by type and value (JR-04).
    pub fn settle(&mut self, id: &RequestId) -> Settled<T> {
        let Some(&id) = number(id) else {
            return Settled::Unknown;
        };
        if let Some(entry) = self.entries.remove(&id) {
            return Settled::Matched(entry.value);
        }
        if self.abandoned.contains(&id) {
            Settled::Late
        } else if (self.first_id..self.next_id).contains(&id) {
            Settled::Duplicate
        } else {
            Settled::Unknown
        }
    }

    /// Nobody waits for this request any more; a later answer is [`Settled::Late`]. `None` when it was not in flight.
    pub fn abandon(&mut self, id: &RequestId) -> Option<T> {
        let id = *number(id)?;
        let entry = self.entries.remove(&id)?;
        self.remember_abandoned(id);
        Some(entry.value)
    }

    /// The peer reported progress: the idle limit starts again, the total limit does not.
    pub fn progress(&mut self, id: &RequestId, now: Instant) {
        if let Some(entry) = self.entry_mut(id) {
            entry.heard = entry.heard.max(now);
        }
    }

    /// Stops both clocks of a request while a person answers on its behalf (VER-24). Pauses nest.
    pub fn pause(&mut self, id: &RequestId, now: Instant) {
        if let Some(entry) = self.entry_mut(id) {
            entry.pauses += 1;
            entry.paused_at.get_or_insert(now);
        }
    }

    /// Ends one [`InFlight::pause`]; the clocks go on when the last one ended.
    pub fn resume(&mut self, id: &RequestId, now: Instant) {
        let Some(entry) = self.entry_mut(id) else {
            return;
        };
        entry.pauses = entry.pauses.saturating_sub(1);
        if entry.pauses > 0 {
            return;
        }
        if let Some(paused_at) = entry.paused_at.take() {
            let waited = now.saturating_duration_since(paused_at);
            entry.started = entry.started.checked_add(waited).unwrap_or(now);
            // Progress during the pause must not lie in the future afterwards.
            let heard = entry.heard.checked_add(waited).unwrap_or(now);
            entry.heard = heard.min(now);
        }
        let due = entry.due();
        self.note_due(due);
    }

    /// When to call [`InFlight::expire`] next. It may be too early, never too late.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.earliest
    }

    /// Takes one request whose time is up at `now`. Call until `None`.
    pub fn expire(&mut self, now: Instant) -> Option<(RequestId, T, TimedOut)> {
        if self.earliest.is_none_or(|earliest| earliest > now) {
            return None;
        }
        let mut earliest = None;
        let mut expired = None;
        for (&id, entry) in &self.entries {
            let Some((due, timed_out)) = entry.due() else {
                continue;
            };
            if due <= now {
                expired = Some((id, timed_out));
                break;
            }
            earliest = Some(earliest.map_or(due, |other: Instant| other.min(due)));
        }
        let Some((id, timed_out)) = expired else {
            self.earliest = earliest;
            return None;
        };
        let entry = self.entries.remove(&id)?;
        self.remember_abandoned(id);
        Some((RequestId::Number(id), entry.value, timed_out))
    }

    /// Takes everything: the channel ended. Answers that still come are [`Settled::Late`].
    pub fn drain(&mut self) -> impl Iterator<Item = (RequestId, T)> + use<T> {
        self.earliest = None;
        let entries = std::mem::take(&mut self.entries);
        // Only the newest ids can be remembered; skip those that would be pushed out at once.
        for &id in entries
            .keys()
            .skip(entries.len().saturating_sub(MAX_ABANDONED_IDS))
        {
            self.remember_abandoned(id);
        }
        entries
            .into_iter()
            .map(|(id, entry)| (RequestId::Number(id), entry.value))
    }

    fn entry_mut(&mut self, id: &RequestId) -> Option<&mut Entry<T>> {
        self.entries.get_mut(number(id)?)
    }

    fn note_due(&mut self, due: Option<(Instant, TimedOut)>) {
        if let Some((due, _)) = due {
            self.earliest = Some(self.earliest.map_or(due, |earliest| earliest.min(due)));
        }
    }

    fn remember_abandoned(&mut self, id: i64) {
        if self.abandoned.len() == MAX_ABANDONED_IDS {
            self.abandoned.pop_front();
        }
        self.abandoned.push_back(id);
    }
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// All ids of ours are integers.
fn number(id: &RequestId) -> Option<&i64> {
    match id {
        RequestId::Number(number) => Some(number),
        RequestId::String(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[expect(
        clippy::disallowed_methods,
        reason = "a test needs some instant to start from"
    )]
    fn start() -> Instant {
        Instant::now()
    }

    #[test]
    fn answers_are_told_apart() {
        let now = start();
        let mut table = InFlight::new();
        let first = table.insert("first", Deadline::NONE, now);
        let second = table.insert("second", Deadline::NONE, now);
        let third = table.insert("third", Deadline::NONE, now);
        assert_eq!(first.to_string(), "1");
        assert_eq!(table.settle(&second), Settled::Matched("second"));
        assert_eq!(table.settle(&second), Settled::Duplicate); // C069
        assert_eq!(table.abandon(&first), Some("first"));
        assert_eq!(table.settle(&first), Settled::Late); // C067, C068
        assert_eq!(table.settle(&9.into()), Settled::Unknown);
        assert_eq!(table.settle(&"3".into()), Settled::Unknown); // JR-04
        assert_eq!(table.settle(&third), Settled::Matched("third"));
        assert!(table.is_empty());
    }

    #[test]
    fn progress_restarts_silence_and_not_the_whole() {
        let now = start();
        let mut table = InFlight::new();
        let id = table.insert((), Deadline::new(Some(2 * SECOND), Some(5 * SECOND)), now);
        table.progress(&id, now + SECOND);
        assert_eq!(table.expire(now + 2 * SECOND), None);
        assert_eq!(table.next_deadline(), Some(now + 3 * SECOND));
        table.progress(&id, now + 3 * SECOND);
        table.progress(&id, now + 4 * SECOND);
        assert_eq!(table.expire(now + 4 * SECOND), None);
        let (expired, (), timed_out) = table.expire(now + 5 * SECOND).unwrap();
        assert_eq!((expired, timed_out.kind), (id.clone(), TimeoutKind::Total));
        assert_eq!(table.settle(&id), Settled::Late);
        assert_eq!(table.expire(now + 5 * SECOND), None);
        assert_eq!(table.next_deadline(), None);
    }

    #[test]
    fn pauses_stop_both_clocks_and_nest() {
        let now = start();
        let mut table = InFlight::new();
        let id = table.insert((), Deadline::total(2 * SECOND), now);
        table.pause(&id, now + SECOND);
        table.pause(&id, now + SECOND);
        table.resume(&id, now + 10 * SECOND);
        assert_eq!(table.expire(now + 20 * SECOND), None);
        table.resume(&id, now + 21 * SECOND);
        assert_eq!(table.next_deadline(), Some(now + 22 * SECOND));
        assert!(table.expire(now + 22 * SECOND).is_some());
    }

    #[test]
    fn progress_during_a_pause_gives_no_extra_time() {
        let now = start();
        let mut table = InFlight::new();
        let id = table.insert((), Deadline::new(Some(2 * SECOND), None), now);
        table.pause(&id, now);
        table.progress(&id, now + 10 * SECOND);
        table.resume(&id, now + 10 * SECOND);
        assert_eq!(
            table.next_deadline(),
            Some(now + 2 * SECOND),
            "too early is fine"
        );
        assert_eq!(table.expire(now + 11 * SECOND), None);
        assert_eq!(table.next_deadline(), Some(now + 12 * SECOND));
        assert!(table.expire(now + 12 * SECOND).is_some());
    }

    #[test]
    fn a_limit_past_the_end_of_the_clock_is_none() {
        let now = start();
        let mut table = InFlight::new();
        table.insert((), Deadline::total(Duration::MAX), now);
        assert_eq!(table.next_deadline(), None);
    }

    #[test]
    fn abandoned_ids_are_bounded() {
        let now = start();
        let mut table = InFlight::new();
        for _ in 0..MAX_ABANDONED_IDS + 10 {
            let id = table.insert((), Deadline::NONE, now);
            table.abandon(&id);
        }
        assert_eq!(table.abandoned.len(), MAX_ABANDONED_IDS);
        assert_eq!(table.settle(&1.into()), Settled::Duplicate);
        let _: Vec<_> = table.drain().collect();
    }
}
