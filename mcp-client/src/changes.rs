//! What changes at a server, told in one way in both eras.
//!
//! A modern server is asked with `subscriptions/listen`; a legacy one tells of its lists by itself, and of a resource after
//! `resources/subscribe`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use mcp_proto::connection::{
    RequestOptions, ServerNotification, SubscriptionChange, SubscriptionEnd,
};
use mcp_proto::method::{SubscribeResource, UnsubscribeResource};
use mcp_proto::model::resource::ResourceParams;
use mcp_proto::model::subscription::ListenFilter;
use mcp_proto::{Era, UsageError};

use crate::client::Client;
use crate::error::{Error, Stage};
use crate::notify::{Notice, Notifications};
use crate::options::CallOptions;
use crate::shared::{NO_SLOT, Shared, now};
use crate::subscription::Subscription;

/// Something that changed at a server.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// The server ended the telling, or it can't be had any more. Nothing follows.
    Ended {
        /// Why, in words.
        reason: String,
    },
    /// Changes are not told for a while: the stream was cut off, and is opened again. [`Change::Missed`] follows then.
    Interrupted {
        /// Why, in words.
        reason: String,
    },
    /// Changes may have been missed: take all that was kept of what is watched as old (SUB-17).
    Missed,
    /// The list of prompts.
    PromptsList,
    /// The list of resources.
    ResourcesList,
    /// A resource that is watched, or a part of one.
    Resource {
        /// Which one.
        uri: String,
    },
    /// The list of tools.
    ToolsList,
}

/// A stream of changes at one server, until it is dropped. One that waits to be read already is not told twice (SUB-22).
pub struct Changes {
    wanted: ListenFilter,
    missing: ListenFilter,
    notifications: Notifications,
    source: Source,
    waiting: VecDeque<Change>,
    ended: bool,
}

enum Source {
    Legacy { _subscriptions: LegacySubscriptions },
    Modern(Subscription),
}

impl Client {
    /// Tells what changes, from the moment this returns. The server may tell only a part of it: see [`Changes::missing`].
    ///
    /// Over HTTP a legacy server that offers no stream of its own can tell changes only while a call is under way (SUB-03).
    ///
    /// # Errors
    /// When the server offers none of it, refuses it, or is gone.
    ///
    /// # Cancel safety
    /// Dropping the future ends what was begun.
    pub async fn watch(&self, wanted: &ListenFilter) -> Result<Changes, Error> {
        let agreement = self.agreement();
        let promised = wanted.promised_by(&agreement.capabilities);
        if promised.is_empty() {
            let error = UsageError::CapabilityMissing {
                method: "a subscription".to_owned(),
                capability: "listChanged or subscribe",
            };
            let server = &self.shared().server;
            return Err(Error::usage(server, Stage::Call, "subscription", error));
        }
        let notifications = self.notifications();
        let (source, missing) = match agreement.era {
            Era::Legacy => {
                let uris = &promised.resource_subscriptions;
                let subscriptions = LegacySubscriptions::open(self, uris).await?;
                let source = Source::Legacy {
                    _subscriptions: subscriptions,
                };
                (source, wanted.without(&promised))
            }
            Era::Modern => {
                let mut subscription = self.listen(wanted)?;
                let missing = match subscription.next().await {
                    Some(SubscriptionChange::Open { missing }) => missing,
                    other => {
                        let closed = SubscriptionChange::Ended(SubscriptionEnd::ConnectionClosed);
                        let why = other.unwrap_or(closed);
                        return Err(Error::not_subscribed(&self.shared().server, why));
                    }
                };
                (Source::Modern(subscription), missing)
            }
        };
        Ok(Changes {
            wanted: wanted.clone(),
            missing,
            notifications,
            source,
            waiting: VecDeque::new(),
            ended: false,
        })
    }

    /// Tells when a resource changes: [`Client::watch`] for one.
    ///
    /// # Errors
    /// As [`Client::watch`].
    ///
    /// # Cancel safety
    /// As [`Client::watch`].
    pub async fn subscribe(&self, uri: &str) -> Result<Changes, Error> {
        self.watch(&ListenFilter::default().resource(uri)).await
    }

    /// The subscription of the modern era by itself, for hosts that want to know each of its states: what it tells comes as
    /// [`Client::notifications`] while it is kept. It is opened again when it is cut off; then
    /// [`MissedChanges`](ServerNotification::MissedChanges) is told first.
    ///
    /// # Errors
    /// When the server promises none of it, in the legacy era, and when the connection is over.
    pub fn listen(&self, filter: &ListenFilter) -> Result<Subscription, Error> {
        let shared = self.shared();
        Subscription::open(shared, filter).map_err(|error| {
            Error::usage(&shared.server, Stage::Call, "subscriptions/listen", error)
        })
    }
}

impl Changes {
    /// The next change; `None` when the connection is over, or after [`Change::Ended`].
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Change> {
        poll_fn(|task| self.poll_next(task)).await
    }

    /// What was asked for and is not told (SUB-13).
    pub fn missing(&self) -> &ListenFilter {
        &self.missing
    }

    fn poll_next(&mut self, task: &mut Context<'_>) -> Poll<Option<Change>> {
        while !self.ended {
            let Poll::Ready(notice) = self.notifications.poll_next(task) else {
                break;
            };
            match notice {
                Some(Notice::Notification(notification)) => {
                    if let Some(change) = self.change(notification) {
                        self.push(change);
                    }
                }
                // What the host was too slow for may have been among them.
                Some(Notice::Lagged(_)) => self.push(Change::Missed),
                None => self.ended = true,
            }
        }
        while let Source::Modern(subscription) = &mut self.source
            && let Poll::Ready(Some(change)) = subscription.poll_next(task)
        {
            match change {
                SubscriptionChange::Open { missing } => self.missing = missing,
                SubscriptionChange::Interrupted { reason } => {
                    self.push(Change::Interrupted { reason });
                }
                SubscriptionChange::Ended(SubscriptionEnd::ConnectionClosed) => {}
                SubscriptionChange::Ended(end) => {
                    let reason = match end {
                        SubscriptionEnd::Refused { reason } => reason,
                        _ => "the server ended it".to_owned(),
                    };
                    self.push(Change::Ended { reason });
                    self.ended = true;
                }
                _ => {}
            }
        }
        match self.waiting.pop_front() {
            Some(change) => Poll::Ready(Some(change)),
            None if self.ended => Poll::Ready(None),
            None => Poll::Pending,
        }
    }

    fn push(&mut self, change: Change) {
        if !self.waiting.contains(&change) {
            self.waiting.push_back(change);
        }
    }

    /// What a notification says to this stream.
    fn change(&self, notification: ServerNotification) -> Option<Change> {
        let wanted = &self.wanted;
        match notification {
            ServerNotification::MissedChanges => Some(Change::Missed),
            ServerNotification::ToolsListChanged if wanted.tools_list_changed => {
                Some(Change::ToolsList)
            }
            ServerNotification::PromptsListChanged if wanted.prompts_list_changed => {
                Some(Change::PromptsList)
            }
            ServerNotification::ResourcesListChanged if wanted.resources_list_changed => {
                Some(Change::ResourcesList)
            }
            ServerNotification::ResourceUpdated { uri } => {
                let covers = |watched: &String| is_part_of(&uri, watched);
                let mut watched = wanted.resource_subscriptions.iter();
                watched.any(covers).then_some(Change::Resource { uri })
            }
            _ => None,
        }
    }
}

/// Whether a resource is a watched one, or stands below it.
fn is_part_of(uri: &str, watched: &str) -> bool {
    uri.strip_prefix(watched).is_some_and(|rest| {
        rest.is_empty() || watched.ends_with('/') || rest.starts_with(['/', '#', '?'])
    })
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Changes")
            .field("wanted", &self.wanted)
            .field("missing", &self.missing)
            .finish_non_exhaustive()
    }
}

/// How often each resource is watched: the server is told of the first and of the last.
#[derive(Debug, Default)]
pub(crate) struct WatchedResources(BTreeMap<String, usize>);

impl WatchedResources {
    /// Whether it is the first.
    fn add(&mut self, uri: &str) -> bool {
        let count = self.0.entry(uri.to_owned()).or_default();
        *count += 1;
        *count == 1
    }

    /// Whether it was the last.
    fn remove(&mut self, uri: &str) -> bool {
        let Some(count) = self.0.get_mut(uri) else {
            return false;
        };
        *count -= 1;
        let was_last = *count == 0;
        if was_last {
            self.0.remove(uri);
        }
        was_last
    }
}

/// Resources that a legacy server was asked to tell about. Dropping it takes that back.
struct LegacySubscriptions {
    shared: Arc<Shared>,
    uris: Vec<String>,
}

impl LegacySubscriptions {
    async fn open(client: &Client, uris: &[String]) -> Result<Self, Error> {
        let shared = client.shared();
        let mut opened = Self {
            shared: Arc::clone(shared),
            uris: Vec::new(),
        };
        // One at a time: who comes second relies on the first one's answer.
        let _one_at_a_time = shared.subscribing.lock().await;
        for uri in uris {
            opened.uris.push(uri.clone());
            if !shared.lock().watched_resources.add(uri) {
                continue;
            }
            let params = ResourceParams::new(uri);
            let asked = client.request::<SubscribeResource>(&params, CallOptions::default());
            if let Err(error) = asked.await {
                // There is nothing to take back.
                opened.uris.pop();
                shared.lock().watched_resources.remove(uri);
                return Err(error);
            }
        }
        Ok(opened)
    }
}

impl Drop for LegacySubscriptions {
    fn drop(&mut self) {
        let uris = std::mem::take(&mut self.uris);
        self.shared.update(|state| {
            for uri in uris {
                if !state.watched_resources.remove(&uri) {
                    continue;
                }
                let mut options = RequestOptions::default();
                options.deadline = self.shared.options.call_deadline;
                let params = ResourceParams::new(&uri);
                // Nobody waits for the answer; on a connection that is over there is nothing to take back.
                let _ = state.connection.request::<UnsubscribeResource>(
                    &params,
                    &options,
                    NO_SLOT,
                    now(),
                );
            }
        });
        self.shared.attention.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_resource_belong_to_it() {
        let cases = [
            ("note://1", "note://1", true),
            ("note://1/a", "note://1", true),
            ("note://1#a", "note://1", true),
            ("note://12", "note://1", false),
            ("note://", "note://1", false),
            ("file:///srv/a", "file:///srv/", true),
        ];
        for (uri, watched, expected) in cases {
            assert_eq!(is_part_of(uri, watched), expected, "{uri} {watched}");
        }
    }

    #[test]
    fn the_first_and_the_last_count() {
        let mut watched = WatchedResources::default();
        assert!(watched.add("a"));
        assert!(!watched.add("a"));
        assert!(!watched.remove("a"));
        assert!(watched.remove("a"));
        assert!(!watched.remove("a"));
    }
}
