//! Landlock: a second wall over the same paths as the mounts.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

/// What may be done beneath a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LandlockAccess {
    Read,
    /// List directories, nothing else.
    List,
    /// Read, write and make files; no device nodes.
    Write,
    /// Open device files and use their ioctls.
    Device,
    /// Open one file again, for reading only or for writing only.
    ReadFile,
    WriteFile,
}

/// What a rule is about.
#[derive(Clone, Copy, Debug)]
pub enum LandlockTarget<'a> {
    Path(&'a Path),
    /// A file that is open already: without a rule it can be used, but not opened again by `/proc/self/fd`.
    File(BorrowedFd<'a>),
}

#[derive(Clone, Copy, Debug)]
pub struct LandlockRule<'a> {
    pub target: LandlockTarget<'a>,
    pub access: LandlockAccess,
}

/// The kernel's Landlock ABI, 0 where there is none.
pub fn landlock_abi() -> i32 {
    const VERSION: u32 = 1;
    // SAFETY: with a null attribute and the version flag the call only returns a number.
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0usize, VERSION)
    };
    i32::try_from(abi).unwrap_or(0).max(0)
}

/// `ResolveUnix` is in none of them: where the kernel knows it (ABI 9), a socket can be connected to only if it was made
/// inside.
fn rights(access: LandlockAccess, abi: ABI) -> BitFlags<AccessFs> {
    let read = AccessFs::from_read(abi) & !AccessFs::ResolveUnix;
    match access {
        LandlockAccess::Read => read,
        LandlockAccess::List => AccessFs::ReadDir.into(),
        LandlockAccess::Write => {
            AccessFs::from_all(abi)
                & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev | AccessFs::ResolveUnix)
        }
        LandlockAccess::Device => read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev,
        LandlockAccess::ReadFile => AccessFs::ReadFile.into(),
        LandlockAccess::WriteFile => AccessFs::WriteFile | AccessFs::Truncate,
    }
}

fn other(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Rules that nobody is held to yet.
#[derive(Debug)]
pub struct LandlockRuleset(RulesetCreated);

impl LandlockRuleset {
    pub fn new(rules: &[LandlockRule<'_>]) -> io::Result<Self> {
        let abi = ABI::V9;
        let mut ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(abi))
            .map_err(other)?
            .scope(Scope::from_all(abi))
            .map_err(other)?
            .create()
            .map_err(other)?;
        for rule in rules {
            // On a file the rights that only directories have are left out by the library.
            let access = rights(rule.access, abi);
            ruleset = match rule.target {
                LandlockTarget::Path(path) => {
                    ruleset.add_rule(PathBeneath::new(PathFd::new(path).map_err(other)?, access))
                }
                LandlockTarget::File(file) => ruleset.add_rule(PathBeneath::new(file, access)),
            }
            .map_err(other)?;
        }
        Ok(Self(ruleset))
    }

    /// Confine this process and its children: everything else on the filesystem is refused. Signals and abstract sockets
    /// stay inside too, where the kernel can do that.
    pub fn enforce(self) -> io::Result<()> {
        let status = self.0.restrict_self().map_err(other)?;
        if status.ruleset == RulesetStatus::NotEnforced {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        Ok(())
    }
}
