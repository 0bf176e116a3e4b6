//! Shims: one for each command that runs, and one that waits for the next, so that a fork is on nobody's path. A shim whose
//! command left nothing is that one again.
//!
//! Orders come from a channel that only this keeper has the other end of. Commands may kill a shim, since they have its
//! uid: an order that it never read is given to another one, and one that it read never is.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_guard::{ToGuard, ToShim};
use ringfence_linux::{control_pair, send_with_fds};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;

use super::Keeper;
use super::process::{Order, Process};
use crate::session::link::in_memory;

/// A longer description of a program goes to the shim in a file.
const INLINE: usize = 4 << 10;

/// So many shims are tried for a command; then it counts as killed.
const ATTEMPTS: u32 = 6;

/// A shim that has no command.
pub(super) struct Shim {
    /// What guard and the shim itself call it.
    pub(super) number: u32,
    channel: OwnedFd,
}

/// The shim of a command.
#[derive(Default)]
pub(super) struct Hired {
    pub(super) number: u32,
    channel: Option<OwnedFd>,
    attempts: u32,
    /// guard was told to kill all below it, and will kill it too if that takes too long: it gets no other command.
    pub(super) doomed: bool,
}

impl Hired {
    /// Only once it is known that the shim is gone.
    fn was_unread(&self) -> bool {
        // The kernel says so to the one end if the other one is closed with something in it.
        let said = self.channel.as_ref().map(socket_error);
        matches!(said, Some(Ok(Err(Errno::CONNRESET))))
    }
}

impl Keeper<'_> {
    /// Hand a waiting command to the spare shim, or to a new one.
    pub(super) fn send_order(&mut self, id: u32) -> io::Result<()> {
        if self.room_for.is_some() {
            self.wait_for_room(id);
            return Ok(());
        }
        if let Some(spare) = self.spare.take()
            && self.order(id, spare)?
        {
            return Ok(());
        }
        self.send_order_to_new(id)
    }

    /// The spare one may be stopped, or gone.
    pub(super) fn send_order_to_new(&mut self, id: u32) -> io::Result<()> {
        let shim = self.new_shim()?;
        // If guard can't fork it, that comes as news of this shim.
        self.order(id, shim).map(drop)
    }

    /// False: nobody is there to take it.
    fn order(&mut self, id: u32, shim: Shim) -> io::Result<bool> {
        let process = self.processes.live_mut(id).ok_or(io::ErrorKind::NotFound)?;
        let Order { program, fds } = process.order.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let inline = program.len() <= INLINE;
        let file = if inline { None } else { Some(in_memory(program)?) };
        let order = if inline { ToShim::Program(program.clone()) } else { ToShim::Elsewhere };
        let fds: Vec<BorrowedFd<'_>> =
            file.iter().map(AsFd::as_fd).chain(fds.iter().map(AsFd::as_fd)).collect();
        let sent = send_with_fds(shim.channel.as_fd(), &order.encode(), &fds);
        let gone = [Errno::PIPE, Errno::CONNRESET].map(|errno| Some(errno.raw_os_error()));
        let is_there = match sent {
            Ok(()) => true,
            Err(error) if gone.contains(&error.raw_os_error()) => false,
            Err(error) => return Err(error),
        };
        let attempts = process.hired.attempts + 1;
        process.hired = Hired { number: shim.number, channel: Some(shim.channel), attempts, doomed: false };
        Ok(is_there)
    }

    fn new_shim(&mut self) -> io::Result<Shim> {
        let (ours, theirs) = control_pair()?;
        self.next_shim = self.next_shim.checked_add(1).unwrap_or(1);
        let number = self.next_shim;
        self.tell_guard(&ToGuard::Shim { id: number }, &[theirs.as_fd()])?;
        Ok(Shim { number, channel: ours })
    }

    /// Have a shim ready for the first command.
    pub(super) fn keep_spare(&mut self) {
        // Without one that takes a little longer.
        self.spare = self.new_shim().ok();
    }

    /// Nothing is left of its command: its shim may have the next one. One is enough; any other ends, as its channel closes.
    pub(super) fn take_back(&mut self, id: u32) {
        let Some(process) = self.processes.live_mut(id) else { return };
        let Hired { number, channel, doomed, .. } = std::mem::take(&mut process.hired);
        if let Some(channel) = channel.filter(|_| !doomed && self.spare.is_none()) {
            self.spare = Some(Shim { number, channel });
        }
    }

    /// Whose shim this is. None: it is the spare one, or its order went to another.
    pub(super) fn hirer(&mut self, shim: u32) -> Option<u32> {
        // The number of who has none.
        if shim == Hired::default().number {
            return None;
        }
        if self.spare.as_ref().is_some_and(|spare| spare.number == shim) {
            // Killed, or not to be had. The next command asks for another: who kills them does not set the pace.
            self.spare = None;
        }
        self.processes.live().find(|process| process.hired.number == shim).map(|process| process.id)
    }

    /// Its shim is gone, and nothing of it has started: is it on its way again?
    pub(super) fn order_again(&mut self, id: u32) -> bool {
        let is_unread = |process: &Process| process.pid.is_none() && process.hired.was_unread();
        self.processes.live_mut(id).is_some_and(|process| is_unread(process))
            && self.may_order_again(id)
            && self.send_order_to_new(id).is_ok()
    }

    /// Not what was killed meanwhile.
    pub(super) fn may_order_again(&mut self, id: u32) -> bool {
        let may = |Hired { attempts, doomed, .. }: &Hired| *attempts < ATTEMPTS && !doomed;
        self.processes.live_mut(id).is_some_and(|process| process.is_running() && may(&process.hired))
    }

    /// It has no shim any more: what that says is not of this command.
    pub(super) fn dismiss(&mut self, id: u32) {
        if let Some(process) = self.processes.live_mut(id) {
            process.hired = Hired { attempts: process.hired.attempts, ..Hired::default() };
        }
    }
}
