//! What the words of a shell script mean: commands, assignments, questions, names of other scripts.

use super::super::{Presence, programs, variables};
use super::{After, MOST_FACTS, Reader, Word};

impl Reader<'_> {
    /// `${NAME` was read; what follows it says what happens when it is missing.
    pub(super) fn read_variable(&mut self, name: &str) {
        if !variables::is_of_interest(name) || self.found.variables.len() == MOST_FACTS {
            return;
        }
        let colon = usize::from(self.byte(0) == Some(b':'));
        let presence = match self.byte(colon) {
            Some(b'?') => Presence::Required,
            _ if !variables::is_secret(name) => return,
            // An empty value is none.
            Some(b'-') if self.byte(colon + 1) == Some(b'}') => Presence::Expected,
            Some(b'-' | b'=' | b'+') => Presence::Optional,
            _ => return self.plain_read(name),
        };
        self.found.variables.push((name.to_owned(), presence, self.line));
    }

    pub(super) fn plain_read(&mut self, name: &str) {
        if self.plain_reads.len() < MOST_FACTS {
            self.plain_reads.push((name.to_owned(), self.line));
        }
    }

    pub(super) fn end_command(&mut self) {
        self.end_word();
        self.expect = true;
        self.redirect = false;
        if self.after != After::Case {
            self.after = After::Nothing;
        }
    }

    pub(super) fn end_word(&mut self) {
        if !self.word.begun {
            return;
        }
        let Word { text, expanded, .. } = std::mem::take(&mut self.word);
        self.mention(&text);
        if std::mem::take(&mut self.redirect) {
            return;
        }
        if self.pattern && text != "esac" {
            return;
        }
        if let Some(name) = assigned_name(&text) {
            self.assigned.insert(name.to_owned());
            return;
        }
        match self.after {
            After::Command if matches!(text.as_str(), "-v" | "-V") => {
                self.after = After::Asked;
                self.expect = false;
                return;
            }
            After::Asked if !text.starts_with('-') => return self.program(&text, expanded, true),
            After::Assigned if text == "in" => self.after = After::Nothing,
            After::Assigned => {
                self.assigned.insert(text);
                return;
            }
            After::Case if text == "in" => {
                self.after = After::Nothing;
                self.pattern = true;
                return;
            }
            After::Function => {
                self.functions.insert(text);
                self.after = After::Nothing;
                self.expect = true;
                return;
            }
            _ => {}
        }
        if self.expect {
            self.command_word(&text, expanded);
        }
    }

    fn command_word(&mut self, text: &str, expanded: bool) {
        match text {
            "then" | "do" | "else" | "elif" | "if" | "while" | "until" | "!" | "{" | "}" | "time"
            | "exec" | "sudo" | "env" | "nohup" | "builtin" | "xargs" | "nice" | "fi" | "done" => return,
            // An option of the word before, as in `sudo -E`.
            _ if text.starts_with('-') => return,
            "command" => {
                self.after = After::Command;
                return;
            }
            _ => {}
        }
        self.expect = false;
        match text {
            "which" | "type" | "hash" => self.after = After::Asked,
            "read" | "for" | "select" | "getopts" | "mapfile" | "readarray" => self.after = After::Assigned,
            "case" => {
                self.after = After::Case;
                self.cases += 1;
            }
            "esac" => {
                self.cases = self.cases.saturating_sub(1);
                self.pattern = false;
            }
            "function" => self.after = After::Function,
            _ => self.program(text, expanded, false),
        }
    }

    fn program(&mut self, text: &str, expanded: bool, asks: bool) {
        if !expanded
            && let Some(program) = programs::known(text)
            && self.found.programs.len() < MOST_FACTS
        {
            self.found.programs.push((program, asks, self.line));
        }
    }

    fn mention(&mut self, text: &str) {
        let ending = text.rsplit_once('.').map_or("", |(_, ending)| ending);
        if matches!(ending, "py" | "js" | "mjs" | "cjs" | "ts" | "sh" | "bash" | "rb" | "pl")
            && self.found.mentions.len() < MOST_FACTS
        {
            self.found.mentions.push(text.to_owned());
        }
    }
}

/// The variable that a word sets: `NAME=x`, `NAME+=x`.
fn assigned_name(word: &str) -> Option<&str> {
    let (name, _) = word.split_once('=')?;
    let name = name.strip_suffix('+').unwrap_or(name);
    let right = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    right.then_some(name)
}
