//! Where a session is on disk: a directory named after it, in which its keeper holds a lock as long as it lives.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringfence_linux::start_time;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};
use serde::{Deserialize, Serialize};

use super::link::Link;
use super::wire::Text;
use crate::layers::WorkspaceLayers;
use crate::network_record::HostTraffic;
use crate::overlay::remove_tree;
use crate::refusal::Refusal;

const SOCKET: &str = "socket";
const LOCK: &str = "lock";
const FACTS: &str = "session.json";
const NEW_FACTS: &str = "session.json.new";
const SNAPSHOTS: &str = "snapshots";
const START: &str = "start";
/// How many clients may wait to be let in.
const BACKLOG: i32 = 128;
const LONGEST_NAME: usize = 64;
/// Longer than anybody looks whether a session is held.
const MOMENT: Duration = Duration::from_millis(200);
/// Longer than a keeper that has closed its door takes to be gone.
const ENDING: Duration = Duration::from_secs(5);
/// A directory without facts may belong to a session that is being made.
const BIRTH: Duration = Duration::from_secs(60);

/// What is known of a session whether it lives or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFacts {
    pub id: String,
    /// Milliseconds since 1970.
    pub created: u64,
    pub profile: String,
    /// The directory that it may write, if that is not a private one.
    pub workspace: Option<PathBuf>,
    /// What kind of workspace it is.
    pub workspace_kind: WorkspaceKind,
    /// Inside.
    pub directory: PathBuf,
    pub home: PathBuf,
    /// Its home is its own, and a part of its snapshots.
    pub keeps_home: bool,
    /// Protected names that its policy lifts; `None`: the policy protects none.
    pub unprotected: Option<Vec<String>>,
    /// Names that its policy protects beside the usual ones.
    #[serde(default)]
    pub protected_too: Vec<String>,
    pub asked: Asked,
    /// Who to end where nobody answers.
    #[serde(default)]
    pub pillars: Option<Pillars>,
    /// Why and when it ended, if it did so in order.
    #[serde(default)]
    pub ended: Option<SessionEnd>,
    /// The policy and the receipt, as `session inspect` shows them.
    pub policy: serde_json::Value,
    pub receipt: serde_json::Value,
}

/// The two processes that a session stands on: if either ends, all of it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pillars {
    pub keeper: ProcessId,
    pub guard: ProcessId,
}

/// A process of this machine, told from a later one that has its pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: i32,
    /// In clock ticks since boot.
    pub start: u64,
    /// Which boot; older sessions did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<BootId>,
}

/// What the kernel calls the time from one start of the machine to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BootId(u128);

impl BootId {
    /// `None` where /proc does not say.
    fn now() -> Option<Self> {
        let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        text.trim_end().to_owned().try_into().ok()
    }
}

impl TryFrom<String> for BootId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits: String = text.chars().filter(|&char| char != '-').collect();
        let id = u128::from_str_radix(&digits, 16).map_err(|error| format!("`{text}`: {error}"))?;
        let id = Self(id);
        // In one form only.
        match String::from(id) == text {
            true => Ok(id),
            false => Err(format!("`{text}` is no boot id")),
        }
    }
}

impl From<BootId> for String {
    fn from(BootId(id): BootId) -> Self {
        let text = format!("{id:032x}");
        [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
    }
}

impl ProcessId {
    /// Of a process that is there now.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        let start = start_time(pid.try_into().ok()?)?;
        Some(Self { pid, start, boot: BootId::now() })
    }

    /// After another start of the machine the same pid and the same ticks may be anybody's.
    pub(crate) fn is_there(self) -> bool {
        let Some(now) = Self::of(self.pid) else { return false };
        let is_other_boot = self.boot.zip(now.boot).is_some_and(|(then, now)| then != now);
        now.start == self.start && !is_other_boot
    }
}

/// How a session was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// What stood behind `session create`.
    pub arguments: Vec<Text>,
    /// Where.
    pub directory: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkspaceKind {
    Private,
    Direct,
    Overlay,
    Named,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    pub at: u64,
    pub why: EndReason,
    #[serde(default)]
    pub notes: Vec<String>,
    /// What it sent and received in all.
    #[serde(default)]
    pub network: Vec<HostTraffic>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndReason {
    /// A client asked for it.
    Asked,
    TimeToLive,
    Idle,
    /// The keeper was told to by a signal.
    Signal,
    /// guard ended by itself: killed from outside, or for want of memory.
    GuardGone,
    /// The keeper was killed, or the machine stopped.
    KeeperGone,
}

/// One session's directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place(PathBuf);

impl Place {
    /// `name` in the directory of all sessions. Refused if it can't be a name.
    pub fn new(sessions: &Path, name: &str) -> Result<Self, Refusal> {
        let first = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let more = |byte: u8| first(byte) || b"._-".contains(&byte);
        let fits =
            name.len() <= LONGEST_NAME && name.bytes().next().is_some_and(first) && name.bytes().all(more);
        if !fits {
            return Err(Refusal::bad(
                format!("`{}` is no name for a session", name.escape_debug()),
                "use up to 64 of a-z, 0-9, `.`, `_` and `-`, beginning with a letter or digit",
            ));
        }
        Ok(Self(sessions.join(name)))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn name(&self) -> String {
        self.0.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Make the directory. Only one can.
    pub(crate) fn make(&self) -> io::Result<()> {
        if let Some(parent) = self.0.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        DirBuilder::new().mode(0o700).create(&self.0)
    }

    /// Hold it, as its keeper does. `None`: somebody else does. Who only looks holds it for a moment, which is waited for.
    pub(crate) fn hold(&self) -> io::Result<Option<File>> {
        let path = self.0.join(LOCK);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
        let deadline = Instant::now() + MOMENT;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(file)),
                Err(Errno::WOULDBLOCK) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Does its keeper live?
    pub fn is_held(&self) -> bool {
        let Ok(file) = File::open(self.0.join(LOCK)) else { return false };
        matches!(flock(&file, FlockOperation::NonBlockingLockShared), Err(Errno::WOULDBLOCK))
    }

    /// By a descriptor of the directory: its own path may be too long for an address.
    fn address(&self) -> io::Result<(OwnedFd, SocketAddrUnix)> {
        let directory = open(&self.0, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd());
        let address = SocketAddrUnix::new(path)?;
        Ok((directory, address))
    }

    pub(crate) fn listen(&self) -> io::Result<OwnedFd> {
        let (_directory, address) = self.address()?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        // The directory is its user's only; the socket too, whatever the umask is.
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let bound = bind(&socket, &address);
        rustix::process::umask(before);
        bound?;
        listen(&socket, BACKLOG)?;
        Ok(socket)
    }

    /// Whoever does not let this in, or does not answer, is waited for no longer than `patience`.
    pub(crate) fn connect(&self, patience: Duration) -> io::Result<Link> {
        let (_directory, address) = self.address()?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
        connect(&socket, &address)?;
        let link = Link::new(socket);
        link.set_patience(Some(patience))?;
        Ok(link)
    }

    /// Its keeper lives, but nobody is at its door, now or soon: one that ends is gone soon, and has said why.
    pub(crate) fn is_silent(&self) -> bool {
        let deadline = Instant::now() + ENDING;
        while self.is_held() && self.facts().is_ok_and(|facts| facts.ended.is_none()) {
            if Instant::now() >= deadline {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    pub(crate) fn close_door(&self) {
        let _ = fs::remove_file(self.0.join(SOCKET));
    }

    pub fn facts(&self) -> io::Result<SessionFacts> {
        Ok(serde_json::from_slice(&fs::read(self.0.join(FACTS))?)?)
    }

    pub(crate) fn write_facts(&self, facts: &SessionFacts) -> io::Result<()> {
        self.write_new_facts(facts).and_then(|_| self.take_new_facts())
    }

    /// The same, on the disk when this returns. Not for a session that is being made: the disk may take its time.
    pub(crate) fn write_facts_to_disk(&self, facts: &SessionFacts) -> io::Result<()> {
        self.write_new_facts(facts)?.sync_all()?;
        self.take_new_facts()?;
        File::open(&self.0)?.sync_all()
    }

    fn write_new_facts(&self, facts: &SessionFacts) -> io::Result<File> {
        let fresh = self.0.join(NEW_FACTS);
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(fresh)?;
        io::Write::write_all(&mut file, &serde_json::to_vec(facts)?)?;
        Ok(file)
    }

    fn take_new_facts(&self) -> io::Result<()> {
        fs::rename(self.0.join(NEW_FACTS), self.0.join(FACTS))
    }

    /// Who it stands on, also where the rest of its facts is another version's.
    pub(crate) fn pillars(&self) -> Option<Pillars> {
        #[derive(Deserialize)]
        struct Known {
            pillars: Option<Pillars>,
        }
        let text = fs::read(self.0.join(FACTS)).ok()?;
        serde_json::from_slice::<Known>(&text).ok()?.pillars
    }

    /// Why nothing is known of it, although it is not one that is being made: its facts were lost when the machine stopped, or
    /// are another version's.
    pub fn unreadable(&self) -> Option<io::Error> {
        let error = self.facts().err()?;
        let is_being_made = error.kind() == io::ErrorKind::NotFound && (self.is_held() || self.is_young());
        (!is_being_made && self.0.is_dir()).then_some(error)
    }

    fn is_young(&self) -> bool {
        let modified = fs::metadata(&self.0).and_then(|facts| facts.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < BIRTH))
    }

    /// Nothing has come of it, as its keeper was killed before it was ready. One that has written or said anything has lived,
    /// also where its facts can't be read, or are gone.
    fn is_stillborn(&self) -> bool {
        let is_missing = |path: PathBuf| {
            fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let upper = WorkspaceLayers { directory: self.layers(), lower: None }.upper();
        let is_unwritten = || fs::read_dir(&upper).is_ok_and(|mut entries| entries.next().is_none());
        is_missing(self.0.join(FACTS))
            && is_missing(self.all_logs())
            && (is_missing(upper.clone()) || is_unwritten())
    }

    /// What was written to a copy-on-write workspace.
    pub fn layers(&self) -> PathBuf {
        self.0.join("layers")
    }

    /// The tree that a fork began with.
    pub fn beginning(&self) -> PathBuf {
        self.0.join("beginning")
    }

    /// Write down which snapshot is of its workspace as it was at the start.
    pub fn keep_start(&self, snapshot: &str) -> io::Result<()> {
        let path = self.0.join(START);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        io::Write::write_all(&mut file, snapshot.as_bytes())
    }

    /// The snapshot of its start, if there is one.
    pub fn start(&self) -> Option<String> {
        fs::read_to_string(self.0.join(START)).ok()
    }

    /// Write down that a snapshot is of this session. What a snapshot says of itself proves nothing: it may have been imported,
    /// or be of an earlier session of this name.
    pub(crate) fn note_snapshot(&self, snapshot: &str) -> io::Result<()> {
        let path = self.0.join(SNAPSHOTS);
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        io::Write::write_all(&mut file, format!("{snapshot}\n").as_bytes())
    }

    /// Was this snapshot taken of this very session?
    pub fn has_taken(&self, snapshot: &str) -> bool {
        let taken = fs::read_to_string(self.0.join(SNAPSHOTS)).unwrap_or_default();
        taken.lines().any(|line| line == snapshot)
    }

    pub fn all_logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    pub fn logs(&self, process: u32) -> PathBuf {
        self.all_logs().join(process.to_string())
    }

    /// Write down how it ended, if its keeper could not.
    pub fn mark_ended(&self, facts: &SessionFacts) -> io::Result<()> {
        match self.hold()? {
            Some(_lock) => {
                self.close_door();
                self.write_facts_to_disk(facts)
            }
            None => Ok(()),
        }
    }

    /// Take it away if nothing has come of it and nobody is making it.
    pub fn remove_if_stillborn(&self) -> io::Result<()> {
        match !self.is_young() && self.is_stillborn() {
            true => self.remove_if_unheld(),
            false => Ok(()),
        }
    }

    /// Take it away if nobody holds it.
    pub fn remove_if_unheld(&self) -> io::Result<()> {
        match self.hold()? {
            Some(_lock) => self.remove(),
            None => Ok(()),
        }
    }

    /// Take all of it away. Only for a session whose keeper is gone.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            // In layers there are directories that nobody may enter: of the kernel's, and of a session's commands.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => self.remove_closed(),
            removed => removed,
        }
    }

    fn remove_closed(&self) -> io::Result<()> {
        let (Some(parent), Some(name)) = (self.0.parent(), self.0.file_name()) else { return Ok(()) };
        let parent = open(parent, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        remove_tree(&parent, Path::new(name), 0)
    }
}

/// All sessions that there are, by name, alive or not.
pub fn places(sessions: &Path) -> io::Result<Vec<Place>> {
    let entries = match fs::read_dir(sessions) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Some(name) = entry.file_name().to_str()
            && let Ok(place) = Place::new(sessions, name)
        {
            found.push(place);
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}
