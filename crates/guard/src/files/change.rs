//! Changes of one name or one file's metadata.

use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT, chmod, fstat, ftruncate,
    mkdir, open, renameat_with, stat, symlink, utimensat,
};
use rustix::io::Errno;

use super::look::must_be_regular;
use super::outcome::{Answer, Refused};
use super::paths::{checked, checked_mode, checked_target};
use super::reply::FileReply;
use super::request::{Existing, Parents};
use super::stat::{FileKind, FileStat, Timestamp};

/// Of directories that are made on the way to another.
const PARENT_MODE: u32 = 0o755;

fn done(result: Result<(), Errno>) -> Result<Answer, Refused> {
    result?;
    Ok(FileReply::Done.into())
}

pub(super) fn make_directory(path: &Path, mode: u32, parents: Parents) -> Result<Answer, Refused> {
    let (path, mode) = (checked(path)?, checked_mode(mode)?);
    done(match parents {
        Parents::Exist => mkdir(path, mode),
        Parents::Make => make_with_parents(path, mode),
    })
}

fn make_with_parents(path: &Path, mode: Mode) -> Result<(), Errno> {
    match make_or_have(path, mode) {
        Err(Errno::NOENT) => {}
        made => return made,
    }
    let missing: Vec<&Path> = path.ancestors().skip(1).take_while(|above| stat(*above).is_err()).collect();
    for above in missing.into_iter().rev() {
        make_or_have(above, Mode::from_raw_mode(PARENT_MODE))?;
    }
    make_or_have(path, mode)
}

fn make_or_have(path: &Path, mode: Mode) -> Result<(), Errno> {
    match mkdir(path, mode) {
        Err(Errno::EXIST) if FileStat::from(stat(path)?).kind == FileKind::Directory => Ok(()),
        made => made,
    }
}

pub(super) fn rename(from: &Path, to: &Path, existing: Existing) -> Result<Answer, Refused> {
    let flags = rename_flags(existing);
    done(renameat_with(CWD, checked(from)?, CWD, checked(to)?, flags))
}

pub(super) fn rename_flags(existing: Existing) -> RenameFlags {
    match existing {
        Existing::Refuse => RenameFlags::NOREPLACE,
        Existing::Replace => RenameFlags::empty(),
    }
}

pub(super) fn make_symlink(target: &Path, path: &Path) -> Result<Answer, Refused> {
    done(symlink(checked_target(target)?, checked(path)?))
}

/// Follows a link, as chmod does: links have no mode.
pub(super) fn set_mode(path: &Path, mode: u32) -> Result<Answer, Refused> {
    done(chmod(checked(path)?, checked_mode(mode)?))
}

/// Of a link itself, where it is one.
pub(super) fn set_modified(path: &Path, time: Timestamp) -> Result<Answer, Refused> {
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
    };
    done(utimensat(CWD, checked(path)?, &times, AtFlags::SYMLINK_NOFOLLOW))
}

pub(super) fn truncate(path: &Path, size: u64) -> Result<Answer, Refused> {
    must_be_regular(stat(checked(path)?)?.st_mode)?;
    let harmless = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, OFlags::WRONLY | harmless, Mode::empty())?;
    must_be_regular(fstat(&file)?.st_mode)?;
    done(ftruncate(&file, size))
}
