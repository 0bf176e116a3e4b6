//! `ringfence snapshot`

use ringfence_policy::ByteSize;
use ringfence_service::{
    Places, export_snapshot, import_snapshot, list_snapshots, remove_snapshot, verify_snapshots,
};
use serde_json::json;

use crate::args::{SnapshotArgs, SnapshotVerb};
use crate::failure::{Failure, REFUSED};
use crate::output;

pub(crate) fn snapshot(args: SnapshotArgs) -> Result<i32, Failure> {
    let json = match &args.verb {
        SnapshotVerb::Ls { json }
        | SnapshotVerb::Rm { json, .. }
        | SnapshotVerb::Export { json, .. }
        | SnapshotVerb::Import { json, .. }
        | SnapshotVerb::Verify { json } => *json,
    };
    carry_out(args.verb).map_err(|failure| failure.with_json(json))
}

fn carry_out(verb: SnapshotVerb) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    match verb {
        SnapshotVerb::Ls { json } => ls(&places, json),
        SnapshotVerb::Rm { snapshots, json } => {
            snapshots.iter().try_for_each(|snapshot| remove_snapshot(&places, snapshot))?;
            if json {
                output::json(&json!({ "removed": snapshots }));
            }
            Ok(0)
        }
        SnapshotVerb::Export { snapshot, file, json } => {
            export_snapshot(&places, &snapshot, &file)?;
            if json {
                output::json(&json!({ "file": file }));
            }
            Ok(0)
        }
        SnapshotVerb::Import { file, json } => {
            let id = import_snapshot(&places, &file)?;
            if json {
                output::json(&json!({ "id": id }));
            } else {
                output::line(id);
            }
            Ok(0)
        }
        SnapshotVerb::Verify { json } => verify(&places, json),
    }
}

fn ls(places: &Places, json: bool) -> Result<i32, Failure> {
    let (rows, damaged) = list_snapshots(places)?;
    for line in &damaged {
        output::warning(&format!("a snapshot can't be read: {line}"));
    }
    if json {
        output::json(&rows);
        return Ok(0);
    }
    let cells = rows.into_iter().map(|row| {
        let id = row.id.chars().take(12).collect();
        let facts = row.facts;
        [id, facts.name, facts.session, facts.entries.to_string(), ByteSize(facts.bytes).to_string()]
    });
    output::table(["snapshot", "name", "session", "files", "size"], cells);
    Ok(0)
}

fn verify(places: &Places, json: bool) -> Result<i32, Failure> {
    let verified = verify_snapshots(places)?;
    let damage: Vec<String> = verified.damage.iter().map(ToString::to_string).collect();
    if json {
        output::json(&json!({ "whole": damage.is_empty(), "damage": damage }));
    } else {
        for line in &damage {
            output::warning(line);
        }
        if damage.is_empty() {
            output::note("all snapshots are whole");
        }
    }
    Ok(if damage.is_empty() { 0 } else { REFUSED })
}
