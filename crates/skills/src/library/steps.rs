//! The steps of a change by name, so that a failure says where, and so that a test can stop a process at each of them.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::LibraryError;

/// In a debug build `RINGFENCE_LIBRARY_FAULT=abort:N` ends the process before the Nth step of a handle, `fail:N` makes
/// that step fail, and `no-exchange` acts as a filesystem that can't exchange two names.
#[derive(Debug)]
pub(super) struct Steps {
    done: AtomicU32,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    AbortAt(u32),
    FailAt(u32),
    NoExchange { abort_at: Option<u32> },
}

impl Steps {
    pub(super) fn from_environment() -> Self {
        let wanted =
            if cfg!(debug_assertions) { std::env::var("RINGFENCE_LIBRARY_FAULT").ok() } else { None };
        Self { done: AtomicU32::new(0), fault: wanted.map_or(Fault::None, |text| Fault::parse(&text)) }
    }

    /// Do one step, or end or fail in its place.
    pub(super) fn run<T>(
        &self,
        step: &'static str,
        path: &str,
        action: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, LibraryError> {
        let number = self.done.fetch_add(1, Ordering::Relaxed);
        let result = match self.fault {
            Fault::AbortAt(at) | Fault::NoExchange { abort_at: Some(at) } if at == number => {
                std::process::abort()
            }
            Fault::FailAt(at) if at == number => Err(io::Error::from_raw_os_error(5)),
            _ => action(),
        };
        result.map_err(|source| LibraryError::Io { step, path: path.to_owned(), source })
    }

    pub(super) fn may_exchange(&self) -> bool {
        !matches!(self.fault, Fault::NoExchange { .. })
    }
}

impl Fault {
    fn parse(text: &str) -> Self {
        let number = |text: &str| text.parse().ok();
        match text.split_once(':') {
            Some(("abort", at)) => number(at).map_or(Self::None, Self::AbortAt),
            Some(("fail", at)) => number(at).map_or(Self::None, Self::FailAt),
            Some(("no-exchange", at)) => Self::NoExchange { abort_at: number(at) },
            None if text == "no-exchange" => Self::NoExchange { abort_at: None },
            _ => Self::None,
        }
    }
}
