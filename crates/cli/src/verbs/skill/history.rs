//! `ringfence skill history`

use ringfence_service::Places;
use ringfence_service::skills::{Action, skill_history, time_of};

use crate::args::SkillHistoryArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn history(args: SkillHistoryArgs) -> Result<i32, Failure> {
    let history = skill_history(&Places::from_env()?, args.flags.library.as_deref(), &args.skill)?;
    if args.flags.json {
        output::json(&history);
        return Ok(0);
    }
    let rows = history.records.iter().map(|record| {
        let action = match record.action {
            Action::Add => "added",
            Action::Publish => "published",
            Action::Rollback => "rolled back",
            Action::Remove => "removed",
        };
        let version = record.digest.as_ref().map(|digest| digest.short().to_owned()).unwrap_or_default();
        [time_of(record.at), action.to_owned(), version, record.origin.to_string()]
    });
    let edit = history.unpublished.iter().map(|digest| {
        [String::new(), "edited".to_owned(), digest.short().to_owned(), "not published".to_owned()]
    });
    output::table(["when", "what", "version", "from"], rows.chain(edit));
    Ok(0)
}
