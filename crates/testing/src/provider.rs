//! Which provider the sandboxes of a test are made by, so that one table runs under each of them.

use std::cell::Cell;

use crate::Outcome;

thread_local! {
    static PROVIDER: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Have this provider make every sandbox of `test`, which runs in this thread.
pub fn with_provider<T>(name: &'static str, test: impl FnOnce() -> T) -> T {
    struct Back(Option<&'static str>);
    impl Drop for Back {
        fn drop(&mut self) {
            PROVIDER.set(self.0);
        }
    }
    let _back = Back(PROVIDER.replace(Some(name)));
    test()
}

/// The one that was asked for, if one was.
pub(crate) fn provider() -> Option<&'static str> {
    PROVIDER.get()
}

/// The flags that ask for it: for tests that write a whole line themselves.
#[must_use]
pub fn provider_flags() -> Vec<String> {
    provider().map_or_else(Vec::new, |name| vec!["--provider".to_owned(), name.to_owned()])
}

/// # Panics
/// If another one made the sandbox.
#[track_caller]
pub(crate) fn check_provider(outcome: &Outcome) {
    let made_by = outcome.json.as_ref().and_then(|json| json["receipt"]["provider"].as_str());
    if let (Some(wanted), Some(made_by)) = (provider(), made_by) {
        assert_eq!(made_by, wanted, "made by another provider\n{}", outcome.describe());
    }
}
