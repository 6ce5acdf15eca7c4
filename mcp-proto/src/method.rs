//! The methods a client may call, each with the types of its parameters and result.
//!
//! The method of every request is known, hence the type of its result: nothing is guessed from what a result looks like.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::model::completion::{CompleteParams, CompleteResult};
use crate::model::logging::SetLevelParams;
use crate::model::page::{ListEntry, ListParams, Page};
use crate::model::prompt::{GetPromptParams, GetPromptResult, Prompt};
use crate::model::resource::{ReadResourceResult, Resource, ResourceParams, ResourceTemplate};
use crate::model::tool::{CallToolParams, CallToolResult, Tool};
use crate::version::Era;

/// A method: its name, what it needs, and how its result is read.
///
/// Implement it for a method of an extension and it can be called like the others.
///
/// ```
/// use mcp_proto::method::Method;
///
/// struct Weather;
///
/// #[derive(serde::Serialize)]
/// struct Place<'a> {
///     city: &'a str,
/// }
///
/// impl Method for Weather {
///     const NAME: &'static str = "com.example/weather";
///     type Params<'a> = Place<'a>;
///     type Result = f64;
///
///     fn read(result: &str) -> Result<f64, String> {
///         serde_json::from_str(result).map_err(|error| error.to_string())
///     }
/// }
/// ```
pub trait Method {
    /// The name on the wire.
    const NAME: &'static str;
    /// The server capability without which the method must not be called.
    const CAPABILITY: Option<&'static str> = None;
    /// The parameters; they must serialize to a JSON object without `_meta`, which is added by the connection.
    type Params<'a>: Serialize;
    /// The result.
    type Result;

    /// Reads a result from its JSON text.
    ///
    /// # Errors
    /// A fragment that says what is wrong with it.
    fn read(result: &str) -> Result<Self::Result, String>;
}

/// `ping`: is the server there? Legacy era only (PING-02, PING-04).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Ping;

impl Method for Ping {
    const NAME: &'static str = "ping";
    type Params<'a> = NoParams;
    type Result = ();

    fn read(_: &str) -> Result<(), String> {
        // Whatever it is, it is an answer.
        Ok(())
    }
}

/// A method whose result is one page of a list.
pub trait ListMethod:
    for<'a> Method<Params<'a> = ListParams, Result = Page<<Self as ListMethod>::Entry>>
{
    /// What the list consists of.
    type Entry: ListEntry;
}

/// Methods that list something: name on the wire, capability, entry.
macro_rules! list_methods {
    ($($(#[$doc:meta])* $method:ident = $name:literal, $capability:literal, $entry:ty;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub struct $method;

        impl Method for $method {
            const NAME: &'static str = $name;
            const CAPABILITY: Option<&'static str> = Some($capability);
            type Params<'a> = ListParams;
            type Result = Page<$entry>;

            fn read(result: &str) -> Result<Self::Result, String> {
                Page::read(result)
            }
        }

        impl ListMethod for $method {
            type Entry = $entry;
        }
    )*};
}

list_methods! {
    /// `prompts/list`: one page of the server's prompts.
    ListPrompts = "prompts/list", "prompts", Prompt;
    /// `resources/list`: one page of the server's resources.
    ListResources = "resources/list", "resources", Resource;
    /// `resources/templates/list`: one page of the server's resource templates.
    ListResourceTemplates = "resources/templates/list", "resources", ResourceTemplate;
    /// `tools/list`: one page of the server's tools.
    ListTools = "tools/list", "tools", Tool;
}

/// `resources/read`: what is in a resource.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReadResource;

impl Method for ReadResource {
    const NAME: &'static str = "resources/read";
    const CAPABILITY: Option<&'static str> = Some("resources");
    type Params<'a> = ResourceParams<'a>;
    type Result = ReadResourceResult;

    fn read(result: &str) -> Result<ReadResourceResult, String> {
        ReadResourceResult::read(result)
    }
}

/// `resources/subscribe`: tell when a resource changes. Legacy era only; the modern one has
/// [`listen`](crate::connection::ClientConnection::listen).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SubscribeResource;

impl Method for SubscribeResource {
    const NAME: &'static str = "resources/subscribe";
    const CAPABILITY: Option<&'static str> = Some("resources");
    type Params<'a> = ResourceParams<'a>;
    type Result = ();

    fn read(_: &str) -> Result<(), String> {
        Ok(())
    }
}

/// `resources/unsubscribe`. Legacy era only.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct UnsubscribeResource;

impl Method for UnsubscribeResource {
    const NAME: &'static str = "resources/unsubscribe";
    const CAPABILITY: Option<&'static str> = Some("resources");
    type Params<'a> = ResourceParams<'a>;
    type Result = ();

    fn read(_: &str) -> Result<(), String> {
        Ok(())
    }
}

/// `prompts/get`: a prompt with its arguments filled in.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct GetPrompt;

impl Method for GetPrompt {
    const NAME: &'static str = "prompts/get";
    const CAPABILITY: Option<&'static str> = Some("prompts");
    type Params<'a> = GetPromptParams<'a>;
    type Result = GetPromptResult;

    fn read(result: &str) -> Result<GetPromptResult, String> {
        GetPromptResult::read(result)
    }
}

/// `completion/complete`: values for an argument that is being typed. In 2024-11-05 no capability tells whether a server has it
/// (COMP-01), so none is asked for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Complete;

impl Method for Complete {
    const NAME: &'static str = "completion/complete";
    type Params<'a> = CompleteParams<'a>;
    type Result = CompleteResult;

    fn read(result: &str) -> Result<CompleteResult, String> {
        CompleteResult::read(result)
    }
}

/// `logging/setLevel`: which log messages the server sends. Legacy era only (LOG-01), and deprecated by the protocol.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SetLogLevel;

impl Method for SetLogLevel {
    const NAME: &'static str = "logging/setLevel";
    const CAPABILITY: Option<&'static str> = Some("logging");
    type Params<'a> = SetLevelParams;
    type Result = ();

    fn read(_: &str) -> Result<(), String> {
        Ok(())
    }
}

/// `tools/call`: run a tool.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CallTool;

impl Method for CallTool {
    const NAME: &'static str = "tools/call";
    const CAPABILITY: Option<&'static str> = Some("tools");
    type Params<'a> = CallToolParams<'a>;
    type Result = CallToolResult;

    fn read(result: &str) -> Result<CallToolResult, String> {
        CallToolResult::read(result)
    }
}

/// The parameters of a method that takes none: `{}`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct NoParams {}

/// Parameters given as raw JSON, for [`ClientConnection::request_raw`](crate::connection::ClientConnection::request_raw).
pub(crate) type RawParams<'a> = Option<&'a RawValue>;

/// Methods and notifications that exist in one era only (VER-34).
pub(crate) fn only_in(method: &str) -> Option<Era> {
    match method {
        "initialize"
        | "ping"
        | "logging/setLevel"
        | "resources/subscribe"
        | "resources/unsubscribe"
        | "tasks/result"
        | "tasks/list"
        | "notifications/initialized"
        | "notifications/roots/list_changed" => Some(Era::Legacy),
        "server/discover" | "subscriptions/listen" => Some(Era::Modern),
        _ => None,
    }
}

/// Whether a request can be made again when nobody knows what became of it: it only reads, or doing it twice is doing it
/// once (HTTPM-09). Never true for `tools/call` (D2).
pub fn is_safe_to_repeat(method: &str) -> bool {
    matches!(
        method,
        "completion/complete"
            | "logging/setLevel"
            | "ping"
            | "prompts/get"
            | "prompts/list"
            | "resources/list"
            | "resources/read"
            | "resources/subscribe"
            | "resources/templates/list"
            | "resources/unsubscribe"
            | "server/discover"
            | "tasks/get"
            | "tasks/list"
            | "tools/list"
    )
}

/// Methods that open a connection: never for the host to call.
pub(crate) fn belongs_to_lifecycle(method: &str) -> bool {
    matches!(method, "initialize" | "notifications/initialized")
}
