//! `ringfence skill prompt`

use ringfence_service::Places;
use ringfence_service::skills::catalogue;

use super::warn_of_unreadable;
use crate::args::SkillPromptArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn prompt(args: SkillPromptArgs) -> Result<i32, Failure> {
    let prompt =
        catalogue(&Places::from_env()?, args.flags.library.as_deref(), &args.skills, args.host_paths)?;
    if args.flags.json {
        output::json(&prompt.entries);
    } else {
        output::foreign(format!("{}\n", prompt.block).as_bytes());
    }
    warn_of_unreadable(&prompt.unreadable);
    Ok(0)
}
