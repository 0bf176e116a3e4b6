//! The channel to a worker that may lie, stall or flood.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use ringfence_guard::{FileReply, FileRequest, MESSAGE_BYTES};
use ringfence_linux::{recv_into, send_with_fds};
use rustix::fs::{FileType, fstat};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use super::error::FileProblem;

/// How long a client waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileTimeouts {
    /// For the next sign of life.
    pub answer: Duration,
    /// For the end of one operation, whatever the worker says meanwhile.
    pub operation: Duration,
}

impl Default for FileTimeouts {
    fn default() -> Self {
        Self { answer: Duration::from_secs(30), operation: Duration::from_secs(600) }
    }
}

#[derive(Debug)]
pub(super) struct Channel {
    socket: OwnedFd,
    buffer: Vec<u8>,
    timeouts: FileTimeouts,
    /// When the operation that is under way must have ended.
    deadline: Instant,
    /// After a wrong or missing answer nobody knows what the next one answers.
    broken: bool,
}

impl Channel {
    pub(super) fn new(socket: OwnedFd, timeouts: FileTimeouts) -> io::Result<Self> {
        set_socket_timeout(&socket, Timeout::Send, Some(timeouts.answer))?;
        let deadline = Instant::now();
        Ok(Self { socket, buffer: vec![0; MESSAGE_BYTES], timeouts, deadline, broken: false })
    }

    pub(super) fn ask(&mut self, request: &FileRequest) -> Result<(), FileProblem> {
        if self.broken {
            return Err(FileProblem::Broken("an earlier answer was wrong or missing"));
        }
        self.deadline = Instant::now() + self.timeouts.operation;
        let sent = send_with_fds(self.socket.as_fd(), &request.encode(), &[]);
        sent.map_err(|error| self.lost(&error, self.timeouts.answer))
    }

    /// The next reply that is not a mere sign of life.
    pub(super) fn answer(&mut self) -> Result<(FileReply, Option<OwnedFd>), FileProblem> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            match self.receive(Some(left.min(self.timeouts.answer)))? {
                (FileReply::Working, None) => {}
                (FileReply::Failed { errno }, None) => return Err(self.refused(errno)),
                (FileReply::NotRegular { kind }, None) => return Err(FileProblem::NotRegular(kind)),
                answer => return Ok(answer),
            }
        }
    }

    /// One reply, with the one descriptor that may come with it. `None`: wait for ever.
    pub(super) fn receive(
        &mut self,
        wait: Option<Duration>,
    ) -> Result<(FileReply, Option<OwnedFd>), FileProblem> {
        // A time of zero would mean to wait for ever.
        let wait = wait.map(|wait| wait.max(Duration::from_millis(1)));
        set_socket_timeout(&self.socket, Timeout::Recv, wait)?;
        let received = recv_into(self.socket.as_fd(), &mut self.buffer)
            .map_err(|error| self.lost(&error, wait.unwrap_or_default()))?;
        if received.length == 0 {
            self.broken = true;
            return Err(FileProblem::Gone);
        }
        if received.cut {
            return Err(self.wrong("a message that is too large"));
        }
        let Some(reply) = FileReply::decode(&self.buffer[..received.length]) else {
            return Err(self.wrong("a message that means nothing"));
        };
        let mut fds = received.fds;
        let takes_one = matches!(reply, FileReply::Opened | FileReply::Created { .. });
        if fds.len() != usize::from(takes_one) {
            return Err(self.wrong("descriptors that were not asked for, or none where one was"));
        }
        Ok((reply, fds.pop()))
    }

    /// This answer, or the one given before, can't be: nothing more is asked on this channel.
    pub(super) fn wrong(&mut self, what: &'static str) -> FileProblem {
        self.broken = true;
        FileProblem::Broken(what)
    }

    /// The descriptor of a regular file, whatever the worker calls it.
    pub(super) fn regular(&mut self, fd: Option<OwnedFd>) -> Result<File, FileProblem> {
        let Some(fd) = fd else { return Err(self.wrong("an answer without its descriptor")) };
        match FileType::from_raw_mode(fstat(&fd)?.st_mode) {
            FileType::RegularFile => Ok(fd.into()),
            _ => Err(self.wrong("a descriptor that is not a regular file")),
        }
    }

    fn refused(&mut self, errno: u32) -> FileProblem {
        /// The kernel's own bound on error numbers.
        const MAX_ERRNO: u32 = 4095;
        match i32::try_from(errno) {
            Ok(number) if (1..=MAX_ERRNO).contains(&errno) => FileProblem::Refused { errno: number },
            _ => self.wrong("an error that does not exist"),
        }
    }

    fn lost(&mut self, error: &io::Error, waited: Duration) -> FileProblem {
        self.broken = true;
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => FileProblem::NoAnswer(waited),
            _ => FileProblem::Gone,
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Only where silence is no fault: a watch of a place in which nothing happens.
    pub(super) fn mend_after_quiet(&mut self) {
        self.broken = false;
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
