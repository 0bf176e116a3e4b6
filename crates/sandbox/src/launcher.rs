//! A helper with one thread, for programs with many: what makes a sandbox forks, and a fork of a process with threads may
//! hold another thread's locks. The helper is forked before the first thread and forks a *worker* for each job.
//!
//! A job is a function of the program, a socket that carries what to do and what came of it, and the stdio of whatever it
//! runs. Nothing outlives its owner: a worker ends with the helper, and the helper with the program.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use ringfence_linux::{
    SignalFd, close_except, exit_now, fork_copy, kill_process, move_fd, reap, set_die_with_parent,
    start_session, unblock_all,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, getpid, getppid};
use serde::{Deserialize, Serialize};

use crate::session::Link;

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;
const SIGCHLD: i32 = 17;

/// What the program asks of its helper.
#[derive(Debug, Serialize, Deserialize)]
enum Call {
    /// With the job's socket and, in order, its stdin, stdout and stderr.
    Start {
        job: u64,
    },
    End {
        job: u64,
        at_once: bool,
    },
}

/// The helper, from the program's side. Dropping it ends the helper and every worker.
#[derive(Debug)]
pub struct Launcher {
    link: Link,
    next: AtomicU64,
}

/// A job that a worker is at.
#[derive(Debug)]
pub struct Job {
    pub id: u64,
    /// Closed by the worker when it ends, however it ends.
    pub socket: UnixStream,
}

impl Launcher {
    /// Fork the helper. `work` is what a worker does with the socket of its job; when it returns, the worker ends. Only a
    /// process with one thread can do this.
    pub fn start(work: fn(UnixStream)) -> io::Result<Self> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let owner = getpid();
        match fork_copy()? {
            Some(_) => Ok(Self { link: Link::new(ours), next: AtomicU64::new(1) }),
            None => {
                drop(ours);
                let served = help(theirs, owner, work);
                exit_now(i32::from(served.is_err()))
            }
        }
    }

    /// Begin a job.
    pub fn begin(&self, stdio: [OwnedFd; 3]) -> io::Result<Job> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (ours, theirs) = UnixStream::pair()?;
        let fds = [theirs.as_fd(), stdio[0].as_fd(), stdio[1].as_fd(), stdio[2].as_fd()];
        self.link.send(&Call::Start { job: id }, &fds)?;
        Ok(Job { id, socket: ours })
    }

    /// Tell the worker of a job to stop: its sandbox ends whole, and the job's socket tells of that. One that has ended is
    /// left alone.
    pub fn stop(&self, job: u64) -> io::Result<()> {
        self.link.send(&Call::End { job, at_once: false }, &[])
    }

    /// Kill the worker of a job, and with it everything in its sandbox.
    pub fn kill(&self, job: u64) -> io::Result<()> {
        self.link.send(&Call::End { job, at_once: true }, &[])
    }
}

/// The helper's life.
fn help(socket: OwnedFd, owner: Pid, work: fn(UnixStream)) -> io::Result<()> {
    // A key at the program's terminal is for the program alone.
    start_session()?;
    set_die_with_parent()?;
    if getppid() != Some(owner) {
        return Ok(());
    }
    let signals = SignalFd::new(&[SIGCHLD])?;
    let link = Link::new(socket);
    let mut workers = Workers { link: &link, signals: &signals, running: BTreeMap::new() };
    loop {
        let mut ready = [PollFd::new(&link, PollFlags::IN), PollFd::new(&signals, PollFlags::IN)];
        match poll(&mut ready, None) {
            Err(rustix::io::Errno::INTR) => continue,
            polled => polled?,
        };
        let (asked, ended) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
        if ended {
            workers.reap();
        }
        if asked && !workers.answer(work)? {
            return Ok(());
        }
    }
}

struct Workers<'a> {
    link: &'a Link,
    signals: &'a SignalFd,
    /// Not yet waited for, so that their pids are nobody else's.
    running: BTreeMap<u64, i32>,
}

impl Workers<'_> {
    fn reap(&mut self) {
        while let Ok(Some(_)) = self.signals.next() {}
        while let Ok(Some((pid, _))) = reap() {
            self.running.retain(|_, worker| *worker != pid);
        }
    }

    /// One call. False: the program is gone.
    fn answer(&mut self, work: fn(UnixStream)) -> io::Result<bool> {
        let Some((call, fds)) = self.link.receive::<Call>()? else { return Ok(false) };
        match call {
            Call::Start { job } => {
                let [socket, stdin, stdout, stderr] = <[OwnedFd; 4]>::try_from(fds)
                    .map_err(|_| io::Error::other("a job came without its descriptors"))?;
                // A fork that fails closes the socket, which is how the program hears of it.
                let helper = getpid();
                match fork_copy() {
                    Ok(Some(worker)) => {
                        self.running.insert(job, worker);
                    }
                    Ok(None) => become_worker(helper, socket, [stdin, stdout, stderr], work),
                    Err(_) => {}
                }
            }
            Call::End { job, at_once } => {
                if let Some(worker) = self.running.get(&job) {
                    let _ = kill_process(*worker, if at_once { SIGKILL } else { SIGTERM });
                }
            }
        }
        Ok(true)
    }
}

/// The worker's life: its job's stdio is its own, and it holds nothing else of the helper.
fn become_worker(helper: Pid, socket: OwnedFd, stdio: [OwnedFd; 3], work: fn(UnixStream)) -> ! {
    let prepared = || -> io::Result<UnixStream> {
        set_die_with_parent()?;
        if getppid() != Some(helper) {
            return Err(io::Error::other("the helper is gone"));
        }
        unblock_all()?;
        let socket = rustix::io::fcntl_dupfd_cloexec(&socket, 3)?;
        for (number, fd) in stdio.iter().enumerate() {
            move_fd(fd.as_fd(), number as i32)?;
        }
        close_except(&[socket.as_fd()])?;
        Ok(UnixStream::from(socket))
    };
    if let Ok(socket) = prepared() {
        work(socket);
    }
    exit_now(0)
}
