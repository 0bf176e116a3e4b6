//! The document itself: process, root, namespaces, limits.

use std::collections::HashSet;
use std::path::Path;

use oci_spec::OciSpecError;
use oci_spec::runtime::{
    LinuxBuilder, LinuxCapabilitiesBuilder, LinuxCpuBuilder, LinuxIdMapping, LinuxIdMappingBuilder,
    LinuxMemoryBuilder, LinuxNamespaceBuilder, LinuxNamespaceType, LinuxPidsBuilder, LinuxResources,
    LinuxResourcesBuilder, LinuxSeccomp, PosixRlimit, PosixRlimitBuilder, PosixRlimitType, Process,
    ProcessBuilder, RootBuilder, Spec, SpecBuilder, UserBuilder,
};
use serde_json::Value;

use super::mounts::Layout;
use crate::plan::Plan;
use crate::refusal::Refusal;
use crate::request::Request;

/// What runtimes of these years take.
const OCI_VERSION: &str = "1.0.2";
const ROOTFS: &str = "rootfs";
const CPU_PERIOD: u64 = 100_000;

pub(super) fn document(
    request: &Request,
    plan: &Plan,
    layout: &Layout,
    seccomp: Option<LinuxSeccomp>,
) -> Result<Value, Refusal> {
    let args = request.argv.iter().map(|word| word.to_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
    let args = args.ok_or_else(|| {
        Refusal::bad("an argument is not UTF-8, and a configuration is", "name what it means in another way")
    })?;
    let bug = |error: OciSpecError| Refusal::bad(error.to_string(), "report this as a bug");
    let spec = spec(args, plan, layout, seccomp).map_err(bug)?;
    serde_json::to_value(&spec).map_err(|error| {
        Refusal::bad(
            format!("this can't be written as an OCI configuration: {error}"),
            "paths in it must be UTF-8",
        )
    })
}

fn spec(
    args: Vec<String>,
    plan: &Plan,
    layout: &Layout,
    seccomp: Option<LinuxSeccomp>,
) -> Result<Spec, OciSpecError> {
    let mut linux = LinuxBuilder::default()
        .uid_mappings(vec![only(plan.ids.mapped.map_or(plan.ids.uid, |mapped| mapped.outside))?])
        .gid_mappings(vec![only(plan.ids.mapped.map_or(plan.ids.gid, |mapped| mapped.outside))?])
        .namespaces(namespaces(plan)?)
        .masked_paths(layout.masked.clone())
        .readonly_paths(layout.read_only.clone())
        .build()?;
    // The builders' defaults are a container's of their own.
    linux.set_resources(resources(plan)?);
    linux.set_seccomp(seccomp);
    let mut spec = SpecBuilder::default()
        .version(OCI_VERSION)
        .process(process(args, plan)?)
        .root(RootBuilder::default().path(ROOTFS).readonly(true).build()?)
        .hostname(plan.hostname.clone())
        .mounts(layout.mounts()?)
        .linux(linux)
        .build()?;
    spec.set_annotations(None);
    Ok(spec)
}

fn process(args: Vec<String>, plan: &Plan) -> Result<Process, OciSpecError> {
    let none = LinuxCapabilitiesBuilder::default()
        .bounding(HashSet::new())
        .effective(HashSet::new())
        .permitted(HashSet::new())
        .inheritable(HashSet::new())
        .ambient(HashSet::new())
        .build()?;
    let mut env: Vec<String> =
        plan.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    env.push(format!("PWD={}", plan.directory.display()));
    ProcessBuilder::default()
        .terminal(false)
        .user(UserBuilder::default().uid(0_u32).gid(0_u32).build()?)
        .args(args)
        .env(env)
        .cwd(Path::new(&plan.directory))
        .capabilities(none)
        .rlimits(rlimits(plan)?)
        .no_new_privileges(true)
        .build()
}

/// The caller's own id, or for root an unused one, and no other. Every runtime can map it, and those that must have a root have it:
/// one without a capability.
fn only(outside: u32) -> Result<LinuxIdMapping, OciSpecError> {
    LinuxIdMappingBuilder::default().container_id(0_u32).host_id(outside).size(1_u32).build()
}

fn namespaces(plan: &Plan) -> Result<Vec<oci_spec::runtime::LinuxNamespace>, OciSpecError> {
    use LinuxNamespaceType::{Cgroup, Ipc, Mount, Network, Pid, User, Uts};
    let mut kinds = vec![User, Mount, Pid, Ipc, Uts, Cgroup];
    if plan.own_network {
        kinds.push(Network);
    }
    kinds.into_iter().map(|kind| LinuxNamespaceBuilder::default().typ(kind).build()).collect()
}

fn rlimits(plan: &Plan) -> Result<Vec<PosixRlimit>, OciSpecError> {
    let limit = |kind, value: u64| PosixRlimitBuilder::default().typ(kind).hard(value).soft(value).build();
    // A core of at most one byte is none, and also keeps the kernel from piping it to a program on the host.
    let mut limits = vec![limit(PosixRlimitType::RlimitCore, 1)?];
    if let Some(open_files) = plan.limits.open_files {
        limits.push(limit(PosixRlimitType::RlimitNofile, open_files.into())?);
    }
    if let (Some(processes), None) = (plan.limits.processes, plan.limits.cgroup.processes) {
        limits.push(limit(PosixRlimitType::RlimitNproc, processes.into())?);
    }
    Ok(limits)
}

/// What a cgroup holds here; the rest was refused or is a note.
fn resources(plan: &Plan) -> Result<Option<LinuxResources>, OciSpecError> {
    let limits = &plan.limits.cgroup;
    if *limits == ringfence_linux::CgroupLimits::default() {
        return Ok(None);
    }
    let mut resources = LinuxResourcesBuilder::default().build()?;
    resources.set_devices(None);
    if let Some(cpus) = limits.cpus {
        let quota = ((cpus * CPU_PERIOD as f64) as i64).max(1_000);
        resources.set_cpu(Some(LinuxCpuBuilder::default().quota(quota).period(CPU_PERIOD).build()?));
    }
    if let Some(memory) = limits.memory {
        let bytes = i64::try_from(memory).unwrap_or(i64::MAX);
        // Of memory and swap together: there is no swap.
        resources.set_memory(Some(LinuxMemoryBuilder::default().limit(bytes).swap(bytes).build()?));
    }
    if let (Some(_), Some(processes)) = (limits.processes, plan.limits.processes) {
        resources.set_pids(Some(LinuxPidsBuilder::default().limit(i64::from(processes)).build()?));
    }
    Ok(Some(resources))
}
