//! From what a user typed to a query of FTS5, in which every word is quoted.

use super::words::{fold_name, is_unspaced, words};

const MOST_TERMS: usize = 12;
const MOST_CHARACTERS: usize = 400;
const MOST_TERM_CHARACTERS: usize = 48;

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) terms: Vec<Term>,
    /// As a name would be compared.
    pub(super) name: String,
}

/// How the last word ends. Beginnings cost much in a table with many long texts: all that begins so is put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    Whole,
    Open,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) text: String,
    /// It may still be typed.
    pub(super) is_last: bool,
    /// No skill has it as a whole word: it can only be the beginning of one.
    pub(super) is_nowhere: bool,
    /// Words of the index that are nearly the same.
    pub(super) near: Vec<String>,
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let text: String = text.chars().take(MOST_CHARACTERS).collect();
        let mut terms: Vec<Term> = Vec::new();
        for word in words(&text) {
            let word: String = word.chars().take(MOST_TERM_CHARACTERS).collect();
            if terms.len() < MOST_TERMS && terms.iter().all(|term| term.text != word) {
                terms.push(Term { text: word, is_last: false, is_nowhere: false, near: Vec::new() });
            }
        }
        if let Some(last) = terms.last_mut() {
            last.is_last = true;
        }
        Self { terms, name: fold_name(&text) }
    }

    /// Every word must be there, itself or one that is near.
    pub(super) fn all(&self, ends: Ends) -> String {
        join(&self.terms, " AND ", ends)
    }

    /// Any of the words will do.
    pub(super) fn any(&self, ends: Ends) -> String {
        join(&self.terms, " OR ", ends)
    }
}

/// The words as one expression.
pub(super) fn join<'a>(terms: impl IntoIterator<Item = &'a Term>, between: &str, ends: Ends) -> String {
    terms.into_iter().map(|term| format!("({})", term.expression(ends))).collect::<Vec<_>>().join(between)
}

impl Term {
    /// The word, as the beginning of another too, and misspelt.
    pub(super) fn expression(&self, ends: Ends) -> String {
        let mut expression = quoted(&self.text);
        let open = self.is_nowhere || (self.is_last && ends == Ends::Open);
        if open && self.text.chars().count() > 1 && !self.text.contains(is_unspaced) {
            expression.push('*');
        }
        for word in &self.near {
            expression = format!("{expression} OR {}", quoted(word));
        }
        expression
    }
}

/// A word as a string of FTS5; characters of scripts without spaces become a phrase.
fn quoted(word: &str) -> String {
    let mut quoted = String::from("\"");
    for character in word.chars() {
        match character {
            '"' => quoted.push_str("\"\""),
            _ => quoted.push(character),
        }
        if is_unspaced(character) {
            quoted.push(' ');
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_words() {
        assert_eq!(
            Query::parse("name:pdf OR \"x\" NEAR(a* -b ^c {d}").all(Ends::Open),
            r#"("name") AND ("pdf") AND ("or") AND ("x") AND ("near") AND ("a") AND ("b") AND ("c") AND ("d")"#
        );
        assert_eq!(Query::parse("fill for").all(Ends::Open), r#"("fill") AND ("for"*)"#);
        assert_eq!(Query::parse("fill for").all(Ends::Whole), r#"("fill") AND ("for")"#);
        assert_eq!(Query::parse("書類").any(Ends::Open), "(\"書 類 \")");
        assert_eq!(Query::parse("!?").terms, []);
    }

    #[test]
    fn a_long_query_is_cut() {
        let query = Query::parse(&(0..1000).map(|number| format!("w{number} ")).collect::<String>());
        assert_eq!(query.terms.len(), MOST_TERMS);
        assert_eq!(Query::parse(&"a".repeat(10_000)).terms[0].text.len(), MOST_TERM_CHARACTERS);
    }
}
