//! What a Python file says about its needs: imports, variables of the environment, programs it calls.

use super::super::system::{Presence, programs, variables};
use super::blocks::{Blocks, Dependence, Place};
use super::packages;
use super::tokens::{Kind, Lines, Token};

/// More of any in one file is not believed.
const MOST_FACTS: usize = 5_000;

/// An import statement, or a call that imports a module of a literal name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// How many dots stand before a relative one.
    pub(super) level: usize,
    pub(super) module: String,
    /// What is imported from it; empty for a plain `import`.
    pub(super) names: Vec<String>,
    /// From 1.
    pub(super) line: u32,
    pub(super) dependence: Dependence,
    /// By a call, not by a statement.
    pub(super) dynamic: bool,
}

impl Import {
    /// The first part of the module's name.
    pub(super) fn top(&self) -> &str {
        self.module.split('.').next().unwrap_or_default()
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Source {
    pub(super) imports: Vec<Import>,
    pub(super) variables: Vec<(String, Presence, u32)>,
    /// Name, whether the script asks first if it is there, line.
    pub(super) programs: Vec<(&'static str, bool, u32)>,
    /// The file adds to `sys.path`: modules may be anywhere in the skill.
    pub(super) extends_path: bool,
}

/// Read a file, whose line ends are `\n`.
pub(super) fn read(text: &str) -> Source {
    let mut reader = Reader::default();
    let mut lines = Lines::new(text);
    let mut tokens = Vec::new();
    while let Some(indent) = lines.next(&mut tokens) {
        reader.logical_line(indent, &tokens);
    }
    let Reader { blocks, mut found, places } = reader;
    for (import, place) in found.imports.iter_mut().zip(places) {
        let backport = packages::backport(import.top());
        import.dependence = blocks.dependence(place, backport);
    }
    found
}

#[derive(Default)]
struct Reader {
    blocks: Blocks,
    found: Source,
    /// One for each import.
    places: Vec<Place>,
}

const COMPOUND: &[&str] = &[
    "if", "elif", "else", "for", "while", "try", "except", "finally", "with", "def", "class", "async",
    "match", "case",
];

impl Reader {
    fn logical_line(&mut self, indent: usize, tokens: &[Token<'_>]) {
        self.blocks.enter_line(indent);
        let mut rest = tokens;
        let compound = tokens[0].kind == Kind::Name && COMPOUND.contains(&tokens[0].text);
        if compound && let Some(colon) = header_end(tokens) {
            self.blocks.open(indent, &tokens[..colon]);
            rest = &tokens[colon + 1..];
        }
        for statement in rest.split(|token| token.is(";")) {
            self.statement(statement);
        }
        self.calls(tokens);
    }

    fn statement(&mut self, tokens: &[Token<'_>]) {
        match tokens.first() {
            Some(first) if first.is("import") => self.import(first.line, &tokens[1..]),
            Some(first) if first.is("from") => self.from(first.line, &tokens[1..]),
            Some(_) => self.blocks.statement(tokens),
            None => {}
        }
    }

    /// `a.b as c, d`
    fn import(&mut self, line: u32, tokens: &[Token<'_>]) {
        for clause in tokens.split(|token| token.is(",")) {
            let (module, _) = dotted(clause);
            if !module.is_empty() {
                self.add(Found { level: 0, module, names: Vec::new(), line, dynamic: false });
            }
        }
    }

    /// `..a.b import (c as d, e)`
    fn from(&mut self, line: u32, tokens: &[Token<'_>]) {
        let level = tokens.iter().take_while(|token| token.is(".")).count();
        let (module, rest) = dotted(&tokens[level..]);
        let Some((word, rest)) = rest.split_first() else { return };
        if !word.is("import") || (module.is_empty() && level == 0) {
            return;
        }
        let names = rest
            .split(|token| token.is(","))
            .filter_map(|clause| clause.iter().find(|token| token.kind == Kind::Name))
            .map(|token| token.text.to_owned())
            .collect();
        self.add(Found { level, module, names, line, dynamic: false });
    }

    fn add(&mut self, found: Found) {
        if self.places.len() == MOST_FACTS {
            return;
        }
        let Found { level, module, names, line, dynamic } = found;
        let import = Import { level, module, names, line, dependence: Dependence::Needed, dynamic };
        if level == 0 {
            self.blocks.imported(import.top());
        }
        self.places.push(self.blocks.place());
        self.found.imports.push(import);
    }

    fn calls(&mut self, tokens: &[Token<'_>]) {
        for (at, token) in tokens.iter().enumerate() {
            match (token.kind, token.text) {
                (Kind::Name, "__import__" | "import_module") => {
                    if let Some((module, rest)) = first_argument(&tokens[at + 1..])
                        && rest.first().is_some_and(|token| token.is(")") || token.is(","))
                        && is_module(module)
                    {
                        let module = module.to_owned();
                        self.add(Found {
                            level: 0,
                            module,
                            names: Vec::new(),
                            line: token.line,
                            dynamic: true,
                        });
                    }
                }
                (Kind::Name, "environ" | "getenv") => self.variable(token, &tokens[at + 1..]),
                (Kind::Name, "path") => {
                    let of_sys = at >= 2 && tokens[at - 1].is(".") && tokens[at - 2].is("sys");
                    self.found.extends_path |= of_sys && tokens.get(at + 1).is_some_and(|next| next.is("."));
                }
                (Kind::Name, "addsitedir") => self.found.extends_path = true,
                (Kind::Name, "in") if at > 0 && tokens[at - 1].kind == Kind::Plain => {
                    let ahead = &tokens[at + 1..tokens.len().min(at + 4)];
                    if ahead.iter().any(|token| token.is("environ")) {
                        self.add_variable(tokens[at - 1].text, Presence::Expected, token.line);
                    }
                }
                (Kind::Name, name) => self.program(name, token.line, &tokens[at + 1..]),
                _ => {}
            }
        }
    }

    /// What follows `environ` or `getenv`.
    fn variable(&mut self, at: &Token<'_>, rest: &[Token<'_>]) {
        let (name, presence) = match rest {
            [open, name, close, after @ ..] if open.is("[") && close.is("]") => {
                // Assigned to, not read; `==` is two symbols.
                let assigned = matches!(after, [first, ..] if first.is("="))
                    && !matches!(after, [_, second, ..] if second.is("="));
                if assigned {
                    return;
                }
                (name, Presence::Required)
            }
            [dot, method, open, name, after, ..]
                if dot.is(".") && (method.is("get") || method.is("pop")) && open.is("(") =>
            {
                (name, if after.is(",") { Presence::Optional } else { Presence::Expected })
            }
            [open, name, after, ..] if at.is("getenv") && open.is("(") => {
                (name, if after.is(",") { Presence::Optional } else { Presence::Expected })
            }
            _ => return,
        };
        if name.kind == Kind::Plain {
            self.add_variable(name.text, presence, at.line);
        }
    }

    fn add_variable(&mut self, name: &str, presence: Presence, line: u32) {
        if variables::is_of_interest(name) && self.found.variables.len() < MOST_FACTS {
            self.found.variables.push((name.to_owned(), presence, line));
        }
    }

    /// `subprocess.run(["ffmpeg", …])`, `os.system("ffmpeg …")`, `shutil.which("ffmpeg")`
    fn program(&mut self, name: &str, line: u32, rest: &[Token<'_>]) {
        const CALLS: &[&str] = &[
            "run",
            "Popen",
            "call",
            "check_call",
            "check_output",
            "system",
            "create_subprocess_exec",
            "create_subprocess_shell",
            "execvp",
            "getoutput",
        ];
        let asks = name == "which";
        if !asks && !CALLS.contains(&name) {
            return;
        }
        let rest = match rest {
            [paren, list, ..] if paren.is("(") && list.is("[") => &rest[1..],
            _ => rest,
        };
        let argument = match rest {
            [open, argument, ..] if open.is("(") || open.is("[") => argument,
            _ => return,
        };
        if argument.kind == Kind::Plain
            && let Some(program) = programs::first_word(argument.text)
            && self.found.programs.len() < MOST_FACTS
        {
            self.found.programs.push((program, asks, line));
        }
    }
}

struct Found {
    level: usize,
    module: String,
    names: Vec<String>,
    line: u32,
    dynamic: bool,
}

/// Where the colon of a compound statement is.
fn header_end(tokens: &[Token<'_>]) -> Option<usize> {
    let mut open = 0usize;
    let mut lambdas = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        if !matches!(token.kind, Kind::Symbol | Kind::Name) {
            continue;
        }
        match token.text {
            "(" | "[" | "{" => open += 1,
            ")" | "]" | "}" => open = open.saturating_sub(1),
            "lambda" if open == 0 => lambdas += 1,
            ":" if open == 0 && lambdas > 0 => lambdas -= 1,
            // `:=` is two symbols here.
            ":" if open == 0 && !tokens.get(at + 1).is_some_and(|next| next.is("=")) => return Some(at),
            _ => {}
        }
    }
    None
}

/// `a.b.c`, and what follows it.
fn dotted<'t, 'a>(tokens: &'t [Token<'a>]) -> (String, &'t [Token<'a>]) {
    let mut module = String::new();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if token.kind != Kind::Name || token.is("import") {
            break;
        }
        module.push_str(token.text);
        at += 1;
        if !tokens.get(at).is_some_and(|token| token.is(".")) {
            break;
        }
        module.push('.');
        at += 1;
    }
    (module, &tokens[at..])
}

/// `("value"`, and what follows it.
fn first_argument<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<(&'a str, &'t [Token<'a>])> {
    match tokens {
        [open, argument, rest @ ..] if open.is("(") && argument.kind == Kind::Plain => {
            Some((argument.text, rest))
        }
        _ => None,
    }
}

fn is_module(text: &str) -> bool {
    text.len() <= 200
        && text.split('.').all(|part| {
            part.starts_with(|c: char| c.is_alphabetic() || c == '_')
                && part.chars().all(|c| c.is_alphanumeric() || c == '_')
        })
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
