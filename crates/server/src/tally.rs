//! How much of a user's the database keeps of what is kept only for a while, so that nobody fills it: counted as it is added to,
//! and read from the database where nobody has counted yet.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ringfence_store::StoreError;

use crate::app::App;

/// Of answers to requests with an `Idempotency-Key`; beyond it the oldest go until half of it is left.
const ANSWERS: u64 = 32 << 20;
/// Of what actions that are over would have done; the same.
const SHOWN: u64 = 64 << 20;

#[derive(Debug, Default)]
pub(crate) struct Tally(Mutex<HashMap<String, u64>>);

impl Tally {
    fn known(&self) -> MutexGuard<'_, HashMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So many more; what there is then. None: nobody has counted.
    fn add(&self, user: &str, bytes: u64) -> Option<u64> {
        let mut known = self.known();
        let count = known.get_mut(user)?;
        *count = count.saturating_add(bytes);
        Some(*count)
    }

    fn set(&self, user: &str, bytes: u64) {
        self.known().insert(user.to_owned(), bytes);
    }

    /// Some of it was taken away: it is counted anew.
    pub(crate) fn forget(&self) {
        self.known().clear();
    }
}

impl App {
    /// An answer of so many bytes was kept for this user.
    pub(crate) async fn answer_kept(&self, user: &str, bytes: u64) -> Result<(), StoreError> {
        let answers = self.store.idempotency();
        let kept = match self.answers.add(user, bytes) {
            Some(kept) => kept,
            None => answers.kept(user).await?,
        };
        let kept = if kept > ANSWERS { answers.let_go(user, ANSWERS / 2).await? } else { kept };
        self.answers.set(user, kept);
        Ok(())
    }

    /// An action of this user was written down, and so many bytes say what it would do.
    pub(crate) async fn action_kept(&self, user: &str, bytes: u64) -> Result<(), StoreError> {
        let kept = match self.shown.add(user, bytes) {
            Some(kept) => kept,
            None => self.store.shown_bytes(user).await?,
        };
        let kept = if kept > SHOWN { self.store.let_shown_go(user, SHOWN / 2).await? } else { kept };
        self.shown.set(user, kept);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Tally;

    #[test]
    fn what_nobody_has_counted_is_not_known() {
        let tally = Tally::default();
        assert_eq!(tally.add("ada", 1), None);
        tally.set("ada", 5);
        assert_eq!((tally.add("ada", 2), tally.add("bob", 1)), (Some(7), None));
        tally.forget();
        assert_eq!(tally.add("ada", 1), None);
    }
}
