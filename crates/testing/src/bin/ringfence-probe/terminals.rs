//! The terminal as a way out: pushing input that the caller's shell would run, stealing the terminal.

use std::os::fd::AsFd;

use ringfence_linux::probe_calls;
use rustix::pty::OpenptFlags;

use crate::verdict::{Attempted, Stop};

pub(crate) fn attempt(name: &str, _args: &[String]) -> Option<Attempted> {
    let on_stdin = |call: fn(std::os::fd::BorrowedFd<'_>) -> std::io::Result<i64>, what: &str| {
        call(std::io::stdin().as_fd()).map(|_| format!("{what} worked")).map_err(Stop::from)
    };
    Some(match name {
        "push-input" => on_stdin(|fd| probe_calls::push_terminal_input(fd, b'\n'), "TIOCSTI"),
        "push-input-wide" => {
            on_stdin(|fd| probe_calls::push_terminal_input_wide(fd, b'\n'), "TIOCSTI with upper bits")
        }
        "push-input-tty" => push_input_tty(),
        "push-input-own-pty" => push_input_own_pty(),
        "console-selection" => on_stdin(probe_calls::console_selection, "TIOCLINUX"),
        _ => return None,
    })
}

/// The controlling terminal by its own name.
fn push_input_tty() -> Attempted {
    let tty = std::fs::File::options().read(true).write(true).open("/dev/tty")?;
    probe_calls::push_terminal_input(tty.as_fd(), b'\n')?;
    Ok("TIOCSTI on /dev/tty worked".into())
}

/// A terminal that this process made: harmless, but the same call.
fn push_input_own_pty() -> Attempted {
    // Closing the master hangs the terminal up, and we are its session leader.
    probe_calls::ignore_signals();
    let pty = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::pty::grantpt(&pty)?;
    rustix::pty::unlockpt(&pty)?;
    let name = rustix::pty::ptsname(&pty, Vec::new())?;
    let _ = rustix::process::setsid();
    // Without O_NOCTTY a session leader gets it as its controlling terminal.
    let terminal = rustix::fs::open(name, rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())?;
    probe_calls::push_terminal_input(terminal.as_fd(), b'\n')?;
    Ok("TIOCSTI on an own terminal worked".into())
}
