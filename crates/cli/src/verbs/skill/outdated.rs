//! `ringfence skill outdated`

use ringfence_service::Places;
use ringfence_service::skills::{Unreachable, outdated_skills};

use super::warn_of_unreadable;
use crate::args::SkillOutdatedArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn outdated(args: SkillOutdatedArgs) -> Result<i32, Failure> {
    let report = outdated_skills(&Places::from_env()?, args.flags.library.as_deref())?;
    if args.flags.json {
        output::json(&report);
        return Ok(0);
    }
    if report.outdated.is_empty() {
        output::line("no skill has a newer version where it came from");
    } else {
        let rows = report.outdated.iter().map(|one| {
            let edited = if one.edited { "edited here" } else { "" };
            let versions = [&one.published, &one.latest].map(|digest| digest.short().to_owned());
            let [published, latest] = versions;
            [one.skill.clone(), published, latest, one.origin.to_string(), edited.to_owned()]
        });
        output::table(["skill", "published", "latest", "from", ""], rows);
    }
    report.unreachable.iter().for_each(tell);
    warn_of_unreadable(&report.unreadable);
    Ok(0)
}

pub(super) fn tell(one: &Unreachable) {
    output::warning(&format!("{}: where it came from can't be looked at: {}", one.skill, one.why));
}
