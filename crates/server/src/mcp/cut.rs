//! Long texts, cut in the middle: what a model needs of an output is at its beginning and at its end.

use super::client::AnswerLimit;

/// The text, or its head and tail with a line in between that says how much is missing.
pub(super) fn head_and_tail(text: &str, limit: AnswerLimit) -> (String, bool) {
    if json_length(text) <= limit.bytes && lines(text) <= limit.lines {
        return (text.to_owned(), false);
    }
    let budget = limit.bytes.saturating_sub(NOTE);
    let head = fitting(text.char_indices(), budget / 3, limit.lines / 3)
        .map_or(text.len(), |(at, character)| at + character.len_utf8());
    let rest = &text[head..];
    let tail = fitting(rest.char_indices().rev(), budget - budget / 3, limit.lines - limit.lines / 3)
        .map_or(0, |(at, _)| at);
    let (head, left, tail) = (&text[..head], rest[..tail].len(), &rest[tail..]);
    if left == 0 {
        return (text.to_owned(), false);
    }
    (format!("{head}\n[... {left} bytes left out ...]\n{tail}"), true)
}

/// What the line in between costs.
const NOTE: usize = 64;

/// The last character that fits; none: all do.
fn fitting(
    characters: impl Iterator<Item = (usize, char)>,
    bytes: usize,
    lines: usize,
) -> Option<(usize, char)> {
    let (mut spent, mut seen, mut last) = (0, 0, None);
    for (at, character) in characters {
        spent += escaped(character);
        seen += usize::from(character == '\n');
        if spent > bytes || seen > lines {
            return last.or(Some((at, character)));
        }
        last = Some((at, character));
    }
    None
}

fn lines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// How long it is in JSON.
pub(super) fn json_length(text: &str) -> usize {
    text.chars().map(escaped).sum()
}

/// What one character of it takes.
pub(super) fn escaped(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        character if u32::from(character) < 0x20 => 6,
        character => character.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: AnswerLimit = AnswerLimit { bytes: 300, lines: 12 };

    #[test]
    fn short_ones_stay_whole() {
        assert_eq!(head_and_tail("a\nb", SMALL), ("a\nb".to_owned(), false));
        assert_eq!(head_and_tail("", SMALL), (String::new(), false));
    }

    #[test]
    fn head_and_tail_stay() {
        let text = format!("begin{}end", "x".repeat(1000));
        let (cut, was_cut) = head_and_tail(&text, SMALL);
        assert!(was_cut && cut.starts_with("begin") && cut.ends_with("end"), "{cut}");
        assert!(cut.contains("bytes left out") && json_length(&cut) <= SMALL.bytes, "{cut}");
        let many = "l\n".repeat(100);
        let (cut, was_cut) = head_and_tail(&many, SMALL);
        assert!(was_cut && lines(&cut) <= SMALL.lines + 2, "{cut}");
    }

    proptest! {
        #[test]
        fn never_too_long_and_never_torn(text in "(\\PC|\n|\"|\u{1}|\u{1F600}){0,400}") {
            let (cut, was_cut) = head_and_tail(&text, SMALL);
            prop_assert!(was_cut || cut == text);
            prop_assert!(!was_cut || json_length(&cut) <= SMALL.bytes);
            prop_assert_eq!(serde_json::to_string(&text).unwrap().len() - 2, json_length(&text));
        }
    }
}
