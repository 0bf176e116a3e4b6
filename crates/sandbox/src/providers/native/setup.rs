//! Inside the new namespaces: from a copy of the host's mounts to closed walls, step by step. Runs in the child that
//! becomes guard, before any code of the caller's.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ringfence_linux::{
    MountFlags, attach, clone_tree, mount_devpts, mount_overlay, mount_proc, mount_tmpfs, restrict_mount,
    restrict_tree,
};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::io::Errno;
use rustix::mount::mount_bind;

use super::root::{Builder, Part, PlaceLate};
use crate::plan::{Access, Mount, Plan, WORKSPACE};

/// A step that failed, to be told to the owner.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(in crate::providers) step: &'static str,
    pub(in crate::providers) subject: String,
    pub(in crate::providers) errno: i32,
}

pub(super) fn failure(step: &'static str, subject: impl AsRef<Path>, error: &io::Error) -> Failure {
    let subject = match error.raw_os_error() {
        Some(_) => subject.as_ref().display().to_string(),
        None => format!("{} ({error})", subject.as_ref().display()),
    };
    Failure { step, subject, errno: error.raw_os_error().unwrap_or(0) }
}

pub(super) type Done = Result<(), Failure>;

/// Where in the stage the root is built.
pub(super) const ROOT: &str = "root";

/// What of /proc is shown empty: directories and files.
const MASKED: [(&str, &[&str]); 2] = [
    ("dir", &["acpi", "asound", "scsi"]),
    ("file", &["interrupts", "kcore", "keys", "latency_stats", "timer_list", "timer_stats", "sched_debug"]),
];
const READ_ONLY: &[&str] = &["bus", "fs", "irq", "sys", "sysrq-trigger"];

impl Builder<'_> {
    /// The stage holds the private layer, and the root is mounted in it: letting go of the old root then takes the
    /// stage away too, and one wait for the kernel's readers of mounts is enough.
    pub(super) fn mount_stage(&self, plan: &Plan) -> Done {
        let Self { root, stage, steps, .. } = self;
        let disk = plan.limits.disk;
        steps.run("mount the private layer", "", || {
            mount_tmpfs(stage, disk, inodes(disk), 0o700)?;
            // What hidden paths show, and our own files: on one read-only mount, whose clones have its attributes.
            let empty = stage.join("empty");
            make_dir(&empty, 0o755)?;
            make_dir(&empty.join("dir"), 0o555)?;
            write_file(&empty.join("file"), "", 0o444)?;
            self.write_files(plan, Part::Ahead)
        })?;
        // A mount of its own, so that it can be read-only and pivoted into, but no filesystem of its own.
        steps.run("mount the root", root, || {
            make_dir(root, 0o755)?;
            Ok(mount_bind(root, root)?)
        })
    }

    /// Our own files, and whatever else is in their place on the stage, read-only.
    pub(super) fn write_files(&self, plan: &Plan, part: Part) -> io::Result<()> {
        let place = self.stage.join(part.files());
        if part == Part::Late {
            make_dir(&place, 0o755)?;
        }
        for (index, mount) in plan.mounts.iter().enumerate() {
            if let Mount::File { text, .. } = mount
                && Part::of(plan, index) == part
            {
                write_file(&place.join(index.to_string()), text, 0o444)?;
            }
        }
        mount_bind(&place, &place)?;
        restrict_mount(&place, MountFlags { no_exec: true, ..MountFlags::READ_ONLY })
    }

    fn inside(&self, target: &Path) -> PathBuf {
        self.root.join(target.strip_prefix("/").unwrap_or(target))
    }

    pub(super) fn place(
        &mut self,
        plan: &Plan,
        index: usize,
        mount: &Mount,
        source: Option<BorrowedFd<'_>>,
        late: &mut PlaceLate<'_>,
    ) -> Done {
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
                self.pin_workspace(plan, at, &target, late)
            }
            (Mount::Bind { target: at, .. }, None) => steps.run("bind", at, || {
                let tree = clone_tree(&self.inside(Path::new(WORKSPACE)))?;
                self.make_mountpoint(&target, true)?;
                attach(tree.as_fd(), &target)
            }),
            (Mount::Overlay { target: at, .. }, Some(tree)) => {
                steps.run("mount a throwaway layer on", at, || self.overlay(tree, &target))
            }
            (Mount::Layered { target: at, layers, .. }, Some(tree)) => {
                let layers = match late.workspace_layers.take() {
                    Some(mapped) => mapped,
                    None => steps.run("open", layers, || self.clone_mount_of_host(layers))?,
                };
                steps.run("mount the layers of the workspace at", at, || {
                    self.layered(tree, layers.as_fd(), &target)
                })?;
                self.pin_workspace(plan, at, &target, late)
            }
            (Mount::Private { target: at, mode }, _) => steps.run("make a private directory at", at, || {
                let layer = self.next_layer();
                make_dir(&layer, *mode)?;
                self.make_mountpoint(&target, true)?;
                Ok(mount_bind(&layer, &target)?)
            }),
            (Mount::Temporary { target: at, bytes, mode }, _) => steps.run("mount tmpfs at", at, || {
                let temporary = self.stage.join("temporary");
                if self.temporary == 0 {
                    make_dir(&temporary, 0o700)?;
                    mount_tmpfs(&temporary, Some(*bytes), inodes(Some(*bytes)), 0o700)?;
                }
                self.temporary += 1;
                let directory = temporary.join(self.temporary.to_string());
                make_dir(&directory, *mode)?;
                self.make_mountpoint(&target, true)?;
                Ok(mount_bind(&directory, &target)?)
            }),
            (Mount::Symlink { target: at, to }, _) => {
                steps.run("link", at, || with_parents(&target, || std::os::unix::fs::symlink(to, &target)))
            }
            (Mount::File { target: at, .. }, _) => {
                let ours = self.stage.join(Part::of(plan, index).files()).join(index.to_string());
                self.covers.push(target.clone());
                steps.run("write", at, || match mount_bind(&ours, &target) {
                    // The host has no such file.
                    Err(Errno::NOENT) => Ok(()),
                    bound => Ok(bound?),
                })
            }
            (Mount::Device { target: at }, _) => steps.run("bind the device", at, || {
                self.make_mountpoint(&target, false)?;
                mount_bind(at, &target)?;
                restrict_mount(&target, MountFlags::DEVICE)
            }),
            (Mount::Terminals { target: at }, _) => steps.run("mount terminals at", at, || {
                self.make_mountpoint(&target, true)?;
                mount_devpts(&target)
            }),
            (Mount::Proc { .. }, _) => self.mount_proc(&target),
            (Mount::Seed { target: at, text }, _) => steps.run("write", at, || self.seed(at, text)),
            (Mount::Hide { target: at }, _) => steps.run("hide", at, || self.hide(at)),
            (Mount::Overlay { .. } | Mount::Layered { .. }, None) => {
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
        mount_overlay(&below, &upper, &work, target)
    }

    /// What was written before, in a session that was stopped, is there again.
    fn layered(&mut self, lower: BorrowedFd<'_>, layers: BorrowedFd<'_>, target: &Path) -> io::Result<()> {
        restrict_tree(lower, MountFlags::READ_ONLY)?;
        restrict_tree(layers, MountFlags::WRITABLE)?;
        let place = self.next_layer();
        let [below, above] = ["lower", "layers"].map(|name| place.join(name));
        for directory in [&place, &below, &above] {
            make_dir(directory, 0o755)?;
        }
        attach(lower, &below)?;
        attach(layers, &above)?;
        self.make_mountpoint(target, true)?;
        mount_overlay(&below, &above.join("upper"), &above.join("work"), target)
    }

    fn pin_workspace(&self, plan: &Plan, at: &Path, target: &Path, late: &PlaceLate<'_>) -> Done {
        if at == Path::new(WORKSPACE)
            && plan.workspace.is_some()
            && let Some(pins) = late.pins
        {
            pins.mount(target, &self.stage.join("empty"), self.steps)?;
        }
        Ok(())
    }

    fn mount_proc(&self, target: &Path) -> Done {
        let steps = self.steps;
        steps.run("mount /proc", "", || {
            self.make_mountpoint(target, true)?;
            mount_proc(target)
        })?;
        steps.run("mask parts of /proc", "", || {
            for (kind, names) in MASKED {
                let empty = self.stage.join("empty").join(kind);
                for name in names {
                    match mount_bind(&empty, target.join(name)) {
                        Ok(()) | Err(Errno::NOENT) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Ok(())
        })?;
        steps.run("make parts of /proc read-only", "", || {
            READ_ONLY.iter().map(|name| target.join(name)).try_for_each(|path| {
                let flags = MountFlags { no_exec: true, ..MountFlags::READ_ONLY };
                match mount_bind(&path, &path) {
                    Ok(()) => restrict_mount(&path, flags),
                    Err(Errno::NOENT) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            })
        })
    }

    /// Below a home that is the user's own, through an overlay, any part may be a link to the host's real files: nothing is
    /// followed. Where there is one, the command does without.
    fn seed(&self, at: &Path, text: &str) -> io::Result<()> {
        use rustix::fs::{OFlags, ResolveFlags, mkdirat, openat2};
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let mut directory = rustix::fs::open(&self.root, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let parts: Vec<_> = at.strip_prefix("/").unwrap_or(at).iter().collect();
        let Some((last, above)) = parts.split_last() else { return Ok(()) };
        for part in above {
            match mkdirat(&directory, *part, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST | Errno::ROFS) => {}
                Err(error) => return Err(error.into()),
            }
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            directory = match openat2(&directory, *part, flags, Mode::empty(), resolve) {
                Ok(next) => next,
                Err(Errno::LOOP | Errno::NOTDIR) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
        }
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat2(&directory, *last, flags, Mode::from_raw_mode(0o644), resolve) {
            Ok(file) => std::fs::File::from(file).write_all(text.as_bytes()),
            Err(Errno::LOOP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Symlinks on the way are followed inside the new root only: the tree may hold hostile ones.
    fn hide(&self, target: &Path) -> io::Result<()> {
        use rustix::fs::{OFlags, ResolveFlags, openat2};
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
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn make_mountpoint(&self, path: &Path, is_dir: bool) -> io::Result<()> {
        let made = with_parents(path, || if is_dir { make_dir(path, 0o755) } else { make_file(path, 0o644) });
        match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made,
        }
    }
}

/// Take `step`; if the way to `path` is not there yet, make it and take the step again.
fn with_parents(path: &Path, step: impl Fn() -> io::Result<()>) -> io::Result<()> {
    match (step(), path.parent()) {
        (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o755).create(parent)?;
            step()
        }
        (done, _) => done,
    }
}

/// One inode for each four pages, within bounds: an inode costs kernel memory even when it is empty.
fn inodes(bytes: Option<u64>) -> u64 {
    (bytes.unwrap_or(16 << 30) / 4096).clamp(1_024, 1_000_000)
}

fn is_directory(tree: BorrowedFd<'_>) -> io::Result<bool> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(tree)?.st_mode).is_dir())
}

fn make_dir(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(mode).create(path)
}

fn make_file(path: &Path, mode: u32) -> io::Result<()> {
    Ok(mknodat(CWD, path, FileType::RegularFile, Mode::from_raw_mode(mode), 0)?)
}

fn write_file(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(text.as_bytes())
}
