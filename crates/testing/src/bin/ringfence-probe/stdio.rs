//! What can be done with the fds a command was started with: its stdio, and any that leaked in.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags};

use crate::verdict::{Attempted, held, number, word};

pub(crate) fn attempt(name: &str, args: &[String]) -> Option<Attempted> {
    Some(match name {
        "write-stdin" => write_stdin(),
        "truncate-stdin" => truncate_stdin(),
        "chmod-stdin" => chmod_stdin(),
        "chmod-stdout" => chmod_stdout(),
        "reopen-stdin" => reopen_stdin(),
        "reopen-stdout-to-read" => reopen_to_read(args),
        "read-stdout" => read_stdout(),
        "open-beneath-stdin" => open_beneath_stdin(args),
        "leaked-fd" => leaked_fd(),
        "leaked-env" => leaked_env(args),
        "count-args" => count_args(args),
        _ => return None,
    })
}

fn write_stdin() -> Attempted {
    rustix::io::write(std::io::stdin().as_fd(), b"pwned")?;
    Ok("wrote to stdin".into())
}

fn truncate_stdin() -> Attempted {
    rustix::fs::ftruncate(std::io::stdin().as_fd(), 0)?;
    Ok("cut stdin".into())
}

fn chmod_stdin() -> Attempted {
    rustix::fs::fchmod(std::io::stdin().as_fd(), Mode::from_raw_mode(0o777))?;
    Ok("changed the mode of stdin".into())
}

fn chmod_stdout() -> Attempted {
    rustix::fs::fchmod(std::io::stdout().as_fd(), Mode::from_raw_mode(0o777))?;
    Ok("changed the mode of stdout".into())
}

/// The fd is read-only; the file behind it may not be.
fn reopen_stdin() -> Attempted {
    OpenOptions::new().write(true).open("/proc/self/fd/0")?;
    Ok("opened the file behind stdin for writing".into())
}

/// `reopen-stdout-to-read TOKEN`
fn reopen_to_read(args: &[String]) -> Attempted {
    let mut text = String::new();
    File::open("/proc/self/fd/1")?.read_to_string(&mut text)?;
    if text.contains(word(args, 0)?) {
        eprintln!("escaped: read the file behind stdout");
        return Ok("read the file behind stdout".into());
    }
    held("the file holds something else")
}

/// The file behind stdout was there before and must not be readable.
fn read_stdout() -> Attempted {
    let mut byte = [0u8; 1];
    rustix::io::pread(std::io::stdout().as_fd(), &mut byte, 0)?;
    eprintln!("escaped: read from stdout");
    Ok("read from stdout".into())
}

/// `open-beneath-stdin NAME TOKEN`: use a directory that came as stdin.
fn open_beneath_stdin(args: &[String]) -> Attempted {
    let fd = rustix::fs::openat(std::io::stdin().as_fd(), word(args, 0)?, OFlags::RDONLY, Mode::empty())?;
    let mut text = String::new();
    File::from(fd).read_to_string(&mut text)?;
    if text.contains(word(args, 1)?) { Ok("read a file beneath stdin".into()) } else { held("another file") }
}

/// Any fd but stdio and the one that lists them.
fn leaked_fd() -> Attempted {
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        let fd: i32 = entry.file_name().to_string_lossy().parse().unwrap_or(0);
        let target = fs::read_link(entry.path()).unwrap_or_default();
        if fd > 2 && !target.starts_with("/proc") {
            return Ok(format!("fd {fd} is {}", target.display()));
        }
    }
    held("only stdio is open")
}

/// `leaked-env TOKEN`: the caller's environment must not be here.
fn leaked_env(args: &[String]) -> Attempted {
    let token = word(args, 0)?;
    match std::env::vars().find(|(_, value)| value.contains(token)) {
        Some((name, _)) => Ok(format!("{name} holds the secret")),
        None => held("it is in no variable"),
    }
}

/// `count-args BYTES ARG…`: all of the arguments arrived.
fn count_args(args: &[String]) -> Attempted {
    let expected: usize = number(args, 0)?;
    let got: usize = args[1..].iter().map(String::len).sum();
    if got == expected { Ok(format!("{got} bytes of arguments")) } else { held(format!("{got} bytes")) }
}
