//! What was found out about HTTP servers, by URL, so that it is found out once (D1, VER-55).

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use mcp_proto::Era;

/// How many servers are remembered; beyond that all are forgotten and found out again.
pub const MAX_REMEMBERED_SERVERS: usize = 1024;

/// What is known of a server.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Known {
    pub(crate) era: Era,
    /// It speaks the transport of 2024-11-05 only.
    pub(crate) old_transport: bool,
}

/// Remembers what servers speak. Clones share what they know. A wrong memory costs one more round, never the connection.
#[derive(Clone, Default)]
pub struct EraMemory(Arc<Mutex<HashMap<String, Known>>>);

/// Without the URLs, whose queries may be secret.
impl fmt::Debug for EraMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EraMemory({} servers)", self.lock().len())
    }
}

impl EraMemory {
    /// A memory of one's own, empty.
    pub fn new() -> Self {
        Self::default()
    }

    /// The memory that connections of this process share by default.
    pub fn shared() -> Self {
        static SHARED: LazyLock<EraMemory> = LazyLock::new(EraMemory::new);
        SHARED.clone()
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.lock().clear();
    }

    pub(crate) fn get(&self, url: &str) -> Option<Known> {
        self.lock().get(url).copied()
    }

    pub(crate) fn remember(&self, url: &str, known: Known) {
        let mut all = self.lock();
        if all.len() >= MAX_REMEMBERED_SERVERS && !all.contains_key(url) {
            all.clear();
        }
        all.insert(url.to_owned(), known);
    }

    pub(crate) fn forget(&self, url: &str) {
        self.lock().remove(url);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
