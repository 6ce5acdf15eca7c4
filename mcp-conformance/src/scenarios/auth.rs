//! Servers that want to know who is asking. Signing in is set up in [`session`](crate::session); here is what follows.

use serde_json::json;

use crate::failure::Failure;
use crate::session::connect;
use crate::task::Task;

/// Carries out the scenario `auth/NAME`.
pub(super) async fn play(task: &Task, name: &str) -> Result<(), Failure> {
    match name {
        "2025-03-26-oauth-endpoint-fallback"
        | "2025-03-26-oauth-metadata-backcompat"
        | "authorization-server-migration"
        | "basic-cimd"
        | "client-credentials-basic"
        | "client-credentials-jwt"
        | "dpop"
        | "dpop-nonce"
        | "enterprise-managed-authorization"
        | "iss-not-advertised"
        | "iss-normalized"
        | "iss-supported"
        | "iss-supported-missing"
        | "iss-unexpected"
        | "iss-wrong-issuer"
        | "metadata-default"
        | "metadata-issuer-mismatch"
        | "metadata-var1"
        | "metadata-var2"
        | "metadata-var3"
        | "offline-access-not-supported"
        | "offline-access-scope"
        | "pre-registration"
        | "resource-mismatch"
        | "scope-from-scopes-supported"
        | "scope-from-www-authenticate"
        | "scope-omitted-when-undefined"
        | "scope-retry-limit"
        | "scope-step-up"
        | "token-endpoint-auth-basic"
        | "token-endpoint-auth-none"
        | "token-endpoint-auth-post"
        | "wif-jwt-bearer" => list_and_call(task).await,
        _ => Err(Failure::UnknownScenario(task.scenario.clone())),
    }
}

/// Lists the tools, and calls each, signed in.
async fn list_and_call(task: &Task) -> Result<(), Failure> {
    let client = connect(task).await?;
    for tool in &client.tools().await?.tools {
        client.call_tool(&tool.name, &json!({})).await?;
    }
    client.close().await;
    Ok(())
}
