//! Guard of a session: it starts commands as they are asked for, and stays.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_linux::{
    ChildNews, Exited, SignalFd, close_except, exit_now, fork_copy, kill_all, kill_group, kill_process,
    next_child_news, recv_with_fds, send_with_fds,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::files::serve_files;
use crate::serve::{OomScore, SIGCHLD, SIGCONT, SIGSTOP, failed, send_sockets};
use crate::shim::Shim;
use crate::tree::{kill_below, kill_frozen, strays};
use crate::wire::{ExecStage, FromGuard, News, ToGuard};

/// So long a shim has to tell of the end of a command that was killed.
const GRACE: Duration = Duration::from_millis(200);

/// What a session's guard needs to know of its sandbox.
#[derive(Debug)]
pub struct SessionGuard<'a> {
    pub score: OomScore,
    /// Places of limited size, each with the bit that reports it full.
    pub private: &'a [(&'a str, u8)],
    /// How many processes the commands may have: fewer than guard may, so that another command can always be started.
    pub processes: Option<u64>,
}

/// Serve until the owner goes; then end, and with it the pid namespace.
pub fn serve_session(control: OwnedFd, session: &SessionGuard<'_>) -> ! {
    let message = match Guard::new(control.as_fd(), session) {
        Ok(mut guard) => guard.serve(),
        Err(message) => message,
    };
    let _ = send_with_fds(control.as_fd(), &message.encode(), &[]);
    exit_now(1)
}

struct Guard<'a> {
    control: BorrowedFd<'a>,
    session: &'a SessionGuard<'a>,
    children: SignalFd,
    /// Shims, and what the owner calls them.
    shims: BTreeMap<i32, u32>,
    workers: BTreeSet<i32>,
    /// Shims whose commands were killed, and when they must be gone.
    doomed: BTreeMap<i32, Instant>,
    /// The owner wants everybody stopped.
    stopped: bool,
}

impl<'a> Guard<'a> {
    fn new(control: BorrowedFd<'a>, session: &'a SessionGuard<'a>) -> Result<Self, FromGuard> {
        let children = SignalFd::new(&[SIGCHLD]).map_err(failed("watch children"))?;
        Ok(Self {
            control,
            session,
            children,
            shims: BTreeMap::new(),
            workers: BTreeSet::new(),
            doomed: BTreeMap::new(),
            stopped: false,
        })
    }

    /// Returns only what can't go on.
    fn serve(&mut self) -> FromGuard {
        loop {
            let mut polled = [
                PollFd::from_borrowed_fd(self.control, PollFlags::IN),
                PollFd::from_borrowed_fd(self.children.as_fd(), PollFlags::IN),
            ];
            match poll(&mut polled, self.patience().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return failed("wait")(error.into()),
            }
            let ordered = !polled[0].revents().is_empty();
            if let Err(error) = self.reap() {
                return failed("reap")(error);
            }
            if ordered {
                self.obey();
            }
            self.end_doomed();
        }
    }

    fn reap(&mut self) -> std::io::Result<()> {
        while self.children.next()?.is_some() {}
        let mut stopped = Vec::new();
        while let Some((pid, news)) = next_child_news()? {
            match news {
                ChildNews::Ended(how) => self.take_end(pid, how),
                ChildNews::Stopped => stopped.push(pid),
            }
        }
        if !self.stopped {
            // A command stopped it. What waits for an order would leave the next command waiting too. Each is told of once
            // before it goes on, so that nobody who does this again and again keeps guard here.
            stopped.retain(|pid| self.shims.contains_key(pid) || self.workers.contains(pid));
            stopped.into_iter().for_each(|pid| drop(kill_process(pid, SIGCONT)));
        }
        Ok(())
    }

    fn take_end(&mut self, pid: i32, how: Exited) {
        self.workers.remove(&pid);
        self.doomed.remove(&pid);
        if let Some(id) = self.shims.remove(&pid) {
            if how != Exited::Code(0) {
                self.end_strays();
            }
            self.tell(id, News::Gone);
        }
    }

    /// Kill what is below no shim any more.
    fn end_strays(&self) {
        let own = self.shims.keys().chain(&self.workers).copied().collect();
        self.frozen(|| kill_frozen(strays(&own)));
    }

    /// While nobody else runs: nothing is started, and nothing moves elsewhere.
    fn frozen(&self, act: impl FnOnce()) {
        // Neither finds anybody where guard is alone.
        let _ = kill_all(SIGSTOP);
        act();
        if !self.stopped {
            let _ = kill_all(SIGCONT);
        }
    }

    fn patience(&self) -> Option<Timespec> {
        let left = self.doomed.values().min()?.saturating_duration_since(Instant::now());
        Some(Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) })
    }

    fn kill_tree(&mut self, id: u32) {
        let shim = self.shims.iter().find_map(|(pid, had)| (*had == id).then_some(*pid));
        if let Some(shim) = shim {
            kill_below(shim);
            self.doomed.entry(shim).or_insert_with(|| Instant::now() + GRACE);
        }
    }

    /// A shim that is still there was stopped, had not started its command yet, or has something below it that runs faster
    /// than it can be looked for.
    fn end_doomed(&mut self) {
        let now = Instant::now();
        let late: Vec<i32> =
            self.doomed.iter().filter(|(_, until)| **until <= now).map(|(shim, _)| *shim).collect();
        if late.is_empty() {
            return;
        }
        self.doomed.retain(|shim, _| !late.contains(shim));
        self.frozen(|| kill_frozen(late));
    }

    fn tell(&self, id: u32, news: News) {
        let _ = send_with_fds(self.control, &FromGuard::InSession { id, news }.encode(), &[]);
    }

    fn obey(&mut self) {
        let message = recv_with_fds(self.control).unwrap_or_default();
        if message.bytes.is_empty() {
            // The owner is gone, and so is the reason for this sandbox.
            exit_now(1);
        }
        // A signal for processes that have just ended finds nobody, which is no error here.
        let _ = match ToGuard::decode(&message.bytes) {
            Some(ToGuard::Shim { id }) => {
                message.fds.into_iter().next().into_iter().for_each(|channel| self.start_shim(id, channel));
                Ok(())
            }
            Some(ToGuard::SignalGroup { group, signal }) if group > 1 => kill_group(group, signal),
            Some(ToGuard::KillTree { id }) => {
                self.kill_tree(id);
                Ok(())
            }
            Some(ToGuard::StopAll) => {
                self.stopped = true;
                kill_all(SIGSTOP)
            }
            Some(ToGuard::ContinueAll) => {
                self.stopped = false;
                kill_all(SIGCONT)
            }
            Some(ToGuard::Sockets { v4, v6 }) => send_sockets(self.control, v4, v6),
            Some(ToGuard::Plug { id }) => self.plug(id),
            Some(ToGuard::Space { id }) => self.space(id),
            Some(ToGuard::Files) => {
                message.fds.into_iter().next().into_iter().for_each(|channel| self.start_worker(channel));
                Ok(())
            }
            Some(ToGuard::Signal(_) | ToGuard::SignalGroup { .. }) | None => Ok(()),
        };
    }

    /// A worker that can't be started closes its channel, which its client sees.
    fn start_worker(&mut self, channel: OwnedFd) {
        match self.session.score.raised(fork_copy) {
            Ok(Some(worker)) => drop(self.workers.insert(worker)),
            // It takes no orders but those of its channel.
            Ok(None) => match close_except(&[channel.as_fd()]) {
                Ok(()) => serve_files(channel),
                Err(_) => exit_now(1),
            },
            Err(_) => {}
        }
    }

    /// guard keeps none of them.
    fn plug(&self, id: u32) -> std::io::Result<()> {
        let make = |family| socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None);
        let sockets: Vec<OwnedFd> =
            [AddressFamily::INET, AddressFamily::INET6].into_iter().flat_map(make).collect();
        let fds: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
        send_with_fds(self.control, &FromGuard::Plug { id }.encode(), &fds)
    }

    /// Of the first of the private places.
    fn space(&self, id: u32) -> std::io::Result<()> {
        let stat = self.session.private.first().and_then(|(path, _)| rustix::fs::statvfs(*path).ok());
        let (used, all) = stat.map_or((0, 0), |stat| {
            (stat.f_blocks.saturating_sub(stat.f_bfree) * stat.f_frsize, stat.f_blocks * stat.f_frsize)
        });
        send_with_fds(self.control, &FromGuard::Space { id, used, all }.encode(), &[])
    }

    /// It takes its order from the channel, of which guard keeps nothing: what closes it unread is known outside.
    fn start_shim(&mut self, id: u32, channel: OwnedFd) {
        match self.session.score.raised(fork_copy) {
            Ok(Some(shim)) => {
                self.shims.insert(shim, id);
            }
            Ok(None) => {
                let SessionGuard { processes, private, .. } = *self.session;
                Shim { id, channel, control: self.control, processes, private }.live()
            }
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(0);
                self.tell(id, News::NotStarted { stage: ExecStage::Program, errno });
                self.tell(id, News::Gone);
            }
        }
    }
}
