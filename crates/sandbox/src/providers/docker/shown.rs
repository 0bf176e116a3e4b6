//! What a plan shows of the host, as detached mounts that go in by descriptor. The daemon is told of none of it: it would look
//! paths up again, as root, where a link may have taken a directory's place since; it can map no owner; and it takes its time
//! for each.
//!
//! A helper makes them in a mount namespace of its own, for an ordinary user in a user namespace too, as `native`'s child does.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use ringfence_linux::{
    Fork, Namespaces, clone_mount, clone_tree, control_pair, exit_now, fork_into, make_private, wait_for,
};
use serde::{Deserialize, Serialize};

use crate::plan::{Mount, Plan};
use crate::providers::native::{Failure, Steps, Wanted, failed_inside, map_trees, stdin_place};
use crate::providers::outer::{Source, sources};
use crate::refusal::Refusal;
use crate::session::Link;

/// How many descriptors travel in one message.
const TREES_A_MESSAGE: usize = 16;

/// What the helper says.
#[derive(Serialize, Deserialize)]
enum Word {
    /// The places of the trees that come with it.
    Trees(Vec<usize>),
    Done,
    Failed {
        step: String,
        subject: String,
        errno: i32,
    },
}

/// All that the plan shows of the host, by place in the plan, and the file on stdin after the last one. `guard` is the process
/// whose user namespace maps owners, for root.
pub(super) fn trees(
    guard: i32,
    plan: &Plan,
    stdin: Option<PathBuf>,
    steps: &Steps,
) -> Result<Vec<(usize, OwnedFd)>, Refusal> {
    let (near, far) = steps.run("make a control channel", "", control_pair)?;
    let namespaces = match plan.ids.mapped {
        Some(_) => Namespaces::MOUNT,
        None => Namespaces::MOUNT.and(Namespaces::USER),
    };
    let forked = steps.run("make namespaces", "", || fork_into(namespaces, None))?;
    let Fork::Parent { pid, .. } = forked else {
        drop(near);
        let link = Link::new(far);
        let done = clone_all(guard, plan, stdin).map_err(|Failure { step, subject, errno }| Word::Failed {
            step: step.into(),
            subject,
            errno,
        });
        let said = match done {
            Ok(trees) => send_all(&link, &trees),
            Err(word) => link.send(&word, &[]),
        };
        exit_now(i32::from(said.is_err()))
    };
    drop(far);
    let heard = receive_all(&Link::new(near));
    let _ = wait_for(pid);
    heard
}

fn send_all(link: &Link, trees: &[(usize, OwnedFd)]) -> io::Result<()> {
    for chunk in trees.chunks(TREES_A_MESSAGE) {
        let places = chunk.iter().map(|(place, _)| *place).collect();
        let fds: Vec<BorrowedFd<'_>> = chunk.iter().map(|(_, tree)| tree.as_fd()).collect();
        link.send(&Word::Trees(places), &fds)?;
    }
    link.send(&Word::Done, &[])
}

fn receive_all(link: &Link) -> Result<Vec<(usize, OwnedFd)>, Refusal> {
    let step = |error: &io::Error| Refusal::step("hear what is shown of the host", "", error);
    let mut trees = Vec::new();
    loop {
        match link.receive::<Word>().map_err(|error| step(&error))? {
            Some((Word::Trees(places), fds)) if places.len() == fds.len() => {
                trees.extend(places.into_iter().zip(fds));
            }
            Some((Word::Done, _)) => return Ok(trees),
            Some((Word::Failed { step, subject, errno }, _)) => {
                return Err(failed_inside(step, subject, errno));
            }
            _ => return Err(step(&io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

/// In the helper.
fn clone_all(guard: i32, plan: &Plan, stdin: Option<PathBuf>) -> Result<Vec<(usize, OwnedFd)>, Failure> {
    let steps = Steps::failing(None, "");
    steps.run("make mounts private", "/", make_private)?;
    let mut trees = map_trees(guard, plan, Wanted::All, &steps)?;
    for Source { index, from, .. } in sources(plan, stdin) {
        let place = index.unwrap_or_else(|| stdin_place(plan));
        if trees.iter().any(|(has, _)| *has == place) {
            continue;
        }
        trees.push((place, clone(plan, place, &from, &steps)?));
    }
    Ok(trees)
}

fn clone(plan: &Plan, place: usize, from: &Path, steps: &Steps) -> Result<OwnedFd, Failure> {
    match plan.mounts.get(place) {
        Some(Mount::Layered { .. }) => {
            steps.run("open what lies beneath the workspace,", from, || clone_mount(from))
        }
        // The layers, which come after the last mount.
        None if place == plan.mounts.len() => steps.run("open", from, || clone_mount(from)),
        _ => steps.run("open", from, || clone_tree(from)),
    }
}
