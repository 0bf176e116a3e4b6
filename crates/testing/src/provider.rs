//! Which provider the sandboxes of a test are made by, so that one table runs under each of them.

use std::cell::Cell;

use crate::{Outcome, docker};

thread_local! {
    static PROVIDER: Cell<Option<&'static str>> = const { Cell::new(None) };
}

/// Have this provider make every sandbox of `test`, which runs in this thread. `oci:runc`: by that runtime.
pub fn with_provider<T>(name: &'static str, test: impl FnOnce() -> T) -> T {
    struct Back(Option<&'static str>);
    impl Drop for Back {
        fn drop(&mut self) {
            PROVIDER.set(self.0);
        }
    }
    if name == "docker" {
        // What it needs to be used counts as left behind by nobody.
        let _ = docker();
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
    let Some(name) = provider() else { return Vec::new() };
    let (name, runtime) = name.split_once(':').map_or((name, None), |(name, runtime)| (name, Some(runtime)));
    let mut flags = vec!["--provider".to_owned(), name.to_owned()];
    flags.extend(runtime.into_iter().flat_map(|runtime| ["--runtime".to_owned(), runtime.to_owned()]));
    flags
}

/// What a caller has in the environment for it: where the daemon of the tests is.
#[must_use]
pub fn provider_environment() -> Option<(&'static str, String)> {
    (provider() == Some("docker")).then(|| ("DOCKER_HOST", docker().host()))
}

/// # Panics
/// If another one made the sandbox.
#[track_caller]
pub(crate) fn check_provider(outcome: &Outcome) {
    let made_by = outcome.json.as_ref().and_then(|json| json["receipt"]["provider"].as_str());
    if let (Some(wanted), Some(made_by)) = (provider(), made_by) {
        let (wanted, runtime) = wanted.split_once(':').unwrap_or((wanted, ""));
        assert_eq!(made_by, wanted, "made by another provider\n{}", outcome.describe());
        let drove = outcome.json.as_ref().and_then(|json| json["receipt"]["runtime"].as_str()).unwrap_or("");
        assert!(drove.starts_with(runtime), "made by another runtime\n{}", outcome.describe());
    }
}
