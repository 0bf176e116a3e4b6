//! The characters of a frontmatter, with the place of each as the reference counts it.

use super::Fault;

/// Ends with `\0`, which no frontmatter may have.
pub(super) struct Reader {
    characters: Vec<char>,
    pub(super) at: usize,
    /// From 0. Only `\n` begins a new one here, although other characters end a line of text.
    pub(super) line: u32,
    pub(super) column: usize,
}

impl Reader {
    pub(super) fn new(yaml: &str) -> Result<Self, Fault> {
        let mut characters = Vec::with_capacity(yaml.len() + 1);
        let mut line = 0;
        for character in yaml.chars() {
            if !is_printable(character) {
                let code = u32::from(character);
                let message = format!("the character U+{code:04X} is not allowed in a frontmatter");
                return Err(Fault::new("yaml-character", &message, line));
            }
            line += u32::from(character == '\n');
            characters.push(character);
        }
        characters.push('\0');
        Ok(Self { characters, at: 0, line: 0, column: 0 })
    }

    pub(super) fn peek(&self, ahead: usize) -> char {
        self.characters.get(self.at + ahead).copied().unwrap_or('\0')
    }

    pub(super) fn forward(&mut self, count: usize) {
        for _ in 0..count {
            match self.peek(0) {
                '\n' => {
                    self.line += 1;
                    self.column = 0;
                }
                '\u{feff}' => {}
                _ => self.column += 1,
            }
            self.at += 1;
        }
    }

    /// The next characters, which are passed.
    pub(super) fn take(&mut self, count: usize) -> String {
        let end = (self.at + count).min(self.characters.len());
        let text = self.characters[self.at..end].iter().collect();
        self.forward(end - self.at);
        text
    }

    /// Past a line end; what it stands for.
    pub(super) fn line_break(&mut self) -> Option<char> {
        let character = self.peek(0);
        if !is_break(character) {
            return None;
        }
        self.forward(1);
        Some(if character == '\u{85}' { '\n' } else { character })
    }

    /// `...` and then a space or nothing. (`---` can't occur: it ends the frontmatter.)
    pub(super) fn document_ends(&self) -> bool {
        (0..3).all(|ahead| self.peek(ahead) == '.') && ends_word(self.peek(3))
    }
}

pub(super) fn is_break(character: char) -> bool {
    matches!(character, '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// White space or an end.
pub(super) fn ends_word(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\0') || is_break(character)
}

fn is_printable(character: char) -> bool {
    matches!(character, '\t' | '\n' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}
