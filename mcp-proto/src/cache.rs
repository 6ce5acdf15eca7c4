//! Results that a modern server allows to be used again.
//!
//! Rules: CACHE-01 to CACHE-11. Legacy results carry no hints, and are not kept here (CACHE-11).
//!
//! One cache belongs to one connection, so that nothing crosses between servers; what is `private` goes when the
//! authorization changes (CACHE-04).

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use mcp_jsonrpc::RawJson;

use crate::connection::ServerNotification;
use crate::members::Members;

/// Who may use a result again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum CacheScope {
    /// Only with the authorization that it was got with. Also what is absent or unknown.
    Private,
    /// Anybody.
    Public,
}

/// How long a result may be used, and by whom.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct CacheHint {
    /// For how long after it arrived; `None` when the server did not say, which counts as not at all (CACHE-02).
    pub ttl: Option<Duration>,
    /// By whom.
    pub scope: CacheScope,
}

impl CacheHint {
    /// Reads `ttlMs` and `cacheScope` of a result.
    pub fn read(result: &str) -> Self {
        let members = Members::read(result);
        let member = |name| members.as_ref().and_then(|members| members.text(name));
        let ttl: Option<f64> = members.as_ref().and_then(|members| members.parse("ttlMs"));
        let scope = match member("cacheScope").as_deref() {
            Some("public") => CacheScope::Public,
            _ => CacheScope::Private,
        };
        // Negative counts as nothing; what no clock can hold, as long enough.
        let milliseconds = ttl.map(|ttl| ttl.max(0.0) as u64);
        Self {
            ttl: milliseconds.map(Duration::from_millis),
            scope,
        }
    }

    /// Until when it may be used, from `received` on; `None` for ever.
    pub fn until(&self, received: Instant) -> Option<Instant> {
        received.checked_add(self.ttl.unwrap_or_default())
    }
}

/// Whether results of a method may be kept (CACHE-01).
pub fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        "prompts/list"
            | "resources/list"
            | "resources/read"
            | "resources/templates/list"
            | "tools/list"
    )
}

/// How much is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct CacheLimits {
    /// Most results. Default 256; 0 switches keeping off.
    pub max_entries: usize,
    /// Most bytes of results and of what was asked. Default 16 MiB.
    pub max_bytes: usize,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self {
            max_entries: 256,
            max_bytes: 16 * 1024 * 1024,
        }
    }
}

/// Kept results of one connection, by method and parameters (CACHE-03).
pub struct ResultCache {
    limits: CacheLimits,
    entries: BTreeMap<Key, Entry>,
    bytes: usize,
    /// Counts what made entries old: a result that was asked for before is old when it arrives.
    generation: u64,
}

type Key = (String, String);

struct Entry {
    result: RawJson,
    until: Option<Instant>,
    scope: CacheScope,
}

/// Shows how much there is, and nothing of it.
impl fmt::Debug for ResultCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResultCache")
            .field("entries", &self.entries.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl ResultCache {
    /// An empty one.
    pub fn new(limits: CacheLimits) -> Self {
        Self {
            limits,
            entries: BTreeMap::new(),
            bytes: 0,
            generation: 0,
        }
    }

    /// A result that is still fresh. `params`: their JSON text, without `_meta`.
    pub fn get(&mut self, method: &str, params: &str, now: Instant) -> Option<RawJson> {
        let key = (method.to_owned(), params.to_owned());
        let entry = self.entries.get(&key)?;
        if entry.until.is_some_and(|until| until <= now) {
            self.remove(&key);
            return None;
        }
        Some(entry.result.clone())
    }

    /// What to hand to [`ResultCache::store`]; ask before the request is made.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Keeps a complete result, if its hint allows that and nothing became old since `generation`. Not for results of
    /// requests that carried answers (CACHE-09).
    pub fn store(
        &mut self,
        method: &str,
        params: &str,
        result: &RawJson,
        generation: u64,
        now: Instant,
    ) {
        let hint = CacheHint::read(result.as_str());
        let key = (method.to_owned(), params.to_owned());
        let bytes = size(&key, result);
        let is_fresh = hint.ttl.is_some_and(|ttl| !ttl.is_zero());
        if !is_cacheable(method)
            || !is_fresh
            || generation != self.generation
            || bytes > self.limits.max_bytes
            || self.limits.max_entries == 0
        {
            return;
        }
        self.remove(&key);
        while self.entries.len() >= self.limits.max_entries
            || self.bytes + bytes > self.limits.max_bytes
        {
            // What lives shortest goes first; for ever is longest.
            let shortest = self
                .entries
                .iter()
                .min_by_key(|(_, entry)| (entry.until.is_none(), entry.until));
            let Some(key) = shortest.map(|(key, _)| key.clone()) else {
                break;
            };
            self.remove(&key);
        }
        self.bytes += bytes;
        let entry = Entry {
            // Without the frame's buffer.
            result: result.detached(),
            until: hint.until(now),
            scope: hint.scope,
        };
        self.entries.insert(key, entry);
    }

    /// The server said something: what it makes old is dropped (CACHE-05).
    pub fn heard(&mut self, notification: &ServerNotification) {
        match notification {
            ServerNotification::MissedChanges => self.clear(),
            ServerNotification::ToolsListChanged => {
                self.drop_where(|(method, _)| method == "tools/list")
            }
            ServerNotification::PromptsListChanged => {
                self.drop_where(|(method, _)| method == "prompts/list");
            }
            ServerNotification::ResourcesListChanged => {
                self.drop_where(|(method, _)| {
                    method == "resources/list" || method == "resources/templates/list"
                });
            }
            ServerNotification::ResourceUpdated { uri } => {
                self.drop_where(|(method, params)| {
                    method == "resources/read" && is_about(params, uri)
                });
            }
            _ => {}
        }
    }

    /// The authorization changed: what was private to the old one is dropped (CACHE-04, AUTH-52).
    pub fn drop_private(&mut self) {
        self.generation += 1;
        self.entries
            .retain(|_, entry| entry.scope == CacheScope::Public);
        self.count();
    }

    /// Drops everything.
    pub fn clear(&mut self) {
        self.drop_where(|_| true);
    }

    fn drop_where(&mut self, is_old: impl Fn(&Key) -> bool) {
        self.generation += 1;
        self.entries.retain(|key, _| !is_old(key));
        self.count();
    }

    fn count(&mut self) {
        let sizes = self
            .entries
            .iter()
            .map(|(key, entry)| size(key, &entry.result));
        self.bytes = sizes.sum();
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= size(key, &entry.result);
        }
    }
}

fn size(key: &Key, result: &RawJson) -> usize {
    key.0.len() + key.1.len() + result.len_bytes()
}

/// Whether a `resources/read` with these parameters is about a resource, a part of it, or what it is a part of.
fn is_about(params: &str, uri: &str) -> bool {
    let read = Members::read(params).and_then(|members| members.text("uri"));
    read.is_none_or(|read| read.starts_with(uri) || uri.starts_with(&read))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[expect(clippy::disallowed_methods, reason = "any instant will do")]
    fn any_time() -> Instant {
        Instant::now()
    }

    fn raw(text: &str) -> RawJson {
        let raw: Box<serde_json::value::RawValue> = serde_json::from_str(text).unwrap();
        RawJson::from(&*raw)
    }

    fn uri(uri: &str) -> String {
        format!(r#"{{"uri":"{uri}"}}"#)
    }

    #[test]
    fn cache_02_and_04_hints_are_read() {
        let cases = [
            ("{}", None, CacheScope::Private),
            (
                r#"{"ttlMs":1500,"cacheScope":"public"}"#,
                Some(1500),
                CacheScope::Public,
            ),
            (r#"{"ttlMs":1500.0}"#, Some(1500), CacheScope::Private),
            (
                r#"{"ttlMs":-1,"cacheScope":"galaxy"}"#,
                Some(0),
                CacheScope::Private,
            ),
            (r#"{"ttlMs":"1"}"#, None, CacheScope::Private),
            (r#"{"ttlMs":1e30}"#, Some(u64::MAX), CacheScope::Private),
            ("7", None, CacheScope::Private),
        ];
        for (text, ttl, scope) in cases {
            let hint = CacheHint::read(text);
            assert_eq!(hint.ttl, ttl.map(Duration::from_millis), "{text}");
            assert_eq!(hint.scope, scope, "{text}");
        }
    }

    #[test]
    fn a_result_is_fresh_for_its_time_and_its_question() {
        let now = any_time();
        let mut cache = ResultCache::new(CacheLimits::default());
        let mut store = |method: &str, params: &str, result: &str| {
            let generation = cache.generation();
            cache.store(method, params, &raw(result), generation, now);
        };
        store("resources/read", &uri("a"), r#"{"ttlMs":1000}"#);
        store("resources/read", &uri("b"), r#"{"ttlMs":0}"#);
        store("resources/read", &uri("c"), "{}");
        store("tools/call", "{}", r#"{"ttlMs":1000}"#);
        store("tools/list", "{}", r#"{"ttlMs":1e300}"#);
        let mut fresh = |method: &str, params: &str, at| cache.get(method, params, at).is_some();
        assert!(fresh("resources/read", &uri("a"), now));
        assert!(!fresh("resources/list", &uri("a"), now));
        for other in ["b", "c", "d"] {
            assert!(!fresh("resources/read", &uri(other), now), "{other}");
        }
        assert!(!fresh("tools/call", "{}", now));
        assert!(!fresh("resources/read", &uri("a"), now + SECOND));
        assert!(fresh("tools/list", "{}", now + SECOND * 1_000_000));
    }

    /// CACHE-05.
    #[test]
    fn notifications_make_old_what_they_are_about() {
        let now = any_time();
        let keys = [
            ("tools/list", "{}".to_owned()),
            ("prompts/list", "{}".to_owned()),
            ("resources/list", "{}".to_owned()),
            ("resources/templates/list", "{}".to_owned()),
            ("resources/read", uri("note://1")),
            ("resources/read", uri("note://2")),
        ];
        let cases: [(ServerNotification, &[usize]); 6] = [
            (ServerNotification::ToolsListChanged, &[1, 2, 3, 4, 5]),
            (ServerNotification::PromptsListChanged, &[0, 2, 3, 4, 5]),
            (ServerNotification::ResourcesListChanged, &[0, 1, 4, 5]),
            (
                ServerNotification::ResourceUpdated {
                    uri: "note://1/part".to_owned(),
                },
                &[0, 1, 2, 3, 5],
            ),
            (ServerNotification::MissedChanges, &[]),
            (
                ServerNotification::ElicitationComplete {
                    elicitation_id: "e".to_owned(),
                },
                &[0, 1, 2, 3, 4, 5],
            ),
        ];
        for (notification, expected) in cases {
            let mut cache = ResultCache::new(CacheLimits::default());
            let before = cache.generation();
            for (method, params) in &keys {
                cache.store(method, params, &raw(r#"{"ttlMs":1000}"#), before, now);
            }
            cache.heard(&notification);
            let left: Vec<_> = (0..keys.len())
                .filter(|n| cache.get(keys[*n].0, &keys[*n].1, now).is_some())
                .collect();
            assert_eq!(left, expected, "{notification:?}");
            // What was asked for before is as old as what was kept.
            let late = uri("note://3");
            cache.store(
                "resources/read",
                &late,
                &raw(r#"{"ttlMs":1000}"#),
                before,
                now,
            );
            let kept = cache.get("resources/read", &late, now).is_some();
            assert_eq!(kept, cache.generation() == before, "{notification:?}");
        }
    }

    #[test]
    fn what_is_private_goes_with_the_authorization() {
        let now = any_time();
        let mut cache = ResultCache::new(CacheLimits::default());
        let hints = [r#"{"ttlMs":9,"cacheScope":"public"}"#, r#"{"ttlMs":9}"#];
        for (name, hint) in ["public", "private"].iter().zip(hints) {
            cache.store("resources/read", &uri(name), &raw(hint), 0, now);
        }
        cache.drop_private();
        assert!(cache.get("resources/read", &uri("public"), now).is_some());
        assert!(cache.get("resources/read", &uri("private"), now).is_none());
    }

    #[test]
    fn it_has_limits() {
        let now = any_time();
        let limits = CacheLimits {
            max_entries: 3,
            max_bytes: 200,
        };
        let mut cache = ResultCache::new(limits);
        for (name, ttl) in [("a", 50), ("b", 10), ("c", 30), ("d", 40)] {
            let result = raw(&format!(r#"{{"ttlMs":{ttl}}}"#));
            cache.store("resources/read", &uri(name), &result, 0, now);
        }
        let mut kept = |name: &str| cache.get("resources/read", &uri(name), now).is_some();
        assert!(kept("a") && !kept("b") && kept("c") && kept("d"));
        let long = raw(&format!(r#"{{"ttlMs":60,"x":"{}"}}"#, "x".repeat(80)));
        cache.store("resources/read", &uri("e"), &long, 0, now);
        assert!(cache.bytes <= 200);
        let longer = raw(&format!(r#"{{"ttlMs":60,"x":"{}"}}"#, "x".repeat(300)));
        cache.store("resources/read", &uri("f"), &longer, 0, now);
        assert!(cache.get("resources/read", &uri("f"), now).is_none());
        assert!(cache.get("resources/read", &uri("e"), now).is_some());
        let mut off = ResultCache::new(CacheLimits {
            max_entries: 0,
            ..limits
        });
        off.store("tools/list", "{}", &raw(r#"{"ttlMs":60}"#), 0, now);
        assert!(off.get("tools/list", "{}", now).is_none());
    }
}
