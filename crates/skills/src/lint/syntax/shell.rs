//! Shell, token by token: quotations, substitutions, here-documents and the words that open and close blocks.
//!
//! Shells read some constructs in ways that depend on options and versions. Where the reader meets one it gives up
//! silently: a script that runs must not be reported.

use super::Fault;

pub(super) fn check(source: &str) -> Result<(), Fault> {
    let bytes = source.as_bytes();
    // A script that hands itself on to Python in its first line.
    if memchr::memmem::find(&bytes[..bytes.len().min(512)], b"\n'''exec").is_some() {
        return Ok(());
    }
    let mut reader = Reader { bytes, at: 0, line: 1, open: Vec::new(), documents: Vec::new(), command: true };
    match reader.read() {
        Ok(()) | Err(Stop::Unsure) => Ok(()),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

const DEPTH: usize = 400;

enum Stop {
    Fault(Fault),
    Unsure,
}

impl Stop {
    fn fault(line: u32, what: impl Into<String>) -> Self {
        Self::Fault(Fault::at(line, what))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// `"…"`
    Quote,
    /// `` `…` ``
    Backtick,
    /// `$(…)`, `<(…)`, `(…)`
    Paren,
    /// `${…}`
    Expansion,
    /// `$((…))` and `((…))`, by the brackets that are open in it.
    Arithmetic(u32),
    /// `if … fi` and the like, by the word that ends it.
    Block(&'static [u8]),
    /// `case … esac`
    Case(Stage),
}

/// What of a `case` is being read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Up to `in`.
    Subject,
    /// Up to `)`.
    Pattern,
    /// Up to `;;`.
    Body,
}

struct Open {
    kind: Kind,
    line: u32,
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u32,
    open: Vec<Open>,
    /// Here-documents whose text begins in the next line: the word that ends each, and whether tabs before it count.
    documents: Vec<(Vec<u8>, bool)>,
    /// A word here would be a command or a keyword.
    command: bool,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<(), Stop> {
        while self.at < self.bytes.len() {
            match self.open.last().map(|open| open.kind) {
                Some(Kind::Quote) => self.quoted()?,
                Some(Kind::Expansion) => self.expansion()?,
                Some(Kind::Arithmetic(depth)) => self.arithmetic(depth)?,
                _ => self.code()?,
            }
        }
        let Some(Open { kind, line }) = self.open.last() else { return Ok(()) };
        let what = match kind {
            Kind::Quote => "a quotation that does not end".to_owned(),
            Kind::Backtick => "a ` that is not closed".to_owned(),
            Kind::Paren => "a ( that is not closed".to_owned(),
            Kind::Expansion => "a ${ that is not closed".to_owned(),
            Kind::Arithmetic(_) => "a (( that is not closed".to_owned(),
            Kind::Block(end) => format!("a block that is not closed with `{}`", String::from_utf8_lossy(end)),
            Kind::Case(_) => "a block that is not closed with `esac`".to_owned(),
        };
        Err(Stop::fault(*line, what))
    }

    fn code(&mut self) -> Result<(), Stop> {
        let rest = &self.bytes[self.at..];
        match rest {
            [b'\\', b'\n', ..] => {
                self.at += 1;
                self.next_line();
            }
            [b'\\', ..] => {
                self.at = (self.at + 2).min(self.bytes.len());
                self.command = false;
            }
            [b'\n', ..] => {
                self.next_line();
                self.here_documents()?;
                self.command = true;
            }
            [b' ' | b'\t' | b'\r', ..] => self.at += 1,
            [b'#', ..] => {
                self.at += memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            }
            [b'\'', ..] => self.literal(1, false)?,
            [b'$', b'\'', ..] => self.literal(2, true)?,
            [b'"', ..] => self.push(Kind::Quote, 1)?,
            [b'$', b'"', ..] => self.push(Kind::Quote, 2)?,
            [b'`', ..] => self.backtick()?,
            [b'$', b'(', b'(', ..] => self.push(Kind::Arithmetic(0), 3)?,
            [b'$', b'(', ..] | [b'<' | b'>', b'(', ..] => self.push(Kind::Paren, 2)?,
            [b'$', b'{', ..] => self.push(Kind::Expansion, 2)?,
            // `$#`, `$$`: the character after it is part of the name.
            [b'$', b'#' | b'$' | b'!' | b'?' | b'*' | b'@' | b'-', ..] => {
                self.at += 2;
                self.command = false;
            }
            [b'(', b'(', ..] if self.command => self.push(Kind::Arithmetic(0), 2)?,
            [b'(', ..] => {
                // In a pattern of `case` the bracket is for show.
                if self.top() == Some(Kind::Case(Stage::Pattern)) {
                    self.at += 1;
                } else {
                    self.push(Kind::Paren, 1)?;
                }
            }
            [b')', ..] => self.close_paren()?,
            [b'<', b'<', b'<', ..] => self.at += 3,
            [b'<', b'<', ..] => self.here_word()?,
            [b';', b';' | b'&', ..] if self.top() == Some(Kind::Case(Stage::Body)) => {
                self.at += if rest.starts_with(b";;&") { 3 } else { 2 };
                self.stage(Stage::Pattern);
            }
            [b';' | b'&' | b'|', ..] => {
                self.at += 1;
                self.command = true;
            }
            [b'<' | b'>', ..] => {
                self.at += 1;
                self.command = false;
            }
            _ => self.word()?,
        }
        Ok(())
    }

    /// A word up to what ends it or begins a quotation. Keywords count only where a command may stand.
    fn word(&mut self) -> Result<(), Stop> {
        let start = self.at;
        while let Some(byte) = self.bytes.get(self.at) {
            if byte.is_ascii_whitespace() || b";&|<>()\"'`$\\".contains(byte) {
                break;
            }
            self.at += 1;
        }
        if self.at == start {
            self.at += 1;
            self.command = false;
            return Ok(());
        }
        let word = &self.bytes[start..self.at];
        // `x=(…)` and `f() {…}` go on; so does a word with a quotation in it.
        let is_whole = self
            .bytes
            .get(self.at)
            .is_none_or(|byte| byte.is_ascii_whitespace() || b";&|()<>".contains(byte));
        let in_command = std::mem::replace(&mut self.command, false);
        if self.top() == Some(Kind::Case(Stage::Subject)) && word == b"in" {
            self.stage(Stage::Pattern);
            return Ok(());
        }
        let is_pattern = self.top() == Some(Kind::Case(Stage::Pattern)) && word != b"esac";
        if !in_command || !is_whole || is_pattern {
            return Ok(());
        }
        match word {
            b"if" => self.keyword(Kind::Block(b"fi"), true),
            b"while" | b"until" => self.keyword(Kind::Block(b"done"), true),
            b"for" | b"select" => self.keyword(Kind::Block(b"done"), false),
            b"case" => self.keyword(Kind::Case(Stage::Subject), false),
            b"{" => self.keyword(Kind::Block(b"}"), true),
            b"then" | b"else" | b"elif" | b"do" | b"!" | b"time" => {
                self.command = true;
                Ok(())
            }
            b"fi" => self.end(Kind::Block(b"fi"), "fi"),
            b"done" => self.end(Kind::Block(b"done"), "done"),
            b"}" => self.end(Kind::Block(b"}"), "}"),
            b"esac" => {
                if let Some(kind @ Kind::Case(_)) = self.top() {
                    return self.end(kind, "esac");
                }
                self.end(Kind::Case(Stage::Body), "esac")
            }
            // The name, then a body.
            b"function" => {
                let rest = &self.bytes[self.at..];
                let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
                let in_name = |byte: &&u8| !byte.is_ascii_whitespace() && !b"(;".contains(byte);
                self.at += blanks + rest[blanks..].iter().take_while(in_name).count();
                self.command = true;
                Ok(())
            }
            b"[[" => {
                self.condition();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn keyword(&mut self, kind: Kind, command: bool) -> Result<(), Stop> {
        self.push(kind, 0)?;
        self.command = command;
        Ok(())
    }

    fn end(&mut self, kind: Kind, word: &str) -> Result<(), Stop> {
        match self.top() {
            Some(open) if open == kind => {
                self.open.pop();
                Ok(())
            }
            Some(Kind::Case(_)) => Err(Stop::fault(self.line, format!("`{word}` where `esac` is due"))),
            Some(Kind::Block(wanted)) => {
                let (line, wanted) = (self.line, String::from_utf8_lossy(wanted).into_owned());
                Err(Stop::fault(line, format!("`{word}` where `{wanted}` is due")))
            }
            _ => Err(Stop::fault(self.line, format!("`{word}` closes nothing"))),
        }
    }

    /// What comes next in the `case` that is being read.
    fn stage(&mut self, stage: Stage) {
        if let Some(open) = self.open.last_mut() {
            open.kind = Kind::Case(stage);
        }
        self.command = true;
    }

    /// `[[ a =~ (b|c) ]]`: brackets and angles are not what they are elsewhere. Up to the line end or `]]`.
    fn condition(&mut self) {
        let rest = &self.bytes[self.at..];
        let line_end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        let line = &rest[..line_end];
        let plain =
            !line.iter().any(|byte| b"\"'`\\".contains(byte)) && !line.windows(2).any(|two| two == b"$(");
        if let (true, Some(end)) = (plain, memchr::memmem::find(line, b"]]")) {
            self.at += end + 2;
        }
    }

    fn close_paren(&mut self) -> Result<(), Stop> {
        match self.top() {
            Some(Kind::Paren) => {
                self.open.pop();
                self.at += 1;
                // After `f()` a body, after `(…)` an operator.
                self.command = self.bytes[..self.at].ends_with(b"()");
                Ok(())
            }
            Some(Kind::Case(Stage::Pattern)) => {
                self.at += 1;
                self.stage(Stage::Body);
                Ok(())
            }
            // Patterns with brackets of their own.
            Some(Kind::Case(_)) => Err(Stop::Unsure),
            Some(Kind::Block(end)) => {
                let end = String::from_utf8_lossy(end).into_owned();
                Err(Stop::fault(self.line, format!("`)` where `{end}` is due")))
            }
            _ => Err(Stop::fault(self.line, "`)` closes nothing")),
        }
    }

    fn quoted(&mut self) -> Result<(), Stop> {
        match &self.bytes[self.at..] {
            [b'\\', b'\n', ..] => {
                self.at += 1;
                self.next_line();
            }
            [b'\\', ..] => self.at = (self.at + 2).min(self.bytes.len()),
            [b'"', ..] => {
                self.at += 1;
                self.open.pop();
                self.command = false;
            }
            [b'$', b'(', b'(', ..] => self.push(Kind::Arithmetic(0), 3)?,
            [b'$', b'(', ..] => self.push(Kind::Paren, 2)?,
            [b'$', b'{', ..] => self.push(Kind::Expansion, 2)?,
            [b'`', ..] => self.backtick()?,
            [b'\n', ..] => self.next_line(),
            _ => self.at += 1,
        }
        Ok(())
    }

    fn expansion(&mut self) -> Result<(), Stop> {
        let in_quote = self.open.iter().rev().nth(1).is_some_and(|open| open.kind == Kind::Quote);
        match &self.bytes[self.at..] {
            [b'\\', ..] => self.at = (self.at + 2).min(self.bytes.len()),
            [b'}', ..] => {
                self.at += 1;
                self.open.pop();
                self.command = false;
            }
            // Whether it quotes depends on the operator.
            [b'\'', ..] if in_quote => return Err(Stop::Unsure),
            [b'\'', ..] => self.literal(1, false)?,
            [b'$', b'\'', ..] => self.literal(2, true)?,
            [b'"', ..] => self.push(Kind::Quote, 1)?,
            [b'$', b'(', b'(', ..] => self.push(Kind::Arithmetic(0), 3)?,
            [b'$', b'(', ..] => self.push(Kind::Paren, 2)?,
            [b'$', b'{', ..] => self.push(Kind::Expansion, 2)?,
            [b'`', ..] => self.backtick()?,
            [b'\n', ..] => self.next_line(),
            _ => self.at += 1,
        }
        Ok(())
    }

    fn arithmetic(&mut self, depth: u32) -> Result<(), Stop> {
        let change = |reader: &mut Self, depth| {
            reader.at += 1;
            if let Some(open) = reader.open.last_mut() {
                open.kind = Kind::Arithmetic(depth);
            }
        };
        match &self.bytes[self.at..] {
            [b'(', ..] => change(self, depth.saturating_add(1)),
            [b')', b')', ..] if depth == 0 => {
                self.at += 2;
                self.open.pop();
                self.command = false;
            }
            // `$((…) …)` is a substitution that begins with a subshell.
            [b')', ..] if depth == 0 => return Err(Stop::Unsure),
            [b')', ..] => change(self, depth - 1),
            [b'\'' | b'`' | b'\\', ..] => return Err(Stop::Unsure),
            [b'"', ..] => self.push(Kind::Quote, 1)?,
            [b'$', b'(', b'(', ..] => self.push(Kind::Arithmetic(0), 3)?,
            [b'$', b'(', ..] => self.push(Kind::Paren, 2)?,
            [b'$', b'{', ..] => self.push(Kind::Expansion, 2)?,
            [b'\n', ..] => self.next_line(),
            _ => self.at += 1,
        }
        Ok(())
    }

    fn backtick(&mut self) -> Result<(), Stop> {
        let innermost = self.open.iter().rposition(|open| open.kind == Kind::Backtick);
        match innermost {
            // Closes the innermost one, with whatever a quotation in it left open.
            Some(at) if at + 1 == self.open.len() => {
                self.open.pop();
                self.at += 1;
                self.command = false;
                Ok(())
            }
            Some(_) => Err(Stop::Unsure),
            None => self.push(Kind::Backtick, 1),
        }
    }

    /// `'…'`, and with escapes `$'…'`.
    fn literal(&mut self, opening: usize, escapes: bool) -> Result<(), Stop> {
        let start = self.line;
        self.at += opening;
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'\\' if escapes => self.at += 1,
                b'\'' => {
                    self.at += 1;
                    self.command = false;
                    return Ok(());
                }
                b'\n' => self.line = self.line.saturating_add(1),
                _ => {}
            }
            self.at += 1;
        }
        self.at = self.bytes.len();
        Err(Stop::fault(start, "a quotation that does not end"))
    }

    /// `<<WORD`, `<<-'WORD'`.
    fn here_word(&mut self) -> Result<(), Stop> {
        self.at += 2;
        let tabs = self.bytes.get(self.at) == Some(&b'-');
        self.at += usize::from(tabs);
        while matches!(self.bytes.get(self.at), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        let mut word = Vec::new();
        while let Some(byte) = self.bytes.get(self.at) {
            match byte {
                b'"' | b'\'' | b'\\' => {}
                byte if byte.is_ascii_alphanumeric() || b"_-.!+%@:,/".contains(byte) => word.push(*byte),
                byte if byte.is_ascii_whitespace() || b";&|<>()".contains(byte) => break,
                _ => return Err(Stop::Unsure),
            }
            self.at += 1;
        }
        if word.is_empty() {
            return Err(Stop::Unsure);
        }
        self.documents.push((word, tabs));
        self.command = false;
        Ok(())
    }

    /// Skips the documents that begin here. Without its last line a document goes to the end, and shells take that.
    fn here_documents(&mut self) -> Result<(), Stop> {
        for (word, tabs) in std::mem::take(&mut self.documents) {
            loop {
                if self.at >= self.bytes.len() {
                    return Err(Stop::Unsure);
                }
                let rest = &self.bytes[self.at..];
                let length = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                let line = &rest[..length];
                let text =
                    if tabs { &line[line.iter().take_while(|byte| **byte == b'\t').count()..] } else { line };
                self.at += length;
                if self.at < self.bytes.len() {
                    self.next_line();
                }
                if text.strip_suffix(b"\r").unwrap_or(text) == word {
                    break;
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, kind: Kind, opening: usize) -> Result<(), Stop> {
        if self.open.len() >= DEPTH {
            return Err(Stop::fault(self.line, "too many constructs in one another"));
        }
        self.at += opening;
        self.open.push(Open { kind, line: self.line });
        self.command = matches!(kind, Kind::Paren | Kind::Backtick);
        Ok(())
    }

    fn top(&self) -> Option<Kind> {
        self.open.last().map(|open| open.kind)
    }

    fn next_line(&mut self) {
        self.at += 1;
        self.line = self.line.saturating_add(1);
    }
}

#[cfg(test)]
#[path = "shell_tests.rs"]
mod tests;
