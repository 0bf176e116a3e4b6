//! Calls that only the escape probe makes: what a hostile command would try, behind safe functions.
//!
//! The probe is a small single-threaded program that is thrown away after one attempt. Nothing here is meant for,
//! or compiled into, the sandbox itself (feature `probe`).

use std::ffi::CString;
use std::io;
use std::mem::{size_of_val, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Calls that take no pointer and do something to the caller whatever their arguments are.
const NEVER: &[i64] = &[
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pause,
];

/// The bit that marks an x32 system call.
#[cfg(target_arch = "x86_64")]
const X32_BIT: i64 = 0x4000_0000;

/// Make system call `number` with arguments of which none can be used: every pointer is outside user memory,
/// every fd, pid and flag word is -1. It shows whether the call gets past the filter, and changes nothing.
pub fn call_with_bad_arguments(number: i64) -> io::Result<i64> {
    if NEVER.contains(&number) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this call ends or stops its caller"));
    }
    let bad = usize::MAX;
    // SAFETY: no argument is an address in user memory, so the kernel can neither read nor write ours.
    check(unsafe { libc::syscall(number, bad, bad, bad, bad, bad, bad) })
}

/// `getpid` by the x32 entry.
#[cfg(target_arch = "x86_64")]
pub fn x32_getpid() -> io::Result<i64> {
    // SAFETY: getpid takes no argument.
    check(unsafe { libc::syscall(X32_BIT | libc::SYS_getpid) })
}

/// `getpid` by the 32-bit entry (`int 0x80`); the kernel's own answer, negative for an error.
#[cfg(target_arch = "x86_64")]
pub fn int80_getpid() -> i64 {
    const I386_GETPID: i64 = 20;
    let mut answer = I386_GETPID;
    // SAFETY: getpid takes no argument and writes no memory; the kernel clobbers r8 to r11 on this entry.
    unsafe {
        std::arch::asm!("int 0x80", inout("rax") answer, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    i64::from(answer as i32)
}

/// `unshare` with these flags.
pub fn unshare(flags: i32) -> io::Result<i64> {
    // SAFETY: the probe is single-threaded and shares nothing with another task that it would lose unawares.
    check(i64::from(unsafe { libc::unshare(flags) }))
}

/// `clone` with these flags, like fork: the child ends at once, and is reaped.
pub fn clone_child(flags: i32) -> io::Result<i64> {
    let flags = (flags | libc::SIGCHLD) as usize;
    // SAFETY: no CLONE_VM and no new stack, so this is a fork; the child only calls `_exit`.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, flags, 0usize, 0usize, 0usize, 0usize) })?;
    end_child_or_reap(pid)
}

/// `clone3` with these flags, like fork.
pub fn clone3_child(flags: u64) -> io::Result<i64> {
    // SAFETY: every field of clone_args may be zero.
    let mut args: libc::clone_args = unsafe { zeroed() };
    args.flags = flags;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: `args` lives through the call and its size is given; the child only calls `_exit`.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of_val(&args)) })?;
    end_child_or_reap(pid)
}

fn end_child_or_reap(pid: i64) -> io::Result<i64> {
    if pid == 0 {
        // SAFETY: ends the forked child without running anything of the parent's.
        unsafe { libc::_exit(0) }
    }
    // SAFETY: a null status is allowed.
    unsafe { libc::waitpid(pid as i32, std::ptr::null_mut(), libc::__WALL) };
    Ok(pid)
}

/// Fork; the child runs `child` and ends with its answer, the parent gets the pid.
///
/// The child of a process with threads could find a lock held for ever, so this refuses to run in one.
pub fn fork_child(child: impl FnOnce() -> i32) -> io::Result<i32> {
    if std::fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1) {
        return Err(io::Error::other("this process has threads, so it can't fork"));
    }
    // SAFETY: single-threaded (checked), so the child may do what the parent may.
    match check(i64::from(unsafe { libc::fork() }))? {
        0 => {
            let code = child();
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(code) }
        }
        pid => Ok(pid as i32),
    }
}

/// Ignore every signal that can be ignored.
pub fn ignore_signals() {
    for signal in 1..=64 {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// `kill(pid, signal)`, with -1 for every process that can be reached.
pub fn kill(pid: i32, signal: i32) -> io::Result<i64> {
    // SAFETY: takes no pointer.
    check(i64::from(unsafe { libc::kill(pid, signal) }))
}

/// Let any process trace this one (only where the Yama rule would forbid it).
pub fn allow_tracers() {
    // SAFETY: takes no pointer.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0) };
}

/// `ptrace(PTRACE_ATTACH)`; the target goes on afterwards.
pub fn ptrace_attach(pid: i32) -> io::Result<i64> {
    // SAFETY: ATTACH reads neither address nor data.
    let attached =
        check(unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_ATTACH, pid, 0usize, 0usize) })?;
    // SAFETY: waiting with a null status, then DETACH, which takes no memory.
    unsafe {
        libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL);
        libc::syscall(libc::SYS_ptrace, libc::PTRACE_DETACH, pid, 0usize, 0usize);
    }
    Ok(attached)
}

/// `ptrace(PTRACE_SEIZE)`.
pub fn ptrace_seize(pid: i32) -> io::Result<i64> {
    // SAFETY: SEIZE reads neither address nor data but as flags, which are 0.
    check(unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_SEIZE, pid, 0usize, 0usize) })
}

/// `process_vm_readv` of a few bytes at `address` of another process.
pub fn read_memory_of(pid: i32, address: usize) -> io::Result<i64> {
    let mut bytes = [0u8; 16];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
    // SAFETY: the kernel writes at most `bytes.len()` bytes into `bytes`; the remote address is not ours.
    check(unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) } as i64)
}

/// `process_vm_writev` of the bytes that `pid` already has at `address`, if they can be read, else of zeros.
pub fn write_memory_of(pid: i32, address: usize) -> io::Result<i64> {
    let mut bytes = [0u8; 16];
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut _, iov_len: bytes.len() };
    // SAFETY: both calls move `bytes.len()` bytes between `bytes` and the other process.
    unsafe {
        libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0);
        check(libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) as i64)
    }
}

/// `kcmp` of this process's and another's first fd.
pub fn compare_fds(pid: i32) -> io::Result<i64> {
    let me = std::process::id();
    // SAFETY: KCMP_FILE (0) takes two fd numbers and no pointer.
    check(unsafe { libc::syscall(libc::SYS_kcmp, me, pid, 0, 0usize, 0usize) })
}

/// `ioprio_set` of a process to the idle class.
pub fn lower_io_priority(pid: i32) -> io::Result<i64> {
    const WHO_PROCESS: i32 = 1;
    const CLASS_IDLE: i32 = 3 << 13;
    // SAFETY: takes no pointer.
    check(unsafe { libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, pid, CLASS_IDLE) })
}

/// `sched_setscheduler` of a process to the batch class.
pub fn set_batch_scheduling(pid: i32) -> io::Result<i64> {
    // SAFETY: a zeroed sched_param is priority 0, as this class wants.
    let param: libc::sched_param = unsafe { zeroed() };
    // SAFETY: `param` lives through the call.
    check(i64::from(unsafe { libc::sched_setscheduler(pid, libc::SCHED_BATCH, &raw const param) }))
}

/// Put a key on the session keyring and read it back.
pub fn add_key() -> io::Result<i64> {
    const SESSION_KEYRING: i32 = -3;
    let (kind, name, payload) = (c"user", c"ringfence-probe", b"secret");
    // SAFETY: the strings end with NUL, the payload's length is given, all live through the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_add_key,
            kind.as_ptr(),
            name.as_ptr(),
            payload.as_ptr(),
            payload.len(),
            SESSION_KEYRING,
        )
    })
}

/// `request_key` for a key named `name`.
pub fn request_key(name: &str) -> io::Result<i64> {
    let name = CString::new(name)?;
    // SAFETY: the strings end with NUL and live through the call; no call-out and no destination.
    check(unsafe {
        libc::syscall(libc::SYS_request_key, c"user".as_ptr(), name.as_ptr(), std::ptr::null::<u8>(), 0)
    })
}

/// `keyctl(KEYCTL_GET_KEYRING_ID)` of the user keyring, made if it isn't there.
pub fn user_keyring() -> io::Result<i64> {
    const GET_KEYRING_ID: i32 = 0;
    const USER_KEYRING: i32 = -4;
    // SAFETY: this operation takes no pointer.
    check(unsafe { libc::syscall(libc::SYS_keyctl, GET_KEYRING_ID, USER_KEYRING, 1) })
}

/// `io_uring_setup` of a small ring.
pub fn io_uring() -> io::Result<OwnedFd> {
    // io_uring_params is 120 bytes, all of which may be zero.
    let mut params = [0u64; 15];
    // SAFETY: the kernel reads and writes the 120 bytes of `params`.
    let fd = check(unsafe { libc::syscall(libc::SYS_io_uring_setup, 4u32, params.as_mut_ptr()) })?;
    Ok(own(fd))
}

/// `bpf(BPF_MAP_CREATE)` of a small array.
pub fn bpf_map() -> io::Result<OwnedFd> {
    const MAP_CREATE: i32 = 0;
    const ARRAY: u32 = 2;
    // map_type, key_size, value_size, max_entries, map_flags
    let attr: [u32; 5] = [ARRAY, 4, 4, 1, 0];
    // SAFETY: the attribute's size is given and it lives through the call.
    let fd = check(unsafe { libc::syscall(libc::SYS_bpf, MAP_CREATE, attr.as_ptr(), size_of_val(&attr)) })?;
    Ok(own(fd))
}

/// `userfaultfd` for user-mode faults only, which needs no privilege.
pub fn userfaultfd() -> io::Result<OwnedFd> {
    const USER_MODE_ONLY: i32 = 1;
    // SAFETY: takes no pointer.
    Ok(own(check(unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) })?))
}

/// `perf_event_open` of a software clock of this process.
pub fn perf_event() -> io::Result<OwnedFd> {
    const SOFTWARE: u32 = 1;
    const EXCLUDE_KERNEL_AND_HV: u64 = (1 << 5) | (1 << 6);
    // The first published size of perf_event_attr is 64 bytes: type, size, config (0 is the CPU clock), and flags.
    let mut attr = [0u64; 8];
    attr[0] = u64::from(SOFTWARE) | (64 << 32);
    attr[5] = EXCLUDE_KERNEL_AND_HV;
    // SAFETY: the attribute says its own size and lives through the call.
    let fd = check(unsafe { libc::syscall(libc::SYS_perf_event_open, attr.as_ptr(), 0, -1, -1, 0) })?;
    Ok(own(fd))
}

/// `ioctl(TIOCSTI)`: push one byte into a terminal's input.
pub fn push_terminal_input(fd: BorrowedFd<'_>, byte: u8) -> io::Result<i64> {
    // SAFETY: TIOCSTI reads one byte at the address.
    check(i64::from(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSTI, &raw const byte) }))
}

/// `ioctl(TIOCSTI)` with garbage in the upper half of the request word, which the kernel cuts off.
pub fn push_terminal_input_wide(fd: BorrowedFd<'_>, byte: u8) -> io::Result<i64> {
    let request = libc::TIOCSTI | (0xffff_ffff << 32);
    // SAFETY: the kernel uses the low 32 bits of the request, TIOCSTI, which reads one byte at the address.
    check(unsafe { libc::syscall(libc::SYS_ioctl, fd.as_raw_fd(), request, &raw const byte) })
}

/// `ioctl(TIOCLINUX)`: read the console's selection mode.
pub fn console_selection(fd: BorrowedFd<'_>) -> io::Result<i64> {
    // TIOCL_GETSHIFTSTATE: reads one byte, writes one byte.
    let mut byte = 6u8;
    // SAFETY: this subcode writes one byte at the address.
    check(i64::from(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCLINUX, &raw mut byte) }))
}

/// Look up a System V shared memory segment by key.
pub fn find_shared_memory(key: i32) -> io::Result<i64> {
    // SAFETY: takes no pointer.
    check(i64::from(unsafe { libc::shmget(key, 0, 0) }))
}

/// Make a System V shared memory segment with this key, for everybody.
pub fn create_shared_memory(key: i32) -> io::Result<i64> {
    // SAFETY: takes no pointer.
    check(i64::from(unsafe { libc::shmget(key, 4096, libc::IPC_CREAT | libc::IPC_EXCL | 0o666) }))
}

/// Remove a System V shared memory segment.
pub fn remove_shared_memory(key: i32) -> io::Result<i64> {
    let id = find_shared_memory(key)? as i32;
    // SAFETY: IPC_RMID reads no buffer.
    check(i64::from(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) }))
}

/// Open an existing POSIX message queue.
pub fn open_queue(name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    // SAFETY: the name ends with NUL; without O_CREAT no other argument is read.
    let fd = check(unsafe { libc::syscall(libc::SYS_mq_open, name.as_ptr(), libc::O_RDONLY, 0, 0) })?;
    Ok(own(fd))
}

/// Make a POSIX message queue.
pub fn create_queue(name: &str) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    let flags = libc::O_RDWR | libc::O_CREAT;
    // SAFETY: the name ends with NUL; a null attribute asks for the defaults.
    let fd = check(unsafe {
        libc::syscall(libc::SYS_mq_open, name.as_ptr(), flags, 0o666, std::ptr::null::<libc::mq_attr>())
    })?;
    Ok(own(fd))
}

/// Remove a POSIX message queue.
pub fn remove_queue(name: &str) -> io::Result<i64> {
    let name = CString::new(name)?;
    // SAFETY: the name ends with NUL.
    check(unsafe { libc::syscall(libc::SYS_mq_unlink, name.as_ptr()) })
}

/// Ask for the handle of `path` and open it again by that handle: a way round every path check.
pub fn open_by_handle(path: &Path) -> io::Result<OwnedFd> {
    const MOST: u32 = 128;
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        data: [u8; MOST as usize],
    }
    let mut handle = Handle { bytes: MOST, kind: 0, data: [0; MOST as usize] };
    let mut mount = 0i32;
    let file = CString::new(path.as_os_str().as_encoded_bytes())?;
    let directory = std::fs::File::open(path.parent().unwrap_or(Path::new("/")))?;
    // SAFETY: the handle says how many bytes it has room for; all pointers live through the call.
    check(unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            file.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            0,
        )
    })?;
    // SAFETY: the handle was filled by the kernel.
    let fd = check(unsafe {
        libc::syscall(libc::SYS_open_by_handle_at, directory.as_raw_fd(), &raw const handle, libc::O_RDONLY)
    })?;
    Ok(own(fd))
}

/// Ask for a capability back in the permitted and effective sets.
pub fn raise_capability(number: u32) -> io::Result<i64> {
    const VERSION_3: u32 = 0x2008_0522;
    let header = [VERSION_3, 0];
    let bit = 1u64 << number;
    let (low, high) = (bit as u32, (bit >> 32) as u32);
    // effective, permitted, inheritable; low words, then high words
    let data = [low, low, 0, high, high, 0];
    // SAFETY: the header is two words and version 3 has six words of data, as given.
    check(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) })
}

/// How many Landlock layers this process is under: the kernel allows 16, so it is 16 less those that a child can
/// still add. `None` where there is no Landlock to ask.
pub fn landlock_layers() -> Option<i32> {
    const MOST: i32 = 16;
    let pid = fork_child(|| {
        // SAFETY: takes no pointer.
        unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // A ruleset that handles one right (making sockets): the first word of its attribute.
        let attr = [1u64 << 9];
        // SAFETY: the attribute's size is given and it lives through the call.
        let ruleset =
            unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, attr.as_ptr(), size_of_val(&attr), 0) };
        if ruleset < 0 {
            return MOST + 1;
        }
        // SAFETY: takes no pointer.
        let add = || unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0) };
        (0..MOST).take_while(|_| add() == 0).count() as i32
    })
    .ok()?;
    let mut status = 0;
    // SAFETY: `status` lives through the call.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    let added = libc::WEXITSTATUS(status);
    (libc::WIFEXITED(status) && added <= MOST).then_some(MOST - added)
}

/// The process's `personality`, set to `persona`.
pub fn set_personality(persona: u64) -> io::Result<i64> {
    // SAFETY: takes no pointer.
    check(unsafe { libc::syscall(libc::SYS_personality, persona) })
}

fn own(fd: i64) -> OwnedFd {
    // SAFETY: the kernel has just given this fd to us, and nobody else knows its number.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

fn check(answer: i64) -> io::Result<i64> {
    if answer == -1 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

/// Have a command killed when the *thread* that starts it ends: a test that is killed leaves nothing running.
pub fn die_with_starter(command: &mut std::process::Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: between fork and exec it makes one call that takes a number, and allocates nothing.
    unsafe { command.pre_exec(crate::set_die_with_parent) };
}
