//! Taking known secrets out of what is about to be written down: as they are, escaped for JSON or for a URL (once or several
//! times over), in base64 (also in the middle of something longer, such as `user:password`) and in hex.
//!
//! A last line of defence: it finds what it is given, in encodings that it knows. Callers keep secrets out.

use std::ops::Range;

use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use serde_json::{Map, Value};

use super::AuditEntry;

/// What is there instead.
pub const REDACTED: &str = "[redacted]";

/// Shorter pieces of base64 or hex would be found in innocent text.
const SHORTEST_ENCODED: usize = 6;

/// A copy without these secrets, in strings, in the names of fields and in numbers.
pub fn redact(value: &Value, secrets: &[&str]) -> Value {
    Redactor::new(secrets).value(value)
}

pub(super) struct Redactor {
    needles: Vec<Needle>,
}

struct Needle {
    text: Vec<char>,
    /// The characters before and after belong to it in part.
    partial_start: bool,
    partial_end: bool,
}

impl Redactor {
    pub(super) fn new(secrets: &[&str]) -> Self {
        Self {
            needles: secrets
                .iter()
                .filter(|secret| !secret.is_empty())
                .flat_map(|secret| needles(secret))
                .collect(),
        }
    }

    pub(super) fn entry(&self, entry: AuditEntry) -> AuditEntry {
        if self.needles.is_empty() {
            return entry;
        }
        let optional = |text: Option<String>| text.map(|text| self.text(&text));
        AuditEntry {
            at: entry.at,
            user: self.text(&entry.user),
            kind: self.text(&entry.kind),
            target: optional(entry.target),
            decision: optional(entry.decision),
            policy_digest: optional(entry.policy_digest),
            receipt_digest: optional(entry.receipt_digest),
            denials: self.value(&entry.denials),
            result: self.value(&entry.result),
            request_id: optional(entry.request_id),
            origin: optional(entry.origin),
        }
    }

    fn value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let mut kept = Map::new();
                for (name, field) in fields {
                    let mut name = self.text(name);
                    // Two names with the same secret in them stay two fields.
                    while kept.contains_key(&name) {
                        name.push('_');
                    }
                    kept.insert(name, self.value(field));
                }
                Value::Object(kept)
            }
            Value::Number(number) => {
                let text = number.to_string();
                if self.spans(&text).is_empty() { value.clone() } else { Value::String(self.text(&text)) }
            }
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }

    fn text(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        let mut done = 0;
        for span in self.spans(text) {
            clean.push_str(&text[done..span.start]);
            clean.push_str(REDACTED);
            done = span.end;
        }
        clean.push_str(&text[done..]);
        clean
    }

    /// Where secrets are, in order, those that overlap as one.
    fn spans(&self, text: &str) -> Vec<Range<usize>> {
        let mut found: Vec<Range<usize>> = Vec::new();
        for needle in &self.needles {
            found.extend(text.char_indices().filter_map(|(start, _)| needle.found_at(text, start)));
        }
        found.sort_by_key(|span| (span.start, span.end));
        let mut spans: Vec<Range<usize>> = Vec::new();
        for span in found {
            match spans.last_mut() {
                Some(last) if span.start < last.end => last.end = last.end.max(span.end),
                _ => spans.push(span),
            }
        }
        spans
    }
}

fn needles(secret: &str) -> Vec<Needle> {
    let whole =
        |text: &str| Needle { text: text.chars().collect(), partial_start: false, partial_end: false };
    let mut needles = vec![whole(secret)];
    for (alphabet, others) in [(&STANDARD, false), (&URL_SAFE, true)] {
        for offset in 0..3 {
            needles.extend(base64_piece(secret.as_bytes(), offset, alphabet, others));
        }
    }
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    if hex.len() >= SHORTEST_ENCODED {
        needles.push(whole(&hex.to_uppercase()));
        needles.push(whole(&hex));
    }
    needles
}

/// The characters that come of the secret alone, whatever stands before and after it, if `offset` bytes (modulo three) stand
/// before it.
fn base64_piece(secret: &[u8], offset: usize, alphabet: &Alphabet, skip_if_common: bool) -> Option<Needle> {
    let mut bytes = vec![0; offset];
    bytes.extend_from_slice(secret);
    let text = GeneralPurpose::new(alphabet, NO_PAD).encode(&bytes);
    let start = (offset * 8).div_ceil(6);
    let end = bytes.len() * 8 / 6;
    let piece = text.get(start..end).filter(|piece| piece.len() >= SHORTEST_ENCODED)?;
    if skip_if_common && !piece.contains(['-', '_']) {
        return None;
    }
    Some(Needle {
        text: piece.chars().collect(),
        partial_start: offset > 0,
        partial_end: !(bytes.len() * 8).is_multiple_of(6),
    })
}

impl Needle {
    fn found_at(&self, text: &str, start: usize) -> Option<Range<usize>> {
        let end = self.matched(text.as_bytes(), start)?;
        let (mut start, mut end) = (start, end);
        let bytes = text.as_bytes();
        if self.partial_start {
            start = [1, 3]
                .into_iter()
                .filter_map(|length| start.checked_sub(length))
                .find(|before| base64_character(bytes, *before) == Some(start))
                .unwrap_or(start);
        }
        if self.partial_end {
            end = base64_character(bytes, end).unwrap_or(end);
            while let Some(after) = after(bytes, end, b"=").or_else(|| percent_encoded(bytes, end, b"=")) {
                end = after;
            }
        }
        Some(start..end)
    }

    /// The furthest end of a way to read the needle from there on.
    fn matched(&self, text: &[u8], start: usize) -> Option<usize> {
        if !self.may_begin_at(text, start) {
            return None;
        }
        let mut ends = vec![start];
        let mut next = Vec::new();
        for group in self.text.chunk_by(|one, other| *one == '\\' && *other == '\\') {
            next.clear();
            for end in &ends {
                match group {
                    ['\\', ..] => backslashes_read(text, *end, group.len(), &mut next),
                    [character, ..] => readings(text, *end, *character, &mut next),
                    [] => {}
                }
            }
            if next.is_empty() {
                return None;
            }
            next.sort_unstable();
            next.dedup();
            std::mem::swap(&mut ends, &mut next);
        }
        ends.last().copied()
    }

    /// Most places are ruled out by their first byte. A run of backslashes is read from its first one, which covers all that
    /// begins in it: so a hostile text takes time by its length and not by the square of it.
    fn may_begin_at(&self, text: &[u8], start: usize) -> bool {
        let mut buffer = [0; 4];
        match text[start] {
            b'%' | b'+' => true,
            b'\\' => start == 0 || text[start - 1] != b'\\',
            byte => {
                self.text.first().is_some_and(|first| first.encode_utf8(&mut buffer).as_bytes()[0] == byte)
            }
        }
    }
}

/// Where a character of base64 ends that begins there, be it encoded for a URL.
fn base64_character(text: &[u8], at: usize) -> Option<usize> {
    let byte = *text.get(at)?;
    if byte.is_ascii_alphanumeric() || b"+/-_".contains(&byte) {
        return Some(at + 1);
    }
    b"+/".iter().find_map(|byte| percent_encoded(text, at, &[*byte]))
}

/// All the places where one character can end that begins there, written plainly or escaped.
fn readings(text: &[u8], at: usize, character: char, ends: &mut Vec<usize>) {
    let mut buffer = [0; 4];
    let plain = character.encode_utf8(&mut buffer).as_bytes();
    if text[at..].starts_with(plain) {
        ends.push(at + plain.len());
    }
    match text.get(at) {
        Some(b'+') if character == ' ' => ends.push(at + 1),
        Some(b'%') => {
            ends.extend(percent_encoded(text, at, plain));
            if character == ' ' {
                // A form's plus sign that was encoded again.
                ends.extend(percent_encoded(text, at, b"+"));
            }
        }
        Some(b'\\') => backslashed(text, at, character, ends),
        _ => {}
    }
}

/// `%2F`, and `%252F` where it was encoded again.
fn percent_encoded(text: &[u8], mut at: usize, plain: &[u8]) -> Option<usize> {
    for byte in plain {
        at = after(text, at, b"%")?;
        while text[at..].starts_with(b"25") && text.get(at + 2..at + 4).is_some_and(is_hex) && *byte != b'%' {
            at += 2;
        }
        // A percent sign is 25 itself, and may have been encoded any number of times.
        while *byte == b'%' && text[at..].starts_with(b"2525") {
            at += 2;
        }
        let digits = text.get(at..at + 2).filter(|digits| is_hex(digits))?;
        if u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()? != *byte {
            return None;
        }
        at += 2;
    }
    Some(at)
}

/// `\n`, `\"`, `\u00e9`, with more backslashes where it was escaped again.
fn backslashed(text: &[u8], at: usize, character: char, ends: &mut Vec<usize>) {
    let letter = match character {
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\u{8}' => b'b',
        '\u{c}' => b'f',
        '"' | '/' | '\'' => character as u8,
        _ => 0,
    };
    let behind = at + backslashes(text, at);
    if letter != 0 && text.get(behind) == Some(&letter) {
        ends.push(behind + 1);
    }
    ends.extend(unicode_escaped(text, at, character));
}

/// Backslashes of the secret itself, which may be more where they were escaped. The last of the run may be the escape of
/// what follows.
fn backslashes_read(text: &[u8], at: usize, count: usize, ends: &mut Vec<usize>) {
    let run = backslashes(text, at);
    if run >= count {
        ends.push(at + run);
    }
    if run > count {
        ends.push(at + run - 1);
    }
    ends.extend(percent_encoded(text, at, &vec![b'\\'; count]));
    ends.extend((0..count).try_fold(at, |at, _| unicode_escaped(text, at, '\\')));
}

/// `\u00e9`, or the two of a character that needs two.
fn unicode_escaped(text: &[u8], at: usize, character: char) -> Option<usize> {
    character.encode_utf16(&mut [0; 2]).iter().try_fold(at, |at, unit| {
        let at = match backslashes(text, at) {
            0 => return None,
            run => after(text, at + run, b"u")?,
        };
        let digits = text.get(at..at + 4).filter(|digits| is_hex(digits))?;
        let value = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        (value == *unit).then_some(at + 4)
    })
}

fn backslashes(text: &[u8], at: usize) -> usize {
    text[at..].iter().take_while(|byte| **byte == b'\\').count()
}

fn after(text: &[u8], at: usize, expected: &[u8]) -> Option<usize> {
    text.get(at..)?.starts_with(expected).then_some(at + expected.len())
}

fn is_hex(digits: &[u8]) -> bool {
    digits.iter().all(u8::is_ascii_hexdigit)
}

#[cfg(test)]
#[path = "redact_tests.rs"]
mod tests;
