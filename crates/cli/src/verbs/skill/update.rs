//! `ringfence skill update`

use ringfence_service::Places;
use ringfence_service::skills::{UpdateSpec, update_skills};
use serde_json::json;

use super::{add, outdated};
use crate::args::SkillUpdateArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn update(args: SkillUpdateArgs) -> Result<i32, Failure> {
    let spec = UpdateSpec {
        skills: args.skills,
        edits: args.edits.edits(),
        accept_findings: args.accept_findings,
        library: args.flags.library,
    };
    let (report, unreachable) = update_skills(&Places::from_env()?, &spec)?;
    if args.flags.json {
        output::json(&json!({ "updated": report.added, "unreachable": unreachable }));
        return Ok(0);
    }
    if report.added.is_empty() {
        output::line("nothing is newer where it came from");
    }
    report.added.iter().for_each(add::tell);
    unreachable.iter().for_each(outdated::tell);
    Ok(0)
}
