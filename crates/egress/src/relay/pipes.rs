//! Pipes for `splice`, kept for the next connection when they are empty.

use std::cell::RefCell;
use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// Both ends, not blocking.
pub(super) struct Pipe {
    pub(super) out: OwnedFd,
    pub(super) into: OwnedFd,
}

/// What one `splice` may move: the most that an ordinary user's pipe may hold.
pub(super) const SIZE: usize = 1024 * 1024;
/// More directions than this are not spliced at one time. A user has 64 MiB for all pipes of all programs.
const MOST: usize = 16;

struct Pool {
    idle: Vec<Pipe>,
    in_use: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { idle: Vec::new(), in_use: 0 }) };
}

/// A pipe on loan. One that is not given back is closed: it may hold bytes.
pub(super) struct Lent(Option<Pipe>);

/// `None`: there are none left, so copy.
pub(super) fn lend() -> Option<Lent> {
    POOL.with_borrow_mut(|pool| {
        if pool.in_use >= MOST {
            return None;
        }
        let pipe = pool.idle.pop().or_else(make)?;
        pool.in_use += 1;
        Some(Lent(Some(pipe)))
    })
}

fn make() -> Option<Pipe> {
    let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
    // Smaller where the user's share is used up.
    let _ = fcntl_setpipe_size(&into, SIZE);
    Some(Pipe { out, into })
}

impl Lent {
    pub(super) fn pipe(&self) -> Option<&Pipe> {
        self.0.as_ref()
    }

    /// Only while it is empty.
    pub(super) fn give_back(mut self) {
        if let Some(pipe) = self.0.take() {
            POOL.with_borrow_mut(|pool| {
                pool.in_use -= 1;
                pool.idle.push(pipe);
            });
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if self.0.take().is_some() {
            // The thread may be ending.
            let _ = POOL.try_with(|pool| pool.borrow_mut().in_use -= 1);
        }
    }
}
