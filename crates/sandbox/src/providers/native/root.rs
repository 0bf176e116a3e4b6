//! The root of a sandbox while it is built: what does not depend on the order first, what comes with it after that. The
//! two parts may lie far apart in time.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_linux::{
    MountFlags, clone_mount, clone_mount_of, clone_tree, clone_tree_of, make_private, pivot_into,
    restrict_mount,
};
use rustix::fs::Mode;
use rustix::io::Errno;

use super::faults::Steps;
use super::setup::{Done, Failure, ROOT, failure};
use crate::attachment::FileId;
use crate::plan::{Mount, Plan, PlannedWorkspace, WORKSPACE};
use crate::protect::Pins;

/// The root of a sandbox that is being built.
pub(super) struct Builder<'a> {
    pub(super) steps: &'a Steps,
    pub(super) root: PathBuf,
    pub(super) stage: PathBuf,
    /// What the stage covers: a late source may be there.
    covered: OwnedFd,
    umask: Mode,
    pub(super) layers: u32,
    pub(super) temporary: u32,
    /// Our own files that lie over the host's, as they are seen from here.
    pub(super) covers: Vec<PathBuf>,
}

/// The mounts' sources that the owner cloned and mapped, by index in the plan, the workspace's layers after them; the others
/// are cloned here.
pub(super) type Trees = Vec<Option<OwnedFd>>;

/// Which of a plan's mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Ahead,
    Late,
}

impl Part {
    pub(super) fn of(plan: &Plan, index: usize) -> Self {
        if plan.late.get(index).copied().unwrap_or(true) { Self::Late } else { Self::Ahead }
    }

    /// The place of our own files on the stage.
    pub(super) fn files(self) -> &'static str {
        match self {
            Self::Ahead => "empty",
            Self::Late => "late",
        }
    }
}

impl<'a> Builder<'a> {
    /// Begin the root with what does not depend on the order. Late trees stay where they are.
    pub(super) fn begin(plan: &Plan, trees: &mut Trees, steps: &'a Steps) -> Result<Self, Failure> {
        steps.run("make mounts private", "/", make_private)?;
        let stage = ["/tmp", "/mnt", "/usr", "/etc"]
            .into_iter()
            .map(PathBuf::from)
            .find(|path| path.is_dir())
            .ok_or_else(|| failure("find a place for the root", "/", &io::ErrorKind::NotFound.into()))?;
        let root = stage.join(ROOT);
        let covered = steps.run("open", &stage, || open_path(&stage))?;
        // Every mode here is meant as it is written; the command gets the caller's umask back.
        let umask = rustix::process::umask(Mode::empty());
        let (layers, temporary) = (0, 0);
        let mut builder = Self { steps, root, stage, covered, umask, layers, temporary, covers: Vec::new() };
        // Before the stage covers anything.
        let sources = builder.clone_sources(plan, Part::Ahead, trees)?;
        builder.mount_stage(plan)?;
        builder.place_all(plan, Part::Ahead, sources, &mut PlaceLate::default())?;
        Ok(builder)
    }

    /// Add what comes with the order, and make the root this namespace's.
    pub(super) fn finish(mut self, plan: &Plan, pins: &Pins, mut trees: Trees) -> Done {
        let workspace_layers = if trees.len() > plan.mounts.len() { trees.pop().flatten() } else { None };
        let sources = self.clone_sources(plan, Part::Late, &mut trees)?;
        let mut late = PlaceLate { pins: Some(pins), workspace_layers };
        self.place_all(plan, Part::Late, sources, &mut late)?;
        let Self { root, steps, .. } = &self;
        steps.run("make the root read-only", "", || restrict_mount(root, MountFlags::READ_ONLY))?;
        steps.run("pivot into the root", "", || pivot_into(root))?;
        rustix::process::umask(self.umask);
        Ok(())
    }

    /// A detached copy of what the host has at `path`, also where the stage lies by now.
    pub(super) fn clone_of_host(&self, path: &Path) -> io::Result<OwnedFd> {
        match path.strip_prefix(&self.stage) {
            Ok(below) => clone_tree_of(self.open_covered(below)?.as_fd()),
            Err(_) => clone_tree(path),
        }
    }

    /// The same, without what is mounted below it.
    pub(super) fn clone_mount_of_host(&self, path: &Path) -> io::Result<OwnedFd> {
        match path.strip_prefix(&self.stage) {
            Ok(below) => clone_mount_of(self.open_covered(below)?.as_fd()),
            Err(_) => clone_mount(path),
        }
    }

    fn open_covered(&self, below: &Path) -> io::Result<OwnedFd> {
        use rustix::fs::{OFlags, ResolveFlags, openat2};
        let below = if below.as_os_str().is_empty() { Path::new(".") } else { below };
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        Ok(openat2(&self.covered, below, flags, Mode::empty(), ResolveFlags::BENEATH)?)
    }

    /// Do our files still lie over the host's? One that a program of the host replaced meanwhile shows through.
    pub(super) fn is_still_covered(&self) -> io::Result<()> {
        still_covered(self.covers.iter().map(PathBuf::as_path), self.device()?)
    }

    /// Of what lies over the host's files.
    pub(super) fn device(&self) -> io::Result<u64> {
        Ok(rustix::fs::stat(&self.stage)?.st_dev)
    }

    fn place_all(
        &mut self,
        plan: &Plan,
        part: Part,
        sources: Vec<Option<OwnedFd>>,
        late: &mut PlaceLate<'_>,
    ) -> Done {
        if part == Part::Late && (0..plan.mounts.len()).any(|index| is_file(plan, index, part)) {
            self.steps.run("write our own files", "", || self.write_files(plan, part))?;
        }
        for (index, (mount, source)) in plan.mounts.iter().zip(&sources).enumerate() {
            if Part::of(plan, index) == part {
                self.place(plan, index, mount, source.as_ref().map(AsFd::as_fd), late)?;
            }
        }
        Ok(())
    }

    fn clone_sources(
        &self,
        plan: &Plan,
        part: Part,
        trees: &mut Trees,
    ) -> Result<Vec<Option<OwnedFd>>, Failure> {
        let steps = self.steps;
        let mut sources = Vec::with_capacity(plan.mounts.len());
        for (index, mount) in plan.mounts.iter().enumerate() {
            if Part::of(plan, index) != part {
                sources.push(None);
                continue;
            }
            let tree = trees.get_mut(index).and_then(Option::take);
            let source = match (tree, mount) {
                (Some(tree), _) => Some(tree),
                // The workspace's second name is made from its first, protected names included.
                (None, Mount::Bind { source, target, .. }) if is_second_name(plan, source, target) => None,
                // An overlay of an ordinary user's directory takes it by its path: see `overlay`.
                (None, Mount::Bind { source, .. } | Mount::Overlay { source, .. }) => {
                    Some(steps.run("open", source, || self.clone_of_host(source))?)
                }
                (None, Mount::Layered { lower, .. }) => {
                    let open = || self.clone_mount_of_host(lower);
                    Some(steps.run("open what lies beneath the workspace,", lower, open)?)
                }
                (None, _) => None,
            };
            recognise(plan, mount, source.as_ref(), steps)?;
            sources.push(source);
        }
        Ok(sources)
    }
}

/// What only late mounts need.
#[derive(Default)]
pub(super) struct PlaceLate<'a> {
    pub(super) pins: Option<&'a Pins>,
    /// Where writes to a copy-on-write workspace go, mapped by the owner; an ordinary user's is cloned here.
    pub(super) workspace_layers: Option<OwnedFd>,
}

/// Each is one of ours, on the device `ours`, or is not there.
pub(super) fn still_covered<'a>(paths: impl Iterator<Item = &'a Path>, ours: u64) -> io::Result<()> {
    for path in paths {
        match rustix::fs::stat(path) {
            Ok(facts) if facts.st_dev == ours => {}
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {}
            Ok(_) => return Err(Errno::STALE.into()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn open_path(path: &Path) -> io::Result<OwnedFd> {
    let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

fn is_file(plan: &Plan, index: usize, part: Part) -> bool {
    matches!(plan.mounts[index], Mount::File { .. }) && Part::of(plan, index) == part
}

/// What was looked at when it was planned, not what took its place since.
fn recognise(plan: &Plan, mount: &Mount, source: Option<&OwnedFd>, steps: &Steps) -> Done {
    if let (Some(workspace), Some(tree), Mount::Bind { target, .. } | Mount::Layered { target, .. }) =
        (&plan.workspace, source, mount)
        && target == Path::new(WORKSPACE)
    {
        steps.run("recognise the workspace", &workspace.source, || is_same(workspace, tree.as_fd()))?;
    }
    if let (Some((_, expected)), Some(tree), Mount::Bind { source, .. } | Mount::Overlay { source, .. }) =
        (plan.attached.iter().find(|(target, _)| target == mount.target()), source, mount)
    {
        steps.run("recognise", source, || match FileId::of(tree)? {
            found if found == *expected => Ok(()),
            _ => Err(Errno::STALE.into()),
        })?;
    }
    Ok(())
}

/// The directory that was planned for, not one that took its place since.
fn is_same(workspace: &PlannedWorkspace, tree: BorrowedFd<'_>) -> io::Result<()> {
    let facts = rustix::fs::fstat(tree)?;
    if facts.st_dev == workspace.device && facts.st_ino == workspace.inode {
        Ok(())
    } else {
        Err(io::Error::from_raw_os_error(116)) // ESTALE
    }
}

pub(in crate::providers) fn is_second_name(plan: &Plan, source: &Path, target: &Path) -> bool {
    plan.workspace
        .as_ref()
        .is_some_and(|found| found.source == source && found.own_path.as_deref() == Some(target))
}
