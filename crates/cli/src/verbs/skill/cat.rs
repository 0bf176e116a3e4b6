//! `ringfence skill cat`

use ringfence_service::Places;
use ringfence_service::skills::{SkillReference, read_skill_file};

use crate::args::SkillCatArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn cat(args: SkillCatArgs) -> Result<i32, Failure> {
    let reference = SkillReference { skill: args.skill, library: args.library };
    output::foreign(&read_skill_file(&Places::from_env()?, &reference, args.file.as_deref())?);
    Ok(0)
}
