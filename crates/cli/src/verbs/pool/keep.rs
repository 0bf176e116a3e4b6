//! The pool's own loop: it keeps so many sandboxes ready, hands each client to one, and ends what a client leaves.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use ringfence_sandbox::{Job, Launcher, SignalFd, send_order};
use ringfence_service::workers::READY;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::is_own_peer;
use super::worker::{CLIENT, FAILED, work};
use crate::args::PoolArgs;
use crate::failure::Failure;
use crate::output;

/// So long nothing is made after something could not be.
const BACK_OFF: Duration = Duration::from_secs(1);
/// Clients that are served at a time.
const MOST_CLIENTS: usize = 256;

pub(super) struct Keeper {
    launcher: Launcher,
    signals: SignalFd,
    /// What every worker makes, as it is told.
    template: Vec<u8>,
    size: usize,
    stock: Vec<Waiting>,
    served: Vec<(Job, UnixStream)>,
    /// Nothing is made before this.
    rests_until: Option<Instant>,
    /// Somebody has been told that all are ready.
    told: bool,
}

struct Waiting {
    job: Job,
    ready: bool,
}

fn failed(doing: &str) -> impl FnOnce(io::Error) -> Failure + '_ {
    move |error| {
        Failure::new(format!("cannot {doing}: {error}"), "see whether this user may start more processes")
    }
}

impl Keeper {
    /// Fork the helper that workers come from.
    pub(super) fn start(args: &PoolArgs) -> Result<Self, Failure> {
        let launcher = Launcher::start(work).map_err(failed("start the helper that makes sandboxes"))?;
        const SIGHUP: i32 = 1;
        const SIGINT: i32 = 2;
        const SIGTERM: i32 = 15;
        let signals = SignalFd::new(&[SIGHUP, SIGINT, SIGTERM]).map_err(failed("wait for signals"))?;
        let words: Vec<Vec<u8>> = std::env::args_os().skip(1).map(|word| word.as_bytes().to_vec()).collect();
        let template = message(&words).map_err(failed("write down what to make"))?;
        let size = usize::from(args.size);
        let (stock, served) = (Vec::new(), Vec::new());
        Ok(Self { launcher, signals, template, size, stock, served, rests_until: None, told: false })
    }

    /// Until it is told to end.
    pub(super) fn serve(
        mut self,
        listener: &UnixListener,
        socket: &Path,
        args: &PoolArgs,
    ) -> Result<i32, Failure> {
        loop {
            self.fill()?;
            self.tell(socket, args);
            let (stopped, gone, asked) = self.wait(listener)?;
            if stopped {
                return Ok(0);
            }
            if gone {
                return Err(Failure::new(
                    "the helper that makes sandboxes was killed, and all of them with it",
                    "start the pool again",
                ));
            }
            self.look_at_stock()?;
            self.look_at_clients();
            if asked {
                self.accept(listener)?;
            }
        }
    }

    fn fill(&mut self) -> Result<(), Failure> {
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        self.rests_until = None;
        while self.stock.len() < self.size {
            let job = self.begin().map_err(failed("start a worker"))?;
            self.stock.push(Waiting { job, ready: false });
        }
        Ok(())
    }

    fn begin(&self) -> io::Result<Job> {
        let null = || std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").map(OwnedFd::from);
        // What a worker has to say before it serves anybody is for whoever started the pool.
        let stderr = rustix::stdio::stderr().try_clone_to_owned()?;
        let mut job = self.launcher.begin([null()?, null()?, stderr])?;
        job.socket.write_all(&self.template)?;
        job.socket.set_nonblocking(true)?;
        Ok(job)
    }

    fn tell(&mut self, socket: &Path, args: &PoolArgs) {
        let ready = self.stock.iter().filter(|waiting| waiting.ready).count();
        if self.told || ready < self.size {
            return;
        }
        self.told = true;
        if args.json {
            output::json(&serde_json::json!({ "socket": socket, "size": self.size }));
        } else {
            output::line(format!("{} sandboxes are ready at {}", self.size, socket.display()));
        }
    }

    /// Was it told to end, is the helper gone, does a client ask?
    fn wait(&self, listener: &UnixListener) -> Result<(bool, bool, bool), Failure> {
        let input = PollFlags::IN;
        let mut polled = vec![
            PollFd::from_borrowed_fd(self.signals.as_fd(), input),
            PollFd::from_borrowed_fd(self.launcher.as_fd(), PollFlags::RDHUP),
            // With as many clients as there may be, the next one waits.
            PollFd::new(listener, if self.served.len() < MOST_CLIENTS { input } else { PollFlags::empty() }),
        ];
        polled.extend(self.stock.iter().map(|waiting| PollFd::new(&waiting.job.socket, input)));
        for (job, client) in &self.served {
            polled.push(PollFd::new(&job.socket, PollFlags::RDHUP));
            polled.push(PollFd::new(client, PollFlags::RDHUP));
        }
        let left = self.rests_until.map(|until| until.saturating_duration_since(Instant::now()));
        let left =
            left.map(|left| Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() });
        match poll(&mut polled, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(failed("wait for runs")(error.into())),
        }
        let happened = |at: usize| !polled[at].revents().is_empty();
        Ok((happened(0), happened(1), happened(2)))
    }

    /// Which are ready by now, and which are gone: out of date, or killed.
    fn look_at_stock(&mut self) -> Result<(), Failure> {
        let mut kept = Vec::with_capacity(self.stock.len());
        for mut waiting in std::mem::take(&mut self.stock) {
            let mut byte = [0];
            match waiting.job.socket.read(&mut byte) {
                Ok(1) if byte[0] == READY => waiting.ready = true,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(1) if byte[0] == FAILED => {
                    let why = rest(&mut waiting.job.socket);
                    if !self.told {
                        return Err(Failure::new(why, "correct the flags, or run `ringfence doctor`"));
                    }
                    output::warning(&format!("a sandbox could not be made: {why}"));
                    self.rests_until = Some(Instant::now() + BACK_OFF);
                    continue;
                }
                _ => {
                    if !waiting.ready {
                        self.rests_until = Some(Instant::now() + BACK_OFF);
                    }
                    continue;
                }
            }
            kept.push(waiting);
        }
        self.stock = kept;
        Ok(())
    }

    /// What a client leaves is ended. A worker that has ended is forgotten, and its client hears no more.
    fn look_at_clients(&mut self) {
        let launcher = &self.launcher;
        self.served.retain(|(job, client)| {
            let has_ended = is_hung_up(&job.socket);
            if !has_ended && is_hung_up(client) {
                let _ = launcher.stop(job.id);
            }
            !has_ended
        });
        // A client that is gone is told of again and again until its worker is: look less often.
        if self.served.iter().any(|(_, client)| is_hung_up(client)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn accept(&mut self, listener: &UnixListener) -> Result<(), Failure> {
        let Ok((client, _)) = listener.accept() else { return Ok(()) };
        if !is_own_peer(&client) {
            return Ok(());
        }
        // One that is ready, or will be first.
        let at = self.stock.iter().position(|waiting| waiting.ready).unwrap_or(0);
        let mut jobs = Vec::new();
        if at < self.stock.len() {
            jobs.push(self.stock.remove(at).job);
        }
        for job in jobs.into_iter().map(Ok).chain(std::iter::once_with(|| self.begin())) {
            let job = job.map_err(failed("start a worker"))?;
            // One that has just ended, out of date, reads nothing any more.
            if send_order(&job.socket, &[CLIENT], &[client.as_fd()]).is_ok() {
                self.served.push((job, client));
                return Ok(());
            }
        }
        Ok(())
    }
}

fn message(words: &[Vec<u8>]) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(words)?;
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok([&length.to_le_bytes()[..], &body].concat())
}

/// What a worker says before it ends.
fn rest(socket: &mut UnixStream) -> String {
    let mut text = Vec::new();
    let _ = socket.set_nonblocking(false);
    let _ = socket.set_read_timeout(Some(BACK_OFF));
    let _ = socket.take(1 << 16).read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn is_hung_up(socket: &UnixStream) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok()
        && polled[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP | PollFlags::ERR)
}
