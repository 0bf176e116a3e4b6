//! Inside the new namespaces: from a copy of the host's mounts to closed walls, step by step. Runs in the child that
//! becomes guard, before any code of the caller's.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ringfence_linux::{
    MountFlags, attach, clone_tree, make_private, mount_devpts, mount_overlay, mount_proc, mount_tmpfs,
    pivot_into, restrict_mount, restrict_tree,
};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use super::faults::Steps;
use crate::plan::{Access, Mount, Plan, PlannedWorkspace, WORKSPACE};
use crate::protect::Pins;

/// A step that failed, to be told to the owner.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(super) step: &'static str,
    pub(super) subject: String,
    pub(super) errno: i32,
}

pub(super) fn failure(step: &'static str, subject: impl AsRef<Path>, error: &io::Error) -> Failure {
    let subject = match error.raw_os_error() {
        Some(_) => subject.as_ref().display().to_string(),
        None => format!("{} ({error})", subject.as_ref().display()),
    };
    Failure { step, subject, errno: error.raw_os_error().unwrap_or(0) }
}

type Done = Result<(), Failure>;

/// The root is small: directories, symlinks and mountpoints.
const ROOT_BYTES: u64 = 4 << 20;
const ROOT_INODES: u64 = 16_384;
/// Where the parts that others are made of lie until the root is done.
const STAGE: &str = ".ringfence";

const MASKED: &[&str] = &[
    "acpi",
    "asound",
    "interrupts",
    "kcore",
    "keys",
    "latency_stats",
    "timer_list",
    "timer_stats",
    "sched_debug",
    "scsi",
];
const READ_ONLY: &[&str] = &["bus", "fs", "irq", "sys", "sysrq-trigger"];

struct Builder<'a> {
    plan: &'a Plan,
    pins: &'a Pins,
    steps: &'a Steps,
    root: PathBuf,
    stage: PathBuf,
    layers: u32,
}

/// Build the plan's root and make it this namespace's. `trees` are the mounts' sources that the owner cloned and
/// mapped, by index in the plan; the others are cloned here.
pub(super) fn build_root(plan: &Plan, pins: &Pins, trees: Vec<Option<OwnedFd>>, steps: &Steps) -> Done {
    steps.run("make mounts private", "/", make_private)?;
    let sources = clone_sources(plan, trees, steps)?;
    let root = ["/tmp", "/mnt", "/usr", "/etc"]
        .into_iter()
        .map(PathBuf::from)
        .find(|path| path.is_dir())
        .ok_or_else(|| failure("find a place for the root", "/", &io::ErrorKind::NotFound.into()))?;
    let stage = root.join(STAGE);
    let mut builder = Builder { plan, pins, steps, root, stage, layers: 0 };
    builder.mount_stage()?;
    for (mount, source) in plan.mounts.iter().zip(&sources) {
        builder.place(mount, source.as_ref().map(AsFd::as_fd))?;
    }
    builder.finish()
}

fn clone_sources(
    plan: &Plan,
    trees: Vec<Option<OwnedFd>>,
    steps: &Steps,
) -> Result<Vec<Option<OwnedFd>>, Failure> {
    let mut sources = Vec::with_capacity(plan.mounts.len());
    for (mount, tree) in plan.mounts.iter().zip(trees.into_iter().chain(std::iter::repeat_with(|| None))) {
        let source = match (tree, mount) {
            (Some(tree), _) => Some(tree),
            // The workspace's second name is made from its first, protected names included.
            (None, Mount::Bind { source, target, .. }) if is_second_name(plan, source, target) => None,
            (None, Mount::Bind { source, .. }) => Some(steps.run("open", source, || clone_tree(source))?),
            (None, Mount::Device { target }) => Some(steps.run("open", target, || clone_tree(target))?),
            // An overlay of an ordinary user's directory takes it by its path: see `overlay`.
            (None, Mount::Overlay { source, .. }) => Some(steps.run("open", source, || clone_tree(source))?),
            (None, _) => None,
        };
        if let (Some(workspace), Some(tree), Mount::Bind { target, .. }) = (&plan.workspace, &source, mount)
            && target == Path::new(WORKSPACE)
        {
            steps.run("recognise the workspace", &workspace.source, || is_same(workspace, tree.as_fd()))?;
        }
        sources.push(source);
    }
    Ok(sources)
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

fn is_second_name(plan: &Plan, source: &Path, target: &Path) -> bool {
    plan.workspace
        .as_ref()
        .is_some_and(|found| found.source == source && found.own_path.as_deref() == Some(target))
}

impl Builder<'_> {
    fn mount_stage(&self) -> Done {
        let Self { root, stage, steps, .. } = self;
        steps.run("mount the root", root, || mount_tmpfs(root, Some(ROOT_BYTES), ROOT_INODES, 0o755))?;
        let disk = self.plan.limits.disk;
        steps.run("mount the private layer", "", || {
            make_dir(stage, 0o700)?;
            mount_tmpfs(stage, disk, inodes(disk), 0o700)?;
            // What hidden paths show: an empty file and an empty directory on a read-only mount.
            let empty = stage.join("empty");
            make_dir(&empty, 0o755)?;
            make_dir(&empty.join("dir"), 0o555)?;
            write_file(&empty.join("file"), "", 0o444)?;
            let tree = clone_tree(&empty)?;
            restrict_tree(tree.as_fd(), MountFlags { no_exec: true, ..MountFlags::READ_ONLY })?;
            attach(tree.as_fd(), &empty)
        })
    }

    fn inside(&self, target: &Path) -> PathBuf {
        self.root.join(target.strip_prefix("/").unwrap_or(target))
    }

    fn place(&mut self, mount: &Mount, source: Option<BorrowedFd<'_>>) -> Done {
        let steps = self.steps;
        let target = self.inside(mount.target());
        match (mount, source) {
            (Mount::Bind { target: at, access, .. }, Some(tree)) => {
                let flags =
                    if *access == Access::Read { MountFlags::READ_ONLY } else { MountFlags::WRITABLE };
                steps.run("bind", at, || {
                    restrict_tree(tree, flags)?;
                    self.make_mountpoint(&target, is_directory(tree)?)?;
                    attach(tree, &target)
                })?;
                if at == Path::new(WORKSPACE) && self.plan.workspace.is_some() {
                    self.pins.mount(&target, &self.stage.join("empty"), steps)?;
                }
                Ok(())
            }
            (Mount::Bind { target: at, .. }, None) => steps.run("bind", at, || {
                let tree = clone_tree(&self.inside(Path::new(WORKSPACE)))?;
                self.make_mountpoint(&target, true)?;
                attach(tree.as_fd(), &target)
            }),
            (Mount::Overlay { target: at, .. }, Some(tree)) => {
                steps.run("mount a throwaway layer on", at, || self.overlay(tree, &target))
            }
            (Mount::Private { target: at, mode }, _) => steps.run("make a private directory at", at, || {
                let layer = self.next_layer();
                make_dir(&layer, *mode)?;
                let tree = clone_tree(&layer)?;
                self.make_mountpoint(&target, true)?;
                attach(tree.as_fd(), &target)
            }),
            (Mount::Tmpfs { target: at, bytes, mode }, _) => steps.run("mount tmpfs at", at, || {
                self.make_mountpoint(&target, true)?;
                mount_tmpfs(&target, Some(*bytes), inodes(Some(*bytes)), *mode)
            }),
            (Mount::Symlink { target: at, to }, _) => steps.run("link", at, || {
                self.make_parents(&target)?;
                std::os::unix::fs::symlink(to, &target)
            }),
            (Mount::File { target: at, text }, _) => steps.run("write", at, || {
                if target.symlink_metadata().is_err() {
                    return Ok(());
                }
                let file = self.next_layer();
                write_file(&file, text, 0o444)?;
                let tree = clone_tree(&file)?;
                restrict_tree(tree.as_fd(), MountFlags { no_exec: true, ..MountFlags::READ_ONLY })?;
                attach(tree.as_fd(), &target)
            }),
            (Mount::Device { target: at }, Some(tree)) => steps.run("bind the device", at, || {
                restrict_tree(tree, MountFlags::DEVICE)?;
                self.make_mountpoint(&target, false)?;
                attach(tree, &target)
            }),
            (Mount::Terminals { target: at }, _) => steps.run("mount terminals at", at, || {
                self.make_mountpoint(&target, true)?;
                mount_devpts(&target)
            }),
            (Mount::Proc { .. }, _) => self.mount_proc(&target),
            (Mount::Seed { target: at, text }, _) => steps.run("write", at, || {
                self.make_parents(&target)?;
                let mut file = OpenOptions::new().append(true).create(true).mode(0o644).open(&target)?;
                file.write_all(text.as_bytes())
            }),
            (Mount::Hide { target: at }, _) => steps.run("hide", at, || self.hide(at)),
            (Mount::Overlay { .. } | Mount::Device { .. }, None) => {
                Err(failure("open", mount.target(), &io::ErrorKind::NotFound.into()))
            }
        }
    }

    /// The layer's next unused name on the stage.
    fn next_layer(&mut self) -> PathBuf {
        self.layers += 1;
        self.stage.join(self.layers.to_string())
    }

    fn overlay(&mut self, lower: BorrowedFd<'_>, target: &Path) -> io::Result<()> {
        restrict_tree(lower, MountFlags::READ_ONLY)?;
        let layer = self.next_layer();
        let [below, upper, work] = ["lower", "upper", "work"].map(|name| layer.join(name));
        for directory in [&layer, &below, &upper, &work] {
            make_dir(directory, 0o755)?;
        }
        attach(lower, &below)?;
        self.make_mountpoint(target, true)?;
        mount_overlay(&below, &upper, &work, target)?;
        unmount(&below, UnmountFlags::DETACH)?;
        Ok(())
    }

    fn mount_proc(&self, target: &Path) -> Done {
        let steps = self.steps;
        steps.run("mount /proc", "", || {
            self.make_mountpoint(target, true)?;
            mount_proc(target)
        })?;
        steps.run("mask parts of /proc", "", || {
            MASKED.iter().try_for_each(|name| self.cover(&target.join(name)))
        })?;
        steps.run("make parts of /proc read-only", "", || {
            READ_ONLY.iter().map(|name| target.join(name)).filter(|path| path.exists()).try_for_each(|path| {
                let tree = clone_tree(&path)?;
                let flags = MountFlags { no_exec: true, ..MountFlags::READ_ONLY };
                restrict_tree(tree.as_fd(), flags)?;
                attach(tree.as_fd(), &path)
            })
        })
    }

    /// Put an empty read-only file or directory on `path`, if there is something.
    fn cover(&self, path: &Path) -> io::Result<()> {
        let Ok(facts) = path.symlink_metadata() else { return Ok(()) };
        if facts.is_symlink() {
            return Ok(());
        }
        let empty = self.stage.join("empty").join(if facts.is_dir() { "dir" } else { "file" });
        Ok(mount_bind(&empty, path)?)
    }

    /// Symlinks on the way are followed inside the new root only: the tree may hold hostile ones.
    fn hide(&self, target: &Path) -> io::Result<()> {
        use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
        let root = rustix::fs::open(&self.root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let found = openat2(
            &root,
            target.strip_prefix("/").unwrap_or(target),
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT,
        );
        match found {
            Ok(found) => {
                let name = if is_directory(found.as_fd())? { "dir" } else { "file" };
                let tree = clone_tree(&self.stage.join("empty").join(name))?;
                ringfence_linux::attach_to(tree.as_fd(), found.as_fd())
            }
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn make_parents(&self, path: &Path) -> io::Result<()> {
        match path.parent() {
            Some(parent) if !parent.is_dir() => DirBuilder::new().recursive(true).mode(0o755).create(parent),
            _ => Ok(()),
        }
    }

    fn make_mountpoint(&self, path: &Path, is_dir: bool) -> io::Result<()> {
        if path.symlink_metadata().is_ok() {
            return Ok(());
        }
        self.make_parents(path)?;
        if is_dir { make_dir(path, 0o755) } else { write_file(path, "", 0o644) }
    }

    fn finish(self) -> Done {
        let Self { root, stage, steps, .. } = &self;
        steps.run("let go of the stage", "", || {
            unmount(stage, UnmountFlags::DETACH)?;
            fs::remove_dir(stage)
        })?;
        steps.run("make the root read-only", "", || restrict_mount(root, MountFlags::READ_ONLY))?;
        steps.run("pivot into the root", "", || pivot_into(root))
    }
}

/// One inode for each four pages, within bounds: an inode costs kernel memory even when it is empty.
fn inodes(bytes: Option<u64>) -> u64 {
    (bytes.unwrap_or(16 << 30) / 4096).clamp(1_024, 1_000_000)
}

fn is_directory(tree: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode).is_dir())
}

fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)?;
    // The caller's umask has had its say.
    let made = fs::metadata(path)?;
    if made.mode() & 0o7777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode))
}

fn write_file(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(text.as_bytes())
}
