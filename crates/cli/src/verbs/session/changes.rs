//! A session's files over time: `snapshot`, `rollback`, `diff`, `commit`

use std::io::{IsTerminal, stderr};
use std::ops::ControlFlow;

use indicatif::{ProgressBar, ProgressStyle};
use ringfence_policy::ByteSize;
use ringfence_sandbox::overlay::{CommitReport, LeftOutReason, Recovered};
use ringfence_service::{
    Places, Since, commit_session, finish_commit, rollback_session, session_changes, take_snapshot,
    undo_commit,
};
use serde_json::json;

use super::done;
use crate::args::{SessionCommitArgs, SessionDiffArgs, SessionRollbackArgs, SessionSnapshotArgs};
use crate::failure::Failure;
use crate::output;

pub(super) fn snapshot(args: &SessionSnapshotArgs) -> Result<i32, Failure> {
    let bar = match stderr().is_terminal() {
        true => ProgressBar::new(0),
        false => ProgressBar::hidden(),
    };
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} files, {msg} read") {
        bar.set_style(style);
    }
    let taken = take_snapshot(&Places::from_env()?, &args.name, args.snapshot.as_deref(), &mut |progress| {
        bar.set_length(progress.all_entries);
        bar.set_position(progress.entries);
        bar.set_message(ByteSize(progress.bytes_read).to_string());
        ControlFlow::Continue(())
    });
    bar.finish_and_clear();
    let taken = taken?;
    if taken.skipped > 0 {
        output::note(&format!("{} sockets, pipes or devices are in it by name only", taken.skipped));
    }
    if args.json {
        output::json(&taken);
    } else {
        output::line(&taken.id);
    }
    Ok(0)
}

pub(super) fn rollback(args: &SessionRollbackArgs) -> Result<i32, Failure> {
    let restored = rollback_session(&Places::from_env()?, &args.name, &args.snapshot)?;
    let (written, removed) = (restored.written, restored.removed);
    if !args.json {
        output::note(&format!(
            "{written} files written, {removed} removed, {} as they were",
            restored.unchanged
        ));
    }
    Ok(done(args.json, json!({ "written": written, "removed": removed, "unchanged": restored.unchanged })))
}

pub(super) fn diff(args: &SessionDiffArgs) -> Result<i32, Failure> {
    let since = args.since.clone().map_or(Since::Start, Since::Snapshot);
    let changes = session_changes(&Places::from_env()?, &args.name, &since)?;
    if args.json {
        let (text, base64) = crate::json::text(changes.text);
        output::json(&json!({ "changes": changes.changes, "diff": text, "diff_base64": base64 }));
    } else if args.list {
        let rows = changes.changes.into_iter().map(|change| {
            let conflict = if change.conflict { "you changed it too" } else { "" };
            let size = change.size.map_or(String::new(), |size| size.to_string());
            [change.change.to_owned(), change.path, size, conflict.to_owned()]
        });
        output::table(["change", "path", "size", ""], rows);
    } else {
        output::foreign(&changes.text);
    }
    Ok(0)
}

pub(super) fn commit(args: &SessionCommitArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    if args.finish || args.undo {
        let recovered = match args.undo {
            true => undo_commit(&places, &args.name)?,
            false => finish_commit(&places, &args.name)?,
        };
        return Ok(recovery(&recovered, args.json));
    }
    let report = commit_session(&places, &args.name, args.only.clone())?.report;
    if args.json {
        output::json(&report);
        return Ok(0);
    }
    tell(&report);
    Ok(0)
}

fn tell(report: &CommitReport) {
    for left in &report.left_out {
        let path = left.path.display();
        let why = match &left.reason {
            LeftOutReason::Protected { name } => format!("`{}` is protected", name.display()),
            LeftOutReason::Special => "it is a pipe, socket or device".into(),
            LeftOutReason::Reserved => "commits use that name themselves".into(),
            LeftOutReason::Bound => "it holds, or lies in, something that is left out".into(),
        };
        output::denied(&format!("{path} was not committed: {why}"));
    }
    let count = report.applied.len();
    output::note(&format!("{count} change{} committed", if count == 1 { "" } else { "s" }));
}

fn recovery(recovered: &Recovered, json: bool) -> i32 {
    match recovered {
        Recovered::Applied => {
            if !json {
                output::note("all of the interrupted commit is applied");
            }
            done(json, json!({ "applied": true }))
        }
        Recovered::Undone { left, kept } => {
            for path in left {
                output::note(&format!("{} is left as you have it now", path.display()));
            }
            for path in kept {
                output::note(&format!("an earlier version is kept at {}", path.display()));
            }
            if !json {
                output::note("the interrupted commit is taken back");
            }
            done(json, json!({ "applied": false, "left": left, "kept": kept }))
        }
    }
}
