//! Tasks: work that outlives the request that began it, in both designs of the protocol.
//!
//! | | 2025-11-25, experimental | extension `io.modelcontextprotocol/tasks`, 2026-07-28 |
//! |---|---|---|
//! | begun by | `task` in the parameters | the server, with `resultType: "task"` |
//! | members | `ttl`, `pollInterval` | `ttlMs`, `pollIntervalMs` |
//! | result | `tasks/result`, which waits | inside `tasks/get` |
//! | asks by | requests of the server | `inputRequests` inside `tasks/get`, answered by `tasks/update` |
//!
//! The two never mix (TASK-33). Rules: TASK-01 to TASK-33.

use std::collections::BTreeSet;
use std::time::Duration;

use mcp_jsonrpc::{ErrorCode, ErrorObject, RawJson};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::error::PeerFault;
use crate::members::Members;
use crate::model::capability::ServerCapabilities;
use crate::model::content::whole_number;
use crate::model::page::ListEntry;
use crate::model::tool::Tool;
use crate::rounds::{Question, questions, responses};

/// The `resultType` of a result that is a task, in the extension.
pub const RESULT_TYPE: &str = "task";

/// Ties a message to a task, as a key of `_meta`, in 2025-11-25 (TASK-04).
pub const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// Which of the two designs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "there are two designs")]
pub enum TaskDesign {
    /// That of 2025-11-25.
    Experimental,
    /// That of the extension.
    Extension,
}

/// How far a task is.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum TaskStatus {
    /// It was given up.
    Cancelled,
    /// It is done.
    Completed,
    /// It went wrong.
    Failed,
    /// It waits for input.
    InputRequired,
    /// Anything else that a server wrote; taken as not over yet.
    Unknown(String),
    /// It is being worked on.
    Working,
}

impl TaskStatus {
    fn of(text: String) -> Self {
        match text.as_str() {
            "cancelled" => Self::Cancelled,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "input_required" => Self::InputRequired,
            "working" => Self::Working,
            _ => Self::Unknown(text),
        }
    }

    /// The word on the wire.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Cancelled => "cancelled",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::InputRequired => "input_required",
            Self::Unknown(text) => text,
            Self::Working => "working",
        }
    }

    /// Whether nothing changes any more.
    pub fn is_final(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Completed | Self::Failed)
    }
}

/// A task as it was at one time.
///
/// ```json
/// {"taskId": "tk_8Qz", "status": "working", "createdAt": "2026-08-01T09:00:00Z",
///  "lastUpdatedAt": "2026-08-01T09:00:00Z", "ttlMs": 900000, "pollIntervalMs": 2000}
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TaskState {
    /// What the server calls it.
    pub id: String,
    /// How far it is.
    pub status: TaskStatus,
    /// What the server says about that: untrusted.
    pub message: Option<String>,
    /// When it was begun, as the server wrote it.
    pub created_at: Option<String>,
    /// When it last changed, as the server wrote it.
    pub last_updated_at: Option<String>,
    /// How long the server keeps it from its beginning on; `None`: without limit, or not said.
    pub ttl: Option<Duration>,
    /// How often to ask, if the server says so.
    pub poll_interval: Option<Duration>,
    /// The result of the call, once it is completed. Extension only.
    pub result: Option<RawJson>,
    /// The error of the call, once it failed. Extension only.
    pub error: Option<ErrorObject>,
    input_requests: Option<Box<RawValue>>,
    bytes: usize,
}

impl TaskState {
    /// Reads a task: of `tasks/get`, of a list, of the result that began it.
    ///
    /// # Errors
    /// A fragment that says what is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let members = Members::read(text).ok_or("the task is no object")?;
        // In 2025-11-25 the result that begins one has it inside.
        if let Some(inner) = members.get("task") {
            return Self::read(inner.get());
        }
        let milliseconds = |names: [&str; 2]| {
            let raw = names.iter().find_map(|name| members.get(name))?;
            whole_number(raw.get()).map(Duration::from_millis)
        };
        Ok(Self {
            id: members.text("taskId").ok_or("the task has no taskId")?,
            status: members
                .text("status")
                .map(TaskStatus::of)
                .ok_or("the task has no status")?,
            message: members.text("statusMessage"),
            created_at: members.text("createdAt"),
            last_updated_at: members.text("lastUpdatedAt"),
            ttl: milliseconds(["ttlMs", "ttl"]),
            poll_interval: milliseconds(["pollIntervalMs", "pollInterval"]),
            result: members.get("result").map(RawJson::from),
            error: members.get("error").map(error),
            input_requests: members.get("inputRequests").map(ToOwned::to_owned),
            bytes: text.len(),
        })
    }

    /// How long its text was, in bytes.
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// What the task wants to know, in the extension. `answered`: methods that this client declared to answer.
    ///
    /// # Errors
    /// When it is of no known shape, or asks for what was not declared.
    pub fn questions(&self, answered: &BTreeSet<String>) -> Result<Vec<Question>, PeerFault> {
        let asked = self.input_requests.as_deref();
        asked.map_or(Ok(Vec::new()), |asked| questions(asked, answered))
    }
}

/// Reads the error of a task leniently: that it failed is certain, whatever it says.
fn error(raw: &RawValue) -> ErrorObject {
    let members = Members::read(raw.get()).unwrap_or(Members(Vec::new()));
    let code = members
        .parse("code")
        .map_or(ErrorCode::INTERNAL_ERROR, ErrorCode::new);
    let mut error = ErrorObject::new(code, members.text("message").unwrap_or_default());
    error.data = members.get("data").map(RawJson::from);
    error
}

impl<'de> serde::Deserialize<'de> for TaskState {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?;
        Self::read(raw.get()).map_err(serde::de::Error::custom)
    }
}

impl ListEntry for TaskState {
    const KIND: &'static str = "task";
    const MEMBER: &'static str = "tasks";
    const KEY: &'static str = "taskId";

    fn key(&self) -> &str {
        &self.id
    }
}

/// Whether a tool may, or must, be run as a task, in 2025-11-25 (TASK-01).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol knows these three")]
pub enum TaskSupport {
    /// It must not.
    Forbidden,
    /// It may.
    Optional,
    /// It must.
    Required,
}

impl TaskSupport {
    /// What a tool and its server say; both must, else it is forbidden.
    pub fn of(tool: &Tool, server: &ServerCapabilities) -> Self {
        let declared = server.value("tasks").and_then(|raw| {
            let requests = Members::read(raw.get())?.get("requests")?;
            let tools = Members::read(requests.get())?.get("tools")?;
            Members::read(tools.get())?.get("call").map(drop)
        });
        if declared.is_none() {
            return Self::Forbidden;
        }
        let execution = tool.execution.as_deref();
        let said = execution.and_then(|raw| Members::read(raw.get())?.text("taskSupport"));
        match said.as_deref() {
            Some("optional") => Self::Optional,
            Some("required") => Self::Required,
            _ => Self::Forbidden,
        }
    }
}

/// `task` in the parameters of a call: run it as a task, in 2025-11-25.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct TaskRequest {
    /// How long the server is to keep it, in milliseconds; it may decide otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<u64>,
}

impl TaskRequest {
    /// To be kept for so long; `None`: as the server likes.
    pub fn kept_for(ttl: Option<Duration>) -> Self {
        let milliseconds = |ttl: Duration| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        Self {
            ttl: ttl.map(milliseconds),
        }
    }
}

/// Parameters of `tasks/get`, `tasks/result` and `tasks/cancel`.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct TaskParams<'a> {
    /// Which task.
    pub task_id: &'a str,
}

impl<'a> TaskParams<'a> {
    /// Of this task.
    pub fn new(task_id: &'a str) -> Self {
        Self { task_id }
    }
}

/// Parameters of `tasks/update`: answers to what a task asks, in the extension.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct UpdateTaskParams<'a> {
    /// Which task.
    pub task_id: &'a str,
    /// The answers by key.
    pub input_responses: Box<RawValue>,
}

impl<'a> UpdateTaskParams<'a> {
    /// These answers, each with its question's key; some may come later (TASK-27).
    pub fn new<'b>(
        task_id: &'a str,
        answers: impl IntoIterator<Item = (&'b str, &'b RawValue)>,
    ) -> Self {
        let answers = format!("{{{}}}", responses(answers));
        Self {
            task_id,
            input_responses: RawValue::from_string(answers).unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_designs_are_read() {
        let cases = [
            (
                r#"{"resultType":"task","taskId":"t","status":"working","ttlMs":900000,"pollIntervalMs":2000.0}"#,
                TaskStatus::Working,
                Some(900_000),
                Some(2000),
            ),
            (
                r#"{"task":{"taskId":"t","status":"input_required","ttl":null,"pollInterval":5}}"#,
                TaskStatus::InputRequired,
                None,
                Some(5),
            ),
            (
                r#"{"taskId":"t","status":"paused","ttlMs":-1}"#,
                TaskStatus::Unknown("paused".to_owned()),
                None,
                None,
            ),
        ];
        for (text, status, ttl, poll) in cases {
            let task = TaskState::read(text).unwrap();
            assert_eq!(task.id, "t");
            assert_eq!(task.status, status, "{text}");
            assert!(!task.status.is_final());
            assert_eq!(task.ttl, ttl.map(Duration::from_millis), "{text}");
            assert_eq!(
                task.poll_interval,
                poll.map(Duration::from_millis),
                "{text}"
            );
        }
        let failed = TaskState::read(
            r#"{"taskId":"t","status":"failed","error":{"code":-1,"message":"no"}}"#,
        )
        .unwrap();
        assert!(failed.status.is_final());
        assert_eq!(failed.error.unwrap().message, "no");
        for bad in ["7", "{}", r#"{"taskId":"t"}"#, r#"{"status":"working"}"#] {
            assert!(TaskState::read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn task_01_tool_and_server_must_agree() {
        let server = |text: &str| {
            let raw: &RawValue = serde_json::from_str(text).unwrap();
            ServerCapabilities::read(Some(raw))
        };
        let tool = |support: &str| {
            let text = format!(
                r#"{{"name":"t","inputSchema":{{}},"execution":{{"taskSupport":"{support}"}}}}"#
            );
            serde_json::from_str::<Tool>(&text).unwrap()
        };
        let all = server(r#"{"tasks":{"requests":{"tools":{"call":{}}}}}"#);
        let other = server(r#"{"tasks":{"list":{}}}"#);
        let cases = [
            ("required", &all, TaskSupport::Required),
            ("optional", &all, TaskSupport::Optional),
            ("forbidden", &all, TaskSupport::Forbidden),
            ("sometimes", &all, TaskSupport::Forbidden),
            ("required", &other, TaskSupport::Forbidden),
        ];
        for (support, server, expected) in cases {
            assert_eq!(
                TaskSupport::of(&tool(support), server),
                expected,
                "{support}"
            );
        }
        let plain: Tool = serde_json::from_str(r#"{"name":"t","inputSchema":{}}"#).unwrap();
        assert_eq!(TaskSupport::of(&plain, &all), TaskSupport::Forbidden);
    }

    #[test]
    fn parameters_on_the_wire() {
        let yes: Box<RawValue> = serde_json::from_str(r#"{"action":"accept"}"#).unwrap();
        assert_eq!(
            serde_json::to_string(&UpdateTaskParams::new("t", [("k", &*yes)])).unwrap(),
            r#"{"taskId":"t","inputResponses":{"k":{"action":"accept"}}}"#
        );
        assert_eq!(
            serde_json::to_string(&TaskRequest::kept_for(Some(Duration::from_secs(2)))).unwrap(),
            r#"{"ttl":2000}"#
        );
        assert_eq!(
            serde_json::to_string(&TaskRequest::default()).unwrap(),
            "{}"
        );
    }
}
