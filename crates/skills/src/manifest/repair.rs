//! What people commonly get wrong in a frontmatter, put right line by line: a value that can't be read by itself is
//! quoted, text behind `|` goes to the next line, tabs become spaces. Only a frontmatter that can't be read comes here.

use super::{Problem, yaml};

/// How many repairs are named; the rest are made all the same.
const NAMED: usize = 100;
/// What a tab at the start of a line is worth.
const TAB: &str = "  ";

/// A frontmatter that may be readable now.
#[derive(Debug)]
pub(super) struct Repaired {
    pub(super) yaml: String,
    /// For each line of it the line that it was, from 0.
    pub(super) lines: Vec<usize>,
    /// With lines from 0.
    pub(super) repairs: Vec<Problem>,
}

/// Nothing if there is nothing to repair.
pub(super) fn repair(yaml: &str) -> Option<Repaired> {
    let without_tabs: Vec<String> = yaml.split('\n').map(spaces_for_tabs).collect();
    let mut repaired =
        Repaired { yaml: String::with_capacity(yaml.len() + 64), lines: Vec::new(), repairs: Vec::new() };
    if let Some(line) = yaml.split('\n').zip(&without_tabs).position(|(before, after)| before != after) {
        repaired.note("repaired-tab", "a tab where YAML wants spaces; it was taken for two spaces", line);
    }
    let mut at = 0;
    while at < without_tabs.len() {
        at = repaired.entry(&without_tabs, at);
    }
    (!repaired.repairs.is_empty()).then_some(repaired)
}

/// A line `key: value`, `- value` or `- key: value`.
struct Entry<'a> {
    /// Up to the value, white space included.
    head: &'a str,
    value: &'a str,
    /// Of the key or the value.
    indent: usize,
    /// Is there a key? An item of a list may be a mapping.
    keyed: bool,
}

impl Repaired {
    /// Go over the entry that begins at a line, and return the line after it.
    fn entry(&mut self, lines: &[String], at: usize) -> usize {
        let line = &lines[at];
        let Some(entry) =
            Entry::of(line).filter(|entry| !entry.value.is_empty() && !entry.value.starts_with('#'))
        else {
            self.push(line, at);
            return at + 1;
        };
        let end = extent(lines, at, entry.indent);
        let more = &lines[at + 1..end];
        if let Some((header, text)) = text_behind_header(entry.value) {
            let indent = more.iter().filter(|line| !line.trim().is_empty()).map(|line| indent_of(line)).min();
            let indent = " ".repeat(indent.unwrap_or(entry.indent + 2));
            self.push(&format!("{}{header}", entry.head), at);
            self.push(&format!("{indent}{text}"), at);
            self.note(
                "repaired-block-text",
                "text behind `|` or `>`; it was taken for the first line of the text",
                at,
            );
        } else if is_block_header(entry.value) || reads(&entry, more) {
            self.push(line, at);
        } else {
            let words = std::iter::once(entry.value).chain(more.iter().map(|line| line.trim()));
            let text = words.filter(|words| !words.is_empty()).collect::<Vec<_>>().join(" ");
            self.push(&format!("{}'{}'", entry.head, text.replace('\'', "''")), at);
            let (code, what) = fault_of(entry.value);
            self.note(code, &format!("{what}; the whole value was taken for text"), at);
            return end;
        }
        for (offset, line) in more.iter().enumerate() {
            self.push(line, at + 1 + offset);
        }
        end
    }

    fn push(&mut self, line: &str, original: usize) {
        if !self.lines.is_empty() {
            self.yaml.push('\n');
        }
        self.yaml.push_str(line);
        self.lines.push(original);
    }

    fn note(&mut self, code: &'static str, message: &str, line: usize) {
        if self.repairs.len() < NAMED {
            self.repairs.push(Problem::warning(code, message.to_owned(), u32::try_from(line).ok()));
        }
    }
}

impl<'a> Entry<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let mut value = line.trim_start_matches(' ');
        let mut listed = false;
        while let Some(item) = value.strip_prefix("- ") {
            value = item.trim_start_matches(' ');
            listed = true;
        }
        let indent = line.len() - value.len();
        let split = |value: &'a str, keyed| {
            let value = value.trim_matches([' ', '\t']);
            // `value` is a part of `line`, at its end but for white space.
            let head = line.trim_end_matches([' ', '\t']).strip_suffix(value)?;
            Some(Self { head, value, indent, keyed })
        };
        if let Some(colon) = key_length(value) {
            let after = &value[colon + 1..];
            return if after.is_empty() { None } else { split(after, true) };
        }
        if listed { split(value, false) } else { None }
    }
}

/// The length of a key that a `:` and white space or the end follow.
fn key_length(text: &str) -> Option<usize> {
    let is_key = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.');
    let length = match text.chars().next()? {
        quote @ ('"' | '\'') => text[1..].find(quote)? + 2,
        _ => text.find(|character| !is_key(character))?,
    };
    let rest = text[length..].strip_prefix(':')?;
    (length > 0 && (rest.is_empty() || rest.starts_with([' ', '\t']))).then_some(length)
}

/// Where the lines of an entry end: at the next line that is not deeper than it. Blank lines before that are not its own.
fn extent(lines: &[String], at: usize, indent: usize) -> usize {
    let mut end = at + 1;
    for (line, text) in lines.iter().enumerate().skip(at + 1) {
        if text.trim().is_empty() {
            continue;
        }
        if indent_of(text) <= indent {
            break;
        }
        end = line + 1;
    }
    end
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Tabs before the first word as spaces, and none at the end.
fn spaces_for_tabs(line: &str) -> String {
    let text = line.trim_start_matches([' ', '\t']);
    let space = &line[..line.len() - text.len()];
    if !space.contains('\t') || text.is_empty() {
        return line.to_owned();
    }
    format!("{}{text}", space.replace('\t', TAB))
}

/// Can a value be read by itself, in its place?
fn reads(entry: &Entry<'_>, more: &[String]) -> bool {
    let head = if entry.keyed { "key: " } else { "- " };
    let indent = " ".repeat(entry.indent);
    let mut text = format!("{indent}{head}{}", entry.value);
    for line in more {
        text.push('\n');
        text.push_str(line);
    }
    yaml::read(&text, |_| 0).is_ok()
}

/// `|`, `>-`, `|2+ # comment`: the text is on the lines that follow.
fn is_block_header(value: &str) -> bool {
    let Some(rest) = value.strip_prefix(['|', '>']) else { return false };
    let rest = rest.trim_start_matches(['+', '-', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    rest.is_empty() || rest.trim_start().starts_with('#')
}

/// `| text` as `|` and `text`.
fn text_behind_header(value: &str) -> Option<(&str, &str)> {
    if is_block_header(value) || !value.starts_with(['|', '>']) {
        return None;
    }
    let (header, text) = value.split_once([' ', '\t'])?;
    matches!(header, "|" | ">" | "|-" | ">-" | "|+" | ">+").then(|| (header, text.trim()))
}

fn fault_of(value: &str) -> (&'static str, &'static str) {
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) if value[1..].contains(quote) => {
            ("repaired-text-after-quote", "text after a closing quote")
        }
        Some('"' | '\'') => ("repaired-open-quote", "a quote that does not close"),
        Some('*' | '&' | '!' | '%' | '@' | '`' | '[' | ']' | '{' | '}' | ',' | '|' | '>' | '?' | '-') => {
            ("repaired-indicator", "a value that begins with a character that YAML has a use for")
        }
        _ => ("repaired-colon", "a colon in a value without quotes"),
    }
}
