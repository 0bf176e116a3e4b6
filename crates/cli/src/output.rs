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

/// One JSON object, on one line if a program reads it.
pub(crate) fn json(value: &impl Serialize) {
    let text = if stdout().is_terminal() {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    match text {
        Ok(text) => line(text),
        Err(error) => say("error", AnsiColor::Red, &format!("the result can't be written as JSON: {error}")),
    }
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

/// Names come from commands and files: nothing in them may move a terminal's cursor.
pub(crate) fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    let escape = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escape).collect()
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
