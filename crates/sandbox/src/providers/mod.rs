//! Providers: what builds sandboxes. Each takes a plan and carries it out, whole or not at all.
//!
//! Invariant: the provider that a policy names makes the sandbox, or none does. `auto` never goes below `native`.

mod bwrap;
mod capabilities;
mod choice;
mod docker;
mod native;
mod oci;
mod outer;
mod program;

pub use bwrap::Bwrap;
pub use capabilities::{Capabilities, RefusedClause};
pub use choice::{ProviderRow, create, plan_for, probe, provider_rows};
pub use docker::{Docker, GUARD_IN_CONTAINER};
pub use native::GUARD_ANEW;
#[cfg(test)]
pub(crate) use native::Launched;
pub use native::{Ahead, Ready, Remains};
pub(crate) use native::{
    Call, DISK_FULL, Failure, Held, Relay, Steps, TMP_FULL, Warden, failed_inside, launch, limit_denial,
    speaks_the_same, strange,
};
pub use oci::Oci;
pub use outer::{GUARD_INSIDE, serve_anew, serve_in_container, serve_inside};

#[cfg(test)]
use std::ffi::OsString;
use std::path::PathBuf;

use ringfence_policy::{Clause, ProviderName};
use serde::Serialize;

use crate::host::Host;
use crate::outcome::Outcome;
use crate::plan::{Plan, plan};
use crate::receipt::Status;
use crate::refusal::Refusal;
use crate::request::Request;

/// What builds sandboxes.
pub trait Provider {
    fn name(&self) -> ProviderName;

    /// Is it here, and can it be used?
    fn probe(&self) -> Presence;

    /// Which clauses it can enforce on `host`, and why not the others; an error, where it can make no sandbox there.
    fn capabilities(&self, host: &Host) -> Result<Capabilities, Refusal> {
        capabilities::ask(|request| self.plan_with(request, host, Driven::default()))
    }

    /// By what it holds a clause, where that is not as `native` does. `None`: the same.
    fn mechanism(&self, clause: Clause) -> Option<&'static str>;

    /// Find what it drives here; nothing is changed by that.
    fn look(&self, request: &Request) -> Result<Driven, Refusal>;

    /// Decide everything for `request` on `host`, from what was looked at alone.
    fn plan_with(&self, request: &Request, host: &Host, driven: Driven) -> Result<Plan, Refusal>;

    /// Decide everything for `request` on `host`, without doing anything.
    fn plan(&self, request: &Request, host: &Host) -> Result<Plan, Refusal> {
        self.plan_with(request, host, self.look(request)?)
    }

    /// Make a sandbox, run the command to its end, and leave nothing behind.
    fn create(&self, request: &Request, plan: Plan) -> Result<Outcome, Refusal> {
        let (mut outcome, remains) = native::run(request, plan, None)?;
        outcome.notes.extend(remains.clear());
        Ok(outcome)
    }
}

/// What a provider drives on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Driven {
    /// The program, or the socket of a daemon; `native` needs none.
    pub program: Option<PathBuf>,
    /// The runtime, as receipts name it.
    pub runtime: Option<String>,
}

/// Whether a provider can be used on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    Here {
        /// The program that it drives; `native` needs none.
        program: Option<PathBuf>,
        version: String,
    },
    Missing {
        cause: Cause,
        why: String,
        fix: String,
    },
}

/// What keeps a provider from being used: what can be done about it depends on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Not in this version, whatever is installed.
    NotBuilt,
    Absent,
    /// Or of no version that is known.
    TooOld,
    Setuid,
    /// Others than root can write it.
    Untrusted,
    /// A daemon that does not answer.
    Down,
    NotPermitted,
    /// It is here, and does not do what it has to.
    Unusable,
}

/// Namespaces, mounts, Landlock, seccomp and cgroups, by this program itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Provider for Native {
    fn name(&self) -> ProviderName {
        ProviderName::Native
    }

    fn probe(&self) -> Presence {
        Presence::Here { program: None, version: env!("CARGO_PKG_VERSION").into() }
    }

    fn mechanism(&self, _: Clause) -> Option<&'static str> {
        None
    }

    fn look(&self, _: &Request) -> Result<Driven, Refusal> {
        Ok(Driven::default())
    }

    fn plan_with(&self, request: &Request, host: &Host, _: Driven) -> Result<Plan, Refusal> {
        plan(request, host, self.name())
    }
}

/// Put the provider's own mechanisms into the receipt.
pub(crate) fn name_mechanisms(provider: &dyn Provider, plan: &mut Plan) {
    for line in plan.receipt.clauses.iter_mut().filter(|line| line.status == Status::Enforced) {
        if let Some(mechanism) = provider.mechanism(line.clause) {
            line.mechanism = mechanism.into();
        }
    }
}

#[cfg(test)]
pub(crate) use docker::spec_for_tests as container_spec;

/// What bubblewrap would be told.
#[cfg(test)]
pub(crate) fn bwrap_words(plan: &Plan, stdin: Option<PathBuf>) -> Vec<OsString> {
    bwrap::words(plan, &outer::Given { sources: outer::sources(plan, stdin) })
}

/// What a runtime would be told, and the text of its configuration.
#[cfg(test)]
pub(crate) fn runtime_words(plan: &Plan, stdin: Option<PathBuf>) -> (Vec<OsString>, String) {
    let told = oci::told(plan, &outer::Given { sources: outer::sources(plan, stdin) }).unwrap();
    (told.words, told.bundle.map(|bundle| bundle.config).unwrap_or_default())
}

/// A program that makes the namespaces of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrapper {
    Bwrap,
    Runtime,
}

impl Wrapper {
    pub(crate) fn of(provider: ProviderName) -> Option<Self> {
        match provider {
            ProviderName::Bwrap => Some(Self::Bwrap),
            ProviderName::Oci => Some(Self::Runtime),
            _ => None,
        }
    }

    /// Whether it starts in the sandbox's own cgroup, where that is entered at the fork. A runtime is many threads, which are
    /// none of the command's processes: guard is moved there when it waits.
    pub(crate) fn starts_in_cgroup(self) -> bool {
        self == Self::Bwrap
    }

    fn told(self, plan: &Plan, given: &outer::Given) -> Result<outer::Told, Refusal> {
        match self {
            Self::Bwrap => Ok(outer::Told { words: bwrap::words(plan, given), bundle: None }),
            Self::Runtime => oci::told(plan, given),
        }
    }
}

/// What the program that makes a plan's namespaces is called.
pub(crate) fn program_name(plan: &Plan) -> String {
    let name = plan.program.as_ref().and_then(|program| program.file_name());
    name.map_or_else(|| plan.provider.to_string(), |name| name.to_string_lossy().into_owned())
}
