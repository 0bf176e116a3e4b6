//! `ringfence skill new`

use ringfence_service::Places;
use ringfence_service::skills::{NewSkill, new_skill};

use crate::args::SkillNewArgs;
use crate::failure::Failure;
use crate::output::{self, printable};

pub(super) fn new(args: SkillNewArgs) -> Result<i32, Failure> {
    let new = NewSkill {
        name: args.name,
        description: args.description,
        language: args.template,
        parent: args.dir,
    };
    let created = new_skill(&Places::from_env()?, &new)?;
    if args.json {
        output::json(&created);
    } else {
        output::line(printable(&format!("{}: {}", created.path, created.files.join(", "))));
        output::note(
            "say in SKILL.md what it does and when to use it, then `ringfence skill validate --strict`",
        );
    }
    Ok(0)
}
