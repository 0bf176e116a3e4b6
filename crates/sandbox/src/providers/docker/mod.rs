//! Docker, or Podman by the same API: a container around guard, made by a daemon over its socket.
//!
//! The container is of an empty image, has no network, no capability, no right to gain one, a root that can't be written and
//! the id of an ordinary user. Its first process is this program, which comes in by a door that only it can use, and forks
//! guard into namespaces of guard's own; from there on guard goes the same way as under `native`.
//!
//! Invariant: the daemon is told of nothing that the plan shows; what it says of a container is checked by the kernel's word.

mod container;
mod door;
mod engine;
mod http;
mod image;
mod launch;
mod shown;

#[cfg(test)]
pub(crate) use container::spec_for_tests;

pub(super) use container::Container;
pub use container::GUARD_IN_CONTAINER;
pub(super) use launch::{Errand, Made, launch};

use ringfence_linux::Hierarchy;
use ringfence_policy::{Clause, ProviderName};

use super::{Driven, Presence, Provider, name_mechanisms};
use crate::host::Host;
use crate::plan::{Plan, plan};
use crate::refusal::Refusal;
use crate::request::Request;
use engine::Engine;

/// Docker Engine, or Podman's service of the same API.
#[derive(Clone, Copy, Debug, Default)]
pub struct Docker;

impl Provider for Docker {
    fn name(&self) -> ProviderName {
        ProviderName::Docker
    }

    fn probe(&self) -> Presence {
        match Engine::here() {
            Ok(engine) => Presence::Here { version: engine.name, program: Some(engine.socket) },
            Err(trouble) => {
                Presence::Missing { cause: trouble.cause(), fix: trouble.fix(), why: trouble.to_string() }
            }
        }
    }

    fn mechanism(&self, clause: Clause) -> Option<&'static str> {
        Some(match clause {
            Clause::FilesystemHost => {
                "a container of an empty image; guard makes the root in a mount namespace of its own of what is handed in: \
                 pivot_root, read-only nosuid nodev binds"
            }
            Clause::Identity => {
                "the container's user is the caller's own id, or for root an unused one; user namespace in it"
            }
            Clause::Processes => "pid namespace in the container's; guard is PID 1",
            Clause::Ipc => "ipc namespace in the container",
            Clause::Hostname => "uts namespace in the container",
            Clause::Capabilities => "none in the container; all five sets emptied, securebits locked",
            Clause::NoNewPrivs => "PR_SET_NO_NEW_PRIVS, by Docker and by guard",
            _ => return None,
        })
    }

    fn look(&self, request: &Request) -> Result<Driven, Refusal> {
        let runtime = request.policy.policy.runtime.as_ref().map(ToString::to_string);
        Ok(Driven { program: Some(Engine::here()?.socket), runtime })
    }

    fn plan_with(&self, request: &Request, host: &Host, driven: Driven) -> Result<Plan, Refusal> {
        if let Some(runtime) = &request.policy.policy.runtime {
            refuse_closed(runtime.as_str())?;
        }
        let mut plan = plan(request, &with_reachable_groups(host), self.name())?;
        if plan.ids.mapped.is_none() && plan.ids.uid == 0 {
            return Err(Refusal::NotEnforceable {
                clause: Clause::Identity.as_str(),
                why: "this root has one id only, and a container with that id would be root's".into(),
                fix: "run as an ordinary user, or use --provider native".into(),
            });
        }
        plan.program = driven.program;
        // One that the daemon does not have, it refuses itself.
        plan.receipt.runtime = driven.runtime;
        name_mechanisms(self, &mut plan);
        Ok(plan)
    }
}

/// Runtimes with a kernel of their own, by a part of the names that they are registered under.
const CLOSED: [(&str, &str, &str); 2] = [
    ("runsc", "gVisor", "its kernel has no unix sockets to the host, so that guard finds no door"),
    ("kata", "Kata", "its machine has no unix sockets to the host, so that guard finds no door"),
];

/// A runtime under which no guard can come in would only be waited for.
fn refuse_closed(runtime: &str) -> Result<(), Refusal> {
    let name = runtime.to_ascii_lowercase();
    match CLOSED.iter().find(|(part, ..)| name.contains(part)) {
        Some((_, what, why)) => Err(Refusal::bad(
            format!("the runtime `{runtime}` is {what}, which can't make a sandbox with docker: {why}"),
            "--runtime crun or runc, or leave it out; --provider oci needs no daemon",
        )),
        None => Ok(()),
    }
}

/// A container starts in a control group of the daemon's. With v2 only root may move guard from there into one of ours.
fn with_reachable_groups(host: &Host) -> Host {
    let mut host = host.clone();
    if host.uid != 0 && matches!(host.cgroups, Hierarchy::V2 { .. }) {
        host.cgroups = Hierarchy::Absent {
            why: "a container's processes are in a control group of Docker's, which an ordinary user may not take them out of"
                .into(),
            fix: "use --provider native or bwrap, or run as root".into(),
        };
    }
    host
}
