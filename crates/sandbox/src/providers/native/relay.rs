//! Between the caller's terminal and the sandbox's own.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ringfence_linux::window_size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr, tcsetwinsize};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

/// How long a caller that does not read is waited for at the end.
const LAST_WAIT: Duration = Duration::from_secs(1);

/// After the command let go of its terminal: it may open it again.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// End of file, as a terminal's user types it.
const END_OF_INPUT: &[u8] = b"\x04";

/// Carries bytes both ways; the caller's terminal is raw meanwhile, and as it was afterwards.
#[derive(Debug)]
pub(crate) struct Relay {
    master: OwnedFd,
    before: Option<Termios>,
    keyboard_open: bool,
    /// The command lives, and has let go of its terminal, which is ready all the time then: when to look again.
    deserted: Option<OwnedFd>,
}

impl Relay {
    pub(crate) fn start(master: OwnedFd) -> Self {
        let terminal = rustix::stdio::stdin();
        let before = if isatty(terminal) { tcgetattr(terminal).ok() } else { None };
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            let _ = tcsetattr(terminal, OptionalActions::Now, &raw);
        }
        let _ = rustix::io::ioctl_fionbio(&master, true);
        let relay = Self { master, before, keyboard_open: true, deserted: None };
        relay.resize();
        relay
    }

    /// What to wait for next: output of the sandbox, or, while the caller's own output takes no more, room there. The loop
    /// that carries must never wait in a write: the deadline is its too.
    pub(crate) fn output(&self) -> PollFd<'_> {
        if let Some(timer) = &self.deserted {
            PollFd::from_borrowed_fd(timer.as_fd(), PollFlags::IN)
        } else if takes_output(Duration::ZERO) {
            PollFd::from_borrowed_fd(self.master.as_fd(), PollFlags::IN)
        } else {
            PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::OUT)
        }
    }

    /// The caller's stdin, while there is more of it and the sandbox's terminal takes it.
    pub(crate) fn keyboard(&self) -> Option<BorrowedFd<'static>> {
        let mut polled = [PollFd::from_borrowed_fd(self.master.as_fd(), PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let takes = poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0);
        (self.keyboard_open && takes && self.deserted.is_none()).then(rustix::stdio::stdin)
    }

    pub(crate) fn resize(&self) {
        if isatty(rustix::stdio::stdin()) {
            let _ = tcsetwinsize(&self.master, window_size(rustix::stdio::stdin()));
        }
    }

    /// Move what is ready, one buffer each way.
    pub(crate) fn carry(&mut self) {
        self.show();
        let Some(keyboard) = self.keyboard() else { return };
        let mut polled = [PollFd::from_borrowed_fd(keyboard, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if !poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0) {
            return;
        }
        // Small enough for the kernel's line buffer of a terminal.
        let mut buffer = [0; 1024];
        match rustix::io::read(keyboard, &mut buffer) {
            Ok(0) => {
                self.keyboard_open = false;
                let _ = rustix::io::write(&self.master, END_OF_INPUT);
            }
            Ok(read) => {
                let _ = rustix::io::write(&self.master, &buffer[..read]);
            }
            Err(_) => {}
        }
    }

    /// What the sandbox wrote; false when there was nothing, or no room for it.
    fn show(&mut self) -> bool {
        if !takes_output(Duration::ZERO) {
            return false;
        }
        // No more than a pipe that says it has room takes without waiting.
        let mut buffer = [0; 4096];
        match rustix::io::read(&self.master, &mut buffer) {
            Ok(read) if read > 0 => {
                let mut out = std::io::stdout().lock();
                let _ = out.write_all(&buffer[..read]).and_then(|()| out.flush());
                self.deserted = None;
                true
            }
            // Where there is no timer, it is looked at all the time.
            Err(Errno::IO) => {
                self.deserted = timer(LOOK_AGAIN).ok();
                false
            }
            _ => {
                self.deserted = None;
                false
            }
        }
    }

    /// Show what is left and give the terminal back.
    pub(crate) fn finish(mut self) {
        while takes_output(LAST_WAIT) && self.show() {}
    }
}

/// Ready once, after so long.
fn timer(after: Timespec) -> rustix::io::Result<OwnedFd> {
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: after };
    timerfd_settime(&timer, TimerfdTimerFlags::empty(), &once)?;
    Ok(timer)
}

/// Does the caller's stdout take more, within this time?
fn takes_output(patience: Duration) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(rustix::stdio::stdout(), PollFlags::OUT)];
    let patience = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: patience.subsec_nanos().into() };
    // An error or a hang-up is for the write to find out.
    poll(&mut polled, Some(&patience)).is_ok_and(|ready| ready > 0)
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, before);
        }
    }
}
