//! The command that guard starts: a fork of guard that sets up its own stdio and execs.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use ringfence_linux::{
    cloexec_from, exec, exit_now, fork, make_controlling, move_fd, restore_pipe_signal, set_dumpable,
    start_session, unblock_all,
};
use rustix::pipe::{PipeFlags, pipe_with};

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
}

/// Why a command did not start.
pub(crate) type NotStarted = (ExecStage, i32);

impl Command {
    /// Fork and exec; the pid once the program really runs. The command's descriptors are closed here.
    pub(crate) fn start(self) -> io::Result<Result<i32, NotStarted>> {
        let (told, tell) = pipe_with(PipeFlags::CLOEXEC)?;
        let Some(pid) = fork()? else {
            let (stage, errno) = self.become_program();
            let mut message = vec![stage as u8];
            message.extend(errno.to_le_bytes());
            let _ = rustix::io::write(&tell, &message);
            exit_now(127);
        };
        drop(tell);
        drop(self);
        let mut message = [0; 5];
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&told, &mut message))?;
        if read == 0 {
            return Ok(Ok(pid));
        }
        let stage = match message[0] {
            0 => ExecStage::Directory,
            1 => ExecStage::Stdio,
            _ => ExecStage::Program,
        };
        let errno = i32::from_le_bytes([message[1], message[2], message[3], message[4]]);
        Ok(Err((stage, errno)))
    }

    /// Never returns on success.
    fn become_program(self) -> NotStarted {
        let errno = |stage| move |error: io::Error| (stage, error.raw_os_error().unwrap_or(0));
        let attempt = || -> Result<std::convert::Infallible, NotStarted> {
            // The kernel should take a command before it takes guard.
            let _ = std::fs::write("/proc/self/oom_score_adj", "500");
            start_session().map_err(errno(ExecStage::Stdio))?;
            self.place_stdio().map_err(errno(ExecStage::Stdio))?;
            rustix::process::chdir(&self.directory)
                .map_err(|error| errno(ExecStage::Directory)(error.into()))?;
            cloexec_from(3).map_err(errno(ExecStage::Stdio))?;
            restore_pipe_signal();
            unblock_all().map_err(errno(ExecStage::Stdio))?;
            exec(&self.argv, &self.environment, &self.path).map_err(errno(ExecStage::Program))
        };
        // A process is dumpable again after exec; before, it must be, to write its own /proc files.
        let _ = set_dumpable(true);
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
