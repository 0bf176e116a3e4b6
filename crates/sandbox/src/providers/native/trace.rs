//! `--trace`: every file access goes past the owner first, which notes those that the policy refuses. The kernel
//! carries each call out by itself: what is noted here decides nothing.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ringfence_linux::seccomp::Notification;
use rustix::fs::{Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstatvfs, open, openat2};
use rustix::io::Errno;

use super::syscalls::read_path;
use crate::denial::{Denial, DenialKind, Denials};
use crate::plan::Plan;
use crate::view::{Intent, normal, refused};
use ringfence_policy::Blocked;

/// One path of a call: which argument is its directory (`None`: the current one), which is the path, what for.
struct PathArgument {
    directory: Option<usize>,
    path: usize,
    intent: How,
}

enum How {
    Is(Intent),
    /// As the open flags in this argument say.
    Flags(usize),
    /// As the first field of the `open_how` in this argument says.
    InStruct(usize),
}

const READ: How = How::Is(Intent::Read);
const WRITE: How = How::Is(Intent::Write);

/// The calls that take paths.
pub(super) const TRACED: &[&str] = &[
    "open",
    "openat",
    "openat2",
    "creat",
    "stat",
    "lstat",
    "newfstatat",
    "statx",
    "access",
    "faccessat",
    "faccessat2",
    "execve",
    "execveat",
    "readlink",
    "readlinkat",
    "chdir",
    "mkdir",
    "mkdirat",
    "rmdir",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "truncate",
    "chmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "lchown",
    "fchownat",
    "mknod",
    "mknodat",
    "utime",
    "utimes",
    "utimensat",
    "futimesat",
];

fn arguments(name: &str) -> Vec<PathArgument> {
    let at = |directory, path, intent| PathArgument { directory, path, intent };
    match name {
        "open" => vec![at(None, 0, How::Flags(1))],
        "openat" => vec![at(Some(0), 1, How::Flags(2))],
        "openat2" => vec![at(Some(0), 1, How::InStruct(2))],
        "stat" | "lstat" | "access" | "execve" | "readlink" | "chdir" => vec![at(None, 0, READ)],
        "newfstatat" | "statx" | "faccessat" | "faccessat2" | "execveat" | "readlinkat" => {
            vec![at(Some(0), 1, READ)]
        }
        "creat" | "mkdir" | "rmdir" | "unlink" | "truncate" | "chmod" | "chown" | "lchown" | "mknod"
        | "utime" | "utimes" => vec![at(None, 0, WRITE)],
        "mkdirat" | "unlinkat" | "fchmodat" | "fchmodat2" | "fchownat" | "mknodat" | "utimensat"
        | "futimesat" => {
            vec![at(Some(0), 1, WRITE)]
        }
        "rename" => vec![at(None, 0, WRITE), at(None, 1, WRITE)],
        "renameat" | "renameat2" => vec![at(Some(0), 1, WRITE), at(Some(2), 3, WRITE)],
        "link" => vec![at(None, 0, READ), at(None, 1, WRITE)],
        "linkat" => vec![at(Some(0), 1, READ), at(Some(2), 3, WRITE)],
        "symlink" => vec![at(None, 1, WRITE)],
        "symlinkat" => vec![at(Some(1), 2, WRITE)],
        _ => Vec::new(),
    }
}

/// Note what the policy refuses of one call.
pub(super) fn note(call: &Notification, name: &str, plan: &Plan, denials: &mut Denials) {
    let Ok(memory) = File::open(format!("/proc/{}/mem", call.pid)) else { return };
    for argument in arguments(name) {
        let Some(path) = read_path(&memory, call.args[argument.path]) else { continue };
        if path.is_empty() {
            continue;
        }
        let Some(intent) = intent(&memory, call, &argument.intent) else { continue };
        let Some(base) = base(call, argument.directory) else { continue };
        let path = normal(&base, Path::new(&path));
        // These mean whoever looks them up: from here, the owner.
        if path.starts_with("/proc/self") || path.starts_with("/proc/thread-self") {
            continue;
        }
        if let Some(blocked) = refusal(call.pid, plan, &path, intent) {
            let kind = match blocked {
                Blocked::Protected { .. } => DenialKind::Protected,
                _ => DenialKind::File,
            };
            denials.add(Denial::new(kind, &blocked));
        }
    }
}

fn intent(memory: &File, call: &Notification, how: &How) -> Option<Intent> {
    let flags = match how {
        How::Is(intent) => return Some(*intent),
        How::Flags(argument) => call.args[*argument] as u32,
        How::InStruct(argument) => {
            let mut bytes = [0; 8];
            memory.read_exact_at(&mut bytes, call.args[*argument]).ok()?;
            u64::from_ne_bytes(bytes) as u32
        }
    };
    let flags = OFlags::from_bits_retain(flags);
    let writes = flags.intersects(OFlags::WRONLY | OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC);
    Some(if writes { Intent::Write } else { Intent::Read })
}

/// The directory, as the caller names it, that a relative path starts from.
fn base(call: &Notification, directory: Option<usize>) -> Option<PathBuf> {
    const CURRENT: i32 = -100;
    let directory = directory.map_or(CURRENT, |argument| call.args[argument] as i32);
    let link = if directory == CURRENT { "cwd".to_string() } else { format!("fd/{directory}") };
    std::fs::read_link(format!("/proc/{}/{link}", call.pid)).ok()
}

/// Looks the path up in the caller's own root, symlinks and all, and asks the plan for the words.
fn refusal(pid: u32, plan: &Plan, path: &Path, intent: Intent) -> Option<Blocked> {
    let root = open(format!("/proc/{pid}/root"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    match (look_up(&root, path), intent) {
        (Ok(found), Intent::Write) => is_read_only(&found).then(|| words(plan, path, Intent::Write)),
        (Ok(_), Intent::Read) => match refused(plan, path, Intent::Read) {
            hidden @ Some(Blocked::FileHidden { .. }) => hidden,
            _ => None,
        },
        // Making something new: its directory decides.
        (Err(Errno::NOENT), Intent::Write) => {
            let parent = look_up(&root, path.parent()?);
            match parent {
                Ok(parent) => is_read_only(&parent).then(|| words(plan, path, Intent::Write)),
                Err(_) => path.parent()?.exists().then(|| words(plan, path, Intent::Write)),
            }
        }
        (Err(Errno::NOENT), Intent::Read) => {
            let there = path.symlink_metadata().is_ok();
            there.then(|| refused(plan, path, Intent::Read)).flatten()
        }
        (Err(_), _) => None,
    }
}

fn words(plan: &Plan, path: &Path, intent: Intent) -> Blocked {
    refused(plan, path, intent).unwrap_or_else(|| Blocked::FileWrite { path: path.to_path_buf() })
}

fn look_up(root: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let path = path.strip_prefix("/").unwrap_or(path);
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    openat2(
        root,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )
}

fn is_read_only(found: &OwnedFd) -> bool {
    fstatvfs(found).is_ok_and(|facts| facts.f_flag.contains(StatVfsMountFlags::RDONLY))
}
