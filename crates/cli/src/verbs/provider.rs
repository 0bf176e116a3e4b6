//! `ringfence provider`

use ringfence_service::{Places, providers};

use crate::args::{ProviderArgs, ProviderVerb};
use crate::failure::Failure;
use crate::output;

pub(crate) fn provider(args: ProviderArgs) -> Result<i32, Failure> {
    let ProviderVerb::Ls { json } = args.verb;
    let rows = providers(&Places::from_env().map_err(|error| Failure::from(error).with_json(json))?);
    if json {
        output::json(&rows);
        return Ok(0);
    }
    let rows = rows.into_iter().map(|row| {
        let here = if row.available { "yes" } else { "no" };
        let version = row.version.unwrap_or_default();
        let refused: Vec<&str> = row.refuses.iter().map(|refused| refused.clause.as_str()).collect();
        let enforces = match (row.available, &refused[..]) {
            (false, _) => "nothing here".to_owned(),
            (true, []) => "every clause".to_owned(),
            (true, refused) => format!("all but {}", refused.join(", ")),
        };
        let first = row.refuses.into_iter().next().map(|refused| (refused.why, refused.fix));
        let (why, fix) = if row.available { first.unwrap_or_default() } else { (row.why, row.fix) };
        [row.name.to_string(), here.to_owned(), version, enforces, why, fix]
    });
    output::table(["provider", "here", "version", "enforces", "why not", "fix"], rows);
    Ok(0)
}
