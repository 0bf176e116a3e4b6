//! A session as a whole: `ls`, `pause`, `resume`, `stats`, `extend`, `inspect`, `rm`

use std::ffi::OsStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringfence_policy::{ByteSize, Span};
use ringfence_sandbox::{EndReason, SessionStats};
use ringfence_service::{
    Places, SessionRow, list_sessions, open_session, remove_session, remove_session_by_force,
    unreadable_sessions, workspace_bytes,
};
use serde::Serialize;
use serde_json::json;

use super::{done, files, open, refused};
use crate::args::{Inside, SessionExtendArgs, SessionLsArgs, SessionNameArgs, SessionRmArgs};
use crate::failure::Failure;
use crate::output;
use crate::verbs::run::sentence;

pub(super) fn ls(args: &SessionLsArgs) -> Result<i32, Failure> {
    if let Some(directory) = &args.directory {
        return files::ls(&Inside::of(directory, args.path.as_deref())?, args.json);
    }
    let places = Places::from_env()?;
    let rows = list_sessions(&places, args.all)?;
    for (place, why) in unreadable_sessions(&places)? {
        let (name, path) = (place.name(), place.path().display());
        output::note(&format!(
            "nothing is known of session `{name}` ({why}): its files are in {path}, and `session rm {name}` drops them"
        ));
    }
    if args.json {
        output::json(&rows.iter().map(summary).collect::<Vec<_>>());
        return Ok(0);
    }
    let cells = rows.iter().map(|row| {
        let running = row.status.as_ref().map_or(String::new(), |status| status.running.to_string());
        let left = row.status.as_ref().and_then(|status| status.ttl_ms).map(whole_seconds);
        [
            row.facts.id.clone(),
            state(row).to_owned(),
            age(row.facts.created),
            left.unwrap_or_default(),
            running,
            row.facts.profile.clone(),
            row.facts.workspace.as_ref().map_or("private".into(), |path| path.display().to_string()),
        ]
    });
    output::table(["session", "state", "age", "ttl", "running", "profile", "workspace"], cells);
    Ok(0)
}

/// Without what `inspect` is for.
fn summary(row: &SessionRow) -> serde_json::Value {
    let facts = &row.facts;
    json!({
        "id": facts.id,
        "state": state(row),
        "created": facts.created,
        "profile": facts.profile,
        "workspace": facts.workspace,
        "workspace_kind": facts.workspace_kind,
        "ended": facts.ended,
        "running": row.status.as_ref().map(|status| status.running),
        "ttl_ms": row.status.as_ref().and_then(|status| status.ttl_ms),
        "denials": row.status.as_ref().map(|status| status.denials.len()),
    })
}

fn state(row: &SessionRow) -> &'static str {
    match (&row.status, &row.facts.ended) {
        (Some(status), _) if status.paused => "paused",
        (Some(_), _) => "alive",
        (None, Some(end)) => why(end.why),
        (None, None) if row.silent => "not answering",
        (None, None) if row.other_version => "of another version",
        (None, None) => "ended",
    }
}

fn why(reason: EndReason) -> &'static str {
    match reason {
        EndReason::Asked => "ended",
        EndReason::TimeToLive => "ended: time to live",
        EndReason::Idle => "ended: idle",
        EndReason::Signal => "ended: keeper was told to",
        EndReason::GuardGone => "ended: guard was killed",
        EndReason::KeeperGone => "ended: keeper was killed",
    }
}

fn whole_seconds(millis: u64) -> String {
    Span::from_secs(millis / 1_000).to_string()
}

fn age(created: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_millis() as u64;
    whole_seconds(now.saturating_sub(created))
}

pub(super) fn pause(args: &SessionNameArgs) -> Result<i32, Failure> {
    open(&args.name)?.pause().map_err(refused)?;
    Ok(done(args.json, json!({ "id": args.name, "paused": true })))
}

pub(super) fn resume(args: &SessionNameArgs) -> Result<i32, Failure> {
    open(&args.name)?.resume().map_err(refused)?;
    Ok(done(args.json, json!({ "id": args.name, "paused": false })))
}

pub(super) fn extend(args: &SessionExtendArgs) -> Result<i32, Failure> {
    let time = |span: Option<Span>| span.map(|span| span.duration());
    open(&args.name)?.extend(time(args.ttl), time(args.idle_timeout)).map_err(refused)?;
    Ok(done(args.json, json!({ "id": args.name })))
}

/// What `stats --json` prints.
#[derive(Serialize)]
struct AllStats {
    #[serde(flatten)]
    stats: SessionStats,
    /// The copy-on-write layer, or the named workspace.
    workspace_bytes: Option<u64>,
}

pub(super) fn stats(args: &SessionNameArgs) -> Result<i32, Failure> {
    let sandbox = open(&args.name)?;
    let stats = sandbox.stats().map_err(refused)?;
    let workspace = workspace_bytes(&sandbox.facts().map_err(refused)?, sandbox.place());
    if args.json {
        output::json(&AllStats { stats, workspace_bytes: workspace });
        return Ok(0);
    }
    let SessionStats { cpu_ms, memory, max_memory, processes, disk_used, disk_limit, .. } = stats;
    let size = |bytes: u64| ByteSize(bytes).to_string();
    let rows = [
        ["processor time".into(), Span::from_millis(cpu_ms).to_string()],
        ["memory".into(), size(memory)],
        ["memory at most".into(), max_memory.map_or(String::new(), size)],
        ["processes".into(), processes.to_string()],
        ["private disk".into(), format!("{} of {}", size(disk_used), size(disk_limit))],
        ["workspace on disk".into(), workspace.map_or(String::new(), size)],
        ["connections".into(), stats.connections.to_string()],
        ["sent".into(), size(stats.sent)],
        ["received".into(), size(stats.received)],
    ];
    output::table(["", "used"], rows);
    Ok(0)
}

pub(super) fn inspect(args: &SessionNameArgs) -> Result<i32, Failure> {
    let row = SessionRow::of(&open(&args.name)?)?;
    if args.json {
        output::json(&row);
        return Ok(0);
    }
    let SessionRow { facts, status, .. } = &row;
    let ports = status.as_ref().map(|status| status.ports.iter().map(u16::to_string).collect::<Vec<_>>());
    output::table(
        ["session", &facts.id],
        [
            ["state".into(), state(&row).into()],
            ["age".into(), age(facts.created)],
            ["profile".into(), facts.profile.clone()],
            [
                "workspace".into(),
                facts.workspace.as_ref().map_or("private".into(), |path| path.display().to_string()),
            ],
            ["directory".into(), facts.directory.display().to_string()],
            ["ports".into(), ports.unwrap_or_default().join(" ")],
        ],
    );
    output::line("");
    let text = |value: &serde_json::Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let clauses = facts.receipt["clauses"].as_array().into_iter().flatten();
    let rows = clauses.map(|line| [text(line, "clause"), text(line, "value"), text(line, "mechanism")]);
    output::table(["clause", "value", "mechanism"], rows);
    for denial in status.iter().flat_map(|status| &status.denials) {
        output::denied(&sentence(denial));
    }
    for note in facts.ended.iter().flat_map(|end| &end.notes) {
        output::note(note);
    }
    Ok(0)
}

pub(super) fn rm(args: &SessionRmArgs) -> Result<i32, Failure> {
    let places = Places::from_env()?;
    if args.all {
        let names: Vec<String> = list_sessions(&places, true)?.into_iter().map(|row| row.facts.id).collect();
        names.iter().try_for_each(|name| remove(&places, name, args.force))?;
        return Ok(done(args.json, json!({ "removed": names })));
    }
    let files_and_sessions = match Inside::of_two(&args.names) {
        Some(file) => vec![Removed::File(file)],
        None => args.names.iter().map(|name| removed(&places, name)).collect::<Result<_, _>>()?,
    };
    refuse_ambiguous(args, &files_and_sessions)?;
    for one in &files_and_sessions {
        match one {
            Removed::File(file) => files::rm(file, args.recursive)?,
            Removed::Session(name) => remove(&places, name, args.force)?,
        }
    }
    let names: Vec<String> = args.names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    Ok(done(args.json, json!({ "removed": names })))
}

enum Removed {
    File(Inside),
    Session(String),
}

/// What a word means. A session that is not there is refused before anything is taken away.
fn removed(places: &Places, word: &OsStr) -> Result<Removed, Failure> {
    if let Some(file) = Inside::parse(word) {
        return Ok(Removed::File(file));
    }
    let Some(name) = word.to_str() else {
        return Err(Failure::new(
            format!("there is no session `{}`", word.display()),
            "see `ringfence session ls` for those that there are",
        ));
    };
    open_session(places, name)?;
    Ok(Removed::Session(name.to_owned()))
}

/// `rm -r work build` may mean a file of the one, or both sessions.
fn refuse_ambiguous(args: &SessionRmArgs, all: &[Removed]) -> Result<(), Failure> {
    match all {
        [Removed::Session(name), Removed::Session(path)] if args.recursive => Err(Failure::new(
            format!("`{path}` may be a session, or a file of `{name}`"),
            format!("write {name}:{path} for the file; sessions are removed without -r"),
        )),
        _ => Ok(()),
    }
}

fn remove(places: &Places, name: &str, force: bool) -> Result<(), Failure> {
    let removed = match force {
        true => remove_session_by_force(places, name)?,
        false => remove_session(places, name)?,
    };
    removed.iter().for_each(|note| output::note(note));
    Ok(())
}
