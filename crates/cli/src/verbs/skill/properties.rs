//! `ringfence skill properties`

use ringfence_service::Places;
use ringfence_service::skills::{SkillReference, show_skill};

use crate::args::SkillPropertiesArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn properties(args: SkillPropertiesArgs) -> Result<i32, Failure> {
    let reference = SkillReference { skill: args.skill, library: args.library };
    output::json(&show_skill(&Places::from_env()?, &reference)?.properties);
    Ok(0)
}
