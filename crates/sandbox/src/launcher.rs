//! A helper with one thread, for programs with many: what makes a sandbox forks, and a fork of a process with threads may
//! hold another thread's locks. The helper is forked before the first thread and forks a *worker* for each job.
//!
//! A job is a function of the program, a socket that carries what to do and what came of it, and the stdio of whatever it
//! runs. Nothing outlives its owner: a worker ends with the helper, and the helper with the program. What a killed worker
//! could not take away, its control group, the helper does; what a killed helper could not, the program.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ringfence_linux::{
    Exited, Hierarchy, SignalFd, close_except, exit_now, fork_copy, is_hung_up, kill_process, move_fd, reap,
    recv_into, send_some_with_fds, set_die_with_parent, start_session, sweep_cgroups, unblock_all,
    wait_for_any,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
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

/// The helper, from the program's side. Dropping it ends the helper and every worker, and sees to it that one of the two
/// takes away what they leave.
#[derive(Debug)]
pub struct Launcher {
    link: Link,
    /// Closed at its other end when the helper and every worker are gone.
    alive: OwnedFd,
    next: AtomicU64,
}

/// What the helper says when the program has closed its end: it sweeps.
#[derive(Debug, Serialize, Deserialize)]
struct TakenOver;

/// So long it is waited for that. One that was stopped, or is being killed, does not say it.
const HANDOVER: Duration = Duration::from_secs(1);

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
        let (alive, lives) = pipe_with(PipeFlags::CLOEXEC)?;
        let owner = getpid();
        match fork_copy()? {
            Some(_) => Ok(Self { link: Link::new(ours), alive, next: AtomicU64::new(1) }),
            None => {
                drop((ours, alive));
                let served = help(theirs, &lives, owner, work);
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

    /// Is the helper gone? Then every worker is, and no other can be had.
    pub fn is_gone(&self) -> bool {
        is_hung_up(self.link.as_fd()).unwrap_or(true)
    }

    /// Kill the worker of a job, and with it everything in its sandbox.
    pub fn kill(&self, job: u64) -> io::Result<()> {
        self.link.send(&Call::End { job, at_once: true }, &[])
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        let handed_over = shutdown(&self.link, Shutdown::Write).is_ok()
            && self.link.set_patience(Some(HANDOVER)).is_ok()
            && matches!(self.link.receive::<TakenOver>(), Ok(Some(_)));
        if !handed_over {
            // Its workers are killed with it, which may take a moment: until then their groups are not nobody's.
            let mut polled = [PollFd::new(&self.alive, PollFlags::empty())];
            let patience = Timespec { tv_sec: SWEEP_FOR.as_secs() as i64, tv_nsec: 0 };
            let _ = rustix::io::retry_on_intr(|| poll(&mut polled, Some(&patience)));
            sweep_after_kill();
        }
    }
}

impl AsFd for Launcher {
    /// Hung up when the helper is gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.link.as_fd()
    }
}

/// The next order of a job that waits for one, with what the worker gets to use: how much of it was sent.
pub fn send_order(job: impl AsFd, order: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    send_some_with_fds(job.as_fd(), order, fds)
}

/// The same, in the worker: all of `head`, and what came with it. `None`: there is no order.
pub fn receive_order(job: impl AsFd, head: &mut [u8]) -> io::Result<Option<Vec<OwnedFd>>> {
    let received = recv_into(job.as_fd(), head)?;
    match received.length {
        0 => Ok(None),
        length if length == head.len() && !received.cut => Ok(Some(received.fds)),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Make these the stdin, stdout and stderr of this process.
pub fn own_stdio(stdio: Vec<OwnedFd>) -> io::Result<()> {
    let stdio = <[OwnedFd; 3]>::try_from(stdio).map_err(|_| io::ErrorKind::InvalidData)?;
    // None of them is where another one goes.
    let above = |fd: OwnedFd| Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?);
    let stdio = stdio.into_iter().map(above).collect::<io::Result<Vec<OwnedFd>>>()?;
    for (number, fd) in stdio.iter().enumerate() {
        move_fd(fd.as_fd(), number as i32)?;
    }
    Ok(())
}

/// Make this one the stdin, stdout and stderr of this process.
pub fn share_stdio(fd: BorrowedFd<'_>) -> io::Result<()> {
    (0..3).try_for_each(|number| move_fd(fd, number))
}

/// Remove the control groups of owners that were killed. Their processes may take a moment longer to be gone.
fn sweep_after_kill() {
    let hierarchy = Hierarchy::detect();
    let until = Instant::now() + SWEEP_FOR;
    let mut clean = 0;
    while clean < SWEEPS && Instant::now() < until {
        clean = if sweep_cgroups(&hierarchy) { clean + 1 } else { 0 };
        std::thread::sleep(SWEEP_AGAIN);
    }
}

/// The helper's life.
fn help(socket: OwnedFd, lives: &OwnedFd, owner: Pid, work: fn(UnixStream)) -> io::Result<()> {
    // A key at the program's terminal is for the program alone.
    start_session()?;
    let signals = SignalFd::new(&[SIGCHLD])?;
    let link = Link::new(socket);
    let mut workers = Workers {
        link: &link,
        lives,
        signals: &signals,
        running: BTreeMap::new(),
        sweeps: 0,
        sweep_until: Instant::now(),
    };
    let served = if getppid() == Some(owner) { workers.serve(work) } else { Ok(()) };
    // The program is gone, or going, which only this process outlives, to take away what its workers leave.
    let _ = link.send(&TakenOver, &[]);
    let were_some = !workers.running.is_empty() || workers.sweeps > 0;
    for worker in workers.running.values() {
        let _ = kill_process(*worker, SIGKILL);
    }
    while let Ok(Some(_)) = wait_for_any() {}
    if were_some {
        sweep_after_kill();
    }
    served
}

/// How often, and how far apart, it is looked for the groups of killed workers.
/// So often must nothing be found: a process that was killed may take a while to be gone, and its group with it.
const SWEEPS: u32 = 20;
const SWEEP_AGAIN: Duration = Duration::from_millis(20);
/// On a busy machine the kernel takes long to take a sandbox down; what is left after this is for the next start.
const SWEEP_FOR: Duration = Duration::from_secs(15);

struct Workers<'a> {
    link: &'a Link,
    lives: &'a OwnedFd,
    signals: &'a SignalFd,
    /// Not yet waited for, so that their pids are nobody else's.
    running: BTreeMap<u64, i32>,
    /// How often it is yet to be looked for what a killed one left, and until when at most.
    sweeps: u32,
    sweep_until: Instant,
}

impl Workers<'_> {
    fn serve(&mut self, work: fn(UnixStream)) -> io::Result<()> {
        loop {
            let input = PollFlags::IN;
            let mut ready = [PollFd::new(self.link, input), PollFd::new(self.signals, input)];
            let patience = Timespec { tv_sec: 0, tv_nsec: i64::from(SWEEP_AGAIN.subsec_nanos()) };
            match poll(&mut ready, (self.sweeps > 0).then_some(&patience)) {
                Err(rustix::io::Errno::INTR) => continue,
                polled => polled?,
            };
            let (asked, ended) = (!ready[0].revents().is_empty(), !ready[1].revents().is_empty());
            if ended {
                self.reap();
            }
            let may_sweep = self.sweeps > 0 && !asked;
            if may_sweep && (sweep_cgroups(&Hierarchy::detect()) || Instant::now() > self.sweep_until) {
                self.sweeps -= 1;
            }
            if asked && !self.answer(work)? {
                return Ok(());
            }
        }
    }

    fn reap(&mut self) {
        while let Ok(Some(_)) = self.signals.next() {}
        while let Ok(Some((pid, how))) = reap() {
            self.running.retain(|_, worker| *worker != pid);
            if how != Exited::Code(0) {
                (self.sweeps, self.sweep_until) = (SWEEPS, Instant::now() + SWEEP_FOR);
            }
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
                    Ok(None) => become_worker(helper, socket, self.lives, [stdin, stdout, stderr], work),
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
fn become_worker(
    helper: Pid,
    socket: OwnedFd,
    lives: &OwnedFd,
    stdio: [OwnedFd; 3],
    work: fn(UnixStream),
) -> ! {
    let prepared = || -> io::Result<UnixStream> {
        set_die_with_parent()?;
        if getppid() != Some(helper) {
            return Err(io::Error::other("the helper is gone"));
        }
        unblock_all()?;
        let above = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 3);
        let (socket, lives) = (above(&socket)?, above(lives)?);
        for (number, fd) in stdio.iter().enumerate() {
            move_fd(fd.as_fd(), number as i32)?;
        }
        close_except(&[socket.as_fd(), lives.as_fd()])?;
        // Open for as long as this process lives.
        std::mem::forget(lives);
        Ok(UnixStream::from(socket))
    };
    if let Ok(socket) = prepared() {
        work(socket);
    }
    exit_now(0)
}
