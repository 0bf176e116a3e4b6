//! Attacks on other processes: PID 1 inside (guard), processes of the host, and the `/proc` of either.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::time::Duration;

use ringfence_linux::probe_calls;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit};

use crate::verdict::{Attempted, Stop, held, number, word};

pub(crate) fn attempt(name: &str, args: &[String]) -> Option<Attempted> {
    Some(match name {
        "victim" => victim(),
        "sees-process" => sees_process(args),
        "memory-file" => memory_file(args),
        "process-file" => process_file(args),
        "process-file-write" => process_file_write(args),
        "process-fds" => process_fds(args),
        "process-link" => process_link(args),
        "process-root" => process_root(args),
        "any-process-root" => any_process_root(args),
        "any-environ" => any_environ(args),
        "pidfd-getfd" => pidfd_getfd(args),
        "pidfd-signal" => pidfd_signal(args),
        "attach" => number(args, 0).and_then(|pid| done(probe_calls::ptrace_attach(pid), "ptrace attach")),
        "seize" => number(args, 0).and_then(|pid| done(probe_calls::ptrace_seize(pid), "ptrace seize")),
        "vm-read" => vm_read(args),
        "vm-write" => vm_write(args),
        "kcmp" => number(args, 0).and_then(|pid| done(probe_calls::compare_fds(pid), "kcmp")),
        "prlimit" => prlimit(args),
        "affinity" => affinity(args),
        "scheduler" => {
            number(args, 0).and_then(|pid| done(probe_calls::set_batch_scheduling(pid), "sched_setscheduler"))
        }
        "renice" => renice(args),
        "ioprio" => number(args, 0).and_then(|pid| done(probe_calls::lower_io_priority(pid), "ioprio_set")),
        "all-signals" => all_signals(args),
        "kill" => kill(args),
        "kill-all" => kill_all(),
        "set-group" => set_group(args),
        _ => return None,
    })
}

fn done<T, E: Into<Stop>>(result: Result<T, E>, call: &str) -> Attempted {
    result.map(|_| format!("{call} worked")).map_err(Into::into)
}

fn target(args: &[String]) -> Result<Pid, Stop> {
    Pid::from_raw(number(args, 0)?).ok_or_else(|| Stop::Broken("0 is no pid".into()))
}

/// A process to be attacked by a twin: says that it is there, and waits.
fn victim() -> Attempted {
    probe_calls::allow_tracers();
    println!("ready");
    std::thread::sleep(Duration::from_secs(120));
    held("nobody came")
}

/// `sees-process PID`: a signal could be sent to it.
fn sees_process(args: &[String]) -> Attempted {
    done(rustix::process::test_kill_process(target(args)?), "signalling")
}

/// `memory-file PID`: read the memory of a process through its `mem` file.
fn memory_file(args: &[String]) -> Attempted {
    let pid: i32 = number(args, 0)?;
    let mut memory = File::open(format!("/proc/{pid}/mem"))?;
    memory.seek(SeekFrom::Start(first_address(pid)? as u64))?;
    let mut bytes = [0u8; 16];
    match memory.read(&mut bytes)? {
        0 => held("nothing is there"),
        _ => Ok(format!("read the memory of process {pid}")),
    }
}

fn first_address(pid: i32) -> Result<usize, Stop> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let first = maps.split('-').next().unwrap_or_default();
    usize::from_str_radix(first, 16).map_err(|_| Stop::Held("the memory map is empty".into()))
}

/// The start of this very program: static and not relocated, so it is mapped there in each of its processes.
fn own_address() -> Result<usize, Stop> {
    first_address(std::process::id() as i32)
}

/// `process-file PID NAME`: read a file of `/proc/PID`.
fn process_file(args: &[String]) -> Attempted {
    let path = format!("/proc/{}/{}", word(args, 0)?, word(args, 1)?);
    let mut byte = [0u8; 1];
    match File::open(&path)?.read(&mut byte)? {
        0 => held(format!("{path} is empty")),
        _ => Ok(format!("read {path}")),
    }
}

/// `process-file-write PID NAME VALUE`
fn process_file_write(args: &[String]) -> Attempted {
    use std::io::Write;
    let path = format!("/proc/{}/{}", word(args, 0)?, word(args, 1)?);
    OpenOptions::new().write(true).open(&path)?.write_all(word(args, 2)?.as_bytes())?;
    Ok(format!("wrote {path}"))
}

/// `process-fds PID`: list the open files of a process and open one of them.
fn process_fds(args: &[String]) -> Attempted {
    let pid = word(args, 0)?;
    let mut why = String::from("it has none");
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))? {
        match fs::read_link(entry?.path()) {
            Ok(link) => return Ok(format!("process {pid} has {} open", link.display())),
            Err(error) => why = error.to_string(),
        }
    }
    held(why)
}

/// `process-link PID NAME`: follow `exe`, `cwd` or `root`.
fn process_link(args: &[String]) -> Attempted {
    let link = fs::read_link(format!("/proc/{}/{}", word(args, 0)?, word(args, 1)?))?;
    Ok(format!("it leads to {}", link.display()))
}

/// `process-root PID PATH TOKEN`: read a host file through the root of a process.
fn process_root(args: &[String]) -> Attempted {
    let path = format!("/proc/{}/root{}", word(args, 0)?, word(args, 1)?);
    let bytes = fs::read(&path)?;
    if String::from_utf8_lossy(&bytes).contains(word(args, 2)?) {
        return Ok(format!("read {path}"));
    }
    held(format!("{path} holds something else"))
}

fn pids() -> Result<Vec<String>, Stop> {
    Ok(fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))
        .collect())
}

/// `any-process-root PATH TOKEN`: through the root or the current directory of any process, thread or not.
fn any_process_root(args: &[String]) -> Attempted {
    let (path, token) = (word(args, 0)?, word(args, 1)?);
    let climb = "../".repeat(16);
    for pid in pids()? {
        for start in [
            format!("/proc/{pid}/root"),
            format!("/proc/{pid}/cwd/{climb}"),
            format!("/proc/{pid}/task/{pid}/root"),
        ] {
            let file = format!("{start}{path}");
            if fs::read(&file).is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(token)) {
                return Ok(format!("read {file}"));
            }
        }
    }
    held("no process leads there")
}

/// `any-environ TOKEN`: find a word in the environment of another process.
fn any_environ(args: &[String]) -> Attempted {
    let token = word(args, 0)?;
    let me = std::process::id().to_string();
    for pid in pids()?.into_iter().filter(|pid| *pid != me) {
        if fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(token))
        {
            return Ok(format!("process {pid} has it in its environment"));
        }
    }
    held("it is in no environment")
}

fn pidfd_getfd(args: &[String]) -> Attempted {
    let pid = target(args)?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    let mut why = String::new();
    for number in 0..16 {
        match rustix::process::pidfd_getfd(&pidfd, number, rustix::process::PidfdGetfdFlags::empty()) {
            Ok(_) => return Ok(format!("took fd {number} of process {pid}")),
            Err(errno) => why = std::io::Error::from(errno).to_string(),
        }
    }
    held(why)
}

/// `pidfd-signal PID`: kill by pidfd. The host looks whether PID 1 lived.
fn pidfd_signal(args: &[String]) -> Attempted {
    let pid = target(args)?;
    let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
    rustix::process::pidfd_send_signal(&pidfd, rustix::process::Signal::KILL)?;
    gone(pid)
}

fn vm_read(args: &[String]) -> Attempted {
    done(probe_calls::read_memory_of(number(args, 0)?, own_address()?), "process_vm_readv")
}

fn vm_write(args: &[String]) -> Attempted {
    let pid: i32 = number(args, 0)?;
    let maps =
        fs::read_to_string(format!("/proc/{pid}/maps")).or_else(|_| fs::read_to_string("/proc/self/maps"))?;
    let stack = maps.lines().find(|line| line.ends_with("[stack]")).unwrap_or_default();
    let end = stack.split(['-', ' ']).nth(1).unwrap_or_default();
    let end =
        usize::from_str_radix(end, 16).map_err(|_| Stop::Broken("no stack in the memory map".into()))?;
    done(probe_calls::write_memory_of(pid, end - 16), "process_vm_writev")
}

/// `prlimit PID`: whoever can set one limit can set RLIMIT_CPU to 0, which kills; a harmless one shows it.
fn prlimit(args: &[String]) -> Attempted {
    let pid = target(args)?;
    let limit = Rlimit { current: Some(0), maximum: Some(1 << 30) };
    done(rustix::process::prlimit(Some(pid), Resource::Core, limit), "prlimit")
}

fn affinity(args: &[String]) -> Attempted {
    let mut set = rustix::thread::CpuSet::new();
    set.set(0);
    done(rustix::thread::sched_setaffinity(Some(target(args)?), &set), "sched_setaffinity")
}

fn renice(args: &[String]) -> Attempted {
    done(rustix::process::setpriority_process(Some(target(args)?), 19), "setpriority")
}

/// `all-signals PID`: every signal there is, then see whether it lives.
fn all_signals(args: &[String]) -> Attempted {
    let pid = target(args)?;
    probe_calls::ignore_signals();
    for signal in (1..=64).filter(|signal| *signal != 9).chain([9]) {
        // Some numbers are the C library's own and refused by it, others by the kernel: all that can go, go.
        let _ = probe_calls::kill(pid.as_raw_nonzero().get(), signal);
    }
    gone(pid)
}

/// `kill PID SIGNAL`
fn kill(args: &[String]) -> Attempted {
    let pid = target(args)?;
    probe_calls::ignore_signals();
    probe_calls::kill(pid.as_raw_nonzero().get(), number(args, 1)?)?;
    gone(pid)
}

/// Kill every process that can be reached; then this one is still there, or the sandbox took it along.
fn kill_all() -> Attempted {
    probe_calls::kill(-1, 9)?;
    Ok("kill(-1) reached processes".into())
}

fn set_group(args: &[String]) -> Attempted {
    let pid = target(args)?;
    done(rustix::process::setpgid(Some(pid), Some(pid)), "setpgid")
}

/// A process that was killed is gone, or a zombie, shortly after.
fn gone(pid: Pid) -> Attempted {
    for _ in 0..50 {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
        let state = stat.rsplit(')').next().unwrap_or_default().trim_start().chars().next();
        if matches!(state, None | Some('Z' | 'X' | 'T')) {
            return Ok(format!("process {} is gone or stopped", pid.as_raw_nonzero()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    held(format!("process {} lives", pid.as_raw_nonzero()))
}
