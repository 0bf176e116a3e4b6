//! `ringfence skill pack`

use ringfence_service::Places;
use ringfence_service::skills::{PackSpec, SkillReference, pack_skill, pack_skill_with_image};

use crate::args::SkillPackArgs;
use crate::failure::Failure;
use crate::output::{self, printable};

pub(super) fn pack(args: SkillPackArgs) -> Result<i32, Failure> {
    let reference = SkillReference { skill: args.directory, library: args.flags.library };
    if let Some(image) = &args.image {
        let out = args.output.as_deref();
        let packed = pack_skill_with_image(&Places::from_env()?, &reference, image, out)?;
        if args.flags.json {
            output::json(&packed);
        } else {
            let skill = &packed.packed.skill;
            output::line(printable(&format!(
                "{}: {} with image {}, {} files, {} bytes; the skill is at {}",
                packed.path,
                skill.name,
                packed.packed.image,
                packed.packed.entries,
                packed.archive_bytes,
                skill.path
            )));
        }
        return Ok(0);
    }
    let spec = PackSpec { reference, out: args.output, format: args.format };
    let packed = pack_skill(&Places::from_env()?, &spec)?;
    if args.flags.json {
        output::json(&packed);
    } else {
        output::line(printable(&format!(
            "{}: version {}, {} files, {} bytes",
            packed.path,
            packed.digest.short(),
            packed.files,
            packed.archive_bytes
        )));
    }
    Ok(0)
}
