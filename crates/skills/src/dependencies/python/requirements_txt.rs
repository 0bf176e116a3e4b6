//! `requirements.txt`: the lines that name packages of the registry, with their markers, extras and hashes. Options that
//! would change where packages come from are refused.

use std::collections::HashSet;

use super::super::origin::{Origin, Remarks};
use super::super::text::{Files, directory, resolve};
use super::declared::{Declared, add};
use super::{DeclaredIn, Requirement, RequirementSource, requirement};

const DEEPEST_INCLUDE: usize = 8;
const ONLY_THE_REGISTRY: &str = "packages come only from the registry that the user configured";

/// The file at `path`, and those of the skill that it includes.
pub(super) fn read(files: &Files<'_>, path: &str, remarks: &mut Remarks) -> Option<Declared> {
    let mut reader =
        Reader { files, remarks, seen: HashSet::new(), declared: Declared::new(DeclaredIn::RequirementsTxt) };
    reader.file(path, Into::Requirements, 0)?;
    let Declared { requirements, .. } = &reader.declared;
    let hashed = requirements.iter().filter(|one| !one.hashes.is_empty()).count();
    if hashed > 0 && hashed < requirements.len() {
        reader.remarks.note(format!(
            "{path}: some requirements have hashes and others have none: installers refuse that"
        ));
    }
    Some(reader.declared)
}

#[derive(Clone, Copy)]
enum Into {
    Requirements,
    Constraints,
}

struct Reader<'a, 'f> {
    files: &'a Files<'f>,
    remarks: &'a mut Remarks,
    seen: HashSet<String>,
    declared: Declared,
}

impl Reader<'_, '_> {
    fn file(&mut self, path: &str, into: Into, depth: usize) -> Option<()> {
        if !self.seen.insert(path.to_owned()) {
            return Some(());
        }
        let text = match self.files.text(path) {
            Ok(text) => text,
            Err(why) => {
                self.remarks.note(why);
                return None;
            }
        };
        for (line, text) in logical_lines(&text) {
            self.line(path, line, &text, into, depth);
        }
        Some(())
    }

    fn line(&mut self, file: &str, line: u32, text: &str, into: Into, depth: usize) {
        let origin = || Origin::File { file: file.to_owned(), line };
        if text.contains("${") {
            return self.remarks.refuse(
                text,
                "a variable of the environment, which is not looked up",
                origin(),
            );
        }
        if text.starts_with('-') {
            return self.option(file, line, text, depth);
        }
        let (text, options) = match text.find(" --").or_else(|| text.find("\t--")) {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let parsed = match requirement::parse(text) {
            Ok(parsed) => parsed,
            Err(why) => return self.remarks.refuse(text, why, origin()),
        };
        let mut hashes = Vec::new();
        let mut words = options.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let hash = match word.strip_prefix("--hash") {
                Some("") => words.next(),
                Some(rest) => rest.strip_prefix('='),
                None => None,
            };
            match hash.filter(|hash| is_hash(hash)) {
                Some(hash) => hashes.push(hash.to_owned()),
                None => self.remarks.refuse(word, "an option that is not taken from a skill", origin()),
            }
        }
        hashes.sort_unstable();
        hashes.dedup();
        let from = RequirementSource::RequirementsTxt { file: file.to_owned(), line };
        let list: &mut Vec<Requirement> = match into {
            Into::Requirements => &mut self.declared.requirements,
            Into::Constraints => &mut self.declared.constraints,
        };
        add(list, &parsed, hashes, from, self.remarks);
    }

    fn option(&mut self, file: &str, line: u32, text: &str, depth: usize) {
        let origin = Origin::File { file: file.to_owned(), line };
        let (name, value) = option(text);
        let into = match name {
            "-r" | "--requirement" => Into::Requirements,
            "-c" | "--constraint" => Into::Constraints,
            // They change nothing about what is installed, or the installer is told anyway.
            "--prefer-binary" | "--only-binary" | "--no-binary" | "--require-hashes" | "--use-feature"
            | "--pre" => {
                return self.remarks.note(format!("{origin}: {name} is left out"));
            }
            "-e" | "--editable" => {
                let why = "an editable package is code of another place; only the registry is used";
                return self.remarks.refuse(text, why, origin);
            }
            "-i" | "--index-url" | "--extra-index-url" | "-f" | "--find-links" | "--trusted-host"
            | "--no-index" | "--proxy" => return self.remarks.refuse(text, ONLY_THE_REGISTRY, origin),
            _ => return self.remarks.refuse(text, "an option that is not taken from a skill", origin),
        };
        let inside = resolve(directory(file), value).filter(|path| self.files.contains(path));
        match inside {
            Some(path) if depth < DEEPEST_INCLUDE => {
                let _ = self.file(&path, into, depth + 1);
            }
            Some(_) => self.remarks.refuse(text, "files include each other too deep", origin),
            None => self.remarks.refuse(text, "no such file in the skill", origin),
        }
    }
}

/// `-r x`, `-rx`, `--name x` and `--name=x`.
fn option(text: &str) -> (&str, &str) {
    let end = match text.starts_with("--") {
        true => text.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(text.len()),
        // All short options are ASCII; anything else is no option we know.
        false => text.char_indices().nth(2).map_or(text.len(), |(at, _)| at),
    };
    let (name, value) = text.split_at(end);
    (name, value.trim_start_matches('=').trim())
}

fn is_hash(text: &str) -> bool {
    let Some((algorithm, digest)) = text.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    digest.len() == length && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Lines joined where they end in `\`, without comments; each with the number of its first.
fn logical_lines(text: &str) -> Vec<(u32, String)> {
    let mut out = Vec::new();
    let mut joined: Option<(u32, String)> = None;
    for (number, line) in (1u32..).zip(text.lines()) {
        let comment = line.trim_start().starts_with('#');
        let (start, mut whole) = joined.take().unwrap_or((number, String::new()));
        if comment && whole.is_empty() {
            continue;
        }
        match line.strip_suffix('\\') {
            Some(begun) if !comment => {
                whole.push_str(begun);
                joined = Some((start, whole));
            }
            _ => {
                whole.push_str(line);
                out.push((start, whole));
            }
        }
    }
    out.extend(joined);
    for (_, line) in &mut out {
        let comment = line
            .char_indices()
            .find(|(at, c)| *c == '#' && line[..*at].chars().next_back().is_none_or(char::is_whitespace));
        if let Some((at, _)) = comment {
            line.truncate(at);
        }
        *line = line.trim().to_owned();
    }
    out.retain(|(_, line)| !line.is_empty());
    out
}
