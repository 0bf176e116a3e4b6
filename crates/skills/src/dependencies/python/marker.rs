//! Environment markers of PEP 508, checked word by word and written anew: nothing of the text itself goes on.

use super::requirement::RequirementError;

const VARIABLES: &[&str] = &[
    "python_version",
    "python_full_version",
    "os_name",
    "sys_platform",
    "platform_release",
    "platform_system",
    "platform_version",
    "platform_machine",
    "platform_python_implementation",
    "implementation_name",
    "implementation_version",
    "extra",
];
const DEEPEST: usize = 16;
const MOST_WORDS: usize = 200;

/// A marker in one spelling: single spaces, double quotes.
pub(super) fn normalised(text: &str) -> Result<String, RequirementError> {
    let words = words(text).ok_or(RequirementError::Marker)?;
    let mut reader = Reader { words: &words, at: 0 };
    reader.either(0).ok_or(RequirementError::Marker)?;
    if reader.at != words.len() {
        return Err(RequirementError::Marker);
    }
    let mut out = String::new();
    for (at, word) in words.iter().enumerate() {
        let tight = at == 0 || word == ")" || words[at - 1] == "(";
        if !tight {
            out.push(' ');
        }
        out.push_str(word);
    }
    Ok(out)
}

fn words(text: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if words.len() == MOST_WORDS {
            return None;
        }
        let end = match first {
            '(' | ')' => 1,
            '"' | '\'' => {
                let inner = &rest[1..];
                let end = inner.find(first)?;
                let value = &inner[..end];
                let plain = value
                    .chars()
                    .all(|c| (c.is_ascii_graphic() || c == ' ') && !matches!(c, '"' | '\'' | '\\'));
                if !plain {
                    return None;
                }
                words.push(format!("\"{value}\""));
                rest = inner[end + 1..].trim_start();
                continue;
            }
            '<' | '>' | '=' | '!' | '~' => {
                rest.find(|c| !matches!(c, '<' | '>' | '=' | '!' | '~')).unwrap_or(rest.len())
            }
            c if c.is_ascii_alphabetic() => rest
                .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.'))
                .unwrap_or(rest.len()),
            _ => return None,
        };
        // Old spellings with a dot: `os.name`.
        words.push(rest[..end].replace('.', "_"));
        rest = rest[end..].trim_start();
    }
    Some(words)
}

struct Reader<'a> {
    words: &'a [String],
    at: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Option<&'a str> {
        let word = self.words.get(self.at)?;
        self.at += 1;
        Some(word)
    }

    fn take(&mut self, what: &str) -> bool {
        let there = self.words.get(self.at).is_some_and(|word| word == what);
        self.at += usize::from(there);
        there
    }

    fn either(&mut self, depth: usize) -> Option<()> {
        self.both(depth)?;
        while self.take("or") {
            self.both(depth)?;
        }
        Some(())
    }

    fn both(&mut self, depth: usize) -> Option<()> {
        self.one(depth)?;
        while self.take("and") {
            self.one(depth)?;
        }
        Some(())
    }

    fn one(&mut self, depth: usize) -> Option<()> {
        if self.take("(") {
            if depth == DEEPEST {
                return None;
            }
            self.either(depth + 1)?;
            return self.take(")").then_some(());
        }
        let left = self.value()?;
        match self.next()? {
            "==" | "!=" | "<" | "<=" | ">" | ">=" | "~=" | "===" | "in" => {}
            "not" if self.take("in") => {}
            _ => return None,
        }
        let right = self.value()?;
        (left || right).then_some(())
    }

    /// Whether it is a variable; nothing where it is neither that nor a string.
    fn value(&mut self) -> Option<bool> {
        let word = self.next()?;
        if word.starts_with('"') {
            return Some(false);
        }
        VARIABLES.contains(&word).then_some(true)
    }
}
