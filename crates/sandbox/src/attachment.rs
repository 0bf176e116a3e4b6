//! Directories of the host at places of our own choosing inside: skills, and what they need. They are no part of a
//! policy, since the caller names what to run and not where it comes to lie.

use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use ringfence_policy::Clause;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::host::Host;
use crate::plan::{Access, Mount, WORKSPACE};
use crate::receipt::Receipt;
use crate::refusal::Refusal;
use crate::write_bound::WriteBound;

/// How an attached directory may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachAs {
    Read,
    Write,
    /// Writes go to a throwaway layer.
    Copy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// A directory of the host; in [`Host`] with no link in its path.
    pub source: PathBuf,
    pub target: PathBuf,
    pub attach_as: AttachAs,
    /// Which directory was looked at, where that matters: another one in its place is refused.
    pub expected: Option<FileId>,
}

impl Attachment {
    /// The directory of the user's that is in the workspace's place, to be read.
    pub(crate) fn workspace(&self) -> Option<&Path> {
        (self.target == Path::new(WORKSPACE)).then_some(&*self.source)
    }

    /// With what is at `source` now: the mount is of this and of nothing that takes its place.
    pub(crate) fn look(&self, source: PathBuf) -> Result<Self, Refusal> {
        let shown = source.display().to_string();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let here = rustix::fs::open(&source, flags, Mode::empty())
            .map_err(io::Error::from)
            .and_then(FileId::of)
            .map_err(|error| Refusal::step("open", &*shown, &error))?;
        if self.expected.is_some_and(|expected| expected != here) {
            return Err(Refusal::step("recognise", &*shown, &Errno::STALE.into()));
        }
        Ok(Self { source, expected: Some(here), ..self.clone() })
    }
}

/// What tells a file from another that takes its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileId {
    pub device: u64,
    pub inode: u64,
}

impl FileId {
    /// Of what is open.
    pub fn of(file: impl AsFd) -> io::Result<Self> {
        let facts = rustix::fs::fstat(file)?;
        Ok(Self { device: facts.st_dev, inode: facts.st_ino })
    }
}

/// Another name for something inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    pub target: PathBuf,
    pub to: PathBuf,
}

/// A small file of our own in a private place inside, where a command may change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedFile {
    pub target: PathBuf,
    pub text: String,
}

/// What comes with a command beside its policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    pub directories: Vec<Attachment>,
    pub aliases: Vec<Alias>,
    pub files: Vec<AttachedFile>,
    /// Places in what is attached that are shown empty.
    pub hidden: Vec<PathBuf>,
    /// Searched for programs before the rest of PATH.
    pub path: Vec<PathBuf>,
    /// Set unless the policy sets them.
    pub variables: Vec<(String, String)>,
    /// For what is attached to be written, and what is `bounded`, together.
    pub bound: Option<WriteBound>,
    /// Directories of the host that the command may fill by other ways: its user's workspaces.
    pub bounded: Vec<PathBuf>,
}

pub(crate) fn plan_attachments(host: &Host, attached: &Attached) -> Result<Vec<Mount>, Refusal> {
    let mount = |Attachment { source, target, attach_as, .. }: &Attachment| {
        let (source, target) = (source.clone(), target.clone());
        Ok(match attach_as {
            AttachAs::Read => Mount::Bind { source, target, access: Access::Read, own_ids: true },
            AttachAs::Write => Mount::Bind { source, target, access: Access::Write, own_ids: true },
            AttachAs::Copy if host.overlay => Mount::Overlay { source, target, own_ids: true },
            AttachAs::Copy => {
                return Err(Refusal::NotEnforceable {
                    clause: Clause::FilesystemAttached.as_str(),
                    why: "a throwaway layer needs kernel 6.6".into(),
                    fix: "leave --copy out".into(),
                });
            }
        })
    };
    let links = attached
        .aliases
        .iter()
        .map(|Alias { target, to }| Ok(Mount::Symlink { target: target.clone(), to: to.clone() }));
    let files = attached
        .files
        .iter()
        .map(|AttachedFile { target, text }| Ok(Mount::Seed { target: target.clone(), text: text.clone() }));
    host.attachments.iter().map(mount).chain(links).chain(files).collect()
}

pub(crate) fn describe(host: &Host, receipt: &mut Receipt) {
    if host.attachments.is_empty() {
        return;
    }
    let shown: Vec<String> = host.attachments.iter().map(|a| a.target.display().to_string()).collect();
    let any = |wanted| host.attachments.iter().any(|attachment| attachment.attach_as == wanted);
    let mut mechanisms = Vec::new();
    if any(AttachAs::Read) {
        mechanisms.push("read-only binds");
    }
    if any(AttachAs::Write) {
        mechanisms.push("binds");
    }
    if any(AttachAs::Copy) {
        mechanisms.push("overlay, writes to a throwaway layer");
    }
    receipt.enforced(Clause::FilesystemAttached, shown.join(", "), mechanisms.join("; "));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_was_looked_at_is_what_is_attached() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("skill")).unwrap();
        fs::create_dir(at("other")).unwrap();
        let id = |name: &str| FileId::of(fs::File::open(at(name)).unwrap()).unwrap();
        let attachment = Attachment {
            source: at("skill"),
            target: "/skills/skill".into(),
            attach_as: AttachAs::Read,
            expected: Some(id("skill")),
        };
        assert_eq!(attachment.look(at("skill")).unwrap(), attachment);
        let unasked = Attachment { expected: None, ..attachment.clone() };
        assert_eq!(unasked.look(at("skill")).unwrap(), attachment);
        fs::rename(at("skill"), at("away")).unwrap();
        fs::rename(at("other"), at("skill")).unwrap();
        let refused = attachment.look(at("skill")).unwrap_err().to_string();
        assert!(refused.contains("recognise"), "{refused}");
        fs::rename(at("skill"), at("other")).unwrap();
        std::os::unix::fs::symlink(at("away"), at("skill")).unwrap();
        assert!(attachment.look(at("skill")).is_err(), "a link is no directory");
    }
}
