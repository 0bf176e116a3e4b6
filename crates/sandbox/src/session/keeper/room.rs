//! A full house: there are as many processes as there may be, and a command is to be started all the same. Everybody else
//! is stopped, the limit is lifted for the moment of one start, and put back: its own denials stay exact.

use ringfence_guard::ToGuard;

use super::Keeper;
use super::news::EAGAIN;
use crate::session::wire::Stage;

/// So many processes more than the limit.
const ROOM: u32 = 4;

impl Keeper<'_> {
    /// There is no process left for the command: try again with a higher limit, now or when it is its turn. False: that
    /// would not help.
    pub(super) fn make_room(&mut self, id: u32) -> bool {
        let is_counted = self.plan.limits.cgroup.processes.is_some() && self.held.cgroup.is_some();
        if !is_counted || !self.may_order_again(id) {
            return false;
        }
        match self.room_for {
            None => {
                self.room_for = Some(id);
                let room = self.lift_limit() && self.tell_guard(&ToGuard::StopAll, &[]).is_ok();
                room && self.send_order_to_new(id).is_ok()
            }
            // Others took it before they were stopped. Now they are: nobody takes it again.
            Some(first) if first == id => self.lift_limit() && self.send_order_to_new(id).is_ok(),
            Some(_) => {
                self.wait_for_room(id);
                true
            }
        }
    }

    /// Until whoever has the room has started.
    pub(super) fn wait_for_room(&mut self, id: u32) {
        self.dismiss(id);
        self.want_room.push_back(id);
    }

    /// Each command that has not started may have a shim by now, and a process of its own.
    fn lift_limit(&self) -> bool {
        let (Some(cgroup), Some(most)) = (self.held.cgroup.as_ref(), self.plan.limits.cgroup.processes)
        else {
            return false;
        };
        let there = cgroup.processes().map_or(most, |there| there.min(u64::from(u32::MAX)) as u32);
        let starting = self.processes.live().filter(|process| process.pid.is_none()).count() as u32;
        cgroup.set_processes(most.max(there).saturating_add(ROOM + 2 * starting)).is_ok()
    }

    /// The command has started, or can't be. Then it is the next one's turn.
    pub(super) fn leave_room(&mut self, id: u32) {
        if self.room_for != Some(id) {
            return;
        }
        self.room_for = None;
        if let (Some(cgroup), Some(most)) = (self.held.cgroup.as_ref(), self.plan.limits.cgroup.processes) {
            let _ = cgroup.set_processes(most);
        }
        if !self.is_paused() {
            let _ = self.tell_guard(&ToGuard::ContinueAll, &[]);
        }
        if let Some(next) = self.want_room.pop_front()
            && !self.make_room(next)
        {
            self.not_started(next, Stage::Program, EAGAIN);
            self.leave_room(next);
        }
    }
}
