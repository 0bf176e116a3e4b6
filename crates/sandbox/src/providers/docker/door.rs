//! The door: a socket in a directory of the owner's alone, shown to one container, through which its first process comes in once.
//! It is gone before anything of the caller's is known inside.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ringfence_linux::tell_senders;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen, socket_with,
};

use super::container::{DOOR_NAME, Owner};

/// The directory of all doors, in the state directory.
const DOORS: &str = "docker";

#[derive(Debug)]
pub(super) struct Door {
    directory: PathBuf,
    listener: OwnedFd,
}

impl Door {
    /// A door that only `uid` can come in by. `number` tells those of one owner apart.
    pub(super) fn open(state: &Path, owner: Owner, number: u32, uid: u32) -> io::Result<Self> {
        let all = state.join(DOORS);
        sweep(&all);
        let directory = all.join(format!("{}.{number}", owner.key()));
        // Another, whose door was the last, may take the directory of all doors away in between.
        let make = || {
            DirBuilder::new().recursive(true).mode(0o700).create(&all)?;
            DirBuilder::new().mode(0o700).create(&directory)
        };
        let mut made = make();
        for _ in 0..100 {
            match &made {
                Err(error) if error.kind() == io::ErrorKind::NotFound => made = make(),
                _ => break,
            }
        }
        made?;
        let made = Self::listen(&directory, uid);
        if made.is_err() {
            take_away(&directory);
        }
        Ok(Self { listener: made?, directory })
    }

    fn listen(directory: &Path, uid: u32) -> io::Result<OwnedFd> {
        let inner = directory.join("in");
        DirBuilder::new().mode(0o711).create(&inner)?;
        // Whatever the umask is: nobody else gets here, through the directory above.
        fs::set_permissions(&inner, Permissions::from_mode(0o711))?;
        // By a descriptor of the directory: its own path may be too long for an address.
        let held = open(&inner, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let address = SocketAddrUnix::new(format!("/proc/self/fd/{}/{DOOR_NAME}", held.as_raw_fd()))?;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        bind(&listener, &address)?;
        let path = inner.join(DOOR_NAME);
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
        if uid != rustix::process::geteuid().as_raw() {
            chown(&path, Some(uid), None)?;
        }
        // Whoever comes in has it from here, and so has what it says before it is let in.
        tell_senders(listener.as_fd(), true)?;
        listen(&listener, 8)?;
        Ok(listener)
    }

    /// What the container is shown.
    pub(super) fn shown(&self) -> PathBuf {
        self.directory.join("in")
    }

    /// The next one who knocks, if one does within `patience`.
    pub(super) fn knock(&self, patience: Duration) -> io::Result<Option<OwnedFd>> {
        let patience = Timespec::try_from(patience).map_err(|_| io::ErrorKind::InvalidInput)?;
        let mut polled = [PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut polled, Some(&patience)))? == 0 {
            return Ok(None);
        }
        Ok(Some(accept_with(&self.listener, SocketFlags::CLOEXEC)?))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        take_away(&self.directory);
    }
}

fn take_away(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
    // The one of all doors, if it was the last.
    if let Some(all) = directory.parent() {
        let _ = fs::remove_dir(all);
    }
}

/// Those of owners that were killed with a door open.
fn sweep(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| Owner::parse(name.split_once('.')?.0));
        if owner.is_some_and(Owner::is_gone) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_is_gone_with_its_owner_or_by_the_next() {
        let state = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid().as_raw();
        let door = Door::open(state.path(), Owner::own(), 1, own).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(door.shown().parent().unwrap()), 0o700);
        assert_eq!(mode(&door.shown().join(DOOR_NAME)), 0o600);
        assert!(door.knock(Duration::from_millis(1)).unwrap().is_none());
        drop(door);
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 0);
        let key = Owner::own().key();
        let parts: Vec<u64> = key.split('-').map(|part| part.parse().unwrap()).collect();
        let (killed, living) = (format!("{}-{}-{}.1", parts[0], parts[1] + 1, parts[2]), format!("{key}.7"));
        for name in [&killed, &living] {
            fs::create_dir_all(state.path().join(DOORS).join(name).join("in")).unwrap();
        }
        drop(Door::open(state.path(), Owner::own(), 1, own).unwrap());
        let left = fs::read_dir(state.path().join(DOORS)).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), [living.as_str()]);
    }
}
