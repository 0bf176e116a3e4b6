//! A command of a session in the foreground of this process: its stdio is carried, signals are passed on.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_linux::{SignalFd, window_size};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat, fstatfs};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::pipe::{PipeFlags, pipe_with};

use super::client::{Exec, ExecStdio, Process, Sandbox, SessionError};
use super::keeper::PIPEFS_MAGIC;
use super::wire::ProcessResult;
use crate::outcome::Captured;
use crate::providers::Relay;

/// Passed on to the command; the first of them twice ends it.
const FORWARDED: &[i32] = &[1, 2, 3, 10, 12, 15, SIGWINCH];
const SIGWINCH: i32 = 28;
const ENDING: &[i32] = &[1, 2, 3, 15];

/// What a pipe that says it has room takes without waiting.
const SURE: usize = 4 << 10;
const MUCH: usize = 64 << 10;
/// A pipe holds no more than this, whatever a command asks for.
const PIPE: usize = 1 << 20;

/// How a foreground command is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attending {
    /// This process's own stdin, stdout and stderr.
    Stdio,
    /// This process's stdin; stdout and stderr are kept, up to so many bytes each.
    Capture { most: usize },
    /// A terminal of the command's own, on this process's.
    Terminal,
}

/// Where bytes go to.
enum Sink {
    File(OwnedFd),
    Memory {
        kept: Vec<u8>,
        most: usize,
        truncated: bool,
    },
    /// Nobody takes them any more.
    Closed,
}

/// Bytes on their way between this process's stdio and the command's.
struct Feed {
    from: OwnedFd,
    to: Sink,
    at_once: usize,
    ended: bool,
}

impl Feed {
    fn new(from: OwnedFd, to: OwnedFd) -> Self {
        let kind = fstat(&to).map(|facts| FileType::from_raw_mode(facts.st_mode));
        let at_once = if kind == Ok(FileType::RegularFile) { MUCH } else { SURE };
        Self { from, to: Sink::File(to), at_once, ended: false }
    }

    fn keeping(from: OwnedFd, most: usize) -> Self {
        let to = Sink::Memory { kept: Vec::new(), most, truncated: false };
        Self { from, to, at_once: MUCH, ended: false }
    }

    /// What to wait for: room where it goes to, then something to carry.
    fn polled(&self) -> Option<PollFd<'_>> {
        match &self.to {
            _ if self.ended => None,
            Sink::Closed => None,
            Sink::File(to) if !has_room(to.as_fd()) => {
                Some(PollFd::from_borrowed_fd(to.as_fd(), PollFlags::OUT))
            }
            Sink::File(_) | Sink::Memory { .. } => {
                Some(PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN))
            }
        }
    }

    /// Carry one buffer; false when there is nothing to carry now.
    fn carry(&mut self) -> bool {
        let room = match &self.to {
            Sink::Closed => false,
            Sink::File(to) => has_room(to.as_fd()),
            Sink::Memory { .. } => true,
        };
        if self.ended || !room || !is_ready(self.from.as_fd()) {
            return false;
        }
        let mut buffer = vec![0; self.at_once];
        match rustix::io::read(&self.from, &mut buffer) {
            Ok(read) if read > 0 => {
                self.put(&buffer[..read]);
                true
            }
            Err(Errno::AGAIN | Errno::INTR) => false,
            // Its end. What was kept stays kept.
            _ => {
                if let Sink::File(_) = self.to {
                    self.to = Sink::Closed;
                }
                self.ended = true;
                false
            }
        }
    }

    /// What there is by now; whoever still writes is not waited for, but whoever reads is, until `stop`.
    fn carry_rest(&mut self, stop: &SignalFd) {
        for _ in 0..PIPE / self.at_once {
            while let Sink::File(to) = &self.to
                && !has_room(to.as_fd())
                && is_ready(self.from.as_fd())
            {
                let mut polled = [
                    PollFd::from_borrowed_fd(to.as_fd(), PollFlags::OUT),
                    PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
                ];
                let _ = poll(&mut polled, None);
                if stop.next().is_ok_and(|signal| signal.is_some_and(|signal| ENDING.contains(&signal))) {
                    return;
                }
            }
            if !self.carry() {
                return;
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        match &mut self.to {
            Sink::File(to) => {
                let written = to.try_clone().and_then(|to| File::from(to).write_all(bytes));
                if written.is_err() {
                    // The other end learns from its own closed pipe that nobody reads.
                    self.to = Sink::Closed;
                }
            }
            Sink::Memory { kept, most, truncated } => {
                let room = most.saturating_sub(kept.len()).min(bytes.len());
                kept.extend_from_slice(&bytes[..room]);
                *truncated |= room < bytes.len();
            }
            Sink::Closed => {}
        }
    }
}

fn is_ready(fd: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

fn has_room(fd: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(fd, PollFlags::OUT)];
    poll(&mut polled, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
}

/// A pipe of this process's that the command can have as it is.
fn is_plain_pipe(fd: BorrowedFd<'_>, access: OFlags) -> bool {
    let pipe = fstat(fd).is_ok_and(|facts| FileType::from_raw_mode(facts.st_mode) == FileType::Fifo)
        && fstatfs(fd).is_ok_and(|facts| facts.f_type == PIPEFS_MAGIC);
    pipe && fcntl_getfl(fd).is_ok_and(|flags| flags & OFlags::ACCMODE == access)
}

fn io(doing: &'static str) -> impl Fn(Errno) -> SessionError {
    move |error| SessionError::Io { doing, source: error.into() }
}

/// The command's end of one of this process's three, and what carries the bytes where a pipe is between.
fn lend(fd: BorrowedFd<'_>, reads: bool) -> Result<(OwnedFd, Option<Feed>), SessionError> {
    let access = if reads { OFlags::RDONLY } else { OFlags::WRONLY };
    if is_plain_pipe(fd, access) {
        return Ok((fcntl_dupfd_cloexec(fd, 3).map_err(io("lend a pipe"))?, None));
    }
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(io("make a pipe"))?;
    // A closed descriptor is an end of input, and takes no output.
    let own = fcntl_dupfd_cloexec(fd, 3).ok();
    Ok(match (reads, own) {
        (true, Some(own)) => (read, Some(Feed::new(own, write))),
        (true, None) => (read, None),
        (false, Some(own)) => (write, Some(Feed::new(read, own))),
        (false, None) => (write, None),
    })
}

/// Run a command in the foreground, to its end; with what was captured.
pub fn attend(
    sandbox: &Sandbox,
    mut exec: Exec,
    how: Attending,
) -> Result<(ProcessResult, Captured), SessionError> {
    let signals =
        SignalFd::new(FORWARDED).map_err(|source| SessionError::Io { doing: "watch signals", source })?;
    let (mut input, mut feeds) = (None, Vec::new());
    exec.stdio = match how {
        Attending::Terminal => {
            let size = window_size(rustix::stdio::stdin());
            ExecStdio::Terminal { rows: size.ws_row, columns: size.ws_col }
        }
        Attending::Stdio => {
            let (stdin, first) = lend(rustix::stdio::stdin(), true)?;
            let (stdout, second) = lend(rustix::stdio::stdout(), false)?;
            let (stderr, third) = lend(rustix::stdio::stderr(), false)?;
            input = first;
            feeds.extend([second, third].into_iter().flatten());
            ExecStdio::Given([stdin, stdout, stderr])
        }
        Attending::Capture { most } => {
            let (stdin, first) = lend(rustix::stdio::stdin(), true)?;
            let pipe = || pipe_with(PipeFlags::CLOEXEC).map_err(io("make a pipe"));
            let ((stdout, their_stdout), (stderr, their_stderr)) = (pipe()?, pipe()?);
            feeds.extend([Feed::keeping(stdout, most), Feed::keeping(stderr, most)]);
            input = first;
            ExecStdio::Given([stdin, their_stdout, their_stderr])
        }
    };
    let mut process = sandbox.exec(exec)?;
    let relay = process.terminal.take().map(|terminal| Relay::start(terminal.into()));
    let mut attendance = Attendance { process, relay, input, feeds, signals, asked: 0 };
    let result = attendance.serve();
    let captured = attendance.finish();
    Ok((result?, captured))
}

struct Attendance {
    process: Process,
    relay: Option<Relay>,
    input: Option<Feed>,
    feeds: Vec<Feed>,
    signals: SignalFd,
    asked: u32,
}

impl Attendance {
    fn serve(&mut self) -> Result<ProcessResult, SessionError> {
        if let Some(result) = self.process.result() {
            return Ok(result.clone());
        }
        loop {
            if self.wait()? {
                return self.process.wait();
            }
            if let Some(relay) = &mut self.relay {
                relay.carry();
            }
            for feed in self.input.iter_mut().chain(&mut self.feeds) {
                feed.carry();
            }
            self.take_signals();
        }
    }

    /// True when the command has ended.
    fn wait(&self) -> Result<bool, SessionError> {
        let mut polled = vec![
            PollFd::from_borrowed_fd(self.process.ending(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
        ];
        if let Some(relay) = &self.relay {
            polled.push(relay.output());
            polled.extend(relay.keyboard().map(|keyboard| PollFd::from_borrowed_fd(keyboard, PollFlags::IN)));
        }
        polled.extend(self.input.iter().chain(&self.feeds).filter_map(Feed::polled));
        match poll(&mut polled, None) {
            Ok(_) | Err(Errno::INTR) => Ok(!polled[0].revents().is_empty()),
            Err(error) => Err(io("wait for the command")(error)),
        }
    }

    fn take_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.next() {
            if signal == SIGWINCH {
                if let Some(relay) = &self.relay {
                    relay.resize();
                }
                continue;
            }
            self.asked += u32::from(ENDING.contains(&signal));
            // One that has just ended can't be signalled, and is heard of next.
            let _ = if self.asked > 1 { self.process.kill() } else { self.process.signal(signal) };
        }
    }

    /// What the command had written when it ended; others that hold its pipes are not waited for.
    fn finish(mut self) -> Captured {
        for feed in &mut self.feeds {
            feed.carry_rest(&self.signals);
        }
        if let Some(relay) = self.relay.take() {
            relay.finish();
        }
        let mut captured = Captured::default();
        let mut memories = self.feeds.into_iter().filter_map(|feed| match feed.to {
            Sink::Memory { kept, truncated, .. } => Some((kept, truncated)),
            _ => None,
        });
        if let (Some((stdout, cut)), Some((stderr, cut_too))) = (memories.next(), memories.next()) {
            captured = Captured { stdout, stderr, truncated: cut || cut_too };
        }
        captured
    }
}
