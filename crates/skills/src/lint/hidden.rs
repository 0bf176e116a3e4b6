//! Characters that show nothing, or change what is shown.

use super::Report;
use super::rules::{HIDDEN_BIDI, HIDDEN_PAYLOAD, HIDDEN_TAGS, HIDDEN_ZERO_WIDTH, Rule};
use super::text::Text;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hidden {
    Tag,
    /// Embeddings, overrides and isolates.
    Direction,
    /// Joiners, spaces and marks of no width, and fillers.
    ZeroWidth,
    Variation,
}

pub(super) fn hidden(character: char) -> Option<Hidden> {
    match character {
        ' '..='~' => None,
        '\u{e0000}'..='\u{e007f}' => Some(Hidden::Tag),
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some(Hidden::Direction),
        '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180d}' | '\u{180f}' => {
            Some(Hidden::Variation)
        }
        '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'
        | '\u{1160}'
        | '\u{17b4}'
        | '\u{17b5}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206a}'..='\u{206f}'
        | '\u{3164}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0080}'..='\u{e0fff}' => Some(Hidden::ZeroWidth),
        _ => None,
    }
}

/// From here on a run of characters that show nothing is no accident.
const PAYLOAD: usize = 8;

pub(super) fn check_text(report: &mut Report, file: &str, text: &Text) {
    if text.source.is_ascii() {
        return;
    }
    for Run { at, rule, characters } in runs(&text.source) {
        report.add(&rule, file, Some(text.line(at)), &describe(&characters));
    }
}

/// File names are read by people and models too.
pub(super) fn check_name(report: &mut Report, path: &str) {
    for run in runs(path) {
        report.add(&run.rule, path, None, &format!("in the file's name: {}", describe(&run.characters)));
    }
}

pub(super) struct Run {
    pub(super) at: usize,
    pub(super) rule: Rule,
    pub(super) characters: Vec<char>,
}

/// Neighbouring hidden characters, together; what belongs to an emoji or to a script that needs joiners is left out.
pub(super) fn runs(text: &str) -> Vec<Run> {
    let mut found = Vec::new();
    let mut before: Option<char> = None;
    let mut rest = text.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        if hidden(character).is_none() {
            before = Some(character);
            continue;
        }
        let mut characters = vec![character];
        while let Some((_, next)) = rest.next_if(|(_, next)| hidden(*next).is_some()) {
            characters.push(next);
        }
        let after = rest.peek().map(|(_, next)| *next);
        // A byte order mark has its place at the start of a file, and nowhere else.
        if at == 0 && characters == ['\u{feff}'] {
            continue;
        }
        if let Some(rule) = judge(before, &characters, after) {
            found.push(Run { at, rule, characters });
        }
    }
    found
}

fn judge(before: Option<char>, run: &[char], after: Option<char>) -> Option<Rule> {
    let has = |kind| run.iter().any(|character| hidden(*character) == Some(kind));
    if has(Hidden::Tag) {
        return (before != Some('\u{1f3f4}') || !is_flag(run)).then_some(HIDDEN_TAGS);
    }
    if has(Hidden::Direction) {
        return Some(HIDDEN_BIDI);
    }
    let variations = run.iter().filter(|character| hidden(**character) == Some(Hidden::Variation)).count();
    if run.len() >= PAYLOAD || variations >= 3 {
        return Some(HIDDEN_PAYLOAD);
    }
    let needs_joiners = |neighbour: Option<char>| neighbour.is_some_and(|near| !near.is_ascii());
    let belongs = match run {
        ['\u{ad}'] => true,
        [single] if hidden(*single) == Some(Hidden::Variation) => before.is_some(),
        // Joiners and direction marks of scripts that have them, and of emoji: `👩‍💻`, `🏳️‍🌈`, `می‌خواهم`.
        [joiner @ ('\u{200c}'..='\u{200f}' | '\u{61c}')] | ['\u{fe0f}', joiner @ '\u{200d}'] => {
            needs_joiners(before) && (*joiner != '\u{200d}' || needs_joiners(after))
        }
        _ => false,
    };
    (!belongs).then_some(HIDDEN_ZERO_WIDTH)
}

/// England, Scotland and Wales are written in tags after a black flag.
fn is_flag(run: &[char]) -> bool {
    let spelled: String =
        run.iter().map(|tag| char::from_u32(u32::from(*tag).wrapping_sub(0xe0000)).unwrap_or('?')).collect();
    matches!(spelled.as_str(), "gbeng\u{7f}" | "gbsct\u{7f}" | "gbwls\u{7f}")
}

pub(super) fn describe(run: &[char]) -> String {
    const SHOWN: usize = 8;
    let codes: Vec<String> =
        run.iter().take(SHOWN).map(|character| format!("U+{:04X}", u32::from(*character))).collect();
    let more = if run.len() > SHOWN { " …" } else { "" };
    let spelled: String = run
        .iter()
        .filter_map(|tag| char::from_u32(u32::from(*tag).checked_sub(0xe0000)?))
        .filter(|letter| matches!(letter, ' '..='~'))
        .take(80)
        .collect();
    let says = if spelled.is_empty() { String::new() } else { format!(", which spell \"{spelled}\"") };
    match run.len() {
        1 => format!("the hidden character {}{says}", codes.join(" ")),
        count => format!("{count} hidden characters, {}{more}{says}", codes.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<&'static str> {
        runs(text).into_iter().map(|run| run.rule.id).collect()
    }

    #[test]
    fn hidden_text_is_found_and_told_apart() {
        assert_eq!(ids("hi\u{e0072}\u{e0075}\u{e006e}"), ["hidden-tags"]);
        assert_eq!(ids("a\u{202e}b\u{202c}"), ["hidden-bidi", "hidden-bidi"]);
        assert_eq!(ids("ig\u{200b}nore"), ["hidden-zero-width"]);
        assert_eq!(ids("ig\u{200d}nore \u{3164}"), ["hidden-zero-width", "hidden-zero-width"]);
        assert_eq!(ids("😀\u{e0101}\u{e0102}\u{e0103}"), ["hidden-payload"]);
        assert_eq!(ids(&format!("x{}", "\u{200b}\u{200c}".repeat(8))), ["hidden-payload"]);
        assert_eq!(ids("🏴\u{e0072}\u{e0075}"), ["hidden-tags"]);
        assert_eq!(ids("a\u{feff}"), ["hidden-zero-width"]);
    }

    #[test]
    fn every_character_that_unicode_lets_a_reader_ignore_is_hidden() {
        let ignorable =
            icu_properties::CodePointSetData::new::<icu_properties::props::DefaultIgnorableCodePoint>();
        let missed: Vec<char> =
            ('\0'..=char::MAX).filter(|one| ignorable.contains(*one) && hidden(*one).is_none()).collect();
        assert!(missed.is_empty(), "{missed:?}");
    }

    #[test]
    fn emoji_flags_and_scripts_with_joiners_are_fine() {
        let england = "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";
        for text in
            ["👩‍💻 ❤️ 1️⃣ 🏳️‍🌈 ✔️", england, "می\u{200c}خواهم", "क्\u{200d}ष", "\u{feff}# Title", "葛\u{e0100}"]
        {
            assert_eq!(ids(text), [] as [&str; 0], "{text}");
        }
    }

    #[test]
    fn tags_are_spelled_out() {
        assert_eq!(
            describe(&['\u{e0072}', '\u{e006d}']),
            "2 hidden characters, U+E0072 U+E006D, which spell \"rm\""
        );
    }
}
