//! What guard and the shims say.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ringfence_guard::{ExecStage, FromGuard, News, ToGuard};
use ringfence_linux::{Cgroup, Exited};
use ringfence_policy::Clause;

use super::{Asked, Keeper};
use crate::denial::Denial;
use crate::providers::{DISK_FULL, TMP_FULL, failed_inside, limit_denial, strange};
use crate::refusal::Refusal;
use crate::session::log::LogStream;
use crate::session::wire::{Answer, ProcessEnd, Stage};

const EAGAIN: i32 = 11;
/// So many processes more than the limit, for the moment in which a command is started beside a full house.
const ROOM: u32 = 4;

impl From<ExecStage> for Stage {
    fn from(stage: ExecStage) -> Self {
        match stage {
            ExecStage::Directory => Self::Directory,
            ExecStage::Stdio => Self::Stdio,
            ExecStage::Program => Self::Program,
        }
    }
}

impl Keeper<'_> {
    pub(super) fn take_news(&mut self, bytes: &[u8], fds: Vec<OwnedFd>) -> Result<(), Refusal> {
        match FromGuard::decode(bytes) {
            Some(FromGuard::Network) => self.warden.know_network(fds),
            Some(FromGuard::Sockets) => self.warden.give_to_egress(fds),
            Some(FromGuard::Ready) => {
                self.warden.listen(&mut fds.into_iter());
                self.built = true;
            }
            Some(FromGuard::Failed { step, subject, errno }) => {
                return Err(failed_inside(step, subject, errno));
            }
            Some(FromGuard::InSession { id, news }) => self.take_process_news(id, news, fds),
            Some(FromGuard::Plug { id }) => {
                if let Some(Asked::Plug(client)) = self.asked.remove(&id) {
                    let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                    self.clients.answer(client, &Answer::Done, &fds);
                }
            }
            Some(FromGuard::Space { id, used, all }) => {
                if let Some(Asked::Space(client)) = self.asked.remove(&id) {
                    let stats = self.stats(used, all);
                    self.clients.answer(client, &Answer::Stats(stats), &[]);
                }
            }
            Some(FromGuard::NotStarted { .. } | FromGuard::Exited { .. }) | None => return Err(strange()),
        }
        Ok(())
    }

    fn take_process_news(&mut self, id: u32, news: News, fds: Vec<OwnedFd>) {
        match news {
            News::Started { pid, shim } => {
                self.leave_room(id);
                self.started(id, pid, shim, fds);
            }
            News::NotStarted { stage, errno } => {
                if errno == EAGAIN && self.make_room(id) {
                    return;
                }
                self.leave_room(id);
                let end = ProcessEnd::NotStarted { stage: stage.into(), errno };
                self.process_ended(id, end, Duration::ZERO, 0);
            }
            News::Ended { how, full, cpu, memory } => {
                self.note_full(id, full);
                self.note_counted(id);
                let end = match how {
                    Exited::Code(code) => ProcessEnd::Exited { code },
                    Exited::Signal(signal) => ProcessEnd::Signaled { signal },
                };
                self.process_ended(id, end, Duration::from_micros(cpu), memory);
            }
            News::Gone => {
                if self.room_for.is_some_and(|wanted| wanted == id)
                    && self.processes.get(&id).is_some_and(|process| process.pid.is_none())
                {
                    // guard's word on the first attempt; there is a second one on its way.
                    return;
                }
                // A shim that was killed has told nothing.
                self.process_ended(id, ProcessEnd::Signaled { signal: 9 }, Duration::ZERO, 0);
                if let Some(process) = self.processes.get_mut(&id) {
                    process.gone = true;
                    process.deadline = None;
                    if let Some(kept) = &mut process.kept {
                        kept.drain_all();
                        kept.outputs.clear();
                    }
                }
            }
        }
    }

    fn started(&mut self, id: u32, pid: i32, shim: i32, fds: Vec<OwnedFd>) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.pid = Some(pid);
        process.shim = Some(shim);
        process.order = None;
        let mut master = fds.into_iter().next();
        if let Some(kept) = &mut process.kept
            && let Some(master) = master.take()
        {
            let _ = rustix::io::ioctl_fionbio(&master, true);
            kept.stdin = master.try_clone().ok();
            kept.outputs.push((LogStream::Stdout, master));
        }
        if let Some(starter) = process.starter.take() {
            let fds: Vec<BorrowedFd<'_>> = master.iter().map(AsFd::as_fd).collect();
            self.clients.answer(starter, &Answer::Started { process: id, pid }, &fds);
        }
    }

    pub(super) fn process_ended(&mut self, id: u32, end: ProcessEnd, cpu: Duration, memory: u64) {
        // What egress knows of it belongs to it.
        let _ = self.warden.take(crate::providers::Call::Egress, &mut self.denials);
        self.blame();
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.order = None;
        if !process.end(end, cpu, memory) {
            return;
        }
        if matches!(end, ProcessEnd::NotStarted { .. }) {
            process.gone = true;
            process.deadline = None;
        }
        let listeners: Vec<_> = process
            .starter
            .take()
            .into_iter()
            .chain(process.client.take())
            .chain(std::mem::take(&mut process.waiting))
            .collect();
        let Some(result) = process.result.clone() else { return };
        let mut told = Vec::new();
        for listener in listeners {
            if !told.contains(&listener) {
                self.clients.answer(listener, &Answer::Ended(result.clone()), &[]);
                told.push(listener);
            }
        }
        self.touched = std::time::Instant::now();
        self.forget_oldest();
    }

    fn note_full(&mut self, id: u32, full: u8) {
        for (bit, clause) in [(DISK_FULL, Clause::LimitDisk), (TMP_FULL, Clause::FilesystemTmp)] {
            if full & bit != 0 {
                self.note_limit(id, clause, 1);
            }
        }
    }

    /// What the cgroup counted since it was last looked at. The limits are the session's, so that it may have been another
    /// command's doing; this one was there.
    fn note_counted(&mut self, id: u32) {
        let Some(cgroup) = self.held.cgroup.as_ref() else { return };
        let counts = [cgroup.oom_kills(), cgroup.refused_forks()];
        let before = std::mem::replace(&mut self.counted, counts);
        for (index, clause) in [Clause::LimitMemory, Clause::LimitProcesses].into_iter().enumerate() {
            let new = counts[index].saturating_sub(before[index]);
            if new > 0 {
                self.note_limit(id, clause, new);
            }
        }
    }

    fn note_limit(&mut self, id: u32, clause: Clause, count: u64) {
        let denial = Denial { count, ..limit_denial(self.request, self.plan, clause) };
        self.note_denial(id, denial);
    }

    /// One that is this process's.
    pub(super) fn note_denial(&mut self, id: u32, denial: Denial) {
        self.denials.add(denial);
        let fresh = self.denials.take_fresh();
        if let Some(process) = self.processes.get_mut(&id) {
            fresh.into_iter().for_each(|(_, denial)| process.blame(denial));
        }
    }

    /// There is no process left for the command: stop all the others, and try once more with a higher limit.
    fn make_room(&mut self, id: u32) -> bool {
        let (Some(cgroup), Some(most)) = (self.held.cgroup.as_ref(), self.plan.limits.cgroup.processes)
        else {
            return false;
        };
        if self.room_for.is_some() || cgroup.set_processes(most + ROOM).is_err() {
            return false;
        }
        self.room_for = Some(id);
        let _ = self.tell_guard(&ToGuard::StopAll, &[]);
        self.send_order(id).is_ok()
    }

    fn leave_room(&mut self, id: u32) {
        if self.room_for != Some(id) {
            return;
        }
        self.room_for = None;
        let most = self.plan.limits.cgroup.processes;
        if let (Some(cgroup), Some(most)) = (self.held.cgroup.as_ref(), most) {
            let _ = Cgroup::set_processes(cgroup, most);
        }
        if !self.is_paused() {
            let _ = self.tell_guard(&ToGuard::ContinueAll, &[]);
        }
    }
}
