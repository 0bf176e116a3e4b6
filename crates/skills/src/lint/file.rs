//! A bounded look at one file: its first bytes, its last ones, and what kind of file it is.

use std::io::{Read, Seek, SeekFrom};

use crate::tree::{Tree, TreeError};

/// Of one file: so much from its start, and of a longer one so much from its end.
pub(super) const HEAD: u64 = 1 << 20;
const TAIL: u64 = 70 << 10;
/// Of all files together.
const ALL: u64 = 24 << 20;

/// What is left to read, and what was learned on the way.
pub(super) struct Budget {
    bytes: u64,
    pub(super) left_out: usize,
    /// Where the manifest says `allowed-tools`.
    pub(super) tools_line: Option<u32>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: ALL, left_out: 0, tools_line: None }
    }
}

/// What was read of a file.
pub(super) struct Sample {
    pub(super) head: Vec<u8>,
    /// The end of a file that is longer than `head`.
    pub(super) tail: Vec<u8>,
    pub(super) whole: bool,
}

impl Sample {
    /// Nothing, where the budget is used up.
    pub(super) fn read(
        tree: &Tree,
        path: &str,
        size: u64,
        budget: &mut Budget,
    ) -> Result<Option<Self>, TreeError> {
        let wanted = size.min(HEAD + TAIL);
        if budget.bytes < wanted {
            budget.left_out += 1;
            return Ok(None);
        }
        budget.bytes -= wanted;
        let failed = |source| TreeError::Io { path: path.to_owned(), source };
        let mut file = tree.open(path)?;
        let mut head = Vec::new();
        file.by_ref().take(HEAD).read_to_end(&mut head).map_err(failed)?;
        let mut tail = Vec::new();
        if size > HEAD {
            file.seek(SeekFrom::Start(size.saturating_sub(TAIL).max(HEAD))).map_err(failed)?;
            file.take(TAIL).read_to_end(&mut tail).map_err(failed)?;
        }
        Ok(Some(Self { head, tail, whole: size <= HEAD }))
    }

    /// The last bytes that were read.
    pub(super) fn end(&self) -> &[u8] {
        if self.whole { &self.head } else { &self.tail }
    }
}

/// How a file is read by whoever uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// For people and models.
    Document,
    Script(Language),
    /// Settings and tables.
    Data,
    /// Text of no known kind.
    Other,
    Binary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Python,
    Shell,
    Another,
}

/// Does lint read a file of this name as a script, whatever bytes are in it?
pub fn is_script_name(path: &str) -> bool {
    matches!(Class::by_extension(extension(path)), Some(Class::Script(_)))
}

impl Class {
    pub(super) fn of(path: &str, bytes: &[u8]) -> Self {
        let by_name = Self::by_extension(extension(path));
        match by_name {
            Some(class) => class,
            None => match Self::by_shebang(bytes) {
                Some(class) => class,
                None if looks_like_text(bytes) => Self::Other,
                None => Self::Binary,
            },
        }
    }

    fn by_extension(extension: &str) -> Option<Self> {
        let lower = extension.to_ascii_lowercase();
        Some(match lower.as_str() {
            "md" | "mdx" | "markdown" | "txt" | "rst" | "adoc" | "html" | "htm" | "mdc" | "org" => {
                Self::Document
            }
            "py" | "pyw" => Self::Script(Language::Python),
            "sh" | "bash" => Self::Script(Language::Shell),
            "zsh" | "fish" | "ksh" | "js" | "mjs" | "cjs" | "ts" | "mts" | "cts" | "tsx" | "jsx" | "rb"
            | "pl" | "pm" | "php" | "ps1" | "psm1" | "bat" | "cmd" | "vbs" | "lua" | "r" | "jl" | "awk"
            | "sed" | "tcl" | "exp" | "ex" | "exs" | "jq" | "nu" | "raku" | "clj" | "groovy" | "kts"
            | "scm" | "el" | "go" | "rs" | "java" | "c" | "cpp" | "swift" | "applescript" | "command" => {
                Self::Script(Language::Another)
            }
            "json" | "jsonc" | "toml" | "yaml" | "yml" | "csv" | "tsv" | "xml" | "svg" | "ini" | "cfg"
            | "conf" | "env" | "lock" | "jsonl" => Self::Data,
            _ => return None,
        })
    }

    fn by_shebang(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(b"#!")?;
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(&line[..line.len().min(128)]);
        let names =
            |word: &str| line.split(['/', ' ']).any(|part| part.trim_end_matches(['3', '2', '.']) == word);
        Some(Self::Script(if names("python") {
            Language::Python
        } else if names("sh") || names("bash") || names("dash") {
            Language::Shell
        } else {
            Language::Another
        }))
    }
}

/// Bytes that are text in UTF-8 or, by its mark, in UTF-16.
pub(super) fn looks_like_text(bytes: &[u8]) -> bool {
    matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]) || !bytes[..bytes.len().min(8192)].contains(&0)
}

pub(super) fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// After the last dot of a name; nothing for `.env` and `Makefile`.
pub(super) fn extension(path: &str) -> &str {
    match name(path).rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => extension,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_comes_from_the_name_then_from_the_bytes() {
        assert_eq!(Class::of("a/b.PY", b""), Class::Script(Language::Python));
        assert_eq!(Class::of("run", b"#!/usr/bin/env python3\n"), Class::Script(Language::Python));
        assert_eq!(Class::of("run", b"#! /bin/sh -e\n"), Class::Script(Language::Shell));
        assert_eq!(Class::of("run", b"#!/usr/bin/env node\n"), Class::Script(Language::Another));
        assert_eq!(Class::of("README", b"hello"), Class::Other);
        assert_eq!(Class::of("x.bin", b"\0\x01"), Class::Binary);
        // Bytes in a script that are no text do not make it something that is not looked at.
        assert_eq!(Class::of("x.sh", b"\0\x01"), Class::Script(Language::Shell));
        for name in ["x.awk", "x.tcl", "x.jl", "x.exs", "x.jq"] {
            assert_eq!(Class::of(name, b"\0\x01"), Class::Script(Language::Another), "{name}");
        }
        assert_eq!(extension(".env"), "");
    }
}
