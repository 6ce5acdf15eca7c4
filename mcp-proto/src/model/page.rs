//! Pages of lists, and the walk through all of them.
//!
//! Rules: PAGE-01 to PAGE-06, C139 (empty cursors), C140 (cursors that repeat).

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::members::Members;
use crate::version::Era;

/// An opaque position in a list, as the server gave it.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// Wraps a cursor that a server gave.
    pub fn new(cursor: impl Into<String>) -> Self {
        Self(cursor.into())
    }

    /// The text, to be sent back unchanged.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Parameters of every list request.
///
/// ```json
/// {"cursor": "eyJwYWdlIjozfQ=="}
/// ```
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ListParams {
    /// Where to go on; the first page without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<Cursor>,
}

impl ListParams {
    /// The page at `cursor`.
    pub fn at(cursor: Option<Cursor>) -> Self {
        Self { cursor }
    }
}

/// Something that lists consist of.
pub trait ListEntry: serde::de::DeserializeOwned {
    /// What it is called: `tool`.
    const KIND: &'static str;
    /// The member of a page that holds them: `tools`.
    const MEMBER: &'static str;
    /// The member that tells one from another: `name`.
    const KEY: &'static str;

    /// What tells it from another.
    fn key(&self) -> &str;
}

/// One page of a list.
///
/// ```json
/// {"tools": [{"name": "add", "inputSchema": {"type": "object"}}], "nextCursor": "2"}
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries, in the server's order (TOOL-04).
    pub entries: Vec<T>,
    /// Where to go on.
    pub next_cursor: Option<Cursor>,
    /// Entries that could not be read; the others are good all the same (C144).
    pub skipped: Vec<SkippedEntry>,
}

/// An entry of a list that could not be read.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct SkippedEntry {
    /// What it should have been: `tool`.
    pub kind: &'static str,
    /// What tells it from others, if that much was there.
    pub key: Option<String>,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for SkippedEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, key, reason } = self;
        match key {
            Some(key) => write!(f, "{kind} {key:?} was left out: {reason}"),
            None => write!(
                f,
                "a {kind} that can't be told from others was left out: {reason}"
            ),
        }
    }
}

impl<T: ListEntry> Page<T> {
    /// Reads a page, entry by entry.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let members = Members::read(text).ok_or("it is no object")?;
        let list: Vec<&RawValue> = match members.get(T::MEMBER) {
            Some(raw) => {
                serde_json::from_str(raw.get()).map_err(|_| format!("{} is no array", T::MEMBER))?
            }
            None => return Err(format!("it has no {}", T::MEMBER)),
        };
        let mut page = Self {
            entries: Vec::with_capacity(list.len()),
            next_cursor: members.parse("nextCursor"),
            skipped: Vec::new(),
        };
        for raw in list {
            // The derived readers would also take an array of the members in order.
            let entry = if raw.get().starts_with('{') {
                serde_json::from_str::<T>(raw.get()).map_err(|error| error.to_string())
            } else {
                Err("it is no object".to_owned())
            };
            match entry {
                Ok(entry) => page.entries.push(entry),
                Err(reason) => page.skipped.push(SkippedEntry {
                    kind: T::KIND,
                    key: Members::read(raw.get()).and_then(|members| members.text(T::KEY)),
                    reason,
                }),
            }
        }
        Ok(page)
    }
}

/// Limits of a walk through all pages of a list.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct PageLimits {
    /// Most pages fetched. Default 100.
    pub max_pages: usize,
    /// Most entries kept. Default 16,384.
    pub max_entries: usize,
    /// Most bytes of pages taken, as they stand on the wire. Default 64 MiB.
    pub max_bytes: usize,
}

impl Default for PageLimits {
    fn default() -> Self {
        Self {
            max_pages: 100,
            max_entries: 16_384,
            max_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Why a walk ended before the server said so. What was read is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum PageNote {
    /// A cursor came that was used before: the server goes in circles (C140).
    RepeatedCursor,
    /// [`PageLimits::max_bytes`] was reached.
    TooManyBytes {
        /// The limit.
        limit: usize,
    },
    /// [`PageLimits::max_entries`] was reached.
    TooManyEntries {
        /// The limit.
        limit: usize,
    },
    /// [`PageLimits::max_pages`] was reached.
    TooManyPages {
        /// The limit.
        limit: usize,
    },
}

impl fmt::Display for PageNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RepeatedCursor => {
                f.write_str("the server repeated a page cursor; the list was cut there")
            }
            Self::TooManyBytes { limit } => {
                write!(f, "the list was cut after {limit} bytes (limit max_bytes)")
            }
            Self::TooManyEntries { limit } => {
                write!(f, "the list was cut at {limit} entries (limit max_entries)")
            }
            Self::TooManyPages { limit } => {
                write!(f, "the list was cut after {limit} pages (limit max_pages)")
            }
        }
    }
}

/// What to do after a page.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "a walk goes on or ends")]
pub enum PageStep {
    /// Fetch the page at this cursor.
    Fetch(Cursor),
    /// That was all, or all that is taken.
    Done(Option<PageNote>),
}

/// Decides, page by page, whether to go on. Pure: the caller fetches and keeps the entries.
#[derive(Debug)]
pub struct PageWalk {
    limits: PageLimits,
    era: Era,
    seen: BTreeSet<Cursor>,
    pages: usize,
    entries: usize,
    bytes: usize,
    restarted: bool,
}

impl PageWalk {
    /// A walk that starts with the first page.
    pub fn new(limits: PageLimits, era: Era) -> Self {
        Self {
            limits,
            era,
            seen: BTreeSet::new(),
            pages: 0,
            entries: 0,
            bytes: 0,
            restarted: false,
        }
    }

    /// How many entries may still be kept of the page that comes next.
    pub fn remaining_entries(&self) -> usize {
        self.limits.max_entries.saturating_sub(self.entries)
    }

    /// A page of so many bytes arrived, with so many entries and this cursor.
    pub fn page(&mut self, bytes: usize, entries: usize, next: Option<Cursor>) -> PageStep {
        self.pages += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.entries = self.entries.saturating_add(entries);
        let Some(cursor) = next else {
            return PageStep::Done(None);
        };
        // Legacy servers mean "the end" by an empty cursor; the modern text makes it a cursor like any other (PAGE-02).
        // Following it once costs one request and loses no page, whichever is meant (C139).
        let empty = cursor.as_str().is_empty();
        if !self.seen.insert(cursor.clone()) {
            let quiet = empty && self.era == Era::Legacy;
            return PageStep::Done((!quiet).then_some(PageNote::RepeatedCursor));
        }
        if empty && self.era == Era::Legacy && entries == 0 {
            return PageStep::Done(None);
        }
        if self.bytes >= self.limits.max_bytes {
            return PageStep::Done(Some(PageNote::TooManyBytes {
                limit: self.limits.max_bytes,
            }));
        }
        if self.entries >= self.limits.max_entries {
            return PageStep::Done(Some(PageNote::TooManyEntries {
                limit: self.limits.max_entries,
            }));
        }
        if self.pages >= self.limits.max_pages {
            return PageStep::Done(Some(PageNote::TooManyPages {
                limit: self.limits.max_pages,
            }));
        }
        PageStep::Fetch(cursor)
    }

    /// The server refused a cursor with `-32602`. `true`: forget all pages and start again, which happens once (PAGE-05).
    pub fn cursor_refused(&mut self) -> bool {
        if self.seen.is_empty() || self.restarted {
            return false;
        }
        *self = Self {
            restarted: true,
            ..Self::new(self.limits, self.era)
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages as the number of their entries and the cursor that they name.
    type Pages<'a> = &'a [(usize, Option<&'a str>)];

    fn walk(limits: PageLimits, era: Era, pages: Pages<'_>) -> Vec<PageStep> {
        let mut walk = PageWalk::new(limits, era);
        pages
            .iter()
            .map(|(entries, next)| walk.page(1, *entries, next.map(Cursor::new)))
            .collect()
    }

    fn fetch(cursor: &str) -> PageStep {
        PageStep::Fetch(Cursor::new(cursor))
    }

    #[test]
    fn walks_end_for_one_reason() {
        let limits = PageLimits::default();
        let repeated = || PageStep::Done(Some(PageNote::RepeatedCursor));
        let done = || PageStep::Done(None);
        let cases: &[(Era, Pages<'_>, &[PageStep])] = &[
            (Era::Legacy, &[(3, None)], &[done()]),
            (
                Era::Legacy,
                &[(3, Some("a")), (0, Some("b")), (1, None)],
                &[fetch("a"), fetch("b"), done()],
            ), // PAGE-04
            (
                Era::Legacy,
                &[(1, Some("p1")), (1, Some("p1"))],
                &[fetch("p1"), repeated()],
            ), // C140
            (
                Era::Modern,
                &[(1, Some("a")), (1, Some("b")), (1, Some("a"))],
                &[fetch("a"), fetch("b"), repeated()],
            ),
            // C139
            (
                Era::Legacy,
                &[(1, Some("")), (1, Some(""))],
                &[fetch(""), done()],
            ),
            (Era::Legacy, &[(0, Some(""))], &[done()]),
            (
                Era::Modern,
                &[(1, Some("")), (1, None)],
                &[fetch(""), done()],
            ),
            (
                Era::Modern,
                &[(1, Some("")), (1, Some(""))],
                &[fetch(""), repeated()],
            ),
        ];
        for (era, pages, expected) in cases {
            assert_eq!(&walk(limits, *era, pages), expected, "{era} {pages:?}");
        }
    }

    #[test]
    fn limits_at_below_and_above() {
        let limits = PageLimits {
            max_pages: 3,
            max_entries: 10,
            max_bytes: 1000,
        };
        let cut = |limit| PageStep::Done(Some(PageNote::TooManyEntries { limit }));
        assert_eq!(walk(limits, Era::Legacy, &[(9, Some("a"))]), [fetch("a")]);
        assert_eq!(
            walk(limits, Era::Legacy, &[(10, None)]),
            [PageStep::Done(None)]
        );
        assert_eq!(walk(limits, Era::Legacy, &[(10, Some("a"))]), [cut(10)]);
        assert_eq!(walk(limits, Era::Legacy, &[(11, Some("a"))]), [cut(10)]);
        assert_eq!(
            walk(
                limits,
                Era::Legacy,
                &[(1, Some("a")), (1, Some("b")), (1, Some("c"))]
            ),
            [
                fetch("a"),
                fetch("b"),
                PageStep::Done(Some(PageNote::TooManyPages { limit: 3 }))
            ]
        );
    }

    #[test]
    fn bytes_at_below_and_above() {
        let limits = PageLimits {
            max_bytes: 10,
            ..PageLimits::default()
        };
        let cut = PageStep::Done(Some(PageNote::TooManyBytes { limit: 10 }));
        for (bytes, expected) in [(9, fetch("a")), (10, cut.clone()), (11, cut)] {
            let mut walk = PageWalk::new(limits, Era::Legacy);
            assert_eq!(
                walk.page(bytes, 1, Some(Cursor::new("a"))),
                expected,
                "{bytes}"
            );
        }
    }

    #[test]
    fn a_refused_cursor_restarts_once() {
        let mut walk = PageWalk::new(PageLimits::default(), Era::Legacy);
        assert!(
            !walk.cursor_refused(),
            "the first page has no cursor to refuse"
        );
        walk.page(1, 5, Some(Cursor::new("a")));
        assert!(walk.cursor_refused());
        assert_eq!(walk.page(1, 5, Some(Cursor::new("a"))), fetch("a"));
        assert!(!walk.cursor_refused());
    }
}
