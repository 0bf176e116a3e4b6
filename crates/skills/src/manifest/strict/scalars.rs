//! Scalars: plain, quoted and block, with the text that the reference makes of them.

use super::Fault;
use super::reader::{ends_word, is_break};
use super::token::{Comments, Kind, Token};
use super::tokens::Tokens;

/// White space between two words of a plain scalar, as it will stand in the text.
enum Gap {
    /// The document ends.
    End,
    Text(String),
}

impl Tokens {
    pub(super) fn plain_scalar(&mut self) -> Token {
        let (line, column) = (self.reader.line, self.reader.column);
        let mut end_line = line;
        let mut text = String::new();
        let mut gap = String::new();
        while self.reader.peek(0) != '#' {
            let length = self.word_length();
            if length == 0 {
                break;
            }
            self.key_allowed = false;
            text.push_str(&gap);
            text.push_str(&self.reader.take(length));
            end_line = self.reader.line;
            gap = match self.gap() {
                Gap::Text(gap) => gap,
                Gap::End => String::new(),
            };
            if gap.is_empty() || self.reader.peek(0) == '#' || (self.reader.column as i64) <= self.indent {
                break;
            }
        }
        // Blank lines behind it count as a comment.
        let comments = gap.starts_with('\n').then_some(Comments { before: false, after: true });
        Token { kind: Kind::Scalar { text, plain: true }, line, column, end_line, comments }
    }

    fn word_length(&self) -> usize {
        let mut length = 0;
        loop {
            let character = self.reader.peek(length);
            if ends_word(character) || character == ':' && ends_word(self.reader.peek(length + 1)) {
                return length;
            }
            length += 1;
        }
    }

    fn gap(&mut self) -> Gap {
        let mut spaces = String::new();
        while self.reader.peek(0) == ' ' {
            spaces.push(' ');
            self.reader.forward(1);
        }
        let Some(first) = self.reader.line_break() else { return Gap::Text(spaces) };
        self.key_allowed = true;
        if self.reader.document_ends() {
            return Gap::End;
        }
        let mut breaks = String::new();
        loop {
            if self.reader.peek(0) == ' ' {
                self.reader.forward(1);
            } else if let Some(character) = self.reader.line_break() {
                breaks.push(character);
                if self.reader.document_ends() {
                    return Gap::End;
                }
            } else {
                return Gap::Text(fold(first, breaks));
            }
        }
    }

    pub(super) fn quoted_scalar(&mut self, quote: char) -> Result<Token, Fault> {
        let (line, column) = (self.reader.line, self.reader.column);
        let mut text = String::new();
        self.reader.forward(1);
        self.quoted_words(quote, &mut text)?;
        while self.reader.peek(0) != quote {
            self.quoted_gap(line, &mut text)?;
            self.quoted_words(quote, &mut text)?;
        }
        self.reader.forward(1);
        let end_line = self.reader.line;
        Ok(Token { kind: Kind::Scalar { text, plain: false }, line, column, end_line, comments: None })
    }

    fn quoted_words(&mut self, quote: char, text: &mut String) -> Result<(), Fault> {
        loop {
            match self.reader.peek(0) {
                '\'' if quote == '\'' && self.reader.peek(1) == '\'' => {
                    text.push('\'');
                    self.reader.forward(2);
                }
                character if character == quote => return Ok(()),
                '\\' if quote == '"' => self.escape(text)?,
                character if ends_word(character) => return Ok(()),
                character => {
                    text.push(character);
                    self.reader.forward(1);
                }
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<(), Fault> {
        self.reader.forward(1);
        let character = self.reader.peek(0);
        let digits = match character {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits > 0 {
            self.reader.forward(1);
            let code = self.reader.take(digits);
            let code = Some(code).filter(|code| code.chars().all(|digit| digit.is_ascii_hexdigit()));
            let code =
                code.filter(|code| code.len() == digits).and_then(|code| u32::from_str_radix(&code, 16).ok());
            let Some(code) = code.filter(|code| *code <= 0x10_ffff) else {
                return Err(self.fault("yaml-invalid", "an escape with a wrong number"));
            };
            // Half of a surrogate pair is one character to the reference; the replacement character is one, too.
            text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        } else if is_break(character) {
            self.reader.forward(1);
            self.quoted_breaks(text)?;
        } else {
            let Some(meant) = escaped(character) else {
                return Err(self
                    .fault("yaml-invalid", &format!("an unknown escape, `\\{}`", character.escape_debug())));
            };
            text.push(meant);
            self.reader.forward(1);
        }
        Ok(())
    }

    fn quoted_gap(&mut self, start: u32, text: &mut String) -> Result<(), Fault> {
        let mut spaces = String::new();
        while let character @ (' ' | '\t') = self.reader.peek(0) {
            spaces.push(character);
            self.reader.forward(1);
        }
        if self.reader.peek(0) == '\0' {
            return Err(Fault::new("yaml-invalid", "a quote that does not close", start));
        }
        match self.reader.line_break() {
            None => text.push_str(&spaces),
            Some(first) => {
                let mut breaks = String::new();
                self.quoted_breaks(&mut breaks)?;
                text.push_str(&fold(first, breaks));
            }
        }
        Ok(())
    }

    fn quoted_breaks(&mut self, breaks: &mut String) -> Result<(), Fault> {
        loop {
            // Not only at the start of a line: the reference looks wherever an escaped line end leads.
            if self.reader.document_ends() {
                return Err(self.fault("yaml-invalid", "the document ends in a quote"));
            }
            while matches!(self.reader.peek(0), ' ' | '\t') {
                self.reader.forward(1);
            }
            match self.reader.line_break() {
                Some(character) => breaks.push(character),
                None => return Ok(()),
            }
        }
    }

    pub(super) fn block_scalar(&mut self, folded: bool) -> Result<Token, Fault> {
        let (line, column) = (self.reader.line, self.reader.column);
        self.reader.forward(1);
        let header = self.block_header()?;
        let least = self.indent + 1;
        let (indent, mut breaks) = match header.increment {
            None => {
                let (deepest, breaks) = self.block_indentation();
                (least.max(deepest), breaks)
            }
            Some(increment) => {
                let indent = least.max(1) + increment - 1;
                (indent, self.block_breaks(indent))
            }
        };
        let mut text = String::new();
        let mut last_break = None;
        while self.in_block(indent) {
            text.push_str(&breaks);
            let starts_with_word = !matches!(self.reader.peek(0), ' ' | '\t');
            let mut length = 0;
            while self.reader.peek(length) != '\0' && !is_break(self.reader.peek(length)) {
                length += 1;
            }
            text.push_str(&self.reader.take(length));
            last_break = self.reader.line_break();
            breaks = self.block_breaks(indent);
            if least == 0 && self.reader.column == 0 && self.reader.document_ends() || !self.in_block(indent)
            {
                break;
            }
            let next_is_word = !matches!(self.reader.peek(0), ' ' | '\t');
            if folded && last_break == Some('\n') && starts_with_word && next_is_word {
                if breaks.is_empty() {
                    text.push(' ');
                }
            } else {
                text.extend(last_break);
            }
        }
        if header.chomping != Chomping::Strip {
            text.extend(last_break);
        }
        // Blank lines that are no part of the text count as a comment, together with comments behind them.
        let mut after = false;
        let end_line = self.reader.line;
        if header.chomping == Chomping::Keep {
            text.push_str(&breaks);
        } else if !breaks.is_empty() {
            after = true;
            while self.skip_to_token().is_some() {}
        }
        let comments = (after || header.commented).then_some(Comments { before: header.commented, after });
        Ok(Token { kind: Kind::Scalar { text, plain: false }, line, column, end_line, comments })
    }

    fn in_block(&self, indent: i64) -> bool {
        self.reader.column as i64 == indent && self.reader.peek(0) != '\0'
    }

    fn block_header(&mut self) -> Result<BlockHeader, Fault> {
        let mut header = BlockHeader { chomping: Chomping::Clip, increment: None, commented: false };
        if self.chomping(&mut header) {
            self.increment(&mut header)?;
        } else if self.increment(&mut header)? {
            self.chomping(&mut header);
        }
        let next = self.reader.peek(0);
        if next == '\t' || !ends_word(next) {
            return Err(self.fault("yaml-invalid", "text behind `|` or `>`; it must begin on the next line"));
        }
        while self.reader.peek(0) == ' ' {
            self.reader.forward(1);
        }
        if self.reader.peek(0) == '#' {
            header.commented = true;
            while self.reader.peek(0) != '\0' && !is_break(self.reader.peek(0)) {
                self.reader.forward(1);
            }
        }
        if self.reader.peek(0) != '\0' && self.reader.line_break().is_none() {
            return Err(self.fault("yaml-invalid", "text behind `|` or `>`; it must begin on the next line"));
        }
        Ok(header)
    }

    fn chomping(&mut self, header: &mut BlockHeader) -> bool {
        header.chomping = match self.reader.peek(0) {
            '+' => Chomping::Keep,
            '-' => Chomping::Strip,
            _ => return false,
        };
        self.reader.forward(1);
        true
    }

    fn increment(&mut self, header: &mut BlockHeader) -> Result<bool, Fault> {
        let Some(digit) = self.reader.peek(0).to_digit(10) else { return Ok(false) };
        if digit == 0 {
            return Err(self.fault("yaml-invalid", "an indentation of 0 behind `|` or `>`"));
        }
        header.increment = Some(i64::from(digit));
        self.reader.forward(1);
        Ok(true)
    }

    /// The deepest column before the first word, and the line ends before it.
    fn block_indentation(&mut self) -> (i64, String) {
        let mut breaks = String::new();
        let mut deepest = 0;
        loop {
            if self.reader.peek(0) == ' ' {
                self.reader.forward(1);
                deepest = deepest.max(self.reader.column as i64);
            } else if let Some(character) = self.reader.line_break() {
                breaks.push(character);
            } else {
                return (deepest, breaks);
            }
        }
    }

    fn block_breaks(&mut self, indent: i64) -> String {
        let mut breaks = String::new();
        loop {
            while (self.reader.column as i64) < indent && self.reader.peek(0) == ' ' {
                self.reader.forward(1);
            }
            match self.reader.line_break() {
                Some(character) => breaks.push(character),
                None => return breaks,
            }
        }
    }
}

#[derive(PartialEq)]
enum Chomping {
    Clip,
    Keep,
    Strip,
}

struct BlockHeader {
    chomping: Chomping,
    increment: Option<i64>,
    commented: bool,
}

/// One line end is a space; more are one fewer.
fn fold(first: char, breaks: String) -> String {
    match (first, breaks.is_empty()) {
        ('\n', true) => " ".to_owned(),
        ('\n', false) => breaks,
        (other, _) => format!("{other}{breaks}"),
    }
}

fn escaped(character: char) -> Option<char> {
    Some(match character {
        '0' => '\0',
        'a' => '\u{7}',
        'b' => '\u{8}',
        't' | '\t' => '\t',
        'n' => '\n',
        'v' => '\u{b}',
        'f' => '\u{c}',
        'r' => '\r',
        'e' => '\u{1b}',
        ' ' | '"' | '/' | '\\' => character,
        'N' => '\u{85}',
        '_' => '\u{a0}',
        'L' => '\u{2028}',
        'P' => '\u{2029}',
        _ => return None,
    })
}
