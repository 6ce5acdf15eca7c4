//! Lists of servers: fetched page by page, cut at limits, bad entries left out.

use std::collections::HashSet;
use std::fmt;
use std::time::Instant;

use mcp_proto::Era;
use mcp_proto::cache::CacheHint;
use mcp_proto::http::InvalidMirror;
use mcp_proto::method::ListMethod;
use mcp_proto::model::page::{
    ListEntry, ListParams, Page, PageNote, PageStep, PageWalk, SkippedEntry,
};

use crate::client::Client;
use crate::error::{Error, Stage};
use crate::logical_call::About;
use crate::options::CallOptions;
use crate::shared::now;

/// Most notes kept about one list: enough to see what is wrong.
const MAX_NOTES: usize = 100;

/// A list as it was at one time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct List<T> {
    /// The entries, in the server's order, each once.
    pub entries: Vec<T>,
    /// What is not in the list, and why.
    pub notes: Vec<ListNote>,
    /// Until when the server allows it to be used again; `None` if it does not say.
    pub(crate) until: Option<Instant>,
}

/// Something that a list leaves out.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ListNote {
    /// The walk through the pages was cut.
    Cut(PageNote),
    /// An entry came twice; the first is kept (C158).
    Duplicate {
        /// What it is: `tool`.
        kind: &'static str,
        /// What both are called.
        key: String,
    },
    /// What a tool wants as header fields is not valid, so that it can't be called over HTTP (HTTPM-26).
    InvalidHeaders {
        /// The tool.
        name: String,
        /// What is wrong.
        reason: InvalidMirror,
    },
    /// The server offers nothing of the kind.
    NotOffered {
        /// The capability that it does not have.
        capability: &'static str,
    },
    /// An entry could not be read.
    Skipped(SkippedEntry),
}

impl fmt::Display for ListNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(note) => note.fmt(f),
            Self::Duplicate { kind, key } => {
                write!(
                    f,
                    "the server lists the {kind} {key:?} twice; the first is kept"
                )
            }
            Self::InvalidHeaders { name, reason } => {
                write!(f, "the tool {name:?} is left out: {reason}")
            }
            Self::NotOffered { capability } => write!(f, "the server does not offer {capability}"),
            Self::Skipped(skipped) => skipped.fmt(f),
        }
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            notes: Vec::new(),
            until: None,
        }
    }
}

impl<T: ListEntry> List<T> {
    /// Adds a page; of it at most so many entries.
    fn add(
        &mut self,
        page: Page<T>,
        seen: &mut HashSet<String>,
        most: usize,
        keep: &mut impl FnMut(&T) -> Result<(), ListNote>,
    ) {
        for entry in page.entries.into_iter().take(most) {
            if let Err(note) = keep(&entry) {
                self.notes.push(note);
            } else if seen.insert(entry.key().to_owned()) {
                self.entries.push(entry);
            } else {
                let key = entry.key().to_owned();
                self.notes.push(ListNote::Duplicate { kind: T::KIND, key });
            }
        }
        self.notes
            .extend(page.skipped.into_iter().map(ListNote::Skipped));
        self.notes.truncate(MAX_NOTES);
    }
}

impl Client {
    /// Fetches a whole list. `keep` says why an entry is to be left out.
    pub(crate) async fn walk<M: ListMethod>(
        &self,
        options: CallOptions,
        mut keep: impl FnMut(&M::Entry) -> Result<(), ListNote>,
    ) -> Result<List<M::Entry>, Error> {
        let shared = self.shared();
        let agreement = self.agreement();
        let mut list = List::default();
        if let Some(capability) = M::CAPABILITY
            && !agreement.capabilities.has(capability)
        {
            list.notes.push(ListNote::NotOffered { capability });
            return Ok(list);
        }
        let about = About {
            stage: Stage::List,
            subject: M::NAME,
            method: M::NAME,
        };
        let mut seen = HashSet::new();
        let mut walk = PageWalk::new(shared.options.page_limits, agreement.era);
        let mut cursor = None;
        loop {
            let params = ListParams::at(cursor.take());
            let answer = match self.answer_to::<M>(about, &params, &options).await {
                Ok(answer) => answer,
                // PAGE-05: the pages no longer fit together; once more from the first.
                Err(error) if is_invalid_params(&error) && walk.cursor_refused() => {
                    list = List::default();
                    seen.clear();
                    continue;
                }
                Err(error) => return Err(error),
            };
            let bytes = answer.result().len_bytes();
            if agreement.era == Era::Modern {
                let hint = CacheHint::read(answer.result().as_str());
                let until = hint.ttl.and_then(|_| hint.until(now()));
                list.until = list.until.into_iter().chain(until).min();
            }
            let page = self.read::<M>(about, answer)?;
            let count = page.entries.len() + page.skipped.len();
            let next = page.next_cursor.clone();
            list.add(page, &mut seen, walk.remaining_entries(), &mut keep);
            match walk.page(bytes, count, next) {
                PageStep::Fetch(next) => cursor = Some(next),
                PageStep::Done(note) => {
                    list.notes.extend(note.map(ListNote::Cut));
                    return Ok(list);
                }
            }
        }
    }
}

fn is_invalid_params(error: &Error) -> bool {
    error
        .as_rpc()
        .is_some_and(|error| error.code == mcp_jsonrpc::ErrorCode::INVALID_PARAMS)
}
