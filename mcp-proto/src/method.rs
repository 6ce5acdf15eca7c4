//! The methods a client may call, each with the types of its parameters and result.
//!
//! The method of every request is known, hence the type of its result: nothing is guessed from what a result looks like.

use serde::Serialize;
use serde_json::value::RawValue;

use crate::model::completion::{CompleteParams, CompleteResult};
use crate::model::deprecated::logging::SetLevelParams;
use crate::model::page::{ListEntry, ListParams, Page};
use crate::model::prompt::{GetPromptParams, GetPromptResult, Prompt};
use crate::model::resource::{ReadResourceResult, Resource, ResourceParams, ResourceTemplate};
use crate::model::task::{TaskParams, TaskState, UpdateTaskParams};
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
    /// The server capability without which the method must not be called; with a dot and a name, a flag inside it that must
    /// be `true`.
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

    /// Reads a result whose `resultType` an extension added: one of
    /// [`ClientConfig::result_types`](crate::connection::ClientConfig::result_types). `None`: this method has no such results,
    /// which is the default.
    fn read_extension(result_type: &str, result: &str) -> Option<Result<Self::Result, String>> {
        let _ = (result_type, result);
        None
    }
}

/// A method whose result is one page of a list.
pub trait ListMethod:
    for<'a> Method<Params<'a> = ListParams, Result = Page<<Self as ListMethod>::Entry>>
{
    /// What the list consists of.
    type Entry: ListEntry;
}

/// Methods: name on the wire, capability, parameters, result and how it is read.
macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident = $name:literal, $capability:expr, $params:ty => $result:ty, $read:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        #[non_exhaustive]
        pub struct $method;

        impl Method for $method {
            const NAME: &'static str = $name;
            const CAPABILITY: Option<&'static str> = $capability;
            type Params<'a> = $params;
            type Result = $result;

            fn read(result: &str) -> Result<Self::Result, String> {
                let read: fn(&str) -> Result<$result, String> = $read;
                read(result)
            }
        }
    )*};
}

/// Methods that list something: the entry of the list.
macro_rules! list_methods {
    ($($method:ident: $entry:ty;)*) => {$(
        impl ListMethod for $method {
            type Entry = $entry;
        }
    )*};
}

/// Whatever it is, it is an answer.
fn anything(_: &str) -> Result<(), String> {
    Ok(())
}

methods! {
    /// `tools/call`: run a tool.
    CallTool = "tools/call", Some("tools"), CallToolParams<'a> => CallToolResult, CallToolResult::read;
    /// `tasks/cancel`: give a task up. 2025-11-25 and the extension.
    CancelTask = "tasks/cancel", None, TaskParams<'a> => (), anything;
    /// `completion/complete`: values for an argument that is being typed. In 2024-11-05 no capability tells whether a server has
    /// it (COMP-01), so none is asked for.
    Complete = "completion/complete", None, CompleteParams<'a> => CompleteResult, CompleteResult::read;
    /// `prompts/get`: a prompt with its arguments filled in.
    GetPrompt = "prompts/get", Some("prompts"), GetPromptParams<'a> => GetPromptResult, GetPromptResult::read;
    /// `tasks/get`: how far a task is. 2025-11-25 and the extension.
    GetTask = "tasks/get", None, TaskParams<'a> => TaskState, TaskState::read;
    /// `tasks/result`: what came of a `tools/call`, once it is there (TASK-02). 2025-11-25 only.
    GetTaskResult = "tasks/result", None, TaskParams<'a> => CallToolResult, CallToolResult::read;
    /// `prompts/list`: one page of the server's prompts.
    ListPrompts = "prompts/list", Some("prompts"), ListParams => Page<Prompt>, Page::read;
    /// `resources/templates/list`: one page of the server's resource templates.
    ListResourceTemplates = "resources/templates/list", Some("resources"), ListParams => Page<ResourceTemplate>, Page::read;
    /// `resources/list`: one page of the server's resources.
    ListResources = "resources/list", Some("resources"), ListParams => Page<Resource>, Page::read;
    /// `tasks/list`: one page of the server's tasks. 2025-11-25 only.
    ListTasks = "tasks/list", Some("tasks"), ListParams => Page<TaskState>, Page::read;
    /// `tools/list`: one page of the server's tools.
    ListTools = "tools/list", Some("tools"), ListParams => Page<Tool>, Page::read;
    /// `ping`: is the server there? Legacy era only (PING-02, PING-04).
    Ping = "ping", None, NoParams => (), anything;
    /// `resources/read`: what is in a resource.
    ReadResource = "resources/read", Some("resources"), ResourceParams<'a> => ReadResourceResult, ReadResourceResult::read;
    /// `logging/setLevel`: which log messages the server sends. Legacy era only (LOG-01), and deprecated by the protocol.
    SetLogLevel = "logging/setLevel", Some("logging"), SetLevelParams => (), anything;
    /// `resources/subscribe`: tell when a resource changes. Legacy era only; the modern one has
    /// [`listen`](crate::connection::ClientConnection::listen).
    SubscribeResource = "resources/subscribe", Some("resources.subscribe"), ResourceParams<'a> => (), anything;
    /// `tasks/update`: answers to what a task asks. The extension only.
    UpdateTask = "tasks/update", None, UpdateTaskParams<'a> => (), anything;
    /// `resources/unsubscribe`. Legacy era only.
    UnsubscribeResource = "resources/unsubscribe", Some("resources.subscribe"), ResourceParams<'a> => (), anything;
}

list_methods! {
    ListPrompts: Prompt;
    ListResourceTemplates: ResourceTemplate;
    ListResources: Resource;
    ListTasks: TaskState;
    ListTools: Tool;
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
        "server/discover" | "subscriptions/listen" | "tasks/update" => Some(Era::Modern),
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

/// Whether an answer to the method may ask for input (MRTR-01).
pub(crate) fn may_be_asked(method: &str) -> bool {
    matches!(method, "tools/call" | "resources/read" | "prompts/get")
}

/// Methods that open a connection: never for the host to call.
pub(crate) fn belongs_to_lifecycle(method: &str) -> bool {
    matches!(method, "initialize" | "notifications/initialized")
}
