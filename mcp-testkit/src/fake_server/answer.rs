//! Answers to all methods but `tools/call`.

use serde_json::{Value, json};

use super::switches::Switches;
use super::tools;

/// Versions with a handshake.
const LEGACY: &[&str] = &["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// The version without.
const MODERN: &str = "2026-07-28";

/// A result, or an error's code, message and data.
pub(super) type Answer = Result<Value, (i64, String, Option<Value>)>;

pub(super) fn error(code: i64, message: &str) -> Answer {
    Err((code, message.to_owned(), None))
}

/// What the server is able to do.
fn capabilities(switches: &Switches) -> Value {
    if switches.odd_capabilities {
        return json!({"tools": true, "experimental": null, "x": {"y": 1}, "logging": []});
    }
    json!({"tools": {"listChanged": true}, "logging": {}})
}

pub(super) fn initialize(switches: &Switches, params: &Value) -> Answer {
    if switches.era == "modern" {
        return Err((
            -32022,
            "no handshake here".to_owned(),
            Some(json!({"supported": [MODERN]})),
        ));
    }
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    let known = if LEGACY.contains(&asked) {
        asked
    } else {
        LEGACY[0]
    };
    let mut result = json!({
        "protocolVersion": switches.version.as_deref().unwrap_or(known),
        "capabilities": capabilities(switches),
        "serverInfo": {"name": "fake-server", "version": env!("CARGO_PKG_VERSION")},
        "instructions": "This server is a fake."
    });
    if switches.version.as_deref() == Some("none")
        && let Some(result) = result.as_object_mut()
    {
        result.remove("protocolVersion");
    }
    Ok(result)
}

/// What a modern or dual server says to the probe.
pub(super) fn discover(switches: &Switches) -> Answer {
    if switches.era == "legacy" {
        return error(-32601, "method not found");
    }
    let mut versions = vec![MODERN];
    if switches.era == "dual" {
        versions.extend(LEGACY);
    }
    Ok(json!({
        "supportedVersions": versions, "capabilities": capabilities(switches), "instructions": "This server is a fake."
    }))
}

/// Refuses modern requests that lack what they must carry.
pub(super) fn check_meta(params: &Value) -> Result<(), (i64, String, Option<Value>)> {
    let meta = &params["_meta"];
    if !meta["io.modelcontextprotocol/protocolVersion"].is_string() {
        return Err((
            -32602,
            "protocolVersion is missing in _meta".to_owned(),
            None,
        ));
    }
    if meta["io.modelcontextprotocol/protocolVersion"] != MODERN {
        return Err((
            -32022,
            "version not available".to_owned(),
            Some(json!({"supported": [MODERN]})),
        ));
    }
    if !meta["io.modelcontextprotocol/clientCapabilities"].is_object() {
        return Err((
            -32602,
            "clientCapabilities is missing in _meta".to_owned(),
            None,
        ));
    }
    Ok(())
}

/// One page of the tools. `refusals` counts how often a cursor may still be refused.
pub(super) fn list_tools(switches: &Switches, params: &Value, refusals: &mut u32) -> Answer {
    let mut all = tools::all(switches);
    if switches.duplicate_tool
        && let Some(first) = all.first().cloned()
    {
        all.push(first);
    }
    if switches.bad_tool {
        all.push(json!({"description": "no name"}));
        all.push(json!({"name": "wild", "inputSchema": {"type": "object", "properties": {"x": true, "y": false}}}));
        all.push(json!(7));
    }
    if switches.nulls {
        for tool in all.iter_mut().filter_map(Value::as_object_mut) {
            for name in ["title", "annotations", "outputSchema", "icons", "_meta"] {
                tool.entry(name).or_insert(Value::Null);
            }
        }
    }
    let cursor = params["cursor"].as_str();
    if cursor.is_some() && switches.cursor.as_deref() == Some("refused") && *refusals > 0 {
        *refusals -= 1;
        return error(-32602, "the cursor is stale");
    }
    let at: usize = cursor.and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    let size = switches.page_size.unwrap_or(usize::MAX).max(1);
    match switches.cursor.as_deref() {
        Some("same") => return Ok(json!({"tools": all, "nextCursor": "p1"})),
        Some("empty") => return Ok(json!({"tools": all, "nextCursor": ""})),
        Some("endless") => {
            let tool = json!({"name": format!("endless{at}"), "inputSchema": {"type": "object"}});
            return Ok(json!({"tools": [tool], "nextCursor": (at + 1).to_string()}));
        }
        _ => {}
    }
    let page: Vec<_> = all.iter().skip(at).take(size).cloned().collect();
    let next = at.saturating_add(size);
    let mut result = json!({"tools": page});
    if next < all.len() {
        result["nextCursor"] = json!(next.to_string());
    } else if switches.nulls {
        result["nextCursor"] = Value::Null;
    }
    Ok(result)
}
