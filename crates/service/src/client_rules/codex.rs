//! `*.rules` of Codex: calls of `prefix_rule` in Starlark. Such files are lists of calls with texts and lists as their
//! arguments, and nothing else is read here: a file that computes something is not understood.

use std::path::Path;

use super::{Pattern, RuleRefusal, RuleSet, unreadable};

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Text(String),
    /// A name or a number.
    Name(String),
    Sign(char),
}

enum Value {
    Text(String),
    List(Vec<Value>),
    Other,
}

pub(super) fn rules(file: &Path, text: &str) -> Result<Vec<RuleSet>, RuleRefusal> {
    let wrong = |why: String| unreadable(file, why);
    let tokens = tokens(text).map_err(wrong)?;
    let mut calls = Calls { tokens: &tokens, at: 0 };
    let mut found = Vec::new();
    while calls.at < tokens.len() {
        let (name, arguments) = calls.call().map_err(wrong)?;
        if name != "prefix_rule" {
            // host_executable and network_rule say nothing of a command's words.
            continue;
        }
        let argument =
            |wanted: &str| arguments.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        let denies = match argument("decision") {
            None => false,
            Some(Value::Text(decision)) => match decision.as_str() {
                "allow" | "prompt" => false,
                "forbidden" | "deny" => true,
                other => return Err(wrong(format!("`{other}` is none of allow, prompt and forbidden"))),
            },
            Some(_) => return Err(wrong("a decision is not a text".into())),
        };
        if !denies {
            continue;
        }
        let Some(Value::List(pattern)) = argument("pattern") else {
            return Err(wrong("a prefix_rule has no list `pattern`".into()));
        };
        let words: Option<Vec<Vec<String>>> = pattern.iter().map(one_of).collect();
        let words = words.filter(|words| !words.is_empty());
        let words = words.ok_or_else(|| wrong("a pattern is not of texts and lists of texts".into()))?;
        let shown: Vec<String> = words.iter().map(|one_of| one_of.join("|")).collect();
        let shown = format!("prefix_rule {}", shown.join(" "));
        found.push(RuleSet::denying(file, shown, Pattern::Words(words)));
    }
    Ok(found)
}

fn one_of(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Text(word) => Some(vec![word.clone()]),
        Value::List(words) => words
            .iter()
            .map(|word| match word {
                Value::Text(word) => Some(word.clone()),
                _ => None,
            })
            .collect(),
        Value::Other => None,
    }
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            letter if letter.is_whitespace() => {}
            '#' => while rest.next_if(|letter| *letter != '\n').is_some() {},
            '(' | ')' | '[' | ']' | ',' | '=' => tokens.push(Token::Sign(letter)),
            '"' | '\'' => {
                let mut word = String::new();
                loop {
                    match rest.next() {
                        None | Some('\n') => return Err("a text has no end".into()),
                        Some(end) if end == letter => break,
                        Some('\\') => match rest.next() {
                            Some('n') => word.push('\n'),
                            Some('t') => word.push('\t'),
                            Some(plain @ ('\\' | '"' | '\'')) => word.push(plain),
                            _ => return Err("an escape in a text is not known".into()),
                        },
                        Some(letter) => word.push(letter),
                    }
                }
                tokens.push(Token::Text(word));
            }
            letter if letter.is_ascii_alphanumeric() || letter == '_' => {
                let mut name = letter.to_string();
                while let Some(letter) =
                    rest.next_if(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
                {
                    name.push(letter);
                }
                tokens.push(Token::Name(name));
            }
            other => return Err(format!("`{}` is more than a list of calls has", other.escape_debug())),
        }
    }
    Ok(tokens)
}

struct Calls<'a> {
    tokens: &'a [Token],
    at: usize,
}

type Arguments = Vec<(String, Value)>;

impl Calls<'_> {
    fn next(&mut self) -> Option<&Token> {
        self.at += 1;
        self.tokens.get(self.at - 1)
    }

    fn takes(&mut self, sign: char) -> bool {
        let is = self.tokens.get(self.at) == Some(&Token::Sign(sign));
        self.at += usize::from(is);
        is
    }

    fn call(&mut self) -> Result<(String, Arguments), String> {
        let name = match self.next() {
            Some(Token::Name(name)) => name.clone(),
            _ => return Err("there is something else than a call".into()),
        };
        if !matches!(name.as_str(), "prefix_rule" | "host_executable" | "network_rule") || !self.takes('(') {
            return Err(format!("`{name}` is not understood"));
        }
        let mut arguments = Vec::new();
        while !self.takes(')') {
            let argument = match self.next() {
                Some(Token::Name(name)) => name.clone(),
                _ => return Err("an argument has no name".into()),
            };
            if !self.takes('=') {
                return Err("an argument has no value".into());
            }
            let value = self.value(0)?;
            arguments.push((argument, value));
            if !self.takes(',') && self.tokens.get(self.at) != Some(&Token::Sign(')')) {
                return Err("a call has no end".into());
            }
        }
        Ok((name, arguments))
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        match self.next() {
            Some(Token::Text(text)) => Ok(Value::Text(text.clone())),
            Some(Token::Name(_)) => Ok(Value::Other),
            Some(Token::Sign('[')) if depth < 4 => {
                let mut list = Vec::new();
                while !self.takes(']') {
                    list.push(self.value(depth + 1)?);
                    if !self.takes(',') && self.tokens.get(self.at) != Some(&Token::Sign(']')) {
                        return Err("a list has no end".into());
                    }
                }
                Ok(Value::List(list))
            }
            _ => Err("a value is neither a text nor a list".into()),
        }
    }
}
