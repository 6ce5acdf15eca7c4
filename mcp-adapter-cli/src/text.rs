//! Text that a server wrote, made safe to look at.
//!
//! Rules: C004, C223, LOG-08: no escape sequence, no hidden character reaches a terminal.

/// Control characters as their pictures; bidirectional and invisible ones as marks. Line breaks and tabs stay.
pub(crate) fn visible(text: &str) -> String {
    text.replace("\r\n", "\n")
        .chars()
        .map(|c| match c {
            '\n' | '\t' => c,
            '\0'..='\u{1f}' => {
                char::from_u32(0x2400 + c as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
            }
            '\u{7f}' => '\u{2421}',
            '\u{80}'..='\u{9f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}' => char::REPLACEMENT_CHARACTER,
            c => c,
        })
        .collect()
}

/// One line of safe text, cut to a width.
pub(crate) fn one_line(text: &str, width: usize) -> String {
    let line = visible(text)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    if line.chars().count() <= width {
        return line;
    }
    line.chars()
        .take(width.saturating_sub(1))
        .chain(['…'])
        .collect()
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
