//! Words: what counts as one, which are the same, and which are nearly the same.

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

/// Stands between characters of scripts that have no spaces, so that each is a word of the index. Invisible, and taken
/// out of everything that is shown.
pub(super) const SEPARATOR: char = '\u{2063}';

/// Text for the index: nothing that is used as a mark, and scripts without spaces taken apart. At most so many bytes.
pub(super) fn prepare(text: &str, most: usize) -> String {
    let mut prepared = String::with_capacity(text.len().min(most));
    for character in text.chars() {
        if prepared.len() >= most {
            break;
        }
        if character == SEPARATOR {
            continue;
        }
        if is_unspaced(character) {
            prepared.push(character);
            prepared.push(SEPARATOR);
        } else {
            prepared.push(if character.is_control() { ' ' } else { character });
        }
    }
    prepared
}

/// The words of a text, as the index would cut it, in lower case.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut unspaced = false;
    for character in text.nfc() {
        let part_of_word = character.is_alphanumeric() || (!word.is_empty() && is_combining_mark(character));
        let here_unspaced = is_unspaced(character);
        if !word.is_empty() && (!part_of_word || here_unspaced != unspaced) {
            words.push(std::mem::take(&mut word));
        }
        if part_of_word {
            unspaced = here_unspaced;
            word.extend(character.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// `pdfFormFiller` is three words too.
pub(super) fn humps(name: &str) -> Option<String> {
    let mut apart = String::new();
    let mut before = ' ';
    for character in name.chars() {
        if before.is_lowercase() && character.is_uppercase() {
            apart.push(' ');
        }
        apart.push(character);
        before = character;
    }
    (apart.len() > name.len()).then_some(apart)
}

/// Without accents and case.
pub(super) fn fold(text: &str) -> String {
    text.nfkd()
        .filter(|character| !is_combining_mark(*character))
        .flat_map(char::to_lowercase)
        .nfc()
        .collect()
}

/// A name in the form in which names are compared: `PDF Forms` and `pdf-forms` are the same.
pub(super) fn fold_name(name: &str) -> String {
    let words = words(name);
    fold(&words.join("-"))
}

pub(super) fn is_unspaced(character: char) -> bool {
    matches!(u32::from(character),
        0x0E00..=0x0EFF | 0x1000..=0x109F | 0x1780..=0x17FF | 0x3005..=0x3007 | 0x3040..=0x30FF | 0x31F0..=0x31FF
        | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x323AF)
}

/// How many mistakes a word may have to be taken for another.
pub(super) fn tolerance(length: usize) -> usize {
    match length {
        0..=3 => 0,
        4..=7 => 1,
        _ => 2,
    }
}

/// Which letters a word has, one bit each: two words with too many different ones need not be compared.
pub(super) fn letters(word: &str) -> u32 {
    word.bytes().fold(0, |bits, byte| bits | 1 << (byte % 32))
}

/// The number of insertions, removals, changes and swaps of neighbours between two words, if it is at most `most`.
pub(super) fn distance(one: &[char], other: &[char], most: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > most {
        return None;
    }
    let width = other.len() + 1;
    let mut before_last = vec![usize::MAX / 2; width];
    let mut last: Vec<usize> = (0..width).collect();
    for (row, left) in one.iter().enumerate() {
        let mut current = vec![row + 1; width];
        for (column, right) in other.iter().enumerate() {
            let change = last[column] + usize::from(left != right);
            let mut best = change.min(last[column + 1] + 1).min(current[column] + 1);
            if row > 0 && column > 0 && *left == other[column - 1] && one[row - 1] == *right {
                best = best.min(before_last[column - 1] + 1);
            }
            current[column + 1] = best;
        }
        if current.iter().min().is_some_and(|least| *least > most) {
            return None;
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last.last().copied().filter(|distance| *distance <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_as_people_read_them() {
        assert_eq!(words("PDF-form_filler, v1.2"), ["pdf", "form", "filler", "v1", "2"]);
        assert_eq!(words("表計算excel"), ["表計算", "excel"]);
        assert_eq!(words("\"OR\" NEAR( *"), ["or", "near"]);
        assert_eq!(words("  "), Vec::<String>::new());
        assert_eq!(fold_name("Résumé Writer"), "resume-writer");
        assert_eq!(humps("pdfFormFiller").unwrap(), "pdf Form Filler");
        assert_eq!(humps("pdf"), None);
    }

    #[test]
    fn distances() {
        let distance = |one: &str, other: &str| {
            distance(&one.chars().collect::<Vec<_>>(), &other.chars().collect::<Vec<_>>(), 2)
        };
        assert_eq!(distance("python", "python"), Some(0));
        assert_eq!(distance("pyhton", "python"), Some(1));
        assert_eq!(distance("pthon", "python"), Some(1));
        assert_eq!(distance("bythom", "python"), Some(2));
        assert_eq!(distance("ruby", "python"), None);
        assert_eq!(distance("", "py"), Some(2));
    }

    proptest::proptest! {
        #[test]
        fn a_distance_is_the_same_both_ways_and_letters_never_hide_a_neighbour(one in "[a-e]{0,8}", other in "[a-e]{0,8}") {
            let (left, right): (Vec<_>, Vec<_>) = (one.chars().collect(), other.chars().collect());
            let there = distance(&left, &right, 2);
            proptest::prop_assert_eq!(there, distance(&right, &left, 2));
            if let Some(distance) = there {
                let different = (letters(&one) ^ letters(&other)).count_ones() as usize;
                proptest::prop_assert!(different <= 2 * distance);
            }
        }
    }
}
