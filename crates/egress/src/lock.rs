//! A lock that a panic elsewhere does not poison: one failed connection stays one failed connection.

use std::sync::{MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Lock<T>(std::sync::Mutex<T>);

impl<T> Lock<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(std::sync::Mutex::new(value))
    }

    /// Never held across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
