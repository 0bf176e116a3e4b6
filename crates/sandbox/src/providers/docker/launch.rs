//! From a plan to guard inside a container: the door, the container, who comes in by it, and what guard needs to begin.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use ringfence_guard::FromGuard;
use ringfence_linux::{is_hung_up, read_kernel_file, recv_from_process, tell_senders};
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::container::{Container, Given, Owner, spec, sweep, user};
use super::door::Door;
use super::engine::Engine;
use super::shown;
use crate::plan::Plan;
use crate::providers::native::{
    Steps, failed_inside, last_words, map_from_outside, send_trees, speaks_the_same,
};
use crate::providers::outer::{Order, file_behind};
use crate::refusal::Refusal;

/// How long a container may take until guard is there: what hangs is ended, and said so.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at whether the container is still there.
const LOOK: Duration = Duration::from_secs(1);
/// Guard's first word is a short one.
const FIRST_WORD: usize = 4_096;
const OTHERS_MAY_EXECUTE: u32 = 0o001;
const STEP: &str = "make a sandbox with docker";

/// What is to be made.
pub(in crate::providers) struct Errand<'a> {
    pub(in crate::providers) plan: &'a Plan,
    pub(in crate::providers) order: &'a Order,
    pub(in crate::providers) stdio: [OwnedFd; 3],
    /// The state directory.
    pub(in crate::providers) state: &'a Path,
}

/// Guard, in a container, with its order and all that is shown.
pub(in crate::providers) struct Made {
    pub(in crate::providers) container: Container,
    pub(in crate::providers) control: OwnedFd,
    pub(in crate::providers) pid: i32,
    pub(in crate::providers) pidfd: OwnedFd,
}

/// Make the container, wait until guard waits inside, and give it its order.
pub(in crate::providers) fn launch(errand: Errand<'_>, steps: &Steps) -> Result<Made, Refusal> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let Errand { plan, order, stdio, state } = errand;
    let engine = Engine::at(plan.program.clone().unwrap_or_default())?;
    let executable = executable(plan)?;
    let (owner, number, uid) = (Owner::own(), NEXT.fetch_add(1, Ordering::Relaxed), user(plan).0);
    // What can't be taken away now is in nobody's way.
    let _ = sweep(&engine);
    let door = steps.run("open the door for guard in", state, || Door::open(state, owner, number, uid))?;
    let given = Given {
        runtime: plan.receipt.runtime.clone(),
        executable: executable.clone(),
        door: door.shown(),
        groups: further_groups(plan, steps)?,
        owner,
        state: state.to_path_buf(),
    };
    let name = format!("ringfence-{}-{number}", owner.key());
    steps.run("ask for a container", "", || Ok(()))?;
    let container = Container::create(&engine, &spec(plan, &given), &name)?;
    steps.run("start the container", "", || Ok(()))?;
    container.start()?;
    let (control, first) = let_in(&door, &container)?;
    drop(door);
    steps.run("look at who came in", "", || Ok(()))?;
    check_first(first, plan, &executable)?;
    let (pid, pidfd) = hear_guard(&control, first)?;
    let handed = || -> Result<(), Refusal> {
        steps.run("write the id map", "", || map_from_outside(pid, &plan.ids))?;
        steps.run("hand out the sandbox", "", || order.send(control.as_fd(), &stdio))?;
        let trees = shown::trees(pid, plan, file_behind(&stdio[0]), steps)?;
        send_trees(control.as_fd(), &trees, steps)
    };
    // One that has failed says why; that it could not be reached then is only what follows.
    match handed() {
        Ok(()) => Ok(Made { container, control, pid, pidfd }),
        Err(refusal) => Err(last_words(control.as_fd()).unwrap_or(refusal)),
    }
}

fn failed(why: impl Into<String>, fix: &str) -> Refusal {
    Refusal::Failed { step: STEP.into(), subject: String::new(), why: why.into(), fix: fix.into() }
}

/// This program, by the path that the daemon can show.
fn executable(plan: &Plan) -> Result<PathBuf, Refusal> {
    let path =
        fs::read_link("/proc/self/exe").map_err(|error| Refusal::step("find this program", "", &error))?;
    let fix = "start ringfence again from where it is installed, or use --provider native";
    let own =
        fs::metadata("/proc/self/exe").map_err(|error| Refusal::step("look at this program", "", &error))?;
    let is_same = fs::metadata(&path).is_ok_and(|found| (found.dev(), found.ino()) == (own.dev(), own.ino()));
    if !is_same {
        return Err(failed(format!("{} is not this program any more", path.display()), fix));
    }
    if plan.ids.mapped.is_some() && own.mode() & OTHERS_MAY_EXECUTE == 0 {
        return Err(Refusal::bad(
            "docker starts ringfence again as a user without rights, who may not execute it",
            "chmod o+rx the ringfence program, or use --provider native",
        ));
    }
    Ok(path)
}

/// An ordinary user's files may be theirs by a group; the unused id has none.
fn further_groups(plan: &Plan, steps: &Steps) -> Result<Vec<u32>, Refusal> {
    if plan.ids.mapped.is_some() {
        return Ok(Vec::new());
    }
    let groups = steps.run("look at the caller's groups", "", || Ok(rustix::process::getgroups()?))?;
    Ok(groups.into_iter().map(rustix::process::Gid::as_raw).filter(|gid| *gid != plan.ids.gid).collect())
}

/// Wait for the container's first process, and let nobody else in.
fn let_in(door: &Door, container: &Container) -> Result<(OwnedFd, i32), Refusal> {
    let deadline = Instant::now() + PATIENCE;
    let io = |error: &io::Error| Refusal::step("wait for guard at its door", "", error);
    while Instant::now() < deadline {
        let knocked = door.knock(LOOK).map_err(|error| io(&error))?;
        let state = container.state()?;
        let running = state.as_ref().filter(|state| state.running && state.pid > 0);
        match (knocked, running) {
            (Some(control), Some(state)) => {
                let peer = socket_peercred(&control).map_err(|error| io(&error.into()))?;
                if peer.pid.as_raw_pid() == state.pid {
                    return Ok((control, state.pid));
                }
            }
            (None, Some(_)) => {}
            (_, None) => {
                let words = state.map(|state| match state.error.is_empty() {
                    true => format!("its first process ended with {}", state.exit_code),
                    false => state.error,
                });
                let why = words.unwrap_or_else(|| "its first process ended without a word".into());
                return Err(failed(
                    why,
                    "see `ringfence provider ls` and the daemon's log, or use --provider native",
                ));
            }
        }
    }
    Err(failed("nobody came to the door; it was ended", "see the daemon's log, or use --provider native"))
}

/// The container is as it was asked for: what the daemon says is not believed.
fn check_first(pid: i32, plan: &Plan, executable: &Path) -> Result<(), Refusal> {
    let wrong = |what: &str| {
        failed(
            format!("the container is not as it was asked for: {what}"),
            "a daemon that maps users (rootless) can't be used: use --provider native or bwrap",
        )
    };
    let status = read_kernel_file(format!("/proc/{pid}/status"))
        .map_err(|error| Refusal::step("look at the container's first process", "", &error))?;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|value| value.split_whitespace().collect::<Vec<_>>()).unwrap_or_default()
    };
    let (uid, gid) = user(plan);
    for (name, wanted) in [("Uid", uid), ("Gid", gid)] {
        if field(name) != [wanted.to_string().as_str(); 4] {
            return Err(wrong(&format!("its {} is not {wanted}", name.to_lowercase())));
        }
    }
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    if sets.iter().any(|set| field(set) != ["0000000000000000"]) {
        return Err(wrong("it has capabilities"));
    }
    if field("NoNewPrivs") != ["1"] {
        return Err(wrong("it may gain rights"));
    }
    let file = |path: &str| fs::metadata(path).ok().map(|facts| (facts.dev(), facts.ino()));
    if file(&format!("/proc/{pid}/exe"))
        != fs::metadata(executable).ok().map(|facts| (facts.dev(), facts.ino()))
    {
        return Err(wrong("its program is not this one"));
    }
    let names = ["mnt", "pid", "ipc", "uts", "net"];
    let shared = names.iter().filter(|name| **name != "net" || plan.own_network).find(|name| {
        let namespace = |process: &str| file(&format!("/proc/{process}/ns/{name}"));
        namespace(&pid.to_string()).is_none_or(|found| namespace("self") == Some(found))
    });
    match shared {
        Some(name) => Err(wrong(&format!("it has no {name} namespace of its own"))),
        None => Ok(()),
    }
}

/// Guard's first word, and the hold on it. It is a child of the container's first process: the kernel says who speaks.
fn hear_guard(control: &OwnedFd, first: i32) -> Result<(i32, OwnedFd), Refusal> {
    let io = |error: &io::Error| Refusal::step("hear from guard", "", error);
    let silent = || failed("guard ended without a word", "see the daemon's log, or use --provider native");
    rustix::net::sockopt::set_socket_timeout(control, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE))
        .map_err(|error| io(&error.into()))?;
    let heard = recv_from_process(control.as_fd(), FIRST_WORD).map_err(|error| io(&error))?;
    let (said, pid) = heard.ok_or_else(silent)?;
    tell_senders(control.as_fd(), false).map_err(|error| io(&error))?;
    rustix::net::sockopt::set_socket_timeout(control, rustix::net::sockopt::Timeout::Recv, None)
        .map_err(|error| io(&error.into()))?;
    match FromGuard::decode(&said) {
        Some(FromGuard::Waiting { version }) => speaks_the_same(version)?,
        Some(FromGuard::Failed { step, subject, errno }) => return Err(failed_inside(step, subject, errno)),
        _ => return Err(silent()),
    }
    let number = Pid::from_raw(pid).ok_or_else(silent)?;
    let pidfd = pidfd_open(number, PidfdFlags::empty()).map_err(|error| io(&error.into()))?;
    let status = read_kernel_file(format!("/proc/{pid}/status")).map_err(|error| io(&error))?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse::<i32>().ok());
    // It held its end when it was found: that number was not somebody else's by then.
    if is_hung_up(control.as_fd()).map_err(|error| io(&error))? || parent != Some(first) {
        return Err(silent());
    }
    Ok((pid, pidfd))
}
