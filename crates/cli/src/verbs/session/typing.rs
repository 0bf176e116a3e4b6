//! What is typed to a process that may not be reading: a terminal takes what fits, and the rest when its program has read.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A pipe that is ready takes so much at once.
const PIECE: usize = 4096;
/// A terminal may have room without telling.
const LOOK: Duration = Duration::from_millis(50);

/// On its way to a process.
pub(super) struct Typing {
    to: File,
    waiting: Vec<u8>,
    /// No more comes.
    ended: bool,
}

impl Typing {
    pub(super) fn new(to: File) -> Self {
        Self { to, waiting: Vec::new(), ended: false }
    }

    /// There is room for more of what is typed.
    pub(super) fn wants(&self) -> bool {
        self.waiting.is_empty() && !self.ended
    }

    /// Ready when the process can be given something.
    pub(super) fn polled(&self) -> Option<PollFd<'_>> {
        let is_waiting = !self.waiting.is_empty();
        is_waiting.then(|| PollFd::from_borrowed_fd(self.to.as_fd(), PollFlags::OUT))
    }

    /// One buffer of what was typed.
    pub(super) fn take(&mut self, from: BorrowedFd<'_>) {
        let mut buffer = [0; PIECE];
        match rustix::io::read(from, &mut buffer) {
            Ok(0) => self.ended = true,
            Ok(read) => self.waiting.extend_from_slice(&buffer[..read]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => self.ended = true,
        }
    }

    /// What it takes now. False: it takes no more.
    pub(super) fn give(&mut self) -> bool {
        let written = write_some(&self.to, &self.waiting);
        if let Ok(written) = &written {
            self.waiting.drain(..*written);
        }
        written.is_ok()
    }

    /// All was said.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.waiting.is_empty()
    }
}

/// None where there is no room for it.
fn write_some(mut to: &File, bytes: &[u8]) -> io::Result<usize> {
    match to.write(&bytes[..bytes.len().min(PIECE)]) {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        written => written,
    }
}

/// All of it, read before it is written: `io::copy` splices, and a pipe whose reader took all and went is an error to it
/// before the end of what there was to say is seen. `ending` is ready when the process has ended: nobody reads then.
pub(super) fn pour(from: &mut impl Read, to: &File, ending: BorrowedFd<'_>) -> io::Result<u64> {
    let (mut buffer, mut written) = (vec![0; 1 << 16], 0);
    loop {
        let mut rest = match from.read(&mut buffer) {
            Ok(0) => return Ok(written),
            Ok(read) => &buffer[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        while !rest.is_empty() {
            let mut polled = [
                PollFd::from_borrowed_fd(ending, PollFlags::IN),
                PollFd::from_borrowed_fd(to.as_fd(), PollFlags::OUT),
            ];
            let look = Timespec { tv_sec: 0, tv_nsec: LOOK.as_nanos() as i64 };
            rustix::io::retry_on_intr(|| poll(&mut polled, Some(&look)))?;
            if !polled[0].revents().is_empty() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if !polled[1].revents().is_empty() {
                let taken = write_some(to, rest)?;
                written += taken as u64;
                rest = &rest[taken..];
            }
        }
    }
}
