//! Telling of changes until the channel closes.

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify::{Event, ReadFlags, Reader};
use rustix::io::Errno;

use super::paths::checked;
use super::reply::{FileChange, FileEvent, FileReply};
use super::request::Reach;
use super::watches::{Watches, event};

/// Room for many events; one with the longest name takes 272 bytes.
const BUFFER_BYTES: usize = 16 << 10;

const CHANGES: [(ReadFlags, FileChange); 7] = [
    (ReadFlags::CREATE, FileChange::Created),
    (ReadFlags::MODIFY, FileChange::Changed),
    (ReadFlags::CLOSE_WRITE, FileChange::Written),
    (ReadFlags::DELETE, FileChange::Removed),
    (ReadFlags::MOVED_FROM, FileChange::MovedFrom),
    (ReadFlags::MOVED_TO, FileChange::MovedTo),
    (ReadFlags::ATTRIB, FileChange::Metadata),
];

/// A watch that has begun: whatever changes from now on will be told. It tells nothing yet.
pub(super) struct Begun {
    watches: Watches,
    /// What is not watched from the start.
    unwatched: Vec<FileEvent>,
}

pub(super) fn begin(path: &Path, reach: Reach) -> Result<Begun, Errno> {
    let mut watches = Watches::new(checked(path)?, reach)?;
    let mut unwatched = Vec::new();
    watches.add_beneath_root(&mut |event| unwatched.push(event));
    Ok(Begun { watches, unwatched })
}

/// Returns when nobody listens any more, or says anything: a watch is the last request of its channel.
pub(super) fn tell(begun: Begun, channel: BorrowedFd<'_>, send: &mut dyn FnMut(FileReply) -> bool) {
    let Begun { mut watches, unwatched } = begun;
    let mut heard = unwatched.into_iter().all(|event| send(FileReply::Event(event)));
    loop {
        let mut polled = [
            PollFd::from_borrowed_fd(channel, PollFlags::IN),
            PollFd::from_borrowed_fd(watches.queue(), PollFlags::IN),
        ];
        match poll(&mut polled, None) {
            Err(Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !polled[0].revents().is_empty() => return,
            Ok(_) => {}
        }
        let mut say = |event| heard = heard && send(FileReply::Event(event));
        if drain(&mut watches, &mut say).is_err() || !heard {
            return;
        }
    }
}

/// An event, out of the kernel's buffer.
struct Seen {
    watch: i32,
    flags: ReadFlags,
    cookie: u32,
    name: Option<PathBuf>,
}

impl From<Event<'_>> for Seen {
    fn from(event: Event<'_>) -> Self {
        let name = event.file_name().map(|name| OsStr::from_bytes(name.to_bytes()).into());
        Self { watch: event.wd(), flags: event.events(), cookie: event.cookie(), name }
    }
}

fn drain(watches: &mut Watches, say: &mut dyn FnMut(FileEvent)) -> Result<(), Errno> {
    for seen in read_queue(watches.queue())? {
        handle(watches, &seen, say);
    }
    Ok(())
}

/// What one read gives.
fn read_queue(queue: BorrowedFd<'_>) -> Result<Vec<Seen>, Errno> {
    let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
    let mut reader = Reader::new(queue, &mut buffer);
    let mut events = Vec::new();
    loop {
        match reader.next() {
            Ok(event) => events.push(event.into()),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(events),
            Err(errno) => return Err(errno),
        }
        if reader.is_buffer_empty() {
            return Ok(events);
        }
    }
}

fn handle(watches: &mut Watches, seen: &Seen, say: &mut dyn FnMut(FileEvent)) {
    if seen.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
        say(event(FileChange::Overflow, PathBuf::new(), false));
        // Directories that were made meanwhile are not watched yet.
        return watches.add_beneath_root(say);
    }
    let Some(directory) = watches.path(seen.watch).map(Path::to_path_buf) else { return };
    if seen.flags.contains(ReadFlags::IGNORED) {
        return watches.forget(seen.watch);
    }
    match &seen.name {
        Some(name) => tell_name(watches, seen, directory.join(name), say),
        None if watches.is_root(&directory) => tell_root(seen, directory, say),
        // The directory above tells the same with a name.
        None => {}
    }
}

fn tell_root(seen: &Seen, root: PathBuf, say: &mut dyn FnMut(FileEvent)) {
    let change = if seen.flags.contains(ReadFlags::DELETE_SELF) {
        FileChange::Removed
    } else if seen.flags.contains(ReadFlags::MOVE_SELF) {
        FileChange::MovedFrom
    } else if seen.flags.contains(ReadFlags::UNMOUNT) {
        FileChange::Unwatched
    } else {
        let Some(change) = change_of(seen.flags) else { return };
        change
    };
    say(event(change, root, seen.flags.contains(ReadFlags::ISDIR)));
}

fn tell_name(watches: &mut Watches, seen: &Seen, path: PathBuf, say: &mut dyn FnMut(FileEvent)) {
    let Some(change) = change_of(seen.flags) else { return };
    let directory = seen.flags.contains(ReadFlags::ISDIR);
    say(FileEvent { change, path: path.clone(), directory, cookie: seen.cookie });
    match change {
        FileChange::MovedFrom if directory => watches.drop_beneath(&path),
        FileChange::Created | FileChange::MovedTo if directory => watches.add_new(path, say),
        _ => {}
    }
}

fn change_of(flags: ReadFlags) -> Option<FileChange> {
    CHANGES.into_iter().find(|(flag, _)| flags.contains(*flag)).map(|(_, change)| change)
}
