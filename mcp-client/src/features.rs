//! What a server offers besides tools: resources, prompts, completion, log messages.

use std::collections::BTreeMap;

use mcp_proto::method::{
    Complete, GetPrompt, ListPrompts, ListResourceTemplates, ListResources, ReadResource,
    SetLogLevel,
};
use mcp_proto::model::completion::{CompleteParams, CompleteResult, CompletionReference};
use mcp_proto::model::deprecated::logging::{LoggingLevel, SetLevelParams};
use mcp_proto::model::prompt::{GetPromptParams, GetPromptResult, Prompt};
use mcp_proto::model::resource::{ReadResourceResult, Resource, ResourceParams, ResourceTemplate};
use mcp_proto::{Era, ProtocolVersion};

use crate::client::Client;
use crate::error::Error;
use crate::lists::List;
use crate::options::CallOptions;

impl Client {
    /// All resources of the server, fetched page by page. A server without the `resources` capability has an empty list with a
    /// note.
    ///
    /// # Errors
    /// When a page could not be had.
    ///
    /// # Cancel safety
    /// Dropping the future gives the page in flight up.
    pub async fn resources(&self) -> Result<List<Resource>, Error> {
        self.walk::<ListResources>(CallOptions::default(), |_| Ok(()))
            .await
    }

    /// All resource templates of the server, as [`Client::resources`].
    ///
    /// # Errors
    /// As [`Client::resources`].
    ///
    /// # Cancel safety
    /// As [`Client::resources`].
    pub async fn resource_templates(&self) -> Result<List<ResourceTemplate>, Error> {
        self.walk::<ListResourceTemplates>(CallOptions::default(), |_| Ok(()))
            .await
    }

    /// Reads a resource. The URI is sent exactly as given (RES-07); what comes back may be several items.
    ///
    /// A resource that is not there is an error with code `-32602` in the modern era and `-32002` before (RES-05).
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`].
    pub async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, Error> {
        let options = CallOptions::default();
        self.request::<ReadResource>(&ResourceParams::new(uri), options)
            .await
    }

    /// All prompts of the server, as [`Client::resources`].
    ///
    /// # Errors
    /// As [`Client::resources`].
    ///
    /// # Cancel safety
    /// As [`Client::resources`].
    pub async fn prompts(&self) -> Result<List<Prompt>, Error> {
        self.walk::<ListPrompts>(CallOptions::default(), |_| Ok(()))
            .await
    }

    /// Gets a prompt with its arguments filled in. Whoever knows the [`Prompt`] can ask it for missing arguments first.
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`].
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: &BTreeMap<String, String>,
    ) -> Result<GetPromptResult, Error> {
        let params = GetPromptParams::new(name, arguments);
        self.request::<GetPrompt>(&params, CallOptions::default())
            .await
    }

    /// Values for an argument that is being typed: `value` is what is there so far, `chosen` the arguments chosen before (not
    /// sent to servers that speak a version without them, COMP-03).
    ///
    /// # Errors
    /// See [`ErrorKind`](crate::ErrorKind). A server that completes nothing answers with `-32601`.
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`]: drop it when the person typed on.
    pub async fn complete(
        &self,
        reference: CompletionReference<'_>,
        name: &str,
        value: &str,
        chosen: &BTreeMap<String, String>,
    ) -> Result<CompleteResult, Error> {
        let mut params = CompleteParams::new(reference, name, value);
        let knows_context = self.agreement().version >= ProtocolVersion::V2025_06_18;
        if knows_context && !chosen.is_empty() {
            params = params.with_context(chosen);
        }
        self.request::<Complete>(&params, CallOptions::default())
            .await
    }

    /// Asks for log messages of this level and graver ones; they come as [`Client::notifications`]. In the legacy era the
    /// server is told once, in the modern one every later request says so (LOG-01, LOG-03). Deprecated by the protocol.
    ///
    /// # Errors
    /// In the legacy era, when the server was not told.
    ///
    /// # Cancel safety
    /// As [`Client::call_tool`].
    pub async fn set_log_level(&self, level: LoggingLevel) -> Result<(), Error> {
        if self.agreement().era == Era::Modern {
            self.shared().lock().connection.set_log_level(Some(level));
            return Ok(());
        }
        let params = SetLevelParams::new(level);
        self.request::<SetLogLevel>(&params, CallOptions::default())
            .await
    }
}
