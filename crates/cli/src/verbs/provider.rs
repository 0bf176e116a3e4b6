//! `ringfence provider`

use ringfence_service::providers;

use crate::args::{ProviderArgs, ProviderVerb};
use crate::failure::Failure;
use crate::output;

pub(crate) fn provider(args: ProviderArgs) -> Result<i32, Failure> {
    let ProviderVerb::Ls { json } = args.verb;
    let rows = providers();
    if json {
        output::json(&rows);
        return Ok(0);
    }
    let rows = rows.into_iter().map(|row| {
        let here = if row.available { "yes" } else { "no" };
        let version = row.version.unwrap_or_default();
        [row.name.to_string(), here.to_owned(), version, row.enforces, row.why, row.fix]
    });
    output::table(["provider", "here", "version", "enforces", "why not", "fix"], rows);
    Ok(0)
}
