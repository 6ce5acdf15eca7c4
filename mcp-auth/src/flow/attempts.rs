//! How often one request to the MCP server is worth a flow (AUTH-45).

use super::config::Reason;
use super::output::Authorized;
use crate::secret::Secret;

/// What follows a 401.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum AttemptDecision {
    /// There is another token by now: repeat the request with it.
    UseNewer,
    /// Start a flow for this reason, then repeat the request.
    StartFlow(Reason),
    /// A token that was just given is refused: another one would be as well.
    GiveUp,
}

/// The flows that one request was worth so far: a refresh, then a login, then no more.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    tokens: u32,
    last: Last,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Last {
    #[default]
    Nothing,
    Refresh,
    Login,
}

/// Tokens of other calls that one request is repeated with.
const MAX_NEWER: u32 = 2;

impl Attempts {
    /// For a new request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decides what follows a 401: `sent` is the token that the request carried, `current` the one that is there now. They
    /// differ if another call was faster; then one flow serves both.
    pub fn unauthorized(
        &mut self,
        sent: Option<&Secret>,
        current: Option<&Secret>,
    ) -> AttemptDecision {
        if current.is_some() && current != sent && self.tokens < MAX_NEWER {
            self.tokens += 1;
            return AttemptDecision::UseNewer;
        }
        match self.last {
            Last::Nothing => AttemptDecision::StartFlow(Reason::Unauthorized),
            Last::Refresh => AttemptDecision::StartFlow(Reason::Login),
            Last::Login => AttemptDecision::GiveUp,
        }
    }

    /// A flow ended with tokens.
    pub fn authorized(&mut self, authorized: &Authorized) {
        self.last = match (authorized.refreshed, self.last) {
            (true, Last::Nothing) => Last::Refresh,
            _ => Last::Login,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::tests::tokens;

    fn authorized(refreshed: bool) -> Authorized {
        Authorized {
            tokens: tokens(),
            registration: None,
            refreshed,
            overrides: Vec::new(),
        }
    }

    #[test]
    fn auth_45_a_refresh_then_a_login_then_no_more() {
        let token = Secret::new("a");
        let sent = Some(&token);
        let mut attempts = Attempts::new();
        assert_eq!(
            attempts.unauthorized(sent, sent),
            AttemptDecision::StartFlow(Reason::Unauthorized)
        );
        attempts.authorized(&authorized(true));
        assert_eq!(
            attempts.unauthorized(sent, sent),
            AttemptDecision::StartFlow(Reason::Login)
        );
        attempts.authorized(&authorized(false));
        assert_eq!(attempts.unauthorized(sent, sent), AttemptDecision::GiveUp);

        let mut attempts = Attempts::new();
        assert_eq!(
            attempts.unauthorized(None, None),
            AttemptDecision::StartFlow(Reason::Unauthorized)
        );
        attempts.authorized(&authorized(false));
        assert_eq!(attempts.unauthorized(sent, sent), AttemptDecision::GiveUp);
    }

    #[test]
    fn auth_45_a_token_of_another_call_is_tried_first_but_not_for_ever() {
        let (old, new) = (Secret::new("old"), Secret::new("new"));
        let mut attempts = Attempts::new();
        for _ in 0..MAX_NEWER {
            assert_eq!(
                attempts.unauthorized(Some(&old), Some(&new)),
                AttemptDecision::UseNewer
            );
        }
        assert_eq!(
            attempts.unauthorized(Some(&old), Some(&new)),
            AttemptDecision::StartFlow(Reason::Unauthorized)
        );
    }
}
