//! What a host takes.

/// Limits and choices of a conversion.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ConvertPolicy {
    /// Most bytes of text kept over all parts; what is longer keeps its head and tail. Default: no limit.
    pub max_text_bytes: Option<usize>,
    /// Most bytes of one decoded picture, sound or blob. Default: no limit.
    pub max_media_bytes: Option<usize>,
    /// Media types taken for pictures and sound, exact (`image/png`) or a whole family (`image/*`). Default: all.
    pub media_types: Option<Vec<String>>,
    /// Keep only blocks meant for this audience; blocks that name none are for everybody. Default: keep all.
    pub audience: Option<Audience>,
    /// Whether a structured result is added as text when no block has any (C152). Default: yes.
    pub structured_as_text: bool,
}

impl Default for ConvertPolicy {
    fn default() -> Self {
        Self {
            max_text_bytes: None,
            max_media_bytes: None,
            media_types: None,
            audience: None,
            structured_as_text: true,
        }
    }
}

impl ConvertPolicy {
    /// Whether a media type is taken. Case and parameters don't matter.
    pub(crate) fn takes(&self, mime_type: &str) -> bool {
        let Some(accepted) = &self.media_types else {
            return true;
        };
        let essence = mime_type.split(';').next().unwrap_or_default().trim();
        accepted
            .iter()
            .any(|pattern| match pattern.strip_suffix("/*") {
                Some(family) => essence
                    .split_once('/')
                    .is_some_and(|(given, _)| given.eq_ignore_ascii_case(family)),
                None => essence.eq_ignore_ascii_case(pattern),
            })
    }
}

/// Who a block is meant for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the protocol's two roles")]
pub enum Audience {
    /// The model.
    Assistant,
    /// The person.
    User,
}

impl Audience {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Assistant => "assistant",
            Self::User => "user",
        }
    }
}
