//! `ringfence pool`, and `ringfence run --pool`, its client.
//!
//! The pool forks the helper that workers come from, listens, and hands each client to a worker whose sandbox waits; the two
//! then talk alone. A worker is `ringfence run` for its client: it takes the client's arguments, environment, directory and
//! stdio, and prints what a run prints.

mod client;
mod keep;
mod worker;

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use ringfence_service::Places;
use serde::{Deserialize, Serialize};

pub(crate) use client::run_through;

use crate::args::PoolArgs;
use crate::failure::Failure;

/// What a client asks for.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    /// As `ringfence run` got them.
    words: Vec<Vec<u8>>,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
    directory: Vec<u8>,
}

/// The longest: arguments and variables, as numbers in JSON.
const MOST: u32 = 64 << 20;

pub(crate) fn pool(args: PoolArgs) -> Result<i32, Failure> {
    let json = args.json;
    keep_pool(args).map_err(|failure| failure.with_json(json))
}

fn keep_pool(args: PoolArgs) -> Result<i32, Failure> {
    let socket = socket_path(args.socket.as_deref())?;
    // Before anything is listened on: workers have nothing of it.
    let keeper = keep::Keeper::start(&args)?;
    let listener = listen(&socket)?;
    let kept = keeper.serve(&listener, &socket, &args);
    let _ = std::fs::remove_file(&socket);
    kept
}

/// Where a pool listens; by default in the state directory, which is its user's alone.
fn socket_path(given: Option<&Path>) -> Result<PathBuf, Failure> {
    match given.filter(|path| !path.as_os_str().is_empty()) {
        Some(path) => Ok(path.to_path_buf()),
        None => Ok(Places::from_env()?.state.path().join("pool.socket")),
    }
}

fn listen(path: &Path) -> Result<UnixListener, Failure> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let failed = |why: String| {
        Failure::new(
            format!("cannot listen on {}: {why}", path.display()),
            "choose another place with --socket, in a directory of your own",
        )
    };
    if path.parent() == Some(Places::from_env()?.state.path()) {
        Places::from_env()?.state.ensure()?;
    }
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|facts| facts.file_type().is_socket());
    if is_socket {
        match UnixStream::connect(path) {
            Ok(_) => return Err(failed("another pool listens there".into())),
            // One that was killed left it.
            Err(_) => drop(std::fs::remove_file(path)),
        }
    }
    // Nobody else can connect even before the mode is set.
    let umask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(umask);
    let listener = bound.map_err(|error| failed(error.to_string()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .and_then(|()| listener.set_nonblocking(true))
        .map_err(|error| failed(error.to_string()))?;
    Ok(listener)
}

/// Does the other end belong to this user?
fn is_own_peer(stream: &UnixStream) -> bool {
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}
