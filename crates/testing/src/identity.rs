//! Who runs `ringfence` in a test: root, or an ordinary user without any privilege.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// The uid and gid of the ordinary user when the tests are run by root. It has no passwd entry, on purpose.
pub const USER_ID: u32 = 61234;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    Root,
    User,
}

impl Identity {
    /// The identities this test run can take. Without root there is only the user: a notice, or a failure in CI.
    #[must_use]
    pub fn all() -> Vec<Self> {
        if Self::Root.is_available() { vec![Self::Root, Self::User] } else { vec![Self::User] }
    }

    /// Whether tests can act as this identity; a missing root is reported, and in CI it is a failure.
    #[must_use]
    pub fn is_available(self) -> bool {
        if self == Self::User || rustix::process::geteuid().is_root() {
            return true;
        }
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "the tests are not run by root, so half of each table would be left out: run CI as root"
        );
        eprintln!("skipped: the root half, because the tests are not run by root");
        false
    }

    /// The uid that files of this identity have on the host.
    #[must_use]
    pub fn uid(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::User if rustix::process::geteuid().is_root() => USER_ID,
            Self::User => rustix::process::geteuid().as_raw(),
        }
    }

    /// The gid that files of this identity have on the host.
    #[must_use]
    pub fn gid(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::User if rustix::process::geteuid().is_root() => USER_ID,
            Self::User => rustix::process::getegid().as_raw(),
        }
    }

    /// Make `command` run as this identity.
    pub fn apply(self, command: &mut Command) {
        if self == Self::User && rustix::process::geteuid().is_root() {
            command.uid(USER_ID).gid(USER_ID);
        }
    }

    /// Give `path` (not what is below it) to this identity.
    ///
    /// # Panics
    /// If the owner can't be changed.
    pub fn own(self, path: &Path) {
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::lchown(path, Some(self.uid()), Some(self.gid()))
                .unwrap_or_else(|error| panic!("chown {}: {error}", path.display()));
        }
    }
}
