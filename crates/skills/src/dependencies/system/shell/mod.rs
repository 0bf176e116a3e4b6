//! What a shell script calls and reads: command words, variables, and the skill's other scripts that it mentions. One
//! pass, with a bounded stack instead of recursion; here-documents are left alone.

mod words;

use std::collections::{HashSet, VecDeque};

use super::{Presence, variables};

/// Deeper substitutions are read as plain text.
const DEEPEST: usize = 200;
const MOST_FACTS: usize = 5_000;

#[derive(Debug, Default)]
pub(in crate::dependencies) struct Shell {
    pub(in crate::dependencies) variables: Vec<(String, Presence, u32)>,
    /// Name, whether the script asks first if it is there, line.
    pub(in crate::dependencies) programs: Vec<(&'static str, bool, u32)>,
    /// Words that end like the name of a script, without their variables: `/helper.py`.
    pub(in crate::dependencies) mentions: Vec<String>,
}

pub(in crate::dependencies) fn read(text: &str) -> Shell {
    let mut reader = Reader { bytes: text.as_bytes(), text, line: 1, expect: true, ..Reader::default() };
    reader.run();
    let Reader { mut found, functions, assigned, plain_reads, .. } = reader;
    found.programs.retain(|(name, ..)| !functions.contains(*name));
    for (name, line) in plain_reads {
        if !assigned.contains(&name) {
            found.variables.push((name, Presence::Expected, line));
        }
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    /// `$( … )`, `( … )`
    Paren,
    /// `" … "`
    Quotes,
    /// `${ … }`
    Braces,
    /// `` ` … ` ``
    Backticks,
}

/// What follows a word that was a command.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum After {
    #[default]
    Nothing,
    /// `command`: `-v` makes it a question.
    Command,
    /// `command -v`, `which`, `type`: the words are asked for.
    Asked,
    /// `read`, `for`: the words are assigned to.
    Assigned,
    /// `case`: up to `in`.
    Case,
    /// `function`: its name.
    Function,
}

#[derive(Default)]
struct Reader<'a> {
    bytes: &'a [u8],
    text: &'a str,
    at: usize,
    line: u32,
    stack: Vec<(Inside, Word, bool, After)>,
    word: Word,
    /// The next word is a command.
    expect: bool,
    after: After,
    /// The next word is the target of a redirection.
    redirect: bool,
    /// In a `case`, before the `)` of a pattern.
    pattern: bool,
    cases: usize,
    here_documents: VecDeque<(String, bool)>,
    found: Shell,
    functions: HashSet<String>,
    assigned: HashSet<String>,
    plain_reads: Vec<(String, u32)>,
}

/// The word being read: its text without expansions.
#[derive(Default)]
struct Word {
    text: String,
    begun: bool,
    /// Something in it is expanded.
    expanded: bool,
}

impl<'a> Reader<'a> {
    fn byte(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn run(&mut self) {
        while let Some(byte) = self.byte(0) {
            if byte == b'\n' {
                self.line += 1;
            }
            match self.stack.last().map(|(inside, ..)| *inside) {
                Some(Inside::Quotes) => self.quoted(byte),
                Some(Inside::Braces) => self.braced(byte),
                _ => self.command(byte),
            }
        }
        self.end_word();
    }

    fn quoted(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.stack.pop();
                self.at += 1;
            }
            b'\\' => self.escaped(),
            b'$' => self.dollar(),
            b'`' => self.backtick(),
            _ => self.literal(),
        }
    }

    fn braced(&mut self, byte: u8) {
        match byte {
            b'}' => {
                self.stack.pop();
                self.at += 1;
            }
            b'\\' => self.escaped(),
            b'$' => self.dollar(),
            b'"' => self.push(Inside::Quotes, 1),
            _ => self.at += 1,
        }
    }

    fn command(&mut self, byte: u8) {
        match byte {
            b' ' | b'\t' | b'\r' => {
                self.end_word();
                self.at += 1;
            }
            b'\n' => {
                self.end_command();
                self.at += 1;
                self.skip_here_documents();
            }
            b'#' if !self.word.begun => {
                let rest = &self.bytes[self.at..];
                self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            }
            b'\\' if self.byte(1) == Some(b'\n') => {
                self.line += 1;
                self.at += 2;
            }
            b'\\' => self.escaped(),
            b'\'' => self.single_quoted(false),
            b'"' => {
                self.word.begun = true;
                self.push(Inside::Quotes, 1);
            }
            b'$' => self.dollar(),
            b'`' => self.backtick(),
            b';' => {
                self.end_command();
                if self.byte(1) == Some(b';') {
                    self.at += 1;
                    self.pattern = self.cases > 0;
                }
                self.at += 1;
            }
            b'|' | b'&' => {
                self.end_command();
                self.at += 1;
                if byte == b'&' && self.byte(0) == Some(b'>') {
                    self.expect = false;
                }
            }
            b'<' | b'>' => self.redirection(byte),
            b'(' => self.open_parenthesis(),
            b')' => self.close_parenthesis(),
            _ => self.literal(),
        }
    }

    /// One character that stands for itself.
    fn literal(&mut self) {
        let length = self.text[self.at..].chars().next().map_or(1, char::len_utf8);
        self.word.begun = true;
        // A longer word is no name of anything.
        if self.word.text.len() < 1_000 {
            self.word.text.push_str(&self.text[self.at..self.at + length]);
        }
        self.at += length;
    }

    fn escaped(&mut self) {
        self.at += 1;
        match self.byte(0) {
            Some(b'\n') => {
                self.line += 1;
                self.at += 1;
            }
            Some(_) => self.literal(),
            None => {}
        }
    }

    fn single_quoted(&mut self, with_escapes: bool) {
        self.word.begun = true;
        self.at += 1;
        while let Some(byte) = self.byte(0) {
            match byte {
                b'\'' => {
                    self.at += 1;
                    return;
                }
                b'\\' if with_escapes => self.escaped(),
                _ => {
                    self.line += u32::from(byte == b'\n');
                    self.literal();
                }
            }
        }
    }

    fn push(&mut self, inside: Inside, length: usize) {
        self.at += length;
        if self.stack.len() == DEEPEST {
            return;
        }
        let commands = matches!(inside, Inside::Paren | Inside::Backticks);
        // Within quotes and braces the word around them goes on.
        let word = if commands { std::mem::take(&mut self.word) } else { Word::default() };
        self.stack.push((inside, word, self.expect, self.after));
        if commands {
            self.expect = true;
            self.redirect = false;
            self.after = After::Nothing;
        }
    }

    fn pop_commands(&mut self) {
        if let Some((_, word, expect, after)) = self.stack.pop() {
            self.word = word;
            self.expect = expect;
            self.after = after;
        }
    }

    fn backtick(&mut self) {
        // The nearest that is open is closed by it; quotes within it end with it.
        if let Some(open) = self.stack.iter().rposition(|(inside, ..)| *inside == Inside::Backticks) {
            self.end_word();
            self.stack.truncate(open + 1);
            self.pop_commands();
            self.at += 1;
        } else {
            self.word.begun = true;
            self.word.expanded = true;
            self.push(Inside::Backticks, 1);
        }
    }

    fn open_parenthesis(&mut self) {
        let rest = &self.bytes[self.at + 1..];
        let blank = rest.iter().take(8).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        if rest.get(blank) == Some(&b')') && self.last_word_may_be_a_function() {
            let name = std::mem::take(&mut self.word);
            self.functions.insert(name.text);
            self.expect = true;
            self.at += blank + 2;
            return;
        }
        self.end_word();
        self.push(Inside::Paren, 1);
    }

    fn last_word_may_be_a_function(&self) -> bool {
        self.word.begun && !self.word.expanded && self.expect
    }

    fn close_parenthesis(&mut self) {
        if self.pattern {
            self.word = Word::default();
            self.pattern = false;
            self.expect = true;
            self.at += 1;
            return;
        }
        self.end_word();
        if matches!(self.stack.last(), Some((Inside::Paren, ..))) {
            self.pop_commands();
        } else {
            self.expect = true;
        }
        self.at += 1;
    }

    fn redirection(&mut self, byte: u8) {
        // `2>` is no word.
        if self.word.text.bytes().all(|byte| byte.is_ascii_digit()) {
            self.word = Word::default();
        }
        self.end_word();
        if self.byte(1) == Some(b'(') {
            return self.push(Inside::Paren, 2);
        }
        if byte == b'<' && self.byte(1) == Some(b'<') && self.byte(2) != Some(b'<') {
            return self.here_document();
        }
        while matches!(self.byte(0), Some(b'<' | b'>' | b'&' | b'|')) {
            self.at += 1;
        }
        self.redirect = true;
    }

    fn here_document(&mut self) {
        self.at += 2;
        let dash = self.byte(0) == Some(b'-');
        self.at += usize::from(dash);
        while matches!(self.byte(0), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        let start = self.at;
        while self.byte(0).is_some_and(|byte| !byte.is_ascii_whitespace() && !b";|&<>()".contains(&byte)) {
            self.at += 1;
        }
        let word: String =
            self.text[start..self.at].chars().filter(|c| !matches!(c, '"' | '\'' | '\\')).collect();
        if !word.is_empty() {
            self.here_documents.push_back((word, dash));
        }
    }

    /// After the line on which they were announced.
    fn skip_here_documents(&mut self) {
        while let Some((end, dash)) = self.here_documents.pop_front() {
            while self.at < self.bytes.len() {
                let rest = &self.text[self.at..];
                let line = rest.lines().next().unwrap_or_default();
                let length = rest.find('\n').map_or(rest.len(), |at| at + 1);
                self.line += u32::from(rest.len() >= length && rest.as_bytes()[length - 1] == b'\n');
                self.at += length;
                let line = if dash { line.trim_start_matches('\t') } else { line };
                if line == end {
                    break;
                }
            }
        }
    }

    /// `$NAME`, `${NAME:-…}`, `$( … )`, `$(( … ))`, `$'…'`
    fn dollar(&mut self) {
        self.word.begun = true;
        let in_quotes = matches!(self.stack.last(), Some((Inside::Quotes, ..)));
        match self.byte(1) {
            Some(b'(') => {
                self.word.expanded = true;
                self.push(Inside::Paren, 2);
            }
            Some(b'{') => {
                self.word.expanded = true;
                self.at += 2;
                let name = self.name();
                self.read_variable(name);
                self.push(Inside::Braces, 0);
            }
            Some(b'\'') if !in_quotes => {
                self.at += 1;
                self.single_quoted(true);
            }
            Some(_) => {
                self.word.expanded = true;
                self.at += 1;
                let name = self.name();
                if name.is_empty() {
                    // `$1`, `$@`, `$?`
                    if self.byte(0).is_some_and(|byte| byte.is_ascii_digit() || b"@*#?!$-".contains(&byte)) {
                        self.at += 1;
                    }
                } else if variables::is_secret(name) && variables::is_of_interest(name) {
                    self.plain_read(name);
                }
            }
            None => self.at += 1,
        }
    }

    /// The name of a variable, if one is next.
    fn name(&mut self) -> &'a str {
        let start = self.at;
        while self.byte(0).is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            if self.at == start && self.bytes[start].is_ascii_digit() {
                break;
            }
            self.at += 1;
        }
        &self.text[start..self.at]
    }
}

#[cfg(test)]
mod tests;
