//! The piece of a text that shows why it was found.

use std::ops::Range;

use serde::Serialize;

use super::words::SEPARATOR;

/// Around each word that matched, in what FTS5 gives. Neither is in any indexed text.
pub(super) const BEGIN: char = '\u{1}';
pub(super) const END: char = '\u{2}';
/// Words around the matches.
pub(super) const LENGTH: i64 = 24;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Snippet {
    pub text: String,
    /// What matched, in bytes of the text.
    pub matches: Vec<Range<usize>>,
}

impl Snippet {
    /// From text with marks.
    pub(super) fn of_marked(marked: &str) -> Self {
        let mut snippet = Self::default();
        let mut begun = None;
        for character in marked.chars() {
            match character {
                BEGIN => begun = Some(snippet.text.len()),
                END => {
                    let range = begun.take().unwrap_or(snippet.text.len())..snippet.text.len();
                    match snippet.matches.last_mut() {
                        // Characters of one word of a script without spaces.
                        Some(last) if last.end == range.start => last.end = range.end,
                        _ => snippet.matches.push(range),
                    }
                }
                SEPARATOR => {}
                // One line, however it was laid out.
                _ if character.is_whitespace() => {
                    if !snippet.text.ends_with(' ') && !snippet.text.is_empty() {
                        snippet.text.push(' ');
                    }
                }
                _ => snippet.text.push(character),
            }
        }
        let length = snippet.text.trim_end().len();
        snippet.text.truncate(length);
        snippet
    }

    /// The beginning of a text, where nothing is marked.
    pub(super) fn of_beginning(text: &str) -> Self {
        let mut text: String = text.chars().filter(|character| *character != SEPARATOR).take(160).collect();
        text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        Self { text, matches: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_ranges() {
        let snippet =
            Snippet::of_marked("…fill \u{1}PDF\u{2}\n  forms, \u{1}書\u{2}\u{2063}\u{1}類\u{2}\u{2063}");
        assert_eq!(snippet.text, "…fill PDF forms, 書類");
        let shown: Vec<_> = snippet.matches.iter().map(|range| &snippet.text[range.clone()]).collect();
        assert_eq!(shown, ["PDF", "書類"]);
    }
}
