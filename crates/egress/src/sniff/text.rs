//! Does a first line ask for HTTP, as the most forgiving server would read it?

use super::Verdict;

/// A request line that has not ended after so many bytes is for the HTTP path to refuse.
const LONGEST_LINE: usize = 16 * 1024;

#[derive(Debug, Default)]
pub(crate) struct RequestLine {
    at: usize,
    part: Part,
    /// The first word starts with a digit: no method that a server knows, but the start of a git packet.
    digit: bool,
    matched: usize,
    /// `HTTP/` was seen.
    named: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Empty lines, which servers skip.
    #[default]
    Before,
    Method,
    Rest,
}

const MARK: &[u8] = b"HTTP/";

impl RequestLine {
    pub(crate) fn look(&mut self, bytes: &[u8]) -> Verdict {
        for &byte in bytes.iter().skip(self.at) {
            self.at += 1;
            if let Some(verdict) = self.step(byte) {
                return verdict;
            }
        }
        if self.at >= LONGEST_LINE { Verdict::Http } else { Verdict::More }
    }

    /// The line ends here without a line end.
    pub(crate) fn end(&self) -> Verdict {
        if self.named { Verdict::Http } else { Verdict::Raw }
    }

    fn step(&mut self, byte: u8) -> Option<Verdict> {
        match self.part {
            Part::Before if is_blank(byte) || byte == b'\n' => None,
            Part::Before if is_method(byte) => {
                self.part = Part::Method;
                self.digit = byte.is_ascii_digit();
                None
            }
            Part::Method if is_method(byte) => None,
            // A line of one word.
            Part::Method if byte == b'\n' => Some(Verdict::Raw),
            Part::Method if is_blank(byte) => {
                self.part = Part::Rest;
                None
            }
            Part::Before | Part::Method => Some(Verdict::Raw),
            Part::Rest if byte == b'\n' => Some(if self.named { Verdict::Http } else { Verdict::Raw }),
            Part::Rest if self.digit && byte == 0 => Some(Verdict::Raw),
            Part::Rest => {
                self.follow(byte);
                None
            }
        }
    }

    /// One more byte of a search for `HTTP/` in any case. No part of the mark repeats its start but `H` itself.
    fn follow(&mut self, byte: u8) {
        let byte = byte.to_ascii_uppercase();
        self.matched = match MARK.get(self.matched) {
            Some(&next) if next == byte => self.matched + 1,
            _ => usize::from(byte == b'H'),
        };
        if self.matched == MARK.len() {
            self.named = true;
            self.matched = 0;
        }
    }
}

/// What some server takes for a space.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c | 0x1c..=0x1f)
}

/// The characters of a method (RFC 9110, "token").
fn is_method(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
