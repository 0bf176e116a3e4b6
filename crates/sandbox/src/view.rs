//! What a plan shows at a path, by names alone: the words for a refused access.

use std::path::{Component, Path, PathBuf};

use ringfence_policy::{Blocked, protected};

use crate::plan::{Access, Mount, Plan, WORKSPACE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intent {
    Read,
    Write,
}

/// `path` without `.` and `..`, absolute.
pub(crate) fn normal(base: &Path, path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in base.join(path).components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
    }
    out
}

/// Why the plan refuses this access to `path` (absolute and normal), if it does. Whether there is anything at the path
/// is for the caller to know.
pub(crate) fn refused(plan: &Plan, path: &Path, intent: Intent) -> Option<Blocked> {
    let path = path.to_path_buf();
    if let Some(name) = protected_name(plan, &path) {
        return (intent == Intent::Write).then_some(Blocked::Protected { name });
    }
    let over = plan
        .mounts
        .iter()
        .filter(|mount| path.starts_with(mount.target()))
        .max_by_key(|mount| (mount.target().components().count(), matches!(mount, Mount::Hide { .. })));
    match (over, intent) {
        (Some(Mount::Hide { .. }), _) => Some(Blocked::FileHidden { path }),
        (Some(Mount::Symlink { .. }), _) => None,
        (Some(Mount::Bind { access: Access::Read, .. } | Mount::File { .. }), Intent::Write) => {
            Some(Blocked::FileWrite { path })
        }
        (Some(Mount::Bind { .. } | Mount::File { .. }), _) => None,
        // Private places: what the host has there is another thing.
        (
            Some(
                Mount::Overlay { .. }
                | Mount::Layered { .. }
                | Mount::Proc { .. }
                | Mount::Device { .. }
                | Mount::Seed { .. },
            ),
            _,
        ) => None,
        (Some(_) | None, Intent::Read) => Some(Blocked::FileRead { path }),
        (None, Intent::Write) => Some(Blocked::FileWrite { path }),
        (Some(_), Intent::Write) => None,
    }
}

/// The protected name of the workspace that `path` is or lies in.
fn protected_name(plan: &Plan, path: &Path) -> Option<String> {
    let workspace = plan.workspace.as_ref().filter(|workspace| workspace.protect)?;
    let below =
        path.strip_prefix(WORKSPACE).ok().or_else(|| path.strip_prefix(workspace.own_path.as_ref()?).ok())?;
    let lifted = |name: &&str| workspace.unprotect.iter().any(|lifted| lifted == name);
    let usual = protected().iter().map(|entry| entry.name).filter(|name| !lifted(name));
    let too = workspace.protect_too.iter().map(String::as_str);
    usual.chain(too).find(|name| below.starts_with(name)).map(str::to_string)
}
