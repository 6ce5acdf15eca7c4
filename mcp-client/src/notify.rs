//! Notifications of the server, from the driver to whoever reads them.
//!
//! A slow reader loses the oldest ones and is told how many; it never holds up answers.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use mcp_proto::connection::ServerNotification;

use crate::options::NotificationLimits;

/// What a [`Notifications`] stream yields.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notice {
    /// A notification.
    Notification(ServerNotification),
    /// So many notifications were lost here, since the reader was behind.
    Lagged(u64),
}

/// A stream of the notifications that arrive from now on, in order.
pub struct Notifications(Arc<Mutex<Queue>>);

struct Queue {
    limits: NotificationLimits,
    waiting: VecDeque<(ServerNotification, usize)>,
    bytes: usize,
    lost: u64,
    closed: bool,
    waker: Option<Waker>,
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notifications {
    /// The next notification, or how many were lost; `None` when the connection is over and all was read.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Notice> {
        poll_fn(|context| self.poll_next(context)).await
    }

    pub(crate) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Notice>> {
        let mut queue = lock(&self.0);
        if queue.lost > 0 {
            return Poll::Ready(Some(Notice::Lagged(std::mem::take(&mut queue.lost))));
        }
        if let Some((notification, bytes)) = queue.waiting.pop_front() {
            queue.bytes -= bytes;
            return Poll::Ready(Some(Notice::Notification(notification)));
        }
        if queue.closed {
            return Poll::Ready(None);
        }
        queue.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl fmt::Debug for Notifications {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notifications")
    }
}

/// The driver's side of all streams.
#[derive(Default)]
pub(crate) struct Subscribers {
    queues: Vec<Weak<Mutex<Queue>>>,
    closed: bool,
}

impl Subscribers {
    pub(crate) fn subscribe(&mut self, limits: NotificationLimits) -> Notifications {
        let queue = Queue {
            limits,
            waiting: VecDeque::new(),
            bytes: 0,
            lost: 0,
            closed: self.closed,
            waker: None,
        };
        let queue = Arc::new(Mutex::new(queue));
        self.queues.retain(|queue| queue.strong_count() > 0);
        self.queues.push(Arc::downgrade(&queue));
        Notifications(queue)
    }

    /// Hands a notification to every stream; wakers of waiting readers go to `wake`.
    pub(crate) fn publish(&mut self, notification: ServerNotification, wake: &mut Vec<Waker>) {
        if self.queues.is_empty() {
            return;
        }
        let (notification, bytes) = detached(notification);
        self.queues.retain(|queue| {
            let Some(queue) = queue.upgrade() else {
                return false;
            };
            let mut queue = lock(&queue);
            queue.waiting.push_back((notification.clone(), bytes));
            queue.bytes += bytes;
            while queue.waiting.len() > queue.limits.max_notifications
                || queue.bytes > queue.limits.max_bytes
            {
                let Some((_, bytes)) = queue.waiting.pop_front() else {
                    break;
                };
                queue.bytes -= bytes;
                queue.lost += 1;
            }
            wake.extend(queue.waker.take());
            true
        });
    }

    pub(crate) fn close(&mut self, wake: &mut Vec<Waker>) {
        self.closed = true;
        for queue in self.queues.drain(..).filter_map(|queue| queue.upgrade()) {
            let mut queue = lock(&queue);
            queue.closed = true;
            wake.extend(queue.waker.take());
        }
    }
}

/// The notification without a hold on the buffer it came in, and the size of its contents in bytes.
fn detached(notification: ServerNotification) -> (ServerNotification, usize) {
    match notification {
        ServerNotification::Other { method, params } => {
            let bytes = method.len() + params.as_ref().map_or(0, |params| params.len_bytes());
            let params = params.map(|params| params.detached());
            (ServerNotification::Other { method, params }, bytes)
        }
        ServerNotification::Log(log) => {
            let logger = log.logger.as_ref().map_or(0, String::len);
            let bytes = logger + log.data.as_ref().map_or(0, |data| data.get().len());
            (ServerNotification::Log(log), bytes)
        }
        ServerNotification::TaskChanged(task) => {
            let bytes = task.len_bytes();
            (ServerNotification::TaskChanged(task), bytes)
        }
        ServerNotification::ResourceUpdated { uri } => {
            let bytes = uri.len();
            (ServerNotification::ResourceUpdated { uri }, bytes)
        }
        ServerNotification::ElicitationComplete { elicitation_id } => {
            let bytes = elicitation_id.len();
            (
                ServerNotification::ElicitationComplete { elicitation_id },
                bytes,
            )
        }
        other => (other, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Poll;

    fn poll(stream: &mut Notifications) -> Poll<Option<Notice>> {
        stream.poll_next(&mut Context::from_waker(Waker::noop()))
    }

    fn other(method: &str) -> ServerNotification {
        ServerNotification::Other {
            method: method.to_owned(),
            params: None,
        }
    }

    #[test]
    fn a_slow_reader_sees_what_it_lost() {
        let limits = NotificationLimits {
            max_notifications: 2,
            max_bytes: 100,
        };
        let mut subscribers = Subscribers::default();
        let mut stream = subscribers.subscribe(limits);
        assert!(poll(&mut stream).is_pending());
        let mut wake = Vec::new();
        for method in ["a", "b", "c"] {
            subscribers.publish(other(method), &mut wake);
        }
        assert_eq!(wake.len(), 1);
        assert!(matches!(
            poll(&mut stream),
            Poll::Ready(Some(Notice::Lagged(1)))
        ));
        assert!(
            matches!(poll(&mut stream), Poll::Ready(Some(Notice::Notification(ServerNotification::Other { method, .. }))) if method == "b")
        );
        subscribers.publish(other(&"x".repeat(101)), &mut wake);
        assert!(matches!(
            poll(&mut stream),
            Poll::Ready(Some(Notice::Lagged(2)))
        ));
        subscribers.close(&mut wake);
        assert!(matches!(poll(&mut stream), Poll::Ready(None)));
    }
}
