//! `ringfence skill deps`

use ringfence_service::Places;
use ringfence_service::skills::{SkillReference, dependency_report};

use crate::args::SkillDepsArgs;
use crate::failure::Failure;
use crate::output;

pub(crate) fn deps(args: SkillDepsArgs) -> Result<i32, Failure> {
    let json = args.json;
    report(args).map_err(|failure| failure.with_json(json))
}

fn report(args: SkillDepsArgs) -> Result<i32, Failure> {
    let script = args.script.map(|script| script.to_string_lossy().into_owned());
    let reference = SkillReference { skill: args.skill, library: args.library };
    let report = dependency_report(&Places::from_env()?, &reference, script.as_deref())?;
    if args.json {
        output::json(&report);
        return Ok(0);
    }
    let rows = report.rows();
    if rows.is_empty() {
        output::line(format!("{} needs nothing that is not in every sandbox", report.skill));
    } else {
        output::table(["kind", "what", "from", "state"], rows);
    }
    for refused in &report.needs.refused {
        output::warning(&format!("{}: `{}` is not taken: {}", refused.origin, refused.what, refused.why));
    }
    for note in &report.needs.notes {
        output::note(note);
    }
    Ok(0)
}
