//! One method an operation.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ringfence_guard::{
    Durability, Existing, FILES_VERSION, FileEntry, FileReply, FileRequest, FileStat, Links, Parents, Reach,
    Timestamp,
};

use super::channel::{Channel, FileTimeouts};
use super::draft::Draft;
use super::error::{FileError, FileProblem, failed};
use super::watch::Watch;

/// The longest name that a Linux file system has.
const NAME_MAX: usize = 255;

/// A session's files. Paths are absolute, as the sandbox sees them.
#[derive(Debug)]
pub struct Files {
    channel: Channel,
}

/// How many entries of one directory a caller takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListLimit(pub u64);

impl Default for ListLimit {
    fn default() -> Self {
        Self(1_000_000)
    }
}

type Asked<T> = Result<T, FileError>;

impl Files {
    /// `socket` is the client's end of a worker's channel.
    pub fn connect(socket: OwnedFd, timeouts: FileTimeouts) -> Asked<Self> {
        let reach = || -> Result<Channel, FileProblem> {
            let mut channel = Channel::new(socket, timeouts)?;
            channel.ask(&FileRequest::Hello { version: FILES_VERSION })?;
            match channel.answer()? {
                (FileReply::Hello { version: FILES_VERSION }, _) => Ok(channel),
                (FileReply::Hello { version }, _) => {
                    Err(FileProblem::Version { ours: FILES_VERSION, theirs: version })
                }
                _ => Err(channel.wrong("no greeting")),
            }
        };
        let channel = reach().map_err(failed("reach the file worker of", Path::new("the session")))?;
        Ok(Self { channel })
    }

    fn ask<T>(
        &mut self,
        operation: &'static str,
        path: &Path,
        request: &FileRequest,
        expect: impl FnOnce(&mut Channel, FileReply, Option<OwnedFd>) -> Result<T, FileProblem>,
    ) -> Asked<T> {
        let channel = &mut self.channel;
        channel
            .ask(request)
            .and_then(|()| channel.answer())
            .and_then(|(reply, fd)| expect(channel, reply, fd))
            .map_err(failed(operation, path))
    }

    fn ask_done(&mut self, operation: &'static str, path: &Path, request: &FileRequest) -> Asked<()> {
        self.ask(operation, path, request, |channel, reply, _| match reply {
            FileReply::Done => Ok(()),
            _ => Err(channel.wrong("an answer to something else")),
        })
    }

    /// What is known of a file; for a symbolic link that is not followed, also where it leads.
    pub fn stat(&mut self, path: &Path, links: Links) -> Asked<(FileStat, Option<PathBuf>)> {
        let request = FileRequest::Stat { path: path.into(), links };
        self.ask("look at", path, &request, |channel, reply, _| match reply {
            FileReply::Stat { stat, target } => Ok((stat, target)),
            _ => Err(channel.wrong("an answer to something else")),
        })
    }

    /// All entries of a directory, as the kernel orders them. Names are single, proper components.
    pub fn list(&mut self, path: &Path, limit: ListLimit) -> Asked<Vec<FileEntry>> {
        let mut entries = Vec::new();
        self.list_each(path, limit, &mut |entry| entries.push(entry))?;
        Ok(entries)
    }

    /// The same one by one, for directories that are not to be held in memory.
    pub fn list_each(&mut self, path: &Path, limit: ListLimit, each: &mut dyn FnMut(FileEntry)) -> Asked<()> {
        let channel = &mut self.channel;
        channel
            .ask(&FileRequest::List { path: path.into() })
            .and_then(|()| listing(channel, limit, each))
            .map_err(failed("list", path))
    }

    /// A regular file for reading. Read with `read_at`: a hostile worker may share the descriptor and move its position.
    pub fn open_read(&mut self, path: &Path, links: Links) -> Asked<File> {
        let request = FileRequest::OpenRead { path: path.into(), links };
        self.ask("open", path, &request, |channel, reply, fd| match reply {
            FileReply::Opened => channel.regular(fd),
            _ => Err(channel.wrong("an answer to something else")),
        })
    }

    /// A new file beside `path`, which gets that name at `finish`.
    pub fn create(&mut self, path: &Path, mode: u32, links: Links) -> Asked<Draft> {
        let request = FileRequest::Create { path: path.into(), mode, links };
        self.ask("create", path, &request, |channel, reply, fd| match reply {
            FileReply::Created { draft } => {
                Ok(Draft { file: channel.regular(fd)?, number: draft, path: path.into() })
            }
            _ => Err(channel.wrong("an answer to something else")),
        })
    }

    pub fn finish(&mut self, draft: Draft, existing: Existing, durability: Durability) -> Asked<()> {
        let request = FileRequest::Finish { draft: draft.number, existing, durability };
        self.ask_done("put a new file at", &draft.path, &request)
    }

    pub fn abandon(&mut self, draft: Draft) -> Asked<()> {
        self.ask_done("drop a new file for", &draft.path, &FileRequest::Abandon { draft: draft.number })
    }

    pub fn make_directory(&mut self, path: &Path, mode: u32, parents: Parents) -> Asked<()> {
        let request = FileRequest::MakeDirectory { path: path.into(), mode, parents };
        self.ask_done("make the directory", path, &request)
    }

    pub fn rename(&mut self, from: &Path, to: &Path, existing: Existing) -> Asked<()> {
        let request = FileRequest::Rename { from: from.into(), to: to.into(), existing };
        self.ask_done("rename", from, &request)
    }

    pub fn remove(&mut self, path: &Path, reach: Reach) -> Asked<()> {
        self.ask_done("remove", path, &FileRequest::Remove { path: path.into(), reach })
    }

    pub fn symlink(&mut self, target: &Path, path: &Path) -> Asked<()> {
        let request = FileRequest::Symlink { target: target.into(), path: path.into() };
        self.ask_done("make the symbolic link", path, &request)
    }

    /// Follows a symbolic link, as chmod does.
    pub fn set_mode(&mut self, path: &Path, mode: u32) -> Asked<()> {
        self.ask_done("change the mode of", path, &FileRequest::SetMode { path: path.into(), mode })
    }

    /// Of a symbolic link itself, where it is one.
    pub fn set_modified(&mut self, path: &Path, time: Timestamp) -> Asked<()> {
        self.ask_done("change the time of", path, &FileRequest::SetModified { path: path.into(), time })
    }

    pub fn truncate(&mut self, path: &Path, size: u64) -> Asked<()> {
        self.ask_done("truncate", path, &FileRequest::Truncate { path: path.into(), size })
    }

    /// Tell of changes from now on. The worker does nothing else afterwards.
    pub fn watch(mut self, path: &Path, reach: Reach) -> Asked<Watch> {
        self.ask_done("watch", path, &FileRequest::Watch { path: path.into(), reach })?;
        Ok(Watch::new(self.channel, path))
    }
}

fn listing(
    channel: &mut Channel,
    limit: ListLimit,
    each: &mut dyn FnMut(FileEntry),
) -> Result<(), FileProblem> {
    let mut count = 0;
    loop {
        let entries = match channel.answer()? {
            (FileReply::Done, _) => return Ok(()),
            (FileReply::Entries(entries), _) => entries,
            _ => return Err(channel.wrong("an answer to something else")),
        };
        count += entries.len() as u64;
        if count > limit.0 {
            // The rest of the listing is still on its way.
            let _ = channel.wrong("a listing that was cut short");
            return Err(FileProblem::TooMuch { limit: limit.0, unit: "entries in one directory" });
        }
        for entry in entries {
            if !is_name(&entry) {
                let _ = channel.wrong("a name that is not one");
                return Err(FileProblem::BadName(entry.name));
            }
            each(entry);
        }
    }
}

/// One component that stays where it is put.
fn is_name(entry: &FileEntry) -> bool {
    let name = entry.name.as_bytes();
    let stays = !matches!(name, b"" | b"." | b"..") && !name.iter().any(|byte| matches!(byte, b'/' | 0));
    stays && name.len() <= NAME_MAX
}
