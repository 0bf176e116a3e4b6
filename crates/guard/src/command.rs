//! The command that guard starts: a child in guard's memory that sets up its own stdio and execs.

use std::cell::Cell;
use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use ringfence_linux::{
    cloexec_from, exec, make_controlling, move_fd, restore_pipe_signal, set_limit, spawn, start_session,
    unblock_all,
};
use rustix::process::Resource;

use crate::wire::ExecStage;

/// Where a command's stdin, stdout and stderr are.
#[derive(Debug)]
pub enum Stdio {
    /// Three descriptors.
    Files([OwnedFd; 3]),
    /// One terminal, which becomes the controlling one.
    Terminal(OwnedFd),
}

/// One command, ready to be started inside.
#[derive(Debug)]
pub struct Command {
    pub argv: Vec<CString>,
    pub environment: Vec<CString>,
    /// Where a name without a slash is looked up.
    pub path: OsString,
    pub directory: PathBuf,
    pub stdio: Stdio,
    /// How many processes its user may have, where that is less than guard's own limit.
    pub processes: Option<u64>,
}

/// Why a command did not start.
pub(crate) type NotStarted = (ExecStage, i32);

impl Command {
    /// The pid, once the program really runs. The command's descriptors are closed here afterwards.
    pub(crate) fn start(self) -> io::Result<Result<i32, NotStarted>> {
        // Written by the child, in the memory that it shares until then.
        let problem: Cell<Option<NotStarted>> = Cell::new(None);
        let pid = spawn(&|| problem.set(Some(self.become_program())))?;
        Ok(match problem.get() {
            None => Ok(pid),
            Some(problem) => Err(problem),
        })
    }

    /// Never returns on success. Runs in guard's own memory, in which it leaves nothing but what it allocates.
    fn become_program(&self) -> NotStarted {
        let errno = |stage| move |error: io::Error| (stage, error.raw_os_error().unwrap_or(0));
        let attempt = || -> Result<std::convert::Infallible, NotStarted> {
            start_session().map_err(errno(ExecStage::Stdio))?;
            self.place_stdio().map_err(errno(ExecStage::Stdio))?;
            rustix::process::chdir(&self.directory)
                .map_err(|error| errno(ExecStage::Directory)(error.into()))?;
            cloexec_from(3).map_err(errno(ExecStage::Stdio))?;
            restore_pipe_signal();
            if let Some(processes) = self.processes {
                set_limit(Resource::Nproc, processes).map_err(errno(ExecStage::Stdio))?;
            }
            unblock_all().map_err(errno(ExecStage::Stdio))?;
            exec(&self.argv, &self.environment, &self.path).map_err(errno(ExecStage::Program))
        };
        match attempt() {
            Err(problem) => problem,
        }
    }

    fn place_stdio(&self) -> io::Result<()> {
        match &self.stdio {
            Stdio::Files(files) => place(files.each_ref().map(AsFd::as_fd)),
            Stdio::Terminal(terminal) => {
                make_controlling(terminal.as_fd())?;
                place([terminal.as_fd(); 3])
            }
        }
    }
}

/// All three are at 3 or above here (guard holds 0 to 2 itself), so that no move overwrites a source.
fn place(sources: [BorrowedFd<'_>; 3]) -> io::Result<()> {
    for (number, source) in sources.into_iter().enumerate() {
        move_fd(source, number as i32)?;
    }
    Ok(())
}
