//! `ringfence skill lock`

use ringfence_service::Places;
use ringfence_service::skills::lock_skills;
use serde_json::json;

use super::warn_of_unreadable;
use crate::args::SkillLockArgs;
use crate::failure::Failure;
use crate::output::{self, printable};

pub(super) fn lock(args: SkillLockArgs) -> Result<i32, Failure> {
    let library = args.flags.library.as_deref();
    let locked = lock_skills(&Places::from_env()?, library, &args.skills, args.output.as_deref())?;
    match &locked.path {
        None => output::foreign(locked.text.as_bytes()),
        Some(path) if args.flags.json => {
            output::json(&json!({ "path": path.display().to_string(), "skills": locked.skills }));
        }
        Some(path) => output::line(printable(&format!("{}: {} skills", path.display(), locked.skills))),
    }
    warn_of_unreadable(&locked.unreadable);
    Ok(0)
}
