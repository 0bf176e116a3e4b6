//! `ringfence policy show`, `import`, `check` and `schema`

use ringfence_service::{Places, check_policy_file, import_policy, load_policy};

use crate::args::{PolicyArgs, PolicyImportArgs, PolicyShowArgs, PolicyVerb};
use crate::failure::Failure;
use crate::output::{self, printable};
use crate::resolve;

pub(crate) fn policy(args: PolicyArgs) -> Result<i32, Failure> {
    match args.verb {
        PolicyVerb::Show(args) => show(*args),
        PolicyVerb::Schema => {
            let schema = serde_json::to_string_pretty(&ringfence_policy::json_schema());
            output::line(schema.map_err(|error| Failure::new(error.to_string(), "report this as a bug"))?);
            Ok(0)
        }
        PolicyVerb::Import(args) => {
            let json = args.json;
            import(&args).map_err(|failure| failure.with_json(json))
        }
        PolicyVerb::Check { file } => {
            check_policy_file(&Places::from_env()?, &file)?;
            output::line(format!("{}: good", printable(&file.to_string_lossy())));
            Ok(0)
        }
    }
}

fn show(args: PolicyShowArgs) -> Result<i32, Failure> {
    let json = args.json;
    let loaded = resolve::policy(args.policy)
        .and_then(|spec| Ok(load_policy(&Places::from_env()?, spec)?))
        .map_err(|failure| failure.with_json(json))?;
    for note in &loaded.notes {
        output::note(note);
    }
    let merged = loaded.merged;
    if json {
        output::json(&merged.to_json());
    } else {
        let rows = merged.rows().into_iter().map(|row| [row.clause, row.value, row.origin]);
        output::table(["clause", "value", "from"], rows);
    }
    Ok(0)
}

/// The policy on stdout, to be kept; what became of each setting on stderr, to be read.
fn import(args: &PolicyImportArgs) -> Result<i32, Failure> {
    let (path, imported) = import_policy(&Places::from_env()?, args.from, args.file.as_deref())?;
    if args.json {
        output::json(&serde_json::json!({
            "file": path.to_string_lossy(), "from": imported.from, "policy": imported.layer, "settings": imported.rows,
        }));
        return Ok(0);
    }
    let toml =
        imported.layer.to_toml().map_err(|error| Failure::new(error.to_string(), "report this as a bug"))?;
    let rows =
        imported.rows.into_iter().map(|row| [row.setting, row.became.to_string(), row.policy, row.why]);
    output::side_table(["setting", "became", "policy", "why"], rows);
    output::raw(format!("# from {}\n{toml}", printable(&path.to_string_lossy())).as_bytes());
    Ok(0)
}
