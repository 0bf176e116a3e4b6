//! Printing: tables and colour on a terminal, plain text in a pipe. A closed pipe is no reason to panic.

use std::io::{IsTerminal, Write, stderr, stdout};

use anstyle::{AnsiColor, Style};
use comfy_table::{ContentArrangement, Table, presets};
use ringfence_service::ServiceError;
use serde::Serialize;

/// One line on stdout.
pub(crate) fn line(text: impl AsRef<str>) {
    let _ = writeln!(stdout(), "{}", text.as_ref());
}

/// Text on stdout as it is.
pub(crate) fn raw(bytes: &[u8]) {
    let mut out = stdout();
    let _ = out.write_all(bytes);
    let _ = out.flush();
}

/// A time in milliseconds since 1970, as people read it.
pub(crate) fn moment(milliseconds: i64) -> String {
    let time = jiff::Timestamp::from_millisecond(milliseconds);
    time.map_or_else(|_| milliseconds.to_string(), |time| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
}

/// One JSON object, on one line if a program reads it.
pub(crate) fn json(value: &impl Serialize) {
    let text = if stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    match text {
        Ok(text) => line(escaped_json(&text)),
        Err(error) => say("error", AnsiColor::Red, &format!("the result can't be written as JSON: {error}")),
    }
}

/// JSON that holds somebody else's text, for people: the same JSON, with nothing hidden in it.
pub(crate) fn pretty(value: &impl Serialize) {
    line(escaped_json(&serde_json::to_string_pretty(value).unwrap_or_default()));
}

/// Lines of JSON as they are in a pipe; on a terminal the same JSON with nothing hidden in it.
pub(crate) fn json_lines(bytes: &[u8]) {
    if stdout().is_terminal() {
        raw(escaped_json(&String::from_utf8_lossy(bytes)).as_bytes());
    } else {
        raw(bytes);
    }
}

/// The same JSON: outside of a string there is nothing to escape, in one `\uXXXX` means the character.
pub(crate) fn escaped_json(text: &str) -> String {
    let is_fine = |character: char| matches!(character, '\n') || !is_hidden(character);
    if text.chars().all(is_fine) {
        return text.to_owned();
    }
    let mut shown = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        if is_fine(character) {
            shown.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                shown.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    shown
}

pub(crate) fn error(error: &ServiceError) {
    say("error", AnsiColor::Red, &error.message);
    if !error.hint.is_empty() {
        let _ = writeln!(stderr(), "  {} {}", painted(AnsiColor::Cyan, "try:"), printable(&error.hint));
    }
}

pub(crate) fn warning(text: &str) {
    say("warning", AnsiColor::Yellow, text);
}

pub(crate) fn denied(text: &str) {
    say("denied", AnsiColor::Yellow, text);
}

pub(crate) fn note(text: &str) {
    say("note", AnsiColor::Cyan, text);
}

pub(crate) fn learned(text: &str) {
    say("learned", AnsiColor::Green, text);
}

/// Text of our own below a line that was said.
pub(crate) fn below(text: &str) {
    let lines: String = text.lines().map(|line| format!("  {}\n", printable(line))).collect();
    let _ = stderr().write_all(lines.as_bytes());
}

fn say(kind: &str, colour: AnsiColor, text: &str) {
    // One write, so that two runs on one terminal don't mix their lines.
    let line = format!("ringfence: {} {}\n", painted(colour, &format!("{kind}:")), printable(text));
    let _ = stderr().write_all(line.as_bytes());
}

fn painted(colour: AnsiColor, text: &str) -> String {
    if stderr().is_terminal() && wants_colour() {
        let style = Style::new().bold().fg_color(Some(colour.into()));
        format!("{style}{text}{style:#}")
    } else {
        text.to_owned()
    }
}

/// NO_COLOR, whatever its value unless empty, and a terminal that can't.
fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_none_or(|value| value != "dumb")
}

/// Names come from commands and files: nothing in them may move a terminal's cursor, or show another text than it is.
pub(crate) fn printable(text: &str) -> String {
    escaped(text, |character| !is_hidden(character))
}

/// Text of several lines by somebody else: as it is in a pipe, fit for a terminal on one.
pub(crate) fn foreign(bytes: &[u8]) {
    if stdout().is_terminal() {
        let text = String::from_utf8_lossy(bytes);
        raw(escaped(&text, |character| matches!(character, '\n' | '\t') || !is_hidden(character)).as_bytes());
    } else {
        raw(bytes);
    }
}

fn escaped(text: &str, is_fine: impl Fn(char) -> bool) -> String {
    if text.chars().all(&is_fine) {
        return text.to_owned();
    }
    let escape = |c: char| if is_fine(c) { c.to_string() } else { c.escape_default().to_string() };
    text.chars().map(escape).collect()
}

/// Controls, and what a terminal shows as nothing or in another order: bidirectional marks, zero-width characters, line
/// separators, tags.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Rows under a header: a table on a terminal, tab-separated lines in a pipe.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    raw(rendered(header, rows, stdout()).as_bytes());
}

/// The same beside a command's output, which has stdout.
pub(crate) fn side_table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) {
    let _ = stderr().write_all(rendered(header, rows, stderr()).as_bytes());
}

fn rendered<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    out: impl IsTerminal + std::os::fd::AsFd,
) -> String {
    let rows = rows.into_iter().map(|row| row.map(|cell| printable(&cell)));
    if !out.is_terminal() {
        return rows.map(|row| format!("{}\n", row.join("\t").trim_end_matches('\t'))).collect();
    }
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    if let Ok(size) = rustix::termios::tcgetwinsize(out)
        && size.ws_col > 0
    {
        table.set_width(size.ws_col);
    }
    table.set_header(header);
    table.add_rows(rows);
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\x1b[2J\u{9b}\u{202e}b\u{200b}\u{e0041}é";

    #[test]
    fn nothing_hidden_reaches_a_terminal() {
        assert_eq!(printable(HOSTILE), "a\\u{1b}[2J\\u{9b}\\u{202e}b\\u{200b}\\u{e0041}é");
        assert_eq!(printable("naïve 日本 e\u{301}"), "naïve 日本 e\u{301}");
    }

    #[test]
    fn escaped_json_says_the_same() {
        let text = serde_json::to_string_pretty(&serde_json::json!({ "x": HOSTILE })).unwrap();
        let shown = escaped_json(&text);
        assert!(!shown.chars().any(|letter| letter != '\n' && is_hidden(letter)), "{shown}");
        let back: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(back["x"], HOSTILE);
    }
}
