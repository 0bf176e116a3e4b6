//! What guard and the shims say.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use ringfence_guard::{ExecStage, FromGuard, News};
use ringfence_linux::Exited;
use ringfence_policy::Clause;
use rustix::termios::isatty;

use super::{Asked, Keeper};
use crate::denial::Denial;
use crate::providers::{DISK_FULL, TMP_FULL, failed_inside, limit_denial, speaks_the_same, strange};
use crate::refusal::Refusal;
use crate::session::log::LogStream;
use crate::session::wire::{Answer, ProcessEnd, Stage};

pub(super) const EAGAIN: i32 = 11;

impl From<ExecStage> for Stage {
    fn from(stage: ExecStage) -> Self {
        match stage {
            ExecStage::Directory => Self::Directory,
            ExecStage::Stdio => Self::Stdio,
            ExecStage::Program => Self::Program,
        }
    }
}

/// A plug has two: IPv4 and IPv6.
const PLUGS: usize = 2;

impl Keeper<'_> {
    /// What can't come from a guard that is in order ends the session; what may have crossed an order on its way is nothing.
    pub(super) fn take_news(&mut self, bytes: &[u8], fds: Vec<OwnedFd>) -> Result<(), Refusal> {
        match FromGuard::decode(bytes) {
            // The walls are not moved once they are up.
            Some(FromGuard::Network | FromGuard::Ready { .. }) if self.built => return Err(strange()),
            Some(FromGuard::Network) => self.warden.know_network(fds),
            Some(FromGuard::Sockets) => self.warden.give_to_egress(fds),
            Some(FromGuard::Ready { version }) => {
                speaks_the_same(version)?;
                self.warden.listen(&mut fds.into_iter());
                self.built = true;
            }
            Some(FromGuard::Failed { step, subject, errno }) => {
                return Err(failed_inside(step, subject, errno));
            }
            Some(FromGuard::InSession { id, news }) => self.take_shim_news(id, news, fds),
            Some(FromGuard::Plug { id }) => {
                if let Some(Asked::Plug(client)) = self.asked.remove(&id) {
                    let fds: Vec<BorrowedFd<'_>> = fds.iter().take(PLUGS).map(AsFd::as_fd).collect();
                    self.clients.answer(client, &Answer::Done, &fds);
                }
            }
            Some(FromGuard::Space { id, used, all }) => {
                if let Some(Asked::Space(client)) = self.asked.remove(&id) {
                    let _ = self.warden.settle(&mut self.denials);
                    let stats = self.stats(used, all);
                    self.clients.answer(client, &Answer::Stats(stats), &[]);
                }
            }
            Some(FromGuard::NotStarted { .. } | FromGuard::Exited { .. } | FromGuard::Waiting { .. })
            | None => {
                return Err(strange());
            }
        }
        Ok(())
    }

    fn take_shim_news(&mut self, shim: u32, news: News, fds: Vec<OwnedFd>) {
        let Some(id) = self.hirer(shim) else { return };
        let has_started =
            self.processes.live_mut(id).is_none_or(|process| process.pid.is_some() || !process.is_running());
        match news {
            // Each starts once, and what has started can't be told not to have.
            News::Started { .. } | News::NotStarted { .. } if has_started => {}
            News::Started { pid, shim } => {
                self.leave_room(id);
                self.started(id, pid, shim, fds);
            }
            News::NotStarted { stage, errno } => {
                if errno == EAGAIN && self.make_room(id) {
                    return;
                }
                self.take_back(id);
                self.not_started(id, stage.into(), errno);
                self.leave_room(id);
            }
            News::Ended { how, full, cpu, memory, left } => {
                self.note_full(id, full);
                self.note_counted(id);
                let end = match how {
                    Exited::Code(code) => ProcessEnd::Exited { code },
                    Exited::Signal(signal) => ProcessEnd::Signaled { signal },
                };
                self.process_ended(id, end, Duration::from_micros(cpu), memory);
                if !left {
                    self.take_back(id);
                    self.process_gone(id);
                }
            }
            News::Nothing => {
                self.take_back(id);
                self.process_gone(id);
            }
            News::Gone if self.order_again(id) => {}
            News::Gone => {
                self.process_gone(id);
                self.leave_room(id);
            }
        }
    }

    pub(super) fn not_started(&mut self, id: u32, stage: Stage, errno: i32) {
        self.process_ended(id, ProcessEnd::NotStarted { stage, errno }, Duration::ZERO, 0);
        self.process_gone(id);
    }

    /// Nothing of it is left. One whose shim was killed has told nothing of its end.
    pub(super) fn process_gone(&mut self, id: u32) {
        self.process_ended(id, ProcessEnd::Signaled { signal: 9 }, Duration::ZERO, 0);
        let Some(process) = self.processes.live_mut(id) else { return };
        process.gone = true;
        process.deadline = None;
        process.hired = Default::default();
        if let Some(kept) = &mut process.kept {
            kept.drain_all();
            kept.outputs.clear();
        }
        self.processes.bury(id);
        self.carried.retain(|_, process| *process != id);
        while let Some(id) = self.processes.forget_oldest() {
            let _ = std::fs::remove_dir_all(self.logs.logs(id));
        }
    }

    fn started(&mut self, id: u32, pid: i32, shim: i32, fds: Vec<OwnedFd>) {
        let Some(process) = self.processes.live_mut(id) else { return };
        process.pid = Some(pid);
        process.shim = Some(shim);
        process.order = None;
        // Only who has asked for a terminal gets one, and nothing else in its place: it is read from here.
        let mut master = fds.into_iter().next().filter(|fd| process.terminal && isatty(fd));
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
        if self.processes.live_mut(id).is_some_and(|process| process.is_running()) {
            // What egress knows of it belongs to it.
            let _ = self.warden.settle(&mut self.denials);
        }
        self.blame();
        self.account();
        let Some(process) = self.processes.live_mut(id) else { return };
        process.order = None;
        if !process.end(end, cpu, memory) {
            return;
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
        let counts = [self.counts.oom_kills(), self.counts.refused_forks()];
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
        if let Some(process) = self.processes.live_mut(id) {
            fresh.into_iter().for_each(|(_, denial)| process.blame(denial));
        }
    }
}
