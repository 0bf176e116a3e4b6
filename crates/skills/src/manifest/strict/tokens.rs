//! YAML as tokens, exactly as the reference cuts it into tokens: no flow style, anchors, aliases, tags or directives,
//! which are faults on sight.
//!
//! A key is known as one only when its `:` comes, so tokens wait in a queue until nothing can be put before them.

use std::collections::VecDeque;

use super::Fault;
use super::reader::{Reader, ends_word, is_break};
use super::token::{Kind, Token};

/// A key must be on one line, and no longer.
const SIMPLE_KEY_CHARACTERS: usize = 1024;

/// A token that becomes a key if a `:` follows it.
#[derive(Clone, Copy)]
struct SimpleKey {
    /// Among all tokens.
    number: usize,
    required: bool,
    at: usize,
    line: u32,
    column: usize,
}

pub(super) struct Tokens {
    pub(super) reader: Reader,
    queue: VecDeque<Token>,
    /// How many have left the queue.
    taken: usize,
    done: bool,
    /// Of the current block collection; -1 outside of all.
    pub(super) indent: i64,
    indents: Vec<i64>,
    pub(super) key_allowed: bool,
    key: Option<SimpleKey>,
}

impl Tokens {
    pub(super) fn new(yaml: &str) -> Result<Self, Fault> {
        let mut tokens = Self {
            reader: Reader::new(yaml)?,
            queue: VecDeque::new(),
            taken: 0,
            done: false,
            indent: -1,
            indents: Vec::new(),
            key_allowed: true,
            key: None,
        };
        tokens.push(Kind::StreamStart);
        Ok(tokens)
    }

    /// Is the next token one of these?
    pub(super) fn next_is(&mut self, wanted: impl Fn(&Kind) -> bool) -> Result<bool, Fault> {
        Ok(wanted(&self.peek()?.kind))
    }

    pub(super) fn peek(&mut self) -> Result<&mut Token, Fault> {
        self.fill()?;
        self.gather_comments()?;
        self.queue.front_mut().ok_or_else(past_the_end)
    }

    pub(super) fn take(&mut self) -> Result<Token, Fault> {
        self.peek()?;
        if let [Some(first), Some(second)] = [self.queue.front(), self.queue.get(1)]
            && second.kind == Kind::Comment
        {
            let same_line = first.end_line == second.line;
            let takes = match first.kind {
                Kind::Scalar { .. } => true,
                Kind::Value => same_line,
                _ => false,
            };
            if takes {
                self.drop_second();
                if !same_line && let Some(first) = self.queue.front_mut() {
                    first.comment_after();
                }
                self.fetch()?;
                while self.queue.get(1).is_some_and(|token| token.kind == Kind::Comment) {
                    self.drop_second();
                    self.fetch()?;
                }
                if same_line && let Some(first) = self.queue.front_mut() {
                    first.comment_after();
                }
            }
        }
        self.taken += 1;
        self.queue.pop_front().ok_or_else(past_the_end)
    }

    fn drop_second(&mut self) {
        self.taken += 1;
        self.queue.remove(1);
    }

    fn fill(&mut self) -> Result<(), Fault> {
        while self.wants_more()? {
            self.fetch()?;
        }
        Ok(())
    }

    fn wants_more(&mut self) -> Result<bool, Fault> {
        if self.done {
            return Ok(false);
        }
        if self.queue.is_empty() {
            return Ok(true);
        }
        self.forget_stale_key()?;
        Ok(self.key.is_some_and(|key| key.number == self.taken))
    }

    /// Comments at the front of the queue go to the token behind them.
    fn gather_comments(&mut self) -> Result<(), Fault> {
        let mut found = false;
        if self.queue.is_empty() {
            return Ok(());
        }
        found |= self.drop_leading_comment();
        while self.wants_more()? {
            self.fetch()?;
            found |= self.drop_leading_comment();
        }
        if found {
            self.queue.front_mut().ok_or_else(past_the_end)?.comment_before()?;
        }
        if !self.done && self.queue.len() < 2 {
            self.fetch()?;
        }
        Ok(())
    }

    fn drop_leading_comment(&mut self) -> bool {
        let leading = self.queue.front().is_some_and(|token| token.kind == Kind::Comment);
        if leading {
            self.queue.pop_front();
            self.taken += 1;
        }
        leading
    }

    fn push(&mut self, kind: Kind) {
        let (line, column) = (self.reader.line, self.reader.column);
        self.queue.push_back(Token { kind, line, column, end_line: line, comments: None });
    }

    /// One more token, or more.
    fn fetch(&mut self) -> Result<(), Fault> {
        if let Some(line) = self.skip_to_token() {
            let (column, end_line) = (self.reader.column, self.reader.line);
            self.queue.push_back(Token { kind: Kind::Comment, line, column, end_line, comments: None });
            return Ok(());
        }
        self.forget_stale_key()?;
        self.unwind(self.reader.column as i64);
        let next = self.reader.peek(1);
        match self.reader.peek(0) {
            '\0' => self.stream_end(),
            '%' => Err(self.fault("yaml-invalid", "a value can't start with `%`")),
            '.' if self.reader.column == 0 && self.reader.document_ends() => self.document_end(),
            '[' | '{' => Err(self.fault(
                "yaml-flow-style",
                "flow style (`[…]`, `{…}`) is not allowed; write one entry a line, or quote the text",
            )),
            ']' | '}' | ',' | '@' | '`' | '\t' => Err(self.stray()),
            '-' if ends_word(next) => self.entry(),
            '?' if ends_word(next) => self.explicit_key(),
            ':' if ends_word(next) => self.value(),
            '*' => Err(self.fault("yaml-alias", "aliases (`*name`) are not allowed; quote the text")),
            '&' => Err(self.fault("yaml-anchor", "anchors (`&name`) are not allowed; quote the text")),
            '!' => Err(self.fault("yaml-tag", "tags (`!type`) are not allowed; quote the text")),
            style @ ('|' | '>') => {
                self.key_allowed = true;
                self.drop_key()?;
                let token = self.block_scalar(style == '>')?;
                self.queue.push_back(token);
                Ok(())
            }
            quote @ ('\'' | '"') => {
                self.save_key()?;
                self.key_allowed = false;
                let token = self.quoted_scalar(quote)?;
                self.queue.push_back(token);
                Ok(())
            }
            // `#` never gets here: it starts a comment.
            character if is_break(character) => Err(self.stray()),
            _ => {
                self.save_key()?;
                self.key_allowed = false;
                let token = self.plain_scalar();
                self.queue.push_back(token);
                Ok(())
            }
        }
    }

    /// Past spaces, line ends and at most one comment; the line of that comment. Blank lines count as one.
    pub(super) fn skip_to_token(&mut self) -> Option<u32> {
        if self.reader.at == 0 && self.reader.peek(0) == '\u{feff}' {
            self.reader.forward(1);
        }
        loop {
            while self.reader.peek(0) == ' ' {
                self.reader.forward(1);
            }
            if self.reader.peek(0) == '#' {
                let line = self.reader.line;
                while !matches!(self.reader.peek(0), '\0') && !is_break(self.reader.peek(0)) {
                    self.reader.forward(1);
                }
                while self.reader.line_break().is_some() {}
                self.key_allowed = true;
                return Some(line);
            }
            self.reader.line_break()?;
            self.key_allowed = true;
            if self.reader.peek(0) == '\n' {
                let line = self.reader.line;
                // After a blank line the reference overlooks tabs, too.
                while matches!(self.reader.peek(0), ' ' | '\t') || is_break(self.reader.peek(0)) {
                    self.reader.forward(1);
                }
                return Some(line);
            }
        }
    }

    fn stream_end(&mut self) -> Result<(), Fault> {
        self.unwind(-1);
        self.drop_key()?;
        self.key_allowed = false;
        self.push(Kind::StreamEnd);
        self.done = true;
        Ok(())
    }

    fn document_end(&mut self) -> Result<(), Fault> {
        self.unwind(-1);
        self.drop_key()?;
        self.key_allowed = false;
        self.push(Kind::DocumentEnd);
        self.reader.forward(3);
        Ok(())
    }

    fn entry(&mut self) -> Result<(), Fault> {
        if !self.key_allowed {
            return Err(self.fault("yaml-invalid", "a list entry (`- `) can't stand here"));
        }
        if self.open_block(self.reader.column) {
            self.push(Kind::SequenceStart);
        }
        self.key_allowed = true;
        self.drop_key()?;
        self.push(Kind::Entry);
        self.reader.forward(1);
        Ok(())
    }

    fn explicit_key(&mut self) -> Result<(), Fault> {
        if !self.key_allowed {
            return Err(self.fault("yaml-invalid", "a key can't stand here"));
        }
        if self.open_block(self.reader.column) {
            self.push(Kind::MappingStart);
        }
        self.key_allowed = true;
        self.drop_key()?;
        self.push(Kind::Key);
        self.reader.forward(1);
        Ok(())
    }

    fn value(&mut self) -> Result<(), Fault> {
        if let Some(key) = self.key.take() {
            // Comments that left the queue may have moved what the number counts from.
            let place = key.number as i64 - self.taken as i64;
            self.insert(place, Kind::Key, key);
            if self.open_block(key.column) {
                self.insert(place, Kind::MappingStart, key);
            }
            self.key_allowed = false;
        } else {
            if !self.key_allowed {
                let hint = "a second `: ` in one line; quote the value";
                return Err(self.fault("yaml-invalid", hint));
            }
            if self.open_block(self.reader.column) {
                self.push(Kind::MappingStart);
            }
            self.key_allowed = true;
        }
        self.push(Kind::Value);
        self.reader.forward(1);
        Ok(())
    }

    fn insert(&mut self, place: i64, kind: Kind, key: SimpleKey) {
        let length = self.queue.len() as i64;
        let place = if place < 0 { (place + length).max(0) } else { place.min(length) };
        let token = Token { kind, line: key.line, column: key.column, end_line: key.line, comments: None };
        self.queue.insert(place as usize, token);
    }

    fn save_key(&mut self) -> Result<(), Fault> {
        if !self.key_allowed {
            return Ok(());
        }
        let required = self.indent == self.reader.column as i64;
        self.drop_key()?;
        self.key = Some(SimpleKey {
            number: self.taken + self.queue.len(),
            required,
            at: self.reader.at,
            line: self.reader.line,
            column: self.reader.column,
        });
        Ok(())
    }

    fn drop_key(&mut self) -> Result<(), Fault> {
        match self.key.take() {
            Some(key) if key.required => Err(missing_colon(key)),
            _ => Ok(()),
        }
    }

    fn forget_stale_key(&mut self) -> Result<(), Fault> {
        match self.key {
            Some(key) if key.line != self.reader.line || self.reader.at - key.at > SIMPLE_KEY_CHARACTERS => {
                self.drop_key()
            }
            _ => Ok(()),
        }
    }

    fn unwind(&mut self, column: i64) {
        while self.indent > column {
            self.indent = self.indents.pop().unwrap_or(-1);
            self.push(Kind::BlockEnd);
        }
    }

    fn open_block(&mut self, column: usize) -> bool {
        let opens = self.indent < column as i64;
        if opens {
            self.indents.push(self.indent);
            self.indent = column as i64;
        }
        opens
    }

    pub(super) fn fault(&self, code: &'static str, message: &str) -> Fault {
        Fault::new(code, message, self.reader.line)
    }

    fn stray(&self) -> Fault {
        let character = self.reader.peek(0);
        self.fault("yaml-invalid", &format!("{character:?} can't start a value; quote the text"))
    }
}

fn missing_colon(key: SimpleKey) -> Fault {
    Fault::new("yaml-invalid", "a key without a `:`", key.line)
}

fn past_the_end() -> Fault {
    Fault::new("yaml-invalid", "the frontmatter ends too early", 0)
}
