//! Bodies as evidence: what a person wants to see of them in one line.

/// Bytes that an error shows.
const MAX_SHOWN_BYTES: usize = 200;

/// Bytes of a page that are searched for text.
const MAX_SEARCHED_BYTES: usize = 16 * 1024;

/// A body in one line, cleaned and cut; of a page its text.
pub(crate) fn shown(body: &[u8]) -> String {
    let body = body.get(..MAX_SEARCHED_BYTES).unwrap_or(body);
    if body.trim_ascii_start().starts_with(b"<") {
        let text = text_of_page(&String::from_utf8_lossy(body));
        if !text.is_empty() {
            return mcp_jsonrpc::clean_excerpt(text.as_bytes(), MAX_SHOWN_BYTES);
        }
    }
    mcp_jsonrpc::clean_excerpt(body.trim_ascii(), MAX_SHOWN_BYTES)
}

/// What stands between the tags, styles and scripts left out. Good enough to be read, not to be parsed.
fn text_of_page(page: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some((text, tag_on)) = rest.split_once('<') {
        words.extend(text.split_whitespace());
        let (tag, after) = tag_on.split_once('>').unwrap_or((tag_on, ""));
        let hidden = ["style", "script"].into_iter().find(|name| {
            tag.get(..name.len())
                .is_some_and(|tag| tag.eq_ignore_ascii_case(name))
        });
        rest = match hidden {
            Some(name) => after
                .find(&format!("</{name}"))
                .and_then(|at| after.get(at..))
                .unwrap_or_default(),
            None => after,
        };
    }
    words.extend(rest.split_whitespace());
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c113_pages_are_shown_as_text() {
        let cases = [
            ("plain text", "plain text"),
            (" {\"a\":1}\n", "{\"a\":1}"),
            ("<html><h1>Bad\n gateway</h1></html>", "Bad gateway"),
            (
                "<!DOCTYPE html><head><title>Error</title><style>p { x: y }</style></head><body><pre>Cannot POST /x</pre>",
                "Error Cannot POST /x",
            ),
            ("<p>cut <b", "cut"),
            ("<script>never closed", "<script>never closed"),
            ("<>", "<>"),
            ("", ""),
        ];
        for (body, text) in cases {
            assert_eq!(shown(body.as_bytes()), text, "{body}");
        }
        assert!(shown(&[b'x'; 100_000]).len() < 300);
        assert!(shown("<p>ä</p>".repeat(10_000).as_bytes()).len() < 300);
    }
}
