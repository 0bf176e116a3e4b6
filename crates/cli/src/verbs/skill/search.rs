//! `ringfence skill search`

use ringfence_service::Places;
use ringfence_service::skills::{SearchSpec, search_skills};

use crate::args::SkillSearchArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn search(args: SkillSearchArgs) -> Result<i32, Failure> {
    let spec = SearchSpec { text: args.query.join(" "), most: args.limit, library: args.flags.library };
    let hits = search_skills(&Places::from_env()?, &spec)?;
    if args.flags.json {
        output::json(&hits);
    } else if hits.is_empty() {
        output::line("nothing was found: `ringfence skill list` shows all there is");
    } else {
        output::table(
            ["skill", "description", "where"],
            hits.into_iter().map(|hit| {
                // What the description says already need not be said twice.
                let snippet = if hit.description.starts_with(hit.snippet.text.trim_end_matches('…')) {
                    String::new()
                } else {
                    hit.snippet.text
                };
                [hit.key, hit.description, snippet]
            }),
        );
    }
    Ok(0)
}
