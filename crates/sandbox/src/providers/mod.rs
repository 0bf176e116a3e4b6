//! Providers: what builds sandboxes. Each takes a plan and carries it out, whole or not at all.

mod native;

pub(crate) use native::{
    Call, DISK_FULL, Failure, Held, Relay, Steps, TMP_FULL, Warden, failed_inside, launch, limit_denial,
    strange,
};

use crate::host::Host;
use crate::outcome::Outcome;
use crate::plan::{Plan, plan};
use crate::refusal::Refusal;
use crate::request::Request;

/// What builds sandboxes.
pub trait Provider {
    fn name(&self) -> &'static str;

    /// Decide everything for `request` on `host`, without doing anything.
    fn plan(&self, request: &Request, host: &Host) -> Result<Plan, Refusal> {
        plan(request, host, self.name())
    }

    /// Make a sandbox, run the command to its end, and leave nothing behind.
    fn run(&self, request: &Request, plan: Plan) -> Result<Outcome, Refusal>;
}

/// Namespaces, mounts, Landlock, seccomp and cgroups, by this program itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Provider for Native {
    fn name(&self) -> &'static str {
        "native"
    }

    fn run(&self, request: &Request, plan: Plan) -> Result<Outcome, Refusal> {
        native::run(request, plan)
    }
}
