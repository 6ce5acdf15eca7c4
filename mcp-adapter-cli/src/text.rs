//! Text that a server wrote, made safe to look at.
//!
//! Rules: C004, C223, LOG-08: no escape sequence, no hidden character reaches a terminal.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether marks of our own are limited to ASCII: a choice of the whole run, made once at its start.
static ASCII: AtomicBool = AtomicBool::new(false);

/// Limits marks of our own to ASCII from now on.
pub(crate) fn use_ascii() {
    ASCII.store(true, Ordering::Relaxed);
}

pub(crate) fn is_ascii_only() -> bool {
    ASCII.load(Ordering::Relaxed)
}

/// Stands for something left out.
pub(crate) fn ellipsis() -> &'static str {
    if is_ascii_only() { "..." } else { "…" }
}

/// Characters that a terminal acts upon, and characters that nobody sees: bidirectional controls, zero-width ones, tags.
/// Line breaks and tabs are neither.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// How many characters [`visible`] would replace by marks.
pub(crate) fn count_hidden(text: &str) -> usize {
    text.replace("\r\n", "\n")
        .chars()
        .filter(|c| is_hidden(*c))
        .count()
}

/// Control characters as their pictures; bidirectional and invisible ones as marks. Line breaks and tabs stay.
pub(crate) fn visible(text: &str) -> String {
    let ascii = is_ascii_only();
    let mut shown = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            c if !is_hidden(c) => shown.push(c),
            c if ascii => shown.extend(c.escape_unicode()),
            '\0'..='\u{1f}' => {
                let picture = char::from_u32(0x2400 + c as u32);
                shown.push(picture.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            '\u{7f}' => shown.push('\u{2421}'),
            _ => shown.push(char::REPLACEMENT_CHARACTER),
        }
    }
    shown
}

/// One line of safe text, cut to a number of characters.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let line = visible(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    if line.chars().count() <= width {
        return line;
    }
    let kept = width.saturating_sub(ellipsis().chars().count());
    line.chars().take(kept).chain(ellipsis().chars()).collect()
}

/// The first sentence of a description.
pub(crate) fn first_sentence(text: &str) -> &str {
    let text = text.trim();
    let line = text.lines().next().unwrap_or_default();
    line.find(". ").map_or(line, |at| &line[..=at])
}

/// Rows in columns, two spaces apart, as wide as their widest cell; the last column is not padded.
pub(crate) fn table(rows: &[Vec<String>]) -> Vec<String> {
    use unicode_width::UnicodeWidthStr as _;
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.width())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (index, cell) in row.iter().enumerate() {
                line.push_str(cell);
                if index + 1 < row.len() {
                    line.push_str(&" ".repeat(widths[index] - cell.width() + 2));
                }
            }
            line.trim_end().to_owned()
        })
        .collect()
}

/// `4.0 KiB` and the like.
pub(crate) fn size(bytes: usize) -> String {
    const KIB: f64 = 1024.0;
    #[expect(
        clippy::cast_precision_loss,
        reason = "one digit behind the point is shown"
    )]
    let bytes_float = bytes as f64;
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", bytes_float / KIB),
        _ => format!("{:.1} MiB", bytes_float / KIB / KIB),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c004_c223_nothing_hidden_reaches_the_terminal() {
        assert_eq!(
            visible("a\u{1b}[2Jb\r\nc\td\u{202e}e\u{e0049}"),
            "a\u{241b}[2Jb\nc\td\u{fffd}e\u{fffd}"
        );
        assert_eq!(count_hidden("a\u{1b}[2Jb\r\nc\td\u{202e}e\u{e0049}"), 3);
        for hidden in [
            "\u{ad}",
            "\u{61c}",
            "\u{200b}",
            "\u{2028}",
            "\u{2066}",
            "\u{e0100}",
            "\u{9b}",
        ] {
            assert_eq!(visible(hidden), "\u{fffd}");
        }
        assert_eq!(one_line("a\n b   c", 80), "a b c");
        assert_eq!(one_line("abcdef", 4), "abc…");
        assert_eq!(first_sentence("One thing. And more."), "One thing.");
        assert_eq!(first_sentence("One\nTwo"), "One");
    }

    #[test]
    fn tables_know_wide_characters() {
        let rows = [
            vec!["ab".to_owned(), "x".to_owned()],
            vec!["漢字".to_owned(), "y".to_owned()],
        ];
        assert_eq!(table(&rows), ["ab    x", "漢字  y"]);
        assert_eq!(
            (size(12), size(4096), size(3 << 20)),
            (
                "12 bytes".to_owned(),
                "4.0 KiB".to_owned(),
                "3.0 MiB".to_owned()
            )
        );
    }
}
