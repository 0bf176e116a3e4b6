//! One process: identity, limits, ending, and becoming another program.

use std::convert::Infallible;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};

fn check(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How many threads this process has.
pub(crate) fn thread_count() -> io::Result<u64> {
    // A directory's link count is 2 plus its subdirectories, and each thread is one: a stat instead of a listing.
    Ok(std::fs::metadata("/proc/self/task")?.nlink().saturating_sub(2))
}

/// Become this user and group in this thread, with no supplementary groups if `drop_groups` (an ordinary user can't drop
/// them). By the kernel's own calls: libc's would wait for every other thread to do the same.
pub fn become_user(uid: u32, gid: u32, drop_groups: bool) -> io::Result<()> {
    let call = |number, arguments: [u32; 3]| {
        let [first, second, third] = arguments;
        // SAFETY: these calls take numbers; setgroups with a count of 0 reads no list.
        check(unsafe { libc::syscall(number, first, second, third) } as i32)
    };
    if drop_groups {
        call(libc::SYS_setgroups, [0; 3])?;
    }
    call(libc::SYS_setresgid, [gid; 3])?;
    call(libc::SYS_setresuid, [uid; 3])
}

/// A new session: no controlling terminal, and a process group of its own.
pub fn start_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// May others of the same uid look into this process?
pub fn set_dumpable(dumpable: bool) -> io::Result<()> {
    let how = if dumpable { DumpableBehavior::Dumpable } else { DumpableBehavior::NotDumpable };
    Ok(rustix::process::set_dumpable_behavior(how)?)
}

/// Be killed when the parent dies. A change of uid clears this: set it last, then check that the parent lives.
pub fn set_die_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

pub fn set_hostname(name: &str) -> io::Result<()> {
    Ok(rustix::system::sethostname(name.as_bytes())?)
}

/// Set the soft and the hard limit, never above the hard limit that there is.
pub fn set_limit(resource: Resource, value: u64) -> io::Result<()> {
    let hard = rustix::process::getrlimit(resource).maximum.map_or(value, |hard| hard.min(value));
    Ok(rustix::process::setrlimit(resource, Rlimit { current: Some(hard), maximum: Some(hard) })?)
}

/// Overwrite the environment that this process was started with: what guard has in memory is nobody's secret.
pub fn scrub_environment() {
    unsafe extern "C" {
        static mut environ: *mut *mut libc::c_char;
    }
    // SAFETY: single-threaded by the rule for forks; each entry is a C string of this process, in writable memory,
    // and nothing reads the environment afterwards, since the list is emptied.
    unsafe {
        let mut entry = environ;
        if entry.is_null() {
            return;
        }
        while !(*entry).is_null() {
            let length = libc::strlen(*entry);
            std::ptr::write_bytes(*entry, 0, length);
            entry = entry.add(1);
        }
        *environ = std::ptr::null_mut();
    }
}

/// Show this as the command line of this process, and of its forks from here on, instead of its arguments. They are gone
/// then: nothing may ask for them any more.
pub fn hide_arguments(shown: &str) -> io::Result<()> {
    unsafe extern "C" {
        /// The first argument, where the kernel has put it.
        static program_invocation_name: *mut libc::c_char;
    }
    // SAFETY: the C library has set it before `main`, and nothing sets it again.
    let first = unsafe { program_invocation_name }.cast::<u8>();
    let mut length = 0;
    for argument in std::env::args_os() {
        let wanted = argument.as_bytes();
        for (at, byte) in wanted.iter().chain(&[0]).enumerate() {
            // SAFETY: the kernel puts the arguments behind each other, each with a zero at its end. All up to here were what
            // the runtime says they are, so that this is the next byte of the same one, or the first of the next one.
            if unsafe { *first.add(length + at) } != *byte {
                return Err(io::Error::other("the arguments of this process are not where they should be"));
            }
        }
        length += wanted.len() + 1;
    }
    if length == 0 {
        return Ok(());
    }
    // SAFETY: the bytes that were just read, in writable memory of this process alone, which has one thread.
    let area = unsafe { std::slice::from_raw_parts_mut(first, length) };
    area.fill(0);
    let room = shown.len().min(length.saturating_sub(2));
    area[..room].copy_from_slice(&shown.as_bytes()[..room]);
    // A last byte that is not zero tells the kernel that this is one text, which ends at the first zero: without it the
    // command line would be as long as it was, and `ps` would show the emptiness behind.
    area[length - 1] = u8::from(length > 1);
    Ok(())
}

/// Replace every variable of this process, which has one thread, by these.
pub fn replace_environment(variables: &[(OsString, OsString)]) {
    let had = environment_names();
    // SAFETY: no other thread reads the environment meanwhile, since there is none.
    unsafe {
        had.iter().for_each(|name| std::env::remove_var(name));
        variables.iter().for_each(|(name, value)| std::env::set_var(name, value));
    }
}

/// Set these variables of this process, which has one thread, or take them away. The others' values are not touched, and not
/// copied: they may be secrets.
pub fn change_environment(changes: &[(&str, Option<&OsStr>)]) {
    // SAFETY: no other thread reads the environment meanwhile, since there is none.
    unsafe {
        for (name, value) in changes {
            match value {
                Some(value) => std::env::set_var(name, value),
                None => std::env::remove_var(name),
            }
        }
    }
}

/// The names of this process's variables. Their values are not copied: they may be secrets, and freed memory keeps them.
pub fn environment_names() -> Vec<OsString> {
    unsafe extern "C" {
        static environ: *const *const libc::c_char;
    }
    let mut names = Vec::new();
    // SAFETY: single-threaded by the rule for forks, so that nothing changes the list while it is read; it is a
    // null-terminated array of C strings.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            let text = CStr::from_ptr(*entry).to_bytes();
            if let Some(end) = text.iter().position(|&byte| byte == b'=') {
                names.push(OsStr::from_bytes(&text[..end]).to_owned());
            }
            entry = entry.add(1);
        }
    }
    names
}

/// A short file of the kernel's, in one read: such files say that they are empty, and readers that trust it read them in
/// many small parts. What is beyond 8 KiB is cut.
pub fn read_kernel_file(path: impl AsRef<Path>) -> io::Result<String> {
    let mut buffer = [0; 8192];
    let length = File::open(path)?.read(&mut buffer)?;
    Ok(String::from_utf8_lossy(&buffer[..length]).into_owned())
}

/// When a process started, in clock ticks since boot; with its pid this tells it from a later one. `None`: no such
/// process.
pub fn start_time(pid: u32) -> Option<u64> {
    // Field 22 of its stat, counted after the name, which is in brackets and may hold anything.
    let stat = read_kernel_file(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19)?.parse().ok()
}

/// Whether the process that began then is there and has not ended: one that nobody has waited for yet has.
pub fn is_living(pid: u32, started: u64) -> bool {
    let Ok(stat) = read_kernel_file(format!("/proc/{pid}/stat")) else { return false };
    let Some((_, fields)) = stat.rsplit_once(") ") else { return false };
    let mut fields = fields.split(' ');
    let ended = matches!(fields.next(), Some("Z" | "X"));
    !ended && fields.nth(18).and_then(|field| field.parse().ok()) == Some(started)
}

/// Which pid namespace this process is in; 0 where /proc does not say.
pub fn pid_namespace() -> u64 {
    rustix::fs::stat("/proc/self/ns/pid").map_or(0, |facts| facts.st_ino)
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exited {
    Code(i32),
    Signal(i32),
}

impl Exited {
    /// The status as a shell gives it.
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => 128 + signal,
        }
    }

    fn from_status(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Code(libc::WEXITSTATUS(status))
        }
    }
}

fn wait4(pid: i32, options: i32) -> io::Result<Option<(i32, Exited, libc::rusage)>> {
    Ok(wait4_status(pid, options)?.map(|(pid, status, usage)| (pid, Exited::from_status(status), usage)))
}

fn wait4_status(pid: i32, options: i32) -> io::Result<Option<(i32, i32, libc::rusage)>> {
    let mut status = 0;
    // SAFETY: an all-zero rusage is a valid value of that plain struct.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: `status` and `usage` are live.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, options | libc::__WALL, &raw mut usage) };
        if reaped > 0 {
            return Ok(Some((reaped, status, usage)));
        }
        if reaped == 0 {
            return Ok(None);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::ECHILD) => return Ok(None),
            _ => return Err(error),
        }
    }
}

/// Make what this process's descendants leave its own children.
pub fn adopt_orphans() -> io::Result<()> {
    // SAFETY: prctl with this option takes a number.
    check(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) })
}

/// A child and what it and all that it reaped used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reaped {
    pub pid: i32,
    pub how: Exited,
    pub cpu_micros: u64,
    pub memory_bytes: u64,
}

/// Wait for the next child to end; `None`: there are none.
pub fn wait_for_any() -> io::Result<Option<Reaped>> {
    Ok(wait4(-1, 0)?.map(|(pid, how, usage)| Reaped {
        pid,
        how,
        cpu_micros: micros(usage.ru_utime) + micros(usage.ru_stime),
        memory_bytes: usage.ru_maxrss as u64 * 1024,
    }))
}

/// Is there a child, running or not yet reaped?
pub fn has_children() -> bool {
    // SAFETY: an all-zero siginfo is a valid value of that plain struct.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT | libc::__WALL;
    // SAFETY: `info` is live; nothing is reaped.
    let found = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, options) };
    found == 0 || io::Error::last_os_error().raw_os_error() != Some(libc::ECHILD)
}

fn micros(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64
}

/// Reap one child that has ended, if any has.
pub fn reap() -> io::Result<Option<(i32, Exited)>> {
    Ok(wait4(-1, libc::WNOHANG)?.map(|(pid, exited, _)| (pid, exited)))
}

/// What became of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildNews {
    Ended(Exited),
    /// By a signal; told once, until it goes on.
    Stopped,
}

/// Reap one child that has ended, or hear of one that was stopped, if there is any.
pub fn next_child_news() -> io::Result<Option<(i32, ChildNews)>> {
    let news = wait4_status(-1, libc::WNOHANG | libc::WUNTRACED)?;
    Ok(news.map(|(pid, status, _)| match libc::WIFSTOPPED(status) {
        true => (pid, ChildNews::Stopped),
        false => (pid, ChildNews::Ended(Exited::from_status(status))),
    }))
}

/// Wait for `pid` to end; with the CPU time, in microseconds, of it and of all that it reaped.
pub fn wait_for(pid: i32) -> io::Result<Option<(Exited, u64, u64)>> {
    Ok(wait4(pid, 0)?.map(|(_, exited, usage)| {
        (exited, micros(usage.ru_utime) + micros(usage.ru_stime), usage.ru_maxrss as u64 * 1024)
    }))
}

/// The same of this process while it lives.
pub fn own_usage() -> io::Result<(u64, u64)> {
    let usage = |who: libc::c_int| -> io::Result<libc::rusage> {
        // SAFETY: an all-zero rusage is a valid value of that plain struct.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` is live and may be written.
        check(unsafe { libc::getrusage(who, &raw mut usage) })?;
        Ok(usage)
    };
    let both = [usage(libc::RUSAGE_SELF)?, usage(libc::RUSAGE_CHILDREN)?];
    let cpu = both.iter().map(|usage| micros(usage.ru_utime) + micros(usage.ru_stime)).sum();
    let memory = both.iter().map(|usage| usage.ru_maxrss as u64 * 1024).max();
    Ok((cpu, memory.unwrap_or(0)))
}

fn kill(target: i32, signal: i32) -> io::Result<()> {
    // SAFETY: kill takes numbers.
    check(unsafe { libc::kill(target, signal) })
}

pub fn kill_process(pid: i32, signal: i32) -> io::Result<()> {
    kill(pid, signal)
}

pub fn kill_group(group: i32, signal: i32) -> io::Result<()> {
    kill(-group, signal)
}

/// Signal every process of this pid namespace but the caller. Only for PID 1 of a sandbox.
pub fn kill_all(signal: i32) -> io::Result<()> {
    if std::process::id() != 1 {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    kill(-1, signal)
}

/// Leave at once, running nothing of this process: a forked child must not run its parent's exit code.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: _exit never returns and runs no handler.
    unsafe { libc::_exit(code) }
}

/// Become `argv`, looked up in `path` where its name has no slash; returns only the error, as a shell would see it.
pub fn exec(argv: &[CString], environment: &[CString], path: &OsStr) -> io::Result<Infallible> {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments, variables) = (pointers(argv), pointers(environment));
    let name = argv.first().ok_or(io::ErrorKind::InvalidInput)?;
    let attempt = |program: &CString| {
        // SAFETY: both lists are null-terminated arrays of C strings that live in `argv` and `environment`.
        unsafe { libc::execve(program.as_ptr(), arguments.as_ptr(), variables.as_ptr()) };
        io::Error::last_os_error()
    };
    if name.as_bytes().contains(&b'/') {
        return Err(attempt(name));
    }
    let mut refused = io::Error::from_raw_os_error(libc::ENOENT);
    for directory in path.as_encoded_bytes().split(|&byte| byte == b':') {
        // An empty entry would be the current directory: the workspace may not choose the program.
        if directory.is_empty() || directory[0] != b'/' {
            continue;
        }
        let program = CString::new([directory, b"/", name.as_bytes()].concat())?;
        let error = attempt(&program);
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => refused = error,
            _ => return Err(error),
        }
    }
    Err(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_a_start_time_and_a_dead_one_has_not() {
        assert!(start_time(std::process::id()).is_some());
        assert_eq!(start_time(u32::MAX), None);
    }

    #[test]
    fn names_of_variables_come_without_their_values() {
        let names = environment_names();
        assert!(names.iter().any(|name| name == "PATH"));
        assert!(names.iter().all(|name| !name.as_bytes().contains(&b'=')));
    }
}
