//! Text that others wrote, made fit to be shown: cut, on one line, without known secrets.

use url::Url;

use crate::secret::Secret;

/// How much of a text that others wrote is shown, in bytes.
pub const MAX_SHOWN_BYTES: usize = 200;

/// Shortest secret that is taken out of a text, in bytes. Shorter ones stand in any text.
const MIN_REDACTED_BYTES: usize = 6;

/// The start of a text on one line: control and invisible characters become spaces, runs of spaces one space.
pub fn shown(text: &str) -> String {
    let mut out = String::new();
    let mut gap = false;
    for char in text.chars() {
        if char.is_whitespace() || char.is_control() || is_invisible(char) {
            gap = !out.is_empty();
            continue;
        }
        if gap {
            out.push(' ');
            gap = false;
        }
        if out.len() + char.len_utf8() > MAX_SHOWN_BYTES {
            out.push('…');
            break;
        }
        out.push(char);
    }
    out
}

/// The start of a text, without the secrets that were sent to whoever wrote it: answers quote requests.
pub fn shown_without(text: &str, secrets: &[Secret]) -> String {
    let mut text = text.to_owned();
    for secret in secrets {
        if secret.reveal().len() >= MIN_REDACTED_BYTES {
            text = text.replace(secret.reveal(), "***");
        }
    }
    shown(&text)
}

/// An address as it may be shown: without user, password, query and fragment, which may hold secrets (C222).
pub fn shown_url(url: &Url) -> String {
    let mut url = url.clone();
    // Both fail for addresses that can have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    shown(url.as_str())
}

/// The same for an address that was not read yet, as it stands in a document.
pub fn shown_address(address: &str) -> String {
    match Url::parse(address) {
        Ok(url) if url.has_host() => shown_url(&url),
        _ => shown(address.split(['?', '#']).next().unwrap_or_default()),
    }
}

/// Characters that change how a text looks without being seen: direction marks, zero-width ones, tags.
fn is_invisible(char: char) -> bool {
    matches!(char,
        '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_on_one_line_and_cut() {
        assert_eq!(shown(" a\r\n\tb\u{1b}[31m\u{202e}c "), "a b [31m c");
        let long = shown(&"é".repeat(500));
        assert!(long.len() <= MAX_SHOWN_BYTES + '…'.len_utf8());
        assert!(long.ends_with('…'));
    }

    #[test]
    fn c222_addresses_lose_user_and_query() {
        for (address, expected) in [
            ("https://u:p@h/a?key=SECRET#f", "https://h/a"),
            ("https://h", "https://h/"),
            ("not an address?code=SECRET", "not an address"),
            ("data:text/plain,SECRET?x", "data:text/plain,SECRET"),
        ] {
            assert_eq!(shown_address(address), expected);
        }
    }

    #[test]
    fn an_echoed_secret_is_taken_out() {
        let secrets = [Secret::new("s3cret-code"), Secret::new("1")];
        assert_eq!(
            shown_without("bad code s3cret-code in line 1", &secrets),
            "bad code *** in line 1"
        );
    }
}
