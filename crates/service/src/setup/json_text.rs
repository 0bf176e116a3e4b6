//! Changing one value in a JSON text that a person wrote: everything else stays as it is, comments and order too.
//!
//! The text is read by a small scanner that knows where each member begins and ends. It takes `//` and `/* */` as space
//! and a comma before a closing brace, since some clients do; which one does is in `syntax`. What it can't read is an error,
//! never a guess.

use std::ops::Range;

use serde_json::Value;

/// Why a text can't be changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct JsonTextError(String);

#[derive(Debug)]
struct Member {
    key: String,
    /// From the key's first quote.
    start: usize,
    value: Range<usize>,
}

impl Member {
    /// What it holds, where something is to be found in it.
    fn object(&self, text: &str) -> Result<Object, JsonTextError> {
        match text.as_bytes().get(self.value.start) {
            Some(b'{') => object_at(text, self.value.start),
            _ => Err(JsonTextError(format!("`{}` is not an object", self.key))),
        }
    }
}

#[derive(Debug)]
struct Object {
    /// Without the braces.
    inner: Range<usize>,
    members: Vec<Member>,
}

/// Nested deeper than any settings are.
const DEEPEST: usize = 64;

/// The value at `path`, as it is written.
pub(crate) fn get(text: &str, path: &[&str]) -> Result<Option<Value>, JsonTextError> {
    let Some(range) = find(text, path)? else { return Ok(None) };
    let bare = without_comments(&text[range]);
    serde_json::from_str(&bare).map(Some).map_err(|error| JsonTextError(error.to_string()))
}

/// `text` with `value` at `path`; the objects on the way are made where they are missing.
pub(crate) fn set(text: &str, path: &[&str], value: &Value) -> Result<String, JsonTextError> {
    let start = if text.trim().is_empty() { "{}\n" } else { text };
    let root = root(start)?;
    set_in(start, &root, path, value, 1)
}

/// `text` without the member at `path`, and without the objects on the way that are empty then.
pub(crate) fn remove(text: &str, path: &[&str]) -> Result<String, JsonTextError> {
    let mut text = text.to_owned();
    for length in (1..=path.len()).rev() {
        let Some(range) = find(&text, &path[..length])? else { continue };
        let is_target = length == path.len();
        if !is_target && !object_at(&text, range.start)?.members.is_empty() {
            break;
        }
        let parent = match length {
            1 => root(&text)?,
            _ => {
                let Some(range) = find(&text, &path[..length - 1])? else { break };
                object_at(&text, range.start)?
            }
        };
        text = cut(&text, &parent, path[length - 1]);
    }
    Ok(text)
}

fn set_in(
    text: &str,
    object: &Object,
    path: &[&str],
    value: &Value,
    depth: usize,
) -> Result<String, JsonTextError> {
    let Some((first, rest)) = path.split_first() else {
        return Err(JsonTextError("no key was named".into()));
    };
    if let Some(member) = object.members.iter().find(|member| member.key == *first) {
        if rest.is_empty() {
            let written = written(text, value, depth);
            return Ok(format!("{}{written}{}", &text[..member.value.start], &text[member.value.end..]));
        }
        let inner = member.object(text)?;
        return set_in(text, &inner, rest, value, depth + 1);
    }
    let nested = rest.iter().rev().fold(value.clone(), |value, key| serde_json::json!({ *key: value }));
    let unit = unit(text);
    let member = format!("{}: {}", Value::from(*first), written(text, &nested, depth));
    let (pad, end) = (unit.repeat(depth), unit.repeat(depth - 1));
    Ok(match object.members.last() {
        Some(last) => {
            let at = last.value.end;
            format!("{},\n{pad}{member}{}", &text[..at], &text[at..])
        }
        None => {
            let kept = text[object.inner.clone()].trim();
            let kept = if kept.is_empty() { String::new() } else { format!("\n{pad}{kept}") };
            let (start, rest) = (&text[..object.inner.start], &text[object.inner.end..]);
            format!("{start}{kept}\n{pad}{member}\n{end}{rest}")
        }
    })
}

/// As the rest of the file is indented.
fn written(text: &str, value: &Value, depth: usize) -> String {
    let unit = unit(text);
    let pretty = serde_json::to_string_pretty(value).unwrap_or_default();
    let mut lines = pretty.lines().map(|line| {
        let trimmed = line.trim_start();
        (line.len() - trimmed.len()) / 2
    });
    let depths: Vec<usize> = lines.by_ref().collect();
    let mut out = String::new();
    for (i, line) in pretty.lines().enumerate() {
        if i > 0 {
            out.push('\n');
            out.push_str(&unit.repeat(depth + depths[i]));
        }
        out.push_str(line.trim_start());
    }
    out
}

fn unit(text: &str) -> String {
    let indented = text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
    let unit = indented.map(|line| &line[..line.len() - line.trim_start().len()]);
    unit.filter(|unit| unit.len() <= 8).unwrap_or("  ").to_owned()
}

fn cut(text: &str, object: &Object, key: &str) -> String {
    let Some(at) = object.members.iter().position(|member| member.key == key) else { return text.to_owned() };
    let member = &object.members[at];
    let (mut start, mut end) = (member.start, member.value.end);
    match (at.checked_sub(1), object.members.get(at + 1)) {
        // What stood between it and the one before goes with it.
        (Some(before), None) => start = object.members[before].value.end,
        (_, Some(after)) => end = after.start,
        (None, None) => {
            // What somebody wrote beside it stays.
            let (before, after) = (&text[object.inner.start..start], &text[end..object.inner.end]);
            let words: Vec<&str> = [before, after.trim_start().trim_start_matches(',')]
                .into_iter()
                .map(str::trim)
                .filter(|words| !words.is_empty())
                .collect();
            let kept = if words.is_empty() { String::new() } else { format!("\n{}\n", words.join("\n")) };
            return format!("{}{kept}{}", &text[..object.inner.start], &text[object.inner.end..]);
        }
    }
    format!("{}{}", &text[..start], &text[end..])
}

fn find(text: &str, path: &[&str]) -> Result<Option<Range<usize>>, JsonTextError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let mut object = root(text)?;
    for (i, key) in path.iter().enumerate() {
        let Some(member) = object.members.iter().find(|member| member.key == *key) else { return Ok(None) };
        if i + 1 == path.len() {
            return Ok(Some(member.value.clone()));
        }
        object = member.object(text)?;
    }
    Ok(None)
}

fn root(text: &str) -> Result<Object, JsonTextError> {
    let mut scan = Scan { text, at: 0 };
    scan.space()?;
    let object = object_at(text, scan.at)?;
    scan.at = object.inner.end + 1;
    scan.space()?;
    if scan.at < text.len() {
        Err(JsonTextError("there is something behind its end".into()))
    } else {
        Ok(object)
    }
}

fn object_at(text: &str, at: usize) -> Result<Object, JsonTextError> {
    let mut scan = Scan { text, at };
    scan.expect(b'{')?;
    let start = scan.at;
    let mut members: Vec<Member> = Vec::new();
    loop {
        scan.space()?;
        if scan.peek() == Some(b'}') {
            return Ok(Object { inner: start..scan.at, members });
        }
        let key_start = scan.at;
        let key: String = serde_json::from_str(&text[scan.string()?])
            .map_err(|error| JsonTextError(format!("a key can't be read: {error}")))?;
        if members.iter().any(|member| member.key == key) {
            return Err(JsonTextError(format!("`{key}` is there twice")));
        }
        scan.space()?;
        scan.expect(b':')?;
        scan.space()?;
        let value_start = scan.at;
        scan.value(0)?;
        members.push(Member { key, start: key_start, value: value_start..scan.at });
        scan.space()?;
        match scan.peek() {
            Some(b',') => scan.at += 1,
            Some(b'}') => {}
            _ => return Err(scan.wrong()),
        }
    }
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn wrong(&self) -> JsonTextError {
        let line = self.text[..self.at.min(self.text.len())].lines().count().max(1);
        JsonTextError(format!("line {line} is not JSON"))
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonTextError> {
        if self.peek() != Some(byte) {
            return Err(self.wrong());
        }
        self.at += 1;
        Ok(())
    }

    fn space(&mut self) -> Result<(), JsonTextError> {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}']);
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                self.at += trimmed.find("*/").ok_or_else(|| self.wrong())? + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn string(&mut self) -> Result<Range<usize>, JsonTextError> {
        let start = self.at;
        self.expect(b'"')?;
        loop {
            match self.peek().ok_or_else(|| self.wrong())? {
                b'"' => {
                    self.at += 1;
                    return Ok(start..self.at);
                }
                b'\\' => self.at += 2,
                _ => self.at += 1,
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), JsonTextError> {
        if depth > DEEPEST {
            return Err(JsonTextError("it is nested too deep".into()));
        }
        match self.peek() {
            Some(b'"') => self.string().map(|_| ()),
            Some(open @ (b'{' | b'[')) => {
                let close = if open == b'{' { b'}' } else { b']' };
                self.at += 1;
                loop {
                    self.space()?;
                    match self.peek() {
                        Some(byte) if byte == close => {
                            self.at += 1;
                            return Ok(());
                        }
                        Some(b',' | b':') => self.at += 1,
                        _ => self.value(depth + 1)?,
                    }
                }
            }
            _ => {
                let rest = &self.text[self.at..];
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)));
                let end = end.unwrap_or(rest.len());
                if end == 0 {
                    return Err(self.wrong());
                }
                self.at += end;
                Ok(())
            }
        }
    }
}

/// Each comment is a space.
pub(crate) fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut scan = Scan { text, at: 0 };
    while let Some(byte) = scan.peek() {
        let start = scan.at;
        match byte {
            b'"' if scan.string().is_ok() => out.push_str(&text[start..scan.at]),
            b'/' if scan.space().is_ok() && scan.at > start => out.push(' '),
            _ => {
                let letter = text[start..].chars().next().unwrap_or(' ');
                scan.at = start + letter.len_utf8();
                out.push(letter);
            }
        }
    }
    out
}

/// Neither comments nor commas before a closing bracket.
pub(crate) fn without_comments_and_commas(text: &str) -> String {
    let text = without_comments(text);
    let mut out = String::with_capacity(text.len());
    let mut scan = Scan { text: &text, at: 0 };
    while let Some(byte) = scan.peek() {
        let start = scan.at;
        match byte {
            b'"' if scan.string().is_ok() => out.push_str(&text[start..scan.at]),
            b',' if text[start + 1..].trim_start().starts_with([']', '}']) => scan.at = start + 1,
            _ => {
                let letter = text[start..].chars().next().unwrap_or(' ');
                scan.at = start + letter.len_utf8();
                out.push(letter);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_value_changes_and_the_rest_stays() {
        let text = "{\n    // mine\n    \"a\": [1, /* two */ 2],\n    \"env\": { \"X\": \"y\" } // end\n}\n";
        let after = set(text, &["env", "P"], &json!("q")).unwrap();
        assert_eq!(after, text.replace("\"X\": \"y\"", "\"X\": \"y\",\n        \"P\": \"q\""));
        assert_eq!(get(&after, &["env", "P"]).unwrap(), Some(json!("q")));
        assert_eq!(get(&after, &["a"]).unwrap(), Some(json!([1, 2])));
        assert_eq!(remove(&after, &["env", "P"]).unwrap(), text);
        let replaced = set(&after, &["env", "P"], &json!("z")).unwrap();
        assert_eq!(replaced, after.replace("\"q\"", "\"z\""));
    }

    #[test]
    fn what_is_missing_is_made_and_taken_away_again() {
        for text in ["{}\n", "{\n  \"b\": 1\n}\n", "{\"b\":{\"c\":2}}", "{ /* nothing */ }"] {
            let after = set(text, &["x", "y"], &json!({ "k": [1] })).unwrap();
            assert_eq!(get(&after, &["x", "y", "k"]).unwrap(), Some(json!([1])), "{after}");
            let back = remove(&after, &["x", "y"]).unwrap();
            assert_eq!(get(&back, &["x"]).unwrap(), None, "{back}");
            assert_eq!(get(&back, &["b"]).unwrap(), get(text, &["b"]).unwrap());
        }
        assert_eq!(set("", &["a"], &json!(1)).unwrap(), "{\n  \"a\": 1\n}\n");
    }

    #[test]
    fn what_is_not_json_is_left_alone() {
        for text in [
            "{",
            "[1]",
            "{\"a\" 1}",
            "{\"a\": }",
            "{} x",
            "{\"a\":1,\"a\":2}",
            "{\"a\": /* }",
            "{\"a\": \"\\",
        ] {
            assert!(set(text, &["b"], &json!(1)).is_err(), "{text}");
        }
        let deep = "[".repeat(500) + &"]".repeat(500);
        assert!(set(&format!("{{\"a\": {deep}}}"), &["b"], &json!(1)).is_err());
        let error = set("{\"a\": 1}", &["a", "b"], &json!(1)).unwrap_err();
        assert_eq!(error.to_string(), "`a` is not an object");
        assert_eq!(get("{\"a\": 1}", &["a", "b"]).unwrap_err(), error);
    }
}
