//! Sizes that the specification advises against, or that make a skill slow to carry.

use super::report::Report;
use super::rules::{LARGE_FILE, LARGE_SKILL, LONG_MANIFEST};
use super::text::Text;
use crate::tree::{Entry, Kind};

const MANIFEST_LINES: usize = 500;
const MANIFEST_TOKENS: usize = 5_000;
const FILE: u64 = 5 << 20;
const SKILL: u64 = 50 << 20;
const FILES: usize = 1_000;

pub(super) fn check_manifest(report: &mut Report, path: &str, text: &Text) {
    let lines = text.lines();
    // Four characters a token is what English comes to; other scripts have more tokens a character.
    let (ascii, others) = text.source.chars().fold((0, 0), |(ascii, others), character| {
        if character.is_ascii() { (ascii + 1, others) } else { (ascii, others + 1) }
    });
    let tokens = ascii / 4 + others;
    if lines > MANIFEST_LINES || tokens > MANIFEST_TOKENS {
        report.add(&LONG_MANIFEST, path, None, &format!("{lines} lines, some {tokens} tokens"));
    }
}

pub(super) fn check_file(report: &mut Report, path: &str, size: u64) {
    if size > FILE {
        report.add(&LARGE_FILE, path, None, &format!("{} MiB", size >> 20));
    }
}

pub(super) fn check_skill(report: &mut Report, entries: &[Entry]) {
    let sizes = entries.iter().filter_map(|entry| match entry.kind {
        Kind::File { size, .. } => Some(size),
        _ => None,
    });
    let (files, bytes) =
        sizes.fold((0, 0u64), |(files, bytes), size| (files + 1, bytes.saturating_add(size)));
    if bytes > SKILL || files > FILES {
        report.add(&LARGE_SKILL, ".", None, &format!("{files} files, {} MiB", bytes >> 20));
    }
}
