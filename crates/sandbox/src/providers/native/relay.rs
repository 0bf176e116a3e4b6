//! Between the caller's terminal and the sandbox's own.

use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_linux::window_size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr, tcsetwinsize};

/// End of file, as a terminal's user types it.
const END_OF_INPUT: &[u8] = b"\x04";

/// Carries bytes both ways; the caller's terminal is raw meanwhile, and as it was afterwards.
#[derive(Debug)]
pub(super) struct Relay {
    master: OwnedFd,
    before: Option<Termios>,
    keyboard_open: bool,
}

impl Relay {
    pub(super) fn start(master: OwnedFd) -> Self {
        let terminal = rustix::stdio::stdin();
        let before = if isatty(terminal) { tcgetattr(terminal).ok() } else { None };
        if let Some(before) = &before {
            let mut raw = before.clone();
            raw.make_raw();
            let _ = tcsetattr(terminal, OptionalActions::Now, &raw);
        }
        let _ = rustix::io::ioctl_fionbio(&master, true);
        let relay = Self { master, before, keyboard_open: true };
        relay.resize();
        relay
    }

    pub(super) fn master(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }

    /// The caller's stdin, while there is more of it and the sandbox's terminal takes it.
    pub(super) fn keyboard(&self) -> Option<BorrowedFd<'static>> {
        let mut polled = [PollFd::from_borrowed_fd(self.master.as_fd(), PollFlags::OUT)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let takes = poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0);
        (self.keyboard_open && takes).then(rustix::stdio::stdin)
    }

    pub(super) fn resize(&self) {
        if isatty(rustix::stdio::stdin()) {
            let _ = tcsetwinsize(&self.master, window_size(rustix::stdio::stdin()));
        }
    }

    /// Move what is ready, one buffer each way.
    pub(super) fn carry(&mut self) {
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

    /// What the sandbox wrote; false when there was nothing.
    fn show(&self) -> bool {
        let mut buffer = [0; 16_384];
        match rustix::io::read(&self.master, &mut buffer) {
            Ok(read) if read > 0 => {
                let mut out = std::io::stdout().lock();
                let _ = out.write_all(&buffer[..read]).and_then(|()| out.flush());
                true
            }
            _ => false,
        }
    }

    /// Show what is left and give the terminal back.
    pub(super) fn finish(self) {
        while self.show() {}
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Flush, before);
        }
    }
}
