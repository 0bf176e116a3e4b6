//! `ringfence skill rollback`

use ringfence_service::Places;
use ringfence_service::skills::roll_back;

use crate::args::SkillRollbackArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn rollback(args: SkillRollbackArgs) -> Result<i32, Failure> {
    let library = args.flags.library.as_deref();
    let done =
        roll_back(&Places::from_env()?, library, &args.skill, args.digest.as_deref(), args.edits.edits())?;
    if args.flags.json {
        output::json(&done);
    } else {
        output::line(format!("{} is {} again", done.skill, done.digest.short()));
    }
    Ok(0)
}
