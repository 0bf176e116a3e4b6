//! File denials guessed from a failed command's output: lines that name a path and an error that the policy explains.

use std::path::Path;

use ringfence_policy::Clause;

use crate::denial::{Denial, DenialKind};
use crate::plan::Plan;
use crate::view::{Intent, normal, refused};

/// How many denials one run's output is worth.
const MOST: usize = 16;

/// A permission may be the file's own and a read's: only such a line speaks of a write.
const WRITES: &[&str] = &["create", "touch", "write", "remove", "unlink", "rename", "move", "mkdir", "save"];

/// What a refused access looks like in the messages of common programs.
const SIGNS: &[(&str, Intent)] = &[
    ("Read-only file system", Intent::Write),
    ("Device or resource busy", Intent::Write),
    ("Permission denied", Intent::Write),
    ("Permission denied", Intent::Read),
    ("No such file or directory", Intent::Read),
    ("not found", Intent::Read),
    ("ENOENT", Intent::Read),
    ("EROFS", Intent::Write),
    ("EACCES", Intent::Write),
];

/// What running into a limit that nobody counts looks like.
const LIMITS: &[(&str, Clause)] = &[
    ("Resource temporarily unavailable", Clause::LimitProcesses),
    ("Cannot fork", Clause::LimitProcesses),
    ("can't start new thread", Clause::LimitProcesses),
    ("Too many open files", Clause::LimitOpenFiles),
    ("EMFILE", Clause::LimitOpenFiles),
];

/// The limits that `output` suggests were reached.
pub(crate) fn infer_limits(output: &[u8]) -> Vec<Clause> {
    let text = String::from_utf8_lossy(output);
    let mut found: Vec<Clause> =
        LIMITS.iter().filter(|(sign, _)| text.contains(sign)).map(|(_, clause)| *clause).collect();
    found.dedup();
    found
}

/// The accesses that `output` suggests were refused by `plan`. `exists` tells what the host has.
pub(crate) fn infer(plan: &Plan, output: &[u8], exists: impl Fn(&Path) -> bool) -> Vec<Denial> {
    let mut found: Vec<Denial> = Vec::new();
    let text = String::from_utf8_lossy(output);
    for line in text.lines() {
        for (sign, intent) in SIGNS {
            let speaks_of_it = *intent == Intent::Read
                || !matches!(*sign, "Permission denied" | "EACCES")
                || WRITES.iter().any(|word| line.contains(word));
            if !line.contains(sign) || !speaks_of_it {
                continue;
            }
            for path in paths(line) {
                let path = normal(&plan.directory, Path::new(path));
                let known = exists(&path) || (*intent == Intent::Write && path.parent().is_some_and(&exists));
                let Some(blocked) = known.then(|| refused(plan, &path, *intent)).flatten() else { continue };
                let kind = match &blocked {
                    ringfence_policy::Blocked::Protected { .. } => DenialKind::Protected,
                    _ => DenialKind::File,
                };
                let denial = Denial::new(kind, &blocked).inferred();
                if found.len() < MOST && !found.contains(&denial) {
                    found.push(denial);
                }
            }
        }
    }
    found
}

/// Words of a line that may be paths: with a slash, or with a leading dot (`.bashrc`), less quotes and punctuation.
fn paths(line: &str) -> impl Iterator<Item = &str> {
    line.split([' ', '\t', '\'', '"', '`', ':', ',', '(', ')', '‘', '’', '“', '”', '='])
        .map(|word| word.trim_matches(['.', ';']).trim_end_matches('/'))
        .zip(line.split([' ', '\t', '\'', '"', '`', ':', ',', '(', ')', '‘', '’', '“', '”', '=']))
        .map(|(trimmed, whole)| if whole.starts_with('.') { whole } else { trimmed })
        .filter(|word| word.len() > 1 && (word.contains('/') || word.starts_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_between_quotes_and_colons() {
        let line = "cat: /home/a/secret: No such file or directory";
        assert_eq!(paths(line).collect::<Vec<_>>(), ["/home/a/secret"]);
        let line = "sh: 1: cannot create .git/hooks/x: Read-only file system";
        assert_eq!(paths(line).collect::<Vec<_>>(), [".git/hooks/x"]);
        let line = "touch: cannot touch '/usr/x': Read-only file system";
        assert_eq!(paths(line).collect::<Vec<_>>(), ["/usr/x"]);
    }
}
