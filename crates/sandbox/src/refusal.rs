//! Why a sandbox was not made. Nothing has run when a caller sees one of these.

use std::io;

/// What happened, why, what to do next.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// A clause that this provider can't enforce on this host.
    #[error("cannot enforce {clause}: {why}")]
    NotEnforceable { clause: &'static str, why: String, fix: String },
    /// The request itself is wrong.
    #[error("{what}")]
    BadRequest { what: String, fix: String },
    /// A step of the set-up failed.
    #[error("cannot {step}{}: {why}", on(.subject))]
    Failed { step: String, subject: String, why: String, fix: String },
}

fn on(subject: &str) -> String {
    if subject.is_empty() { String::new() } else { format!(" {subject}") }
}

impl Refusal {
    pub fn fix(&self) -> &str {
        match self {
            Self::NotEnforceable { fix, .. } | Self::BadRequest { fix, .. } | Self::Failed { fix, .. } => fix,
        }
    }

    pub(crate) fn bad(what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::BadRequest { what: what.into(), fix: fix.into() }
    }

    pub(crate) fn step(step: &str, subject: impl Into<String>, error: &io::Error) -> Self {
        let errno = error.raw_os_error().unwrap_or(0);
        let subject = subject.into();
        let fix = fix_for(step, errno);
        Self::Failed { step: step.into(), subject, why: error.to_string(), fix }
    }
}

/// What a person can change, for the failures that a host's settings cause.
pub(crate) fn fix_for(step: &str, errno: i32) -> String {
    const EPERM: i32 = 1;
    const ENOSPC: i32 = 28;
    const EACCES: i32 = 13;
    const ENOSYS: i32 = 38;
    const EINVAL: i32 = 22;
    let text = match (step, errno) {
        ("make namespaces", EPERM) => {
            "user namespaces are closed here: sysctl -w kernel.unprivileged_userns_clone=1 (Debian), \
             kernel.apparmor_restrict_unprivileged_userns=0 or an AppArmor profile for ringfence (Ubuntu), or in \
             Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined; `ringfence doctor` tells \
             which"
        }
        ("make namespaces", ENOSYS) => {
            "a seccomp filter around this process closes clone3, as Docker's default does: add \
             --security-opt seccomp=unconfined --security-opt systempaths=unconfined to docker run"
        }
        ("make namespaces", ENOSPC) => "too many namespaces: raise user.max_user_namespaces with sysctl",
        ("mount /proc", EPERM | EACCES) => {
            "this container masks parts of /proc, so that the kernel refuses a new one: in Docker add \
             --security-opt systempaths=unconfined"
        }
        ("clone the mount of", EPERM) => {
            "root has no CAP_SYS_ADMIN here, without which its files can't be shown under another owner: run as an \
             ordinary user (docker run --user), or add --cap-add SYS_ADMIN"
        }
        ("write the id map", EPERM | EACCES) => {
            "AppArmor may take the rights of new user namespaces away (Ubuntu): \
             sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or install a profile for ringfence"
        }
        ("make mounts private", EPERM | EACCES) => {
            "AppArmor takes the rights of new user namespaces away (Ubuntu): \
             sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or install a profile for ringfence"
        }
        ("open what lies beneath the workspace,", EINVAL) => {
            "another filesystem is mounted beneath it, and an ordinary user can't leave that out: unmount it, choose a \
             directory without, or use the directory itself as the workspace"
        }
        ("mount the layers of the workspace at", EINVAL) => {
            "the layer for writes must lie on ext4, xfs, btrfs or tmpfs (not on another overlay, as in a container): put \
             the state directory there"
        }
        _ => "run `ringfence doctor` to see what this host lacks",
    };
    text.to_string()
}
