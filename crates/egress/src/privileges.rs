//! What egress gives up before it parses a byte from inside.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use ringfence_linux::{
    LandlockAccess, LandlockRule, LandlockRuleset, LandlockTarget, become_user, close_except,
    drop_all_capabilities, is_hung_up, landlock_abi, move_fd, scrub_environment, set_die_with_parent,
    set_dumpable, set_limit, start_session,
};
use rustix::fs::{Mode, OFlags};
use rustix::process::Resource;

use crate::setup::StartError;

/// More descriptors than this are of no use to one sandbox.
const MOST_FILES: u64 = 65_536;

/// The program itself, its buffers, and names by the thousand.
const MEMORY: u64 = 256 << 20;
/// HTTP/2 through TLS on both sides, with full windows.
const MEMORY_OF_ONE: u64 = 512 << 10;

/// Nobody may look into this process or find it in a core file. First of all: before a secret is in memory.
pub(crate) fn hide() -> Result<(), StartError> {
    step("become invisible to others", set_dumpable(false))?;
    step("switch core files off", set_limit(Resource::Core, 0))
}

/// Give up everything but the channel, the network and reading `/etc`. Returns how many descriptors there may be.
pub(crate) fn drop_privileges(owner: BorrowedFd<'_>, become_id: Option<u32>) -> Result<u64, StartError> {
    step("close what the owner had open", close_except(&[owner]))?;
    step("leave the terminal", leave_terminal())?;
    // The values are loaded; nothing here asks the environment from now on.
    scrub_environment();
    step("raise the number of descriptors", set_limit(Resource::Nofile, MOST_FILES))?;
    let files = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(MOST_FILES);
    let root = rustix::process::geteuid().is_root();
    if let Some(id) = become_id {
        step("become another user", become_user(id, id, true))?;
    }
    if root && become_id.is_none() {
        step("drop capabilities", drop_all_capabilities())?;
    }
    step("give up new privileges", rustix::thread::set_no_new_privs(true).map_err(Into::into))?;
    if landlock_abi() > 0 {
        step("close the filesystem", close_filesystem())?;
    }
    // A change of user undoes these two.
    step("become invisible to others", set_dumpable(false))?;
    step("end with the owner", set_die_with_parent())?;
    match is_hung_up(owner) {
        Ok(false) => Ok(files),
        _ => Err(failed("end with the owner", &io::ErrorKind::BrokenPipe.into())),
    }
}

/// What egress may have of memory: what it is, and what it takes to carry so many connections. The rest is some
/// flood's, and an egress that dies of it takes the network with it, and nothing else of the machine.
pub(crate) fn bound_memory(connections: u32) -> Result<(), StartError> {
    let most = MEMORY + u64::from(connections) * MEMORY_OF_ONE;
    step("bound its own memory", set_limit(Resource::Data, most))
}

/// The last thing that is given up: how to do anything but serve.
pub(crate) fn close_syscalls() -> Result<(), StartError> {
    step("close the system calls that it does not need", crate::syscalls::close())
}

/// A session of its own: the terminal's signals are for the command. And none of the caller's stdio.
fn leave_terminal() -> io::Result<()> {
    start_session()?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for stdio in 0..=2 {
        move_fd(null.as_fd(), stdio)?;
    }
    Ok(())
}

/// Only what a lookup reads stays: the hosts file and the name servers, both of which may be replaced while we run.
fn close_filesystem() -> io::Result<()> {
    let mut directories = BTreeSet::from([PathBuf::from("/etc")]);
    for file in ["/etc/resolv.conf", "/etc/hosts"] {
        let real = fs::canonicalize(file).ok();
        directories.extend(real.as_deref().and_then(Path::parent).map(Path::to_path_buf));
    }
    directories.retain(|directory| directory.is_dir() && directory != Path::new("/"));
    // Without a dynamic linker, libraries take randomness from these; they panic if they get none.
    let random = [PathBuf::from("/dev/urandom"), PathBuf::from("/dev/random")];
    let rules: Vec<LandlockRule<'_>> = directories
        .iter()
        .chain(&random)
        .map(|path| LandlockRule { target: LandlockTarget::Path(path), access: LandlockAccess::ReadFile })
        .collect();
    LandlockRuleset::new(&rules)?.enforce()
}

fn step(what: &str, done: io::Result<()>) -> Result<(), StartError> {
    done.map_err(|error| failed(what, &error))
}

fn failed(what: &str, error: &io::Error) -> StartError {
    StartError {
        what: "confine the network's process".to_owned(),
        why: format!("it could not {what}: {error}"),
        fix: "run `ringfence doctor`, or run without a network".to_owned(),
    }
}
