//! From a plan to a keeper that serves, and from its end to nothing left.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringfence_linux::{
    Cgroup, close_except, exit_now, fork_copy, move_fd, scrub_environment, start_session, sweep_cgroups,
    wait_for,
};
use ringfence_policy::Clause;
use rustix::fs::{Mode, OFlags, open};
use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

use super::Keeper;
use super::clients::Clients;
use crate::network_record::NetworkRecord;
use crate::plan::{Mount, Plan};
use crate::protect::{Protection, sweep_placeholders};
use crate::providers::launch;
use crate::refusal::Refusal;
use crate::request::Request;
use crate::session::place::{
    Asked, EndReason, Pillars, Place, ProcessId, SessionEnd, SessionFacts, WorkspaceKind,
};
use crate::session::wire::Answer;

/// What a session is made of.
#[derive(Debug)]
pub struct SessionSpec {
    pub claim: Claim,
    pub request: Request,
    pub plan: Plan,
    pub ttl: Option<Duration>,
    pub idle: Option<Duration>,
    /// The policy as `session inspect` shows it.
    pub policy: serde_json::Value,
    pub kind: WorkspaceKind,
    /// What the keeper holds open as long as it lives: locks of its workspace.
    pub holds: Vec<OwnedFd>,
    /// How it was asked for, to make another like it.
    pub asked: Asked,
}

impl SessionSpec {
    /// With no end but its own, and a workspace as the plan has it.
    pub fn new(claim: Claim, request: Request, plan: Plan) -> Self {
        let kind = match (&plan.workspace, &request.workspace_layers) {
            (_, Some(_)) => WorkspaceKind::Overlay,
            (Some(_), None) => WorkspaceKind::Direct,
            (None, None) => WorkspaceKind::Private,
        };
        let policy = serde_json::to_value(request.policy.rows()).unwrap_or_default();
        let (holds, asked) = (Vec::new(), Asked::default());
        Self { claim, request, plan, ttl: None, idle: None, policy, kind, holds, asked }
    }
}

/// A name that no other session has, with a directory of its own; given back when this is dropped.
#[derive(Debug)]
pub struct Claim {
    place: Place,
    lock: Option<File>,
}

impl Claim {
    /// `name`, or a new one, in the directory of all sessions.
    pub fn new(sessions: &Path, name: Option<&str>) -> Result<Self, Refusal> {
        let name = match name {
            Some(name) => name.to_owned(),
            None => random_name().map_err(|error| Refusal::step("name the session", "", &error))?,
        };
        let place = Place::new(sessions, &name)?;
        let directory = place.path().display().to_string();
        let problem =
            |error: &io::Error| Refusal::step("make the session's directory", directory.clone(), error);
        match place.make() {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Err(taken(&place)),
            Err(error) => return Err(problem(&error)),
        }
        let mut claim = Self { place, lock: None };
        let held = claim.place.hold().and_then(|lock| lock.ok_or_else(|| io::ErrorKind::WouldBlock.into()));
        claim.lock = Some(held.map_err(|error| problem(&error))?);
        Ok(claim)
    }

    pub fn place(&self) -> &Place {
        &self.place
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // A session that is there has taken the lock over.
        if self.place.facts().is_err() {
            let _ = self.place.remove();
        }
    }
}

fn taken(place: &Place) -> Refusal {
    let name = place.name();
    match place.is_held() {
        true => Refusal::bad(
            format!("there is a session `{name}` already"),
            "choose another --name, or `ringfence session rm` it",
        ),
        false => Refusal::bad(
            format!("an ended session `{name}` still has its files"),
            "look at them with `ringfence session inspect`, then `ringfence session rm` it, or choose another --name",
        ),
    }
}

/// What the new keeper says to whoever made it, once.
#[derive(Serialize, Deserialize)]
enum Report {
    Ready,
    Failed { step: String, subject: String, why: String, fix: String },
    Bad { what: String, fix: String },
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Make a session. It lives on in a process of its own when this returns. Refused in a process with threads.
pub(in crate::session) fn create(mut spec: SessionSpec) -> Result<Place, Refusal> {
    let place = spec.claim.place.clone();
    let lock = spec.claim.lock.take();
    start_keeper(spec, &place, lock)?;
    Ok(place)
}

fn random_name() -> io::Result<String> {
    let mut bytes = [0; 5];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(format!("s{}", bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}

fn start_keeper(spec: SessionSpec, place: &Place, lock: Option<File>) -> Result<(), Refusal> {
    let failed = |error: &io::Error| Refusal::step("start the session's keeper", "", error);
    let (report, theirs) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|error| failed(&error.into()))?;
    match fork_copy().map_err(|error| failed(&error))? {
        // Twice, so that the keeper is nobody's child here, whom nobody would wait for.
        None => match fork_copy() {
            Ok(None) => {
                drop(report);
                live(spec, place.clone(), lock, theirs)
            }
            _ => exit_now(0),
        },
        Some(between) => {
            let _ = wait_for(between);
        }
    }
    drop((theirs, lock));
    let mut text = String::new();
    File::from(report).read_to_string(&mut text).map_err(|error| failed(&error))?;
    match serde_json::from_str(&text) {
        Ok(Report::Ready) => Ok(()),
        Ok(Report::Failed { step, subject, why, fix }) => Err(Refusal::Failed { step, subject, why, fix }),
        Ok(Report::Bad { what, fix }) => Err(Refusal::bad(what, fix)),
        Err(_) => Err(failed(&io::Error::other("it ended without a word"))),
    }
}

/// The keeper's life. Never returns.
fn live(spec: SessionSpec, place: Place, lock: Option<File>, report: OwnedFd) -> ! {
    let held: Vec<_> = lock.iter().map(AsFd::as_fd).chain(spec.holds.iter().map(AsFd::as_fd)).collect();
    let report = match become_keeper(&held, report) {
        Ok(report) => report,
        Err(_) => exit_now(1),
    };
    let mut report = Some(File::from(report));
    if let Err(refusal) = keep(spec, &place, &mut report)
        && let Some(report) = report
    {
        let words = match refusal {
            Refusal::Failed { step, subject, why, fix } => Report::Failed { step, subject, why, fix },
            other => Report::Bad { what: other.to_string(), fix: other.fix().to_string() },
        };
        let _ = serde_json::to_writer(report, &words);
    }
    exit_now(0)
}

/// Let go of whoever made it: its terminal, directory and descriptors.
fn become_keeper(held: &[BorrowedFd<'_>], report: OwnedFd) -> io::Result<OwnedFd> {
    start_session()?;
    rustix::process::chdir("/")?;
    let report = rustix::io::fcntl_dupfd_cloexec(report, 3)?;
    let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for number in 0..3 {
        move_fd(null.as_fd(), number)?;
    }
    let keep: Vec<_> = held.iter().copied().chain([report.as_fd()]).collect();
    close_except(&keep)?;
    // It was closed above, or is one of the three.
    std::mem::forget(null);
    Ok(report)
}

fn keep(spec: SessionSpec, place: &Place, report: &mut Option<File>) -> Result<(), Refusal> {
    let SessionSpec { request, mut plan, ttl, idle, policy, kind, asked, claim, holds: _holds } = spec;
    // Whoever made it gives the directory back if nothing comes of this.
    std::mem::forget(claim);
    sweep_placeholders(&request.state);
    let protection = match &plan.workspace {
        Some(workspace) => Protection::prepare(workspace, &request.state)?,
        None => Protection::none(),
    };
    let facts = facts(place, &plan, &request, (policy, kind, asked));
    let kept = keep_protected(&request, &mut plan, &protection, place, (ttl, idle), facts, report);
    let notes = protection.finish();
    let (why, network, mut enders) = kept?;
    if let Ok(mut facts) = place.facts() {
        let network = network.unwrap_or_default().by_host();
        facts.ended = Some(SessionEnd { at: now(), why, notes, network });
        // Whoever asked for the end waits, and is about to remove it.
        let _ = match why {
            EndReason::Asked => place.write_facts(&facts),
            _ => place.write_facts_to_disk(&facts),
        };
    }
    place.close_door();
    enders.tell();
    Ok(())
}

/// Those who wait for the end.
struct Enders {
    clients: Clients,
    waiting: Vec<super::ClientId>,
}

impl Enders {
    fn tell(&mut self) {
        for id in std::mem::take(&mut self.waiting) {
            self.clients.answer(id, &Answer::Done, &[]);
        }
    }
}

type Times = (Option<Duration>, Option<Duration>);

fn keep_protected(
    request: &Request,
    plan: &mut Plan,
    protection: &Protection,
    place: &Place,
    (ttl, idle): Times,
    facts: SessionFacts,
    report: &mut Option<File>,
) -> Result<(EndReason, Option<NetworkRecord>, Enders), Refusal> {
    let nulls = || -> io::Result<[OwnedFd; 3]> {
        let null = || open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        Ok([null()?, null()?, null()?])
    };
    let nulls = nulls().map_err(|error| Refusal::step("open", "/dev/null", &error))?;
    let mut launched = launch(request, plan, protection, nulls)?;
    // Only egress, which is another process by now, needed anything of it.
    scrub_environment();
    let plan = &*plan;
    let mut keeper = Keeper::new((request, plan), launched.warden(plan, request.trace), place, idle);
    keeper.warden.tell_apart();
    keeper.build(place, facts)?;
    keeper.dies_at = ttl.map(|ttl| Instant::now() + ttl);
    keeper.touched = Instant::now();
    if let Err(refusal) = tell_ready(report) {
        // Whoever would take it away on a failure is gone.
        let _ = place.remove();
        return Err(refusal);
    }
    keeper.counts = keeper.held.cgroup.as_ref().map(Cgroup::counts).unwrap_or_default();
    keeper.keep_spare();
    sweep_cgroups(&plan.cgroups);
    let why = keeper.serve();
    let Keeper { held, mut warden, mut denials, clients, enders, .. } = keeper;
    held.root.kill();
    let network = warden.finish(&mut denials);
    held.root.wait();
    if let Some(cgroup) = held.cgroup {
        let _ = cgroup.remove();
    }
    Ok((why?, network, Enders { clients, waiting: enders }))
}

/// Whoever asked for the session must know of it: one that nobody knows would stay for ever.
fn tell_ready(report: &mut Option<File>) -> Result<(), Refusal> {
    let Some(mut file) = report.take() else { return Ok(()) };
    let words = serde_json::to_vec(&Report::Ready).unwrap_or_default();
    file.write_all(&words).map_err(|error| Refusal::step("tell of the session", "", &error))
}

fn facts(
    place: &Place,
    plan: &Plan,
    request: &Request,
    (policy, workspace_kind, asked): (serde_json::Value, WorkspaceKind, Asked),
) -> SessionFacts {
    let own = &request.policy.policy;
    let guards = !own.waived.contains(&Clause::FilesystemProtected);
    let is_home = |mount: &Mount| matches!(mount, Mount::Private { target, .. } if *target == plan.ids.home);
    SessionFacts {
        id: place.name(),
        created: now(),
        profile: own.profile.to_string(),
        workspace: plan.workspace.as_ref().map(|workspace| workspace.source.clone()),
        workspace_kind,
        directory: plan.directory.clone(),
        home: plan.ids.home.clone(),
        keeps_home: plan.mounts.iter().any(is_home),
        unprotected: guards.then(|| own.filesystem.unprotect.iter().cloned().collect()),
        protected_too: own.filesystem.protect.iter().cloned().collect(),
        asked,
        pillars: None,
        ended: None,
        policy,
        receipt: serde_json::to_value(&plan.receipt).unwrap_or_default(),
    }
}

impl Keeper<'_> {
    /// Serve the sandbox while it is built, then open the door.
    fn build(&mut self, place: &Place, facts: SessionFacts) -> Result<(), Refusal> {
        while !self.built {
            self.turn()?;
            if self.end.is_some() {
                let error = io::Error::other("guard ended before it was ready");
                return Err(Refusal::step("build the sandbox", "", &error));
            }
        }
        let at = |path: &Path| path.display().to_string();
        let own = ProcessId::of(rustix::process::getpid().as_raw_pid());
        let pillars = own.zip(ProcessId::of(self.held.root.pid));
        let facts =
            SessionFacts { pillars: pillars.map(|(keeper, guard)| Pillars { keeper, guard }), ..facts };
        place.write_facts(&facts).map_err(|error| Refusal::step("write", at(place.path()), &error))?;
        let door = place.listen().map_err(|error| Refusal::step("listen in", at(place.path()), &error))?;
        self.door = Some(door);
        Ok(())
    }
}
