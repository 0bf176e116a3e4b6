//! From the name in a policy to the provider that makes the sandbox, and what there is to choose from.

use std::collections::BTreeSet;
use std::path::Path;

use ringfence_policy::{Clause, ProviderName};
use serde::Serialize;

use super::{
    Bwrap, Capabilities, Cause, Docker, Native, Oci, Presence, Provider, Ready, RefusedClause, Remains,
    capabilities, native,
};
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
    /// The clauses that it can enforce here.
    pub enforces: Vec<Clause>,
    /// Those that it refuses here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refuses: Vec<RefusedClause>,
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

/// Every provider by rank, with what this host has of it and what it can enforce here. `state`: the state directory, which no
/// sandbox sees.
pub fn provider_rows(state: &Path) -> Vec<ProviderRow> {
    let host = capabilities::everything(state, &BTreeSet::new()).and_then(|request| Host::look(&request));
    let mut names = ProviderName::ALL;
    names.sort_by_key(|name| std::cmp::Reverse(name.strength()));
    names
        .into_iter()
        .filter(|name| *name != ProviderName::Auto)
        .map(|name| row(name, host.as_ref()))
        .collect()
}

/// Whether the provider of this name can be used here. `auto` is a choice between them: none of its own.
pub fn probe(name: ProviderName) -> Option<Presence> {
    if let Some(provider) = built(name) {
        return Some(provider.probe());
    }
    let refusal = not_built(name);
    let missing =
        Presence::Missing { cause: Cause::NotBuilt, why: refusal.to_string(), fix: refusal.fix().to_owned() };
    (name != ProviderName::Auto).then_some(missing)
}

fn built(name: ProviderName) -> Option<&'static dyn Provider> {
    match name {
        ProviderName::Native => Some(&Native),
        ProviderName::Bwrap => Some(&Bwrap),
        ProviderName::Docker => Some(&Docker),
        ProviderName::Oci => Some(&Oci),
        ProviderName::Gvisor | ProviderName::Microvm | ProviderName::Auto => None,
    }
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

fn row(name: ProviderName, host: Result<&Host, &Refusal>) -> ProviderRow {
    let mut row = ProviderRow {
        name,
        available: false,
        program: None,
        version: None,
        enforces: Vec::new(),
        refuses: Vec::new(),
        why: String::new(),
        fix: String::new(),
    };
    match probe(name) {
        Some(Presence::Here { program, version }) => {
            row.program = program.map(|program| program.display().to_string());
            row.version = Some(version);
        }
        Some(Presence::Missing { why, fix, .. }) => {
            (row.why, row.fix) = (why, fix);
            return row;
        }
        None => return row,
    }
    let told = |refusal: &Refusal| (refusal.to_string(), refusal.fix().to_owned());
    let asked = host.map_err(told).and_then(|host| match built(name) {
        Some(provider) => provider.capabilities(host).map_err(|refusal| told(&refusal)),
        None => Ok(Capabilities::default()),
    });
    match asked {
        Ok(Capabilities { enforces, refuses }) => {
            row.available = true;
            (row.enforces, row.refuses) = (enforces, refuses);
        }
        Err((why, fix)) => (row.why, row.fix) = (why, fix),
    }
    row
}

fn not_built(name: ProviderName) -> Refusal {
    Refusal::bad(
        format!("the provider `{name}` is not built into this version"),
        "--provider native, bwrap, oci, docker or auto: see `ringfence provider ls`",
    )
}
