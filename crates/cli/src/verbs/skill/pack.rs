//! `ringfence skill pack`

use ringfence_service::Places;
use ringfence_service::skills::{PackSpec, SkillReference, pack_skill};

use crate::args::SkillPackArgs;
use crate::failure::Failure;
use crate::output::{self, printable};

pub(super) fn pack(args: SkillPackArgs) -> Result<i32, Failure> {
    let reference = SkillReference { skill: args.directory, library: args.flags.library };
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
