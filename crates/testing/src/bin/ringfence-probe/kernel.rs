//! The kernel's own doors: closed system calls, other entry points, namespaces, mounts, keyrings, clock, names.

use std::path::Path;

use ringfence_linux::probe_calls;
use rustix::fs::CWD;
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use crate::verdict::{Attempted, Stop, held, number, word};

pub(crate) fn attempt(name: &str, args: &[String]) -> Option<Attempted> {
    Some(match name {
        "syscall" => syscall(args),
        "x32" => x32(),
        "int80" => int80(),
        "unshare" => unshare(args),
        "clone" => namespace_flags(args).and_then(|flags| done(probe_calls::clone_child(flags), "clone")),
        "clone3" => {
            namespace_flags(args).and_then(|flags| done(probe_calls::clone3_child(flags as u64), "clone3"))
        }
        "setns" => setns(args),
        "io-uring" => done(probe_calls::io_uring(), "io_uring_setup"),
        "bpf" => done(probe_calls::bpf_map(), "bpf"),
        "userfaultfd" => done(probe_calls::userfaultfd(), "userfaultfd"),
        "perf" => done(probe_calls::perf_event(), "perf_event_open"),
        "add-key" => done(probe_calls::add_key(), "add_key"),
        "request-key" => word(args, 0).and_then(|name| done(probe_calls::request_key(name), "request_key")),
        "keyctl" => done(probe_calls::user_keyring(), "keyctl"),
        "personality" => done(probe_calls::set_personality(0x0040_0000), "personality"),
        "mount-tmpfs" => mount_tmpfs(args),
        "bind-over" => bind_over(args),
        "remount-writable" => remount_writable(args),
        "unmount" => unmount(args),
        "make-shared" => make_shared(),
        "fsopen" => done(rustix::mount::fsopen("tmpfs", rustix::mount::FsOpenFlags::empty()), "fsopen"),
        "open-tree" => open_tree(),
        "pivot-root" => pivot_root(),
        "chroot" => done(rustix::process::chroot("."), "chroot"),
        "hostname" => done(rustix::system::sethostname(b"pwned"), "sethostname"),
        "domainname" => done(rustix::system::setdomainname(b"pwned"), "setdomainname"),
        "clock" => clock(),
        "capability" => number(args, 0).and_then(|cap| done(probe_calls::raise_capability(cap), "capset")),
        "setuid" => setuid(args),
        "setgroups" => setgroups(),
        "shared-memory" => {
            number(args, 0).and_then(|key| done(probe_calls::find_shared_memory(key), "shmget"))
        }
        "message-queue" => word(args, 0).and_then(|name| done(probe_calls::open_queue(name), "mq_open")),
        "same-namespace" => same_namespace(args),
        "core-limit" => core_limit(),
        "file-limit" => file_limit(args),
        "lower-nice" => lower_nice(),
        _ => return None,
    })
}

fn done<T, E: Into<Stop>>(result: Result<T, E>, call: &str) -> Attempted {
    result.map(|_| format!("{call} worked")).map_err(Into::into)
}

/// `syscall NUMBER`: anything but EPERM and ENOSYS means that the kernel itself looked at the call.
fn syscall(args: &[String]) -> Attempted {
    let nr: i64 = number(args, 0)?;
    match probe_calls::call_with_bad_arguments(nr) {
        Ok(answer) => Ok(format!("call {nr} answered {answer}")),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidInput && error.raw_os_error().is_none() => {
            Err(Stop::Broken(error.to_string()))
        }
        Err(error) => match rustix::io::Errno::from_io_error(&error) {
            Some(rustix::io::Errno::PERM | rustix::io::Errno::NOSYS) => held(error),
            _ => Ok(format!("call {nr} reached the kernel: {error}")),
        },
    }
}

#[cfg(target_arch = "x86_64")]
fn x32() -> Attempted {
    done(probe_calls::x32_getpid(), "getpid by the x32 entry")
}

#[cfg(target_arch = "x86_64")]
fn int80() -> Attempted {
    match probe_calls::int80_getpid() {
        answer if answer > 0 => Ok(format!("getpid by int 0x80 answered {answer}")),
        answer => held(std::io::Error::from_raw_os_error(-answer as i32)),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn x32() -> Attempted {
    held("this machine has no such entry")
}

#[cfg(not(target_arch = "x86_64"))]
fn int80() -> Attempted {
    held("this machine has no such entry")
}

/// The clone flag of a namespace by its name in `/proc/self/ns`.
fn namespace_flags(args: &[String]) -> Result<i32, Stop> {
    let mut flags = 0;
    for name in args {
        flags |= match name.as_str() {
            "mnt" => 0x0002_0000,
            "cgroup" => 0x0200_0000,
            "uts" => 0x0400_0000,
            "ipc" => 0x0800_0000,
            "user" => 0x1000_0000,
            "pid" => 0x2000_0000,
            "net" => 0x4000_0000,
            other => return Err(Stop::Broken(format!("{other} is no namespace"))),
        };
    }
    Ok(flags)
}

fn unshare(args: &[String]) -> Attempted {
    done(probe_calls::unshare(namespace_flags(args)?), "unshare")
}

/// `setns NAME`: join the own namespace again (which the kernel allows for some, with privilege for others).
fn setns(args: &[String]) -> Attempted {
    let file = std::fs::File::open(format!("/proc/self/ns/{}", word(args, 0)?))?;
    let fd = std::os::fd::AsFd::as_fd(&file);
    done(rustix::thread::move_into_link_name_space(fd, None), "setns")
}

fn mount_tmpfs(args: &[String]) -> Attempted {
    let path = word(args, 0)?;
    done(rustix::mount::mount("tmpfs", path, "tmpfs", MountFlags::empty(), None), "mount")
}

fn bind_over(args: &[String]) -> Attempted {
    done(rustix::mount::mount_bind(word(args, 0)?, word(args, 1)?), "a bind mount")
}

fn remount_writable(args: &[String]) -> Attempted {
    let flags = MountFlags::BIND;
    done(rustix::mount::mount_remount(word(args, 0)?, flags, ""), "a remount")
}

fn unmount(args: &[String]) -> Attempted {
    done(rustix::mount::unmount(word(args, 0)?, UnmountFlags::DETACH), "umount")
}

fn make_shared() -> Attempted {
    let flags = MountPropagationFlags::SHARED | MountPropagationFlags::REC;
    done(rustix::mount::mount_change("/", flags), "a change of propagation")
}

fn open_tree() -> Attempted {
    let flags = rustix::mount::OpenTreeFlags::OPEN_TREE_CLONE;
    done(rustix::mount::open_tree(CWD, ".", flags), "open_tree")
}

/// A new root must be a mount point, so this directory is made one, if that is possible.
fn pivot_root() -> Attempted {
    let here = std::env::current_dir()?;
    if rustix::mount::mount_bind(&here, &here).is_ok() {
        std::env::set_current_dir(&here)?;
    }
    done(rustix::process::pivot_root(".", "."), "pivot_root")
}

/// Set the clock to the time it already shows.
fn clock() -> Attempted {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    done(rustix::time::clock_settime(rustix::time::ClockId::Realtime, now), "clock_settime")
}

fn setuid(args: &[String]) -> Attempted {
    let uid = rustix::thread::Uid::from_raw(number(args, 0)?);
    done(rustix::thread::set_thread_uid(uid), "setuid")
}

fn setgroups() -> Attempted {
    done(rustix::thread::set_thread_groups(&[]), "setgroups")
}

/// `same-namespace NAME LINK`: this process is still in the namespace that the host named.
fn same_namespace(args: &[String]) -> Attempted {
    let link = std::fs::read_link(Path::new("/proc/self/ns").join(word(args, 0)?))?;
    if link == Path::new(word(args, 1)?) {
        return Ok(format!("in the host's {}", link.display()));
    }
    held(format!("in {}", link.display()))
}

fn core_limit() -> Attempted {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Rlimit { current: Some(1 << 20), maximum: Some(1 << 20) };
    done(setrlimit(Resource::Core, limit), "raising the core limit")
}

/// `file-limit N`: raise the number of open files to N.
fn file_limit(args: &[String]) -> Attempted {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let most = number(args, 0)?;
    done(
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) }),
        "raising the fd limit",
    )
}

fn lower_nice() -> Attempted {
    done(rustix::process::setpriority_process(None, -5), "a higher priority")
}
