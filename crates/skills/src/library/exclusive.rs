//! The library's lock: one writer at a time, over processes and machines. Readers take none.
//!
//! It is a `flock`, which the kernel takes away with the process, however that ends. Over NFS it works since Linux
//! 2.6.12; a filesystem that has no locks gives an error, never a library without one.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::LibraryError;
use super::beneath;

const FILE: &str = "lock";

/// Held until dropped.
#[derive(Debug)]
pub(super) struct Exclusive {
    _file: File,
}

impl Exclusive {
    /// Wait for the lock, at most so long. `own` is the library's own directory.
    pub(super) fn take(own: BorrowedFd<'_>, mode: u32, patience: Duration) -> Result<Self, LibraryError> {
        let started = Instant::now();
        let mut pause = Duration::from_micros(200);
        loop {
            let file = beneath::open_lock_file(own, FILE, mode).map_err(LibraryError::io("lock", FILE))?;
            // A lock on a file that was replaced meanwhile keeps nobody out.
            let held = try_lock(&file).map_err(LibraryError::io("lock", FILE))?;
            if held && beneath::is_still(file.as_fd(), own, FILE).map_err(LibraryError::io("lock", FILE))? {
                return Ok(Self { _file: file });
            }
            if started.elapsed() >= patience {
                return Err(LibraryError::Busy(patience));
            }
            std::thread::sleep(pause + jitter());
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}

/// Take the lock of a file now, or say that another has it.
pub(super) fn try_lock(file: &File) -> io::Result<bool> {
    loop {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(Errno::WOULDBLOCK) => return Ok(false),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Those who wait do not all come back at the same time.
fn jitter() -> Duration {
    let mut byte = [0_u8; 1];
    let _ = rustix::rand::getrandom(&mut byte, rustix::rand::GetRandomFlags::empty());
    Duration::from_micros(u64::from(byte[0]) * 8)
}
