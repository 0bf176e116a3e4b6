//! `ringfence skill remove`

use ringfence_service::Places;
use ringfence_service::skills::remove_skill;

use crate::args::SkillRemoveArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn remove(args: SkillRemoveArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    let mut removed = Vec::new();
    for skill in &args.skills {
        let done = remove_skill(&places, args.flags.library.as_deref(), skill, args.edits.edits())?;
        if !args.flags.json {
            output::line(format!("{} removed; `ringfence skill rollback {0}` brings it back", done.skill));
        }
        removed.push(done);
    }
    if args.flags.json {
        output::json(&removed);
    }
    Ok(0)
}
