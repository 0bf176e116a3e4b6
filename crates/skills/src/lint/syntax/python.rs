//! Python, token by token: strings, brackets and indentation. Format strings nest as they do since 3.12.

use super::Fault;

pub(super) fn check(source: &str) -> Result<(), Fault> {
    Reader {
        bytes: source.as_bytes(),
        at: 0,
        line: 1,
        open: Vec::new(),
        indents: vec![0],
        logical: None,
        block: None,
    }
    .read()
}

/// Deeper than Python itself allows (200 brackets, 100 indents).
const DEPTH: usize = 400;

struct Open {
    kind: Kind,
    line: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// With what closes it.
    Bracket(u8),
    /// A `{…}` of a format string.
    Field,
    /// What follows the colon in a field.
    Spec,
    FormatString {
        quote: u8,
        triple: bool,
        raw: bool,
    },
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
    open: Vec<Open>,
    indents: Vec<usize>,
    /// In a logical line: where it began, and its last byte that counts.
    logical: Option<Logical>,
    /// A block was opened in this line, and must be indented.
    block: Option<u32>,
}

struct Logical {
    start: usize,
    last: u8,
    last_line: u32,
}

impl Reader<'_> {
    fn read(mut self) -> Result<(), Fault> {
        while self.at < self.bytes.len() {
            match self.open.last().map(|open| open.kind) {
                Some(Kind::FormatString { quote, triple, raw }) => self.format_text(quote, triple, raw)?,
                Some(Kind::Spec) => self.spec()?,
                _ => self.code()?,
            }
        }
        match self.open.last() {
            Some(Open { kind: Kind::Bracket(close), line }) => {
                return Err(Fault::at(
                    *line,
                    format!("a bracket that is not closed with `{}`", char::from(*close)),
                ));
            }
            Some(Open { line, .. }) => return Err(Fault::at(*line, "a string that does not end")),
            None => {}
        }
        self.end_line();
        match self.block {
            Some(line) => Err(Fault::at(line, "a block without content")),
            None => Ok(()),
        }
    }

    /// One token outside of strings.
    fn code(&mut self) -> Result<(), Fault> {
        if self.logical.is_none() && self.open.is_empty() && self.start_line()? {
            return Ok(());
        }
        let byte = self.bytes[self.at];
        match byte {
            b'\n' => {
                self.next_line();
                // Within brackets, and since 3.12 within the field of a format string, a line goes on.
                if self.open.is_empty() {
                    self.end_line();
                }
            }
            b' ' | b'\t' | b'\r' | 0x0c => self.at += 1,
            b'#' => self.skip_to_line_end(),
            b'\\' if self.rest().starts_with(b"\\\n") || self.rest().starts_with(b"\\\r\n") => {
                self.at += if self.rest().starts_with(b"\\\n") { 1 } else { 2 };
                self.next_line();
            }
            b'"' | b'\'' => self.string(b"")?,
            b'(' => self.push(Kind::Bracket(b')'))?,
            b'[' => self.push(Kind::Bracket(b']'))?,
            b'{' => self.push(Kind::Bracket(b'}'))?,
            b')' | b']' | b'}' => self.close(byte)?,
            b':' if self.open.last().is_some_and(|open| open.kind == Kind::Field) => {
                self.at += 1;
                if let Some(field) = self.open.last_mut() {
                    field.kind = Kind::Spec;
                }
            }
            _ if is_name(byte) => {
                let start = self.at;
                while self.bytes.get(self.at).is_some_and(|byte| is_name(*byte)) {
                    self.at += 1;
                }
                let word = &self.bytes[start..self.at];
                match self.bytes.get(self.at) {
                    Some(b'"' | b'\'') if is_prefix(word) => {
                        let prefix = word.to_ascii_lowercase();
                        self.string(&prefix)?;
                    }
                    _ => self.statement(start)?,
                }
                self.mark(b'a');
            }
            _ => {
                self.at += 1;
                self.mark(byte);
            }
        }
        Ok(())
    }

    /// The indentation of a line that holds code; true if the line holds none.
    fn start_line(&mut self) -> Result<bool, Fault> {
        let mut column = 0;
        let mut end = self.at;
        while let Some(byte) = self.bytes.get(end) {
            match byte {
                b' ' => column += 1,
                b'\t' => column = column / 8 * 8 + 8,
                0x0c => column = 0,
                _ => break,
            }
            end += 1;
        }
        self.at = end;
        match self.rest() {
            [] => return Ok(true),
            [b'\n', ..] => {
                self.next_line();
                return Ok(true);
            }
            [b'\r', b'\n', ..] => {
                self.at += 1;
                self.next_line();
                return Ok(true);
            }
            [b'#', ..] => {
                self.skip_to_line_end();
                return Ok(true);
            }
            _ => {}
        }
        let current = self.indents.last().copied().unwrap_or(0);
        if let Some(line) = self.block.take() {
            if column <= current {
                return Err(Fault::at(self.line, format!("an indented block is missing after line {line}")));
            }
            if self.indents.len() >= DEPTH {
                return Err(Fault::at(self.line, "too many levels of indentation"));
            }
            self.indents.push(column);
        } else if column > current {
            return Err(Fault::at(self.line, "an unexpected indent"));
        } else {
            while self.indents.last().is_some_and(|indent| *indent > column) {
                self.indents.pop();
            }
            if self.indents.last() != Some(&column) {
                return Err(Fault::at(self.line, "an indent that matches no outer level"));
            }
        }
        self.logical = Some(Logical { start: self.at, last: 0, last_line: self.line });
        Ok(false)
    }

    fn end_line(&mut self) {
        if let Some(Logical { last: b':', last_line, .. }) = self.logical {
            self.block = Some(last_line);
        }
        self.logical = None;
    }

    /// `print "x"` and `exec "x"` were statements in Python 2.
    fn statement(&mut self, start: usize) -> Result<(), Fault> {
        let is_first =
            self.open.is_empty() && self.logical.as_ref().is_some_and(|logical| logical.start == start);
        if is_first && matches!(&self.bytes[start..self.at], b"print" | b"exec") {
            let rest = self.rest();
            let blanks = rest.iter().take_while(|byte| **byte == b' ').count();
            if blanks > 0 && matches!(rest.get(blanks), Some(b'"' | b'\'')) {
                return Err(Fault::at(self.line, "a statement of Python 2"));
            }
        }
        Ok(())
    }

    fn string(&mut self, prefix: &[u8]) -> Result<(), Fault> {
        let quote = self.bytes[self.at];
        let triple = self.rest().starts_with(&[quote; 3]);
        let raw = prefix.contains(&b'r');
        let start = self.line;
        self.at += if triple { 3 } else { 1 };
        if prefix.contains(&b'f') || prefix.contains(&b't') {
            self.open_at(Kind::FormatString { quote, triple, raw }, start)?;
            return Ok(());
        }
        while let Some(byte) = self.bytes.get(self.at) {
            match *byte {
                // Also in a raw string a quote after a backslash does not end it.
                b'\\' => self.skip_escape(),
                b'\n' if !triple => return Err(Fault::at(start, "a string that does not end in its line")),
                b'\n' => self.next_line(),
                byte if byte == quote && (!triple || self.rest().starts_with(&[quote; 3])) => {
                    self.at += if triple { 3 } else { 1 };
                    self.mark(b'"');
                    return Ok(());
                }
                _ => self.at += 1,
            }
        }
        Err(Fault::at(start, "a string that does not end"))
    }

    /// The text of a format string, up to a field or its end.
    fn format_text(&mut self, quote: u8, triple: bool, raw: bool) -> Result<(), Fault> {
        while let Some(byte) = self.bytes.get(self.at) {
            match *byte {
                b'{' if self.rest().starts_with(b"{{") => self.at += 2,
                b'{' => return self.push(Kind::Field),
                // A named character has braces that open nothing.
                b'\\' if !raw && self.rest().starts_with(b"\\N{") => self.at += 3,
                b'\\' if raw && matches!(self.rest().get(1), Some(b'{')) => self.at += 1,
                b'\\' if matches!(self.rest().get(1), Some(b'{')) => self.at += 1,
                b'\\' => self.skip_escape(),
                b'\n' if !triple => {
                    return Err(Fault::at(self.line, "a string that does not end in its line"));
                }
                b'\n' => self.next_line(),
                byte if byte == quote && (!triple || self.rest().starts_with(&[quote; 3])) => {
                    self.at += if triple { 3 } else { 1 };
                    self.open.pop();
                    self.mark(b'"');
                    return Ok(());
                }
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    /// `>10`, `%Y-%m-%d`, `{width}`: text up to the end of its field.
    fn spec(&mut self) -> Result<(), Fault> {
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'{' => return self.push(Kind::Field),
                b'}' => {
                    self.at += 1;
                    self.open.pop();
                    return Ok(());
                }
                b'\n' => self.next_line(),
                b'\\' => self.skip_escape(),
                _ => self.at += 1,
            }
        }
        Ok(())
    }

    fn close(&mut self, byte: u8) -> Result<(), Fault> {
        let right = match self.open.last().map(|open| open.kind) {
            Some(Kind::Bracket(close)) => close == byte,
            Some(Kind::Field) => byte == b'}',
            _ => false,
        };
        if !right {
            return Err(Fault::at(self.line, format!("`{}` closes nothing", char::from(byte))));
        }
        self.open.pop();
        self.at += 1;
        self.mark(byte);
        Ok(())
    }

    fn push(&mut self, kind: Kind) -> Result<(), Fault> {
        self.at += 1;
        let line = self.line;
        self.open_at(kind, line)
    }

    fn open_at(&mut self, kind: Kind, line: u32) -> Result<(), Fault> {
        if self.open.len() >= DEPTH {
            return Err(Fault::at(line, "too many brackets in one another"));
        }
        self.mark(b'(');
        self.open.push(Open { kind, line });
        Ok(())
    }

    fn mark(&mut self, byte: u8) {
        if let (true, Some(logical)) = (self.open.is_empty(), &mut self.logical) {
            logical.last = byte;
            logical.last_line = self.line;
        }
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn next_line(&mut self) {
        self.at += 1;
        self.line = self.line.saturating_add(1);
    }

    fn skip_escape(&mut self) {
        self.at += 1;
        match self.bytes.get(self.at) {
            Some(b'\n') => self.next_line(),
            Some(b'\r') if self.bytes.get(self.at + 1) == Some(&b'\n') => {
                self.at += 1;
                self.next_line();
            }
            Some(_) => self.at += 1,
            None => {}
        }
    }

    /// Up to the line end, which is left.
    fn skip_to_line_end(&mut self) {
        let length = memchr::memchr(b'\n', self.rest()).unwrap_or(self.rest().len());
        self.at += length;
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

fn is_prefix(word: &[u8]) -> bool {
    matches!(
        word.to_ascii_lowercase().as_slice(),
        b"r" | b"b" | b"u" | b"f" | b"t" | b"rb" | b"br" | b"rf" | b"fr" | b"rt" | b"tr"
    )
}

#[cfg(test)]
#[path = "python_tests.rs"]
mod tests;
