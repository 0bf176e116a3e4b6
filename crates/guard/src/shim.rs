//! Between guard and one command of a session: whatever the command starts stays below this process, also after `setsid`
//! and a double fork, so that it can be ended without the rest of the session.
//!
//! A command has the shim's uid and may kill it: guard then kills what is left. Nothing else can be done to it from
//! inside: it can't be looked into, and hears nobody.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use ringfence_linux::{
    Message, adopt_orphans, exit_now, has_children, open_pty, recv_with_fds, send_with_fds, wait_for_any,
};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::termios::Winsize;

use crate::command::{Command, Stdio};
use crate::program::{Program, ToShim};
use crate::serve::full_places;
use crate::wire::{ExecStage, FromGuard, News};

/// The largest description of a program: the kernel takes no more than this in arguments and variables.
const MOST: u64 = 8 << 20;

/// What a shim begins with.
pub(crate) struct Shim<'a> {
    pub(crate) id: u32,
    /// Where its order comes from.
    pub(crate) channel: OwnedFd,
    /// Where it tells what becomes of the command.
    pub(crate) control: BorrowedFd<'a>,
    pub(crate) processes: Option<u64>,
    pub(crate) private: &'a [(&'a str, u8)],
}

type Failed = (ExecStage, i32);

fn at(stage: ExecStage) -> impl Fn(io::Error) -> Failed {
    move |error| (stage, error.raw_os_error().unwrap_or(0))
}

impl Shim<'_> {
    /// One command after the other, until nobody wants it any more.
    pub(crate) fn live(self) -> ! {
        let ready = adopt_orphans().map_err(at(ExecStage::Stdio));
        loop {
            self.wait_for_order();
            let order = recv_with_fds(self.channel.as_fd()).unwrap_or_default();
            if order.bytes.is_empty() {
                exit_now(0);
            }
            match ready.and_then(|()| start(order, self.processes)) {
                Ok((pid, master)) => self.attend(pid, master),
                Err((stage, errno)) => self.tell(News::NotStarted { stage, errno }, &[]),
            }
        }
    }

    /// A signal that came before the order kills here, while the order is unread and can be given to another; in `recv` the
    /// order would be taken first.
    fn wait_for_order(&self) {
        let mut polled = [PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN)];
        while poll(&mut polled, None) == Err(Errno::INTR) {}
    }

    /// Tell of a command that runs, and stay until nothing of it is left.
    fn attend(&self, pid: i32, master: Option<OwnedFd>) {
        let fds: Vec<BorrowedFd<'_>> = master.iter().map(AsFd::as_fd).collect();
        self.tell(News::Started { pid, shim: std::process::id() as i32 }, &fds);
        drop(master);
        while let Ok(Some(reaped)) = wait_for_any() {
            if reaped.pid == pid {
                let (cpu, memory) = (reaped.cpu_micros, reaped.memory_bytes);
                let (full, left) = (full_places(self.private), has_children());
                self.tell(News::Ended { how: reaped.how, full, cpu, memory, left }, &[]);
                if !left {
                    return;
                }
            }
        }
        self.tell(News::Nothing, &[]);
    }

    fn tell(&self, news: News, fds: &[BorrowedFd<'_>]) {
        let _ = send_with_fds(self.control, &FromGuard::InSession { id: self.id, news }.encode(), fds);
    }
}

fn start(order: Message, processes: Option<u64>) -> Result<(i32, Option<OwnedFd>), Failed> {
    let (command, master) = ordered(order, processes)?;
    let started = command.start().map_err(at(ExecStage::Program))?;
    started.map(|pid| (pid, master))
}

/// What an order says to start, and the far end of its terminal if it has one.
pub(crate) fn ordered(order: Message, processes: Option<u64>) -> Result<(Command, Option<OwnedFd>), Failed> {
    let unknown = || (ExecStage::Program, Errno::INVAL.raw_os_error());
    let mut fds = order.fds.into_iter();
    let program = match ToShim::decode(&order.bytes).ok_or_else(unknown)? {
        ToShim::Program(program) => program,
        ToShim::Elsewhere => read_program(fds.next()).map_err(at(ExecStage::Program))?,
    };
    let Program { argv, environment, path, directory, terminal } =
        Program::decode(&program).ok_or_else(unknown)?;
    let (stdio, master) = match terminal {
        Some((rows, columns)) => {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            let pty = open_pty(Path::new("/dev/pts/ptmx"), size).map_err(at(ExecStage::Stdio))?;
            (Stdio::Terminal(pty.slave), Some(pty.master))
        }
        None => (Stdio::Files(three(fds).map_err(at(ExecStage::Stdio))?), None),
    };
    Ok((Command { argv, environment, path, directory, stdio, processes }, master))
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
