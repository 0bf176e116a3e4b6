//! `ringfence skill publish`

use ringfence_service::Places;
use ringfence_service::skills::publish_skill;

use crate::args::SkillPublishArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn publish(args: SkillPublishArgs) -> Result<i32, Failure> {
    let done = publish_skill(&Places::from_env()?, args.flags.library.as_deref(), &args.skill)?;
    if args.flags.json {
        output::json(&done);
    } else {
        let what = if done.unchanged { "was published already" } else { "published" };
        output::line(format!("{} {} {what}", done.skill, done.digest.short()));
    }
    Ok(0)
}
