//! What a server has done by workers: the use cases that make sandboxes, each in a process of its own with one thread
//! (see [`Launcher`]). An order and its report cross a socket, each as a length and JSON.

mod files;
mod order;

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;

use ringfence_policy::{Layer, Origin, Workspace};
use ringfence_sandbox::{Asked, Attached, Launcher, Stream, Text};

use crate::config::PolicySpec;
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::run_facts::RunFacts;
use crate::runs::{RunSpec, prepare};
use crate::sessions::{SessionCreate, create_session};
use crate::skills::library_attached;
use crate::workspaces::{NamedWorkspace, use_workspace};

pub use order::{CreateOrder, CreateReport, FileOrder, Order, Report, RunOrder, SandboxOrder};

/// An order is what an HTTP body can hold, and some.
const MOST: u32 = 256 << 20;

/// Fork the helper that workers come from. Only a process with one thread can.
pub fn start_launcher() -> Result<Launcher, ServiceError> {
    Launcher::start(work).map_err(|error| {
        ServiceError::new(
            ErrorCode::SandboxFailed,
            format!("cannot start the helper that makes sandboxes: {error}"),
            "see whether this user may start more processes",
        )
    })
}

/// A message as both sides write it.
pub fn framed(message: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = u32::try_from(bytes.len() - 4).ok().filter(|length| *length <= MOST);
    let length = length.ok_or_else(|| io::Error::other("it is too long for one message"))?;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    Ok(bytes)
}

/// How many bytes follow the first four.
pub fn frame_length(head: [u8; 4]) -> io::Result<usize> {
    let length = u32::from_le_bytes(head);
    if length <= MOST { Ok(length as usize) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// The whole life of a worker.
fn work(mut socket: UnixStream) {
    let mut report = || -> io::Result<Report> {
        let mut head = [0; 4];
        socket.read_exact(&mut head)?;
        let mut bytes = vec![0; frame_length(head)?];
        socket.read_exact(&mut bytes)?;
        let order = serde_json::from_slice(&bytes)?;
        drop(bytes);
        Ok(carry_out(order).unwrap_or_else(|error| Report::Refused { error }))
    };
    // Without a report the other side sees the socket close, and says so.
    if let Ok(report) = report()
        && let Ok(bytes) = framed(&report)
    {
        let _ = socket.write_all(&bytes);
    }
}

fn carry_out(order: Order) -> Result<Report, ServiceError> {
    match order {
        Order::Run(order) => run(*order),
        Order::Create(order) => create(*order),
    }
}

/// Somebody else's paths mean nothing here: `/` is where a relative one would begin.
fn places() -> Result<Places, ServiceError> {
    let mut places = Places::from_env()?;
    places.current = "/".into();
    Ok(places)
}

/// The sandbox that was asked for, and its workspace, held.
fn sandbox(
    places: &Places,
    order: SandboxOrder,
    stream: Stream,
) -> Result<(RunSpec, Option<NamedWorkspace>), ServiceError> {
    let attached = match order.skills {
        true => library_attached(places, None)?.attached,
        false => Attached::default(),
    };
    let named = order.workspace.as_deref().map(|name| use_workspace(places, name)).transpose()?;
    if let Some(named) = &named {
        files::write(&named.path, &order.files)?;
    } else if !order.files.is_empty() {
        return Err(ServiceError::new(
            ErrorCode::BadRequest,
            "files were given, and there is no workspace to put them in",
            "leave `workspace` out, or name one",
        ));
    }
    let mut ours = Layer::default();
    ours.filesystem.workspace =
        Some(named.as_ref().map_or(Workspace::Private, |named| Workspace::Path(named.path.clone())));
    let mut flags: Vec<(Origin, Layer)> =
        order.layers.into_iter().map(|layer| (Origin::flag("request"), layer)).collect();
    flags.push((Origin::flag("server"), ours));
    let policy = PolicySpec { flags, alone: true, ..PolicySpec::default() };
    let run = RunSpec {
        policy,
        argv: order.argv.into_iter().map(Into::into).collect(),
        directory: order.directory,
        attached,
        workspace_layers: None,
        stream,
        trace: order.trace,
        strict: order.strict,
    };
    Ok((run, named))
}

fn run(order: RunOrder) -> Result<Report, ServiceError> {
    let places = places()?;
    let (spec, named) = sandbox(&places, order.sandbox, Stream::Inherit)?;
    let prepared = prepare(places, spec)?;
    let warnings = prepared.warnings().to_vec();
    let report = prepared.run()?;
    drop(named);
    let mut facts = RunFacts::from(report);
    facts.notes.splice(0..0, warnings);
    let facts = serde_json::to_value(facts).map_err(unwritable)?;
    Ok(Report::Ran { facts })
}

fn create(order: CreateOrder) -> Result<Report, ServiceError> {
    let places = places()?;
    let (run, named) = sandbox(&places, order.sandbox, Stream::Session)?;
    let create = SessionCreate {
        run,
        name: Some(order.name),
        ttl: order.ttl,
        idle: order.idle,
        overlay: order.overlay,
        named,
        asked: Asked {
            arguments: order.asked.into_iter().map(|word| Text(word.into())).collect(),
            directory: "/".into(),
        },
    };
    let created = create_session(&places, create)?;
    Ok(Report::Created(CreateReport { warnings: created.warnings, notes: created.notes }))
}

fn unwritable(error: serde_json::Error) -> ServiceError {
    ServiceError::new(
        ErrorCode::SandboxFailed,
        format!("the report can't be written: {error}"),
        "report this as a bug",
    )
}
