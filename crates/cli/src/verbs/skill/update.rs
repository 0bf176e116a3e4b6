//! `ringfence skill update`

use ringfence_service::skills::{UpdateSpec, update_skills};
use ringfence_service::{Places, ServiceError};
use serde_json::json;

use super::{add, outdated, warn_of_unreadable};
use crate::args::SkillUpdateArgs;
use crate::failure::{Failure, REFUSED};
use crate::output;

pub(super) fn update(args: SkillUpdateArgs) -> Result<i32, Failure> {
    let spec = UpdateSpec {
        skills: args.skills,
        edits: args.edits.edits(),
        accept_findings: args.accept_findings,
        library: args.flags.library,
    };
    let report = update_skills(&Places::from_env()?, &spec)?;
    let code = if report.refused.is_empty() { 0 } else { REFUSED };
    if args.flags.json {
        let refused = |(skill, error): &(String, ServiceError)| json!({ "skill": skill, "error": error });
        output::json(&json!({
            "updated": report.added,
            "unreachable": report.unreachable,
            "refused": report.refused.iter().map(refused).collect::<Vec<_>>(),
            "unreadable": report.unreadable,
        }));
        return Ok(code);
    }
    if report.added.is_empty() && report.refused.is_empty() {
        output::line("nothing is newer where it came from");
    }
    report.added.iter().for_each(add::tell);
    report.unreachable.iter().for_each(outdated::tell);
    report.refused.iter().for_each(|(_, error)| output::error(error));
    warn_of_unreadable(&report.unreadable);
    Ok(code)
}
