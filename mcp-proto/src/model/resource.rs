//! Resources: listing and reading them.
//!
//! Rules: RES-01 to RES-10, C149 (`null` is absent).

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use thiserror::Error;

use super::content::ResourceBody;
use super::page::ListEntry;
use crate::members::Members;

/// A resource that a server offers.
///
/// ```json
/// {"uri": "file:///a.txt", "name": "a.txt", "mimeType": "text/plain", "size": 12}
/// ```
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Resource {
    /// Its address, of any scheme; to be sent back exactly as it came (RES-07).
    pub uri: String,
    /// Its name; empty if the server gave none.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is, written by the server: untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its media type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Its size in bytes, as a hint.
    #[serde(
        default,
        deserialize_with = "size",
        skip_serializing_if = "Option::is_none"
    )]
    pub size: Option<u64>,
    /// Audience, priority, last change, raw: hints (RES-09).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<RawValue>>,
    /// Icons, raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<Box<RawValue>>,
    /// Anything else that the server attached, raw.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

/// A hint is no reason to refuse a resource: what is no whole number of bytes counts as absent.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let value = serde_json::Value::deserialize(deserializer)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole and not negative, and past the largest number the largest is a good hint"
    )]
    let whole = |size: f64| (size >= 0.0 && size.fract() == 0.0).then_some(size as u64);
    Ok(value.as_u64().or_else(|| value.as_f64().and_then(whole)))
}

impl Resource {
    /// The name to show: title, else the name, else the address.
    pub fn display_name(&self) -> &str {
        let name = self.title.as_deref().unwrap_or(&self.name);
        if name.is_empty() { &self.uri } else { name }
    }
}

impl ListEntry for Resource {
    const KIND: &'static str = "resource";
    const MEMBER: &'static str = "resources";
    const KEY: &'static str = "uri";

    fn key(&self) -> &str {
        &self.uri
    }
}

/// A family of resources, by a URI template (RFC 6570).
///
/// ```json
/// {"uriTemplate": "note://{id}", "name": "notes"}
/// ```
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ResourceTemplate {
    /// The template, as it came.
    pub uri_template: String,
    /// Its name; empty if the server gave none.
    #[serde(default, deserialize_with = "super::null_as_default")]
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for, written by the server: untrusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The media type of all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Audience, priority, last change, raw: hints.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<RawValue>>,
    /// Icons, raw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icons: Option<Box<RawValue>>,
    /// Anything else that the server attached, raw.
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<RawValue>>,
}

impl ListEntry for ResourceTemplate {
    const KIND: &'static str = "resource template";
    const MEMBER: &'static str = "resourceTemplates";
    const KEY: &'static str = "uriTemplate";

    fn key(&self) -> &str {
        &self.uri_template
    }
}

/// Parameters that name one resource: of `resources/read`, `resources/subscribe` and `resources/unsubscribe`.
///
/// ```json
/// {"uri": "file:///a.txt"}
/// ```
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ResourceParams<'a> {
    /// The address, exactly as the server gave it.
    pub uri: Cow<'a, str>,
}

impl<'a> ResourceParams<'a> {
    /// The resource at this address.
    pub fn new(uri: impl Into<Cow<'a, str>>) -> Self {
        Self { uri: uri.into() }
    }
}

/// Result of `resources/read`.
///
/// ```json
/// {"contents": [{"uri": "file:///a.txt", "mimeType": "text/plain", "text": "hello"}]}
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ReadResourceResult {
    /// What was read: often one item, for a folder perhaps many, perhaps none (RES-03, RES-06).
    pub contents: Vec<ResourceContents>,
    /// Anything else that the server attached, raw.
    pub meta: Option<Box<RawValue>>,
}

/// One item of what was read.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ResourceContents {
    /// Its address; it may be another one than was asked for.
    pub uri: String,
    /// Its media type.
    pub mime_type: Option<String>,
    /// What is in it; `None` when it has neither text nor bytes.
    pub body: Option<ResourceBody>,
    /// The item as it came.
    pub raw: Box<RawValue>,
}

impl ReadResourceResult {
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let members = Members::read(text).ok_or("it is no object")?;
        let items: Vec<&RawValue> = match members.get("contents") {
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| "contents is no array")?,
            None => return Err("it has no contents".to_owned()),
        };
        let meta = members.get("_meta").map(ToOwned::to_owned);
        let contents = items.into_iter().map(ResourceContents::read).collect();
        Ok(Self { contents, meta })
    }

    /// All text, joined by line breaks.
    pub fn text(&self) -> String {
        let texts = self.contents.iter().filter_map(|item| match &item.body {
            Some(ResourceBody::Text(text)) => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl ResourceContents {
    fn read(raw: &RawValue) -> Self {
        let members = Members::read(raw.get());
        let text = |name: &str| members.as_ref().and_then(|members| members.text(name));
        let body = text("text")
            .map(ResourceBody::Text)
            .or_else(|| text("blob").map(ResourceBody::Blob));
        Self {
            uri: text("uri").unwrap_or_default(),
            mime_type: text("mimeType"),
            body,
            raw: raw.to_owned(),
        }
    }
}

/// Bytes that are no Base64 (RES-04).
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("its bytes are no valid Base64: {reason}")]
#[non_exhaustive]
pub struct InvalidBlob {
    /// What is wrong.
    pub reason: String,
}

impl ResourceBody {
    /// The bytes: of a text as they are, of a blob decoded.
    ///
    /// # Errors
    /// When a blob is no standard Base64.
    pub fn bytes(&self) -> Result<Cow<'_, [u8]>, InvalidBlob> {
        match self {
            Self::Text(text) => Ok(Cow::Borrowed(text.as_bytes())),
            Self::Blob(blob) => {
                let decoded = STANDARD.decode(blob);
                decoded.map(Cow::Owned).map_err(|error| InvalidBlob {
                    reason: error.to_string(),
                })
            }
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.display_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::page::Page;

    #[test]
    fn c149_one_bad_resource_spoils_nothing_and_hints_are_hints() {
        let page = Page::<Resource>::read(
            r#"{"resources":[
                {"uri":"a:","name":"A","title":null,"size":12.0},
                {"name":"no address"},
                {"uri":"b:","size":-1,"annotations":{"priority":"high"}},
                {"uri":"c:","name":null,"size":"big","icons":[]}],"nextCursor":""}"#,
        )
        .unwrap();
        let shown: Vec<_> = page
            .entries
            .iter()
            .map(|resource| (resource.display_name(), resource.size))
            .collect();
        assert_eq!(shown, [("A", Some(12)), ("b:", None), ("c:", None)]);
        assert_eq!(page.skipped.len(), 1);
        assert!(page.next_cursor.is_some(), "PAGE-02");
    }

    #[test]
    fn res_04_broken_bytes_are_an_error_of_their_item() {
        let result = ReadResourceResult::read(
            r#"{"contents":[{"uri":"a:","text":"hi"},{"uri":"b:","blob":"aGk="},{"uri":"c:","blob":"*"},{"uri":"d:"},7]}"#,
        )
        .unwrap();
        let bytes: Vec<_> = result
            .contents
            .iter()
            .map(|item| {
                item.body
                    .as_ref()
                    .map(|body| body.bytes().map(Cow::into_owned).ok())
            })
            .collect();
        let hi = || Some(b"hi".to_vec());
        assert_eq!(bytes, [Some(hi()), Some(hi()), Some(None), None, None]);
        assert_eq!(result.text(), "hi");
        assert!(ReadResourceResult::read("{}").is_err());
        assert!(
            ReadResourceResult::read(r#"{"contents":[]}"#)
                .unwrap()
                .contents
                .is_empty()
        );
    }
}
