//! Real filters on threads of the test: a filter binds the thread that installs it and no other.

use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::super::{Arch, ClosedAction, Decision, Listen, Rules, compile, entry, install, name_of};
use super::*;

fn number(name: &str) -> i64 {
    entry(name).and_then(|entry| entry.number(Arch::NATIVE)).map(i64::from).unwrap()
}

/// Makes a raw call; returns the result or the errno.
fn call(nr: i64, args: [u64; 3]) -> Result<i64, i32> {
    // SAFETY: only for calls that the filter stops or that take no pointers; see the callers.
    let result = unsafe { libc::syscall(nr, args[0], args[1], args[2], 0_u64, 0_u64, 0_u64) };
    if result < 0 { Err(io::Error::last_os_error().raw_os_error().unwrap()) } else { Ok(result) }
}

fn no_new_privs() {
    // SAFETY: sets a flag of the calling thread; no pointers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
}

fn wait_readable(listener: &Listener) {
    let mut poll = libc::pollfd { fd: listener.as_fd().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, alive for the call.
    assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 10_000) }, 1, "no notification within 10 s");
    assert_ne!(poll.revents & libc::POLLIN, 0, "{:#x}", poll.revents);
}

/// Runs `inside` on a thread under the filter, with its listener handed out.
fn under_filter<T: Send + 'static>(
    rules: &Rules,
    inside: impl FnOnce() -> T + Send + 'static,
) -> (Listener, thread::JoinHandle<T>) {
    let program = compile(Arch::NATIVE, rules).unwrap();
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        no_new_privs();
        let fd = install(&program, Listen::Yes).unwrap().unwrap();
        sender.send(Listener::new(fd)).unwrap();
        inside()
    });
    (receiver.recv_timeout(Duration::from_secs(10)).unwrap(), thread)
}

#[test]
fn closed_calls_are_reported_by_name_and_fail() {
    let attempts: [(&str, [u64; 3]); 6] = [
        ("keyctl", [0, 0, 0]),
        ("ptrace", [0, 0, 0]),
        ("mount", [0, 0, 0]),
        ("unshare", [libc::CLONE_NEWUSER as u64, 0, 0]),
        ("socket", [libc::AF_VSOCK as u64, libc::SOCK_STREAM as u64, 0]),
        ("prlimit64", [1, libc::RLIMIT_CPU as u64, 0]),
    ];
    let rules = Rules::default();
    let (listener, thread) =
        under_filter(&rules, move || attempts.map(|(name, args)| call(number(name), args)));
    for (name, args) in attempts {
        wait_readable(&listener);
        let seen = listener.recv().unwrap().unwrap();
        assert_eq!(seen.arch, Arch::NATIVE.audit());
        assert_eq!(name_of(Arch::NATIVE, seen.nr), Some(name));
        assert_eq!(seen.args[..3], args);
        assert_eq!(rules.decide(Arch::NATIVE, seen.arch, seen.nr, &seen.args), Decision::Closed);
        assert!(seen.pid > 0 && listener.is_alive(seen.id));
        listener.deny(seen.id, libc::EPERM).unwrap();
        assert!(!listener.is_alive(seen.id), "an answered call is still alive");
    }
    assert_eq!(thread.join().unwrap(), [Err(libc::EPERM); 6]);
}

#[test]
fn without_a_listener_closed_calls_fail() {
    let (go, wait) = mpsc::channel::<()>();
    let (listener, thread) = under_filter(&Rules::default(), move || {
        wait.recv().unwrap();
        call(number("unshare"), [libc::CLONE_NEWUTS as u64, 0, 0])
    });
    drop(listener);
    go.send(()).unwrap();
    assert_eq!(thread.join().unwrap(), Err(libc::ENOSYS));
}

#[test]
fn a_call_that_waits_fails_when_the_listener_dies() {
    let (listener, thread) = under_filter(&Rules::default(), || call(number("keyctl"), [0; 3]));
    wait_readable(&listener);
    listener.recv().unwrap().unwrap();
    drop(listener);
    assert_eq!(thread.join().unwrap(), Err(libc::ENOSYS));
}

#[test]
fn traced_calls_can_go_on_or_be_answered() {
    let rules = Rules { notify_also: vec!["getppid", "getpgid"], ..Rules::default() };
    let (listener, thread) =
        under_filter(&rules, || (call(number("getppid"), [0; 3]), call(number("getpgid"), [0; 3])));
    wait_readable(&listener);
    let seen = listener.recv().unwrap().unwrap();
    assert_eq!(rules.decide(Arch::NATIVE, seen.arch, seen.nr, &seen.args), Decision::Trace);
    listener.continue_call(seen.id).unwrap();
    wait_readable(&listener);
    let seen = listener.recv().unwrap().unwrap();
    listener.return_value(seen.id, 4321).unwrap();
    let (parent, group) = thread.join().unwrap();
    assert_eq!(parent, Ok(i64::from(std::os::unix::process::parent_id())));
    assert_eq!(group, Ok(4321));
}

#[test]
fn errno_mode_needs_no_listener() {
    let rules = Rules { closed: ClosedAction::Errno, ..Rules::default() };
    let program = compile(Arch::NATIVE, &rules).unwrap();
    let results = thread::spawn(move || {
        no_new_privs();
        assert!(install(&program, Listen::No).unwrap().is_none());
        [
            call(number("keyctl"), [0; 3]),
            call(number("clone3"), [0; 3]),
            call(470, [0; 3]),
            call(number("getppid"), [0; 3]),
        ]
    });
    let [closed, clone3, unknown, plain] = results.join().unwrap();
    assert_eq!((closed, clone3, unknown), (Err(libc::EPERM), Err(libc::ENOSYS), Err(libc::ENOSYS)));
    assert!(plain.is_ok());
}

/// The twin of the tests above: without a filter the same calls are carried out.
#[test]
fn without_a_filter_the_calls_are_carried_out() {
    let results = thread::spawn(|| {
        // KEYCTL_GET_KEYRING_ID of the session keyring; a limit that is neither read nor set.
        [
            call(number("keyctl"), [0, (-3_i64) as u64, 0]),
            call(number("prlimit64"), [std::process::id().into(), 0, 0]),
        ]
    });
    for result in results.join().unwrap() {
        assert_ne!(result, Err(libc::EPERM));
        assert_ne!(result, Err(libc::ENOSYS));
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn thirty_two_bit_entry_is_reported() {
    let (listener, thread) = under_filter(&Rules::default(), || {
        let x32 = call(i64::from(0x4000_0000_u32) + 39, [0; 3]);
        let result: i64;
        // SAFETY: i386 getpid through the 32-bit gate: takes no arguments and touches no memory. It
        // changes rax, and on older kernels r8 to r11, all of which are declared.
        unsafe {
            std::arch::asm!(
                "int 0x80",
                inlateout("rax") 20_i64 => result,
                out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            );
        }
        (x32, result as i32)
    });
    wait_readable(&listener);
    let seen = listener.recv().unwrap().unwrap();
    assert_eq!(name_of(Arch::X86_64, seen.nr), Some("getpid"));
    listener.deny(seen.id, libc::EPERM).unwrap();
    // The second only comes where the kernel has 32-bit emulation; elsewhere the gate is a fault.
    wait_readable(&listener);
    let seen = listener.recv().unwrap().unwrap();
    assert_eq!((seen.arch, seen.nr), (Arch::I386.audit(), 20));
    assert_eq!(name_of(Arch::I386, seen.nr), Some("getpid"));
    listener.deny(seen.id, libc::EPERM).unwrap();
    assert_eq!(thread.join().unwrap(), (Err(libc::EPERM), -libc::EPERM));
}

/// Prints the time to install; no bar, because the machine may be busy.
#[test]
fn install_time_is_printed() {
    let program = compile(Arch::NATIVE, &Rules::default()).unwrap();
    let mut times: Vec<_> = (0..50)
        .map(|_| {
            let program = program.clone();
            let thread = thread::spawn(move || {
                no_new_privs();
                let start = Instant::now();
                let listener = install(&program, Listen::Yes);
                (start.elapsed(), listener.is_ok())
            });
            let (time, installed) = thread.join().unwrap();
            assert!(installed);
            time
        })
        .collect();
    times.sort();
    println!("median install {:?}, fastest {:?}", times[25], times[0]);
}
