//! The table of requests in flight: each entry comes back exactly once, whatever happens in whatever order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use mcp_jsonrpc::{Deadline, InFlight, RequestId, Settled, TimeoutKind};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Abandon(i64),
    Drain,
    Expire(u64),
    Insert { idle: u64, total: u64 },
    Pause(i64),
    Progress(i64),
    Resume(i64),
    Settle(i64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..50u64, 0..100u64).prop_map(|(idle, total)| Step::Insert { idle, total }),
        4 => (0..30i64).prop_map(Step::Settle),
        2 => (0..30i64).prop_map(Step::Abandon),
        4 => (0..40u64).prop_map(Step::Expire),
        2 => (0..30i64).prop_map(Step::Progress),
        1 => (0..30i64).prop_map(Step::Pause),
        1 => (0..30i64).prop_map(Step::Resume),
        1 => Just(Step::Drain),
    ]
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test needs some instant to start from"
)]
fn start() -> Instant {
    Instant::now()
}

proptest! {
    #[test]
    fn each_entry_comes_back_exactly_once(steps in prop::collection::vec(step(), 0..200)) {
        let mut now = start();
        let mut table = InFlight::new();
        let (mut inside, mut out, mut abandoned) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let mut next = 1;
        for step in steps {
            match step {
                Step::Insert { idle, total } => {
                    let limit = |millis| (millis > 0).then(|| Duration::from_millis(millis));
                    let id = table.insert(next, Deadline::new(limit(idle), limit(total)), now);
                    prop_assert_eq!(id, RequestId::from(next));
                    inside.insert(next);
                    next += 1;
                }
                Step::Settle(id) => match table.settle(&id.into()) {
                    Settled::Matched(value) => {
                        prop_assert_eq!(value, id);
                        prop_assert!(inside.remove(&id) && out.insert(id));
                    }
                    Settled::Late => prop_assert!(abandoned.contains(&id)),
                    Settled::Duplicate => prop_assert!(out.contains(&id) && !abandoned.contains(&id)),
                    Settled::Unknown => prop_assert!(id < 1 || id >= next),
                },
                Step::Abandon(id) => {
                    let value = table.abandon(&id.into());
                    prop_assert_eq!(value.is_some(), inside.remove(&id));
                    if value.is_some() {
                        prop_assert!(out.insert(id) && abandoned.insert(id));
                    }
                }
                Step::Expire(millis) => {
                    now += Duration::from_millis(millis);
                    while let Some((id, value, _)) = table.expire(now) {
                        prop_assert_eq!(id, RequestId::from(value));
                        prop_assert!(inside.remove(&value) && out.insert(value) && abandoned.insert(value));
                    }
                    prop_assert!(table.next_deadline().is_none_or(|next| next > now));
                }
                Step::Drain => {
                    for (_, value) in table.drain() {
                        prop_assert!(inside.remove(&value) && out.insert(value) && abandoned.insert(value));
                    }
                    prop_assert!(inside.is_empty());
                }
                Step::Pause(id) => table.pause(&id.into(), now),
                Step::Progress(id) => table.progress(&id.into(), now),
                Step::Resume(id) => table.resume(&id.into(), now),
            }
            prop_assert_eq!(table.len(), inside.len());
        }
    }

    #[test]
    fn nothing_outlives_its_total(idle in 1..50u64, total in 1..200u64, reports in prop::collection::vec(1..40u64, 0..30)) {
        let begun = start();
        let mut table = InFlight::new();
        let id = table.insert((), Deadline::new(Some(Duration::from_millis(idle)), Some(Duration::from_millis(total))), begun);
        let (mut now, mut heard) = (begun, begun);
        for pause in reports {
            now += Duration::from_millis(pause);
            let due = now >= begun + Duration::from_millis(total) || now >= heard + Duration::from_millis(idle);
            let expired = table.expire(now).is_some();
            prop_assert_eq!(expired, due);
            if expired {
                return Ok(());
            }
            table.progress(&id, now);
            heard = now;
        }
    }

    /// Against a model that counts what each clock has run, instead of moving their starts as the table does.
    #[test]
    fn clocks_run_as_in_the_model(steps in prop::collection::vec(step(), 0..200)) {
        #[derive(Debug, Default)]
        struct Clocks {
            limits: [Option<u64>; 2],
            silent: u64,
            total: u64,
            pauses: u32,
        }

        let mut now = start();
        let mut table = InFlight::new();
        let mut model: BTreeMap<i64, Clocks> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert { idle, total } => {
                    let limits = [idle, total].map(|millis| (millis > 0).then_some(millis));
                    let [idle, total] = limits.map(|limit| limit.map(Duration::from_millis));
                    let RequestId::Number(id) = table.insert((), Deadline::new(idle, total), now) else {
                        panic!("not a number")
                    };
                    model.insert(id, Clocks { limits, ..Clocks::default() });
                }
                Step::Expire(millis) => {
                    now += Duration::from_millis(millis);
                    for clocks in model.values_mut().filter(|clocks| clocks.pauses == 0) {
                        clocks.silent += millis;
                        clocks.total += millis;
                    }
                    let mut expired = BTreeMap::new();
                    while let Some((id, (), timed_out)) = table.expire(now) {
                        let RequestId::Number(id) = id else { panic!("not a number") };
                        expired.insert(id, timed_out);
                    }
                    for (id, clocks) in &model {
                        let over = [(TimeoutKind::Idle, clocks.silent, clocks.limits[0]), (TimeoutKind::Total, clocks.total, clocks.limits[1])]
                            .map(|(kind, run, limit)| (kind, limit.is_some_and(|limit| clocks.pauses == 0 && run >= limit)));
                        match expired.get(id) {
                            Some(timed_out) => prop_assert!(over.contains(&(timed_out.kind, true)), "{id} {clocks:?} {timed_out:?}"),
                            None => prop_assert!(over.iter().all(|(_, over)| !over), "{id} {clocks:?}"),
                        }
                    }
                    model.retain(|id, _| !expired.contains_key(id));
                    // The driver sleeps until then: it must not sleep through anything.
                    let first = model.values().filter(|clocks| clocks.pauses == 0).filter_map(|clocks| {
                        let left = |run: u64, limit: Option<u64>| limit.map(|limit| limit - run);
                        left(clocks.silent, clocks.limits[0]).into_iter().chain(left(clocks.total, clocks.limits[1])).min()
                    }).min().map(|millis| now + Duration::from_millis(millis));
                    let next = table.next_deadline();
                    prop_assert!(first.is_none_or(|first| next.is_some_and(|next| next <= first)), "{next:?} {first:?}");
                }
                Step::Progress(id) => {
                    table.progress(&id.into(), now);
                    if let Some(clocks) = model.get_mut(&id) {
                        clocks.silent = 0;
                    }
                }
                Step::Pause(id) => {
                    table.pause(&id.into(), now);
                    if let Some(clocks) = model.get_mut(&id) {
                        clocks.pauses += 1;
                    }
                }
                Step::Resume(id) => {
                    table.resume(&id.into(), now);
                    if let Some(clocks) = model.get_mut(&id) {
                        clocks.pauses = clocks.pauses.saturating_sub(1);
                    }
                }
                Step::Settle(id) => {
                    let matched = matches!(table.settle(&id.into()), Settled::Matched(()));
                    prop_assert_eq!(matched, model.remove(&id).is_some());
                }
                Step::Abandon(id) => prop_assert_eq!(table.abandon(&id.into()).is_some(), model.remove(&id).is_some()),
                Step::Drain => {
                    prop_assert_eq!(table.drain().count(), model.len());
                    model.clear();
                }
            }
        }
    }
}
