//! Progress of one call, from the driver to whoever watches.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use mcp_proto::model::progress::Progress;

/// Most reports kept for a slow reader; then the newest replaces the one before it.
pub const MAX_QUEUED_PROGRESS: usize = 64;

/// Longest message of a report that is kept, in bytes; a longer one is cut.
pub const MAX_PROGRESS_MESSAGE_BYTES: usize = 4096;

/// Makes the two ends for [`CallOptions::with_progress`](crate::CallOptions::with_progress).
pub fn progress_channel() -> (ProgressSender, ProgressReceiver) {
    let queue = Arc::new(Mutex::new(Queue::default()));
    (
        ProgressSender(Arc::new(Sending(Arc::clone(&queue)))),
        ProgressReceiver(queue),
    )
}

/// Where the driver puts progress. The receiver ends when the last clone is dropped; a call drops its own when it is over.
#[derive(Clone)]
pub struct ProgressSender(Arc<Sending>);

struct Sending(Arc<Mutex<Queue>>);

/// Yields the progress of a call in order.
pub struct ProgressReceiver(Arc<Mutex<Queue>>);

#[derive(Default)]
struct Queue {
    reports: VecDeque<Progress>,
    waker: Option<Waker>,
    senders_gone: bool,
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProgressSender {
    /// Adds a report. A reader that is behind loses those in between, never the newest.
    pub(crate) fn push(&self, mut progress: Progress) -> Option<Waker> {
        if let Some(message) = &mut progress.message
            && message.len() > MAX_PROGRESS_MESSAGE_BYTES
        {
            let cut = (0..=MAX_PROGRESS_MESSAGE_BYTES)
                .rev()
                .find(|at| message.is_char_boundary(*at));
            message.truncate(cut.unwrap_or(0));
            message.shrink_to_fit();
        }
        let mut queue = lock(&self.0.0);
        if queue.reports.len() >= MAX_QUEUED_PROGRESS {
            queue.reports.pop_back();
        }
        queue.reports.push_back(progress);
        queue.waker.take()
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let mut queue = lock(&self.0);
        queue.senders_gone = true;
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl ProgressReceiver {
    /// The next report; `None` when the call is over and all was read.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn recv(&mut self) -> Option<Progress> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Option<Progress>> {
        let mut queue = lock(&self.0);
        if let Some(progress) = queue.reports.pop_front() {
            return Poll::Ready(Some(progress));
        }
        if queue.senders_gone {
            return Poll::Ready(None);
        }
        queue.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl fmt::Debug for ProgressSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressSender")
    }
}

impl fmt::Debug for ProgressReceiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProgressReceiver")
    }
}
