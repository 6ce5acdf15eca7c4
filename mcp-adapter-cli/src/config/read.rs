//! Reading the text of a configuration file: JSON with comments and trailing commas.
//!
//! One bad entry disables only itself and says so; unknown keys are noted and never fail (C209, C211, C212).
//! Must not know: the file system, the environment.

use std::path::Path;
use std::time::Duration;

use jsonc_parser::ast::{Array, Object, ObjectProp, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::model::{
    Entry, FileContents, InheritEnv, Limits, Place, Problem, Scope, Server, StdioServer,
};
use super::remote::{RemoteServer, Transport};
use crate::duration::parse_duration;
use crate::nearest::nearest;
use crate::secret::Secret;

/// Keys that hold the servers.
const ROOT_KEYS: [&str; 2] = ["mcpServers", "servers"];
/// Keys that stand beside the servers in files of other programs.
const OTHER_ROOT_KEYS: [&str; 3] = ["$schema", "inputs", "mcp"];
/// Keys of an entry that mean something here.
const ENTRY_KEYS: [&str; 20] = [
    "args",
    "bearerTokenEnv",
    "caFile",
    "callTimeoutMs",
    "command",
    "cwd",
    "disabled",
    "enabled",
    "env",
    "headers",
    "httpUrl",
    "inheritEnv",
    "maxCallMs",
    "proxy",
    "serverUrl",
    "startupTimeoutMs",
    "timeout",
    "transport",
    "type",
    "url",
];
/// Keys of an entry that other programs use and that change nothing here.
const OTHER_ENTRY_KEYS: [&str; 12] = [
    "alwaysAllow",
    "approval",
    "autoApprove",
    "description",
    "gallery",
    "icon",
    "name",
    "start",
    "title",
    "tools",
    "trust",
    "version",
];

/// Reads a file's text.
///
/// # Errors
/// When the text as a whole can't be read: no JSON, or no object of servers.
pub(crate) fn read(text: &str, file: &Path, scope: Scope) -> Result<FileContents, Problem> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let reader = Reader { text, file, scope };
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        allow_hexadecimal_numbers: false,
        allow_unary_plus_numbers: false,
        allow_bare_decimal_point_numbers: false,
        allow_non_finite_numbers: false,
        allow_extended_string_escapes: false,
        ..ParseOptions::default()
    };
    let tree = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| reader.problem(error.range().start, error.kind().to_string()))?;
    match tree.value {
        Some(Value::Object(root)) => reader.root(&root),
        Some(other) => Err(reader.problem(other.start(), "the file must be an object")),
        None => Err(reader.problem(
            0,
            "the file is empty; {\"mcpServers\": {}} is the least it can say",
        )),
    }
}

struct Reader<'a> {
    text: &'a str,
    file: &'a Path,
    scope: Scope,
}

impl Reader<'_> {
    fn place(&self, byte: usize) -> Place {
        let before = self.text.get(..byte).unwrap_or(self.text);
        Place {
            file: self.file.to_owned(),
            line: before.matches('\n').count() + 1,
        }
    }

    fn problem(&self, byte: usize, message: impl Into<String>) -> Problem {
        Problem {
            place: self.place(byte),
            message: message.into(),
        }
    }

    fn root(&self, root: &Object<'_>) -> Result<FileContents, Problem> {
        let mut contents = FileContents::default();
        let mut found = false;
        for property in &root.properties {
            let key = property.name.as_str();
            if ROOT_KEYS.contains(&key) {
                found = true;
                let Value::Object(servers) = &property.value else {
                    return Err(
                        self.problem(property.value.start(), format!("{key} must be an object"))
                    );
                };
                for server in &servers.properties {
                    self.add(server, &mut contents);
                }
            } else if !OTHER_ROOT_KEYS.contains(&key) {
                let hint = did_you_mean(key, &ROOT_KEYS);
                contents
                    .notes
                    .push(self.problem(property.start(), format!("unknown key {key:?}{hint}")));
            }
        }
        if found {
            return Ok(contents);
        }
        let similar = root.properties.iter().find_map(|property| {
            let key = property.name.as_str();
            let meant = ["mcp_servers", "context_servers"].contains(&key)
                || nearest(key, ROOT_KEYS).is_some();
            meant.then(|| {
                (
                    property.start(),
                    format!("no \"mcpServers\" here; did you mean it by {key:?}?"),
                )
            })
        });
        let (at, message) = similar.unwrap_or_else(|| {
            (
            root.start(),
            "no \"mcpServers\" here; expected {\"mcpServers\": {\"name\": {\"command\": \"…\"}}}"
                .to_owned(),
        )
        });
        Err(self.problem(at, message))
    }

    fn add(&self, property: &ObjectProp<'_>, contents: &mut FileContents) {
        let mut entry = self.entry(property);
        let earlier = contents
            .entries
            .iter()
            .position(|earlier| earlier.id == entry.id);
        if let Some(earlier) = earlier {
            // As JSON parsers do: the last one counts.
            let earlier = contents.entries.remove(earlier);
            let message = format!(
                "{:?} stands here a second time; this one counts, not {}",
                entry.id, earlier.place
            );
            entry.notes.push(self.problem(property.start(), message));
        }
        contents.entries.push(entry);
    }

    fn entry(&self, property: &ObjectProp<'_>) -> Entry {
        let id = property.name.as_str().to_owned();
        let mut notes = Vec::new();
        let (disabled, server) = match &property.value {
            Value::Object(object) => {
                self.note_keys(object, &mut notes);
                (
                    self.disabled(object, &mut notes),
                    self.server(object, &mut notes),
                )
            }
            other => (
                false,
                Err(self.problem(other.start(), "a server must be an object")),
            ),
        };
        let server = if id.is_empty() || id.chars().any(char::is_control) {
            Err(self.problem(
                property.start(),
                "the name of a server must be readable text",
            ))
        } else {
            server
        };
        if id.contains(['/', '.']) || id.contains("__") {
            let message = format!(
                "{id:?} holds a mark that separates server and tool; write {id}/TOOL for its tools"
            );
            notes.push(self.problem(property.start(), message));
        }
        Entry {
            id,
            place: self.place(property.start()),
            scope: self.scope,
            disabled,
            server,
            notes,
        }
    }

    fn note_keys(&self, object: &Object<'_>, notes: &mut Vec<Problem>) {
        let mut seen = Vec::new();
        for property in &object.properties {
            let key = property.name.as_str();
            if seen.contains(&key) {
                notes.push(self.problem(
                    property.start(),
                    format!("{key:?} stands here twice; the first one counts"),
                ));
            } else if !ENTRY_KEYS.contains(&key) && !OTHER_ENTRY_KEYS.contains(&key) {
                let hint = did_you_mean(key, &ENTRY_KEYS);
                notes.push(self.problem(property.start(), format!("unknown key {key:?}{hint}")));
            }
            seen.push(key);
        }
        if let Some(timeout) = object.get("timeout") {
            let message = "\"timeout\" is ignored, since programs differ on its unit; \
                           use startupTimeoutMs, callTimeoutMs or maxCallMs";
            notes.push(self.problem(timeout.start(), message));
        }
    }

    fn disabled(&self, object: &Object<'_>, notes: &mut Vec<Problem>) -> bool {
        let mut flag = |key: &str| match object.get(key).map(|property| &property.value) {
            Some(Value::BooleanLit(flag)) => Some(flag.value),
            Some(other) => {
                notes.push(self.problem(
                    other.start(),
                    format!("{key:?} must be true or false; it is ignored"),
                ));
                None
            }
            None => None,
        };
        let (disabled, enabled) = (flag("disabled"), flag("enabled"));
        disabled.unwrap_or(false) || enabled == Some(false)
    }

    fn server(&self, object: &Object<'_>, notes: &mut Vec<Problem>) -> Result<Server, Problem> {
        // Both spellings are in use.
        let kind = match self.text(object, "type")? {
            Some(kind) => Some(kind),
            None => self.text(object, "transport")?,
        };
        let command = self.text(object, "command")?;
        let url = match (self.text(object, "url")?, self.text(object, "httpUrl")?) {
            (Some(url), _) | (None, Some(url)) => Some(url),
            (None, None) => self.text(object, "serverUrl")?,
        };
        match (kind.as_deref(), command, url) {
            (None, Some(_), Some(_)) => Err(self.problem(
                object.start(),
                "both \"command\" and \"url\"; \"type\" must say which one counts",
            )),
            (None | Some("stdio" | "local"), Some(command), _) => Ok(Server::Stdio(StdioServer {
                command,
                args: self.texts(object, "args")?,
                env: self.env(object)?,
                cwd: self.text(object, "cwd")?,
                inherit_env: self.inherit_env(object)?,
                limits: self.limits(object, notes),
            })),
            (None, None, Some(url)) => Ok(Server::Http(self.remote(object, None, url, notes)?)),
            (Some(kind), _, Some(url)) if url_kind(kind) => {
                Ok(Server::Http(self.remote(object, Some(kind), url, notes)?))
            }
            (Some(kind @ ("stdio" | "local")), None, _) => {
                Err(self.problem(object.start(), format!("type {kind:?} needs a \"command\"")))
            }
            (Some(kind), _, _) if url_kind(kind) => {
                Err(self.problem(object.start(), format!("type {kind:?} needs a \"url\"")))
            }
            (Some(kind), _, _) => Err(self.problem(
                object.start(),
                format!("unknown type {kind:?}; known are \"stdio\" and \"http\""),
            )),
            (None, None, None) => {
                let meant = object.properties.iter().find_map(|property| {
                    let key = property.name.as_str();
                    nearest(key, ["command", "url"])
                        .map(|meant| format!("; did you mean {meant:?} by {key:?}?"))
                });
                let message = format!(
                    "neither \"command\" nor \"url\"{}",
                    meant.unwrap_or_default()
                );
                Err(self.problem(object.start(), message))
            }
        }
    }

    fn remote(
        &self,
        object: &Object<'_>,
        kind: Option<&str>,
        url: String,
        notes: &mut Vec<Problem>,
    ) -> Result<RemoteServer, Problem> {
        Ok(RemoteServer {
            url: Secret::new(url),
            headers: self.headers(object)?,
            bearer_token_env: self.text(object, "bearerTokenEnv")?,
            transport: match kind {
                Some("sse") => Transport::Sse,
                Some("streamable-http" | "streamableHttp" | "streamable_http") => {
                    Transport::Streamable
                }
                // "http" is also what older files say of servers that speak HTTP+SSE.
                _ => Transport::Auto,
            },
            ca_file: self.text(object, "caFile")?,
            proxy: self.text(object, "proxy")?.map(Secret::new),
            limits: self.limits(object, notes),
        })
    }

    fn headers(&self, object: &Object<'_>) -> Result<Vec<(String, Secret)>, Problem> {
        let headers = match object.get("headers").map(|property| &property.value) {
            None | Some(Value::NullKeyword(_)) => return Ok(Vec::new()),
            Some(Value::Object(headers)) => &headers.properties,
            Some(other) => {
                return Err(self.problem(other.start(), "\"headers\" must be an object"));
            }
        };
        let headers = headers.iter().map(|property| {
            let name = property.name.as_str();
            if mcp_client::mcp_proto::http::is_reserved(name) {
                return Err(self.problem(
                    property.start(),
                    format!("the header {name:?} is set by the protocol and can't be given"),
                ));
            }
            let value = scalar(&property.value).ok_or_else(|| {
                let message = format!("the value of the header {name:?} must be a text");
                self.problem(property.value.start(), message)
            })?;
            Ok((name.to_owned(), Secret::new(value)))
        });
        headers.collect()
    }

    /// A text; `null` counts as absent.
    fn text(&self, object: &Object<'_>, key: &str) -> Result<Option<String>, Problem> {
        match object.get(key).map(|property| &property.value) {
            None | Some(Value::NullKeyword(_)) => Ok(None),
            Some(Value::StringLit(text)) if text.value.contains('\0') => {
                Err(self.problem(text.start(), format!("{key:?} holds a NUL character")))
            }
            Some(Value::StringLit(text)) if !text.value.is_empty() => {
                Ok(Some(text.value.to_string()))
            }
            Some(Value::Array(array)) if key == "command" => Err(self.problem(
                array.start(),
                "\"command\" must be the program alone; its arguments go into \"args\"",
            )),
            Some(other) => Err(self.problem(
                other.start(),
                format!("{key:?} must be a text that is not empty"),
            )),
        }
    }

    fn texts(&self, object: &Object<'_>, key: &str) -> Result<Vec<String>, Problem> {
        match object.get(key).map(|property| &property.value) {
            None | Some(Value::NullKeyword(_)) => Ok(Vec::new()),
            Some(Value::Array(array)) => self.scalars(array, key),
            Some(other) => {
                Err(self.problem(other.start(), format!("{key:?} must be an array of texts")))
            }
        }
    }

    fn scalars(&self, array: &Array<'_>, key: &str) -> Result<Vec<String>, Problem> {
        let texts = array.elements.iter().map(|element| {
            scalar(element).ok_or_else(|| {
                self.problem(
                    element.start(),
                    format!("{key:?} may hold texts, numbers, true and false only"),
                )
            })
        });
        texts.collect()
    }

    fn env(&self, object: &Object<'_>) -> Result<Vec<(String, Option<Secret>)>, Problem> {
        let variables = match object.get("env").map(|property| &property.value) {
            None | Some(Value::NullKeyword(_)) => return Ok(Vec::new()),
            Some(Value::Object(variables)) => &variables.properties,
            Some(other) => return Err(self.problem(other.start(), "\"env\" must be an object")),
        };
        let variables = variables.iter().map(|property| {
            let name = property.name.as_str();
            if name.is_empty() || name.contains(['=', '\0']) {
                return Err(self.problem(
                    property.start(),
                    format!("{name:?} can't be the name of a variable"),
                ));
            }
            let value = match &property.value {
                Value::NullKeyword(_) => None,
                value => Some(Secret::new(scalar(value).ok_or_else(|| {
                    self.problem(
                        value.start(),
                        format!("the value of {name:?} must be a text, or null to remove it"),
                    )
                })?)),
            };
            Ok((name.to_owned(), value))
        });
        variables.collect()
    }

    fn inherit_env(&self, object: &Object<'_>) -> Result<InheritEnv, Problem> {
        match object.get("inheritEnv").map(|property| &property.value) {
            None | Some(Value::NullKeyword(_)) => Ok(InheritEnv::Minimal),
            Some(Value::StringLit(text)) if text.value == "minimal" => Ok(InheritEnv::Minimal),
            Some(Value::StringLit(text)) if text.value == "all" => Ok(InheritEnv::All),
            Some(Value::Array(array)) => Ok(InheritEnv::Names(self.scalars(array, "inheritEnv")?)),
            Some(other) => Err(self.problem(
                other.start(),
                "\"inheritEnv\" must be \"minimal\", \"all\" or an array of names",
            )),
        }
    }

    fn limits(&self, object: &Object<'_>, notes: &mut Vec<Problem>) -> Limits {
        let mut limit = |key: &str| {
            let value = &object.get(key)?.value;
            let limit = match value {
                Value::NumberLit(number) => number.value.parse().ok().map(Duration::from_millis),
                Value::StringLit(text) => parse_duration(&text.value).ok(),
                _ => None,
            };
            match limit.filter(|limit| !limit.is_zero()) {
                Some(limit) => {
                    if limit < Duration::from_millis(100) || limit > Duration::from_secs(24 * 3600)
                    {
                        notes.push(self.problem(
                            value.start(),
                            format!("{key:?} is {limit:?}: is the unit right?"),
                        ));
                    }
                    Some(limit)
                }
                None => {
                    let message = format!(
                        "{key:?} must be milliseconds or a text such as \"30s\"; it is ignored"
                    );
                    notes.push(self.problem(value.start(), message));
                    None
                }
            }
        };
        Limits {
            start: limit("startupTimeoutMs"),
            idle: limit("callTimeoutMs"),
            total: limit("maxCallMs"),
        }
    }
}

fn url_kind(kind: &str) -> bool {
    const KINDS: [&str; 6] = [
        "http",
        "remote",
        "sse",
        "streamable-http",
        "streamableHttp",
        "streamable_http",
    ];
    KINDS.contains(&kind)
}

/// A text, number or truth value as text.
fn scalar(value: &Value<'_>) -> Option<String> {
    match value {
        Value::StringLit(text) if !text.value.contains('\0') => Some(text.value.to_string()),
        Value::NumberLit(number) => Some(number.value.to_owned()),
        Value::BooleanLit(flag) => Some(flag.value.to_string()),
        _ => None,
    }
}

fn did_you_mean(key: &str, known: &[&'static str]) -> String {
    nearest(key, known.iter().copied())
        .map_or_else(String::new, |known| format!("; did you mean {known:?}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<FileContents, Problem> {
        read(text, Path::new("mcp.json"), Scope::Named)
    }

    fn stdio(entry: &Entry) -> &StdioServer {
        match &entry.server {
            Ok(Server::Stdio(server)) => server,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_full_file_is_read() {
        let contents = read_text(
            "\u{feff}// servers\n{ \"inputs\": [],\n \"mcpServers\": {\n  \"a\": { /* one */ \"command\": \"uvx\", \
             \"args\": [\"x\", 5, true,],\n \"env\": {\"K\": \"v\", \"N\": 1, \"GONE\": null}, \"cwd\": \"sub\",\n \
             \"inheritEnv\": [\"LANG\"], \"startupTimeoutMs\": 5000, \"callTimeoutMs\": \"2m\", \"autoApprove\": []},\n  \
             \"b\": {\"url\": \"https://user:pw@host:8/mcp?key=S\"},\n \
             \"c\": {\"command\": \"x\", \"disabled\": true}, \"d\": {\"command\": \"x\", \"enabled\": false}, },\n}",
        )
        .unwrap();
        assert!(contents.notes.is_empty(), "{:?}", contents.notes);
        let [a, b, c, d] = &contents.entries[..] else {
            panic!("{contents:?}")
        };
        assert_eq!((a.place.line, a.notes.len()), (4, 0));
        let server = stdio(a);
        assert_eq!(server.command_line(), "uvx x 5 true");
        assert_eq!(
            server.env,
            [
                ("K".to_owned(), Some(Secret::new("v"))),
                ("N".to_owned(), Some(Secret::new("1"))),
                ("GONE".to_owned(), None)
            ]
        );
        assert_eq!(
            server.inherit_env,
            InheritEnv::Names(vec!["LANG".to_owned()])
        );
        let limits = Limits {
            start: Some(Duration::from_secs(5)),
            idle: Some(Duration::from_secs(120)),
            total: None,
        };
        assert_eq!(server.limits, limits);
        assert!(
            matches!(&b.server, Ok(Server::Http(server)) if server.shown_url() == "https://host:8/mcp")
        );
        assert!(!a.disabled && c.disabled && d.disabled);
        assert!(!format!("{contents:?}").contains("pw"));
    }

    #[test]
    fn one_bad_entry_spoils_only_itself() {
        let cases = [
            (r#""x""#, "a server must be an object"),
            ("{}", "neither \"command\" nor \"url\""),
            (
                r#"{"comand": "x"}"#,
                "neither \"command\" nor \"url\"; did you mean \"command\" by \"comand\"?",
            ),
            (
                r#"{"command": ["npx", "x"]}"#,
                "\"command\" must be the program alone; its arguments go into \"args\"",
            ),
            (
                r#"{"command": ""}"#,
                "\"command\" must be a text that is not empty",
            ),
            (
                r#"{"command": "x", "args": "y"}"#,
                "\"args\" must be an array of texts",
            ),
            (
                r#"{"command": "x", "args": [["y"]]}"#,
                "\"args\" may hold texts, numbers, true and false only",
            ),
            (
                r#"{"command": "x", "env": ["A=b"]}"#,
                "\"env\" must be an object",
            ),
            (
                r#"{"command": "x", "env": {"A": {}}}"#,
                "the value of \"A\" must be a text, or null to remove it",
            ),
            (
                r#"{"command": "x", "env": {"A=B": "c"}}"#,
                "\"A=B\" can't be the name of a variable",
            ),
            (
                r#"{"command": "x", "inheritEnv": "some"}"#,
                "\"inheritEnv\" must be \"minimal\", \"all\" or an array of names",
            ),
            (
                r#"{"command": "x", "url": "y"}"#,
                "both \"command\" and \"url\"; \"type\" must say which one counts",
            ),
            (
                r#"{"type": "http", "command": "x"}"#,
                "type \"http\" needs a \"url\"",
            ),
            (r#"{"type": "stdio"}"#, "type \"stdio\" needs a \"command\""),
            (
                r#"{"type": "pigeon", "command": "x"}"#,
                "unknown type \"pigeon\"; known are \"stdio\" and \"http\"",
            ),
        ];
        for (entry, message) in cases {
            let text = format!(
                "{{\"mcpServers\": {{\n\"bad\": {entry},\n\"good\": {{\"command\": \"x\"}}}}}}"
            );
            let contents = read_text(&text).unwrap();
            let problem = contents.entries[0].server.as_ref().unwrap_err();
            assert_eq!(
                problem.to_string(),
                format!("mcp.json:2: {message}"),
                "{entry}"
            );
            assert!(contents.entries[1].server.is_ok(), "{entry}");
        }
    }

    #[test]
    fn c209_c211_c212_oddities_are_noted_and_do_not_fail() {
        let cases = [
            (
                r#"{"command": "x", "enviroment": {}}"#,
                "unknown key \"enviroment\"; did you mean \"env\"?",
            ),
            (r#"{"command": "x", "colour": 1}"#, "unknown key \"colour\""),
            (
                r#"{"command": "x", "command": "y"}"#,
                "\"command\" stands here twice; the first one counts",
            ),
            (
                r#"{"command": "x", "disabled": "yes"}"#,
                "\"disabled\" must be true or false; it is ignored",
            ),
            (
                r#"{"command": "x", "startupTimeoutMs": 30}"#,
                "\"startupTimeoutMs\" is 30ms: is the unit right?",
            ),
            (
                r#"{"command": "x", "maxCallMs": "soon"}"#,
                "\"maxCallMs\" must be milliseconds or a text such as \"30s\"; it is ignored",
            ),
        ];
        for (entry, message) in cases {
            let contents = read_text(&format!("{{\"servers\": {{\"a\": {entry}}}}}")).unwrap();
            let entry = &contents.entries[0];
            assert!(entry.server.is_ok() && !entry.disabled);
            let notes: Vec<_> = entry
                .notes
                .iter()
                .map(|note| note.message.as_str())
                .collect();
            assert_eq!(notes, [message]);
        }
        let contents =
            read_text(r#"{"servers": {"a": {"command": "x", "timeout": 60000}}}"#).unwrap();
        assert!(
            contents.entries[0].notes[0]
                .message
                .contains("\"timeout\" is ignored")
        );
    }

    #[test]
    fn whole_files_fail_with_a_place() {
        let cases = [
            ("", "mcp.json:1: the file is empty"),
            ("[]", "mcp.json:1: the file must be an object"),
            (
                "{\n\"mcpServers\": {\n\"a\": {\"command\" \"x\"}}}",
                "mcp.json:3: ",
            ),
            (
                "{\n\"mcp_servers\": {}}",
                "mcp.json:2: no \"mcpServers\" here; did you mean it by",
            ),
            (
                "{\"mcpServers\": []}",
                "mcp.json:1: mcpServers must be an object",
            ),
            (
                "{\"a\": {\"command\": \"x\"}}",
                "mcp.json:1: no \"mcpServers\" here; expected",
            ),
            ("{'mcpServers': {}}", "mcp.json:1: "),
        ];
        for (text, start) in cases {
            let problem = read_text(text).unwrap_err().to_string();
            assert!(problem.starts_with(start), "{text}: {problem}");
        }
        let deep = format!("{{\"servers\": {}", "[".repeat(100_000));
        assert!(read_text(&deep).is_err());
    }

    #[test]
    fn a_name_that_comes_twice_counts_once() {
        let text = "{\"servers\": {\"a\": {\"command\": \"x\"},\n\"a\": {\"command\": \"y\"}}}";
        let contents = read_text(text).unwrap();
        assert_eq!(contents.entries.len(), 1);
        assert_eq!(stdio(&contents.entries[0]).command, "y");
        assert!(
            contents.entries[0].notes[0]
                .message
                .contains("not mcp.json:1")
        );
    }
}
