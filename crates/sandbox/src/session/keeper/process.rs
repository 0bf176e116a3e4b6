//! One command of a session, as its keeper knows it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::Hired;
use super::clients::ClientId;
use crate::denial::{Denial, Denials};
use crate::network_record::{NetworkRecord, Passed};
use crate::session::log::{LogStream, LogWriter};
use crate::session::wire::{ProcessEnd, ProcessInfo, ProcessResult, Text};

/// Read at once, so that a flood of output does not starve the rest of the keeper's loop.
const READ: usize = 64 << 10;
/// So many reads empty any pipe (a MiB at most) and any terminal.
const READS: usize = 64;

pub(super) struct Process {
    pub(super) id: u32,
    pub(super) argv: Vec<Text>,
    /// Milliseconds since 1970.
    pub(super) at: u64,
    pub(super) started: Instant,
    pub(super) timeout: Option<Duration>,
    pub(super) deadline: Option<Instant>,
    /// Who ends it by going away, and hears first how it ended.
    pub(super) client: Option<ClientId>,
    /// Who waits to hear that it started.
    pub(super) starter: Option<ClientId>,
    pub(super) waiting: Vec<ClientId>,
    pub(super) terminal: bool,
    pub(super) kept: Option<Kept>,
    /// Until it has started: it may have to be tried again.
    pub(super) order: Option<Order>,
    pub(super) hired: Hired,
    pub(super) pid: Option<i32>,
    /// Its shim's pid inside.
    pub(super) shim: Option<i32>,
    pub(super) timed_out: bool,
    pub(super) gone: bool,
    pub(super) denials: Denials,
    /// Where there is a network at all.
    pub(super) network: Option<NetworkRecord>,
    pub(super) result: Option<ProcessResult>,
}

/// What a shim gets of a command that is to be started.
pub(super) struct Order {
    pub(super) program: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

/// What a process without a client has here: its log, and what feeds it.
pub(super) struct Kept {
    pub(super) log: LogWriter,
    pub(super) outputs: Vec<(LogStream, OwnedFd)>,
    pub(super) stdin: Option<OwnedFd>,
    /// Why the log has an end before the output has.
    pub(super) broken: Option<String>,
}

impl Kept {
    /// Move what there is of one stream into the log. False: there is no more of it.
    pub(super) fn drain(&mut self, stream: LogStream) -> bool {
        let Some(at) = self.outputs.iter().position(|(had, _)| *had == stream) else { return false };
        let mut buffer = [0; READ];
        match rustix::io::read(&self.outputs[at].1, &mut buffer) {
            Ok(0) => {}
            Ok(read) => {
                // The process must not wait because a disk is full.
                if self.broken.is_none()
                    && let Err(error) = self.log.append(stream, &buffer[..read])
                {
                    self.broken = Some(error.to_string());
                }
                return true;
            }
            Err(Errno::AGAIN | Errno::INTR) => return false,
            // A terminal whose last user is gone.
            Err(_) => {}
        }
        self.outputs.remove(at);
        false
    }

    /// All that is there by now: everything that an ended process wrote, though others may hold its pipes, and fill them
    /// faster than they are read.
    pub(super) fn drain_all(&mut self) {
        for stream in [LogStream::Stdout, LogStream::Stderr] {
            let _ = (0..READS).take_while(|_| self.drain(stream)).count();
        }
    }

    pub(super) fn outputs(&self) -> impl Iterator<Item = (LogStream, BorrowedFd<'_>)> {
        self.outputs.iter().map(|(stream, fd)| (*stream, fd.as_fd()))
    }
}

impl Process {
    pub(super) fn is_running(&self) -> bool {
        self.result.is_none()
    }

    pub(super) fn blame(&mut self, denial: Denial) {
        if self.is_running() {
            self.denials.add(denial);
        }
    }

    pub(super) fn passed(&mut self, what: Passed) {
        if let Some(network) = self.network.as_mut().filter(|_| self.result.is_none()) {
            network.add(what);
        }
    }

    /// Write down how it ended; once.
    pub(super) fn end(&mut self, end: ProcessEnd, cpu: Duration, memory: u64) -> bool {
        if self.result.is_some() {
            return false;
        }
        if let Some(kept) = &mut self.kept {
            kept.drain_all();
            kept.stdin = None;
        }
        let end = match end {
            ProcessEnd::NotStarted { .. } => end,
            _ if self.timed_out => ProcessEnd::TimedOut,
            _ => end,
        };
        self.result = Some(ProcessResult {
            process: self.id,
            end,
            duration_ms: self.started.elapsed().as_millis() as u64,
            cpu_ms: cpu.as_millis() as u64,
            max_memory: memory,
            denials: self.denials.to_vec(),
            network: self.network.clone(),
        });
        true
    }

    pub(super) fn info(&self) -> ProcessInfo {
        ProcessInfo {
            process: self.id,
            pid: self.pid,
            argv: self.argv.clone(),
            started: self.at,
            detached: self.kept.is_some(),
            terminal: self.terminal,
            gone: self.gone,
            output: self.kept.as_ref().map(|kept| kept.log.offset()),
            result: self.result.clone(),
        }
    }
}

/// A pipe for one stream of a kept process: our end never makes the keeper wait.
pub(super) fn pipe(ours_reads: bool) -> io::Result<(OwnedFd, OwnedFd)> {
    let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (ours, theirs) = if ours_reads { (read, write) } else { (write, read) };
    if ours_reads {
        rustix::io::ioctl_fionbio(&ours, true)?;
    }
    Ok((ours, theirs))
}
