//! Where a path of a planned sandbox is on this machine: to see, before anything runs, whether a program is there.

use std::path::{Component, Path, PathBuf};

use ringfence_sandbox::{Mount, Plan};

use super::programs::is_program;

const HOPS: usize = 16;

/// Will PATH of the sandbox have a program of this name?
pub(crate) fn has_program(plan: &Plan, name: &str) -> bool {
    let path =
        plan.environment.iter().find(|(variable, _)| variable == "PATH").map_or("", |(_, value)| value);
    std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .any(|directory| outside(plan, &directory.join(name), HOPS).is_some_and(|path| is_program(&path)))
}

/// The file of this machine that is shown at `path`. Links are followed as they would be inside.
fn outside(plan: &Plan, path: &Path, hops: usize) -> Option<PathBuf> {
    if hops == 0 {
        return None;
    }
    let over = plan
        .mounts
        .iter()
        .filter(|mount| {
            path.starts_with(mount.target()) && !matches!(mount, Mount::Hide { target } if !target.exists())
        })
        // Of two at one place the later lies on top, and that is the one that this picks.
        .max_by_key(|mount| mount.target().components().count())?;
    let rest = path.strip_prefix(over.target()).ok()?;
    match over {
        Mount::Bind { source, .. } | Mount::Overlay { source, .. } | Mount::Layered { lower: source, .. } => {
            let mut real = source.clone();
            for part in rest.components() {
                real.push(part);
                // A link leads to a place inside.
                if let Ok(to) = std::fs::read_link(&real) {
                    let from = over.target().join(real.strip_prefix(source).ok()?);
                    let led = normal(&from.parent()?.join(to));
                    let after = path.strip_prefix(&from).ok()?;
                    return outside(plan, &led.join(after).components().collect::<PathBuf>(), hops - 1);
                }
            }
            Some(real)
        }
        Mount::Symlink { target, to } => {
            let led = normal(&target.parent()?.join(to));
            outside(plan, &led.join(rest).components().collect::<PathBuf>(), hops - 1)
        }
        _ => None,
    }
}

/// Without `.` and `..`.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::from("/");
    for component in path.components() {
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
