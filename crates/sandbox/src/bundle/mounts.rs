//! The plan's mounts as a runtime's: mounts, masked paths, small files, and what the root has to have for them.

use std::path::{Path, PathBuf};

use oci_spec::OciSpecError;
use oci_spec::runtime::{Mount as OciMount, MountBuilder};

use super::RootEntry;
use crate::host::Host;
use crate::plan::{Access, Ids, Mount, Plan};

/// One inode for each four pages, within bounds: an inode costs kernel memory even when it is empty.
const PAGES: u64 = 4_096;
/// Of /dev itself, which has directories and links only.
const DEV_BYTES: u64 = 65_536;
const MASKED_PROC: [&str; 10] = [
    "acpi",
    "asound",
    "scsi",
    "interrupts",
    "kcore",
    "keys",
    "latency_stats",
    "timer_list",
    "timer_stats",
    "sched_debug",
];
const READ_ONLY_PROC: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// One mount, before it is the runtime's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    at: PathBuf,
    kind: &'static str,
    from: PathBuf,
    options: Vec<String>,
    is_file: bool,
    mode: u32,
}

/// All that a root is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) mounts: Vec<Planned>,
    pub(super) masked: Vec<String>,
    pub(super) read_only: Vec<String>,
    pub(super) files: Vec<(String, String)>,
    pub(super) root: Vec<RootEntry>,
    pub(super) notes: Vec<String>,
    /// What of the host's is a file; all else that is shown is a directory.
    single: Vec<PathBuf>,
}

impl Layout {
    pub(super) fn of(plan: &Plan, host: &Host, files_at: &Path) -> Self {
        let single = host.read.iter().chain(&host.write).filter(|shown| !shown.is_dir);
        let mut layout = Self { single: single.map(|shown| shown.real.clone()).collect(), ..Self::default() };
        let options = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        layout.add("/proc", "proc", "proc", options(&["nosuid", "nodev", "noexec"]));
        let dev = tmpfs(Some(DEV_BYTES), 0o755, &["noexec"]);
        layout.add("/dev", "tmpfs", "tmpfs", dev);
        let pts = options(&["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"]);
        layout.add("/dev/pts", "devpts", "devpts", pts);
        let shares = Shares::of(plan);
        layout.notes.extend(shares.notes(plan));
        for mount in &plan.mounts {
            layout.place(mount, plan, &shares, files_at);
        }
        if let Some(workspace) = &plan.workspace {
            let names = [Some(Path::new(crate::plan::WORKSPACE)), workspace.own_path.as_deref()];
            for name in names.into_iter().flatten() {
                layout.masked.extend(workspace.sockets.iter().map(|socket| text(&name.join(socket))));
            }
        }
        layout.masked.extend(MASKED_PROC.map(|name| format!("/proc/{name}")));
        layout.read_only.extend(READ_ONLY_PROC.map(|name| format!("/proc/{name}")));
        layout.read_only.push("/dev".to_owned());
        layout.furnish();
        layout
    }

    fn add(&mut self, at: &str, kind: &'static str, from: &str, options: Vec<String>) {
        let (at, from) = (at.into(), from.into());
        self.mounts.push(Planned { at, kind, from, options, is_file: false, mode: 0o755 });
    }

    fn place(&mut self, mount: &Mount, plan: &Plan, shares: &Shares, files_at: &Path) {
        match mount {
            Mount::Bind { source, target, access, .. } => self.bind(source, target, *access, false),
            Mount::Overlay { source, target, .. } => self.bind(source, target, Access::Read, false),
            // Only in a session, which a bundle is not.
            Mount::Layered { lower, target, .. } => self.bind(lower, target, Access::Read, false),
            Mount::Private { target, mode } => self.private(target, shares.private, *mode),
            Mount::Temporary { target, mode, .. } => self.private(target, shares.temporary, *mode),
            Mount::Symlink { target, to } => {
                // A runtime makes those of /dev itself.
                if !target.starts_with("/dev") {
                    self.root.push(RootEntry::Symlink { path: target.clone(), to: to.clone() });
                }
            }
            Mount::File { target, text } => {
                let text = match target.to_str() {
                    Some("/etc/passwd") => passwd(&plan.ids),
                    Some("/etc/group") => group(&plan.ids),
                    _ => text.clone(),
                };
                self.file(target, text, files_at);
            }
            Mount::Seed { target, text } => self.file(target, text.clone(), files_at),
            Mount::Device { .. } | Mount::Terminals { .. } | Mount::Proc { .. } => {}
            Mount::Hide { target } => self.masked.push(text(target)),
        }
    }

    /// With all that is mounted below it: what is only for the one mount would leave those writable. Below a file there is nothing,
    /// and crun fails on one with `rro`.
    fn bind(&mut self, from: &Path, at: &Path, access: Access, is_file: bool) {
        let is_file = is_file || self.single.iter().any(|single| single == from);
        let kind = if is_file { "bind" } else { "rbind" };
        let mut options = vec![kind.to_owned(), "nosuid".into(), "nodev".into(), "rprivate".into()];
        match access {
            Access::Read if is_file => options.push("ro".into()),
            Access::Read => options.extend(["ro".to_owned(), "rro".into()]),
            Access::Write => options.push("rw".into()),
        }
        let (at, from) = (at.to_path_buf(), from.to_path_buf());
        self.mounts.push(Planned { at, kind: "bind", from, options, is_file, mode: 0o755 });
    }

    fn private(&mut self, at: &Path, bytes: Option<u64>, mode: u32) {
        let options = tmpfs(bytes, mode, &[]);
        let at = at.to_path_buf();
        self.mounts.push(Planned { at, kind: "tmpfs", from: "tmpfs".into(), options, is_file: false, mode });
    }

    fn file(&mut self, at: &Path, content: String, files_at: &Path) {
        let name = format!("{}-{}", self.files.len(), at.file_name().unwrap_or_default().to_string_lossy());
        self.bind(&files_at.join(&name), at, Access::Read, true);
        self.files.push((name, content));
    }

    /// What the root has to have: places for all that does not lie on another mount.
    fn furnish(&mut self) {
        let mut places = Vec::new();
        for (index, mount) in self.mounts.iter().enumerate() {
            let on_another = self.mounts[..index].iter().any(|other| mount.at.starts_with(&other.at));
            if !on_another {
                places.push(match mount.is_file {
                    true => RootEntry::File { path: mount.at.clone() },
                    false => RootEntry::Directory { path: mount.at.clone(), mode: mount.mode },
                });
            }
        }
        places.append(&mut self.root);
        self.root = places;
    }

    pub(super) fn mounts(&self) -> Result<Vec<OciMount>, OciSpecError> {
        self.mounts
            .iter()
            .map(|mount| {
                MountBuilder::default()
                    .destination(&mount.at)
                    .typ(mount.kind)
                    .source(&mount.from)
                    .options(mount.options.clone())
                    .build()
            })
            .collect()
    }
}

/// What each private place may hold: several mounts can't have one bound, so that each has a share of it.
struct Shares {
    private: Option<u64>,
    temporary: Option<u64>,
}

impl Shares {
    fn of(plan: &Plan) -> Self {
        let count =
            |wanted: fn(&Mount) -> bool| plan.mounts.iter().filter(|mount| wanted(mount)).count() as u64;
        let share = |bytes: u64, places: u64| bytes / places.max(1) / PAGES * PAGES;
        let private = count(|mount| matches!(mount, Mount::Private { .. }));
        let temporary = count(|mount| matches!(mount, Mount::Temporary { .. }));
        let tmp = plan.mounts.iter().find_map(|mount| match mount {
            Mount::Temporary { bytes, .. } => Some(*bytes),
            _ => None,
        });
        Self {
            // A tmpfs of size 0 has no bound at all.
            private: plan.limits.disk.map(|disk| share(disk, private).max(PAGES)),
            temporary: tmp.map(|tmp| share(tmp, temporary).max(PAGES)),
        }
    }

    fn notes(&self, plan: &Plan) -> Vec<String> {
        let places = |wanted: fn(&Mount) -> bool| {
            let found = plan.mounts.iter().filter(|mount| wanted(mount));
            found.map(|mount| text(mount.target())).collect::<Vec<_>>().join(", ")
        };
        let private = self.private.map(|bytes| {
            let places = places(|mount| matches!(mount, Mount::Private { .. }));
            format!("limits.disk is shared out: {places} have {bytes} bytes each")
        });
        let temporary = self.temporary.map(|bytes| {
            let places = places(|mount| matches!(mount, Mount::Temporary { .. }));
            format!("filesystem.tmp is shared out: {places} have {bytes} bytes each")
        });
        private.into_iter().chain(temporary).collect()
    }
}

fn tmpfs(bytes: Option<u64>, mode: u32, more: &[&str]) -> Vec<String> {
    let inodes = (bytes.unwrap_or(16 << 30) / PAGES).clamp(64, 1_000_000);
    let mut options = vec!["nosuid".to_owned(), "nodev".into()];
    options.extend(more.iter().map(|&word| word.to_owned()));
    options.extend(bytes.map(|bytes| format!("size={bytes}")));
    options.extend([format!("nr_inodes={inodes}"), format!("mode={mode:04o}")]);
    options
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The one id that a runtime can map for everybody is called root inside; it has no capability there.
fn passwd(ids: &Ids) -> String {
    let home = ids.home.display().to_string().replace([':', '\n'], "_");
    let user = &ids.user;
    format!("{user}:x:0:0:{user}:{home}:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n")
}

fn group(ids: &Ids) -> String {
    format!("{}:x:0:\nnogroup:x:65534:\n", ids.user)
}
