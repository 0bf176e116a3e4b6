//! What is suspicious in a skill: findings with a stable rule, a severity, a place, a reason and a remedy.
//!
//! Lint is advice: it reads a bounded part of a skill, knows what is commonly done, and can be got round by whoever tries.
//! The sandbox is the control. Nothing is executed here, no link is followed, and time is linear in what is read.

mod archives;
mod autorun;
mod comments;
mod contents;
mod disguise;
mod fields;
mod file;
mod finding;
mod handed_in;
mod hidden;
mod packages;
mod patterns;
mod references;
mod report;
mod rules;
mod sarif;
mod secrets;
mod size;
mod syntax;
mod text;
mod tools;

pub use file::is_script_name;
pub use finding::{Finding, Severity, visible};
pub use handed_in::{Passage, said_to_a_model};
pub use rules::{Rule, rules};
pub use sarif::sarif;

use crate::manifest::{Loaded, MANIFEST_NAMES, Unloadable};
use crate::tree::{Entry, Kind, Tree, stays_inside};
use file::{Budget, Sample};
use report::Report;
use rules::{LINK_OUT, SPECIAL_FILE, UNDECLARED_DEPENDENCY, UNREAD, UNREADABLE_MANIFEST};

/// What is linted. The tree should hold all that an agent could read or run: a skill that is used where it lies has its
/// `.git` and caches, an installed one has not.
#[derive(Clone, Copy, Debug)]
pub struct LintInput<'a> {
    pub tree: &'a Tree,
    pub manifest: Result<&'a Loaded, &'a Unloadable>,
    /// Imports that no declaration covers, as the dependency analysis found them.
    pub undeclared: &'a [Undeclared],
}

/// An import of a package that the skill declares nowhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undeclared {
    pub package: String,
    pub file: String,
    pub line: Option<u32>,
}

/// Everything there is to say about a skill: most severe first, then by file and line. The same skill gives the same
/// findings.
pub fn lint(input: &LintInput<'_>) -> Vec<Finding> {
    let mut report = Report::default();
    let entries = input.tree.entries();
    let manifest = MANIFEST_NAMES
        .into_iter()
        .find(|name| entries.iter().any(|entry| entry.path == *name))
        .unwrap_or("SKILL.md");

    let mut budget = Budget::default();
    for entry in in_reading_order(entries, manifest) {
        check_entry(&mut report, input.tree, entry, manifest, &mut budget);
        if entry.path == manifest
            && let Ok(loaded) = input.manifest
        {
            fields::check(&mut report, manifest, &loaded.texts);
        }
    }
    if budget.left_out > 0 {
        let message = format!("{} files were not read: the skill is too large", budget.left_out);
        report.add(&UNREAD, ".", None, &message);
    }
    size::check_skill(&mut report, entries);

    match input.manifest {
        Ok(loaded) => tools::check(&mut report, manifest, budget.tools_line, &loaded.manifest.allowed_tools),
        Err(Unloadable(problem)) => {
            report.add(&UNREADABLE_MANIFEST, manifest, problem.line, &problem.message)
        }
    }
    for Undeclared { package, file, line } in input.undeclared {
        report.add(
            &UNDECLARED_DEPENDENCY,
            file,
            *line,
            &format!("imports {package}, which nothing declares"),
        );
    }
    report.finish()
}

/// The manifest, then small files before large ones: ballast can't use the budget up.
fn in_reading_order<'a>(entries: &'a [Entry], manifest: &str) -> Vec<&'a Entry> {
    let mut ordered: Vec<&Entry> = entries.iter().collect();
    ordered.sort_by_key(|entry| match entry.kind {
        Kind::File { size, .. } => (entry.path != manifest, size),
        _ => (false, 0),
    });
    ordered
}

fn check_entry(report: &mut Report, tree: &Tree, entry: &Entry, manifest: &str, budget: &mut Budget) {
    let path = entry.path.as_str();
    hidden::check_name(report, path);
    match &entry.kind {
        Kind::Directory => {}
        Kind::Link { to } => {
            if !stays_inside(path, to) {
                report.add(&LINK_OUT, path, None, &format!("a link to {to}"));
            }
        }
        Kind::Special { what } => report.add(&SPECIAL_FILE, path, None, what),
        Kind::File { size, .. } => {
            size::check_file(report, path, *size);
            autorun::check_name(report, path);
            secrets::check_name(report, path, *size);
            match Sample::read(tree, path, *size, budget) {
                Ok(Some(sample)) => contents::check(report, path, &sample, path == manifest, budget),
                Ok(None) => {}
                Err(error) => report.add(&UNREAD, path, None, &format!("could not be read: {error}")),
            }
        }
    }
}
