//! The server's tools, kept and refreshed (D4).
//!
//! A call needs no list before it. The list is fetched when somebody asks for it, kept until the server says that it
//! changed, and fetched once more for a name it lacks.

use std::sync::Arc;

use mcp_proto::http::InvalidMirror;
use mcp_proto::model::page::PageNote;
use mcp_proto::model::tool::{SkippedTool, Tool};

/// A server's tools as they were at one time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ToolList {
    /// The tools, in the server's order, names unique.
    pub tools: Vec<Tool>,
    /// What is not in the list, and why.
    pub notes: Vec<ToolListNote>,
}

/// Something that a [`ToolList`] leaves out.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ToolListNote {
    /// The walk through the pages was cut.
    Cut(PageNote),
    /// A name came twice; the first is kept (C158).
    Duplicate {
        /// The name.
        name: String,
    },
    /// What a tool wants as header fields is not valid, so that it can't be called over HTTP (HTTPM-26).
    InvalidHeaders {
        /// The tool.
        name: String,
        /// What is wrong.
        reason: InvalidMirror,
    },
    /// The server offers no tools at all.
    NotOffered,
    /// An entry could not be read.
    Skipped(SkippedTool),
}

impl std::fmt::Display for ToolListNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cut(note) => note.fmt(f),
            Self::Duplicate { name } => write!(
                f,
                "the server lists the tool {name:?} twice; the first is kept"
            ),
            Self::InvalidHeaders { name, reason } => {
                write!(f, "the tool {name:?} is left out: {reason}")
            }
            Self::NotOffered => f.write_str("the server does not offer tools"),
            Self::Skipped(skipped) => skipped.fmt(f),
        }
    }
}

impl ToolList {
    /// The tool of this name, compared exactly.
    pub fn get(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Adds a page.
    pub(crate) fn add(
        &mut self,
        tools: Vec<Tool>,
        skipped: Vec<SkippedTool>,
        seen: &mut std::collections::HashSet<String>,
        most: usize,
    ) {
        for tool in tools.into_iter().take(most) {
            if seen.insert(tool.name.clone()) {
                self.tools.push(tool);
            } else {
                self.notes.push(ToolListNote::Duplicate { name: tool.name });
            }
        }
        self.notes
            .extend(skipped.into_iter().map(ToolListNote::Skipped));
        // Enough to see what is wrong.
        self.notes.truncate(MAX_NOTES);
    }
}

/// Most notes kept about one list.
const MAX_NOTES: usize = 100;

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
}

impl CatalogueState {
    /// The list, if it is as new as the server's last announcement.
    pub(crate) fn fresh(&self) -> Option<&Arc<ToolList>> {
        self.list
            .as_ref()
            .filter(|_| self.list_is_from == self.changes)
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
    pub(crate) fn newer_than(&self, fetches: u64) -> Option<Arc<ToolList>> {
        self.fresh().filter(|_| self.fetches > fetches).cloned()
    }

    pub(crate) fn invalidate(&mut self) {
        self.changes += 1;
    }

    /// Keeps a list that was fetched after `changes` announcements.
    pub(crate) fn store(&mut self, list: Arc<ToolList>, changes: u64) {
        self.list = Some(list);
        self.fetches += 1;
        self.list_is_from = changes;
    }
}
