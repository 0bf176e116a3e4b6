//! The system calls that egress needs once it serves: what hostile bytes could make of it has no others.

use std::io;

use ringfence_linux::seccomp::{Arch, Listen, Rules, compile, install};

/// Each with what needs it. What the table of system calls closes to a part stays so (`ioctl`, `socket`).
const KEPT: &[(&str, &str)] = &[
    ("read", "the hosts file, wake-ups, connections"),
    ("write", "wake-ups, connections"),
    ("readv", "connections"),
    ("writev", "connections"),
    ("recvfrom", "connections, datagrams of the name server"),
    ("sendto", "the same"),
    ("recvmsg", "the owner's orders with their sockets"),
    ("sendmsg", "what the owner is told"),
    ("socket", "dialling, asking name servers; inet alone"),
    ("connect", "dialling"),
    ("bind", "listeners inside, ports of questions"),
    ("listen", "listeners inside"),
    ("accept4", "connections"),
    ("shutdown", "half-closes"),
    ("getsockname", "which name an accepted connection is for"),
    ("getpeername", "which address was dialled"),
    ("getsockopt", "how a dial ended"),
    ("setsockopt", "options of connections"),
    ("ioctl", "sockets that do not block"),
    ("fcntl", "copies of descriptors, sizes of pipes"),
    ("close", "ends of connections"),
    ("pipe2", "splicing"),
    ("splice", "splicing"),
    ("epoll_create1", "the runtime"),
    ("epoll_ctl", "the runtime"),
    ("epoll_wait", "the runtime"),
    ("epoll_pwait", "the runtime, where there is no epoll_wait"),
    ("eventfd2", "the runtime"),
    ("poll", "the channel, at the end"),
    ("ppoll", "the same, where there is no poll"),
    ("futex", "locks"),
    ("openat", "the hosts file and the name servers, which may change; Landlock holds the rest closed"),
    ("open", "the same, by libc"),
    ("statx", "whether they have changed"),
    ("fstat", "their size"),
    ("newfstatat", "the same"),
    ("lseek", "the same"),
    ("brk", "memory"),
    ("mmap", "memory"),
    ("munmap", "memory"),
    ("mremap", "memory"),
    ("madvise", "memory"),
    ("mprotect", "memory"),
    ("getrandom", "keys, numbers of questions"),
    ("clock_gettime", "the time, where the kernel gives it by no other way"),
    ("gettimeofday", "the same"),
    ("clock_nanosleep", "waiting"),
    ("nanosleep", "waiting"),
    ("sched_yield", "locks"),
    ("sched_getaffinity", "the runtime looks how many processors there are"),
    ("sigaltstack", "the guard of the stack"),
    ("rt_sigaction", "the guard of the stack, ends"),
    ("rt_sigprocmask", "ends"),
    ("rt_sigreturn", "signals"),
    ("restart_syscall", "signals"),
    ("getpid", "ends by a failure"),
    ("gettid", "the same"),
    ("tgkill", "the same"),
    ("exit", "its end"),
    ("exit_group", "its end"),
];

/// Close all others, for good.
pub(crate) fn close() -> io::Result<()> {
    let program = compile(Arch::NATIVE, &rules()).map_err(io::Error::other)?;
    install(&program, Listen::No).map(|_| ())
}

fn rules() -> Rules {
    let names: Vec<&str> = KEPT.iter().map(|(name, _)| *name).collect();
    Rules { inet_only: true, ..Rules::only(&names) }
}

#[cfg(test)]
mod tests {
    use ringfence_linux::seccomp::{Decision, entry};

    use super::*;

    fn decided(name: &str, args: [u64; 6]) -> Decision {
        let number =
            entry(name).and_then(|entry| entry.number(Arch::NATIVE)).expect("a call of this machine");
        rules().decide(Arch::NATIVE, Arch::NATIVE.audit(), number, &args)
    }

    #[test]
    fn each_that_is_kept_is_a_call_and_open_for_some_use() {
        for (name, why) in KEPT {
            let known = entry(name).unwrap_or_else(|| panic!("{name} is no call"));
            assert!(!why.is_empty());
            if known.number(Arch::NATIVE).is_some() {
                let socket = [2, 1, 0, 0, 0, 0];
                assert_eq!(decided(name, socket), Decision::Allow, "{name}");
            }
        }
    }

    #[test]
    fn what_a_broken_egress_would_want_is_closed() {
        for name in [
            "execve",
            "execveat",
            "clone",
            "unshare",
            "setns",
            "mount",
            "ptrace",
            "process_vm_readv",
            "bpf",
            "io_uring_setup",
            "userfaultfd",
            "keyctl",
            "unlinkat",
            "renameat2",
            "mkdirat",
            "fchmodat",
            "kill",
            "prctl",
            "seccomp",
            "memfd_create",
            "socketpair",
            "prlimit64",
            "setuid",
            "chroot",
        ] {
            assert_ne!(decided(name, [0; 6]), Decision::Allow, "{name}");
        }
        for family in [1, 16, 17, 38, 40] {
            assert_eq!(decided("socket", [family, 1, 0, 0, 0, 0]), Decision::Closed, "family {family}");
        }
    }
}
