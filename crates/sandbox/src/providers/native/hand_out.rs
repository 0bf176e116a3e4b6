//! An order as it travels to a sandbox that was made ahead and waits open: what is mounted yet, and what to start.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use ringfence_guard::FromGuard;
use ringfence_linux::seccomp::{Insn, Program};
use ringfence_linux::{exit_now, send_with_fds};
use serde::{Deserialize, Serialize};

use super::child::Order;
use super::faults::Steps;
use super::setup::Failure;
use crate::attachment::FileId;
use crate::plan::{Mount, Plan, PlannedWorkspace};
use crate::protect::Pins;
use crate::request::{Request, Stream};
use crate::session::Link;

/// What of a plan the child does not know yet.
#[derive(Serialize, Deserialize)]
pub(in crate::providers) struct Handed {
    argv: Vec<Vec<u8>>,
    mounts: Vec<Mount>,
    late: Vec<bool>,
    workspace: Option<PlannedWorkspace>,
    /// Which directory that is.
    device: u64,
    inode: u64,
    attached: Vec<(PathBuf, FileId)>,
    environment: Vec<(String, String)>,
    directory: PathBuf,
    pins: Pins,
    filter: Option<Vec<(u16, u8, u8, u32)>>,
}

/// The same, with the rest of the plan, in the child.
pub(in crate::providers) struct Unpacked {
    pub(in crate::providers) plan: Plan,
    argv: Vec<OsString>,
    pins: Pins,
    filter: Option<Program>,
}

impl Handed {
    /// In the owner.
    pub(in crate::providers) fn new(
        request: &Request,
        plan: &Plan,
        pins: &Pins,
        filter: Option<&Program>,
    ) -> Self {
        let parts = |Insn { code, jt, jf, k }: &Insn| (*code, *jt, *jf, *k);
        Self {
            argv: request.argv.iter().map(|word| word.as_bytes().to_vec()).collect(),
            mounts: plan.mounts.clone(),
            late: plan.late.clone(),
            device: plan.workspace.as_ref().map_or(0, |workspace| workspace.device),
            inode: plan.workspace.as_ref().map_or(0, |workspace| workspace.inode),
            workspace: plan.workspace.clone(),
            attached: plan.attached.clone(),
            environment: plan.environment.clone(),
            directory: plan.directory.clone(),
            pins: pins.clone(),
            filter: filter.map(|filter| filter.instructions().iter().map(parts).collect()),
        }
    }

    pub(super) fn send(&self, control: BorrowedFd<'_>, stdio: &[OwnedFd; 3]) -> io::Result<()> {
        let link = Link::new(control.try_clone_to_owned()?);
        link.send(self, &stdio.each_ref().map(AsFd::as_fd))
    }

    /// In the child: say that it waits, and wait. Ends where the owner goes first.
    pub(super) fn receive(control: &OwnedFd, steps: &Steps) -> Result<(Self, [OwnedFd; 3]), Failure> {
        steps.run("wait for the order", "", || {
            send_with_fds(control.as_fd(), &FromGuard::waiting().encode(), &[])
        })?;
        steps.run("hear the order", "", || {
            let link = Link::new(control.try_clone()?);
            let Some((handed, fds)) = link.receive::<Self>()? else { exit_now(1) };
            Ok((handed, as_stdio(fds)?))
        })
    }

    /// With what was known before it came.
    pub(in crate::providers) fn unpack(self, base: &Plan) -> Unpacked {
        let Self { argv, mounts, late, workspace, device, inode, attached, environment, directory, .. } =
            self;
        let workspace = workspace.map(|workspace| PlannedWorkspace { device, inode, ..workspace });
        let insn = |(code, jt, jf, k)| Insn { code, jt, jf, k };
        let filter =
            self.filter.map(|parts| Program::from_instructions(parts.into_iter().map(insn).collect()));
        let plan = Plan { mounts, late, workspace, attached, environment, directory, ..base.clone() };
        Unpacked { plan, argv: argv.into_iter().map(OsString::from_vec).collect(), pins: self.pins, filter }
    }
}

impl Unpacked {
    /// What to start, and the filter to install before.
    pub(super) fn command(&self) -> (&[OsString], Option<&Program>) {
        (&self.argv, self.filter.as_ref())
    }

    pub(in crate::providers) fn order(&self, stream: Stream, stdio: [OwnedFd; 3]) -> Order<'_> {
        let Self { argv, pins, filter, .. } = self;
        Order { argv, stream, pins, stdio, filter: filter.as_ref() }
    }
}

/// What came with an order, at numbers above 2.
pub(in crate::providers) fn as_stdio(fds: Vec<OwnedFd>) -> io::Result<[OwnedFd; 3]> {
    let above = |fd: OwnedFd| Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?);
    let fds = fds.into_iter().map(above).collect::<io::Result<Vec<_>>>()?;
    <[OwnedFd; 3]>::try_from(fds).map_err(|_| io::ErrorKind::InvalidData.into())
}
