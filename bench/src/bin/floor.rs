//! The floor: the namespaces, mounts, pivot and guard fork of a restrictive sandbox, then exec, and nothing else.
//!
//! `floor CMD…` makes the same mount table as the native provider by the same calls, written as directly as they can
//! be. It has no policy, cgroup, Landlock, seccomp, dropped capabilities, receipt or supervision, and is no sandbox:
//! it only says what the kernel asks for the parts that no sandbox of this kind can leave out.

use std::ffi::CString;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use ringfence_linux::{
    Fork, IdMap, MountFlags, Namespaces, attach, become_user, clone_tree, control_pair, deny_setgroups, exec,
    exit_now, fork_into, loopback_up, make_private, mount_devpts, mount_proc, mount_tmpfs, pivot_into,
    recv_with_fds, release_old_root, restrict_mount, restrict_tree, send_with_fds, set_dumpable,
    set_hostname, spawn, start_session, unshare_cgroup, unshare_user, wait_for, write_id_map,
};
use rustix::fs::{CWD, FileType, Mode, mkdir, mknodat, symlink};
use rustix::io::Errno;
use rustix::mount::mount_bind;
use rustix::process::chdir;

/// As in the provider: `/` of the host as far as it is the system's.
const SYSTEM: &[&str] =
    &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "opt", "nix", "gnu"];
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];
const LINKS: &[(&str, &str)] = &[
    ("pts/ptmx", "dev/ptmx"),
    ("/proc/self/fd", "dev/fd"),
    ("/proc/self/fd/0", "dev/stdin"),
    ("/proc/self/fd/1", "dev/stdout"),
    ("/proc/self/fd/2", "dev/stderr"),
];
const ETC: &[(&str, &str)] =
    &[("../empty/passwd", "etc/passwd"), ("../empty/group", "etc/group"), ("../empty/hosts", "etc/hosts")];
const MASKED_DIRS: &[&str] = &["proc/acpi", "proc/asound", "proc/scsi"];
const MASKED_FILES: &[&str] = &[
    "proc/kcore",
    "proc/keys",
    "proc/latency_stats",
    "proc/timer_list",
    "proc/timer_stats",
    "proc/sched_debug",
];
const READ_ONLY: &[&str] = &["proc/bus", "proc/fs", "proc/irq", "proc/sys", "proc/sysrq-trigger"];
/// Directories of the private layer: name on the stage, mode, place.
const PRIVATE: &[(&str, u32, &str)] = &[
    ("../run", 0o755, "run"),
    ("../workspace", 0o700, "workspace"),
    ("../tmp", 0o1777, "var/tmp"),
    ("../home", 0o700, "home/sandbox"),
];
const MIB: u64 = 1 << 20;
const INSIDE: u32 = 1000;
/// The id outside for root, which is never mapped in: of the same unused range as the provider's.
const UNUSED: u32 = 0x7000_0000;
const NO_EXEC: MountFlags = MountFlags { no_exec: true, ..MountFlags::READ_ONLY };

fn main() {
    let argv: Vec<CString> =
        std::env::args_os().skip(1).filter_map(|word| CString::new(word.into_vec()).ok()).collect();
    if argv.is_empty() {
        eprintln!("floor: no command was given; usage: floor CMD…");
        std::process::exit(125);
    }
    match run(&argv) {
        Ok(code) => exit_now(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "floor: {error}");
            exit_now(125)
        }
    }
}

fn run(argv: &[CString]) -> io::Result<i32> {
    let user = rustix::process::getuid().as_raw();
    let group = rustix::process::getgid().as_raw();
    let (near, far) = control_pair()?;
    let all = Namespaces::USER
        .and(Namespaces::MOUNT)
        .and(Namespaces::PID)
        .and(Namespaces::NETWORK)
        .and(Namespaces::IPC)
        .and(Namespaces::UTS);
    let Fork::Parent { pid, .. } = fork_into(all, None)? else {
        drop(near);
        return live(&far, argv, user, group);
    };
    drop(far);
    if user == 0 {
        let outside = UNUSED + std::process::id();
        let map = IdMap { inside: 0, outside };
        write_id_map(&pid.to_string(), map, map)?;
        send_with_fds(near.as_fd(), b"m", &[])?;
    }
    Ok(wait_for(pid)?.map_or(125, |(exited, _, _)| exited.shell_code()))
}

/// PID 1: build the root, start the command, wait for it.
fn live(control: &OwnedFd, argv: &[CString], user: u32, group: u32) -> io::Result<i32> {
    if user == 0 {
        recv_with_fds(control.as_fd())?;
        become_user(0, 0, true)?;
    } else {
        deny_setgroups("self")?;
        write_id_map("self", IdMap { inside: user, outside: user }, IdMap { inside: group, outside: group })?;
    }
    let inside = if user == 0 { (INSIDE, INSIDE) } else { (user, group) };
    build_root(inside)?;
    loopback_up()?;
    set_hostname("sandbox")?;
    unshare_cgroup()?;
    if user == 0 {
        unshare_user()?;
        set_dumpable(true)?;
        deny_setgroups("self")?;
        let map = IdMap { inside: INSIDE, outside: 0 };
        write_id_map("self", map, map)?;
    }
    let pid = spawn(&|| drop(become_program(argv)))?;
    Ok(wait_for(pid)?.map_or(125, |(exited, _, _)| exited.shell_code()))
}

fn become_program(argv: &[CString]) -> io::Result<i32> {
    start_session()?;
    chdir("/workspace")?;
    let environment: Vec<CString> = std::env::vars_os()
        .filter_map(|(name, value)| {
            CString::new([name.into_vec(), b"=".to_vec(), value.into_vec()].concat()).ok()
        })
        .collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    match exec(argv, &environment, &path)? {}
}

/// The stage is on `/tmp` and the root in it, so that letting go of the old root takes the stage away as well.
fn build_root((user, group): (u32, u32)) -> io::Result<()> {
    rustix::process::umask(Mode::empty());
    make_private()?;
    mount_tmpfs(Path::new("/tmp"), Some(256 * MIB), 65_536, 0o700)?;
    chdir("/tmp")?;
    place_empty(user, group)?;
    make_dir("root", 0o755)?;
    mount_bind("root", "root")?;
    chdir("root")?;
    place_system()?;
    for (name, target) in ETC {
        if_there(mount_bind(*name, *target))?;
    }
    place_devices()?;
    make_dir("../temporary", 0o700)?;
    mount_tmpfs(Path::new("../temporary"), Some(64 * MIB), 16_384, 0o700)?;
    for (layer, target) in [("../temporary/1", "dev/shm"), ("../temporary/2", "tmp")] {
        make_dir(layer, 0o1777)?;
        make_dir(target, 0o755)?;
        mount_bind(layer, target)?;
    }
    place_proc()?;
    make_dir("var", 0o755)?;
    make_dir("home", 0o755)?;
    for (layer, mode, target) in PRIVATE {
        make_dir(layer, *mode)?;
        make_dir(target, 0o755)?;
        mount_bind(*layer, *target)?;
    }
    restrict_mount(Path::new("."), MountFlags::READ_ONLY)?;
    pivot_into(Path::new("."))?;
    release_old_root()
}

fn place_system() -> io::Result<()> {
    for name in SYSTEM {
        let source = Path::new("/").join(name);
        match rustix::fs::readlink(&source, Vec::new()) {
            Ok(to) => symlink(to, *name)?,
            Err(Errno::NOENT) => {}
            // Not a symlink.
            Err(_) => {
                let tree = clone_tree(&source)?;
                restrict_tree(tree.as_fd(), MountFlags::READ_ONLY)?;
                make_dir(name, 0o755)?;
                attach(tree.as_fd(), Path::new(name))?;
            }
        }
    }
    Ok(())
}

/// What masked paths show, and the three files of `/etc`: one read-only mount, whose binds have its attributes.
fn place_empty(user: u32, group: u32) -> io::Result<()> {
    make_dir("empty", 0o755)?;
    make_dir("empty/dir", 0o555)?;
    make_file("empty/file", 0o444)?;
    std::fs::write("empty/passwd", format!("sandbox:x:{user}:{group}::/home/sandbox:/bin/sh\n"))?;
    std::fs::write("empty/group", format!("sandbox:x:{group}:\n"))?;
    std::fs::write("empty/hosts", "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n")?;
    mount_bind("empty", "empty")?;
    restrict_mount(Path::new("empty"), NO_EXEC)
}

fn place_devices() -> io::Result<()> {
    make_dir("dev", 0o755)?;
    for name in DEVICES {
        let target = Path::new("dev").join(name);
        make_file(&target, 0o644)?;
        mount_bind(Path::new("/dev").join(name), &target)?;
        restrict_mount(&target, MountFlags::DEVICE)?;
    }
    make_dir("dev/pts", 0o755)?;
    mount_devpts(Path::new("dev/pts"))?;
    for (to, target) in LINKS {
        symlink(*to, *target)?;
    }
    Ok(())
}

fn place_proc() -> io::Result<()> {
    make_dir("proc", 0o755)?;
    mount_proc(Path::new("proc"))?;
    for path in MASKED_DIRS {
        if_there(mount_bind("../empty/dir", *path))?;
    }
    for path in MASKED_FILES {
        if_there(mount_bind("../empty/file", *path))?;
    }
    for path in READ_ONLY {
        if if_there(mount_bind(*path, *path))? {
            restrict_mount(Path::new(path), NO_EXEC)?;
        }
    }
    Ok(())
}

/// Whether the step was taken; a kernel does not have every file of the lists.
fn if_there(step: Result<(), Errno>) -> io::Result<bool> {
    match step {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn make_dir(path: &str, mode: u32) -> io::Result<()> {
    Ok(mkdir(path, Mode::from_raw_mode(mode))?)
}

fn make_file(path: impl AsRef<Path>, mode: u32) -> io::Result<()> {
    Ok(mknodat(CWD, path.as_ref(), FileType::RegularFile, Mode::from_raw_mode(mode), 0)?)
}
