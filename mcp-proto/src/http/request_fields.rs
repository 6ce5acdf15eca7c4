//! The header fields of a request, read off its final body (HTTPM-05).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::field::HeaderField;
use super::mirror::ToolHeaders;
use crate::error::UsageError;
use crate::members::Members;
use crate::version::{Era, ProtocolVersion};

/// `MCP-Protocol-Version`.
pub const PROTOCOL_VERSION_FIELD: &str = "MCP-Protocol-Version";

/// The fields of a modern message (HTTPM-02, HTTPM-03): `method` and the text of `params` are those of the body;
/// `extensions` says by which parameter `Mcp-Name` is told for methods that this crate does not know.
///
/// # Errors
/// [`UsageError::UnfitHeaderArgument`] when an argument that a tool wants as a header can't be one.
pub fn modern_fields(
    version: &ProtocolVersion,
    method: &str,
    params: &str,
    tools: &ToolHeaders,
    extensions: &BTreeMap<String, String>,
) -> Result<Vec<HeaderField>, UsageError> {
    let mut fields = vec![
        HeaderField::new(PROTOCOL_VERSION_FIELD, version.as_str()),
        HeaderField::new("Mcp-Method", method),
    ];
    let named = named_by(method).or_else(|| extensions.get(method).map(String::as_str));
    let Some(key) = named else {
        return Ok(fields);
    };
    let Some(members) = Members::read(params) else {
        return Ok(fields);
    };
    // Of members that stand twice the last counts for most parsers: what is checked by the header is what is carried out.
    let named = members.last(key).map(RawValue::get);
    let Some(Ok(name)) = named.map(serde_json::from_str::<Cow<'_, str>>) else {
        return Ok(fields);
    };
    fields.push(HeaderField::new("Mcp-Name", &name));
    if method == "tools/call"
        && let Some(mirrored) = tools.get(&*name)
    {
        let arguments = members.last("arguments").map_or("{}", RawValue::get);
        fields.extend(mirrored.fields(&name, arguments)?);
    }
    Ok(fields)
}

/// The fields of a legacy message after the handshake (HTTPL-02, HTTPL-03).
pub fn legacy_fields(version: &ProtocolVersion) -> Vec<HeaderField> {
    let named = version.era() == Era::Legacy && *version >= ProtocolVersion::V2025_06_18;
    named
        .then(|| HeaderField::new(PROTOCOL_VERSION_FIELD, version.as_str()))
        .into_iter()
        .collect()
}

/// The parameter that `Mcp-Name` repeats (HTTPM-03, HTTPM-04).
fn named_by(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some("taskId"),
        _ => None,
    }
}

/// Whether a header belongs to the protocol or to HTTP itself, so that a host can't set it (C106).
pub fn is_reserved(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "accept",
        "accept-encoding",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "host",
        "keep-alive",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let name = name.to_ascii_lowercase();
    NAMES.contains(&name.as_str()) || name.starts_with("mcp-param-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(fields: Vec<HeaderField>) -> Vec<String> {
        fields
            .into_iter()
            .map(|field| format!("{}: {}", field.name, field.value))
            .collect()
    }

    #[test]
    fn c168_fields_come_from_the_body() {
        let cases: &[(&str, &str, &[&str])] = &[
            ("tools/list", r#"{"name":"x"}"#, &["Mcp-Method: tools/list"]),
            (
                "tools/call",
                r#"{"name":"add","arguments":{}}"#,
                &["Mcp-Method: tools/call", "Mcp-Name: add"],
            ),
            (
                "tools/call",
                r#"{"name":"gr\u00f6\u00dfe "}"#,
                &[
                    "Mcp-Method: tools/call",
                    "Mcp-Name: =?base64?Z3LDtsOfZSA=?=",
                ],
            ),
            (
                "prompts/get",
                r#"{"name":""}"#,
                &["Mcp-Method: prompts/get", "Mcp-Name: "],
            ),
            (
                "resources/read",
                r#"{"uri":"note://42"}"#,
                &["Mcp-Method: resources/read", "Mcp-Name: note://42"],
            ),
            (
                "tasks/get",
                r#"{"taskId":"t1"}"#,
                &["Mcp-Method: tasks/get", "Mcp-Name: t1"],
            ),
            (
                "resources/read",
                r#"{"uri":7}"#,
                &["Mcp-Method: resources/read"],
            ),
            (
                "com.example/open",
                r#"{"door":"left"}"#,
                &["Mcp-Method: com.example/open", "Mcp-Name: left"],
            ),
        ];
        let extensions = BTreeMap::from([("com.example/open".to_owned(), "door".to_owned())]);
        for (method, params, expected) in cases {
            let fields = modern_fields(
                &ProtocolVersion::NEWEST_MODERN,
                method,
                params,
                &ToolHeaders::default(),
                &extensions,
            );
            let mut all = vec!["MCP-Protocol-Version: 2026-07-28"];
            all.extend(*expected);
            assert_eq!(shown(fields.unwrap()), all, "{method} {params}");
        }
    }

    #[test]
    fn older_versions_have_no_version_field() {
        let cases = [
            (ProtocolVersion::V2024_11_05, false),
            (ProtocolVersion::V2025_03_26, false),
            (ProtocolVersion::V2025_06_18, true),
            (ProtocolVersion::V2025_11_25, true),
        ];
        for (version, named) in cases {
            assert_eq!(
                legacy_fields(&version).len(),
                usize::from(named),
                "{version}"
            );
        }
    }

    #[test]
    fn c106_names_of_the_protocol_are_reserved() {
        for name in ["Accept", "MCP-Session-Id", "mcp-param-tenant", "Host"] {
            assert!(is_reserved(name), "{name}");
        }
        for name in ["Authorization", "X-Api-Key", "User-Agent", "Cookie"] {
            assert!(!is_reserved(name), "{name}");
        }
    }
}
