//! "Did you mean": the nearest of some names. Suggestions are printed and never acted upon.

/// How alike two words must be at least, from 0 to 1, to be suggested.
const MIN_LIKENESS: f64 = 0.8;

/// The candidate that `word` was probably meant to be. Case, `-` and `_` don't count; `word` itself is no suggestion.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace(['-', '_'], "");
    let wanted = plain(word);
    let mut best: Option<(&str, f64)> = None;
    for candidate in candidates
        .into_iter()
        .filter(|candidate| *candidate != word)
    {
        let likeness = strsim::jaro_winkler(&wanted, &plain(candidate));
        if likeness >= MIN_LIKENESS && best.is_none_or(|(_, found)| likeness > found) {
            best = Some((candidate, likeness));
        }
    }
    best.map(|(candidate, _)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_not() {
        let names = ["query", "limit", "sort"];
        let cases = [
            ("querry", Some("query")),
            ("QUERY", Some("query")),
            ("limti", Some("limit")),
            ("query", None),
            ("colour", None),
            ("", None),
        ];
        for (word, found) in cases {
            assert_eq!(nearest(word, names), found, "{word}");
        }
        assert_eq!(nearest("mcp_servers", ["mcpServers"]), Some("mcpServers"));
        assert_eq!(nearest("enviroment", ["env", "command"]), Some("env"));
    }
}
