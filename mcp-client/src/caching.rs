//! Results that a modern server allows to be used again, between the host and the wire.

use mcp_proto::Era;
use mcp_proto::cache::is_cacheable;
use mcp_proto::connection::Answer;
use mcp_proto::method::Method;

use crate::client::Client;
use crate::error::Error;
use crate::logical_call::{About, LogicalCall};
use crate::options::CallOptions;
use crate::shared::now;

impl Client {
    /// Carries a typed request out, or answers it with what is still fresh.
    pub(crate) async fn answer_to<M: Method>(
        &self,
        about: About<'_>,
        params: &M::Params<'_>,
        options: &CallOptions,
    ) -> Result<Answer, Error> {
        let shared = self.shared();
        let mut call = LogicalCall::new(self, about, options);
        let start =
            |attempt: crate::logical_call::Attempt<'_>| shared.start_call::<M>(params, attempt);
        let may_keep = is_cacheable(M::NAME)
            && options.input.is_empty()
            && self.agreement().era == Era::Modern;
        // What can't be written as JSON fails where it is sent.
        let key = may_keep
            .then(|| serde_json::to_string(params).ok())
            .flatten();
        let Some(key) = key else {
            return call.run(start).await;
        };
        let generation = {
            let mut state = shared.lock();
            if !options.refresh
                && let Some(result) = state.cache.get(M::NAME, &key, now())
            {
                return Ok(Answer::Complete(result));
            }
            state.cache.generation()
        };
        let answer = call.run(start).await?;
        // Results of requests that carried answers belong to those answers (CACHE-09, MRTR-16).
        if let (Answer::Complete(result), false) = (&answer, call.was_asked()) {
            let mut state = shared.lock();
            state.cache.store(M::NAME, &key, result, generation, now());
        }
        Ok(answer)
    }

    /// Says that requests are made in somebody else's name from now on: what was kept for the one before is dropped, and
    /// lists are fetched anew (AUTH-52, CACHE-04). The HTTP transport says so by itself for logins that it makes; a host that
    /// hands in headers of its own says it here.
    pub fn authorization_changed(&self) {
        let mut state = self.shared().lock();
        state.cache.drop_private();
        state.catalogue.invalidate();
    }
}
