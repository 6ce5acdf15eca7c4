//! Subscriptions of the host, from the driver to whoever reads them.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use mcp_proto::connection::{SubscriptionChange, SubscriptionEnd, SubscriptionId};
use mcp_proto::lifecycle::Agreement;
use mcp_proto::model::subscription::ListenFilter;
use mcp_proto::{Era, UsageError};

use crate::options::ClientOptions;
use crate::shared::{NO_SLOT, Shared, State, now};

/// How many changes wait for a slow reader; older ones are dropped, the end never.
const MAX_WAITING: usize = 16;

/// A subscription: the server tells about changes, as
/// [`Notifications`](crate::Notifications), until it is dropped. It is opened again when it is cut off.
pub struct Subscription {
    shared: Arc<Shared>,
    id: SubscriptionId,
}

/// What waits to be read, by subscription.
#[derive(Default)]
pub(crate) struct SubscriptionSlots {
    slots: HashMap<SubscriptionId, Slot>,
    closed: bool,
}

#[derive(Default)]
struct Slot {
    waiting: VecDeque<SubscriptionChange>,
    ended: bool,
    waker: Option<Waker>,
}

impl Subscription {
    /// Opens one, in the modern era.
    pub(crate) fn open(shared: &Arc<Shared>, filter: &ListenFilter) -> Result<Self, UsageError> {
        let (outcome, _) = shared.update(|state| {
            let id = state.connection.listen(filter, NO_SLOT, now())?;
            state.subscriptions.open(id);
            Ok(id)
        });
        // There may be an earlier deadline now.
        shared.attention.notify_one();
        Ok(Self {
            shared: Arc::clone(shared),
            id: outcome?,
        })
    }

    /// What happens to the subscription next: opened, interrupted, ended; `None` after the end.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<SubscriptionChange> {
        poll_fn(|task| self.poll_next(task)).await
    }

    pub(crate) fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<Option<SubscriptionChange>> {
        let mut state = self.shared.lock();
        let closed = state.subscriptions.closed;
        let slot = state.subscriptions.slots.entry(self.id).or_default();
        if let Some(change) = slot.waiting.pop_front() {
            return Poll::Ready(Some(change));
        }
        if slot.ended || closed {
            return Poll::Ready(None);
        }
        slot.waker = Some(task.waker().clone());
        Poll::Pending
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let ((), _) = self.shared.update(|state| {
            state.subscriptions.slots.remove(&self.id);
            state.connection.unlisten(self.id);
        });
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.id).finish()
    }
}

impl SubscriptionSlots {
    /// A new subscription: its changes are kept from now on.
    pub(crate) fn open(&mut self, id: SubscriptionId) {
        self.slots.insert(id, Slot::default());
    }

    /// Keeps a change; returns who waits for it.
    pub(crate) fn push(&mut self, id: SubscriptionId, change: SubscriptionChange) -> Option<Waker> {
        let slot = self.slots.get_mut(&id)?;
        slot.ended = matches!(change, SubscriptionChange::Ended(_));
        if slot.waiting.len() == MAX_WAITING {
            slot.waiting.pop_front();
        }
        slot.waiting.push_back(change);
        slot.waker.take()
    }

    pub(crate) fn close(&mut self) -> Vec<Waker> {
        self.closed = true;
        self.slots
            .values_mut()
            .filter_map(|slot| slot.waker.take())
            .collect()
    }
}

impl State {
    /// Asks to be told when the list of tools changes, once it is kept (C180).
    pub(crate) fn watch_lists(&mut self, agreement: &Agreement, options: &ClientOptions) {
        let promised = agreement.capabilities.flag("tools", "listChanged");
        if !options.watch_lists || agreement.era != Era::Modern || !promised || self.watch.is_some()
        {
            return;
        }
        let filter = ListenFilter::default().tools();
        // Without it the list is as fresh as the host asks for it.
        self.watch = self.connection.listen(&filter, NO_SLOT, now()).ok();
    }

    /// Something happened to the subscription that keeps lists fresh.
    pub(crate) fn watched(&mut self, change: &SubscriptionChange) {
        match change {
            // Changes are told from now on, but some may have come before.
            SubscriptionChange::Open { .. } => {}
            SubscriptionChange::Ended(end) => {
                tracing::debug!(target: "mcp_client", ?end, "changes of lists are not told any more");
                self.catalogue.invalidate();
                // One that was refused is not asked for again.
                if *end == SubscriptionEnd::Graceful {
                    self.watch = None;
                }
            }
            _ => self.catalogue.invalidate(),
        }
    }
}
