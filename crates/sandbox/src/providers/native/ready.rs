//! Sandboxes made ahead of their order. One is made as a run makes it, by the same steps, up to where the order is needed;
//! it waits there, and is used once. Whatever it was made from is looked at again when the order comes: one that does not
//! fit, or is not what would be made now, is thrown away, and the run starts afresh.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ringfence_guard::{FromGuard, ToShim};
use ringfence_linux::seccomp::Rules;
use ringfence_linux::{CgroupLimits, is_hung_up, recv_with_fds, send_with_fds, sweep_cgroups};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};

use super::child::{STILL_COVERED, program};
use super::faults::Steps;
use super::hand_out::Handed;
use super::identity::Wanted;
use super::launch::{Launched, When, failed_inside, hand_over, last_words, make};
use super::supervise::{speaks_the_same, strange};
use super::syscalls;
use crate::attachment::FileId;
use crate::plan::{Mount, Plan};
use crate::protect::Protection;
use crate::refusal::Refusal;
use crate::request::{Request, Stream};
use crate::session::in_memory;
use ringfence_policy::ProviderName;

/// What fits into one message to guard.
const INLINE: usize = 8_000;

/// How far a sandbox is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ahead {
    /// Everything but what comes with the order: its workspace, skills and throwaway layers, and then the walls.
    Open,
    /// The walls are closed: the order brings a command, its variables and its pipes, and nothing to be mounted.
    Closed,
}

/// A sandbox that waits for its order. Dropping it ends it, and takes everything of it away.
pub struct Ready {
    launched: Launched,
    ahead: Ahead,
    plan: Plan,
    trace: bool,
    /// The directories that it shows.
    sources: Vec<(PathBuf, FileId)>,
    mounts: MountWatch,
    steps: Steps,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Ready").field("ahead", &self.ahead).finish_non_exhaustive()
    }
}

impl Ready {
    /// Make one for orders like `request`: those with the same policy, whatever their workspace, skills, environment and
    /// command. `furthest` is [`Ahead::Open`] for orders that have a workspace or skills.
    /// `None` where nothing can be made ahead: a way out needs what only an order has.
    pub fn make(request: &Request, plan: Plan, furthest: Ahead) -> Result<Option<Self>, Refusal> {
        let mut plan = plan;
        if plan.provider != ProviderName::Native || !is_plain(request, &plan) || plan.workspace.is_some() {
            return Ok(None);
        }
        let brings_mounts = plan.mounts.iter().any(|mount| matches!(mount, Mount::Overlay { .. }));
        let ahead = if brings_mounts { Ahead::Open } else { furthest };
        let steps = Steps::for_side("parent");
        let mounts =
            MountWatch::new().map_err(|error| Refusal::step("watch the mounts of this host", "", &error))?;
        let sources = sources(&plan);
        let mut launched = make(request, &mut plan, When::Ahead(ahead), &steps)?;
        // Beside the child, which has more to do.
        if plan.limits.cgroup != CgroupLimits::default() {
            sweep_cgroups(&plan.cgroups);
        }
        loop {
            let message = recv_with_fds(launched.control.as_fd()).unwrap_or_default();
            match FromGuard::decode(&message.bytes) {
                Some(FromGuard::Failed { step, subject, errno }) => {
                    return Err(failed_inside(step, subject, errno));
                }
                Some(FromGuard::Waiting { version }) => {
                    speaks_the_same(version)?;
                    launched.early.push(message);
                    break;
                }
                Some(FromGuard::Network | FromGuard::Ready { .. }) => launched.early.push(message),
                _ => return Err(strange()),
            }
        }
        Ok(Some(Self { launched, ahead, plan, trace: request.trace, sources, mounts, steps }))
    }

    pub fn ahead(&self) -> Ahead {
        self.ahead
    }

    /// Wait until there is something to read from `orders`. False: the sandbox is of no use any more, or this process was
    /// told to end.
    pub fn wait(&self, orders: impl AsFd) -> io::Result<bool> {
        loop {
            let input = PollFlags::IN;
            let mut polled = [
                PollFd::from_borrowed_fd(orders.as_fd(), input),
                PollFd::from_borrowed_fd(self.launched.control.as_fd(), input),
                PollFd::from_borrowed_fd(self.launched.signals.as_fd(), input),
                self.mounts.polled(),
            ];
            match poll(&mut polled, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let [order, control, signals, mounts] = polled.each_ref().map(|fd| !fd.revents().is_empty());
            if mounts {
                self.mounts.seen.set(true);
            }
            // An order that is there is carried out in any case.
            if order || control || signals || mounts {
                return Ok(order);
            }
        }
    }

    /// Give it its order. `None`: it does not fit, or is out of date; nothing of it is left then.
    pub(super) fn hand_out(
        self,
        request: &Request,
        plan: &Plan,
        protection: &Protection,
        files: [OwnedFd; 3],
    ) -> Result<Option<Launched>, Refusal> {
        // One that was killed while it waited is as good as none.
        let is_gone = is_hung_up(self.launched.control.as_fd()).unwrap_or(true);
        if is_gone || !self.fits(request, plan, protection, &files) {
            return Ok(None);
        }
        let Self { mut launched, ahead, steps, .. } = self;
        let sent = match ahead {
            Ahead::Closed => steps
                .run("hand out the sandbox", "", || send_command(&launched, request, plan, &files))
                .map_err(Refusal::from),
            Ahead::Open => send_order(&mut launched, request, plan, protection, &files, &steps),
        };
        match sent {
            Ok(()) => Ok(Some(launched)),
            // It has ended meanwhile, and says why; or was killed, and another can be made.
            Err(refusal) => match last_words(launched.control.as_fd()) {
                Some(why) => Err(why),
                None => Err(refusal),
            },
        }
    }

    fn fits(&self, request: &Request, plan: &Plan, protection: &Protection, files: &[OwnedFd; 3]) -> bool {
        let is_plain = is_plain(request, plan) && request.trace == self.trace;
        let fits = match self.ahead {
            Ahead::Closed => {
                plan.workspace.is_none()
                    && plan.mounts == self.plan.mounts
                    && plan.attached == self.plan.attached
                    && rules(request, plan, protection) == self.launched.rules
                    && files.iter().all(is_pipe)
            }
            Ahead::Open => base(plan).eq(base(&self.plan)),
        };
        is_plain && fits && same_place(plan, &self.plan) && !self.is_stale()
    }

    /// Is it anything but what would be made now?
    fn is_stale(&self) -> bool {
        let moved = |(path, had): &(PathBuf, FileId)| file_id(path).as_ref() != Some(had);
        self.mounts.changed() || self.sources.iter().any(moved)
    }
}

/// Egress is begun before guard and may hold secrets: nothing of it is made ahead. A terminal is the order's own.
fn is_plain(request: &Request, plan: &Plan) -> bool {
    plan.egress.is_none() && matches!(request.stream, Stream::Inherit | Stream::Capture) && !request.learn
}

/// The mounts that are made ahead.
fn base(plan: &Plan) -> impl Iterator<Item = &Mount> {
    plan.mounts.iter().zip(&plan.late).filter_map(|(mount, late)| (!late).then_some(mount))
}

/// Who and where the sandbox is, and what it may use.
fn same_place(one: &Plan, other: &Plan) -> bool {
    let limits =
        |plan: &Plan| (plan.limits.cgroup, plan.limits.processes, plan.limits.open_files, plan.limits.disk);
    one.ids == other.ids
        && one.hostname == other.hostname
        && one.own_network == other.own_network
        && limits(one) == limits(other)
        && one.landlock == other.landlock
        && one.seccomp == other.seccomp
        && one.cgroups == other.cgroups
}

fn rules(request: &Request, plan: &Plan, protection: &Protection) -> Rules {
    syscalls::rules(&request.policy.policy, plan, &protection.git_directories(), request.trace)
}

/// Anything else needs a rule of its own behind closed walls.
fn is_pipe(file: &OwnedFd) -> bool {
    let kind = fstat(file).map(|facts| FileType::from_raw_mode(facts.st_mode));
    matches!(kind, Ok(FileType::Fifo | FileType::Socket))
}

fn send_command(launched: &Launched, request: &Request, plan: &Plan, files: &[OwnedFd; 3]) -> io::Result<()> {
    let program = program(&request.argv, plan)?.encode();
    let [stdin, stdout, stderr] = files.each_ref().map(AsFd::as_fd);
    let control = launched.control.as_fd();
    if program.len() < INLINE {
        return send_with_fds(control, &ToShim::Program(program).encode(), &[stdin, stdout, stderr]);
    }
    let elsewhere = in_memory(&program)?;
    send_with_fds(control, &ToShim::Elsewhere.encode(), &[elsewhere.as_fd(), stdin, stdout, stderr])
}

fn send_order(
    launched: &mut Launched,
    request: &Request,
    plan: &Plan,
    protection: &Protection,
    files: &[OwnedFd; 3],
    steps: &Steps,
) -> Result<(), Refusal> {
    launched.git = protection.git_directories();
    launched.rules = rules(request, plan, protection);
    let filter = if plan.seccomp { Some(syscalls::filter(&launched.rules)?) } else { None };
    let control = launched.control.as_fd();
    let handed = Handed::new(request, plan, protection.pins(), filter.as_ref());
    steps.run("hand out the sandbox", "", || handed.send(control, files))?;
    hand_over(launched.root.pid, plan, Wanted::Late, control, steps)
}

/// Something that it covers was replaced while it waited.
pub(super) fn is_stale(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::Failed { step, .. } if step == STILL_COVERED)
}

fn sources(plan: &Plan) -> Vec<(PathBuf, FileId)> {
    let shown = base(plan).filter_map(|mount| match mount {
        Mount::Bind { source, .. } => Some(source.clone()),
        _ => None,
    });
    shown.filter_map(|path| file_id(&path).map(|id| (path, id))).collect()
}

fn file_id(path: &PathBuf) -> Option<FileId> {
    let facts = std::fs::symlink_metadata(path).ok()?;
    Some(FileId { device: facts.dev(), inode: facts.ino() })
}

/// Tells whether anything was mounted or unmounted on this host since it was made. The kernel tells of it once only.
#[derive(Debug)]
struct MountWatch {
    table: File,
    seen: Cell<bool>,
}

impl MountWatch {
    fn new() -> io::Result<Self> {
        Ok(Self { table: File::open("/proc/self/mountinfo")?, seen: Cell::new(false) })
    }

    fn polled(&self) -> PollFd<'_> {
        PollFd::from_borrowed_fd(self.table.as_fd(), PollFlags::PRI)
    }

    fn changed(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [self.polled()];
        self.seen.get() || !matches!(poll(&mut polled, Some(&now)), Ok(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a mount namespace of this thread's own, if it may have one.
    #[test]
    fn a_mount_is_noticed_for_good() {
        let drill = || {
            if ringfence_linux::unshare_mounts().is_err() {
                println!("skipped: mounting needs root");
                return;
            }
            let place = tempfile::tempdir().unwrap();
            let watch = MountWatch {
                table: File::open("/proc/thread-self/mountinfo").unwrap(),
                seen: Cell::new(false),
            };
            assert!(!watch.changed());
            ringfence_linux::mount_tmpfs(place.path(), None, 1024, 0o700).unwrap();
            let mut polled = [watch.polled()];
            assert_eq!(poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1));
            // The kernel does not say it again: whoever looks first writes it down.
            watch.seen.set(true);
            assert!(watch.changed());
            rustix::mount::unmount(place.path(), rustix::mount::UnmountFlags::DETACH).unwrap();
        };
        std::thread::spawn(drill).join().unwrap();
    }
}
