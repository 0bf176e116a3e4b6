//! What a server has done by workers: the use cases that make sandboxes, each in a process of its own with one thread
//! (see [`Launcher`]). An order and its report cross a socket, each as a length and JSON.

mod demand;
mod files;
mod order;
mod own;
mod skill;
mod stock;

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use ringfence_policy::{Layer, Origin, Workspace, toolchain_variables};
use ringfence_sandbox::{
    Ahead, Asked, Attached, Holes, Launcher, Ready, Remains, Stream, Text, WriteBound, change_environment,
    own_stdio, receive_order, share_stdio,
};

use crate::config::PolicySpec;
use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::run_facts::RunFacts;
use crate::runs::{RunSpec, prepare};
use crate::sessions::{SessionCreate, SessionCreated, create_session, fork_session};
use crate::skills::domains_attached;
use crate::workspaces::{NamedWorkspace, tenant_directories, use_workspace};

use skill::{RunsFor, SkillRan};

pub use order::{
    CreateOrder, CreateReport, FileOrder, ForkOrder, Order, OwnPolicy, ReadyOrder, Report, RunOrder,
    SandboxOrder, SkillOrder,
};
use own::OwnWish;
pub use own::check_own_policy;
pub use stock::{Shape, Stock};

/// What one user of a server may fill, beside the bytes that their role has.
const TENANT: WriteBound =
    WriteBound { bytes: 0, entries: 1_000_000, depth: 256, keep_free: 256 << 20, holes: Holes::Free };

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

/// What a worker says when its sandbox waits for an order.
pub const READY: u8 = b'R';

/// The whole life of a worker.
fn work(mut socket: UnixStream) {
    let mut report = || -> io::Result<Option<(Report, Remains)>> {
        let mut head = [0; 4];
        socket.read_exact(&mut head)?;
        let carried_out = match read_order(&mut socket, head)? {
            Order::Ready(order) => match make_ahead(*order) {
                Ok(Some(ready)) => match wait_for_order(ready, &socket, &mut head)? {
                    Some((ready, stdio)) => {
                        own_stdio(stdio)?;
                        carry_out(read_order(&mut socket, head)?, ready)
                    }
                    None => return Ok(None),
                },
                // Runs without it say what is wrong, if anything is.
                Ok(None) | Err(_) => return Ok(None),
            },
            order => carry_out(order, None),
        };
        Ok(Some(carried_out.unwrap_or_else(|error| (Report::Refused { error }, Remains::default()))))
    };
    // Without a report the other side sees the socket close, and says so.
    let Ok(Some((report, remains))) = report() else { return };
    // The other side reads what the command wrote to its end, which is not while somebody could write more.
    let _ = leave_stdio();
    if let Ok(bytes) = framed(&report) {
        let _ = socket.write_all(&bytes);
    }
    if !remains.clear().is_empty() {
        // The helper looks after what such a worker leaves.
        std::process::exit(1);
    }
}

fn leave_stdio() -> io::Result<()> {
    let null = OpenOptions::new().read(true).write(true).open("/dev/null")?;
    share_stdio(null.as_fd())
}

fn read_order(socket: &mut UnixStream, head: [u8; 4]) -> io::Result<Order> {
    let mut bytes = vec![0; frame_length(head)?];
    socket.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

/// The order that comes, and the sandbox for it if it still is one. `None`: the sandbox is of no use any more, and nobody
/// has ordered anything.
pub fn wait_for_order(
    ready: Ready,
    socket: &UnixStream,
    head: &mut [u8],
) -> io::Result<Option<(Option<Ready>, Vec<OwnedFd>)>> {
    (&*socket).write_all(&[READY])?;
    let ready = match ready.wait(socket)? {
        true => Some(ready),
        false => {
            drop(ready);
            // Whoever sends from here on is told that nobody reads. What was sent before is carried out.
            socket.shutdown(Shutdown::Read)?;
            None
        }
    };
    Ok(receive_order(socket, head)?.map(|fds| (ready, fds)))
}

fn make_ahead(order: ReadyOrder) -> Result<Option<Ready>, ServiceError> {
    let places = places(&order.sandbox)?;
    let (mut spec, _) = sandbox(&places, order.sandbox, Stream::Inherit)?;
    // Stands for whatever comes.
    spec.argv = vec!["true".into()];
    prepare(places, spec)?.make_ahead(if order.open { Ahead::Open } else { Ahead::Closed })
}

fn carry_out(order: Order, ready: Option<Ready>) -> Result<(Report, Remains), ServiceError> {
    let nothing = |report| (report, Remains::default());
    match order {
        Order::Run(order) => run(*order, ready),
        Order::Create(order) => create(*order).map(nothing),
        Order::Fork(order) => fork(*order).map(nothing),
        Order::Ready(_) => Err(ServiceError::new(
            ErrorCode::BadRequest,
            "a sandbox that was made ahead was told to make another",
            "report this as a bug",
        )),
    }
}

/// Of the user of this process, or of whoever the sandbox is for.
fn places(order: &SandboxOrder) -> Result<Places, ServiceError> {
    match order.own {
        Some(_) => Places::from_env(),
        None => tenant_places(order.tenant.as_deref()),
    }
}

/// Somebody else's paths mean nothing here: `/` is where a relative one would begin.
fn tenant_places(tenant: Option<&str>) -> Result<Places, ServiceError> {
    let mut places = Places::from_env()?;
    places.current = "/".into();
    tenant.map_or(Ok(places.clone()), |user| places.of_tenant(user))
}

/// The sandbox that was asked for, and its workspace, held.
fn sandbox(
    places: &Places,
    order: SandboxOrder,
    stream: Stream,
) -> Result<(RunSpec, Option<NamedWorkspace>), ServiceError> {
    // One that is made ahead does not know yet whose it will be.
    if order.own.is_none() {
        leave_own_surroundings(places, &order.layers);
    }
    let mut attached = match order.skills {
        true => domains_attached(places, None, order.domains.as_deref())?.attached,
        false => Attached::default(),
    };
    if let (Some(bytes), Some(user)) = (order.disk, &order.tenant) {
        attached.bound = Some(WriteBound { bytes, ..TENANT });
        attached.bounded = tenant_directories(places, user).to_vec();
    }
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
    let policy = match &order.own {
        Some(own) => {
            let asked = OwnWish { layers: order.layers, compat: order.compat, granted: order.granted };
            let own = own::policy(places, own, asked)?;
            attached.directories.extend(own.attached.directories);
            own.policy
        }
        None => alone(order.layers, named.as_ref()),
    };
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

/// What a command finds in place of the home and the search path of whoever serves.
const GUEST_HOME: &str = "/home/sandbox";
const GUEST_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A tenant learns nothing of the account that serves: where its home is, where it keeps its programs. A worker makes sandboxes for
/// one order, so that its own variables are those of nobody else. Where an admin shows the server's toolchains to a role, they
/// are found by these variables, and stay.
fn leave_own_surroundings(places: &Places, layers: &[Layer]) {
    if layers.iter().any(|layer| layer.filesystem.toolchains == Some(true)) {
        return;
    }
    // The way out of a sandbox believes the certificates that the server does.
    let gone = toolchain_variables().iter().filter(|name| !name.starts_with("SSL_CERT_"));
    let mut changes: Vec<(&str, Option<&OsStr>)> = gone.map(|name| (*name, None)).collect();
    // What is found by the home is found by its own path from here on.
    changes.extend([
        ("RINGFENCE_STATE_DIR", Some(places.state.path().as_os_str())),
        ("HOME", Some(GUEST_HOME.as_ref())),
        ("PATH", Some(GUEST_PATH.as_ref())),
    ]);
    if let Some(config) = places.user_config.parent().and_then(Path::parent) {
        changes.push(("XDG_CONFIG_HOME", Some(config.as_os_str())));
    }
    change_environment(&changes);
}

/// Nothing but the layers, in the workspace that goes with the order.
fn alone(layers: Vec<Layer>, named: Option<&NamedWorkspace>) -> PolicySpec {
    let mut ours = Layer::default();
    ours.filesystem.workspace =
        Some(named.map_or(Workspace::Private, |named| Workspace::Path(named.path.clone())));
    let mut flags: Vec<(Origin, Layer)> =
        layers.into_iter().map(|layer| (Origin::flag("request"), layer)).collect();
    flags.push((Origin::flag("server"), ours));
    PolicySpec { flags, alone: true, ..PolicySpec::default() }
}

fn run(order: RunOrder, ready: Option<Ready>) -> Result<(Report, Remains), ServiceError> {
    let places = places(&order.sandbox)?;
    let runs_for = if order.sandbox.own.is_some() { RunsFor::Owner } else { RunsFor::Guest };
    let (spec, named) = sandbox(&places, order.sandbox, Stream::Inherit)?;
    let (report, remains, warnings, skill) = match order.skill {
        Some(skill) => {
            let SkillRan { run, skill, warnings } = skill::run(places, spec, skill, runs_for)?;
            (run, Remains::default(), warnings, Some(skill))
        }
        None => {
            let prepared = prepare(places, spec)?;
            let warnings = prepared.warnings().to_vec();
            let (report, remains) = prepared.run_and_leave(ready)?;
            (report, remains, warnings, None)
        }
    };
    drop(named);
    let mut facts = RunFacts::from(report);
    facts.notes.splice(0..0, warnings);
    let start = facts.start;
    let mut facts = serde_json::to_value(facts).map_err(unwritable)?;
    if let Some(start) = start {
        facts["start_us"] = serde_json::json!(start.as_micros() as u64);
    }
    if let Some(skill) = skill {
        facts["skill"] = serde_json::json!(skill);
    }
    Ok((Report::Ran { facts }, remains))
}

fn create(order: CreateOrder) -> Result<Report, ServiceError> {
    let places = places(&order.sandbox)?;
    let created = create_session(&places, session(&places, order)?)?;
    Ok(Report::Created(report(created)))
}

fn fork(order: ForkOrder) -> Result<Report, ServiceError> {
    let places = tenant_places(Some(&order.tenant))?;
    let wanted = order.wanted.into_iter().map(|one| session(&places, one)).collect::<Result<_, _>>()?;
    let made = fork_session(&places, &order.from, wanted)?;
    Ok(Report::Forked(made.into_iter().map(report).collect()))
}

fn session(places: &Places, order: CreateOrder) -> Result<SessionCreate, ServiceError> {
    let (run, named) = sandbox(places, order.sandbox, Stream::Session)?;
    Ok(SessionCreate {
        run,
        name: Some(order.name),
        ttl: order.ttl,
        idle: order.idle,
        overlay: order.overlay,
        keep_start: false,
        named,
        asked: Asked {
            arguments: order.asked.into_iter().map(|word| Text(word.into())).collect(),
            directory: places.current.clone(),
        },
    })
}

fn report(created: SessionCreated) -> CreateReport {
    CreateReport { warnings: created.warnings, notes: created.notes }
}

fn unwritable(error: serde_json::Error) -> ServiceError {
    ServiceError::new(
        ErrorCode::SandboxFailed,
        format!("the report can't be written: {error}"),
        "report this as a bug",
    )
}
