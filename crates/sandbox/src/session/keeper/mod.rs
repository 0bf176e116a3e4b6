//! The keeper: a host process that owns one session. It builds the sandbox, takes calls from clients, keeps the output of
//! detached processes, and takes everything away at the end.
//!
//! Invariant: one thread, no waiting for anybody: a client that does not read, a process that floods its pipe and a guard
//! that says nothing all leave the others served; egress, which is of our own making, has a moment to tell what it knows. When
//! the keeper ends, by whatever means, so does its sandbox.

mod birth;
mod calls;
mod clients;
mod news;
#[cfg(test)]
mod news_tests;
mod process;
mod processes;
mod room;
mod shims;
mod usage;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_guard::ToGuard;
use ringfence_linux::{CgroupCounts, Message, recv_with_fds, send_with_fds};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(super) use birth::create;
pub use birth::{Claim, SessionSpec};
pub(super) use calls::PIPEFS_MAGIC;
use clients::{ClientId, Clients, Heard};
use processes::Processes;
use shims::{Hired, Shim};

use super::log::LogStream;
use super::place::EndReason;
use super::wire::{Answer, Call};
use crate::denial::{Denial, DenialKind, Denials};
use crate::network_record::{Passed, Traffic};
use crate::plan::Plan;
use crate::providers::{Held, Warden};
use crate::refusal::Refusal;
use crate::request::Request;
use crate::write_bound::{BoundWatch, beyond_quota};

/// So many words of guard's are kept while it takes no order.
const UNHEARD: usize = 1_024;
/// So many questions to guard may be open: each client has a few at most.
const UNANSWERED: usize = 1_024;

/// What was asked of guard for a client.
enum Asked {
    Plug(ClientId),
    Space(ClientId),
}

enum Source {
    Control,
    Signals,
    Warden(crate::providers::Call),
    Door,
    Client(ClientId),
    Output(u32, LogStream),
}

struct Keeper<'a> {
    request: &'a Request,
    plan: &'a Plan,
    held: Held<'a>,
    warden: Warden<'a>,
    /// All of the session; those of one process are with it too.
    denials: Denials,
    /// What guard said while it had no room for an order.
    heard: RefCell<VecDeque<Message>>,
    /// What was denied to a command that is being started, by its shim.
    early: Vec<(Option<i32>, Denial)>,
    /// Likewise what it did on the network.
    early_traffic: Vec<Traffic>,
    /// Whose connection is whose, while it is open: a shim may have another command when it ends.
    carried: BTreeMap<u64, u32>,
    built: bool,
    door: Option<OwnedFd>,
    clients: Clients,
    processes: Processes,
    next_process: u32,
    /// For the next command.
    spare: Option<Shim>,
    next_shim: u32,
    asked: BTreeMap<u32, Asked>,
    next_asked: u32,
    logs: super::place::Place,
    dies_at: Option<Instant>,
    bound: Option<BoundWatch>,
    idle: Option<Duration>,
    /// When anything last happened for a client that wanted something.
    touched: Instant,
    /// Until somebody resumes it.
    paused: bool,
    /// Clients for whose work nothing may run, as long as they are there.
    holders: BTreeSet<ClientId>,
    /// The command that is being started although there are as many processes as may be.
    room_for: Option<u32>,
    /// Those that come after it.
    want_room: VecDeque<u32>,
    counts: CgroupCounts,
    /// Kills for want of memory and refused forks that were told of.
    counted: [u64; 2],
    /// Who waits for the end.
    enders: Vec<ClientId>,
    end: Option<EndReason>,
}

impl<'a> Keeper<'a> {
    /// Of a sandbox that is being built.
    fn new(
        (request, plan): (&'a Request, &'a Plan),
        (warden, held): (Warden<'a>, Held<'a>),
        place: &super::place::Place,
        idle: Option<Duration>,
    ) -> Self {
        Self {
            denials: Denials::of_session(held.root.pid),
            request,
            plan,
            held,
            warden,
            heard: Default::default(),
            early: Vec::new(),
            early_traffic: Vec::new(),
            carried: BTreeMap::new(),
            built: false,
            door: None,
            clients: Clients::default(),
            processes: Default::default(),
            next_process: 1,
            spare: None,
            next_shim: 0,
            asked: Default::default(),
            next_asked: 0,
            logs: place.clone(),
            dies_at: None,
            bound: BoundWatch::new(&request.attached),
            idle,
            touched: Instant::now(),
            paused: false,
            holders: Default::default(),
            room_for: None,
            want_room: Default::default(),
            counts: Default::default(),
            counted: [0; 2],
            enders: Vec::new(),
            end: None,
        }
    }
}

impl Keeper<'_> {
    /// Until the end.
    fn serve(&mut self) -> Result<EndReason, Refusal> {
        loop {
            if let Some(end) = self.end {
                return Ok(end);
            }
            self.turn()?;
        }
    }

    fn turn(&mut self) -> Result<(), Refusal> {
        for source in self.wait()? {
            match source {
                Source::Control => self.hear_guard()?,
                Source::Signals => self.take_signals(),
                Source::Warden(call) => self.warden.take(call, &mut self.denials)?,
                Source::Door => {
                    if let Some(door) = &self.door {
                        let first = self.clients.accept(door.as_fd());
                        // Most have said something by now.
                        first.into_iter().for_each(|id| self.hear_client(id));
                    }
                }
                Source::Client(id) => self.hear_client(id),
                Source::Output(id, stream) => {
                    if let Some(kept) = self.processes.live_mut(id).and_then(|found| found.kept.as_mut()) {
                        kept.drain(stream);
                    }
                }
            }
        }
        self.warden.look(&mut self.denials);
        self.blame();
        self.account();
        self.check_time();
        Ok(())
    }

    fn wait(&self) -> Result<Vec<Source>, Refusal> {
        let input = PollFlags::IN;
        let mut sources = vec![Source::Control, Source::Signals];
        let mut polled = vec![
            PollFd::from_borrowed_fd(self.held.control, input),
            PollFd::from_borrowed_fd(self.held.signals.as_fd(), input),
        ];
        let mut calls = Vec::new();
        self.warden.polled(&mut calls, &mut polled);
        sources.extend(calls.into_iter().map(Source::Warden));
        for (id, client) in self.clients.iter() {
            sources.push(Source::Client(id));
            polled.push(PollFd::from_borrowed_fd(client, input));
        }
        // After those who are here: one that has gone leaves its place to who comes.
        if let Some(door) = &self.door {
            sources.push(Source::Door);
            polled.push(PollFd::from_borrowed_fd(door.as_fd(), input));
        }
        for process in self.processes.live() {
            for (stream, output) in process.kept.iter().flat_map(|kept| kept.outputs()) {
                sources.push(Source::Output(process.id, stream));
                polled.push(PollFd::from_borrowed_fd(output, input));
            }
        }
        // Behind all that have a name: they are looked at after every turn.
        polled.extend(self.warden.waiting());
        let heard = !self.heard.borrow().is_empty();
        let patience = if heard { Some(Timespec::default()) } else { self.patience() };
        match poll(&mut polled, patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Refusal::step("wait for the session", "", &error.into())),
        }
        let ready = polled.iter().enumerate().map(|(at, fd)| !fd.revents().is_empty() || (heard && at == 0));
        Ok(sources.into_iter().zip(ready).filter_map(|(source, ready)| ready.then_some(source)).collect())
    }

    fn patience(&self) -> Option<Timespec> {
        let deadlines = self.processes.live().filter_map(|process| process.deadline);
        let bound = self.bound.as_ref().filter(|_| self.runs_something()).map(BoundWatch::due);
        let next = deadlines.chain(self.dies_at).chain(self.idle_at()).chain(bound).min();
        let left = next.map(|next| next.saturating_duration_since(Instant::now()));
        let left = [left, self.warden.patience()].into_iter().flatten().min()?;
        Some(Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) })
    }

    /// When nothing will have happened for too long. Not while something runs or somebody is here.
    fn idle_at(&self) -> Option<Instant> {
        let busy = !self.clients.is_empty() || self.processes.live().next().is_some();
        self.idle.filter(|_| !busy).map(|idle| self.touched + idle)
    }

    fn check_time(&mut self) {
        let now = Instant::now();
        if self.dies_at.is_some_and(|at| now >= at) {
            self.end = Some(EndReason::TimeToLive);
        } else if self.idle_at().is_some_and(|at| now >= at) {
            self.end = Some(EndReason::Idle);
        }
        let late: Vec<u32> = self
            .processes
            .live()
            .filter(|process| process.deadline.is_some_and(|deadline| now >= deadline))
            .map(|process| process.id)
            .collect();
        for id in late {
            self.time_out(id);
        }
        if self.runs_something() && self.bound.as_mut().is_some_and(|bound| bound.is_beyond(now)) {
            beyond_quota(&self.request.attached).into_iter().for_each(|denial| self.denials.add(denial));
            self.blame();
            let all: Vec<u32> = self.processes.live().map(|process| process.id).collect();
            all.into_iter().for_each(|id| self.kill_tree(id));
        }
    }

    /// A command, or what one left.
    fn runs_something(&self) -> bool {
        self.processes.live().next().is_some()
    }

    fn take_signals(&mut self) {
        const ENDING: [i32; 4] = [1, 2, 3, 15];
        while let Ok(Some(signal)) = self.held.signals.next() {
            if ENDING.contains(&signal) {
                self.end = Some(EndReason::Signal);
            }
        }
    }

    /// Each new denial to the process that it belongs to, or, where that isn't seen, to the only one that runs. A command may
    /// be denied something before its shim has told of its start: that waits here.
    fn blame(&mut self) {
        let early = std::mem::take(&mut self.early);
        let fresh = self.denials.take_fresh();
        if early.is_empty() && fresh.is_empty() {
            return;
        }
        let is_starting = self.processes.live().any(|process| process.is_running() && process.shim.is_none());
        for (shim, denial) in early.into_iter().chain(fresh) {
            let process = match shim {
                Some(shim) => self.processes.all_live_mut().find(|process| process.shim == Some(shim)),
                None => {
                    let mut running = self.processes.all_live_mut().filter(|process| process.is_running());
                    let only = running.next();
                    only.filter(|_| running.next().is_none())
                }
            };
            match process {
                Some(process) => process.blame(denial),
                None if shim.is_some() && is_starting => self.early.push((shim, denial)),
                None => {}
            }
        }
    }

    /// What was done on the network to the process that did it, as with denials.
    fn account(&mut self) {
        let early = std::mem::take(&mut self.early_traffic);
        let fresh = self.warden.take_traffic();
        if early.is_empty() && fresh.is_empty() {
            return;
        }
        let is_starting = self.processes.live().any(|process| process.is_running() && process.shim.is_none());
        for traffic in early.into_iter().chain(fresh) {
            let known = match traffic.what {
                Passed::More { id, .. } => self.carried.get(&id).copied(),
                Passed::Tried(..) => None,
            };
            let Some(process) = known.or_else(|| self.doer(traffic.shim)) else {
                if traffic.shim.is_some() && is_starting && self.early_traffic.len() < UNHEARD {
                    self.early_traffic.push(traffic);
                }
                continue;
            };
            match traffic.what {
                Passed::More { id, is_last: true, .. } => drop(self.carried.remove(&id)),
                Passed::More { id, .. } => drop(self.carried.insert(id, process)),
                Passed::Tried(..) => {}
            }
            if let Some(process) = self.processes.live_mut(process) {
                process.passed(traffic.what);
            }
        }
    }

    /// Whose shim this is, by its id inside; where that isn't seen, the only one that runs.
    fn doer(&self, shim: Option<i32>) -> Option<u32> {
        let mut found = self.processes.live().filter(|process| match shim {
            Some(_) => process.shim == shim,
            None => process.is_running(),
        });
        let only = found.next().map(|process| process.id);
        only.filter(|_| shim.is_some() || found.next().is_none())
    }

    /// guard may be waiting for room for its own words: they are taken from it until it takes this.
    fn tell_guard(&self, order: &ToGuard, fds: &[BorrowedFd<'_>]) -> std::io::Result<()> {
        loop {
            let both = PollFlags::IN | PollFlags::OUT;
            let mut polled = [PollFd::from_borrowed_fd(self.held.control, both)];
            rustix::io::retry_on_intr(|| poll(&mut polled, None))?;
            if polled[0].revents() != PollFlags::IN {
                return send_with_fds(self.held.control, &order.encode(), fds);
            }
            if self.heard.borrow().len() >= UNHEARD {
                return Err(std::io::Error::other("guard says much and takes no order"));
            }
            let mut message = recv_with_fds(self.held.control)?;
            message.bytes.shrink_to_fit();
            self.heard.borrow_mut().push_back(message);
        }
    }

    fn hear_guard(&mut self) -> Result<(), Refusal> {
        let kept = self.heard.borrow_mut().pop_front();
        let message = kept.unwrap_or_else(|| recv_with_fds(self.held.control).unwrap_or_default());
        if message.bytes.is_empty() {
            self.end = Some(EndReason::GuardGone);
            return Ok(());
        }
        self.take_news(&message.bytes, message.fds)
    }

    fn hear_client(&mut self, id: ClientId) {
        match self.clients.hear(id) {
            Heard::Call(call, fds) => {
                self.touch(id, &call);
                self.take_call(id, call, fds);
            }
            Heard::Nothing => {}
            Heard::Gone => {
                if self.clients.get(id).is_some_and(|client| client.wanted) {
                    self.touched = Instant::now();
                }
                self.lose_client(id);
            }
        }
    }

    /// Somebody wants something of the session. Who only looks how it is does not keep it: lists and counts do so for ever.
    fn touch(&mut self, id: ClientId, call: &Call) {
        if !matches!(call, Call::Status) {
            self.touched = Instant::now();
            if let Some(client) = self.clients.get(id) {
                client.wanted = true;
            }
        }
    }

    /// What a client started in the foreground goes with it.
    fn lose_client(&mut self, id: ClientId) {
        self.clients.remove(id);
        self.asked.retain(|_, (Asked::Plug(client) | Asked::Space(client))| *client != id);
        let _ = self.set_pause(|keeper| {
            keeper.holders.remove(&id);
        });
        let left: Vec<u32> = self
            .processes
            .all_live_mut()
            .filter_map(|process| {
                process.waiting.retain(|waiting| *waiting != id);
                (process.client == Some(id)).then_some(process.id)
            })
            .collect();
        for process in left {
            self.kill_tree(process);
        }
    }

    fn is_paused(&self) -> bool {
        self.paused || !self.holders.is_empty()
    }

    /// Change who wants it paused, and stop or continue everybody if that changes anything.
    fn set_pause(&mut self, change: impl FnOnce(&mut Self)) -> std::io::Result<()> {
        let before = self.is_paused();
        change(self);
        match (before, self.is_paused()) {
            (false, true) => self.tell_guard(&ToGuard::StopAll, &[]),
            (true, false) => self.tell_guard(&ToGuard::ContinueAll, &[]),
            _ => Ok(()),
        }
    }

    fn kill_tree(&mut self, id: u32) {
        let Some(process) = self.processes.live_mut(id) else { return };
        let shim = process.hired.number;
        process.hired.doomed = true;
        if self.want_room.contains(&id) {
            self.want_room.retain(|waiting| *waiting != id);
            self.process_gone(id);
            return;
        }
        let _ = self.tell_guard(&ToGuard::KillTree { id: shim }, &[]);
        if self.is_paused() {
            // A stopped shim would not tell that its command is gone.
            let _ = self.tell_guard(&ToGuard::ContinueAll, &[]);
            let _ = self.tell_guard(&ToGuard::StopAll, &[]);
        }
    }

    fn time_out(&mut self, id: u32) {
        let Some(process) = self.processes.live_mut(id) else { return };
        process.deadline = None;
        if !process.is_running() {
            // Only what it left is.
            self.kill_tree(id);
            return;
        }
        process.timed_out = true;
        let own = process.timeout.filter(|_| process.timeout != self.plan.limits.wall_time);
        let clause = ringfence_policy::Clause::LimitWallTime;
        let mut denial = crate::providers::limit_denial(self.request, self.plan, clause);
        if let Some(own) = own {
            // The command's own, which a session's flags don't raise.
            let value = ringfence_policy::Span::from_millis(own.as_millis() as u64).to_string();
            let blocked = ringfence_policy::Blocked::Limit { clause, value };
            denial = Denial { setting: None, ..Denial::new(DenialKind::Limit, &blocked) };
        }
        self.note_denial(id, denial);
        self.kill_tree(id);
    }

    fn refuse(&mut self, client: ClientId, why: impl Into<String>, fix: impl Into<String>) {
        self.clients.answer(
            client,
            &Answer::Refused { why: why.into(), fix: fix.into(), version: None },
            &[],
        );
    }
}
