//! Content blocks: what tools and prompts say.
//!
//! Rules: TOOL-14, C154 (unknown and broken blocks survive raw).

use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::members::Members;

/// One block of content, told apart by its `type`.
///
/// ```json
/// {"type": "text", "text": "5"}
/// {"type": "image", "data": "iVBORw0…", "mimeType": "image/png"}
/// {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt"}
/// {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "…"}}
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ContentBlock {
    /// `audio`, from 2025-03-26.
    Audio(MediaContent),
    /// `resource`: the contents of a resource.
    Embedded(EmbeddedResource),
    /// `image`.
    Image(MediaContent),
    /// `resource_link`, from 2025-06-18: a resource to be read later.
    Link(ResourceLink),
    /// `text`.
    Text(TextContent),
    /// A `type` that this crate does not know, or a known one without what it needs.
    Unknown(UnknownContent),
}

/// A `text` block.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TextContent {
    /// The text, written by the server: untrusted.
    pub text: String,
    /// `annotations` and `_meta`.
    pub extra: ContentExtra,
}

/// An `image` or `audio` block.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MediaContent {
    /// The bytes in standard Base64, as they came; they may be broken.
    pub data: String,
    /// The media type.
    pub mime_type: String,
    /// `annotations` and `_meta`.
    pub extra: ContentExtra,
}

/// A `resource_link` block.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceLink {
    /// The resource's address; it need not be in any list (TOOL-17).
    pub uri: String,
    /// Its name.
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// Its media type.
    pub mime_type: Option<String>,
    /// Its size in bytes.
    pub size: Option<u64>,
    /// The block as it came, icons included.
    pub raw: Box<RawValue>,
}

/// A `resource` block.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EmbeddedResource {
    /// The resource's address.
    pub uri: String,
    /// Its media type.
    pub mime_type: Option<String>,
    /// What is in it.
    pub body: ResourceBody,
    /// The `resource` member as it came.
    pub raw: Box<RawValue>,
    /// `annotations` and `_meta` of the block.
    pub extra: ContentExtra,
}

/// What is in a resource.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum ResourceBody {
    /// Bytes in standard Base64, as they came; they may be broken.
    Blob(String),
    /// Text.
    Text(String),
}

/// A block that could not be read as any kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct UnknownContent {
    /// The `type`, if there is one.
    pub kind: Option<String>,
    /// The block as it came.
    pub raw: Box<RawValue>,
}

/// Members that any block may have, raw.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ContentExtra {
    /// `annotations`: audience, priority, last change.
    pub annotations: Option<Box<RawValue>>,
    /// `_meta`.
    pub meta: Option<Box<RawValue>>,
}

impl ContentExtra {
    fn read(members: &Members<'_>) -> Self {
        let raw = |name| members.get(name).map(ToOwned::to_owned);
        Self {
            annotations: raw("annotations"),
            meta: raw("_meta"),
        }
    }

    fn serialize_into<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for (name, value) in [("annotations", &self.annotations), ("_meta", &self.meta)] {
            if let Some(value) = value {
                map.serialize_entry(name, value)?;
            }
        }
        Ok(())
    }
}

impl ContentBlock {
    /// A `text` block.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(TextContent {
            text: text.into(),
            extra: ContentExtra::default(),
        })
    }

    /// Reads a block; what is no known block comes out as [`ContentBlock::Unknown`].
    pub(crate) fn read(text: &str) -> Self {
        let members = Members::read(text);
        let kind = members.as_ref().and_then(|members| members.text("type"));
        let read = members
            .as_ref()
            .zip(kind.as_deref())
            .and_then(|(members, kind)| Self::read_known(members, kind, text));
        read.unwrap_or_else(|| {
            Self::Unknown(UnknownContent {
                kind,
                raw: raw(text),
            })
        })
    }

    fn read_known(members: &Members<'_>, kind: &str, text: &str) -> Option<Self> {
        let extra = ContentExtra::read(members);
        Some(match kind {
            "text" => Self::Text(TextContent {
                text: members.text("text")?,
                extra,
            }),
            "image" | "audio" => {
                let media = MediaContent {
                    data: members.text("data")?,
                    mime_type: members.text("mimeType")?,
                    extra,
                };
                if kind == "image" {
                    Self::Image(media)
                } else {
                    Self::Audio(media)
                }
            }
            "resource_link" => Self::Link(ResourceLink {
                uri: members.text("uri")?,
                name: members.text("name").unwrap_or_default(),
                title: members.text("title"),
                description: members.text("description"),
                mime_type: members.text("mimeType"),
                size: members.get("size").and_then(|raw| whole_number(raw.get())),
                raw: raw(text),
            }),
            "resource" => {
                let resource = members.get("resource")?;
                let inner = Members::read(resource.get())?;
                let body = match inner.text("text") {
                    Some(text) => ResourceBody::Text(text),
                    None => ResourceBody::Blob(inner.text("blob")?),
                };
                Self::Embedded(EmbeddedResource {
                    uri: inner.text("uri")?,
                    mime_type: inner.text("mimeType"),
                    body,
                    raw: resource.to_owned(),
                    extra,
                })
            }
            _ => return None,
        })
    }
}

/// A size: integral floats count (C150), anything else is no size.
pub(crate) fn whole_number(text: &str) -> Option<u64> {
    match mcp_jsonrpc::RequestId::from_json(text)? {
        mcp_jsonrpc::RequestId::Number(number) => u64::try_from(number).ok(),
        mcp_jsonrpc::RequestId::String(_) => None,
    }
}

/// Owned raw JSON of text that is known to be JSON.
fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap_or_default()
}

impl<'de> Deserialize<'de> for ContentBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::read(
            Box::<RawValue>::deserialize(deserializer)?.get(),
        ))
    }
}

impl Serialize for ContentBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = match self {
            Self::Link(link) => return link.raw.serialize(serializer),
            Self::Unknown(unknown) => return unknown.raw.serialize(serializer),
            _ => serializer.serialize_map(None)?,
        };
        match self {
            Self::Text(text) => {
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", &text.text)?;
                text.extra.serialize_into(&mut map)?;
            }
            Self::Image(media) | Self::Audio(media) => {
                map.serialize_entry(
                    "type",
                    if matches!(self, Self::Image(_)) {
                        "image"
                    } else {
                        "audio"
                    },
                )?;
                map.serialize_entry("data", &media.data)?;
                map.serialize_entry("mimeType", &media.mime_type)?;
                media.extra.serialize_into(&mut map)?;
            }
            Self::Embedded(embedded) => {
                map.serialize_entry("type", "resource")?;
                map.serialize_entry("resource", &embedded.raw)?;
                embedded.extra.serialize_into(&mut map)?;
            }
            Self::Link(_) | Self::Unknown(_) => {}
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_and_prints_back_equal() {
        let cases = [
            (r#"{"type":"text","text":"a"}"#, "Text"),
            (
                r#"{"type":"text","text":"a","annotations":{"priority":0.5},"_meta":{"k":1}}"#,
                "Text",
            ),
            (
                r#"{"type":"image","data":"aGk=","mimeType":"image/png"}"#,
                "Image",
            ),
            (
                r#"{"type":"audio","data":"%%%","mimeType":"audio/wav"}"#,
                "Audio",
            ),
            (
                r#"{"type":"resource_link","uri":"x://1","name":"n"}"#,
                "Link",
            ), // C154
            (
                r#"{"type":"resource_link","uri":"x://1","name":"n","size":12.0,"icons":[]}"#,
                "Link",
            ), // C150
            (
                r#"{"type":"resource","resource":{"uri":"x://1","text":"t"}}"#,
                "Embedded",
            ),
            (
                r#"{"type":"resource","resource":{"uri":"x://1","blob":"aGk="}}"#,
                "Embedded",
            ),
            (r#"{"type":"hologram","v":1}"#, "Unknown"), // C154
            (r#"{"type":"text"}"#, "Unknown"),
            (r#"{"type":"text","text":7}"#, "Unknown"),
            (
                r#"{"type":"resource","resource":{"uri":"x://1"}}"#,
                "Unknown",
            ),
            (r#"{"v":1}"#, "Unknown"),
            ("7", "Unknown"),
        ];
        for (text, kind) in cases {
            let block = ContentBlock::read(text);
            assert!(format!("{block:?}").starts_with(kind), "{text}: {block:?}");
            assert_eq!(serde_json::to_string(&block).unwrap(), text);
        }
    }
}
