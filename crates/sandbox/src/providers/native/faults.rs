//! Set-up steps by name, so that a failure says where, and so that a test can make each of them fail in turn.

use std::cell::Cell;
use std::io;
use std::path::Path;

use super::setup::{Failure, failure};

/// Counts steps; in a debug build `RINGFENCE_FAULT=child:N` or `parent:N` makes the Nth of a side fail.
#[derive(Debug)]
pub(crate) struct Steps {
    done: Cell<u32>,
    fail_at: Option<u32>,
}

impl Steps {
    pub(super) fn for_side(side: &str) -> Self {
        Self::failing(Self::wanted_fault(), side)
    }

    /// What the environment asks for.
    pub(in crate::providers) fn wanted_fault() -> Option<String> {
        if cfg!(debug_assertions) { std::env::var("RINGFENCE_FAULT").ok() } else { None }
    }

    /// The same, as a process without that environment was told.
    pub(in crate::providers) fn failing(wanted: Option<String>, side: &str) -> Self {
        let fail_at = wanted
            .filter(|_| cfg!(debug_assertions))
            .and_then(|text| text.strip_prefix(side)?.strip_prefix(':')?.parse().ok());
        Self { done: Cell::new(0), fail_at }
    }

    /// To go on counting where another process stopped.
    pub(in crate::providers) fn after(self, taken: u32) -> Self {
        Self { done: Cell::new(taken), ..self }
    }

    pub(super) fn taken(&self) -> u32 {
        self.done.get()
    }

    /// Do one step, or fail in its place.
    pub(crate) fn run<T>(
        &self,
        step: &'static str,
        subject: impl AsRef<Path>,
        action: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, Failure> {
        let number = self.done.replace(self.done.get() + 1);
        let result =
            if self.fail_at == Some(number) { Err(io::Error::from_raw_os_error(5)) } else { action() };
        result.map_err(|error| failure(step, subject, &error))
    }
}
