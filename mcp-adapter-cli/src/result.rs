//! A tool's result as a person reads it.

use std::path::{Path, PathBuf};

use mcp_client::mcp_proto::convert::{ConvertPolicy, Part, ResourcePartBody, convert_tool_result};
use mcp_client::mcp_proto::model::tool::CallToolResult;

use crate::text::size;

/// Most bytes of text printed on a terminal; the rest is left out with a note (C226).
const MAX_TERMINAL_TEXT_BYTES: usize = 256 * 1024;

/// What to print, and what to say beside it.
#[derive(Debug, Default)]
pub(crate) struct Rendered {
    /// For standard output.
    pub(crate) out: Vec<String>,
    /// For the error output.
    pub(crate) notes: Vec<String>,
}

/// Renders a result. With `save`, bytes are written into that folder.
///
/// # Errors
/// When a file could not be written.
pub(crate) fn render(
    result: CallToolResult,
    save: Option<&Path>,
    terminal: bool,
) -> Result<Rendered, String> {
    let mut policy = ConvertPolicy::default();
    policy.max_text_bytes = terminal.then_some(MAX_TERMINAL_TEXT_BYTES);
    policy.structured_as_text = false;
    let output = convert_tool_result(result, &policy);
    let mut rendered = Rendered::default();
    let mut texts = Vec::new();
    for (index, part) in output.parts.into_iter().enumerate() {
        match part {
            Part::Text { text, cut } => {
                let text = match cut {
                    Some(cut) => {
                        let (head, tail) = text.split_at(cut.at_byte);
                        format!(
                            "{head}\n[… {} left out; use --json or a pipe for all of it …]\n{tail}",
                            size(cut.left_out_bytes)
                        )
                    }
                    None => text,
                };
                texts.push(text.clone());
                rendered.out.push(text);
            }
            Part::Image { mime_type, bytes } | Part::Audio { mime_type, bytes } => {
                rendered
                    .out
                    .push(bytes_line(&mime_type, &bytes, save, index)?);
            }
            Part::Link {
                uri,
                name,
                mime_type,
                ..
            } => {
                let fields = [uri, name, mime_type.unwrap_or_default()];
                rendered.out.push(
                    fields
                        .iter()
                        .filter(|field| !field.is_empty())
                        .cloned()
                        .collect::<Vec<_>>()
                        .join("  "),
                );
            }
            Part::Resource {
                uri,
                mime_type,
                body,
            } => match body {
                ResourcePartBody::Text { text, .. } => {
                    rendered.out.push(format!("[{uri}]\n{text}"));
                }
                ResourcePartBody::Bytes(bytes) => {
                    let mime_type =
                        mime_type.unwrap_or_else(|| "application/octet-stream".to_owned());
                    rendered.out.push(format!(
                        "{uri}  {}",
                        bytes_line(&mime_type, &bytes, save, index)?
                    ));
                }
                _ => {}
            },
            Part::Raw { raw, .. } => rendered.out.push(pretty(raw.get())),
            _ => {}
        }
    }
    if let Some(structured) = &output.structured
        && !texts.iter().any(|text| same_json(text, structured.get()))
    {
        rendered.out.push(pretty(structured.get()));
    }
    rendered
        .notes
        .extend(output.notes.iter().map(|note| format!("note: {note}")));
    Ok(rendered)
}

/// `[image/png 4.0 KiB, --save DIR]`, or where the bytes were written.
fn bytes_line(
    mime_type: &str,
    bytes: &[u8],
    save: Option<&Path>,
    index: usize,
) -> Result<String, String> {
    let Some(folder) = save else {
        return Ok(format!("[{mime_type} {}, --save DIR]", size(bytes.len())));
    };
    let path = write(
        folder,
        &format!("{:02}.{}", index + 1, extension(mime_type)),
        bytes,
    )?;
    Ok(format!(
        "[{mime_type} {}: {}]",
        size(bytes.len()),
        path.display()
    ))
}

/// Writes a new file; one that is there already is not touched.
fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, "bin"));
    for attempt in 0..1000 {
        let name = if attempt == 0 {
            name.to_owned()
        } else {
            format!("{stem}-{attempt}.{extension}")
        };
        let path = folder.join(name);
        match std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)
        {
            Ok(mut file) => {
                std::io::Write::write_all(&mut file, bytes)
                    .map_err(|error| failed(&path, error))?;
                return Ok(path);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&path, error)),
        }
    }
    Err(format!(
        "{}: a thousand files of this name are there already",
        folder.join(name).display()
    ))
}

/// The usual ending for a media type: never anything that a server made up.
fn extension(mime_type: &str) -> &'static str {
    match mime_type
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
        .as_str()
    {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "audio/wav" | "audio/x-wav" => "wav",
        "audio/mpeg" => "mp3",
        "audio/ogg" => "ogg",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "text/plain" => "txt",
        _ => "bin",
    }
}

/// JSON over several lines, members in the server's order, numbers with all their digits.
pub(crate) fn pretty(json: &str) -> String {
    let (mut out, mut depth, mut chars, mut in_string) = (
        String::with_capacity(json.len() * 2),
        0_usize,
        json.chars().peekable(),
        false,
    );
    let indent = |out: &mut String, depth: usize| {
        out.push('\n');
        out.push_str(&"  ".repeat(depth));
    };
    while let Some(c) = chars.next() {
        match c {
            _ if in_string => {
                out.push(c);
                match c {
                    '\\' => out.extend(chars.next()),
                    '"' => in_string = false,
                    _ => {}
                }
            }
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|next| next.is_whitespace()).is_some() {}
                if chars.peek().is_some_and(|next| matches!(next, '}' | ']')) {
                    out.extend(chars.next());
                } else {
                    depth += 1;
                    indent(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                indent(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                indent(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

/// Whether a text says the same as the structured result.
fn same_json(text: &str, structured: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    parse(text).is_some_and(|text| parse(structured) == Some(text))
}

#[cfg(test)]
mod tests {
    use mcp_client::mcp_proto::method::{CallTool, Method};

    use super::*;

    fn rendered(result: &str, save: Option<&Path>) -> Vec<String> {
        let result = <CallTool as Method>::read(result).unwrap();
        render(result, save, true).unwrap().out
    }

    #[test]
    fn every_kind_of_content_has_a_line() {
        let result = r#"{"structuredContent":{"a":1},"content":[
            {"type":"text","text":"words"},
            {"type":"image","data":"aGk=","mimeType":"image/png"},
            {"type":"resource_link","uri":"x://1","name":"n"},
            {"type":"resource","resource":{"uri":"x://2","text":"inside"}},
            {"type":"hologram","v":1}]}"#;
        assert_eq!(
            rendered(result, None),
            [
                "words",
                "[image/png 2 bytes, --save DIR]",
                "x://1  n",
                "[x://2]\ninside",
                "{\n  \"type\": \"hologram\",\n  \"v\": 1\n}",
                "{\n  \"a\": 1\n}",
            ]
        );
        // C152: a text that says the same is enough.
        let twice =
            r#"{"structuredContent":{"a":1},"content":[{"type":"text","text":"{ \"a\": 1 }"}]}"#;
        assert_eq!(rendered(twice, None), ["{ \"a\": 1 }"]);
    }

    #[test]
    fn bytes_are_saved_beside_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let result = r#"{"content":[{"type":"image","data":"aGk=","mimeType":"image/../../png"}]}"#;
        let first = rendered(result, Some(folder.path()));
        let second = rendered(result, Some(folder.path()));
        assert!(
            first[0].ends_with("01.bin]") && second[0].ends_with("01-1.bin]"),
            "{first:?} {second:?}"
        );
        assert_eq!(std::fs::read(folder.path().join("01.bin")).unwrap(), b"hi");
    }

    #[test]
    fn json_is_indented_and_keeps_its_digits() {
        assert_eq!(
            pretty(r#"{"b":[1.0e2,{}],"a":"x,{\"y\":1}","c":[ ]}"#),
            "{\n  \"b\": [\n    1.0e2,\n    {}\n  ],\n  \"a\": \"x,{\\\"y\\\":1}\",\n  \"c\": []\n}"
        );
    }
}
