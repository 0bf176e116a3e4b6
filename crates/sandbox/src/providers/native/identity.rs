//! Who the sandbox is: the steps on user namespaces on both sides of the fork.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use ringfence_linux::{
    IdMap, become_user, clone_mount, clone_tree, deny_setgroups, idmap_tree, set_dumpable, unshare_user,
    write_id_map,
};

use super::faults::Steps;
use super::setup::{Failure, failure};
use crate::plan::{Access, Ids, Mount, Plan, WORKSPACE};

/// In the owner, for root: map the files' owner to the unused id outside, and nothing else.
pub(in crate::providers) fn map_from_outside(pid: i32, ids: &Ids) -> io::Result<()> {
    let Some(mapped) = ids.mapped else { return Ok(()) };
    write_id_map(
        &pid.to_string(),
        IdMap { inside: mapped.owner_uid, outside: mapped.outside },
        IdMap { inside: mapped.owner_gid, outside: mapped.outside },
    )
}

/// In the child, before the mounts.
pub(super) fn enter(ids: &Ids, steps: &Steps) -> Result<(), Failure> {
    match ids.mapped {
        Some(mapped) => steps
            .run("become the sandbox's user", "", || become_user(mapped.owner_uid, mapped.owner_gid, true)),
        None => steps.run("write the id map", "", || {
            deny_setgroups("self")?;
            write_id_map(
                "self",
                IdMap { inside: ids.uid, outside: ids.uid },
                IdMap { inside: ids.gid, outside: ids.gid },
            )
        }),
    }
}

/// In the child, after the mounts, for root: a second user namespace, which owns nothing, gives the id its inside
/// name.
pub(super) fn rename(ids: &Ids, steps: &Steps) -> Result<(), Failure> {
    match ids.mapped {
        Some(mapped) => rename_from(mapped.owner_uid, mapped.owner_gid, ids, steps),
        None => Ok(()),
    }
}

/// The same where another program made the namespaces, and this process is called otherwise in them: a runtime calls it root.
pub(super) fn rename_again(ids: &Ids, steps: &Steps) -> Result<(), Failure> {
    let (uid, gid) = called();
    if is_called_otherwise(ids) { rename_from(uid, gid, ids, steps) } else { Ok(()) }
}

pub(super) fn is_called_otherwise(ids: &Ids) -> bool {
    called() != (ids.uid, ids.gid)
}

fn called() -> (u32, u32) {
    (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw())
}

fn rename_from(uid: u32, gid: u32, ids: &Ids, steps: &Steps) -> Result<(), Failure> {
    steps.run("enter the inner user namespace", "", || {
        unshare_user()?;
        // A change of uid made this process undumpable, and its own /proc files somebody else's.
        set_dumpable(true)?;
        deny_setgroups("self")?;
        write_id_map("self", IdMap { inside: ids.uid, outside: uid }, IdMap { inside: ids.gid, outside: gid })
    })
}

/// Which of a plan's trees are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::providers) enum Wanted {
    All,
    /// What does not depend on the order.
    Ahead,
    /// What comes with it.
    Late,
}

/// In the owner, for root: the sources that the sandbox sees as its own, mapped by the child's user namespace.
pub(in crate::providers) fn map_trees(
    pid: i32,
    plan: &Plan,
    wanted: Wanted,
    steps: &Steps,
) -> Result<Vec<(usize, OwnedFd)>, Failure> {
    if plan.ids.mapped.is_none() {
        return Ok(Vec::new());
    }
    let path = format!("/proc/{pid}/ns/user");
    let namespace = steps.run("open", &path, || File::open(&path))?;
    let mut trees = Vec::new();
    for (index, mount) in plan.mounts.iter().enumerate() {
        let is_late = plan.late.get(index).copied().unwrap_or(true);
        if wanted != Wanted::All && is_late != (wanted == Wanted::Late) {
            continue;
        }
        let (source, must) = match mount {
            Mount::Bind { source, target, own_ids: true, access } => {
                let own = plan.workspace.as_ref().and_then(|workspace| workspace.own_path.as_deref());
                let is_workspace =
                    plan.workspace.as_ref().is_some_and(|workspace| workspace.source == *source);
                if is_workspace && own == Some(target) && target != Path::new(WORKSPACE) {
                    continue;
                }
                (source, *access == Access::Write)
            }
            Mount::Overlay { source, own_ids: true, .. } => (source, false),
            Mount::Layered { lower, layers, .. } => {
                for (place, directory) in [(index, lower), (plan.mounts.len(), layers)] {
                    trees.push((place, map_alone(directory, &namespace, steps)?));
                }
                continue;
            }
            _ => continue,
        };
        let tree = steps.run("clone the mount of", source, || clone_tree(source))?;
        match idmap_tree(tree.as_fd(), namespace.as_fd()) {
            Ok(()) => {}
            // Files that can't be mapped are then others' files inside: less can be read, never more.
            Err(_) if !must => {}
            Err(error) => return Err(failure("map the owner of files in", source, &error)),
        }
        trees.push((index, tree));
    }
    Ok(trees)
}

/// One directory without what is mounted beneath it.
fn map_alone(directory: &Path, namespace: &File, steps: &Steps) -> Result<OwnedFd, Failure> {
    let tree = steps.run("clone the mount of", directory, || clone_mount(directory))?;
    idmap_tree(tree.as_fd(), namespace.as_fd())
        .map_err(|error| failure("map the owner of files in", directory, &error))?;
    Ok(tree)
}
