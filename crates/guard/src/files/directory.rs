//! One open directory, and the names in it.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags, RawDir, openat};
use rustix::io::Errno;
use rustix::path::Arg;

const BUFFER_BYTES: usize = 32 << 10;

/// Open a directory to read it; `links` are flags for the last component.
pub(super) fn open(path: impl Arg, links: OFlags) -> Result<OwnedFd, Errno> {
    open_at(CWD, path, links)
}

pub(super) fn open_at(parent: impl AsFd, path: impl Arg, links: OFlags) -> Result<OwnedFd, Errno> {
    openat(parent, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | links, Mode::empty())
}

/// What to do after one name.
pub(super) enum Then {
    Continue,
    Stop,
}

/// Every name but `.` and `..`, as the kernel gives them, until `each` says to stop.
pub(super) fn for_each_name(
    directory: impl AsFd,
    mut each: impl FnMut(&CStr, FileType) -> Result<Then, Errno>,
) -> Result<Then, Errno> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
    let mut names = RawDir::new(directory, &mut buffer);
    while let Some(entry) = names.next() {
        let entry = entry?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        if let Then::Stop = each(entry.file_name(), entry.file_type())? {
            return Ok(Then::Stop);
        }
    }
    Ok(Then::Continue)
}
