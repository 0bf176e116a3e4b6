//! A worker of the pool: it makes one sandbox ahead, waits for one client, and is `ringfence run` for it.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use ringfence_policy::{Layer, Origin, Workspace};
use ringfence_sandbox::{Ahead, Attached, Ready, Stream, own_stdio, receive_order, replace_environment};
use ringfence_service::workers::wait_for_order;
use ringfence_service::{Places, RunSpec, prepare};

use super::{Asked, MOST};
use crate::args::PoolArgs;
use crate::failure::Failure;
use crate::resolve;

/// What a worker says first when it can make no sandbox; why follows, to the end.
pub(super) const FAILED: u8 = b'F';
/// What stands before the client that a worker is given.
pub(super) const CLIENT: u8 = b'C';
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// The whole life of a worker.
pub(super) fn work(mut socket: UnixStream) {
    let ready = match make_ahead(&mut socket) {
        Ok(ready) => ready,
        Err(failure) => {
            let _ = socket.write_all(&[&[FAILED][..], failure.message().as_bytes()].concat());
            return;
        }
    };
    let mut head = [0];
    let Ok(Some((ready, clients))) = wait_for_order(ready, &socket, &mut head) else { return };
    if let (CLIENT, Ok([client])) = (head[0], <[_; 1]>::try_from(clients)) {
        // A client that says nothing sensible hears nothing.
        let _ = serve(UnixStream::from(client), ready);
    }
}

fn make_ahead(socket: &mut UnixStream) -> Result<Ready, Failure> {
    let unread =
        |error: io::Error| Failure::new(format!("the order can't be read: {error}"), "report this as a bug");
    let words: Vec<Vec<u8>> =
        read_message(socket).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?)).map_err(unread)?;
    let args = parse(words.into_iter().map(OsString::from_vec).collect())?;
    let furthest = if args.closed { Ahead::Closed } else { Ahead::Open };
    let mut policy = resolve::policy(args.policy)?;
    let mut private = Layer::default();
    private.filesystem.workspace = Some(Workspace::Private);
    policy.flags.push((Origin::flag("pool"), private));
    let spec = RunSpec {
        policy,
        // Stands for whatever comes.
        argv: vec!["true".into()],
        directory: None,
        attached: Attached::default(),
        workspace_layers: None,
        stream: Stream::Inherit,
        trace: false,
        strict: false,
    };
    prepare(Places::from_env()?, spec)?.make_ahead(furthest)?.ok_or_else(|| {
        Failure::new(
            "a sandbox with a way out of it is not made ahead: its proxy may hold secrets",
            "leave the network off, or run such commands without --pool",
        )
    })
}

fn parse(argv: Vec<OsString>) -> Result<PoolArgs, Failure> {
    use clap::{Args, Command, FromArgMatches};
    let usage = |error| Failure::usage(error, "ringfence pool");
    let matches = PoolArgs::augment_args(Command::new("pool")).try_get_matches_from(argv).map_err(usage)?;
    PoolArgs::from_arg_matches(&matches).map_err(usage)
}

fn serve(mut client: UnixStream, ready: Option<Ready>) -> io::Result<()> {
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(PATIENCE))?;
    let mut head = [0; 4];
    let Some(stdio) = receive_order(&client, &mut head)? else { return Ok(()) };
    let asked: Asked = serde_json::from_slice(&read_body(&mut client, head)?)?;
    let text = |bytes: Vec<u8>| OsString::from_vec(bytes);
    let environment: Vec<(OsString, OsString)> =
        asked.environment.into_iter().map(|(name, value)| (text(name), text(value))).collect();
    own_stdio(stdio)?;
    replace_environment(&environment);
    rustix::process::chdir(&*asked.directory)?;
    let code = match crate::parse_run(asked.words.into_iter().map(text).collect()) {
        Ok(args) => {
            let json = args.flags.json;
            crate::verbs::run::run_in(args, ready).unwrap_or_else(|failure| failure.with_json(json).report())
        }
        Err(failure) => failure.report(),
    };
    let _ = io::stdout().flush();
    client.write_all(&code.to_le_bytes())
}

fn read_message(socket: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut head = [0; 4];
    socket.read_exact(&mut head)?;
    read_body(socket, head)
}

fn read_body(socket: &mut UnixStream, head: [u8; 4]) -> io::Result<Vec<u8>> {
    let length = u32::from_le_bytes(head);
    if length > MOST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    socket.read_exact(&mut bytes)?;
    Ok(bytes)
}
