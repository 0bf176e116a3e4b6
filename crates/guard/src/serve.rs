//! Guard's loop.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

use ringfence_linux::{
    Exited, MAX_FDS, SignalFd, SocketShape, exit_now, kill_all, kill_group, make_socket, own_usage, reap,
    recv_with_fds, send_with_fds,
};
use rustix::event::{PollFd, PollFlags, poll};

use crate::command::Command;
use crate::shim::ordered;
use crate::wire::{FromGuard, ToGuard};

/// `SIGCHLD` is the only signal guard takes; one forged by a command makes it look for children once more.
pub(crate) const SIGCHLD: i32 = 17;
pub(crate) const SIGSTOP: i32 = 19;
pub(crate) const SIGCONT: i32 = 18;

/// How much sooner than guard the kernel should take a command for want of memory.
const COMMANDS_FIRST: &[u8] = b"500";
const AS_BEFORE: &[u8] = b"0";

/// guard's own `oom_score_adj`, opened while guard could still open its own files.
#[derive(Debug)]
pub struct OomScore(File);

impl OomScore {
    pub fn open() -> io::Result<Self> {
        Ok(Self(File::options().write(true).open("/proc/self/oom_score_adj")?))
    }

    /// What is started meanwhile inherits the higher score.
    pub(crate) fn raised<T>(&self, start: impl FnOnce() -> T) -> T {
        // Refused only where the host has set a minimum above; the command then has guard's own.
        let _ = (&self.0).write_all(COMMANDS_FIRST);
        let started = start();
        let _ = (&self.0).write_all(AS_BEFORE);
        started
    }
}

/// Start `command` and stay until it ends or the owner goes; then end, and with it the pid namespace.
/// `private` are places of limited size, each with the bit that reports it full.
pub fn serve(control: BorrowedFd<'_>, command: Command, score: &OomScore, private: &[(&str, u8)]) -> ! {
    let end = match run(control, command, score) {
        Ok(how) => {
            let (cpu, memory) = own_usage().unwrap_or_default();
            FromGuard::Exited { how, full: full_places(private), cpu, memory }
        }
        Err(message) => message,
    };
    let _ = send_with_fds(control, &end.encode(), &[]);
    wait_to_be_ended(control)
}

/// The owner has been told, and ends this namespace. To end it here would take this processor from the owner, which could be
/// writing its report by then.
fn wait_to_be_ended(control: BorrowedFd<'_>) -> ! {
    while recv_with_fds(control).is_ok_and(|message| !message.bytes.is_empty()) {}
    exit_now(0)
}

/// Wait for the one command of a sandbox that was made ahead of it. Ends where the owner goes first.
pub fn await_command(control: BorrowedFd<'_>) -> Result<Command, FromGuard> {
    let order = recv_with_fds(control).map_err(failed("hear the order"))?;
    if order.bytes.is_empty() {
        exit_now(1);
    }
    match ordered(order, None) {
        Ok((command, _)) => Ok(command),
        Err((stage, errno)) => Err(FromGuard::NotStarted { stage, errno }),
    }
}

pub(crate) fn failed(step: &str) -> impl FnOnce(std::io::Error) -> FromGuard {
    let step = step.to_string();
    move |error| FromGuard::Failed {
        step,
        subject: error.to_string(),
        errno: error.raw_os_error().unwrap_or(0),
    }
}

fn run(control: BorrowedFd<'_>, command: Command, score: &OomScore) -> Result<Exited, FromGuard> {
    let children = SignalFd::new(&[SIGCHLD]).map_err(failed("watch children"))?;
    let pid = score
        .raised(|| command.start())
        .map_err(failed("fork the command"))?
        .map_err(|(stage, errno)| FromGuard::NotStarted { stage, errno })?;
    loop {
        let mut polled = [
            PollFd::from_borrowed_fd(control, PollFlags::IN),
            PollFd::from_borrowed_fd(children.as_fd(), PollFlags::IN),
        ];
        if let Err(error) = poll(&mut polled, None)
            && error != rustix::io::Errno::INTR
        {
            return Err(failed("wait")(error.into()));
        }
        while children.next().map_err(failed("watch children"))?.is_some() {}
        while let Some((reaped, how)) = reap().map_err(failed("reap"))? {
            if reaped == pid {
                return Ok(how);
            }
        }
        if !polled[0].revents().is_empty() {
            obey(control, pid);
        }
    }
}

fn obey(control: BorrowedFd<'_>, pid: i32) {
    let message = recv_with_fds(control).unwrap_or_default();
    if message.bytes.is_empty() {
        // The owner is gone, and so is the reason for this sandbox.
        exit_now(1);
    }
    // A signal for processes that have just ended finds nobody, which is no error here.
    let _ = match ToGuard::decode(&message.bytes) {
        Some(ToGuard::Signal(signal)) => kill_group(pid, signal),
        Some(ToGuard::StopAll) => kill_all(SIGSTOP),
        Some(ToGuard::ContinueAll) => kill_all(SIGCONT),
        Some(ToGuard::Sockets { v4, v6 }) => send_sockets(control, v4, v6),
        // What only a session's guard does.
        _ => Ok(()),
    };
}

/// Sockets of this network namespace, for whoever serves the network from outside; guard keeps none.
pub(crate) fn send_sockets(control: BorrowedFd<'_>, v4: u8, v6: u8) -> io::Result<()> {
    let shapes = [(SocketShape::SpareV4, v4), (SocketShape::SpareV6, v6)];
    let shapes: Vec<_> =
        shapes.into_iter().flat_map(|(shape, count)| std::iter::repeat_n(shape, count.into())).collect();
    for some in shapes.chunks(MAX_FDS) {
        let sockets = some.iter().map(|shape| make_socket(*shape)).collect::<io::Result<Vec<_>>>()?;
        let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        send_with_fds(control, &FromGuard::Sockets.encode(), &fds)?;
    }
    Ok(())
}

/// The bits of the places that have no space left.
pub(crate) fn full_places(private: &[(&str, u8)]) -> u8 {
    let is_full =
        |path: &str| rustix::fs::statvfs(path).is_ok_and(|stat| stat.f_bavail == 0 || stat.f_favail == 0);
    private.iter().filter(|(path, _)| is_full(path)).fold(0, |bits, (_, bit)| bits | bit)
}
