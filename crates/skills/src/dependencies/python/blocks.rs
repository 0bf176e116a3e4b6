//! Which block of a Python script a line is in, as far as it decides whether an import is needed: the body of a `try` that
//! expects it to fail, the handler, a block for type checkers.

use std::collections::HashSet;

use super::stdlib;
use super::tokens::{Kind, Token};

/// Python itself allows no more.
const MOST_LEVELS: usize = 100;
/// Imports and flags of one `try` that are remembered.
const MOST_IN_ONE: usize = 64;

/// How much a script depends on an import.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Dependence {
    Needed,
    /// The script goes on without it.
    Optional,
    /// For type checkers only; never executed.
    Types,
}

/// Where an import stands; [`Blocks::dependence`] says, at the end of the file, what that means.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    innermost: Option<Part>,
    types: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Body,
    Handler,
}

/// A part of a `try` statement, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    attempt: usize,
    role: Role,
}

/// One `try` statement.
#[derive(Debug, Default)]
struct Attempt {
    around: Option<Part>,
    /// A handler catches a failed import.
    catches: bool,
    /// A handler ends the script, or installs what is missing.
    insists: bool,
    /// What a handler sets to `None` or `False`.
    flags: Vec<String>,
    body_imports: Vec<String>,
    handler_imports: Vec<String>,
}

#[derive(Debug)]
enum Block {
    Part(Part),
    Types,
    /// `if not FLAG:`
    Missing(Vec<String>),
    Plain,
}

/// The blocks around the current line, and what was seen of those before it.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    stack: Vec<(usize, Block)>,
    attempts: Vec<Attempt>,
    /// The `try` that an `except` at this indentation belongs to.
    closed: Option<(usize, usize)>,
    /// Flags whose absence ends the script.
    demanded: HashSet<String>,
}

impl Blocks {
    /// A line begins: blocks that are not around it are over.
    pub(super) fn enter_line(&mut self, indent: usize) {
        while self.stack.last().is_some_and(|(opened, _)| *opened >= indent) {
            if let Some((opened, Block::Part(part))) = self.stack.pop() {
                self.closed = Some((opened, part.attempt));
            }
        }
    }

    /// A compound statement begins; `header` is up to its colon. What follows on its line, and on deeper lines, is in it.
    pub(super) fn open(&mut self, indent: usize, header: &[Token<'_>]) {
        let block = self.block(indent, header);
        if self.stack.len() < MOST_LEVELS {
            self.stack.push((indent, block));
        }
    }

    pub(super) fn place(&self) -> Place {
        Place {
            innermost: self.innermost(),
            types: self.stack.iter().any(|(_, block)| matches!(block, Block::Types)),
        }
    }

    /// A module is imported here.
    pub(super) fn imported(&mut self, top: &str) {
        let Some(part) = self.innermost() else { return };
        let attempt = &mut self.attempts[part.attempt];
        let list =
            if part.role == Role::Body { &mut attempt.body_imports } else { &mut attempt.handler_imports };
        if list.len() < MOST_IN_ONE {
            list.push(top.to_owned());
        }
    }

    /// A simple statement that is no import.
    pub(super) fn statement(&mut self, tokens: &[Token<'_>]) {
        if self.stack.is_empty() {
            return;
        }
        if let [name, equals, value] = tokens
            && name.kind == Kind::Name
            && equals.is("=")
            && (value.is("None") || value.is("False"))
            && let Some(Part { attempt, role: Role::Handler }) = self.innermost()
        {
            let flags = &mut self.attempts[attempt].flags;
            if flags.len() < MOST_IN_ONE {
                flags.push(name.text.to_owned());
            }
        }
        if !ends_the_script(tokens) {
            return;
        }
        for (_, block) in &self.stack {
            match block {
                Block::Part(Part { attempt, role: Role::Handler }) => self.attempts[*attempt].insists = true,
                Block::Missing(flags) => self.demanded.extend(flags.iter().cloned()),
                _ => {}
            }
        }
    }

    /// To be asked when the whole file was read. `backport` says whether a package does what newer versions of Python
    /// do themselves.
    pub(super) fn dependence(&self, place: Place, backport: bool) -> Dependence {
        if place.types {
            return Dependence::Types;
        }
        let mut part = place.innermost;
        while let Some(Part { attempt, role }) = part {
            let attempt = &self.attempts[attempt];
            part = attempt.around;
            if !attempt.catches {
                continue;
            }
            let optional = match role {
                Role::Body => {
                    let demanded =
                        attempt.insists || attempt.flags.iter().any(|flag| self.demanded.contains(flag));
                    // Of two packages that both will do, the first choice.
                    let instead = attempt.handler_imports.iter().any(|top| !stdlib::contains(top));
                    !demanded && !instead
                }
                Role::Handler => {
                    let for_old_versions =
                        backport && attempt.body_imports.iter().all(|top| stdlib::contains(top));
                    !attempt.body_imports.is_empty() && !for_old_versions
                }
            };
            if optional {
                return Dependence::Optional;
            }
        }
        Dependence::Needed
    }

    fn innermost(&self) -> Option<Part> {
        self.stack.iter().rev().find_map(|(_, block)| match block {
            Block::Part(part) => Some(*part),
            _ => None,
        })
    }

    fn block(&mut self, indent: usize, header: &[Token<'_>]) -> Block {
        let closed = self.closed.take().filter(|(opened, _)| *opened == indent).map(|(_, attempt)| attempt);
        let Some((first, rest)) = header.split_first() else { return Block::Plain };
        match first.text {
            "try" => {
                self.attempts.push(Attempt { around: self.innermost(), ..Attempt::default() });
                Block::Part(Part { attempt: self.attempts.len() - 1, role: Role::Body })
            }
            "except" => {
                let Some(attempt) = closed else { return Block::Plain };
                let catching = ["ImportError", "ModuleNotFoundError", "Exception", "BaseException"];
                if rest.is_empty() || rest.iter().any(|token| catching.contains(&token.text)) {
                    self.attempts[attempt].catches = true;
                    return Block::Part(Part { attempt, role: Role::Handler });
                }
                // Not the handler of a missing module; those that follow it belong to the same `try`.
                self.closed = Some((indent, attempt));
                Block::Plain
            }
            "if" if matches!(rest.last(), Some(last) if last.is("TYPE_CHECKING"))
                && (rest.len() == 1 || (rest.len() == 3 && rest[1].is("."))) =>
            {
                Block::Types
            }
            "if" | "elif" => match missing_flags(rest) {
                flags if flags.is_empty() => Block::Plain,
                flags => Block::Missing(flags),
            },
            _ => Block::Plain,
        }
    }
}

/// `not FLAG` and `FLAG is None`.
fn missing_flags(tokens: &[Token<'_>]) -> Vec<String> {
    let mut flags = Vec::new();
    for (at, token) in tokens.iter().enumerate().take(32) {
        let named = |at: usize| tokens.get(at).filter(|token| token.kind == Kind::Name);
        if token.is("not")
            && let Some(name) = named(at + 1)
        {
            flags.push(name.text.to_owned());
        }
        if token.is("is")
            && at > 0
            && tokens.get(at + 1).is_some_and(|next| next.is("None"))
            && let Some(name) = named(at - 1)
        {
            flags.push(name.text.to_owned());
        }
    }
    flags
}

fn ends_the_script(tokens: &[Token<'_>]) -> bool {
    let Some(first) = tokens.first() else { return false };
    if first.is("raise") {
        return true;
    }
    if let [word, status] = tokens
        && word.is("return")
        && status.kind == Kind::Number
    {
        return status.text != "0";
    }
    let installs = |text: &str| text == "pip" || (text.starts_with("pip") && text.contains(" install "));
    tokens.windows(2).any(|pair| {
        let calls =
            pair[1].is("(") && ["exit", "_exit", "quit", "SystemExit"].iter().any(|name| pair[0].is(name));
        calls || (pair[0].kind == Kind::Plain && pair[1].is(",") && installs(pair[0].text))
    }) || (tokens.len() >= 4 && first.is("os") && tokens[2].is("system") && {
        tokens.iter().any(|token| token.kind == Kind::Plain && installs(token.text))
    })
}
