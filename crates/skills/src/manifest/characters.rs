//! What the reference, which is Python, takes for white space, a letter or a digit, and the same name; what is shown of a
//! character.

use std::borrow::Cow;

use icu_properties::props::{DefaultIgnorableCodePoint, GeneralCategory, GeneralCategoryGroup};
use icu_properties::{CodePointMapData, CodePointSetData};
use unicode_normalization::UnicodeNormalization;

const SHOWN_CHARACTERS: usize = 80;

/// Without white space around it.
pub(super) fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

pub(super) fn nfkc(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.nfkc().collect())
}

/// A letter or a number by its general category.
pub(super) fn is_alphanumeric(character: char) -> bool {
    if character.is_ascii() {
        return character.is_ascii_alphanumeric();
    }
    let category = CodePointMapData::<GeneralCategory>::new().get(character);
    GeneralCategoryGroup::Letter.contains(category) || GeneralCategoryGroup::Number.contains(category)
}

/// What a reader sees of a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sight {
    Shown,
    /// Nothing: it only shapes or joins what stands beside it, and the text says the same without it.
    Shaping,
    /// Nothing, or another order of what is around it: tags, marks of direction, spaces of no width, controls.
    Unseen,
}

pub(super) fn sight(character: char) -> Sight {
    match character {
        ' '..='~' | '\n' | '\t' => Sight::Shown,
        '\u{ad}' | '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}' => Sight::Shaping,
        '\u{2028}' | '\u{2029}' | '\u{fff9}'..='\u{fffb}' => Sight::Unseen,
        _ if character.is_control() => Sight::Unseen,
        _ if CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(character) => Sight::Unseen,
        _ => Sight::Shown,
    }
}

/// Text of a manifest for a message: in quotes, not too long, and nothing in it that a terminal would act on.
pub(super) fn quoted(text: &str) -> String {
    let mut start: String = text.chars().take(SHOWN_CHARACTERS).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    format!("{start:?}")
}

/// The four separators of ASCII are white space there, which the Unicode property does not say.
fn is_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}
