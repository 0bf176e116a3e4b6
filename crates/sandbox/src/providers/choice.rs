//! From the name in a policy to the provider that makes the sandbox, and what there is to choose from.

use ringfence_policy::ProviderName;
use serde::Serialize;

use super::{Bwrap, Docker, Native, Oci, Presence, Provider, Ready, Remains, native};
use crate::host::Host;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::request::Request;

/// One provider, as `ringfence provider ls` tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ProviderRow {
    pub name: ProviderName,
    pub available: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it can enforce.
    pub enforces: String,
    /// Why it can't be used; empty where it can.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fix: String,
}

/// Decide everything with the provider that the policy names, or refuse.
pub fn plan_for(request: &Request, host: &Host) -> Result<Plan, Refusal> {
    let policy = &request.policy.policy;
    if let (Some(runtime), false) = (&policy.runtime, has_runtimes(policy.provider)) {
        return Err(Refusal::bad(
            format!("the provider `{}` has no runtimes, and `{runtime}` is asked for", policy.provider),
            "name the provider that has it, as in --provider oci, or leave the runtime out",
        ));
    }
    match policy.provider {
        ProviderName::Native => Native.plan(request, host),
        ProviderName::Bwrap => Bwrap.plan(request, host),
        ProviderName::Docker => Docker.plan(request, host),
        ProviderName::Oci => Oci.plan(request, host),
        ProviderName::Auto => plan_strongest(request, host),
        other => Err(not_built(other)),
    }
}

/// Whether a policy may say which of several runtimes it drives.
fn has_runtimes(provider: ProviderName) -> bool {
    matches!(provider, ProviderName::Oci | ProviderName::Docker)
}

/// Carry a plan out, in the sandbox that was made ahead if it fits; with what is yet to be cleared away.
pub fn create(request: &Request, plan: Plan, ready: Option<Ready>) -> Result<(Outcome, Remains), Refusal> {
    native::run(request, plan, ready)
}

/// Every provider by rank, with what this host has of it.
pub fn provider_rows() -> Vec<ProviderRow> {
    let mut names = ProviderName::ALL;
    names.sort_by_key(|name| std::cmp::Reverse(name.strength()));
    names.into_iter().filter(|name| *name != ProviderName::Auto).map(row).collect()
}

/// Those above `native` come first, by rank; there are none in this version, so that is the one.
fn plan_strongest(request: &Request, host: &Host) -> Result<Plan, Refusal> {
    let mut plan = Native.plan(request, host)?;
    plan.receipt.chosen = Some(
        "auto: native is the strongest that can enforce this policy; microvm and gvisor, which rank above it, are not built \
         into this version, and auto never goes below native"
            .into(),
    );
    Ok(plan)
}

fn row(name: ProviderName) -> ProviderRow {
    let presence = match name {
        ProviderName::Native => Native.probe(),
        ProviderName::Bwrap => Bwrap.probe(),
        ProviderName::Docker => Docker.probe(),
        ProviderName::Oci => Oci.probe(),
        other => {
            let refusal = not_built(other);
            Presence::Missing { why: refusal.to_string(), fix: refusal.fix().to_owned() }
        }
    };
    match presence {
        Presence::Here { program, version } => ProviderRow {
            name,
            available: true,
            program: program.map(|program| program.display().to_string()),
            version: Some(version),
            enforces: "every clause".into(),
            why: String::new(),
            fix: String::new(),
        },
        Presence::Missing { why, fix } => ProviderRow {
            name,
            available: false,
            program: None,
            version: None,
            enforces: "nothing here".into(),
            why,
            fix,
        },
    }
}

fn not_built(name: ProviderName) -> Refusal {
    Refusal::bad(
        format!("the provider `{name}` is not built into this version"),
        "--provider native, bwrap, oci, docker or auto: see `ringfence provider ls`",
    )
}
