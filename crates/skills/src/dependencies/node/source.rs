//! What a JavaScript or TypeScript file says about its needs: imports, variables of the environment, programs it calls.
//! One pass over tokens, with a bounded stack for templates.

use super::super::system::{Presence, programs, variables};

/// Deeper templates in templates are read as plain text.
const DEEPEST: usize = 100;
const MOST_FACTS: usize = 5_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    pub(super) specifier: String,
    /// From 1.
    pub(super) line: u32,
    /// In a `try` block: the script may go on without it.
    pub(super) optional: bool,
}

#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) imports: Vec<Import>,
    pub(super) variables: Vec<(String, Presence, u32)>,
    /// Name, whether the script asks first if it is there, line.
    pub(super) programs: Vec<(&'static str, bool, u32)>,
}

pub(super) fn read(text: &str) -> Source {
    let tokens = Lexer {
        text,
        bytes: text.as_bytes(),
        at: 0,
        line: 1,
        no_regex_before: 0,
        templates: Vec::new(),
        tokens: Vec::new(),
    };
    facts(&tokens.run())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Name,
    /// A string without escapes or fields; `text` is without quotes.
    Plain,
    Other,
    Symbol,
}

#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    kind: Kind,
    text: &'a str,
    line: u32,
}

impl Token<'_> {
    fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Name | Kind::Symbol) && self.text == text
    }
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u32,
    /// Up to here no regular expression begins: one that did went over the end of the line.
    no_regex_before: usize,
    /// For each open `${`: how many `{` are open in it.
    templates: Vec<usize>,
    tokens: Vec<Token<'a>>,
}

impl<'a> Lexer<'a> {
    fn run(mut self) -> Vec<Token<'a>> {
        while let Some(&byte) = self.bytes.get(self.at) {
            let start = self.at;
            let next = self.bytes.get(self.at + 1).copied();
            match byte {
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'/' if next == Some(b'/') => self.at = self.line_end(),
                b'#' if self.at == 0 && next == Some(b'!') => self.at = self.line_end(),
                b'/' if next == Some(b'*') => {
                    let rest = &self.text[self.at + 2..];
                    let end = rest.find("*/").map_or(self.bytes.len(), |end| self.at + 2 + end + 2);
                    self.move_to(end);
                }
                b'/' if self.regex_may_follow() => self.regex(),
                b'"' | b'\'' => self.string(byte),
                b'`' => {
                    self.at += 1;
                    self.template(start);
                }
                b'{' => {
                    if let Some(open) = self.templates.last_mut() {
                        *open += 1;
                    }
                    self.symbol();
                }
                b'}' => match self.templates.last_mut() {
                    Some(0) => {
                        self.templates.pop();
                        self.at += 1;
                        self.template(start);
                    }
                    Some(open) => {
                        *open -= 1;
                        self.symbol();
                    }
                    None => self.symbol(),
                },
                b'_' | b'$' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | 0x80.. => {
                    while self.bytes.get(self.at).is_some_and(|byte| is_name_byte(*byte)) {
                        self.at += 1;
                    }
                    self.push(Kind::Name, start);
                }
                _ => self.symbol(),
            }
        }
        self.tokens
    }

    fn push(&mut self, kind: Kind, start: usize) {
        self.tokens.push(Token { kind, text: &self.text[start..self.at], line: self.line });
    }

    fn symbol(&mut self) {
        self.at += 1;
        self.push(Kind::Symbol, self.at - 1);
    }

    fn move_to(&mut self, end: usize) {
        let end = end.min(self.bytes.len());
        self.line += self.bytes[self.at..end].iter().filter(|byte| **byte == b'\n').count() as u32;
        self.at = end;
    }

    fn line_end(&self) -> usize {
        let rest = &self.bytes[self.at..];
        self.at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len())
    }

    fn string(&mut self, quote: u8) {
        let begin = self.at + 1;
        let mut end = begin;
        let mut plain = true;
        while let Some(&byte) = self.bytes.get(end) {
            match byte {
                b'\\' => {
                    plain = false;
                    end += 2;
                }
                b'\n' => break,
                _ if byte == quote => break,
                _ => end += 1,
            }
        }
        let end = end.min(self.bytes.len());
        let closed = self.bytes.get(end) == Some(&quote);
        let inner = self.text.get(begin..end).filter(|_| plain && closed);
        let line = self.line;
        let (kind, text) = inner.map_or((Kind::Other, ""), |inner| (Kind::Plain, inner));
        self.tokens.push(Token { kind, text, line });
        self.move_to(end + usize::from(closed));
    }

    /// The text of a template, up to its end or its next field; `start` is where its token begins.
    fn template(&mut self, start: usize) {
        let begin = self.at;
        let line = self.line;
        let mut end = begin;
        while let Some(&byte) = self.bytes.get(end) {
            match byte {
                b'\\' => end += 2,
                b'`' => {
                    let whole = self.bytes[start] == b'`';
                    let inner = self.text.get(begin..end).filter(|inner| whole && !inner.contains('\\'));
                    let (kind, text) = inner.map_or((Kind::Other, ""), |inner| (Kind::Plain, inner));
                    self.move_to(end + 1);
                    self.tokens.push(Token { kind, text, line });
                    return;
                }
                b'$' if self.bytes.get(end + 1) == Some(&b'{') && self.templates.len() < DEEPEST => {
                    self.move_to(end + 2);
                    self.templates.push(0);
                    self.tokens.push(Token { kind: Kind::Other, text: "", line });
                    return;
                }
                _ => end += 1,
            }
        }
        self.move_to(end);
    }

    /// By what stands before it: after a value, `/` divides.
    fn regex_may_follow(&self) -> bool {
        match self.tokens.last() {
            _ if self.at < self.no_regex_before => false,
            None => true,
            Some(token) => match token.kind {
                Kind::Plain | Kind::Other => false,
                Kind::Name => matches!(
                    token.text,
                    "return"
                        | "typeof"
                        | "case"
                        | "in"
                        | "of"
                        | "do"
                        | "else"
                        | "void"
                        | "delete"
                        | "throw"
                        | "await"
                ),
                Kind::Symbol => !matches!(token.text, ")" | "]" | "}"),
            },
        }
    }

    fn regex(&mut self) {
        let mut end = self.at + 1;
        let mut class = false;
        while let Some(&byte) = self.bytes.get(end) {
            match byte {
                b'\\' => end += 1,
                b'[' => class = true,
                b']' => class = false,
                b'/' if !class => break,
                // No regular expression goes over a line: it was a division.
                b'\n' => {
                    self.no_regex_before = end;
                    return self.symbol();
                }
                _ => {}
            }
            end += 1;
        }
        self.move_to(end + 1);
        self.tokens.push(Token { kind: Kind::Other, text: "", line: self.line });
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

fn facts(tokens: &[Token<'_>]) -> Source {
    let mut found = Source::default();
    // For each open `{` whether it is that of a `try`.
    let mut blocks: Vec<bool> = Vec::new();
    let mut tries = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| tokens[at]);
        if token.kind == Kind::Symbol {
            match token.text {
                "{" => {
                    let of_try = before.is_some_and(|before| before.is("try"));
                    tries += usize::from(of_try);
                    blocks.push(of_try);
                }
                "}" => tries -= usize::from(blocks.pop() == Some(true)),
                _ => {}
            }
            continue;
        }
        if token.kind != Kind::Name
            || found.imports.len() + found.variables.len() + found.programs.len() > MOST_FACTS
        {
            continue;
        }
        let of_object = before.is_some_and(|before| before.is("."));
        let rest = &tokens[at + 1..];
        let import = match token.text {
            "import" | "export" if !of_object => import(token.text, rest),
            "require" if !of_object => call_argument(rest).or_else(|| match rest {
                [dot, resolve, rest @ ..] if dot.is(".") && resolve.is("resolve") => call_argument(rest),
                _ => None,
            }),
            _ => None,
        };
        if let Some(specifier) = import {
            found.imports.push(Import {
                specifier: specifier.to_owned(),
                line: token.line,
                optional: tries > 0,
            });
        }
        match token.text {
            "env" if of_object && at >= 2 && tokens[at - 2].is("process") => {
                variable(rest, token.line, &mut found)
            }
            "exec" | "execSync" | "spawn" | "spawnSync" | "execFile" | "execFileSync" => {
                if let Some(program) = call_argument(rest).and_then(programs::first_word) {
                    found.programs.push((program, false, token.line));
                }
            }
            _ => {}
        }
    }
    found
}

/// What follows `import` or `export`: `"x"`, `("x")`, `{ a, b as c } from "x"`, `type A from "x"`.
fn import<'a>(word: &str, rest: &[Token<'a>]) -> Option<&'a str> {
    let first = rest.first()?;
    if first.kind == Kind::Plain && word == "import" {
        return Some(first.text);
    }
    if word == "import" && first.is("(") {
        return call_argument(rest);
    }
    // `import type` is gone before the script runs; `import type from "x"` imports something of that name.
    if first.is("type") && !rest.get(1).is_some_and(|next| next.is("from") || next.is(",")) {
        return None;
    }
    for pair in rest.windows(2) {
        if pair[0].is("from") && pair[1].kind == Kind::Plain {
            return Some(pair[1].text);
        }
        let clause = matches!(pair[0].kind, Kind::Name) || matches!(pair[0].text, "{" | "}" | "," | "*");
        // A declaration: `export const a = …`, or the next statement.
        let declares = [
            "import",
            "export",
            "const",
            "let",
            "var",
            "function",
            "class",
            "async",
            "interface",
            "enum",
            "abstract",
            "declare",
        ];
        if !clause || declares.contains(&pair[0].text) {
            return None;
        }
    }
    None
}

/// `("x"`, then `)` or `,`.
fn call_argument<'a>(rest: &[Token<'a>]) -> Option<&'a str> {
    match rest {
        [open, argument, after, ..]
            if open.is("(") && argument.kind == Kind::Plain && (after.is(")") || after.is(",")) =>
        {
            Some(argument.text)
        }
        _ => None,
    }
}

/// What follows `process.env`.
fn variable(rest: &[Token<'_>], line: u32, found: &mut Source) {
    let (name, after) = match rest {
        [dot, name, after @ ..] if dot.is(".") && name.kind == Kind::Name => (name.text, after),
        [open, name, close, after @ ..] if open.is("[") && name.kind == Kind::Plain && close.is("]") => {
            (name.text, after)
        }
        _ => return,
    };
    if !variables::is_of_interest(name) {
        return;
    }
    let symbol = |at: usize| {
        after.get(at).map_or("", |token| if token.kind == Kind::Symbol { token.text } else { "" })
    };
    let presence = match (symbol(0), symbol(1)) {
        // Assigned to, not read.
        ("=", second) if second != "=" => return,
        ("|", "|") | ("?", "?") => Presence::Optional,
        _ => Presence::Expected,
    };
    found.variables.push((name.to_owned(), presence, line));
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
