//! Files of a session: `cp`, `cat`, `write`, `ls`, `stat`, `mkdir`, `mv`, `rm`, `watch`

use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use ringfence_sandbox::{
    Copied, CopyLimits, Durability, Existing, FileChange, FileEntry, FileError, FileKind, FileStat, Files,
    Links, ListLimit, Parents, Reach, Timestamp,
};
use ringfence_service::{ErrorCode, ServiceError};
use serde_json::json;

use super::{done, open, refused};
use crate::args::{
    End, Inside, SessionCpArgs, SessionFileArgs, SessionMkdirArgs, SessionMvArgs, SessionWriteArgs,
};
use crate::failure::Failure;
use crate::output;

fn failed(error: FileError) -> Failure {
    ServiceError::new(ErrorCode::BadRequest, error.to_string(), error.fix()).into()
}

/// The session's files, and the place in them: a relative one is below where its commands start.
fn reach(inside: &Inside) -> Result<(Files, PathBuf), Failure> {
    let sandbox = open(&inside.session)?;
    let start = sandbox.facts().map_err(refused)?.directory;
    let path = start.join(&inside.path);
    // As it was written otherwise: `join` leaves a slash at the end of an empty path.
    let path = if inside.path.as_os_str().is_empty() { start } else { path };
    Ok((sandbox.files().map_err(refused)?, path))
}

pub(super) fn cp(args: &SessionCpArgs) -> Result<i32, Failure> {
    let progress = progress(match &args.from {
        End::Local(from) => Some(from),
        End::Inside(_) => None,
    });
    let mut told = |copied: ringfence_sandbox::CopyProgress<'_>| {
        let Copied { entries, bytes } = copied.copied;
        progress.set_message(format!("{entries} files"));
        progress.set_position(bytes);
    };
    let limits = CopyLimits::default();
    let copied = match (&args.from, &args.to) {
        (End::Local(from), End::Inside(to)) => {
            let (mut files, path) = reach(to)?;
            let is_directory =
                files.stat(&path, Links::Follow).is_ok_and(|(stat, _)| stat.kind == FileKind::Directory);
            let path = into(path, from, is_directory);
            files.copy_in(from, &path, &limits, &mut told)
        }
        (End::Inside(from), End::Local(to)) => {
            let (mut files, path) = reach(from)?;
            let to = into(to.clone(), &path, to.is_dir());
            files.copy_out(&path, &to, &limits, &mut told)
        }
        _ => {
            return Err(Failure::new(
                "one of the two must be in a session, as NAME:PATH, and the other one outside",
                "copy out of one session and into the other one",
            ));
        }
    };
    progress.finish_and_clear();
    let copied = copied.map_err(failed)?;
    Ok(done(args.json, json!({ "entries": copied.entries, "bytes": copied.bytes })))
}

/// Into a directory that is there, under its own name.
fn into(to: PathBuf, from: &Path, is_directory: bool) -> PathBuf {
    match from.file_name() {
        Some(name) if is_directory => to.join(name),
        _ => to,
    }
}

/// By bytes. How many there are is known of what lies here only.
fn progress(local: Option<&PathBuf>) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match local {
        Some(from) => {
            (ProgressBar::new(local_bytes(from)), "{bar:40} {bytes}/{total_bytes}, {bytes_per_sec}, {msg}")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}, {bytes_per_sec}, {msg}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Of a file, or all files of a tree; through no link, as they are copied.
fn local_bytes(top: &Path) -> u64 {
    let (mut bytes, mut waiting) = (0, vec![top.to_path_buf()]);
    while let Some(path) = waiting.pop() {
        let Ok(facts) = path.symlink_metadata() else { continue };
        if facts.is_file() {
            bytes += facts.len();
        } else if facts.is_dir() {
            waiting.extend(path.read_dir().into_iter().flatten().flatten().map(|entry| entry.path()));
        }
    }
    bytes
}

pub(super) fn cat(args: &SessionFileArgs) -> Result<i32, Failure> {
    let (mut files, path) = reach(&args.file.resolve()?)?;
    let file = files.open_read(&path, Links::Follow).map_err(failed)?;
    let cannot = |error: io::Error| {
        Failure::new(format!("cannot read {}: {error}", path.display()), "see whether it is still there")
    };
    if args.json {
        let mut bytes = Vec::new();
        copy(&file, &mut bytes).map_err(cannot)?;
        let (text, base64) = crate::json::text(bytes);
        output::json(&json!({ "text": text, "base64": base64 }));
        return Ok(0);
    }
    match copy(&file, &mut io::stdout().lock()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(cannot(error)),
        _ => Ok(0),
    }
}

/// By place: others may share the descriptor and move its position.
fn copy(file: &File, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    let mut at = 0;
    loop {
        match file.read_at(&mut buffer, at)? {
            0 => return to.flush(),
            read => {
                to.write_all(&buffer[..read])?;
                at += read as u64;
            }
        }
    }
}

pub(super) fn write(args: &SessionWriteArgs) -> Result<i32, Failure> {
    let (mut files, path) = reach(&args.file.resolve()?)?;
    let draft = files.create(&path, args.mode, Links::Follow).map_err(failed)?;
    let mut stdin = io::stdin().lock();
    let mut buffer = vec![0; 256 << 10];
    let mut bytes = 0;
    loop {
        let read = match stdin.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Failure::new(format!("cannot read stdin: {error}"), "try again")),
        };
        draft.file().write_all_at(&buffer[..read], bytes).map_err(|error| {
            Failure::new(
                format!("cannot write {}: {error}", path.display()),
                "make room inside, or raise --disk when the session is made",
            )
        })?;
        bytes += read as u64;
    }
    let existing = if args.new { Existing::Refuse } else { Existing::Replace };
    files.finish(draft, existing, Durability::Later).map_err(failed)?;
    Ok(done(args.json, json!({ "bytes": bytes })))
}

pub(super) fn ls(directory: &Inside, json: bool) -> Result<i32, Failure> {
    let (mut files, path) = reach(directory)?;
    let mut entries = files.list(&path, ListLimit::default()).map_err(failed)?;
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    if json {
        output::json(&entries.iter().map(entry).collect::<Vec<_>>());
        return Ok(0);
    }
    let rows = entries.iter().map(|entry| {
        let target =
            entry.target.as_ref().map_or(String::new(), |target| format!(" -> {}", target.display()));
        let FileStat { kind, mode, size, modified, .. } = entry.stat;
        let name = format!("{}{target}", entry.name.display());
        [kind_name(kind).into(), format!("{mode:04o}"), size.to_string(), time(modified), name]
    });
    output::table(["kind", "mode", "size", "modified", "name"], rows);
    Ok(0)
}

fn entry(entry: &FileEntry) -> serde_json::Value {
    let mut object = described(&entry.stat, entry.target.as_deref());
    object["name"] = entry.name.to_string_lossy().into();
    object
}

fn described(stat: &FileStat, target: Option<&Path>) -> serde_json::Value {
    json!({
        "kind": kind_name(stat.kind),
        "mode": format!("{:04o}", stat.mode),
        "size": stat.size,
        "modified": time(stat.modified),
        "links": stat.links,
        "target": target.map(|target| target.to_string_lossy()),
    })
}

fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "link",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharacterDevice | FileKind::BlockDevice => "device",
        FileKind::Unknown => "unknown",
    }
}

fn time(time: Timestamp) -> String {
    jiff::Timestamp::new(time.seconds, time.nanoseconds as i32)
        .map_or_else(|_| time.seconds.to_string(), |time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

pub(super) fn stat(args: &SessionFileArgs) -> Result<i32, Failure> {
    let (mut files, path) = reach(&args.file.resolve()?)?;
    let (stat, target) = files.stat(&path, Links::Keep).map_err(failed)?;
    if args.json {
        output::json(&described(&stat, target.as_deref()));
        return Ok(0);
    }
    let target = target.map_or(String::new(), |target| target.display().to_string());
    output::table(
        ["", &path.display().to_string()],
        [
            ["kind".into(), kind_name(stat.kind).into()],
            ["mode".into(), format!("{:04o}", stat.mode)],
            ["size".into(), stat.size.to_string()],
            ["modified".into(), time(stat.modified)],
            ["leads to".into(), target],
        ],
    );
    Ok(0)
}

pub(super) fn mkdir(args: &SessionMkdirArgs) -> Result<i32, Failure> {
    let (mut files, path) = reach(&args.directory.resolve()?)?;
    let parents = if args.parents { Parents::Make } else { Parents::Exist };
    files.make_directory(&path, 0o755, parents).map_err(failed)?;
    Ok(done(args.json, json!({ "path": path })))
}

pub(super) fn mv(args: &SessionMvArgs) -> Result<i32, Failure> {
    if args.from.session != args.to.session {
        return Err(Failure::new(
            "both must be in the same session",
            "copy it out of the one and into the other: ringfence session cp",
        ));
    }
    let (mut files, from) = reach(&args.from)?;
    let start = open(&args.to.session)?.facts().map_err(refused)?.directory;
    let to = start.join(&args.to.path);
    let existing = if args.force { Existing::Replace } else { Existing::Refuse };
    files.rename(&from, &to, existing).map_err(failed)?;
    Ok(done(args.json, json!({ "from": from, "to": to })))
}

pub(super) fn rm(file: &Inside, recursive: bool) -> Result<(), Failure> {
    let (mut files, path) = reach(file)?;
    let reach = if recursive { Reach::Tree } else { Reach::One };
    files.remove(&path, reach).map_err(failed)
}

pub(super) fn watch(args: &SessionFileArgs) -> Result<i32, Failure> {
    /// Only to notice that nobody reads any more.
    const LOOK: Duration = Duration::from_secs(3_600);
    let (files, path) = reach(&args.file.resolve()?)?;
    let mut watch = files.watch(&path, Reach::Tree).map_err(failed)?;
    loop {
        let Some(event) = watch.next_within(LOOK).map_err(failed)? else { continue };
        let change = match event.change {
            FileChange::Created => "created",
            FileChange::Changed => "changed",
            FileChange::Written => "written",
            FileChange::Removed => "removed",
            FileChange::MovedFrom => "moved from",
            FileChange::MovedTo => "moved to",
            FileChange::Metadata => "metadata",
            FileChange::Overflow => "overflow",
            FileChange::Unwatched => "unwatched",
        };
        if args.json {
            let path = event.path.to_string_lossy();
            output::json(&json!({ "change": change, "path": path, "directory": event.directory }));
        } else {
            output::line(format!("{change}\t{}", output::printable(&event.path.display().to_string())));
        }
    }
}
