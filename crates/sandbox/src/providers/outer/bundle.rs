//! The bundle of a runtime. It lies on a tmpfs in a user and mount namespace of the carrier's own, beside all that the plan shows
//! of the host, so that it is gone with the last process of that namespace, however that ends.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ringfence_linux::{
    IdMap, MountFlags, attach, clone_tree, deny_setgroups, mount_tmpfs, restrict_tree, set_dumpable,
    unshare_mounts, unshare_user, write_id_map,
};
use rustix::fs::{FileType, Mode, fstat};

use super::sources::{STAGE, Source};

/// Where the bundle is, in that namespace, and where the runtime keeps its state.
pub(in crate::providers) const BUNDLE: &str = "/run/ringfence/bundle";
pub(in crate::providers) const STATE: &str = "/run/ringfence/state";
/// The root that the runtime makes, relative to the bundle. guard makes another of what is placed in it.
pub(in crate::providers) const ROOTFS: &str = "rootfs";
const CGROUPS: &str = "/sys/fs/cgroup";
const INODES: u64 = 4_096;

/// What a program is told.
pub(in crate::providers) struct Told {
    /// Its arguments, itself first.
    pub(in crate::providers) words: Vec<std::ffi::OsString>,
    /// Where it is a runtime.
    pub(in crate::providers) bundle: Option<Bundle>,
}

pub(in crate::providers) struct Bundle {
    /// The text of `config.json`.
    pub(in crate::providers) config: String,
    pub(in crate::providers) cgroups: CgroupView,
}

/// What a runtime sees of the host's cgroups. It never changes one: limits are set around it, and it must not take itself out of
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::providers) enum CgroupView {
    /// As they are, read-only.
    ReadOnly,
    /// An empty directory.
    Nothing,
}

/// What a bundle is made of, while the carrier still has the rights that it began with.
pub(super) struct Packing {
    bundle: Bundle,
    sources: Vec<Source>,
    /// Taken already: by its place in `sources`.
    taken: Vec<Option<OwnedFd>>,
}

impl Packing {
    /// `mapped` are those that the owner has mapped.
    pub(super) fn new(bundle: Bundle, sources: Vec<Source>, mapped: Vec<(PathBuf, OwnedFd)>) -> Self {
        let mut taken: Vec<Option<OwnedFd>> = Vec::new();
        taken.resize_with(sources.len(), || None);
        for (path, tree) in mapped {
            if let Some(at) = sources.iter().position(|source| source.staged() == path) {
                taken[at] = Some(tree);
            }
        }
        Self { bundle, sources, taken }
    }

    /// Take hold of what is not taken yet, in this mount namespace.
    pub(super) fn take(&mut self) -> Result<(), String> {
        for (source, tree) in self.sources.iter().zip(&mut self.taken) {
            if tree.is_none() {
                let cloned = clone_tree(&source.from);
                *tree =
                    Some(cloned.map_err(|error| format!("cannot show {}: {error}", source.from.display()))?);
            }
        }
        Ok(())
    }

    /// Enter namespaces of this process's own, as the one id that it has, and lay the bundle out there.
    pub(super) fn lay_out(mut self) -> Result<(), String> {
        let failed = |what: &'static str| move |error: io::Error| format!("cannot {what}: {error}");
        let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        unshare_user().map_err(failed("make a user namespace for the runtime"))?;
        // A change of uid made this process undumpable, and its own /proc files somebody else's.
        set_dumpable(true).map_err(failed("own its files in /proc"))?;
        deny_setgroups("self").map_err(failed("write the id map"))?;
        write_id_map("self", IdMap { inside: 0, outside: uid }, IdMap { inside: 0, outside: gid })
            .map_err(failed("write the id map"))?;
        unshare_mounts().map_err(failed("make a mount namespace for the runtime"))?;
        // Before anything is covered.
        self.take()?;
        hide_cgroups(self.bundle.cgroups).map_err(failed("keep cgroups from the runtime"))?;
        let umask = rustix::process::umask(Mode::empty());
        self.write().map_err(failed("write the bundle"))?;
        rustix::process::umask(umask);
        Ok(())
    }

    fn write(&self) -> io::Result<()> {
        mount_tmpfs(Path::new(STAGE), None, INODES, 0o755)?;
        let bundle = Path::new(BUNDLE);
        for directory in ["", "tmp", "dev", "proc"] {
            make_directories(&bundle.join(ROOTFS).join(directory))?;
        }
        DirBuilder::new().mode(0o700).create(STATE)?;
        std::fs::write(bundle.join("config.json"), &self.bundle.config)?;
        for (source, tree) in self.sources.iter().zip(self.taken.iter().flatten()) {
            let at = source.staged();
            if FileType::from_raw_mode(fstat(tree)?.st_mode).is_dir() {
                DirBuilder::new().mode(0o755).create(&at)?;
            } else {
                File::create(&at)?;
            }
            attach(tree.as_fd(), &at)?;
        }
        Ok(())
    }
}

fn make_directories(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(path)
}

fn hide_cgroups(view: CgroupView) -> io::Result<()> {
    let at = PathBuf::from(CGROUPS);
    if !at.is_dir() {
        return Ok(());
    }
    match view {
        CgroupView::Nothing => mount_tmpfs(&at, None, 1, 0o555),
        CgroupView::ReadOnly => {
            let tree = clone_tree(&at)?;
            restrict_tree(tree.as_fd(), MountFlags::READ_ONLY)?;
            attach(tree.as_fd(), &at)
        }
    }
}
