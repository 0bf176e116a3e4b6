//! Programs: those that can't be reviewed, those under another name, and files that are two things at once.

use super::file::{Sample, extension, name};
use super::report::Report;
use super::rules::{DISGUISED, OPAQUE_CODE, POLYGLOT};

/// Names that promise a picture, a document or data.
const HARMLESS: [&str; 42] = [
    "png", "jpg", "jpeg", "gif", "webp", "bmp", "ico", "svg", "tiff", "pdf", "txt", "md", "csv", "tsv",
    "json", "yaml", "yml", "toml", "xml", "html", "css", "log", "doc", "docx", "xls", "xlsx", "ppt", "pptx",
    "odt", "rtf", "ttf", "otf", "woff", "woff2", "mp3", "mp4", "wav", "mov", "zip", "gz", "tar", "eps",
];
/// Of these, the ones that are put before a second extension to deceive.
const LURES: [&str; 13] =
    ["png", "jpg", "jpeg", "gif", "pdf", "txt", "doc", "docx", "xls", "xlsx", "mp3", "mp4", "csv"];
const RUNS: [&str; 16] = [
    "exe", "scr", "com", "bat", "cmd", "ps1", "vbs", "hta", "lnk", "sh", "bash", "command", "js", "jar",
    "msi", "app",
];
const COMPILED: [&str; 17] = [
    "pyc", "pyo", "pyd", "so", "dll", "dylib", "exe", "jar", "class", "wasm", "node", "msi", "deb", "rpm",
    "apk", "scr", "com",
];

pub(super) fn check(report: &mut Report, path: &str, sample: &Sample) {
    let ending = extension(path).to_ascii_lowercase();
    let harmless = HARMLESS.contains(&ending.as_str());
    let program = program(&sample.head);
    match program {
        Some(what) if harmless => {
            return report.add(
                &DISGUISED,
                path,
                None,
                &format!("{what} under a name that ends in .{ending}"),
            );
        }
        Some("a script") => {}
        Some(what) => report.add(&OPAQUE_CODE, path, None, what),
        None if COMPILED.contains(&ending.as_str()) && !sample.head.is_empty() => {
            report.add(&OPAQUE_CODE, path, None, &format!("a .{ending} file"));
        }
        None => {}
    }
    if RUNS.contains(&ending.as_str())
        && let Some(first) = name(path).rsplit('.').nth(1)
        && name(path).matches('.').count() > 1
        && LURES.contains(&first.trim().to_ascii_lowercase().as_str())
    {
        report.add(&DISGUISED, path, None, &format!("a name that looks like .{first} and ends in .{ending}"));
    }
    if let Some(what) = second_face(sample) {
        report.add(&POLYGLOT, path, None, what);
    }
}

/// What the first bytes say, if it can be run.
fn program(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x7f, b'E', b'L', b'F', ..] => Some("a Linux program"),
        [b'M', b'Z', ..] if is_portable_executable(bytes) => Some("a Windows program"),
        [0xfe, 0xed, 0xfa, 0xce | 0xcf, ..] | [0xce | 0xcf, 0xfa, 0xed, 0xfe, ..] => Some("a macOS program"),
        // A universal binary counts its parts where Java has its version, which is larger.
        [0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 1..=30, ..] => Some("a macOS program"),
        [0xca, 0xfe, 0xba, 0xbe, ..] => Some("a Java class"),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => Some("a WebAssembly program"),
        [b'#', b'!', b'/', ..] | [b'#', b'!', b' ', b'/', ..] => Some("a script"),
        _ => None,
    }
}

/// `MZ` alone could begin a text.
fn is_portable_executable(bytes: &[u8]) -> bool {
    let Some(at) = bytes.get(0x3c..0x40).and_then(|four| four.try_into().ok()).map(u32::from_le_bytes) else {
        return false;
    };
    let at = at as usize;
    bytes.get(at..at.saturating_add(4)) == Some(b"PE\0\0")
}

/// A picture that is something else too.
fn second_face(sample: &Sample) -> Option<&'static str> {
    let head = sample.head.as_slice();
    let is_png = head.starts_with(b"\x89PNG\r\n\x1a\n");
    let is_jpeg = head.starts_with(b"\xff\xd8\xff");
    let is_gif = head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a");
    let is_webp = head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP");
    let is_pdf = head.starts_with(b"%PDF-");
    if !(is_png || is_jpeg || is_gif || is_webp || is_pdf) {
        return None;
    }
    if ends_as_zip(sample.end()) {
        return Some("a picture or PDF that is also a zip archive");
    }
    if is_pdf {
        return None;
    }
    let end_mark: &[u8] = if is_png { b"IEND\xaeB`\x82" } else { b"\xff\xd9" };
    if (is_png || is_jpeg)
        && let Some(at) = rfind(sample.end(), end_mark)
    {
        let trailing = &sample.end()[at + end_mark.len()..];
        if program(trailing.trim_ascii_start()).is_some() {
            return Some("a picture with a program after its end");
        }
    }
    let code: [&[u8]; 5] = [b"<?php ", b"<script>", b"\n#!/bin/", b"\nimport os", b"powershell -"];
    let in_either = |mark: &[u8]| contains(head, mark) || contains(&sample.tail, mark);
    code.into_iter().any(in_either).then_some("a picture with code in it")
}

/// The record that ends a zip, with a comment that reaches exactly to the end of the file.
fn ends_as_zip(bytes: &[u8]) -> bool {
    const RECORD: usize = 22;
    rfind(bytes, b"PK\x05\x06").is_some_and(|at| {
        let comment = bytes
            .get(at + 20..at + RECORD)
            .map_or(0, |two| usize::from(u16::from_le_bytes([two[0], two[1]])));
        at + RECORD + comment == bytes.len()
    })
}

pub(super) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    memchr::memmem::find(bytes, part).is_some()
}

fn rfind(bytes: &[u8], part: &[u8]) -> Option<usize> {
    memchr::memmem::rfind(bytes, part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_their_first_bytes() {
        assert_eq!(program(b"\x7fELF\x02"), Some("a Linux program"));
        assert_eq!(program(b"\xca\xfe\xba\xbe\0\0\0\x02"), Some("a macOS program"));
        assert_eq!(program(b"\xca\xfe\xba\xbe\0\0\0\x41"), Some("a Java class"));
        let mut windows = vec![0; 0x80];
        windows[..2].copy_from_slice(b"MZ");
        windows[0x3c] = 0x40;
        windows[0x40..0x44].copy_from_slice(b"PE\0\0");
        assert_eq!(program(&windows), Some("a Windows program"));
        assert_eq!(program(b"MZ is a text that begins with two letters"), None);
        assert_eq!(program(b"#!important"), None);
        assert_eq!(program(b"MZ"), None);
        windows[0x3c..0x40].copy_from_slice(&[0xff; 4]);
        assert_eq!(program(&windows), None);
    }
}
