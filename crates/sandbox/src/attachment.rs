//! Directories of the host at places of our own choosing inside: skills, and what they need. They are no part of a
//! policy, since the caller names what to run and not where it comes to lie.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use ringfence_policy::Clause;

use crate::host::Host;
use crate::plan::{Access, Mount};
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

/// What tells a file from another that takes its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// What comes with a command beside its policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    pub directories: Vec<Attachment>,
    pub aliases: Vec<Alias>,
    /// Places in what is attached that are shown empty.
    pub hidden: Vec<PathBuf>,
    /// Searched for programs before the rest of PATH.
    pub path: Vec<PathBuf>,
    /// Set unless the policy sets them.
    pub variables: Vec<(String, String)>,
    /// For what is attached to be written.
    pub bound: Option<WriteBound>,
}

pub(crate) fn plan_attachments(host: &Host, aliases: &[Alias]) -> Result<Vec<Mount>, Refusal> {
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
    let links = aliases
        .iter()
        .map(|Alias { target, to }| Ok(Mount::Symlink { target: target.clone(), to: to.clone() }));
    host.attachments.iter().map(mount).chain(links).collect()
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
