//! Entries of a directory with what is known of each, and files to read.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Dir, OFlags, fstat, readlinkat, statat};
use rustix::io::Errno;

use super::{LocalTree, open_one};
use crate::snapshots::path::TreePath;
use crate::snapshots::tree::{EntryStat, FileKind, Listed, Tree};

impl Tree for LocalTree {
    fn list(&self, directory: &TreePath, most: usize) -> io::Result<Vec<Listed>> {
        let fd = self.directory(directory)?;
        let mut listed = Vec::new();
        for entry in Dir::read_from(&*fd)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if listed.len() == most {
                break;
            }
            match statat(&*fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => listed.push(Listed { name: name.to_bytes().to_vec(), stat: stat.into() }),
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(listed)
    }

    fn open(&self, file: &TreePath) -> io::Result<File> {
        let (directory, name) = self.parent(file)?;
        let opened = open_one(directory.as_fd(), name.as_bytes(), OFlags::RDONLY)?;
        match EntryStat::from(fstat(&opened)?).kind {
            FileKind::File => Ok(File::from(opened)),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
        }
    }

    fn read_link(&self, link: &TreePath) -> io::Result<Vec<u8>> {
        let (directory, name) = self.parent(link)?;
        Ok(readlinkat(&*directory, name, Vec::new())?.into_bytes())
    }

    fn times_tell(&self) -> bool {
        self.times_tell
    }
}
