//! Mounts. Sources are cloned as detached trees first and attached afterwards, so that no path is looked up in a
//! tree that is half built, and a mount has its final attributes before anybody can reach it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount_change, move_mount, open_tree,
    unmount,
};

/// What a mount forbids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountFlags {
    pub read_only: bool,
    pub no_devices: bool,
    pub no_exec: bool,
}

impl MountFlags {
    pub const READ_ONLY: Self = Self { read_only: true, no_devices: true, no_exec: false };
    pub const WRITABLE: Self = Self { read_only: false, no_devices: true, no_exec: false };
    pub const DEVICE: Self = Self { read_only: false, no_devices: false, no_exec: true };

    /// `nosuid` is always set: nothing in a sandbox may raise its rights.
    fn attributes(self) -> u64 {
        let mut bits = libc::MOUNT_ATTR_NOSUID;
        if self.read_only {
            bits |= libc::MOUNT_ATTR_RDONLY;
        }
        if self.no_devices {
            bits |= libc::MOUNT_ATTR_NODEV;
        }
        if self.no_exec {
            bits |= libc::MOUNT_ATTR_NOEXEC;
        }
        bits
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
}

/// Cut the whole mount tree off from propagation, both ways.
pub fn make_private() -> io::Result<()> {
    Ok(mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?)
}

/// A detached copy of what is mounted at `path` and below, from this mount namespace.
pub fn clone_tree(path: &Path) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, path, flags)?)
}

/// A detached copy of the one mount at `path`, without those below. An ordinary user's namespace refuses that where there
/// are any: they might be there to cover something.
pub fn clone_mount(path: &Path) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, path, flags)?)
}

fn set_attributes(tree: BorrowedFd<'_>, path: &Path, flags: i32, attr: &libc::mount_attr) -> io::Result<()> {
    let path = c_path(path)?;
    // SAFETY: `path` is a C string and `attr` a live struct whose size is passed.
    let done = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            path.as_ptr(),
            flags,
            std::ptr::from_ref(attr),
            size_of::<libc::mount_attr>(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn attr(set: u64, userns: u64) -> libc::mount_attr {
    libc::mount_attr { attr_set: set, attr_clr: 0, propagation: 0, userns_fd: userns }
}

/// Restrict a detached tree and all mounts in it.
pub fn restrict_tree(tree: BorrowedFd<'_>, flags: MountFlags) -> io::Result<()> {
    let how = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    set_attributes(tree, Path::new(""), how, &attr(flags.attributes(), 0))
}

/// Restrict the one mount at `path`.
pub fn restrict_mount(path: &Path, flags: MountFlags) -> io::Result<()> {
    set_attributes(CWD, path, 0, &attr(flags.attributes(), 0))
}

/// Show the owner ids of a detached tree through the id map of a user namespace.
pub fn idmap_tree(tree: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let userns = user_namespace.as_raw_fd() as u64;
    let how = libc::AT_EMPTY_PATH | libc::AT_RECURSIVE;
    set_attributes(tree, Path::new(""), how, &attr(libc::MOUNT_ATTR_IDMAP, userns))
}

/// Attach a detached tree at `target`, which exists; a symlink at its end is not followed.
pub fn attach(tree: BorrowedFd<'_>, target: &Path) -> io::Result<()> {
    Ok(move_mount(tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

fn mount_fs(kind: &str, target: &Path, flags: libc::c_ulong, data: &str) -> io::Result<()> {
    let kind = CString::new(kind)?;
    let target = c_path(target)?;
    let data = CString::new(data)?;
    // SAFETY: all four are C strings that live across the call.
    let done =
        unsafe { libc::mount(kind.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, data.as_ptr().cast()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A tmpfs of at most `bytes` (`None`: half of the memory, the kernel's default) and `inodes`.
pub fn mount_tmpfs(target: &Path, bytes: Option<u64>, inodes: u64, mode: u32) -> io::Result<()> {
    let size = bytes.map_or(String::new(), |bytes| format!("size={bytes},"));
    let data = format!("{size}nr_inodes={inodes},mode={mode:o}");
    mount_fs("tmpfs", target, libc::MS_NOSUID | libc::MS_NODEV, &data)
}

/// A `/proc` that shows this pid namespace only.
pub fn mount_proc(target: &Path) -> io::Result<()> {
    mount_fs("proc", target, libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC, "")
}

/// A devpts instance of its own.
pub fn mount_devpts(target: &Path) -> io::Result<()> {
    mount_fs("devpts", target, libc::MS_NOSUID | libc::MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0600")
}

/// An overlay that takes writes for `lower` into `upper`; `work` is an empty directory beside `upper`.
pub fn mount_overlay(lower: &Path, upper: &Path, work: &Path, target: &Path) -> io::Result<()> {
    // A path with a separator of the option string in it would be read as something else.
    for path in [lower, upper, work] {
        if path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b',' | b':' | b'\\')) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
    }
    let data = format!(
        "lowerdir={},upperdir={},workdir={},userxattr",
        lower.display(),
        upper.display(),
        work.display()
    );
    mount_fs("overlay", target, libc::MS_NOSUID | libc::MS_NODEV, &data)
}

/// Make the mount at `root` this namespace's root. The old one lies on top of it, where the current directory is, until
/// `release_old_root`.
pub fn pivot_into(root: &Path) -> io::Result<()> {
    rustix::process::chdir(root)?;
    Ok(rustix::process::pivot_root(".", ".")?)
}

/// Let go of the old root: nothing of the host's tree is left then. The kernel waits for its readers of mounts here.
pub fn release_old_root() -> io::Result<()> {
    unmount(".", UnmountFlags::DETACH)?;
    Ok(rustix::process::chdir("/")?)
}

/// Attach a detached tree onto what an `O_PATH` descriptor is.
pub fn attach_to(tree: BorrowedFd<'_>, target: BorrowedFd<'_>) -> io::Result<()> {
    let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(tree, "", target, "", how)?)
}

/// A detached copy of what an `O_PATH` descriptor is, and below.
pub fn clone_tree_of(found: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(found, "", flags)?)
}

/// The same without what is mounted below it.
pub fn clone_mount_of(found: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    Ok(open_tree(found, "", flags)?)
}
