//! Which clauses a provider can enforce on this host: a policy that asks for all of them is planned, and what is refused is given
//! up by name until the rest is not. Nothing is made, and no second list of what a provider can do is kept.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use ringfence_policy::{Bound, ByteSize, Clause, Cpus, Layer, Origin, ProfileName, Span, Workspace, merge};
use serde::Serialize;

use crate::attachment::Attached;
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::request::{Request, Stream};

/// What a provider can do on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    pub enforces: Vec<Clause>,
    pub refuses: Vec<RefusedClause>,
}

/// A clause that can't be enforced here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RefusedClause {
    pub clause: Clause,
    pub why: String,
    pub fix: String,
}

/// By what `plan` refuses; an error, where it makes no sandbox at all.
pub(super) fn ask(plan: impl Fn(&Request) -> Result<Plan, Refusal>) -> Result<Capabilities, Refusal> {
    let mut refuses: Vec<RefusedClause> = Vec::new();
    loop {
        let given_up: BTreeSet<Clause> = refuses.iter().map(|refused| refused.clause).collect();
        match plan(&everything(Path::new(""), &given_up)?) {
            Ok(_) => {
                let enforces = Clause::ALL.into_iter().filter(|clause| !given_up.contains(clause)).collect();
                return Ok(Capabilities { enforces, refuses });
            }
            Err(Refusal::NotEnforceable { clause, why, fix }) => {
                let found = Clause::ALL.into_iter().find(|one| one.as_str() == clause);
                match found.filter(|found| found.waivable() && !given_up.contains(found)) {
                    Some(found) => refuses.push(RefusedClause { clause: found, why, fix }),
                    None => return Err(Refusal::NotEnforceable { clause, why, fix }),
                }
            }
            Err(refusal) => return Err(refusal),
        }
    }
}

/// A request that asks for every clause but these.
pub(super) fn everything(state: &Path, given_up: &BTreeSet<Clause>) -> Result<Request, Refusal> {
    let mut layer = Layer { waive: given_up.iter().copied().collect(), ..Layer::default() };
    // One of the caller's own has no bound on what is written to it.
    layer.filesystem.workspace = Some(Workspace::Private);
    if !given_up.contains(&Clause::Network) {
        // A name that never exists; nothing is sent.
        layer.network.allow = "ringfence.invalid:443".parse().into_iter().collect();
    }
    let limits = &mut layer.limits;
    let asked = |clause| !given_up.contains(&clause);
    limits.cpus = asked(Clause::LimitCpus).then_some(Bound::At(Cpus(1.0)));
    limits.memory = asked(Clause::LimitMemory).then_some(Bound::At(ByteSize::mib(512)));
    limits.processes = asked(Clause::LimitProcesses).then_some(Bound::At(64));
    limits.disk = asked(Clause::LimitDisk).then_some(Bound::At(ByteSize::mib(64)));
    limits.open_files = asked(Clause::LimitOpenFiles).then_some(Bound::At(256));
    limits.output = asked(Clause::LimitOutput).then_some(Bound::At(ByteSize::mib(1)));
    limits.wall_time = asked(Clause::LimitWallTime).then_some(Bound::At(Span(Duration::from_secs(10))));
    limits.connections = asked(Clause::LimitConnections).then_some(Bound::At(8));
    limits.bandwidth = asked(Clause::LimitBandwidth).then_some(Bound::At(ByteSize::mib(1)));
    let policy = merge(ProfileName::Moderate, &[(Origin::flag("provider ls"), layer)])
        .map_err(|error| Refusal::bad(error.to_string(), "report this as a bug"))?;
    Ok(Request {
        policy,
        argv: vec!["/bin/true".into()],
        directory: Some("/".into()),
        attached: Attached::default(),
        image: None,
        workspace_layers: None,
        stream: Stream::Capture,
        trace: false,
        learn: false,
        strict: false,
        state: state.to_path_buf(),
        secrets: state.join("secrets"),
    })
}
