//! `ringfence skill prompt`

use ringfence_service::Places;
use ringfence_service::skills::catalogue;

use crate::args::SkillPromptArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn prompt(args: SkillPromptArgs) -> Result<i32, Failure> {
    let (entries, block) =
        catalogue(&Places::from_env()?, args.flags.library.as_deref(), &args.skills, args.host_paths)?;
    if args.flags.json {
        output::json(&entries);
    } else {
        output::foreign(format!("{block}\n").as_bytes());
    }
    Ok(0)
}
