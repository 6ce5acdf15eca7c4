//! Which scopes are asked for, at first and after a refusal (AUTH-40 to AUTH-42, AUTH-50, AUTH-51).

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::www_authenticate::TokenChallenge;

/// Scopes of one set that are kept.
pub const MAX_SCOPES: usize = 256;
/// Bytes of one scope that are accepted; longer ones are dropped.
pub const MAX_SCOPE_BYTES: usize = 512;
/// Operations whose refusals are remembered; the one refused longest ago is forgotten.
pub const MAX_REMEMBERED_OPERATIONS: usize = 256;

/// The scope that asks for a refresh token.
pub const OFFLINE_ACCESS: &str = "offline_access";

/// Scopes, each once, in the order in which they were first named.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ScopeSet(Vec<String>);

impl ScopeSet {
    /// Reads scopes that are separated by spaces. What can be no scope (RFC 6749 3.3) is left out.
    pub fn parse(text: &str) -> Self {
        text.split_ascii_whitespace().collect()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it has this one.
    pub fn contains(&self, scope: &str) -> bool {
        self.0.iter().any(|known| known == scope)
    }

    /// Whether it has all of the others.
    pub fn contains_all(&self, others: &Self) -> bool {
        others.iter().all(|scope| self.contains(scope))
    }

    /// The scopes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// These, and the others behind them.
    #[must_use]
    pub fn union(&self, others: &Self) -> Self {
        self.iter().chain(others.iter()).collect()
    }

    fn without(&self, scope: &str) -> Self {
        self.iter().filter(|known| *known != scope).collect()
    }

    /// The same whatever the order.
    fn sorted(&self) -> Vec<String> {
        let mut scopes = self.0.clone();
        scopes.sort();
        scopes
    }
}

impl<'a> FromIterator<&'a str> for ScopeSet {
    fn from_iter<I: IntoIterator<Item = &'a str>>(scopes: I) -> Self {
        let mut set = Self::default();
        for scope in scopes {
            if set.0.len() >= MAX_SCOPES {
                break;
            }
            if is_scope(scope) && !set.contains(scope) {
                set.0.push(scope.to_owned());
            }
        }
        set
    }
}

/// As on the wire: separated by spaces.
impl fmt::Display for ScopeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(" "))
    }
}

impl Serialize for ScopeSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ScopeSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::parse(&text))
    }
}

fn is_scope(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= MAX_SCOPE_BYTES
        && text
            .bytes()
            .all(|byte| matches!(byte, 0x21 | 0x23..=0x5b | 0x5d..=0x7e))
}

/// What the first request for a token knows about scopes.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "the inputs of one rule, filled in by name"
)]
pub struct ScopeSources<'a> {
    /// What the user set for this server; it wins.
    pub configured: Option<&'a ScopeSet>,
    /// What the challenge names.
    pub challenge: Option<&'a ScopeSet>,
    /// What the protected resource metadata lists.
    pub resource: Option<&'a ScopeSet>,
    /// What the authorization server's metadata lists.
    pub server: Option<&'a ScopeSet>,
    /// Whether a refresh token is wanted.
    pub wants_refresh: bool,
}

/// The scopes of the first request: what the challenge names, else all that the resource lists, else none (AUTH-40). The
/// challenge is taken as it is (AUTH-41).
///
/// `offline_access` follows the authorization server's metadata (AUTH-42): added if that lists it and a refresh token is
/// wanted, taken out of what the *resource* lists if that does not. It is never asked for alone: then it would replace what
/// the server grants by default.
pub fn initial(sources: &ScopeSources<'_>) -> Option<ScopeSet> {
    if let Some(configured) = sources.configured {
        return Some(configured.clone()).filter(|scopes| !scopes.is_empty());
    }
    let offered = sources
        .server
        .is_some_and(|scopes| scopes.contains(OFFLINE_ACCESS));
    let mut scopes = match (sources.challenge, sources.resource) {
        (Some(challenge), _) if !challenge.is_empty() => challenge.clone(),
        (_, Some(resource)) if sources.server.is_some() && !offered => {
            resource.without(OFFLINE_ACCESS)
        }
        (_, Some(resource)) => resource.clone(),
        (_, None) => return None,
    };
    if scopes.is_empty() {
        return None;
    }
    if offered && sources.wants_refresh {
        scopes = scopes.union(&[OFFLINE_ACCESS].into_iter().collect());
    }
    Some(scopes)
}

/// What follows a 403 with `insufficient_scope`.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum StepUpDecision {
    /// Ask for these, in a new authorization: a refresh can't add scopes (C194). Then repeat the request.
    Authorize(ScopeSet),
    /// Asking again would change nothing.
    GiveUp(StepUpRefusal),
}

/// Why no more scopes are asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StepUpRefusal {
    /// The challenge names no scope.
    #[error("the server asks for more rights but does not say which scopes")]
    NoScope,
    /// These scopes were asked for already, and the operation is still refused.
    #[error("the scopes that the server asks for were requested already, and it still refuses")]
    AlreadyRequested,
    /// The limit of tries for one operation.
    #[error("the server asked for more rights {0} times for one operation")]
    TooOften(u32),
}

/// Remembers, for one resource, which operations were refused with which scopes (AUTH-51), so that a server that refuses
/// for ever opens no browser for ever.
#[derive(Clone, Debug)]
pub struct StepUp {
    max_tries: u32,
    clock: u64,
    operations: BTreeMap<String, Refused>,
}

#[derive(Clone, Debug, Default)]
struct Refused {
    tries: u32,
    asked: Vec<Vec<String>>,
    last: u64,
}

/// How often more scopes are asked for because of one operation. With the first login that makes three.
pub const DEFAULT_MAX_STEP_UPS: u32 = 2;

impl Default for StepUp {
    fn default() -> Self {
        Self::new(DEFAULT_MAX_STEP_UPS)
    }
}

impl StepUp {
    /// With a limit of tries for one operation.
    pub fn new(max_tries: u32) -> Self {
        Self {
            max_tries,
            clock: 0,
            operations: BTreeMap::new(),
        }
    }

    /// Decides what to do about a refusal. `operation` names what was refused (such as `tools/call name`); `requested` is
    /// what was asked for so far, whatever was granted. The new set is its union with the challenge (AUTH-50).
    pub fn decide(
        &mut self,
        operation: &str,
        requested: &ScopeSet,
        challenge: &TokenChallenge,
    ) -> StepUpDecision {
        let Some(wanted) = &challenge.scope else {
            return StepUpDecision::GiveUp(StepUpRefusal::NoScope);
        };
        self.clock += 1;
        let union = requested.union(wanted);
        if !self.operations.contains_key(operation)
            && self.operations.len() >= MAX_REMEMBERED_OPERATIONS
        {
            let oldest = self
                .operations
                .iter()
                .min_by_key(|(_, refused)| refused.last)
                .map(|(name, _)| name.clone());
            if let Some(oldest) = oldest {
                self.operations.remove(&oldest);
            }
        }
        let refused = self.operations.entry(operation.to_owned()).or_default();
        refused.last = self.clock;
        let key = union.sorted();
        if refused.asked.contains(&key) {
            return StepUpDecision::GiveUp(StepUpRefusal::AlreadyRequested);
        }
        if refused.tries >= self.max_tries {
            return StepUpDecision::GiveUp(StepUpRefusal::TooOften(refused.tries));
        }
        refused.tries += 1;
        refused.asked.push(key);
        StepUpDecision::Authorize(union)
    }

    /// Forgets an operation that went through.
    pub fn succeeded(&mut self, operation: &str) {
        self.operations.remove(operation);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(text: &str) -> ScopeSet {
        ScopeSet::parse(text)
    }

    #[test]
    fn auth_40_to_42_first_scopes() {
        // configured, challenge, resource, server, refresh wanted, expected; "-" is absent
        let cases = [
            ("-", "-", "-", "-", true, "-"),
            ("-", "a b", "c d", "-", false, "a b"),
            ("-", "-", "c d", "-", false, "c d"),
            ("-", "", "c d", "-", false, "c d"),
            ("-", "-", "", "-", false, "-"),
            ("-", "a", "-", "offline_access x", true, "a offline_access"),
            ("-", "a", "-", "offline_access x", false, "a"),
            ("-", "-", "-", "offline_access x", true, "-"),
            ("-", "a", "-", "x", true, "a"),
            ("-", "a offline_access", "-", "x", true, "a offline_access"),
            ("-", "-", "c offline_access", "x", true, "c"),
            ("-", "-", "offline_access", "x", true, "-"),
            ("-", "-", "c offline_access", "-", true, "c offline_access"),
            ("y", "a", "c", "offline_access", true, "y"),
            ("", "a", "c", "-", true, "-"),
        ];
        for (configured, challenge, resource, server, wants_refresh, expected) in cases {
            let given = |text: &str| (text != "-").then(|| set(text));
            let (configured, challenge) = (given(configured), given(challenge));
            let (resource, server) = (given(resource), given(server));
            let found = initial(&ScopeSources {
                configured: configured.as_ref(),
                challenge: challenge.as_ref(),
                resource: resource.as_ref(),
                server: server.as_ref(),
                wants_refresh,
            });
            let found = found.map_or_else(|| "-".to_owned(), |scopes| scopes.to_string());
            assert_eq!(found, expected, "{challenge:?} {resource:?} {server:?}");
        }
    }

    fn challenge(scope: &str) -> TokenChallenge {
        let field = format!(r#"Bearer error="insufficient_scope", scope="{scope}""#);
        TokenChallenge::read([field.as_str()]).unwrap()
    }

    #[test]
    fn c194_step_up_asks_for_the_union_and_ends() {
        let mut step_up = StepUp::default();
        let first = step_up.decide("tools/call a", &set("read"), &challenge("files:write"));
        assert_eq!(first, StepUpDecision::Authorize(set("read files:write")));
        // Refused again with the same scopes: no second login for the same thing.
        let again = step_up.decide(
            "tools/call a",
            &set("read files:write"),
            &challenge("files:write"),
        );
        assert_eq!(
            again,
            StepUpDecision::GiveUp(StepUpRefusal::AlreadyRequested)
        );
        // Another operation has tries of its own.
        let other = step_up.decide(
            "tools/call b",
            &set("read files:write"),
            &challenge("files:write"),
        );
        assert_eq!(other, StepUpDecision::Authorize(set("read files:write")));
    }

    #[test]
    fn auth_51_a_server_that_wants_ever_more_is_given_up() {
        let mut step_up = StepUp::default();
        let mut requested = set("a");
        let mut logins = 0;
        let refusal = loop {
            let next = challenge(&format!("s{logins}"));
            match step_up.decide("tools/call a", &requested, &next) {
                StepUpDecision::Authorize(scopes) => requested = scopes,
                StepUpDecision::GiveUp(refusal) => break refusal,
            }
            logins += 1;
        };
        assert_eq!(logins, DEFAULT_MAX_STEP_UPS);
        assert_eq!(refusal, StepUpRefusal::TooOften(2));
        step_up.succeeded("tools/call a");
        let after = step_up.decide("tools/call a", &requested, &challenge("z"));
        assert!(matches!(after, StepUpDecision::Authorize(_)));
    }

    #[test]
    fn a_refusal_without_scopes_opens_no_browser() {
        let challenge = TokenChallenge::read(["Bearer error=insufficient_scope"]).unwrap();
        assert!(challenge.is_insufficient_scope());
        assert_eq!(
            StepUp::default().decide("x", &set("a"), &challenge),
            StepUpDecision::GiveUp(StepUpRefusal::NoScope)
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut step_up = StepUp::default();
        for n in 0..2 * MAX_REMEMBERED_OPERATIONS {
            step_up.decide(&format!("op {n}"), &set("a"), &challenge("b"));
        }
        assert_eq!(step_up.operations.len(), MAX_REMEMBERED_OPERATIONS);
        assert!(!step_up.operations.contains_key("op 0"));
    }

    proptest! {
        #[test]
        fn any_text_gives_scopes_that_can_be_sent(text in "\\PC{0,80}") {
            let scopes = set(&text);
            prop_assert_eq!(&set(&scopes.to_string()), &scopes);
            prop_assert_eq!(&scopes.union(&scopes), &scopes);
        }
    }
}
