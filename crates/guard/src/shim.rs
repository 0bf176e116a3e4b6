//! Between guard and one command of a session: whatever the command starts stays below this process, also after `setsid`
//! and a double fork, so that it can be ended without the rest of the session.
//!
//! A command has the shim's uid and may kill it: guard then kills what is left. Nothing else can be done to it from
//! inside: it can't be looked into, and hears nobody.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use ringfence_linux::{adopt_orphans, exit_now, open_pty, send_with_fds, wait_for_any};
use rustix::fs::{Mode, OFlags, open};
use rustix::termios::Winsize;

use crate::command::{Command, Stdio};
use crate::serve::full_places;
use crate::wire::{ExecStage, FromGuard, News, Program};

/// The largest description of a program: the kernel takes no more than this in arguments and variables.
const MOST: u64 = 8 << 20;

/// What guard hands to a shim.
pub(crate) struct Order {
    pub(crate) id: u32,
    pub(crate) elsewhere: bool,
    pub(crate) program: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
    pub(crate) processes: Option<u64>,
}

/// Start the command, tell of it, stay until nothing of it is left.
pub(crate) fn live(control: BorrowedFd<'_>, order: Order, private: &[(&str, u8)]) -> ! {
    let id = order.id;
    let tell = |news: News, fds: &[BorrowedFd<'_>]| {
        let _ = send_with_fds(control, &FromGuard::InSession { id, news }.encode(), fds);
    };
    let (pid, master) = match start(order) {
        Ok(started) => started,
        Err((stage, errno)) => {
            tell(News::NotStarted { stage, errno }, &[]);
            exit_now(0)
        }
    };
    let fds: Vec<BorrowedFd<'_>> = master.iter().map(AsFd::as_fd).collect();
    tell(News::Started { pid, shim: std::process::id() as i32 }, &fds);
    drop(master);
    while let Ok(Some(reaped)) = wait_for_any() {
        if reaped.pid == pid {
            let (cpu, memory) = (reaped.cpu_micros, reaped.memory_bytes);
            tell(News::Ended { how: reaped.how, full: full_places(private), cpu, memory }, &[]);
        }
    }
    exit_now(0)
}

fn start(order: Order) -> Result<(i32, Option<OwnedFd>), (ExecStage, i32)> {
    let at = |stage| move |error: io::Error| (stage, error.raw_os_error().unwrap_or(0));
    adopt_orphans().map_err(at(ExecStage::Stdio))?;
    let Order { elsewhere, program, fds, processes, .. } = order;
    let mut fds = fds.into_iter();
    let program = if elsewhere { read_program(fds.next()).map_err(at(ExecStage::Program))? } else { program };
    let Program { argv, environment, path, directory, terminal } =
        Program::decode(&program).ok_or((ExecStage::Program, rustix::io::Errno::INVAL.raw_os_error()))?;
    let (stdio, master) = match terminal {
        Some((rows, columns)) => {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            let pty = open_pty(Path::new("/dev/pts/ptmx"), size).map_err(at(ExecStage::Stdio))?;
            (Stdio::Terminal(pty.slave), Some(pty.master))
        }
        None => (Stdio::Files(three(fds).map_err(at(ExecStage::Stdio))?), None),
    };
    let command = Command { argv, environment, path, directory, stdio, processes };
    let started = command.start().map_err(at(ExecStage::Program))?;
    started.map(|pid| (pid, master))
}

fn read_program(file: Option<OwnedFd>) -> io::Result<Vec<u8>> {
    let file = std::fs::File::from(file.ok_or(io::ErrorKind::InvalidInput)?);
    let mut program = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MOST), &mut program)?;
    Ok(program)
}

/// stdin, stdout and stderr. What was not handed in is the sandbox's own `/dev/null`.
fn three(mut fds: impl Iterator<Item = OwnedFd>) -> io::Result<[OwnedFd; 3]> {
    let mut next = || match fds.next() {
        Some(fd) => Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?),
        None => Ok::<OwnedFd, io::Error>(open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?),
    };
    Ok([next()?, next()?, next()?])
}
