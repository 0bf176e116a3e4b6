//! The owner's side of a sandbox: prepare, fork, hand over, watch, and take everything away again.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

use ringfence_guard::FromGuard;
use ringfence_linux::seccomp::Rules;
use ringfence_linux::{
    Cgroup, CgroupError, Exited, Fork, Hierarchy, Message, Namespaces, SignalFd, control_pair, exit_now,
    fork_into, is_hung_up, recv_with_fds, send_with_fds, unblock_all, wait_for,
};
use ringfence_policy::ProviderName;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, pidfd_send_signal};

use super::child::{Inheritance, Maker, Order, Start, live};
use super::egress::Egress;
use super::faults::Steps;
use super::identity::{Wanted, map_from_outside, map_trees};
use super::ready::{Ahead, Ready, is_stale};
use super::setup::Failure;
use super::supervise::{Watched, supervise};
use super::warden::Warden;
use super::written::Written;
use super::{stdio, syscalls};
use crate::infer::infer;
use crate::network::trust_mounts;
use crate::outcome::{Captured, End, Outcome, Usage};
use crate::plan::Plan;
use crate::protect::{GitDirectory, Protection, sweep_placeholders};
use crate::providers::docker::{self, Container};
use crate::providers::outer::{self, Errand, Made, Order as RemoteOrder, Outer};
use crate::providers::{Wrapper, program_name};
use crate::refusal::{Refusal, fix_for};
use crate::request::{Request, Stream};

/// Signals that are passed on to the command, or end it.
pub(super) const FORWARDED: &[i32] = &[1, 2, 3, 10, 12, 15, 18, 20, 28];

/// How many descriptors travel in one message.
const TREES_A_MESSAGE: usize = 16;

impl From<Failure> for Refusal {
    fn from(Failure { step, subject, errno }: Failure) -> Self {
        let why = std::io::Error::from_raw_os_error(errno).to_string();
        let fix = match (step, errno) {
            ("map the owner of files in", _) => "this filesystem can't show files under another owner, and root is \
                 never mapped into a sandbox: use a workspace on ext4, xfs, btrfs or tmpfs, or run as an ordinary user"
                .into(),
            _ => fix_for(step, errno),
        };
        Self::Failed { step: step.into(), subject, why, fix }
    }
}

fn cgroup_refusal(error: &CgroupError) -> Refusal {
    Refusal::Failed {
        step: error.action.into(),
        subject: error.path.display().to_string(),
        why: error.source.to_string(),
        fix: "run `ringfence doctor`, or lift the limits with --waive limits.memory and the like".into(),
    }
}

/// The first process of a sandbox; gone, and everything in its pid namespace with it, when this is dropped.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) pid: i32,
    pidfd: OwnedFd,
    waited: bool,
    /// Whose child it is, where that is not this process.
    outer: Option<Outer>,
    /// What it is in, where a daemon made that.
    container: Option<Container>,
}

impl Root {
    pub(crate) fn kill(&self) {
        let _ = pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// How it ended, its CPU time in microseconds and its largest resident size.
    pub(crate) fn wait(&mut self) -> Option<(Exited, u64, u64)> {
        self.waited = true;
        if self.outer.is_none() && self.container.is_none() {
            return wait_for(self.pid).ok().flatten();
        }
        let used = self.outer.as_mut().and_then(Outer::wait);
        // If its parent was killed first, it ends by itself, and is another's to wait for.
        let mut polled = [PollFd::from_borrowed_fd(self.pidfd.as_fd(), PollFlags::IN)];
        let _ = rustix::io::retry_on_intr(|| poll(&mut polled, None));
        used
    }

    /// What could not be taken away of whatever it was in.
    fn left_behind(&mut self) -> Option<String> {
        self.container.as_mut().and_then(Container::remove)
    }
}

impl Root {
    fn end(&mut self) {
        if !self.waited {
            self.kill();
            self.wait();
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        self.end();
    }
}

/// What is left of a sandbox whose command has ended: the kernel takes it down. Dropping this waits until it is gone.
#[derive(Debug, Default)]
#[must_use = "a sandbox is gone when this is cleared"]
pub struct Remains {
    /// Before the group, which can't be removed as long as it has processes.
    root: Option<Root>,
    cgroup: Option<Cgroup>,
}

impl Remains {
    /// Wait until all of it is gone; with what is not.
    pub fn clear(mut self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(mut root) = self.root.take() {
            root.end();
            notes.extend(root.left_behind());
        }
        // The command has run: what came of it is not lost for this.
        let left = self.cgroup.as_mut().and_then(|cgroup| cgroup.remove().err());
        notes.extend(left.map(|error| format!("left behind: {error}")));
        notes
    }
}

/// Make a sandbox, or take the one that was made ahead where it fits, and run the command to its end. Where it could write
/// in a workspace of the user's, nothing remains of it.
pub(crate) fn run(
    request: &Request,
    plan: Plan,
    ready: Option<Ready>,
) -> Result<(Outcome, Remains), Refusal> {
    let protection = match &plan.workspace {
        Some(workspace) => {
            sweep_placeholders(&request.state);
            Protection::prepare(workspace, &request.state)?
        }
        None => Protection::none(),
    };
    let shared = plan.workspace.is_some();
    let ran = run_protected(request, plan, &protection, ready);
    if !shared {
        return ran;
    }
    let cleared = ran.map(|(mut outcome, remains)| {
        outcome.notes.extend(remains.clear());
        outcome
    });
    let notes = protection.finish();
    cleared.map(|mut outcome| {
        outcome.notes.extend(notes);
        (outcome, Remains::default())
    })
}

/// A sandbox that is being built, with all that its owner holds of it.
pub(crate) struct Launched {
    pub(crate) root: Root,
    /// After `root`, so that it is dropped after it: a group with processes can't be removed.
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) control: OwnedFd,
    pub(crate) signals: SignalFd,
    pub(super) rules: Rules,
    pub(super) git: Vec<GitDirectory>,
    egress: Option<Egress>,
    /// What guard said before anybody watched.
    pub(super) early: Vec<Message>,
}

impl Launched {
    /// What takes a moment to be gone.
    fn remains(self) -> Remains {
        Remains { root: Some(self.root), cgroup: self.cgroup }
    }

    /// Who serves it from now on.
    pub(crate) fn warden<'a>(&'a mut self, plan: &'a Plan, trace: bool) -> (Warden<'a>, Held<'a>) {
        let Self { root, cgroup, control, signals, rules, git, egress, .. } = self;
        let control: BorrowedFd<'a> = OwnedFd::as_fd(control);
        let warden = Warden::new(plan, rules, git, trace, (root.pid, control), egress.take());
        (warden, Held { root, cgroup, control, signals })
    }
}

#[cfg(test)]
impl Launched {
    /// Held as every other, but for a first process that is of no sandbox: guard is whoever has the other end of `control`.
    pub(crate) fn stand_in(control: OwnedFd) -> Self {
        let pid = std::process::Command::new("sleep").arg("600").spawn().expect("a process").id() as i32;
        let number = rustix::process::Pid::from_raw(pid).expect("a pid");
        let pidfd =
            rustix::process::pidfd_open(number, rustix::process::PidfdFlags::empty()).expect("a pidfd");
        Self {
            root: Root { pid, pidfd, waited: false, outer: None, container: None },
            cgroup: None,
            control,
            signals: SignalFd::new(&[12]).expect("a signalfd"),
            rules: Rules::default(),
            git: Vec::new(),
            egress: None,
            early: Vec::new(),
        }
    }
}

/// The rest of what is held.
pub(crate) struct Held<'a> {
    pub(crate) root: &'a mut Root,
    pub(crate) cgroup: &'a mut Option<Cgroup>,
    pub(crate) control: BorrowedFd<'a>,
    pub(crate) signals: &'a SignalFd,
}

/// How much of the order is known.
pub(super) enum When<'a> {
    Now { protection: &'a Protection, files: [OwnedFd; 3] },
    Ahead(Ahead),
}

/// Fork the sandbox's first process and hand it what only its owner can give.
pub(crate) fn launch(
    request: &Request,
    plan: &mut Plan,
    protection: &Protection,
    files: [OwnedFd; 3],
) -> Result<Launched, Refusal> {
    make(request, plan, When::Now { protection, files }, &Steps::for_side("parent"))
}

/// As far as what is known of the order goes.
pub(super) fn make(
    request: &Request,
    plan: &mut Plan,
    when: When<'_>,
    steps: &Steps,
) -> Result<Launched, Refusal> {
    // Before guard, which is a copy of this process as it is then, and before anything that egress should not have.
    let egress = match &plan.egress {
        Some(planned) => {
            let (egress, authority) = Egress::start(planned, steps)?;
            let trusted = authority.map(|authority| trust_mounts(planned, &authority));
            plan.mounts.extend(trusted.into_iter().flatten());
            Some(egress)
        }
        None => None,
    };
    let plan = &*plan;
    let hierarchy = plan.cgroups.clone();
    let git = match &when {
        When::Now { protection, .. } => protection.git_directories(),
        When::Ahead(_) => Vec::new(),
    };
    let rules = syscalls::rules(&request.policy.policy, plan, &git, request.trace);
    let filter = if plan.seccomp { Some(syscalls::filter(&rules)?) } else { None };
    let (control, far_control) = steps.run("make a control channel", "", control_pair)?;
    let signals = steps.run("watch signals", "", || SignalFd::new(FORWARDED))?;
    let wrapped = Wrapper::of(plan.provider);
    let needs_cgroup = plan.limits.cgroup != Default::default();
    // v2 enters at the fork; v1 is made beside it, while the child builds its root.
    let early = if needs_cgroup && matches!(hierarchy, Hierarchy::V2 { .. }) {
        Some(make_cgroup(&hierarchy, plan, steps)?)
    } else {
        None
    };
    let entrance =
        early.as_ref().map(Cgroup::v2_directory).transpose().map_err(|error| cgroup_refusal(&error))?;
    let entrance = entrance.flatten();
    if let Some(wrapper) = wrapped {
        let When::Now { protection, files } = when else { return Err(only_native_is_made_ahead()) };
        let order = RemoteOrder::new(request, plan, protection.pins(), filter.as_ref());
        let errand = Errand {
            plan,
            program: &program_name(plan),
            told: &|given| wrapper.told(plan, given),
            order: &order,
            stdio: files,
            control: control.as_fd(),
            far_control,
            cgroup: entrance.as_ref().filter(|_| wrapper.starts_in_cgroup()).map(AsFd::as_fd),
        };
        let Made { outer, pid, pidfd } = outer::launch(errand, steps)?;
        let root = Root { pid, pidfd, waited: false, outer: Some(outer), container: None };
        let mut launched =
            Launched { root, cgroup: early, control, signals, rules, git, egress, early: Vec::new() };
        if needs_cgroup && launched.cgroup.is_none() {
            launched.cgroup = Some(make_cgroup(&hierarchy, plan, steps)?);
        }
        if let (Some(cgroup), false) = (&launched.cgroup, wrapper.starts_in_cgroup()) {
            cgroup.take_in(pid).map_err(|error| cgroup_refusal(&error))?;
        }
        return match let_in(launched.cgroup.as_ref(), launched.control.as_fd(), steps) {
            Ok(()) => Ok(launched),
            Err(refusal) => Err(last_words(launched.control.as_fd()).unwrap_or(refusal)),
        };
    }
    if plan.provider == ProviderName::Docker {
        let When::Now { protection, files } = when else { return Err(only_native_is_made_ahead()) };
        drop((control, far_control, entrance));
        let order = RemoteOrder::new(request, plan, protection.pins(), filter.as_ref());
        let errand = docker::Errand { plan, order: &order, stdio: files, state: &request.state };
        let docker::Made { container, control, pid, pidfd } = docker::launch(errand, steps)?;
        let root = Root { pid, pidfd, waited: false, outer: None, container: Some(container) };
        let mut launched =
            Launched { root, cgroup: early, control, signals, rules, git, egress, early: Vec::new() };
        if needs_cgroup && launched.cgroup.is_none() {
            launched.cgroup = Some(make_cgroup(&hierarchy, plan, steps)?);
        }
        if let Some(cgroup) = &launched.cgroup {
            cgroup.take_in(pid).map_err(|error| cgroup_refusal(&error))?;
        }
        return match let_in(launched.cgroup.as_ref(), launched.control.as_fd(), steps) {
            Ok(()) => Ok(launched),
            Err(refusal) => Err(last_words(launched.control.as_fd()).unwrap_or(refusal)),
        };
    }
    let forked =
        steps.run("make namespaces", "", || fork_into(namespaces(), entrance.as_ref().map(AsFd::as_fd)))?;
    let Fork::Parent { pid, pidfd } = forked else {
        drop((control, signals));
        if unblock_all().is_err() {
            exit_now(1);
        }
        let (argv, stream, filter) = (&request.argv[..], request.stream, filter.as_ref());
        let start = match when {
            When::Now { protection, files: stdio } => {
                Start::Now(Order { argv, stream, pins: protection.pins(), stdio, filter })
            }
            When::Ahead(Ahead::Open) => Start::Open,
            When::Ahead(Ahead::Closed) => Start::Closed { filter },
        };
        let shape = plan.egress.as_ref().map(|egress| &egress.shape);
        live(
            far_control,
            Inheritance {
                plan,
                start,
                maker: Maker::Owner,
                steps: Steps::for_side("child"),
                shape,
                anew: None,
            },
        )
    };
    let wanted = if matches!(when, When::Now { .. }) { Wanted::All } else { Wanted::Ahead };
    let mut cgroup = early;
    let root = Root { pid, pidfd, waited: false, outer: None, container: None };
    drop((far_control, when, entrance));
    let mapped = steps.run("write the id map", "", || map_from_outside(pid, &plan.ids));
    let handed = mapped.map_err(Refusal::from).and_then(|()| {
        hand_over(pid, plan, wanted, control.as_fd(), steps)?;
        if needs_cgroup && cgroup.is_none() {
            cgroup = Some(make_cgroup(&hierarchy, plan, steps)?);
        }
        let_in(cgroup.as_ref(), control.as_fd(), steps)
    });
    let launched = Launched { root, cgroup, control, signals, rules, git, egress, early: Vec::new() };
    // A child that has failed says why; that its owner could not reach it then is only what follows.
    match handed {
        Ok(()) => Ok(launched),
        Err(refusal) => Err(last_words(launched.control.as_fd()).unwrap_or(refusal)),
    }
}

fn only_native_is_made_ahead() -> Refusal {
    Refusal::bad("only `native` makes sandboxes ahead of their order", "leave --provider or the pool out")
}

fn run_protected(
    request: &Request,
    mut plan: Plan,
    protection: &Protection,
    ready: Option<Ready>,
) -> Result<(Outcome, Remains), Refusal> {
    let started = Instant::now();
    // One that waits was made by `native`.
    let handed = match ready.filter(|_| plan.provider == ProviderName::Native) {
        Some(ready) => {
            let (files, pipes) = stdio::prepare(request.stream)?;
            ready.hand_out(request, &plan, protection, files)?.map(|launched| (launched, pipes))
        }
        None => None,
    };
    if let Some((mut launched, pipes)) = handed {
        match attend(request, &plan, &mut launched, pipes, started) {
            // Nothing has run: what the host has replaced since shows through in this one, and not in a new one.
            Err(refusal) if is_stale(&refusal) => {}
            ran => return Ok((ran?, launched.remains())),
        }
    }
    let (files, pipes) = stdio::prepare(request.stream)?;
    let mut launched = launch(request, &mut plan, protection, files)?;
    let outcome = attend(request, &plan, &mut launched, pipes, started)?;
    Ok((outcome, launched.remains()))
}

/// Watch the command to its end.
fn attend(
    request: &Request,
    plan: &Plan,
    launched: &mut Launched,
    pipes: Option<stdio::Pipes>,
    started: Instant,
) -> Result<Outcome, Refusal> {
    let written = Written::since(request.stream);
    let early = std::mem::take(&mut launched.early);
    let ahead = !early.is_empty();
    let (warden, held) = launched.warden(plan, request.trace);
    let Held { root, cgroup, control, signals } = held;
    let ended = supervise(Watched { request, plan, root, control, signals, pipes, warden, started, early });
    root.kill();
    // Beside the kernel, which takes the namespaces down now.
    let mut ended = ended?;
    if let Some(cgroup) = &cgroup {
        ended.note_limits(cgroup, request, plan);
    }
    // Only a captured run's caller sees them.
    let counted = cgroup.as_ref().filter(|_| request.stream == Stream::Capture);
    let peak_memory = counted.and_then(Cgroup::peak_memory);
    let peak_processes = counted.and_then(Cgroup::peak_processes);
    let used = ended.used.or_else(|| root.wait().map(|(_, cpu, memory)| (cpu, memory)));
    let usage = Usage {
        cpu: std::time::Duration::from_micros(used.map_or(0, |(cpu, _)| cpu)),
        max_memory: peak_memory.or(used.map(|(_, memory)| memory)).unwrap_or(0),
        processes: peak_processes.map_or(1, |peak| peak.saturating_sub(1)),
    };
    let end = ended.end.unwrap_or(End::Exited(Exited::Signal(9)));
    if end != End::Exited(Exited::Code(0)) {
        ended.infer_limits(request, plan);
    }
    if !request.trace && end != End::Exited(Exited::Code(0)) {
        let inherited = written.map(Written::read).unwrap_or_default();
        let stderr = if ended.stderr.is_empty() { &inherited } else { &ended.stderr };
        for denial in infer(plan, &plan.directory, stderr, |path| path.symlink_metadata().is_ok()) {
            ended.denials.add(denial);
        }
    }
    Ok(Outcome {
        end,
        duration: started.elapsed(),
        start: ended.start,
        usage,
        captured: Captured { stdout: ended.stdout, stderr: ended.stderr, truncated: ended.truncated },
        denials: ended.denials.into_vec(),
        notes: Vec::new(),
        network: ended.network,
        receipt: plan.receipt.clone(),
        ahead,
    })
}

/// Let the child enter its cgroup and go on.
fn let_in(cgroup: Option<&Cgroup>, control: BorrowedFd<'_>, steps: &Steps) -> Result<(), Refusal> {
    let entrances = match cgroup {
        Some(cgroup) => cgroup.v1_entrances().map_err(|error| cgroup_refusal(&error))?,
        None => Vec::new(),
    };
    let fds: Vec<BorrowedFd<'_>> = entrances.iter().map(AsFd::as_fd).collect();
    Ok(steps.run("let the sandbox go on", "", || send_with_fds(control, b"g", &fds))?)
}

/// Why the child gave up, if it has; what it said before that is read past.
pub(in crate::providers) fn last_words(control: BorrowedFd<'_>) -> Option<Refusal> {
    if !is_hung_up(control).ok()? {
        return None;
    }
    loop {
        let said = recv_with_fds(control).ok()?.bytes;
        match FromGuard::decode(&said) {
            Some(FromGuard::Failed { step, subject, errno }) => {
                return Some(failed_inside(step, subject, errno));
            }
            _ if said.is_empty() => return None,
            _ => {}
        }
    }
}

/// A step of the set-up that failed in the child.
pub(crate) fn failed_inside(step: String, subject: String, errno: i32) -> Refusal {
    let why = std::io::Error::from_raw_os_error(errno).to_string();
    let fix = fix_for(&step, errno);
    Refusal::Failed { step, subject, why, fix }
}

/// All but the network's, which the child makes beside the rest of its work.
pub(in crate::providers) fn namespaces() -> Namespaces {
    Namespaces::USER.and(Namespaces::MOUNT).and(Namespaces::PID).and(Namespaces::IPC).and(Namespaces::UTS)
}

fn make_cgroup(hierarchy: &Hierarchy, plan: &Plan, steps: &Steps) -> Result<Cgroup, Refusal> {
    steps.run("make a cgroup", "", || Ok(()))?;
    Cgroup::create(hierarchy, &plan.limits.cgroup).map_err(|error| cgroup_refusal(&error))
}

/// Send the child the trees that only the owner can map.
pub(super) fn hand_over(
    pid: i32,
    plan: &Plan,
    wanted: Wanted,
    control: BorrowedFd<'_>,
    steps: &Steps,
) -> Result<(), Refusal> {
    let trees = map_trees(pid, plan, wanted, steps)?;
    send_trees(control, &trees, steps)
}

/// Send the child what was cloned for it, each with its place in the plan, and let it go on.
pub(in crate::providers) fn send_trees(
    control: BorrowedFd<'_>,
    trees: &[(usize, OwnedFd)],
    steps: &Steps,
) -> Result<(), Refusal> {
    for chunk in trees.chunks(TREES_A_MESSAGE) {
        let indices: Vec<u8> = chunk.iter().flat_map(|(index, _)| (*index as u16).to_le_bytes()).collect();
        let fds: Vec<BorrowedFd<'_>> = chunk.iter().map(|(_, tree)| tree.as_fd()).collect();
        steps.run("send the workspace in", "", || send_with_fds(control, &indices, &fds))?;
    }
    Ok(steps.run("let the sandbox be built", "", || send_with_fds(control, b"m", &[]))?)
}
