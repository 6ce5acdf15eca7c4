//! The server's tools, kept and refreshed (D4).
//!
//! A call needs no list before it. The list is fetched when somebody asks for it, kept until the server says that it
//! changed or the time that the server gave it is over, and fetched once more for a name it lacks.

use std::sync::Arc;
use std::time::Instant;

use mcp_proto::model::tool::Tool;

use crate::lists::ListNote;

/// A server's tools as they were at one time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolList {
    /// The tools, in the server's order, names unique.
    pub tools: Vec<Tool>,
    /// What is not in the list, and why.
    pub notes: Vec<ListNote>,
}

impl ToolList {
    /// The tool of this name, compared exactly.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

/// What is kept of the list.
#[derive(Default)]
pub(crate) struct CatalogueState {
    list: Option<Arc<ToolList>>,
    /// Counts the lists that were fetched.
    fetches: u64,
    /// Counts the changes that the server announced.
    changes: u64,
    /// The change that the list is from.
    list_is_from: u64,
    /// When the time is over that the server gave it (CACHE-02).
    until: Option<Instant>,
}

impl CatalogueState {
    /// The list, if it is as new as the server's last announcement and its time is not over.
    pub(crate) fn fresh(&self, now: Instant) -> Option<&Arc<ToolList>> {
        let is_fresh =
            self.list_is_from == self.changes && self.until.is_none_or(|until| now < until);
        self.list.as_ref().filter(|_| is_fresh)
    }

    /// Counts announcements; hand it back to [`CatalogueState::store`].
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Counts the lists fetched so far.
    pub(crate) fn fetches(&self) -> u64 {
        self.fetches
    }

    /// The list, if it is fresh and was fetched after so many others.
    pub(crate) fn newer_than(&self, fetches: u64, now: Instant) -> Option<Arc<ToolList>> {
        self.fresh(now).filter(|_| self.fetches > fetches).cloned()
    }

    pub(crate) fn invalidate(&mut self) {
        self.changes += 1;
    }

    /// Keeps a list that was fetched after `changes` announcements.
    pub(crate) fn store(&mut self, list: Arc<ToolList>, changes: u64, until: Option<Instant>) {
        self.until = until;
        self.list = Some(list);
        self.fetches += 1;
        self.list_is_from = changes;
    }
}
