//! The owner's one loop, from the set-up to the end: guard's messages, closed calls, signals, output, the deadline.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_guard::{FromGuard, GUARD_VERSION, ToGuard};
use ringfence_linux::{
    Cgroup, CgroupLimits, Message, SignalFd, recv_with_fds, send_with_fds, stop_self, sweep_cgroups,
};
use ringfence_policy::{Blocked, Clause, Origin};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{SeekFrom, seek};
use rustix::termios::isatty;

use super::child::{DISK_FULL, TMP_FULL};
use super::launch::{Root, failed_inside};
use super::relay::Relay;
use super::stdio::Pipes;
use super::warden::{Call, Warden};
use crate::denial::{Denial, DenialKind, Denials};
use crate::infer::infer_limits;
use crate::network_record::NetworkRecord;
use crate::outcome::End;
use crate::plan::Plan;
use crate::protect::sweep_placeholders;
use crate::refusal::Refusal;
use crate::request::{Request, Stream};
use crate::write_bound::{BoundWatch, beyond_quota};

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGTSTP: i32 = 20;
const SIGWINCH: i32 = 28;

/// How long a command has to end itself after it was told to.
const GRACE: Duration = Duration::from_secs(2);

/// Everything that the loop looks at.
pub(super) struct Watched<'a> {
    pub(super) request: &'a Request,
    pub(super) plan: &'a Plan,
    pub(super) root: &'a Root,
    pub(super) control: BorrowedFd<'a>,
    pub(super) signals: &'a SignalFd,
    pub(super) pipes: Option<Pipes>,
    pub(super) warden: Warden<'a>,
    pub(super) started: Instant,
    /// What guard said before: the sandbox was made ahead, and swept for then.
    pub(super) early: Vec<Message>,
}

/// What the loop has seen.
#[derive(Debug, Default)]
pub(super) struct Ended {
    pub(super) end: Option<End>,
    /// CPU time in microseconds and largest resident size, where guard could say them.
    pub(super) used: Option<(u64, u64)>,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) truncated: bool,
    pub(super) denials: Denials,
    pub(super) network: Option<NetworkRecord>,
    /// How long it took until the walls were up.
    pub(super) start: Option<Duration>,
}

/// What guard never says to this owner.
pub(crate) fn strange() -> Refusal {
    Refusal::bad("guard sent something strange", "report this as a bug")
}

/// Both must speak the same: what one of them says means something else to the other, or nothing.
pub(crate) fn speaks_the_same(version: u16) -> Result<(), Refusal> {
    if version == GUARD_VERSION { Ok(()) } else { Err(other_version(version)) }
}

pub(crate) fn other_version(version: u16) -> Refusal {
    let what = format!(
        "the sandbox's guard speaks version {version} of its protocol, this ringfence speaks {GUARD_VERSION}: nothing was run"
    );
    Refusal::bad(
        what,
        "both must be of one build: install ringfence again, and end what still runs of the old one",
    )
}

/// A limit that was reached.
pub(crate) fn limit_denial(request: &Request, plan: &Plan, clause: Clause) -> Denial {
    let value = plan.receipt.clauses.iter().find(|line| line.clause == clause);
    let value = value.map_or(String::new(), |line| line.value.clone());
    let mut denial = Denial::new(DenialKind::Limit, &Blocked::Limit { clause, value });
    if matches!(request.policy.origins.of(clause.as_str()), Origin::Flag(_)) {
        // Given on the command line, it is raised there: a file would then hold for every run.
        denial.setting = None;
    }
    if clause == Clause::LimitDisk && plan.workspace.is_some() {
        // A larger one is refused beside a workspace of the user's own, which it could not hold for.
        let name = clause.as_str();
        denial.flag = Some(format!("--waive {name}"));
        denial.setting = Some((String::new(), "waive".into(), format!("[\"{name}\"]")));
        denial.remedy = format!(
            "HOME and the other private layers are full, lift their limit with `--waive {name}`, or write to the \
             workspace"
        );
    }
    denial
}

impl Ended {
    /// What the output tells of limits that nobody counted.
    pub(super) fn infer_limits(&mut self, request: &Request, plan: &Plan) {
        for clause in infer_limits(&self.stderr) {
            if !self.denials.has_limit(clause) {
                let denial = limit_denial(request, plan, clause).inferred();
                self.denials.add(denial);
            }
        }
    }

    /// What the cgroup counted.
    pub(super) fn note_limits(&mut self, cgroup: &Cgroup, request: &Request, plan: &Plan) {
        let counts = cgroup.counts();
        for (count, clause) in
            [(counts.oom_kills(), Clause::LimitMemory), (counts.refused_forks(), Clause::LimitProcesses)]
        {
            if count > 0 {
                let denial = Denial { count, ..limit_denial(request, plan, clause) };
                self.denials.add(denial);
            }
        }
    }
}

enum Source {
    Control,
    Signals,
    Warden(Call),
    Stdout,
    Stderr,
    Terminal,
    Keyboard,
    Hangup,
}

struct Loop<'a> {
    watched: Watched<'a>,
    seen: Ended,
    relay: Option<Relay>,
    /// The file that the command reads, where it is not the caller's own descriptor.
    stdin: Option<OwnedFd>,
    deadline: Option<Instant>,
    bound: Option<BoundWatch>,
    /// When the command is killed after it was asked to end, and by which signal it was asked.
    asked: Option<(Instant, i32)>,
    watch_terminal: bool,
    swept: bool,
}

pub(super) fn supervise(watched: Watched<'_>) -> Result<Ended, Refusal> {
    let deadline = watched.plan.limits.wall_time.map(|limit| watched.started + limit);
    let watch_terminal = watched.request.stream == Stream::Inherit && isatty(rustix::stdio::stdin());
    let bound = BoundWatch::new(&watched.request.attached);
    let mut watched = watched;
    let early = std::mem::take(&mut watched.early);
    let mut watch = Loop {
        swept: !early.is_empty(),
        watched,
        seen: Ended::default(),
        relay: None,
        stdin: None,
        deadline,
        bound,
        asked: None,
        watch_terminal,
    };
    for message in early {
        watch.take(message)?;
    }
    while watch.seen.end.is_none() {
        watch.turn()?;
    }
    watch.drain();
    Ok(watch.seen)
}

/// Read once, keeping no more than fits; how much was read and how much of that is kept. A function of its own: the buffer is
/// on the stack, and a frame of that size costs a fault for each page even where nothing is read.
#[inline(never)]
fn read_within(pipe: BorrowedFd<'_>, kept: &mut Vec<u8>, limit: usize) -> (usize, usize) {
    let mut buffer = [0; 65_536];
    let read = rustix::io::read(pipe, &mut buffer).unwrap_or(0);
    let room = limit.saturating_sub(kept.len()).min(read);
    kept.extend_from_slice(&buffer[..room]);
    (read, room)
}

impl Loop<'_> {
    /// Wait for something and deal with all that is ready.
    fn turn(&mut self) -> Result<(), Refusal> {
        let ready = self.wait()?;
        for source in ready {
            match source {
                Source::Control => self.hear_guard()?,
                Source::Signals => self.take_signals(),
                Source::Warden(call) => self.watched.warden.take(call, &mut self.seen.denials)?,
                Source::Stdout | Source::Stderr => {
                    self.read_output();
                }
                Source::Terminal | Source::Keyboard => {
                    if let Some(relay) = &mut self.relay {
                        relay.carry();
                    }
                }
                Source::Hangup => {
                    self.watch_terminal = false;
                    self.ask(SIGHUP);
                }
            }
        }
        self.watched.warden.look(&mut self.seen.denials);
        self.check_time();
        Ok(())
    }

    fn wait(&self) -> Result<Vec<Source>, Refusal> {
        let mut sources = vec![Source::Control, Source::Signals];
        let input = PollFlags::IN;
        let mut polled = vec![
            PollFd::from_borrowed_fd(self.watched.control, input),
            PollFd::from_borrowed_fd(self.watched.signals.as_fd(), input),
        ];
        let mut calls = Vec::new();
        self.watched.warden.polled(&mut calls, &mut polled);
        sources.extend(calls.into_iter().map(Source::Warden));
        if let Some(pipes) = &self.watched.pipes {
            sources.extend([Source::Stdout, Source::Stderr]);
            polled.push(PollFd::from_borrowed_fd(pipes.stdout.as_fd(), input));
            polled.push(PollFd::from_borrowed_fd(pipes.stderr.as_fd(), input));
        }
        if let Some(relay) = &self.relay {
            sources.push(Source::Terminal);
            polled.push(relay.output());
            if let Some(keyboard) = relay.keyboard() {
                sources.push(Source::Keyboard);
                polled.push(PollFd::from_borrowed_fd(keyboard, input));
            }
        }
        let terminal = rustix::stdio::stdin();
        if self.watch_terminal {
            sources.push(Source::Hangup);
            polled.push(PollFd::from_borrowed_fd(terminal, PollFlags::empty()));
        }
        // Behind all that have a name: they are looked at after every turn.
        polled.extend(self.watched.warden.waiting());
        match poll(&mut polled, self.patience().as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Refusal::step("wait for the sandbox", "", &error.into())),
        }
        let ready = polled.iter().map(|fd| !fd.revents().is_empty());
        Ok(sources.into_iter().zip(ready).filter_map(|(source, ready)| ready.then_some(source)).collect())
    }

    fn patience(&self) -> Option<Timespec> {
        let bound = self.bound.as_ref().map(BoundWatch::due);
        let next = [self.deadline, bound, self.asked.map(|(at, _)| at)].into_iter().flatten().min();
        let left = next.map(|next| next.saturating_duration_since(Instant::now()));
        let left = [left, self.watched.warden.patience()].into_iter().flatten().min()?;
        Some(Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) })
    }

    fn check_time(&mut self) {
        let now = Instant::now();
        if self.seen.end.is_some() {
            return;
        }
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.watched.root.kill();
            self.seen.end = Some(End::TimedOut);
            let denial = limit_denial(self.watched.request, self.watched.plan, Clause::LimitWallTime);
            self.seen.denials.add(denial);
        } else if self.bound.as_mut().is_some_and(|bound| bound.is_beyond(now)) {
            self.watched.root.kill();
            self.seen.end = Some(End::OverBound);
            beyond_quota(&self.watched.request.attached).into_iter().for_each(|it| self.seen.denials.add(it));
        } else if let Some((at, signal)) = self.asked
            && now >= at
        {
            self.watched.root.kill();
            self.seen.end = Some(End::Interrupted(signal));
        }
    }

    fn hear_guard(&mut self) -> Result<(), Refusal> {
        let message = recv_with_fds(self.watched.control).unwrap_or_default();
        if message.bytes.is_empty() {
            // guard is gone without a word: killed from outside, or by the kernel for want of memory.
            self.seen.end = Some(End::Exited(ringfence_linux::Exited::Signal(9)));
            return Ok(());
        }
        self.take(message)
    }

    fn take(&mut self, message: Message) -> Result<(), Refusal> {
        match FromGuard::decode(&message.bytes) {
            Some(FromGuard::Network) => self.watched.warden.know_network(message.fds),
            Some(FromGuard::Sockets) => self.watched.warden.give_to_egress(message.fds),
            Some(FromGuard::Ready { version }) => {
                speaks_the_same(version)?;
                self.seen.start = Some(self.watched.started.elapsed());
                let mut fds = message.fds.into_iter();
                self.watched.warden.listen(&mut fds);
                match self.watched.request.stream {
                    Stream::Terminal => self.relay = fds.next().map(Relay::start),
                    Stream::Inherit | Stream::Capture | Stream::Session => self.stdin = fds.next(),
                }
                if !std::mem::replace(&mut self.swept, true) {
                    self.sweep();
                }
            }
            Some(FromGuard::Waiting { version }) => speaks_the_same(version)?,
            Some(FromGuard::Failed { step, subject, errno }) => {
                return Err(failed_inside(step, subject, errno));
            }
            Some(FromGuard::NotStarted { stage, errno }) => {
                self.seen.end = Some(End::NotStarted { stage, errno })
            }
            Some(FromGuard::Exited { how, full, cpu, memory }) => {
                self.seen.end = Some(End::Exited(how));
                self.seen.used = Some((cpu, memory));
                for (bit, clause) in [(DISK_FULL, Clause::LimitDisk), (TMP_FULL, Clause::FilesystemTmp)] {
                    if full & bit != 0 {
                        let denial = limit_denial(self.watched.request, self.watched.plan, clause);
                        self.seen.denials.add(denial);
                    }
                }
            }
            Some(FromGuard::InSession { .. } | FromGuard::Plug { .. } | FromGuard::Space { .. }) | None => {
                return Err(strange());
            }
        }
        Ok(())
    }

    /// Remove what killed runs left, beside the command's start: before it, every core has enough to do.
    fn sweep(&self) {
        let Watched { request, plan, .. } = &self.watched;
        if plan.limits.cgroup != CgroupLimits::default() {
            sweep_cgroups(&plan.cgroups);
        }
        // With a workspace of the user's own it was done before that was looked at.
        if plan.workspace.is_none() {
            sweep_placeholders(&request.state);
        }
    }

    fn tell(&self, message: ToGuard) {
        let _ = send_with_fds(self.watched.control, &message.encode(), &[]);
    }

    /// Ask the command to end; what is left of it after the grace is killed, at a second request at once.
    fn ask(&mut self, signal: i32) {
        let first = self.asked.is_none();
        self.tell(ToGuard::Signal(signal));
        let grace = if first { GRACE } else { Duration::ZERO };
        self.asked = Some((Instant::now() + grace, signal));
    }

    fn take_signals(&mut self) {
        while let Ok(Some(signal)) = self.watched.signals.next() {
            match signal {
                SIGINT | SIGQUIT | SIGTERM | SIGHUP => self.ask(signal),
                SIGTSTP => {
                    self.tell(ToGuard::StopAll);
                    stop_self();
                    self.tell(ToGuard::ContinueAll);
                }
                SIGCONT => {}
                SIGWINCH => match &self.relay {
                    Some(relay) => relay.resize(),
                    None => self.tell(ToGuard::Signal(SIGWINCH)),
                },
                other => self.tell(ToGuard::Signal(other)),
            }
        }
    }

    /// Read what is there, up to a bound, so that a flood of output does not starve the rest of the loop.
    fn read_output(&mut self) -> bool {
        let Some(pipes) = &mut self.watched.pipes else { return false };
        let limit = self.watched.plan.limits.output.unwrap_or(u64::MAX) as usize;
        let mut open = false;
        for (pipe, kept) in [(&pipes.stdout, &mut self.seen.stdout), (&pipes.stderr, &mut self.seen.stderr)] {
            let (read, room) = read_within(pipe.as_fd(), kept, limit);
            open |= read > 0;
            self.seen.truncated |= room < read;
        }
        if !open && self.both_closed() {
            self.watched.pipes = None;
        }
        open
    }

    fn both_closed(&self) -> bool {
        let Some(pipes) = &self.watched.pipes else { return true };
        let mut polled = [
            PollFd::from_borrowed_fd(pipes.stdout.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(pipes.stderr.as_fd(), PollFlags::IN),
        ];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut polled, Some(&now)).is_ok()
            && polled.iter().all(|fd| {
                let events = fd.revents();
                events.contains(PollFlags::HUP) && !events.contains(PollFlags::IN)
            })
    }

    /// After the end: what is still in the pipes or the terminal. Every writer is dead by then, or will be now.
    fn drain(&mut self) {
        self.watched.root.kill();
        while self.read_output() || !self.both_closed() {
            if self.watched.pipes.is_none() {
                break;
            }
            let Some(pipes) = &self.watched.pipes else { break };
            let mut polled = [
                PollFd::from_borrowed_fd(pipes.stdout.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(pipes.stderr.as_fd(), PollFlags::IN),
            ];
            let _ = poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 10_000_000 }));
        }
        if let Some(relay) = self.relay.take() {
            relay.finish();
        }
        if let Some(stdin) = &self.stdin
            && let Ok(position) = seek(stdin, SeekFrom::Current(0))
        {
            // What the command has read is read for whoever shares the caller's stdin.
            let _ = seek(rustix::stdio::stdin(), SeekFrom::Start(position));
        }
        self.seen.network = self.watched.warden.finish(&mut self.seen.denials);
        if self.seen.truncated {
            let denial = limit_denial(self.watched.request, self.watched.plan, Clause::LimitOutput);
            self.seen.denials.add(denial);
        }
    }
}
