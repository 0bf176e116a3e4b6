//! What a sandbox's owner does for it as long as it lives: answer its closed calls, carry out its connections, serve its
//! way out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ringfence_guard::ToGuard;
use ringfence_linux::seccomp::{Listener, Rules};
use ringfence_linux::send_with_fds;
use rustix::event::{PollFd, PollFlags};

use super::connect::Connects;
use super::egress::Egress;
use super::syscalls;
use crate::denial::Denials;
use crate::network_record::{NetworkRecord, Traffic};
use crate::plan::Plan;
use crate::protect::GitDirectory;
use crate::refusal::Refusal;

/// What the warden waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Listener,
    Egress,
}

pub(crate) struct Warden<'a> {
    plan: &'a Plan,
    rules: &'a Rules,
    git: &'a [GitDirectory],
    trace: bool,
    root: i32,
    control: BorrowedFd<'a>,
    listener: Option<Listener>,
    connects: Connects<'a>,
    egress: Option<Egress>,
}

impl<'a> Warden<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        rules: &'a Rules,
        git: &'a [GitDirectory],
        trace: bool,
        (root, control): (i32, BorrowedFd<'a>),
        egress: Option<Egress>,
    ) -> Self {
        let connects = Connects::new(plan, root);
        Self { plan, rules, git, trace, root, control, listener: None, connects, egress }
    }

    /// The sandbox has its network namespace: a socket that tells of its unix sockets, then egress's.
    pub(crate) fn know_network(&mut self, fds: Vec<OwnedFd>) {
        let mut fds = fds.into_iter();
        if let Some(sockets) = fds.next() {
            self.connects.know(sockets);
        }
        self.give_to_egress(fds.collect());
        if let Some(egress) = &mut self.egress {
            egress.watch_counters(self.root);
        }
    }

    pub(crate) fn give_to_egress(&mut self, sockets: Vec<OwnedFd>) {
        if let Some(egress) = &mut self.egress {
            egress.give(sockets);
        }
    }

    /// The walls are up. The first descriptor is the filter's listener, if there is a filter.
    pub(crate) fn listen(&mut self, fds: &mut impl Iterator<Item = OwnedFd>) {
        if self.plan.seccomp {
            self.listener = fds.next().map(Listener::new);
        }
    }

    /// What has a name is in the list of `calls`; the rest is looked at after every turn.
    pub(crate) fn polled<'b>(&'b self, calls: &mut Vec<Call>, polled: &mut Vec<PollFd<'b>>) {
        let input = PollFlags::IN;
        if let Some(listener) = &self.listener {
            calls.push(Call::Listener);
            polled.push(PollFd::from_borrowed_fd(listener.as_fd(), input));
        }
        if let Some(egress) = self.egress.as_ref().filter(|egress| !egress.is_gone()) {
            calls.push(Call::Egress);
            polled.push(PollFd::from_borrowed_fd(egress.as_fd(), input));
        }
    }

    /// Connections that can't be answered yet.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.connects.polled()
    }

    pub(crate) fn patience(&self) -> Option<Duration> {
        self.connects.patience()
    }

    pub(crate) fn take(&mut self, call: Call, denials: &mut Denials) -> Result<(), Refusal> {
        match call {
            Call::Listener => self.answer_call(denials),
            Call::Egress => self.hear_egress(denials),
        }
    }

    /// See whether a waiting connection can be answered by now.
    pub(crate) fn look(&mut self, denials: &mut Denials) {
        if let Some(listener) = &self.listener {
            self.connects.look(listener, self.egress.as_mut(), denials);
        }
    }

    fn hear_egress(&mut self, denials: &mut Denials) -> Result<(), Refusal> {
        let Some(egress) = &mut self.egress else { return Ok(()) };
        egress.hear(denials)?;
        self.pass_wish();
        Ok(())
    }

    fn pass_wish(&mut self) {
        if let Some((v4, v6)) = self.egress.as_mut().and_then(Egress::take_wish) {
            let _ = send_with_fds(self.control, &ToGuard::Sockets { v4, v6 }.encode(), &[]);
        }
    }

    fn answer_call(&mut self, denials: &mut Denials) -> Result<(), Refusal> {
        // A name has its address before anybody can connect to it; so is it known here before that is looked at.
        self.hear_egress(denials)?;
        let trace = self.trace.then_some(self.plan);
        let Self { rules, git, egress, connects, .. } = self;
        if let Some(listener) = &self.listener
            && syscalls::answer(listener, rules, git, trace, connects, egress.as_mut(), denials).is_err()
        {
            // Nobody listens any more: from here on closed calls fail by themselves.
            self.listener = None;
        }
        Ok(())
    }

    /// Keep what each process of a session does on the network, to be asked for.
    pub(crate) fn tell_apart(&mut self) {
        if let Some(egress) = &mut self.egress {
            egress.tell_apart();
        }
    }

    /// What is new of that since the last time.
    pub(crate) fn take_traffic(&mut self) -> Vec<Traffic> {
        self.egress.as_mut().map(Egress::take_fresh).unwrap_or_default()
    }

    /// Everything that egress knows by now is known here when this returns.
    pub(crate) fn settle(&mut self, denials: &mut Denials) -> Result<(), Refusal> {
        let Some(egress) = &mut self.egress else { return Ok(()) };
        egress.settle(denials)?;
        self.pass_wish();
        Ok(())
    }

    /// What went through egress so far.
    pub(crate) fn network(&self) -> Option<NetworkRecord> {
        self.egress.as_ref().map(Egress::record)
    }

    /// Egress's last words, once nothing of the sandbox is left.
    pub(crate) fn finish(&mut self, denials: &mut Denials) -> Option<NetworkRecord> {
        self.egress.take().map(|egress| egress.finish(denials))
    }
}
