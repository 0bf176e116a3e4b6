//! What the frontmatter says once it is decoded, with the lines that it was written in.

use std::collections::HashSet;
use std::rc::Rc;

use super::yaml::{Content, Key, Node};

/// A key or a value of the frontmatter, as a client reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldText {
    pub text: String,
    /// Of the file, from 1: where it begins, and the last line that belongs to nothing else.
    pub first_line: u32,
    pub last_line: u32,
}

/// All of them, in the order of their lines. Duplicates of a key are among them; what an alias stands for is there once.
pub(super) fn texts(entries: &[(Key, Rc<Node>)], last_line: u32) -> Vec<FieldText> {
    let mut found = Vec::new();
    mapping(entries, &mut HashSet::new(), &mut found);
    found.sort_by_key(|field| field.first_line);
    let mut end = last_line;
    for group in found.chunk_by_mut(|one, other| one.first_line == other.first_line).rev() {
        let first_line = group[0].first_line;
        group.iter_mut().for_each(|field| field.last_line = end.max(first_line));
        end = first_line.saturating_sub(1);
    }
    found
}

fn mapping(entries: &[(Key, Rc<Node>)], seen: &mut HashSet<*const Node>, found: &mut Vec<FieldText>) {
    for (key, value) in entries {
        found.push(field(&key.text, key.line));
        node(value, seen, found);
    }
}

fn node(value: &Rc<Node>, seen: &mut HashSet<*const Node>, found: &mut Vec<FieldText>) {
    if !seen.insert(Rc::as_ptr(value)) {
        return;
    }
    match &value.content {
        Content::Text(text) => found.push(field(text, value.line)),
        Content::Sequence(entries) => entries.iter().for_each(|entry| node(entry, seen, found)),
        Content::Mapping(entries) => mapping(entries, seen, found),
    }
}

fn field(text: &str, line: u32) -> FieldText {
    FieldText { text: text.to_owned(), first_line: line, last_line: line }
}

#[cfg(test)]
mod tests {
    use crate::manifest::load;

    #[test]
    fn each_text_has_its_lines() {
        let manifest = "---\nname: demo\ndescription: >-\n  one\n  two\nmetadata:\n  \"k\\x65y\": &a \"\\u202e\"\n  b: *a\n---\nbody\n";
        let texts = load(manifest.as_bytes(), "demo").unwrap().texts;
        let seen: Vec<_> =
            texts.iter().map(|field| (field.text.as_str(), field.first_line, field.last_line)).collect();
        assert_eq!(
            seen,
            [
                ("name", 2, 2),
                ("demo", 2, 2),
                ("description", 3, 3),
                ("one two", 4, 5),
                ("metadata", 6, 6),
                ("key", 7, 7),
                ("\u{202e}", 7, 7),
                ("b", 8, 8),
            ]
        );
    }
}
