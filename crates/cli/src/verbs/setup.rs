//! `ringfence setup`

use ringfence_service::{
    FileChange, Places, SetupMode, SetupScope, SetupSpec, apply_setup, how_to_check, plan_removal,
    plan_setup, verify_setup,
};
use similar::TextDiff;

use crate::args::SetupArgs;
use crate::failure::Failure;
use crate::output;

pub(crate) fn setup(args: SetupArgs) -> Result<i32, Failure> {
    let json = args.json;
    run(args).map_err(|failure| failure.with_json(json))
}

fn run(args: SetupArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(format!("the place of this program can't be found: {error}"), "start it by its path")
    })?;
    let spec =
        SetupSpec { client: args.client.into(), scope: args.scope.into(), mode: args.mode.into(), program };
    let plan = if args.remove { plan_removal(&places, &spec)? } else { plan_setup(&places, &spec)? };
    if !args.dry_run {
        apply_setup(&places, &plan)?;
        if !args.remove {
            verify_setup(&places, &spec)?;
        }
    }
    if args.json {
        output::json(&serde_json::json!({
            "client": spec.client, "scope": spec.scope, "mode": spec.mode, "changed": !args.dry_run && !plan.is_empty(),
            "files": plan.changes, "notes": plan.notes,
        }));
        return Ok(0);
    }
    if plan.is_empty() {
        output::line("nothing to change");
    }
    for change in &plan.changes {
        output::foreign(diff(change).as_bytes());
    }
    plan.notes.iter().for_each(|note| output::note(note));
    if !args.remove && spec.mode != SetupMode::Mcp {
        output::note(how_to_check(spec.client));
    }
    match (plan.is_empty(), args.dry_run, args.remove) {
        (true, ..) => {}
        (_, true, _) => output::note("nothing was changed: this was a dry run"),
        (_, _, true) => output::note("it is as it was; a client that runs already has to be started anew"),
        _ => output::note(&format!(
            "done: start the client as ever, anew if it runs already. `ringfence setup {}{} --remove` takes this back",
            spec.client.as_str(),
            if spec.scope == SetupScope::Project { " --scope project" } else { "" },
        )),
    }
    Ok(0)
}

fn diff(change: &FileChange) -> String {
    let (before, after) = (change.before.as_deref().unwrap_or(""), change.after.as_deref().unwrap_or(""));
    let name = change.path.display().to_string();
    let old = if change.before.is_some() { &*name } else { "/dev/null" };
    let new = if change.after.is_some() { &*name } else { "/dev/null" };
    TextDiff::from_lines(before, after).unified_diff().header(old, new).to_string()
}
