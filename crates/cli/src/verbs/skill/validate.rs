//! `ringfence skill validate`

use ringfence_service::Places;
use ringfence_service::skills::{Level, SkillReference, Strictness, validate_skill};

use crate::args::SkillValidateArgs;
use crate::failure::Failure;
use crate::output::{self, printable};

pub(super) fn validate(args: SkillValidateArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    let strictness = if args.strict { Strictness::Strict } else { Strictness::Lenient };
    let mut all = Vec::new();
    for skill in args.paths {
        let reference = SkillReference { skill, library: args.flags.library.clone() };
        all.push(validate_skill(&places, &reference, strictness)?);
    }
    let code = i32::from(all.iter().any(|one| !one.valid));
    if args.flags.json {
        output::json(&all);
        return Ok(code);
    }
    for one in &all {
        output::line(printable(&format!("{}: {}", one.path, if one.valid { "valid" } else { "not valid" })));
        let rows = one.problems.iter().map(|problem| {
            let level = match problem.level {
                Level::Error => "error",
                Level::Warning => "warning",
            };
            let line = problem.line.map(|line| format!("line {line}")).unwrap_or_default();
            [level.to_owned(), problem.code.to_owned(), line, problem.message.clone()]
        });
        if !one.problems.is_empty() {
            output::table(["level", "problem", "where", "what"], rows);
        }
    }
    Ok(code)
}
