//! Sandboxes of our own, for what a skill needs rather than for the skill: asking an interpreter its version, installing
//! packages. The restrictive profile and what is named here; no config file, no variable of the caller's, no secret.

use std::ffi::OsString;
use std::time::Duration;

use ringfence_policy::{ByteSize, HostRule, Layer, Limits, Merged, Origin, ProfileName, Span, merge};
use ringfence_sandbox::{Attached, Host, Native, Outcome, Provider, Request, Stream};

use crate::error::{ErrorCode, ServiceError};
use crate::places::Places;
use crate::registry::{self, Registry};

/// How much the work may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A program says something about itself.
    Question,
    /// Packages are fetched, compiled and installed.
    Build,
}

#[derive(Debug)]
pub(crate) struct Contained {
    pub(crate) work: Work,
    pub(crate) argv: Vec<OsString>,
    pub(crate) attached: Attached,
    pub(crate) registries: Vec<Registry>,
    /// Granted beside the registries.
    pub(crate) hosts: Vec<HostRule>,
    pub(crate) stream: Stream,
}

pub(crate) fn run_contained(places: &Places, contained: Contained) -> Result<Outcome, ServiceError> {
    let request = Request {
        policy: policy(places, &contained)?,
        argv: contained.argv,
        directory: None,
        attached: contained.attached,
        image: None,
        workspace_layers: None,
        stream: contained.stream,
        trace: false,
        learn: false,
        strict: false,
        state: places.state.path().to_path_buf(),
        secrets: places.own().join("secrets"),
    };
    let host = Host::look(&request)?;
    let plan = Native.plan(&request, &host)?;
    Ok(Native.create(&request, plan)?)
}

fn policy(places: &Places, contained: &Contained) -> Result<Merged, ServiceError> {
    let bad = |error: ringfence_policy::MergeError| {
        ServiceError::new(
            ErrorCode::BadPolicy,
            error.to_string(),
            "correct the package client's configuration",
        )
    };
    let base = ProfileName::Restrictive;
    let mut layers: Vec<(Origin, Layer)> = Vec::new();
    if !contained.registries.is_empty() {
        let bare = merge(base, &layers).map_err(bad)?.policy;
        layers = registry::ask(places, &bare, &contained.registries)?.layers;
        // For their hosts and files. Their settings are the caller's to hand in, whole: a project's are not in here.
        layers.iter_mut().for_each(|(_, layer)| layer.environment.set.clear());
    }
    if !contained.hosts.is_empty() {
        let mut layer = Layer::default();
        layer.network.allow.clone_from(&contained.hosts);
        layers.push((Origin::flag("--allow-host"), layer));
    }
    let mut merged = merge(base, &layers).map_err(bad)?;
    // Set here rather than asked for by a layer: a host that can't enforce one of them still installs.
    merged.policy.limits = limits(merged.policy.limits, contained.work);
    merged.policy.environment.pass.clear();
    Ok(merged)
}

fn limits(profile: Limits, work: Work) -> Limits {
    match work {
        Work::Question => Limits { wall_time: Some(span(20)), ..profile },
        Work::Build => Limits {
            cpus: None,
            memory: Some(ByteSize::gib(4)),
            processes: Some(512),
            disk: Some(ByteSize::gib(1)),
            open_files: Some(4096),
            wall_time: Some(span(30 * 60)),
            ..profile
        },
    }
}

fn span(seconds: u64) -> Span {
    Span::from_secs(Duration::from_secs(seconds).as_secs())
}
