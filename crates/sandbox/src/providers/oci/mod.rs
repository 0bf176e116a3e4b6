//! A runtime for OCI bundles makes the namespaces: crun, runc or youki. Its bundle is made from the plan alone, and shows what
//! the plan shows of the host; guard, which it starts as PID 1, does the rest, as under bubblewrap. The runtime has no seccomp filter
//! to load, no limit to set and no cgroup to write: those are guard's and the owner's.

mod config;
mod runtimes;

use std::ffi::OsString;
use std::path::PathBuf;

use ringfence_policy::{Clause, ProviderName};

use super::outer::{BUNDLE, Bundle, Given, STATE, Told};
use super::{Driven, Presence, Provider, name_mechanisms};
use crate::host::Host;
use crate::plan::{Plan, plan};
use crate::refusal::Refusal;
use crate::request::Request;
use runtimes::{RUNTIMES, Runtime, choose, survey};

/// How a runtime is told how many descriptors follow stdio: the control channel, and this executable.
const PASSED: &str = "2";
/// Unique in a state directory that has no other.
const CONTAINER: &str = "ringfence";

/// A runtime for OCI bundles.
#[derive(Clone, Copy, Debug, Default)]
pub struct Oci;

impl Provider for Oci {
    fn name(&self) -> ProviderName {
        ProviderName::Oci
    }

    fn probe(&self) -> Presence {
        match choose(None) {
            Ok(found) => {
                let said = survey().into_iter().map(|one| match one {
                    Ok(found) => format!("{} {}", found.runtime.name, found.version),
                    Err(lack) => lack.why,
                });
                let version = said.collect::<Vec<_>>().join(", ");
                Presence::Here { program: Some(found.program), version }
            }
            Err(lack) => lack.into(),
        }
    }

    fn mechanism(&self, clause: Clause) -> Option<&'static str> {
        Some(match clause {
            Clause::FilesystemHost => {
                "the runtime's mount namespace, which has only what is shown; guard makes the root of it: pivot_root, read-only \
                 nosuid nodev binds"
            }
            Clause::Identity => {
                "user namespace by the runtime, and a second one in it that owns nothing: the caller's own id, or for root an \
                 unused one"
            }
            Clause::Processes => "pid namespace by the runtime; guard is PID 1",
            Clause::Ipc => "ipc namespace by the runtime",
            Clause::Hostname => "uts namespace by the runtime",
            Clause::NoNewPrivs => "PR_SET_NO_NEW_PRIVS, by the runtime and by guard",
            _ => return None,
        })
    }

    fn look(&self, request: &Request) -> Result<Driven, Refusal> {
        let named = request.policy.policy.runtime.as_ref();
        let found = choose(named.map(|name| name.as_str()))?;
        let runtime = format!("{} {}", found.runtime.name, found.version);
        Ok(Driven { program: Some(found.program), runtime: Some(runtime) })
    }

    fn plan_with(&self, request: &Request, host: &Host, driven: Driven) -> Result<Plan, Refusal> {
        let mut plan = plan(request, host, self.name())?;
        plan.receipt.runtime = driven.runtime;
        plan.program = driven.program;
        name_mechanisms(self, &mut plan);
        Ok(plan)
    }
}

/// What the runtime is told: its arguments, and its bundle.
pub(super) fn told(plan: &Plan, given: &Given) -> Result<Told, Refusal> {
    let program = plan.program.clone().unwrap_or_else(|| PathBuf::from("/usr/bin").join(RUNTIMES[0].name));
    let runtime = Runtime::of(&program).unwrap_or(RUNTIMES[0]);
    let mut words: Vec<OsString> = vec![program.into_os_string()];
    words.extend(runtime.before.iter().map(OsString::from));
    words.extend(["--root", STATE, "run"].map(OsString::from));
    words.extend(runtime.after.iter().map(OsString::from));
    words.extend(["--preserve-fds", PASSED, "--bundle", BUNDLE, CONTAINER].map(OsString::from));
    let config = config::config(plan, given)?;
    Ok(Told { words, bundle: Some(Bundle { config, cgroups: runtime.cgroups }) })
}
