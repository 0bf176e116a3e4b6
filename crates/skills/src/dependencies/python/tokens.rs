//! Python source as logical lines of tokens: enough to see statements and calls, in one pass, without recursion except
//! for nested f-strings, which is bounded.
//!
//! A full parser was weighed. Those on crates.io recurse on the input (a hostile file overflows the stack), and add
//! more to the program than imports are worth.

/// Deeper f-strings in f-strings are read as plain text.
const DEEPEST_FIELD: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Name,
    Number,
    /// A string whose value is its text: no escapes, no fields, not bytes. `text` is without quotes.
    Plain,
    /// Any other string.
    Other,
    Symbol,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// From 1.
    pub(super) line: u32,
}

impl Token<'_> {
    pub(super) fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Name | Kind::Symbol) && self.text == text
    }
}

/// Reads one logical line after the other.
pub(super) struct Lines<'a> {
    source: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Lines<'a> {
    /// `source` has `\n` as its only line end: see [`with_plain_line_ends`].
    pub(super) fn new(source: &'a str) -> Self {
        Self { source, at: 0, line: 1 }
    }

    /// The next logical line that has tokens goes into `tokens`; its indentation is returned.
    pub(super) fn next(&mut self, tokens: &mut Vec<Token<'a>>) -> Option<usize> {
        tokens.clear();
        loop {
            let indent = self.indentation();
            if self.at >= self.source.len() {
                return None;
            }
            self.tokens(tokens);
            if !tokens.is_empty() {
                return Some(indent);
            }
        }
    }

    fn byte(&self, ahead: usize) -> Option<u8> {
        self.source.as_bytes().get(self.at + ahead).copied()
    }

    fn indentation(&mut self) -> usize {
        let mut indent = 0;
        loop {
            match self.byte(0) {
                Some(b' ') => indent += 1,
                Some(b'\t') => indent = indent / 8 * 8 + 8,
                Some(b'\x0c') => indent = 0,
                _ => return indent,
            }
            self.at += 1;
        }
    }

    fn tokens(&mut self, tokens: &mut Vec<Token<'a>>) {
        let mut open = 0usize;
        while let Some(byte) = self.byte(0) {
            let start = self.at;
            let kind = match byte {
                b'\n' => {
                    self.at += 1;
                    self.line += 1;
                    if open == 0 {
                        return;
                    }
                    continue;
                }
                b'#' => {
                    let rest = &self.source[self.at..];
                    self.at += rest.find('\n').unwrap_or(rest.len());
                    continue;
                }
                b'\\' if self.byte(1) == Some(b'\n') => {
                    self.at += 2;
                    self.line += 1;
                    continue;
                }
                b' ' | b'\t' | b'\x0c' => {
                    self.at += 1;
                    continue;
                }
                b'"' | b'\'' => {
                    self.string(start, "", tokens);
                    continue;
                }
                b'0'..=b'9' => self.number(),
                b'.' if self.byte(1).is_some_and(|next| next.is_ascii_digit()) => self.number(),
                b'_' | b'a'..=b'z' | b'A'..=b'Z' | 0x80.. => {
                    self.skip_while(is_name_byte);
                    let prefix = &self.source[start..self.at];
                    if matches!(self.byte(0), Some(b'"' | b'\'')) && is_string_prefix(prefix) {
                        self.string(start, prefix, tokens);
                        continue;
                    }
                    Kind::Name
                }
                _ => {
                    match byte {
                        b'(' | b'[' | b'{' => open += 1,
                        b')' | b']' | b'}' => open = open.saturating_sub(1),
                        _ => {}
                    }
                    self.at += 1;
                    Kind::Symbol
                }
            };
            tokens.push(Token { kind, text: &self.source[start..self.at], line: self.line });
        }
    }

    fn skip_while(&mut self, holds: impl Fn(u8) -> bool) {
        while self.byte(0).is_some_and(&holds) {
            self.at += 1;
        }
    }

    fn number(&mut self) -> Kind {
        loop {
            let before = self.byte(0);
            self.at += 1;
            match self.byte(0) {
                Some(byte) if is_name_byte(byte) || byte == b'.' => {}
                // `1e-5`, but `0xe-5` is a subtraction: as nothing depends on it, it is read as one number.
                Some(b'+' | b'-') if matches!(before, Some(b'e' | b'E')) => {}
                _ => return Kind::Number,
            }
        }
    }

    /// A string whose quote is next, with its prefix.
    fn string(&mut self, start: usize, prefix: &str, tokens: &mut Vec<Token<'a>>) {
        let bytes = self.source.as_bytes();
        let quote = bytes[self.at];
        let triple = bytes[self.at..].starts_with(&[quote; 3]);
        let has = |letter: u8| prefix.bytes().any(|byte| byte.eq_ignore_ascii_case(&letter));
        let formatted = has(b'f') || has(b't');
        let begin = self.at + if triple { 3 } else { 1 };
        let form = Form { quote, triple, formatted };
        let end = text_end(bytes, begin, form, 0);
        let line = self.line;
        self.line += bytes[start..end].iter().filter(|byte| **byte == b'\n').count() as u32;
        self.at = end;
        let inner = self.source.get(begin..end.saturating_sub(begin - start - prefix.len()));
        let plain = inner.filter(|inner| !formatted && !has(b'b') && (has(b'r') || !inner.contains('\\')));
        let (kind, text) = match plain {
            Some(inner) => (Kind::Plain, inner),
            None => (Kind::Other, &self.source[start..end]),
        };
        tokens.push(Token { kind, text, line });
    }
}

/// Every line end as `\n`, as Python reads them.
pub(super) fn with_plain_line_ends(source: String) -> String {
    if source.contains('\r') { source.replace("\r\n", "\n").replace('\r', "\n") } else { source }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn is_string_prefix(text: &str) -> bool {
    text.len() <= 2 && text.bytes().all(|byte| b"rRbBuUfFtT".contains(&byte))
}

#[derive(Clone, Copy)]
struct Form {
    quote: u8,
    triple: bool,
    formatted: bool,
}

/// Where a string that goes on at `at` ends: behind its quote, at the line end that cuts it off, or at the end of all.
fn text_end(bytes: &[u8], mut at: usize, form: Form, depth: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'\\' => {
                // In an f-string a backslash does not keep a brace from opening a field.
                let brace = form.formatted && matches!(bytes.get(at + 1), Some(b'{' | b'}'));
                at += if brace { 1 } else { 2 };
            }
            b'\n' if !form.triple => return at,
            _ if byte == form.quote => {
                if !form.triple {
                    return at + 1;
                }
                if bytes[at..].starts_with(&[form.quote; 3]) {
                    return at + 3;
                }
                at += 1;
            }
            b'{' if form.formatted && bytes.get(at + 1) == Some(&b'{') => at += 2,
            b'{' if form.formatted && depth < DEEPEST_FIELD => at = field_end(bytes, at + 1, form, depth + 1),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Where a replacement field of an f-string ends: behind its `}`, or at what ends the string around it.
fn field_end(bytes: &[u8], mut at: usize, around: Form, depth: usize) -> usize {
    let mut open = 0usize;
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' | b'\'' => {
                let triple = bytes[at..].starts_with(&[byte; 3]);
                let formatted = at > 0
                    && bytes[..at]
                        .iter()
                        .rev()
                        .take(2)
                        .any(|prefix| matches!(prefix, b'f' | b'F' | b't' | b'T'))
                    && is_prefix_before(bytes, at);
                let form = Form { quote: byte, triple, formatted };
                at = text_end(bytes, at + if triple { 3 } else { 1 }, form, depth + 1);
            }
            b'#' => at += bytes[at..].iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() - at),
            b'(' | b'[' | b'{' => {
                open += 1;
                at += 1;
            }
            b'}' if open == 0 => return at + 1,
            b')' | b']' | b'}' => {
                open = open.saturating_sub(1);
                at += 1;
            }
            b':' if open == 0 => return specification_end(bytes, at + 1, around, depth),
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Are the letters right before a quote a string's prefix, and not the end of a name?
fn is_prefix_before(bytes: &[u8], at: usize) -> bool {
    let name = bytes[..at].iter().rev().take(3).take_while(|byte| is_name_byte(**byte)).count();
    (1..=2).contains(&name) && bytes[at - name..at].iter().all(|byte| b"rRfFtT".contains(byte))
}

/// The same for what follows the colon of a field.
fn specification_end(bytes: &[u8], mut at: usize, around: Form, depth: usize) -> usize {
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'}' => return at + 1,
            b'\n' if !around.triple => return at,
            b'{' if depth < DEEPEST_FIELD => at = field_end(bytes, at + 1, around, depth + 1),
            // Not in a field after all: the string around it ends here.
            _ if byte == around.quote && (!around.triple || bytes[at..].starts_with(&[byte; 3])) => {
                return at;
            }
            _ => at += 1,
        }
    }
    bytes.len()
}
