//! The conversion itself.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::value::RawValue;

use super::note::{DropReason, Note};
use super::part::{Part, ResourcePartBody, TextCut};
use super::policy::ConvertPolicy;
use crate::members::Members;
use crate::model::content::{ContentBlock, ContentExtra, MediaContent, ResourceBody};
use crate::model::tool::CallToolResult;

/// Standard Base64 whose padding may be missing: some servers leave it out.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A tool's result in parts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ToolOutput {
    /// The parts, in the order of the content blocks they come from.
    pub parts: Vec<Part>,
    /// The structured result exactly as it came; `Some("null")` is not `None`.
    pub structured: Option<Box<RawValue>>,
    /// Whether the tool says that it failed.
    pub is_error: bool,
    /// What was cut, dropped or not understood.
    pub notes: Vec<Note>,
}

/// Converts a result. Large texts are moved, not copied.
pub fn convert_tool_result(result: CallToolResult, policy: &ConvertPolicy) -> ToolOutput {
    let mut conversion = Conversion {
        policy,
        text_budget: policy.max_text_bytes.unwrap_or(usize::MAX),
        parts: Vec::with_capacity(result.content.len()),
        notes: Vec::new(),
    };
    for (index, block) in result.content.into_iter().enumerate() {
        conversion.block(index, block);
    }
    if let Some(structured) = &result.structured_content
        && policy.structured_as_text
        && !conversion
            .parts
            .iter()
            .any(|part| matches!(part, Part::Text { .. }))
    {
        conversion.notes.push(Note::StructuredAsText);
        let (text, cut) = conversion.text(None, structured.get().to_owned());
        conversion.parts.push(Part::Text { text, cut });
    }
    ToolOutput {
        parts: conversion.parts,
        structured: result.structured_content,
        is_error: result.is_error,
        notes: conversion.notes,
    }
}

struct Conversion<'a> {
    policy: &'a ConvertPolicy,
    /// Bytes of text that may still be kept.
    text_budget: usize,
    parts: Vec<Part>,
    notes: Vec<Note>,
}

impl Conversion<'_> {
    fn block(&mut self, index: usize, block: ContentBlock) {
        if !self.is_for_audience(index, &block) {
            return;
        }
        match block {
            ContentBlock::Text(block) => {
                let (text, cut) = self.text(Some(index), block.text);
                self.parts.push(Part::Text { text, cut });
            }
            ContentBlock::Image(media) => {
                if let Some((mime_type, bytes)) = self.media(index, media) {
                    self.parts.push(Part::Image { mime_type, bytes });
                }
            }
            ContentBlock::Audio(media) => {
                if let Some((mime_type, bytes)) = self.media(index, media) {
                    self.parts.push(Part::Audio { mime_type, bytes });
                }
            }
            ContentBlock::Link(link) => self.parts.push(Part::Link {
                uri: link.uri,
                name: link.name,
                title: link.title,
                description: link.description,
                mime_type: link.mime_type,
                size: link.size,
            }),
            ContentBlock::Embedded(embedded) => {
                let body = match embedded.body {
                    ResourceBody::Text(text) => {
                        let (text, cut) = self.text(Some(index), text);
                        Some(ResourcePartBody::Text { text, cut })
                    }
                    ResourceBody::Blob(data) => {
                        let kind = embedded
                            .mime_type
                            .clone()
                            .unwrap_or_else(|| "blob".to_owned());
                        self.bytes(index, kind, &data).map(ResourcePartBody::Bytes)
                    }
                };
                if let Some(body) = body {
                    let (uri, mime_type) = (embedded.uri, embedded.mime_type);
                    self.parts.push(Part::Resource {
                        uri,
                        mime_type,
                        body,
                    });
                }
            }
            ContentBlock::Unknown(unknown) => {
                self.notes.push(Note::Unknown {
                    block: index,
                    kind: unknown.kind.clone(),
                });
                self.parts.push(Part::Raw {
                    kind: unknown.kind,
                    raw: unknown.raw,
                });
            }
        }
    }

    /// Drops a block for another audience. A block that names no audience, or names it badly, is for everybody.
    fn is_for_audience(&mut self, index: usize, block: &ContentBlock) -> bool {
        let Some(wanted) = self.policy.audience else {
            return true;
        };
        let (kind, bytes, named) = match block {
            ContentBlock::Text(block) => ("text", block.text.len(), audience_of(&block.extra)),
            ContentBlock::Image(media) => ("image", media.data.len(), audience_of(&media.extra)),
            ContentBlock::Audio(media) => ("audio", media.data.len(), audience_of(&media.extra)),
            ContentBlock::Embedded(embedded) => (
                "resource",
                embedded.raw.get().len(),
                audience_of(&embedded.extra),
            ),
            ContentBlock::Link(link) => (
                "resource_link",
                link.raw.get().len(),
                audience_of_raw(&link.raw),
            ),
            ContentBlock::Unknown(_) => return true,
        };
        if named
            .is_none_or(|named| named.is_empty() || named.iter().any(|role| role == wanted.name()))
        {
            return true;
        }
        self.dropped(index, kind.to_owned(), bytes, DropReason::Audience);
        false
    }

    fn media(&mut self, index: usize, media: MediaContent) -> Option<(String, Vec<u8>)> {
        if !self.policy.takes(&media.mime_type) {
            self.dropped(
                index,
                media.mime_type,
                media.data.len(),
                DropReason::MediaType,
            );
            return None;
        }
        let bytes = self.bytes(index, media.mime_type.clone(), &media.data)?;
        Some((media.mime_type, bytes))
    }

    fn bytes(&mut self, index: usize, kind: String, data: &str) -> Option<Vec<u8>> {
        // Some servers wrap their Base64 like mail; line breaks inside are not worth losing a picture for.
        let joined;
        let data = if data.contains(['\n', '\r']) {
            joined = data.replace(['\n', '\r'], "");
            &joined
        } else {
            data
        };
        if self
            .policy
            .max_media_bytes
            .is_some_and(|max| data.len() / 4 * 3 > max.saturating_add(2))
        {
            self.dropped(index, kind, data.len(), DropReason::TooLarge);
            return None;
        }
        match BASE64.decode(data) {
            Ok(bytes)
                if self
                    .policy
                    .max_media_bytes
                    .is_some_and(|max| bytes.len() > max) =>
            {
                self.dropped(index, kind, data.len(), DropReason::TooLarge);
                None
            }
            Ok(bytes) => Some(bytes),
            Err(_) => {
                self.dropped(index, kind, data.len(), DropReason::InvalidBase64);
                None
            }
        }
    }

    fn dropped(&mut self, block: usize, kind: String, bytes: usize, reason: DropReason) {
        self.notes.push(Note::Dropped {
            block,
            kind,
            bytes,
            reason,
        });
    }

    /// Cuts a text to what is left of the budget: three quarters head, one quarter tail, where errors often stand.
    fn text(&mut self, block: Option<usize>, text: String) -> (String, Option<TextCut>) {
        let total_bytes = text.len();
        if total_bytes <= self.text_budget {
            self.text_budget -= total_bytes;
            return (text, None);
        }
        let budget = std::mem::take(&mut self.text_budget);
        let head = floor_char_boundary(&text, budget - budget / 4);
        let tail = ceil_char_boundary(&text, total_bytes - budget / 4);
        let mut kept = text;
        kept.replace_range(head..tail, "");
        self.notes.push(Note::TextCut {
            block,
            kept_bytes: kept.len(),
            total_bytes,
        });
        (
            kept,
            Some(TextCut {
                at_byte: head,
                left_out_bytes: tail - head,
            }),
        )
    }
}

fn audience_of(extra: &ContentExtra) -> Option<Vec<String>> {
    Members::read(extra.annotations.as_ref()?.get())?.parse("audience")
}

fn audience_of_raw(raw: &RawValue) -> Option<Vec<String>> {
    Members::read(Members::read(raw.get())?.get("annotations")?.get())?.parse("audience")
}

fn floor_char_boundary(text: &str, at: usize) -> usize {
    (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

fn ceil_char_boundary(text: &str, at: usize) -> usize {
    (at..=text.len())
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::convert::Audience;

    fn convert(result: &str, policy: &ConvertPolicy) -> ToolOutput {
        convert_tool_result(CallToolResult::read(result).unwrap(), policy)
    }

    /// One word per part.
    fn show(part: &Part) -> String {
        match part {
            Part::Text { text, cut: None } => format!("text {text}"),
            Part::Text {
                text,
                cut: Some(cut),
            } => {
                let (head, tail) = text.split_at(cut.at_byte);
                format!("text {head}<{}>{tail}", cut.left_out_bytes)
            }
            Part::Image { mime_type, bytes } => format!("image {mime_type} {bytes:?}"),
            Part::Audio { mime_type, bytes } => format!("audio {mime_type} {bytes:?}"),
            Part::Link { uri, name, .. } => format!("link {uri} {name}"),
            Part::Resource {
                uri,
                body: ResourcePartBody::Text { text, .. },
                ..
            } => format!("resource {uri} {text}"),
            Part::Resource {
                uri,
                body: ResourcePartBody::Bytes(bytes),
                ..
            } => format!("resource {uri} {bytes:?}"),
            Part::Raw { kind, raw } => format!("raw {kind:?} {raw}"),
        }
    }

    #[test]
    fn every_kind_of_block_becomes_a_part() {
        let result = r#"{"isError":true,"structuredContent":{"code":42},"content":[
            {"type":"text","text":"a"},
            {"type":"image","data":"aGk=","mimeType":"image/png"},
            {"type":"audio","data":"aGk","mimeType":"audio/wav"},
            {"type":"resource_link","uri":"x://1","name":"n"},
            {"type":"resource","resource":{"uri":"x://2","text":"t"}},
            {"type":"resource","resource":{"uri":"x://3","blob":"aG\nk="}},
            {"type":"hologram","v":1},
            {"type":"image","data":"%%%","mimeType":"image/png"}]}"#;
        let output = convert(result, &ConvertPolicy::default());
        assert_eq!(
            output.parts.iter().map(show).collect::<Vec<_>>(),
            [
                "text a",
                "image image/png [104, 105]",
                "audio audio/wav [104, 105]",
                "link x://1 n",
                "resource x://2 t",
                "resource x://3 [104, 105]",
                r#"raw Some("hologram") {"type":"hologram","v":1}"#,
            ]
        );
        assert!(output.is_error);
        assert_eq!(output.structured.unwrap().get(), r#"{"code":42}"#); // C153
        assert_eq!(
            output.notes,
            [
                Note::Unknown {
                    block: 6,
                    kind: Some("hologram".to_owned())
                },
                Note::Dropped {
                    block: 7,
                    kind: "image/png".to_owned(),
                    bytes: 3,
                    reason: DropReason::InvalidBase64
                }, // C154
            ]
        );
    }

    #[test]
    fn c152_a_structured_result_is_shown_when_there_is_no_text() {
        let cases = [
            (
                r#"{"structuredContent":{"a":1}}"#,
                vec![r#"text {"a":1}"#],
                true,
            ),
            (r#"{"structuredContent":null}"#, vec!["text null"], true),
            (
                r#"{"structuredContent":{"a":1},"content":[{"type":"text","text":"one"}]}"#,
                vec!["text one"],
                false,
            ),
            (r#"{"content":[]}"#, vec![], false),
        ];
        for (result, parts, noted) in cases {
            let output = convert(result, &ConvertPolicy::default());
            assert_eq!(
                output.parts.iter().map(show).collect::<Vec<_>>(),
                parts,
                "{result}"
            );
            assert_eq!(
                output.notes.contains(&Note::StructuredAsText),
                noted,
                "{result}"
            );
        }
    }

    #[test]
    fn c226_long_texts_keep_head_and_tail_at_below_and_above_the_limit() {
        let policy = |max| ConvertPolicy {
            max_text_bytes: Some(max),
            ..ConvertPolicy::default()
        };
        let text = |text: &str| format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
        let cases = [
            ("abcdefgh", 9, "text abcdefgh"),
            ("abcdefgh", 8, "text abcdefgh"),
            ("abcdefgh", 4, "text abc<4>h"),
            ("abcdefgh", 0, "text <8>"),
            ("ßßßß", 5, "text ßß<4>"), // never inside a character
        ];
        for (given, max, expected) in cases {
            let output = convert(&text(given), &policy(max));
            assert_eq!(show(&output.parts[0]), expected, "{given} {max}");
            assert_eq!(output.notes.is_empty(), given.len() <= max, "{given} {max}");
        }
    }

    #[test]
    fn media_types_sizes_and_audiences_are_policy() {
        let result = r#"{"content":[
            {"type":"image","data":"aGk=","mimeType":"IMAGE/PNG; q=1"},
            {"type":"audio","data":"aGk=","mimeType":"audio/wav"},
            {"type":"image","data":"aGlo","mimeType":"image/gif"},
            {"type":"text","text":"for you","annotations":{"audience":["user"]}},
            {"type":"text","text":"for all","annotations":{"audience":7}}]}"#;
        let policy = ConvertPolicy {
            max_media_bytes: Some(2),
            media_types: Some(vec!["image/*".to_owned()]),
            audience: Some(Audience::Assistant),
            ..ConvertPolicy::default()
        };
        let output = convert(result, &policy);
        let reasons: Vec<_> = output
            .notes
            .iter()
            .map(|note| match note {
                Note::Dropped { block, reason, .. } => (*block, *reason),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(
            output.parts.iter().map(show).collect::<Vec<_>>(),
            ["image IMAGE/PNG; q=1 [104, 105]", "text for all"]
        );
        assert_eq!(
            reasons,
            [
                (1, DropReason::MediaType),
                (2, DropReason::TooLarge),
                (3, DropReason::Audience)
            ]
        );
    }
}
