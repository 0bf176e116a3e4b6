//! Patterns of paths, and which files of a workspace they are: each must be named to be hidden or kept.

use std::fs;
use std::path::{Path, PathBuf};

use ringfence_policy::HostRule;

use super::files::Denies;
use super::matches_glob;
use crate::places::Places;

/// Files of a workspace that are looked at, and those that may be held one by one.
const MOST_LOOKED_AT: usize = 50_000;
const MOST_HELD: usize = 256;
/// Without one of these no program runs.
const SYSTEM: &[&str] = &["/usr", "/bin", "/lib", "/lib64", "/etc"];

/// A path from the root on, in parts; `**` is any number of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    parts: Vec<String>,
    /// Written with a slash at its end, or with all that is in it.
    is_directory: bool,
}

/// What the rules come to.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) workspace: Option<PathBuf>,
    pub(super) home: PathBuf,
    pub(super) hidden: Vec<PathBuf>,
    /// Names in the workspace, and places outside of it, which the policy may not grant.
    pub(super) kept: Vec<String>,
    pub(super) outside: Vec<PathBuf>,
    pub(super) hosts: Vec<HostRule>,
    pub(super) closes: bool,
    /// Nothing of the workspace is read, or written.
    pub(super) unread: bool,
    pub(super) unwritten: bool,
}

impl Pattern {
    /// `text`, read from `base` on; several where it has alternatives in braces. One without a slash is at any depth.
    pub(super) fn all(base: &Path, text: &str, home: &Path) -> Result<Vec<Self>, String> {
        if text.starts_with('!') {
            return Err("a pattern that begins with `!` is not understood".into());
        }
        let (base, text) = match text.strip_prefix("~/") {
            Some(rest) => (home, rest),
            None if text.starts_with('~') => return Err("another user's home is not looked up".into()),
            None => (base, text),
        };
        let bare = text.trim_start_matches('/');
        let plain = bare.trim_end_matches('/');
        let any_depth = bare == text && !plain.contains('/') && !matches!(plain, "" | "." | "..");
        let inner = bare.strip_suffix("/**").or_else(|| bare.strip_suffix('/'));
        let is_directory = inner.is_some();
        let base: Vec<&str> =
            base.iter().filter_map(|part| part.to_str()).filter(|part| *part != "/").collect();
        let mut all = Vec::new();
        for text in alternatives(inner.unwrap_or(bare))? {
            let mut parts: Vec<String> = base.iter().map(|part| (*part).to_owned()).collect();
            if any_depth {
                parts.push("**".into());
            }
            for part in text.split('/') {
                match part {
                    "" | "." => {}
                    ".." if parts.last().is_none_or(|last| !is_glob(last)) => drop(parts.pop()),
                    ".." => return Err("`..` behind a pattern is not understood".into()),
                    part => parts.push(part.to_owned()),
                }
            }
            let length = parts.len();
            // All that is in a directory is the directory.
            while parts.last().is_some_and(|last| matches!(last.as_str(), "*" | "**")) {
                parts.pop();
            }
            let is_directory = is_directory || parts.len() < length;
            all.push(Self { parts, is_directory });
        }
        Ok(all)
    }

    /// All of it up to the first part that is no plain name; whole if there is none.
    fn literal(&self) -> (PathBuf, bool) {
        let plain: PathBuf =
            Path::new("/").join(self.parts.iter().take_while(|part| !is_glob(part)).collect::<PathBuf>());
        (plain, !self.parts.iter().any(|part| is_glob(part)))
    }

    fn matches(&self, path: &Path) -> bool {
        let parts: Vec<String> =
            path.iter().skip(1).map(|part| part.to_string_lossy().into_owned()).collect();
        matches_parts(&self.parts, &parts)
    }
}

fn is_glob(part: &str) -> bool {
    part.contains(['*', '?', '[', '\\'])
}

fn matches_parts(pattern: &[String], parts: &[String]) -> bool {
    match (pattern.split_first(), parts.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == "**" => {
            (0..=parts.len()).any(|skipped| matches_parts(rest, &parts[skipped..]))
        }
        (Some((first, rest)), Some((part, others))) => {
            matches_part(first, part) && matches_parts(rest, others)
        }
        _ => false,
    }
}

/// A class in brackets is any character: more is denied, not less.
fn matches_part(pattern: &str, part: &str) -> bool {
    let mut plain = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '[' => {
                plain.push('?');
                // A bracket that is not closed takes what follows with it.
                if !letters.by_ref().skip(1).any(|letter| letter == ']') {
                    plain.push('*');
                }
            }
            '\\' => plain.extend(letters.next()),
            letter => plain.push(letter),
        }
    }
    matches_glob(plain.as_bytes(), part.as_bytes())
}

/// `{a,b}c` is `ac` and `bc`.
fn alternatives(text: &str) -> Result<Vec<String>, String> {
    const MOST: usize = 64;
    let mut open = vec![text.to_owned()];
    let mut done = Vec::new();
    while let Some(text) = open.pop() {
        let Some((before, rest)) = text.split_once('{') else {
            done.push(text);
            continue;
        };
        let (inner, after) = rest.split_once('}').ok_or("a brace in it is not closed")?;
        if inner.contains('{') || open.len() + done.len() > MOST {
            return Err("its alternatives in braces are too many, or nested".into());
        }
        open.extend(inner.split(',').map(|one| format!("{before}{one}{after}")));
    }
    Ok(done)
}

impl Found {
    pub(super) fn new(places: &Places, workspace: Option<PathBuf>) -> Self {
        Self {
            workspace,
            home: places.home.clone(),
            hidden: Vec::new(),
            kept: Vec::new(),
            outside: Vec::new(),
            hosts: Vec::new(),
            closes: false,
            unread: false,
            unwritten: false,
        }
    }

    pub(super) fn take(&mut self, denies: Denies, pattern: &Pattern) -> Result<(), String> {
        let (plain, is_whole) = pattern.literal();
        let holds_workspace = self.workspace.as_ref().is_some_and(|workspace| workspace.starts_with(&plain));
        let in_workspace = self.workspace.as_ref().is_some_and(|workspace| plain.starts_with(workspace));
        if is_whole {
            return match (denies, holds_workspace) {
                (Denies::Read, true) => {
                    self.unread = true;
                    Ok(())
                }
                (Denies::Write, true) => {
                    self.unwritten = true;
                    Ok(())
                }
                _ => self.hold(denies, &plain, pattern.is_directory),
            };
        }
        if !holds_workspace && !in_workspace {
            // Some of what is there: all of it.
            return self.hold(denies, &plain, true);
        }
        // One that is a plain name at any depth may be made at the top.
        if let [.., depth, name] = pattern.parts.as_slice()
            && depth == "**"
            && !is_glob(name)
            && let Some(workspace) = self.workspace.clone()
            && denies == Denies::Write
        {
            self.hold(denies, &workspace.join(name), pattern.is_directory)?;
        }
        for path in self.look(|path| pattern.matches(path))? {
            self.hold(denies, &path, pattern.is_directory)?;
        }
        Ok(())
    }

    /// The last pattern that matches decides.
    pub(super) fn take_ordered(&mut self, denies: Denies, rules: &[(String, bool)]) -> Result<(), String> {
        // What no pattern is about is named like nothing else.
        const ANY: &str = "\u{1}/\u{1}";
        let Some(workspace) = self.workspace.clone() else { return Ok(()) };
        let home = self.home.clone();
        let absolute =
            |pattern: &str| match pattern.strip_prefix("~/").or_else(|| pattern.strip_prefix("$HOME/")) {
                Some(rest) => home.join(rest).to_string_lossy().into_owned(),
                None => pattern.to_owned(),
            };
        let rules: Vec<(String, bool)> =
            rules.iter().map(|(pattern, deny)| (absolute(pattern), *deny)).collect();
        let is_denied = |relative: &str| {
            let whole = workspace.join(relative).to_string_lossy().into_owned();
            let fits = |pattern: &str| {
                [relative, &whole].iter().any(|text| matches_glob(pattern.as_bytes(), text.as_bytes()))
            };
            rules.iter().rev().find(|(pattern, _)| fits(pattern)).is_some_and(|(_, denies)| *denies)
        };
        if is_denied(ANY) {
            match denies {
                Denies::Read => self.unread = true,
                Denies::Write => self.unwritten = true,
            }
            return Ok(());
        }
        for (pattern, _) in rules.iter().filter(|(_, denies)| *denies) {
            let directory = pattern.strip_suffix("/**").or_else(|| pattern.strip_suffix("/*"));
            let name = directory.unwrap_or(pattern);
            if name.contains(['*', '?'])
                || !is_denied(&directory.map_or(name.to_owned(), |name| format!("{name}/{ANY}")))
            {
                continue;
            }
            let path = workspace.join(name.trim_start_matches("./"));
            if path.starts_with(&workspace) && path != workspace {
                self.hold(denies, &path, directory.is_some())?;
            }
        }
        let found = self
            .look(|path| path.strip_prefix(&workspace).ok().and_then(Path::to_str).is_some_and(&is_denied))?;
        for path in found {
            self.hold(denies, &path, false)?;
        }
        Ok(())
    }

    fn hold(&mut self, denies: Denies, path: &Path, is_directory: bool) -> Result<(), String> {
        if self.hidden.len() + self.kept.len() >= MOST_HELD {
            return Err(format!(
                "more than {MOST_HELD} files match, which is more than can be held one by one"
            ));
        }
        if denies == Denies::Read {
            if let Some(system) = SYSTEM.iter().find(|system| Path::new(system).starts_with(path)) {
                return Err(format!("it hides {system}, without which no program runs"));
            }
            if !self.hidden.iter().any(|hidden| path.starts_with(hidden)) {
                self.hidden.push(path.to_owned());
            }
            return Ok(());
        }
        let Some(name) = self.workspace.as_ref().and_then(|workspace| path.strip_prefix(workspace).ok())
        else {
            self.outside.push(path.to_owned());
            return Ok(());
        };
        let name = name.to_str().ok_or("a name that is not UTF-8 matches")?;
        let slash = if is_directory || path.is_dir() { "/" } else { "" };
        let covered =
            |kept: &String| kept.strip_suffix('/').is_some_and(|kept| Path::new(name).starts_with(kept));
        let kept = format!("{name}{slash}");
        if !self.kept.contains(&kept) && !self.kept.iter().any(covered) {
            self.kept.push(kept);
        }
        Ok(())
    }

    /// The files and directories of the workspace that are meant; what is in such a directory is not looked at.
    fn look(&self, is_meant: impl Fn(&Path) -> bool) -> Result<Vec<PathBuf>, String> {
        let Some(workspace) = &self.workspace else { return Ok(Vec::new()) };
        let (mut open, mut found, mut looked_at) = (vec![workspace.clone()], Vec::new(), 0);
        while let Some(directory) = open.pop() {
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                // The sandbox can't read it either.
                Err(_) => continue,
            };
            for entry in entries.flatten() {
                looked_at += 1;
                if looked_at > MOST_LOOKED_AT {
                    return Err(format!(
                        "{} has more than {MOST_LOOKED_AT} files, too many to find those that match",
                        workspace.display()
                    ));
                }
                let path = entry.path();
                if is_meant(&path) {
                    found.push(path);
                } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    open.push(path);
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

#[cfg(test)]
#[path = "paths_tests.rs"]
mod tests;
