//! The descriptors that a command gets as stdin, stdout and stderr.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ringfence_linux::{StdioProblem, check_stdio, reopen_read_only, reopen_write_only};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::refusal::Refusal;
use crate::request::Stream;

/// Our ends of a command's captured output.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// All numbers are above 2, so that placing one in the command can't overwrite another.
fn duplicate(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(fd, 3)?)
}

fn null(flags: OFlags) -> io::Result<OwnedFd> {
    let fd = open("/dev/null", flags | OFlags::CLOEXEC, Mode::empty())?;
    duplicate(fd.as_fd())
}

/// The caller's own, checked and narrowed.
fn own(fd: BorrowedFd<'_>, name: &str, reads: bool) -> Result<OwnedFd, Refusal> {
    let failed = |error: &io::Error| Refusal::step("hand in", name, error);
    let fix = |instead: &str| format!("give it {instead} instead, or `</dev/null`");
    let problem = match check_stdio(fd) {
        Ok(problem) => problem,
        Err(error) if error.raw_os_error() == Some(Errno::BADF.raw_os_error()) => {
            let flags = if reads { OFlags::RDONLY } else { OFlags::WRONLY };
            return null(flags).map_err(|error| failed(&error));
        }
        Err(error) => return Err(failed(&error)),
    };
    let what = match problem {
        None => {
            let narrowed = if reads { reopen_read_only(fd) } else { reopen_write_only(fd) };
            return match narrowed.map_err(|error| failed(&error))? {
                Some(narrow) if std::os::fd::AsRawFd::as_raw_fd(&narrow) > 2 => Ok(narrow),
                Some(narrow) => duplicate(narrow.as_fd()).map_err(|error| failed(&error)),
                None => duplicate(fd).map_err(|error| failed(&error)),
            };
        }
        Some(StdioProblem::Directory) => "a directory, through which a command could leave the sandbox",
        Some(StdioProblem::PathOnly) => {
            "an O_PATH descriptor, through which a command could leave the sandbox"
        }
        Some(StdioProblem::BlockDevice) => "a block device, which would give a command the whole disk",
    };
    Err(Refusal::bad(format!("{name} is {what}"), fix("a file or a pipe")))
}

/// The command's three descriptors, and our ends of captured ones.
pub(super) fn prepare(stream: Stream) -> Result<([OwnedFd; 3], Option<Pipes>), Refusal> {
    let stdin = own(rustix::stdio::stdin(), "stdin", true)?;
    if stream != Stream::Capture {
        let stdout = own(rustix::stdio::stdout(), "stdout", false)?;
        let stderr = own(rustix::stdio::stderr(), "stderr", false)?;
        return Ok(([stdin, stdout, stderr], None));
    }
    let pipe = || -> Result<(OwnedFd, OwnedFd), Refusal> {
        let failed = |error: &io::Error| Refusal::step("make a pipe", "", error);
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(&error.into()))?;
        let write = duplicate(write.as_fd()).map_err(|error| failed(&error))?;
        rustix::io::ioctl_fionbio(&read, true).map_err(|error| failed(&error.into()))?;
        Ok((read, write))
    };
    let ((out, command_out), (err, command_err)) = (pipe()?, pipe()?);
    Ok(([stdin, command_out, command_err], Some(Pipes { stdout: out, stderr: err })))
}
