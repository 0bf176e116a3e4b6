//! `ringfence workspace`

use ringfence_policy::ByteSize;
use ringfence_service::{Places, WorkspaceRow, create_workspace, list_workspaces, remove_workspace};
use serde_json::json;

use crate::args::{WorkspaceArgs, WorkspaceVerb};
use crate::failure::Failure;
use crate::output;

pub(crate) fn workspace(args: WorkspaceArgs) -> Result<i32, Failure> {
    let json = match &args.verb {
        WorkspaceVerb::Create { json, .. }
        | WorkspaceVerb::Ls { json }
        | WorkspaceVerb::Du { json, .. }
        | WorkspaceVerb::Rm { json, .. } => *json,
    };
    carry_out(args.verb).map_err(|failure| failure.with_json(json))?;
    Ok(0)
}

fn carry_out(verb: WorkspaceVerb) -> Result<(), Failure> {
    let places = Places::from_env()?;
    match verb {
        WorkspaceVerb::Create { name, size, json } => {
            create_workspace(&places, &name, size)?;
            say(json, &json!({ "name": name, "size": size.map(ByteSize::bytes) }));
        }
        WorkspaceVerb::Rm { name, json } => {
            remove_workspace(&places, &name)?;
            say(json, &json!({ "removed": name }));
        }
        WorkspaceVerb::Ls { json: true } => output::json(&list_workspaces(&places)?),
        WorkspaceVerb::Ls { json: false } => {
            output::table(
                ["workspace", "size", "files", "limit", "sessions"],
                list_workspaces(&places)?.iter().map(row),
            );
        }
        WorkspaceVerb::Du { name, json } => {
            let found =
                list_workspaces(&places)?.into_iter().find(|row| row.name == name).ok_or_else(|| {
                    Failure::new(format!("there is no workspace `{name}`"), "see `ringfence workspace ls`")
                })?;
            if json {
                output::json(&found);
            } else {
                output::line(ByteSize(found.bytes).to_string());
            }
        }
    }
    Ok(())
}

fn say(json: bool, object: &serde_json::Value) {
    if json {
        output::json(object);
    }
}

fn row(row: &WorkspaceRow) -> [String; 5] {
    let limit = row.limit.map_or(String::new(), |limit| ByteSize(limit).to_string());
    let size = ByteSize(row.bytes).to_string();
    [row.name.clone(), size, row.files.to_string(), limit, row.sessions.join(" ")]
}
