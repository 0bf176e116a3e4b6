//! `ringfence skill search`

use ringfence_service::Places;
use ringfence_service::skills::{SearchSpec, Searched, search_skills};

use super::warn_of_unreadable;
use crate::args::SkillSearchArgs;
use crate::failure::Failure;
use crate::output;

pub(super) fn search(args: SkillSearchArgs) -> Result<i32, Failure> {
    let spec = SearchSpec { text: args.query.join(" "), most: args.limit, library: args.flags.library };
    let Searched { hits, unreadable } = search_skills(&Places::from_env()?, &spec)?;
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
    warn_of_unreadable(&unreadable);
    Ok(0)
}
