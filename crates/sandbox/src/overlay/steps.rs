//! The steps of a commit, counted, so that a test can stop it after each of them or disturb it there.

use std::cell::Cell;
use std::fmt;

use super::error::OverlayError;

/// What a test does after a step; `false` stops, as a kill would.
type Between<'a> = &'a dyn Fn(u32) -> bool;

#[derive(Default)]
pub(super) struct Steps<'a> {
    done: Cell<u32>,
    between: Option<Between<'a>>,
}

impl fmt::Debug for Steps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("done", &self.done).finish_non_exhaustive()
    }
}

impl<'a> Steps<'a> {
    #[cfg(test)]
    pub(super) fn watched(between: Between<'a>) -> Self {
        Self { done: Cell::new(0), between: Some(between) }
    }

    /// Something was done that is seen on disk.
    pub(super) fn done(&self) -> Result<(), OverlayError> {
        let number = self.done.get() + 1;
        self.done.set(number);
        match self.between {
            Some(between) if !between(number) => Err(OverlayError::Stopped),
            _ => Ok(()),
        }
    }
}
