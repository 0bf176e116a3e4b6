//! Providers: what builds sandboxes. Each takes a plan and carries it out, whole or not at all.
//!
//! Invariant: the provider that a policy names makes the sandbox, or none does. `auto` never goes below `native`.

mod bwrap;
mod choice;
mod native;
mod outer;

pub use bwrap::Bwrap;
pub use choice::{ProviderRow, create, plan_for, provider_rows};
pub use native::{Ahead, Ready, Remains};
pub(crate) use native::{
    Call, DISK_FULL, Failure, Held, Relay, Steps, TMP_FULL, Warden, failed_inside, launch, limit_denial,
    strange,
};
pub use outer::{GUARD_INSIDE, serve_inside};

use std::ffi::OsString;
use std::path::PathBuf;

use ringfence_policy::{Clause, ProviderName};

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

    /// By what it holds a clause, where that is not as `native` does. `None`: the same.
    fn mechanism(&self, clause: Clause) -> Option<&'static str>;

    /// Decide everything for `request` on `host`, without doing anything.
    fn plan(&self, request: &Request, host: &Host) -> Result<Plan, Refusal>;

    /// Make a sandbox, run the command to its end, and leave nothing behind.
    fn create(&self, request: &Request, plan: Plan) -> Result<Outcome, Refusal> {
        let (mut outcome, remains) = native::run(request, plan, None)?;
        outcome.notes.extend(remains.clear());
        Ok(outcome)
    }
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
        why: String,
        fix: String,
    },
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

    fn plan(&self, request: &Request, host: &Host) -> Result<Plan, Refusal> {
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

/// What bubblewrap would be told, with descriptors that stand for any.
#[cfg(test)]
pub(crate) fn bwrap_words(plan: &Plan, stdin: Option<PathBuf>) -> Vec<OsString> {
    let given = outer::Given { sources: outer::sources(plan, stdin), executable: 8, control: 9 };
    bwrap::words(plan, &given)
}

/// A program that makes the namespaces of a sandbox.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wrapper {
    Bwrap,
}

impl Wrapper {
    pub(crate) fn of(provider: ProviderName) -> Option<Self> {
        (provider == ProviderName::Bwrap).then_some(Self::Bwrap)
    }

    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Bwrap => bwrap::PROGRAM,
        }
    }

    fn words(self, plan: &Plan, given: &outer::Given) -> Vec<OsString> {
        match self {
            Self::Bwrap => bwrap::words(plan, given),
        }
    }
}
