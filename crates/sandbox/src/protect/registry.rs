//! Placeholders in a user's directory, counted: who uses them is written down, under a lock, before they are made, so
//! that the last to leave, or the next to start after a kill, removes them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ringfence_linux::start_time;
use ringfence_policy::{Protected, protected};
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, StatxFlags, fcntl_lock, flock, fstat, linkat,
    mkdirat, openat, statat, statx, unlinkat,
};
use rustix::io::Errno;

use super::beneath::{open_workspace, parent, read_file};
use crate::plan::PlannedWorkspace;

/// An empty file or directory that stands where something protected is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placeholder {
    pub(super) name: PathBuf,
    is_dir: bool,
    /// 0 until it is made.
    inode: u64,
}

/// What a placeholder holds: nothing, but for the few where a host tool would stumble over an empty file.
fn content(name: &Path) -> &'static str {
    let is = |entry: &&Protected| {
        let same_file = name.file_name() == Path::new(entry.name).file_name();
        name == Path::new(entry.name) || (entry.parent == Some(".git") && same_file)
    };
    protected().iter().find(is).map_or("", |entry| entry.content)
}

/// A run, by the name of a file in the records' directory that it keeps locked as long as it lives: a pid would say
/// nothing to a run in another pid namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
struct User(String);

impl User {
    /// A file of this run's own. It is locked before it has a name: nobody ever sees it free while this run lives. The lock
    /// is the process's, which a fork does not inherit.
    fn new(directory: &Path) -> io::Result<(Self, File)> {
        let pid = std::process::id();
        let name = format!("{MARK}{pid}-{}", start_time(pid).unwrap_or(0));
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let file = openat(CWD, directory, flags, Mode::from_raw_mode(0o600))?;
        fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let path = format!("/proc/self/fd/{}", fd_number(file.as_fd()));
        linkat(CWD, path, CWD, directory.join(&name), AtFlags::SYMLINK_FOLLOW)?;
        Ok((Self(name), file.into()))
    }

    /// The file of a dead one is removed.
    fn lives(&self, directory: &Path) -> bool {
        let path = directory.join(&self.0);
        let Ok(file) = File::open(&path) else { return false };
        // Shared: others may be asking at the same time.
        match fcntl_lock(&file, FlockOperation::NonBlockingLockShared) {
            Err(Errno::AGAIN | Errno::ACCESS) => true,
            _ => {
                let _ = fs::remove_file(&path);
                false
            }
        }
    }
}

/// Files of runs, beside the records.
const MARK: &str = "run-";

#[derive(Debug, Default)]
struct Record {
    workspace: PathBuf,
    since: u64,
    users: Vec<User>,
    placeholders: Vec<Placeholder>,
}

/// The record of one workspace.
#[derive(Debug)]
pub(super) struct Registry {
    path: PathBuf,
    /// Held from before the workspace is looked at until its placeholders are made.
    locked: Option<Locked>,
    /// This run, and its locked file.
    user: Option<(User, File)>,
}

const DIRECTORY: &str = "placeholders";

/// The name of a workspace's record.
fn key_of(device: u64, inode: u64) -> OsString {
    format!("{device:x}-{inode:x}").into()
}

fn key(path: &Path) -> &OsStr {
    path.file_name().unwrap_or_default()
}

impl Registry {
    /// Open and lock the record, removing what killed runs left: what is found in the workspace afterwards is real.
    pub(super) fn open(state: &Path, workspace: &PlannedWorkspace) -> io::Result<Self> {
        let directory = state.join(DIRECTORY);
        if !directory.is_dir() {
            fs::DirBuilder::new().recursive(true).create(&directory)?;
        }
        let path = directory.join(key_of(workspace.device, workspace.inode));
        let mut locked = Locked::open(&path)?;
        let mut record = locked.read()?;
        if record.users.is_empty() && !record.placeholders.is_empty() {
            record.remove_placeholders(key(&path));
            locked.write(&Record::default())?;
        }
        Ok(Self { path, locked: Some(locked), user: None })
    }

    /// Make what is absent, and take part in what others have made. `existing` may hold their placeholders.
    pub(super) fn place(
        &mut self,
        directory: BorrowedFd<'_>,
        absent: Vec<(PathBuf, bool)>,
        existing: &[(PathBuf, u64)],
    ) -> io::Result<Vec<Placeholder>> {
        let mut locked = self.locked.take().map_or_else(|| Locked::open(&self.path), Ok)?;
        let mut record = locked.read()?;
        if record.users.is_empty() {
            record = Record { since: now(), ..Record::default() };
        }
        record.workspace = fs::read_link(format!("/proc/self/fd/{}", fd_number(directory)))?;
        let (user, file) = User::new(self.path.parent().unwrap_or(Path::new("/")))?;
        record.users.push(user.clone());
        self.user = Some((user, file));
        let shared =
            |had: &Placeholder| existing.iter().any(|(name, inode)| *name == had.name && *inode == had.inode);
        record.placeholders.retain(shared);
        let mut made: Vec<_> =
            absent.into_iter().map(|(name, is_dir)| Placeholder { name, is_dir, inode: 0 }).collect();
        let first = record.placeholders.len();
        record.placeholders.extend(made.iter().cloned());
        locked.write(&record)?;
        for placeholder in &mut made {
            placeholder.make(directory)?;
        }
        record.placeholders.truncate(first);
        made.retain(|placeholder| placeholder.inode != 0);
        record.placeholders.extend(made.iter().cloned());
        locked.write(&record)?;
        Ok(made)
    }

    /// Stop taking part; the last one removes what nobody has used meanwhile.
    pub(super) fn leave(mut self) -> Vec<String> {
        let locked = self.locked.take().map_or_else(|| Locked::open(&self.path), Ok);
        let Ok(mut locked) = locked else { return Vec::new() };
        let Ok(mut record) = locked.read() else { return Vec::new() };
        if let Some((own, _)) = &self.user {
            record.users.retain(|user| user != own);
            let _ = fs::remove_file(self.path.with_file_name(&own.0));
        }
        if record.users.is_empty() {
            let kept = record.remove_placeholders(key(&self.path));
            locked.delete(&self.path);
            return kept;
        }
        let _ = locked.write(&record);
        Vec::new()
    }
}

/// Do the same for records whose users are all dead.
pub(super) fn sweep(state: &Path) {
    let Ok(entries) = fs::read_dir(state.join(DIRECTORY)) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if let Some(name) = entry.file_name().to_str().filter(|name| name.starts_with(MARK)) {
            User(name.into()).lives(&state.join(DIRECTORY));
            continue;
        }
        // One that is held is in use.
        let Ok(Some(mut locked)) = Locked::try_open(&path) else { continue };
        let Ok(mut record) = locked.read() else { continue };
        if record.users.is_empty() {
            record.remove_placeholders(key(&path));
            locked.delete(&path);
        }
    }
}

impl Placeholder {
    fn make(&mut self, workspace: BorrowedFd<'_>) -> io::Result<()> {
        let (directory, name) = parent(workspace, &self.name)?;
        let made = if self.is_dir {
            mkdirat(&directory, name, Mode::from_raw_mode(0o755))
        } else {
            make_file(&directory, name, content(&self.name))
        };
        match made {
            Ok(()) => {
                self.inode = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_ino;
                Ok(())
            }
            // Nobody with these rights can make it: neither can the command.
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Remove it if it is still what was made: empty, and the same or at least not older than the record.
    fn remove(&self, workspace: BorrowedFd<'_>, since: u64) -> Result<(), String> {
        let Ok((directory, name)) = parent(workspace, &self.name) else { return Ok(()) };
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
        let Ok(facts) = statx(&directory, name, AtFlags::SYMLINK_NOFOLLOW, wanted) else { return Ok(()) };
        let same = match self.inode {
            0 => facts.stx_btime.tv_sec >= since as i64,
            inode => facts.stx_ino == inode,
        };
        let kind = FileType::from_raw_mode(facts.stx_mode.into());
        let whole = content(&self.name);
        let untouched = match (self.is_dir, kind) {
            (true, FileType::Directory) => true,
            (false, FileType::RegularFile) => read_file(workspace, &self.name, whole.len() as u64 + 1)
                .is_ok_and(|(bytes, _)| bytes == whole.as_bytes()),
            _ => false,
        };
        let flags = if self.is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        if same && untouched && unlinkat(&directory, name, flags).is_ok() {
            return Ok(());
        }
        Err(format!(
            "protected: {} was made outside the sandbox during the run and stays",
            self.name.display()
        ))
    }
}

fn make_file(directory: &OwnedFd, name: &OsStr, content: &str) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(0o644);
    if content.is_empty() {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        return openat(directory, name, flags, mode).map(drop);
    }
    // Written before it has a name: a host tool never sees half of it.
    let file = openat(directory, ".", OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC, mode)?;
    rustix::io::write(&file, content.as_bytes())?;
    let path = format!("/proc/self/fd/{}", fd_number(file.as_fd()));
    linkat(CWD, path, directory, name, AtFlags::SYMLINK_FOLLOW)
}

impl Record {
    /// `key` names the workspace by device and inode: a directory that has its path by now is another one.
    fn remove_placeholders(&mut self, key: &OsStr) -> Vec<String> {
        let since = self.since;
        let placeholders = std::mem::take(&mut self.placeholders);
        let Ok(workspace) = open_workspace(&self.workspace) else { return Vec::new() };
        match fstat(&workspace) {
            Ok(facts) if *key == *key_of(facts.st_dev, facts.st_ino) => {}
            _ => return Vec::new(),
        }
        placeholders.iter().filter_map(|had| had.remove(workspace.as_fd(), since).err()).collect()
    }

    /// One fact a line; see `escape` for paths.
    fn text(&self) -> String {
        use std::fmt::Write;
        let mut text = format!("w {} {}\n", self.since, escape(&self.workspace));
        for user in &self.users {
            let _ = writeln!(text, "u {}", user.0);
        }
        for had in &self.placeholders {
            let kind = if had.is_dir { 'd' } else { 'f' };
            let _ = writeln!(text, "p {kind} {} {}", had.inode, escape(&had.name));
        }
        text
    }

    fn parse(text: &str) -> Self {
        let mut record = Self::default();
        for line in text.split('\n') {
            let mut fields = line.splitn(4, ' ');
            match (fields.next(), fields.next(), fields.next(), fields.next()) {
                (Some("w"), Some(since), Some(path), None) => {
                    record.since = since.parse().unwrap_or(u64::MAX);
                    record.workspace = unescape(path);
                }
                (Some("u"), Some(name), None, None) => record.users.push(User(name.into())),
                (Some("p"), Some(kind), Some(inode), Some(name)) => record.placeholders.push(Placeholder {
                    name: unescape(name),
                    is_dir: kind == "d",
                    inode: inode.parse().unwrap_or(0),
                }),
                _ => {}
            }
        }
        record
    }
}

/// Any bytes, on one line, without a space.
fn escape(path: &Path) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_graphic() && byte != b'%' {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02x}");
        }
    }
    text
}

fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match (byte, code.and_then(|code| u8::from_str_radix(code, 16).ok())) {
            (b'%', Some(value)) => {
                bytes.push(value);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

/// The record's file, locked until dropped.
#[derive(Debug)]
struct Locked(File, PathBuf);

impl Locked {
    fn open(path: &Path) -> io::Result<Self> {
        loop {
            if let Some(locked) = Self::lock(path, FlockOperation::LockExclusive)? {
                return Ok(locked);
            }
        }
    }

    /// `None`: somebody else has it.
    fn try_open(path: &Path) -> io::Result<Option<Self>> {
        match Self::lock(path, FlockOperation::NonBlockingLockExclusive) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            locked => locked,
        }
    }

    fn lock(path: &Path, how: FlockOperation) -> io::Result<Option<Self>> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        flock(&file, how)?;
        // The one who left last may have deleted it while we waited: then this is nobody's file.
        let current = path.symlink_metadata().map(|facts| facts.ino()).ok();
        let directory = path.parent().unwrap_or(Path::new("/")).to_path_buf();
        Ok((current == Some(fstat(&file)?.st_ino)).then_some(Self(file, directory)))
    }

    /// The record with only those users that live.
    fn read(&mut self) -> io::Result<Record> {
        let mut text = String::new();
        self.0.rewind()?;
        self.0.read_to_string(&mut text)?;
        let mut record = Record::parse(&text);
        record.users.retain(|user| user.lives(&self.1));
        Ok(record)
    }

    /// Over the old text, which is cut afterwards: a kill in between leaves lines too many, never one too few.
    fn write(&mut self, record: &Record) -> io::Result<()> {
        let text = record.text();
        self.0.write_all_at(text.as_bytes(), 0)?;
        self.0.set_len(text.len() as u64)
    }

    fn delete(self, path: &Path) {
        let _ = fs::remove_file(path);
    }
}

fn fd_number(fd: BorrowedFd<'_>) -> i32 {
    use std::os::fd::AsRawFd;
    fd.as_fd().as_raw_fd()
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_file() {
        let record = Record {
            workspace: PathBuf::from(OsString::from_vec(b"/a b/with\nnewline\\ %41 \xff\r".to_vec())),
            since: 7,
            users: vec![User("run-1-2".into())],
            placeholders: vec![
                Placeholder { name: ".git/x y".into(), is_dir: false, inode: 9 },
                Placeholder { name: ".vscode".into(), is_dir: true, inode: 0 },
            ],
        };
        let back = Record::parse(&record.text());
        assert_eq!(back.workspace, record.workspace);
        assert_eq!(back.users, record.users);
        assert_eq!(back.placeholders, record.placeholders);
        assert_eq!(back.since, 7);
    }
}
