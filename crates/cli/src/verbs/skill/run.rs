//! `ringfence skill run`

use std::io::{IsTerminal, stderr};

use ringfence_service::Places;
use ringfence_service::skills::{
    ChangeKind, Dependencies, SkillReference, SkillRunSpec, Tell, Wanted, WorkspaceChanges, set_up_skill,
};

use super::build::make_layer;
use crate::args::SkillRunArgs;
use crate::failure::Failure;
use crate::json::SkillRunObject;
use crate::output;
use crate::resolve::{self, Telling};
use crate::spool::Noted;
use crate::stats;
use crate::verbs::run::{ReceiptFile, print_plan, tell};

/// How many changed files are told.
const TOLD: usize = 10;

pub(crate) fn run(args: SkillRunArgs) -> Result<i32, Failure> {
    let json = args.flags.json;
    run_it(args).map_err(|failure| failure.with_json(json))
}

fn run_it(args: SkillRunArgs) -> Result<i32, Failure> {
    let (spec, telling) = resolved(args)?;
    // Opened before the command can put a link in its place, and before anything runs in vain.
    let receipt = telling.receipt.map(ReceiptFile::open).transpose()?;
    let places = Places::from_env()?;
    let noted = Noted::skill(&spec.run, spec.reference.skill.to_string_lossy().into_owned(), &spec.args);
    let setup = set_up_skill(&places, spec, &mut make_layer)?;
    if telling.explain {
        setup.notes.iter().for_each(|note| output::note(note));
        return print_plan(setup.run, telling.json);
    }
    let prepared = setup.prepare(places.clone())?;
    prepared.warnings().for_each(output::warning);
    prepared.notes().for_each(output::note);
    let changes = telling.json || stderr().is_terminal();
    let report = prepared.run(Tell { digest: telling.json, workspace_changes: changes })?;
    noted.ended(&places, &report.run);
    if let Some(receipt) = receipt {
        receipt.write(&report.run.outcome.receipt)?;
    }
    let code = report.run.exit_code;
    if telling.stats {
        stats::print(&report.run.outcome);
    }
    if telling.json {
        if let Some(error) = &report.run.not_started {
            output::error(error);
        }
        output::json(&SkillRunObject::from(report));
    } else {
        tell(&report.run);
        report.workspace_changes.as_ref().into_iter().for_each(tell_changes);
    }
    Ok(code)
}

fn resolved(args: SkillRunArgs) -> Result<(SkillRunSpec, Telling), Failure> {
    let (run, telling) = resolve::run_flags(args.flags, Vec::new())?;
    let wanted = match (args.module, args.script) {
        (Some(module), _) => Wanted::Module(module),
        (None, Some(script)) => Wanted::Script(script.into_string().map_err(|script| {
            Failure::new(
                format!("there is no script {}: its name is not UTF-8", script.to_string_lossy()),
                "name a script of the skill",
            )
        })?),
        (None, None) => Wanted::Only,
    };
    let dependencies = match (telling.explain, args.no_deps, args.rebuild_deps) {
        (_, true, _) => Dependencies::Leave,
        (true, ..) => Dependencies::Explain,
        (_, _, true) => Dependencies::InstallAgain,
        _ => Dependencies::Install,
    };
    let reference = SkillReference { skill: args.skill, library: args.library };
    let spec = SkillRunSpec { reference, wanted, args: args.args, copy: args.copy, dependencies, run };
    Ok((spec, telling))
}

fn tell_changes(changes: &WorkspaceChanges) {
    for change in changes.files.iter().take(TOLD) {
        let kind = match change.kind {
            ChangeKind::New => "new",
            ChangeKind::Changed => "changed",
            ChangeKind::Removed => "removed",
        };
        output::note(&format!("{kind} in the workspace: {}", change.path));
    }
    let more = changes.files.len().saturating_sub(TOLD);
    if more > 0 || changes.truncated {
        let number = if changes.truncated { "more".to_owned() } else { format!("{more} more") };
        output::note(&format!("and {number} changed files: --json lists them"));
    }
}
