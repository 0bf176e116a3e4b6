//! Looking at one file, and opening it to be read.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, open, readlinkat, statat};
use rustix::io::Errno;
use rustix::path::Arg;

use super::outcome::{Answer, Refused};
use super::paths::checked;
use super::reply::FileReply;
use super::request::Links;
use super::stat::{FileKind, FileStat};

pub(super) fn stat(path: &Path, links: Links) -> Result<Answer, Refused> {
    let flags = match links {
        Links::Keep => AtFlags::SYMLINK_NOFOLLOW,
        Links::Follow => AtFlags::empty(),
    };
    let stat = FileStat::from(statat(CWD, checked(path)?, flags)?);
    let target = match stat.kind {
        FileKind::Symlink => Some(link_target(CWD, path)?),
        _ => None,
    };
    Ok(FileReply::Stat { stat, target }.into())
}

pub(super) fn link_target(directory: impl std::os::fd::AsFd, name: impl Arg) -> Result<PathBuf, Errno> {
    Ok(OsString::from_vec(readlinkat(directory, name, Vec::new())?.into_bytes()).into())
}

/// A regular file for reading. No other is opened: opening a device can do something, and a FIFO could hold the reader.
pub(super) fn open_read(path: &Path, links: Links) -> Result<Answer, Refused> {
    let (look, flags) = match links {
        Links::Keep => (AtFlags::SYMLINK_NOFOLLOW, OFlags::NOFOLLOW),
        Links::Follow => (AtFlags::empty(), OFlags::empty()),
    };
    must_be_regular(statat(CWD, checked(path)?, look)?.st_mode)?;
    let harmless = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, OFlags::RDONLY | harmless | flags, Mode::empty())?;
    // It may have been exchanged since.
    must_be_regular(fstat(&file)?.st_mode)?;
    Ok(Answer::with(FileReply::Opened, file))
}

pub(super) fn must_be_regular(mode: u32) -> Result<(), Refused> {
    match FileType::from_raw_mode(mode) {
        FileType::RegularFile => Ok(()),
        kind => Err(Refused::NotRegular(kind.into())),
    }
}
