//! What the reference, which is Python, takes for white space, a letter or a digit, and the same name.

use std::borrow::Cow;

use icu_properties::props::GeneralCategory;
use icu_properties::{CodePointMapData, props::GeneralCategoryGroup};
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
