//! Values that must not be shown, and the removal of such values from texts that will be (D10, C222).

use std::fmt;

/// A value that no `Debug` prints.
#[derive(Clone, Eq, PartialEq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself: for the server's environment and for the fingerprint, nothing else.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// Shorter values are too likely to occur by chance: `1`, `true`, `info`.
const MIN_SECRET_BYTES: usize = 6;

/// Replaces known secret values in texts, for example in what a server wrote to its error output.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scrubber(Vec<Secret>);

impl Scrubber {
    pub(crate) fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let mut values: Vec<_> = values
            .into_iter()
            .filter(|value| value.0.len() >= MIN_SECRET_BYTES)
            .collect();
        // The longest first: one value may contain another.
        values.sort_by_key(|value| std::cmp::Reverse(value.0.len()));
        Self(values)
    }

    pub(crate) fn scrub(&self, text: &str) -> String {
        let replace = |text: String, secret: &Secret| {
            if text.contains(&secret.0) {
                text.replace(&secret.0, "***")
            } else {
                text
            }
        };
        self.0.iter().fold(text.to_owned(), replace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c222_known_values_are_removed() {
        let scrubber = Scrubber::new(["hunter22", "hunter22-long", "1"].map(Secret::new));
        let text = "token=hunter22-long, old hunter22, level 1";
        assert_eq!(scrubber.scrub(text), "token=***, old ***, level 1");
        assert_eq!(format!("{scrubber:?}"), "Scrubber([***, ***])");
    }
}
