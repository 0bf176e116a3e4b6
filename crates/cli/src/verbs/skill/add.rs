//! `ringfence skill add`, and how what was added is told

use std::io::{IsTerminal, stderr};

use ringfence_service::Places;
use ringfence_service::skills::{AddSpec, AddedSkill, Permissions, SourceSpec, add_skills};

use crate::args::SkillAddArgs;
use crate::failure::Failure;
use crate::output::{self, printable};

/// How many findings of one skill are told.
const TOLD: usize = 10;

pub(super) fn add(args: SkillAddArgs) -> Result<i32, Failure> {
    let source = args.source.map(|source| SourceSpec { source, path: args.path, revision: args.rev });
    let is_remote = |source: &SourceSpec| source.source.to_string_lossy().starts_with("https://");
    // It may take a while, and a person waits. Not the URL: it may hold a password.
    if stderr().is_terminal() && source.as_ref().is_some_and(is_remote) {
        output::note("the repository is fetched in a sandbox");
    }
    let spec = AddSpec {
        source,
        domain: args.domain,
        name: args.name,
        all: args.all,
        frozen: args.frozen,
        lock: args.lock,
        replace: args.replace,
        edits: args.edits.edits(),
        accept_findings: args.accept_findings,
        library: args.flags.library,
    };
    let report = add_skills(&Places::from_env()?, &spec)?;
    if args.flags.json {
        output::json(&report);
        return Ok(0);
    }
    report.added.iter().for_each(tell);
    if report.added.is_empty() {
        output::line("everything is as the lock file says");
    }
    Ok(0)
}

/// What a person should know of a skill that was taken.
pub(super) fn tell(added: &AddedSkill) {
    let what = match &added.previous {
        None => "added".to_owned(),
        Some(previous) if *previous == added.digest => "unchanged".to_owned(),
        Some(previous) => format!("updated from {}", previous.short()),
    };
    output::line(printable(&format!("{} {} {what}", added.skill, added.digest.short())));
    for problem in &added.warnings {
        output::warning(&format!("{}: SKILL.md: {}", added.skill, problem.message));
    }
    for note in &added.notes {
        output::warning(note);
    }
    for finding in added.findings.iter().take(TOLD) {
        output::warning(&format!("{}: {finding}", added.skill));
    }
    let more = added.findings.len().saturating_sub(TOLD);
    if more > 0 {
        output::warning(&format!("{}: and {more} more: `ringfence skill lint {0}`", added.skill));
    }
    let is_new_version = added.previous.is_some();
    if is_new_version && !added.asks_newly.is_empty() {
        let list = list(&added.asks_newly);
        output::note(&format!(
            "{} asks for more than the version before: {list}; it is not granted",
            added.skill
        ));
    } else if !added.asks.is_empty() && !is_new_version {
        let list = list(&added.asks);
        output::note(&format!(
            "{} asks for {list}; nothing is granted: `ringfence skill grant {0}`",
            added.skill
        ));
    }
}

fn list(permissions: &Permissions) -> String {
    let lines = permissions.lines().into_iter().map(|[what, value]| format!("{what} {value}"));
    lines.collect::<Vec<_>>().join(", ")
}
