//! `ringfence skill verify`

use ringfence_service::Places;
use ringfence_service::skills::verify_library;

use crate::args::SkillVerifyArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn verify(args: SkillVerifyArgs) -> Result<i32, Failure> {
    let verified = verify_library(&Places::from_env()?, args.flags.library.as_deref())?;
    let code = i32::from(!verified.troubles.is_empty());
    if args.flags.json {
        output::json(&verified);
        return Ok(code);
    }
    for trouble in &verified.troubles {
        output::warning(&trouble.to_string());
    }
    if !verified.locked {
        output::note(
            "you may not write to this library: it was checked without its lock, and what others change meanwhile may look wrong",
        );
    }
    let left = verified.cleared.staging + verified.cleared.settled;
    if left > 0 {
        output::note(&format!("{left} changes that were cut short were cleared away or finished"));
    }
    let edited = match verified.edited.len() {
        0 => String::new(),
        count => format!(", {count} edited or unpublished"),
    };
    let verdict = if code == 0 { "all in order" } else { "something is wrong" };
    output::line(format!("{} skills, {} versions{edited}: {verdict}", verified.skills, verified.versions));
    Ok(code)
}
