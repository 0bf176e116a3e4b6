//! `ringfence run --pool`: everything that makes this run what it is goes to a worker of the pool.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use ringfence_sandbox::send_order;

use super::{Asked, is_own_peer, socket_path};
use crate::failure::Failure;

pub(crate) fn run_through(socket: &Path, terminal: bool) -> Result<i32, Failure> {
    if terminal {
        return Err(Failure::new(
            "-t and --pool cannot be used together: a terminal is made with its sandbox",
            "leave one of them out",
        ));
    }
    let path = socket_path(Some(socket))?;
    let mut pool = UnixStream::connect(&path).map_err(|error| {
        Failure::new(
            format!("no pool answers at {}: {error}", path.display()),
            "start one with `ringfence pool`, or leave --pool out",
        )
    })?;
    // It gets this process's environment, and runs what it says: nobody else's may.
    if !is_own_peer(&pool) {
        return Err(Failure::new(
            format!("the pool at {} belongs to another user", path.display()),
            "start your own with `ringfence pool`",
        ));
    }
    let asked = asked().and_then(|asked| Ok(serde_json::to_vec(&asked)?));
    let exchanged = asked.and_then(|asked| exchange(&mut pool, &asked));
    let code = exchanged.map_err(|error| {
        Failure::new(
            format!("the pool at {} ended before the command did: {error}", path.display()),
            "see what it says; what ran has ended with it",
        )
    })?;
    Ok(i32::from_le_bytes(code))
}

fn exchange(pool: &mut UnixStream, asked: &[u8]) -> std::io::Result<[u8; 4]> {
    let length = u32::try_from(asked.len()).map_err(|_| std::io::ErrorKind::InvalidInput)?;
    let stdio = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
    send_order(pool.as_fd(), &length.to_le_bytes(), &stdio)?;
    pool.write_all(asked)?;
    let mut code = [0; 4];
    pool.read_exact(&mut code)?;
    Ok(code)
}

fn asked() -> std::io::Result<Asked> {
    let bytes = |text: std::ffi::OsString| text.as_bytes().to_vec();
    Ok(Asked {
        words: std::env::args_os().map(bytes).collect(),
        environment: std::env::vars_os().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        directory: std::env::current_dir()?.as_os_str().as_bytes().to_vec(),
    })
}
