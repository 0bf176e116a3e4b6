//! The `config.json` of the bundle in which guard is started: namespaces, and what the plan shows of the host, each thing at a
//! place of its own. Pure.

use std::collections::HashSet;
use std::path::Path;

use oci_spec::OciSpecError;
use oci_spec::runtime::{
    Capability, LinuxBuilder, LinuxCapabilitiesBuilder, LinuxIdMapping, LinuxIdMappingBuilder,
    LinuxNamespace, LinuxNamespaceBuilder, LinuxNamespaceType, Mount, MountBuilder, ProcessBuilder,
    RootBuilder, Spec, SpecBuilder, UserBuilder,
};

use serde_json::Value;

use super::super::outer::{CONTROL, EXECUTABLE, GUARD_INSIDE, Given, ROOTFS};
use crate::plan::{Access, Plan};
use crate::refusal::Refusal;

/// What runtimes of these years take.
const OCI_VERSION: &str = "1.0.2";

pub(super) fn config(plan: &Plan, given: &Given) -> Result<String, Refusal> {
    let spec = spec(plan, given).map_err(|error| Refusal::bad(error.to_string(), "report this as a bug"))?;
    let unwritable = |error: serde_json::Error| {
        Refusal::bad(
            format!("this plan can't be written as an OCI configuration: {error}"),
            "report this as a bug",
        )
    };
    let mut document = serde_json::to_value(&spec).map_err(unwritable)?;
    // Sets have no order of their own; the same plan gives the same text.
    if let Some(sets) = document.pointer_mut("/process/capabilities").and_then(Value::as_object_mut) {
        for set in sets.values_mut().filter_map(Value::as_array_mut) {
            set.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
        }
    }
    serde_json::to_string(&document).map_err(unwritable)
}

fn spec(plan: &Plan, given: &Given) -> Result<Spec, OciSpecError> {
    // Of its own user namespace; guard mounts with them, and drops them all before any code of the caller's runs.
    let all: HashSet<Capability> = CAPABILITIES.iter().copied().collect();
    let capabilities = LinuxCapabilitiesBuilder::default()
        .bounding(all.clone())
        .effective(all.clone())
        .permitted(all)
        .inheritable(HashSet::new())
        .ambient(HashSet::new())
        .build()?;
    // By its descriptor: this program has no path inside.
    let executable = format!("/proc/self/fd/{EXECUTABLE}");
    let process = ProcessBuilder::default()
        .terminal(false)
        .user(UserBuilder::default().uid(0_u32).gid(0_u32).build()?)
        .args(vec![executable, GUARD_INSIDE.to_owned(), CONTROL.to_string()])
        .env(Vec::<String>::new())
        .cwd("/")
        .capabilities(capabilities)
        .rlimits(Vec::new())
        .no_new_privileges(true)
        .build()?;
    let mut mounts = vec![mount("/proc", "proc", "proc", &["nosuid", "nodev", "noexec"])?];
    for source in &given.sources {
        let access = if source.access == Access::Read { "ro" } else { "rw" };
        mounts.push(mount(source.at(), "bind", source.staged(), &["rbind", access])?);
    }
    let mut linux = LinuxBuilder::default()
        .uid_mappings(vec![only_root()?])
        .gid_mappings(vec![only_root()?])
        .namespaces(namespaces(plan)?)
        .masked_paths(Vec::<String>::new())
        .readonly_paths(Vec::<String>::new())
        .build()?;
    // The builders' defaults are a container's of their own.
    linux.set_resources(None);
    let mut spec = SpecBuilder::default()
        .version(OCI_VERSION)
        .process(process)
        .root(RootBuilder::default().path(ROOTFS).readonly(false).build()?)
        .hostname(plan.hostname.clone())
        .mounts(mounts)
        .linux(linux)
        .build()?;
    spec.set_annotations(None);
    Ok(spec)
}

/// The one id that the carrier has, which is not the host's root.
fn only_root() -> Result<LinuxIdMapping, OciSpecError> {
    LinuxIdMappingBuilder::default().container_id(0_u32).host_id(0_u32).size(1_u32).build()
}

fn namespaces(plan: &Plan) -> Result<Vec<LinuxNamespace>, OciSpecError> {
    use LinuxNamespaceType::{Ipc, Mount, Network, Pid, User, Uts};
    let mut kinds = vec![User, Mount, Pid, Ipc, Uts];
    if plan.own_network {
        kinds.push(Network);
    }
    kinds.into_iter().map(|kind| LinuxNamespaceBuilder::default().typ(kind).build()).collect()
}

fn mount(
    at: impl AsRef<Path>,
    kind: &str,
    from: impl AsRef<Path>,
    options: &[&str],
) -> Result<Mount, OciSpecError> {
    let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
    MountBuilder::default().destination(at.as_ref()).typ(kind).source(from.as_ref()).options(options).build()
}

/// What guard needs to build the root and close the walls, of a user namespace of its own.
const CAPABILITIES: &[Capability] = &[
    Capability::Chown,
    Capability::DacOverride,
    Capability::DacReadSearch,
    Capability::Fowner,
    Capability::Mknod,
    Capability::NetAdmin,
    Capability::NetRaw,
    // Without it the namespace in which guard has its inside name could not be made: there its root is named anew.
    Capability::Setfcap,
    Capability::Setgid,
    Capability::Setpcap,
    Capability::Setuid,
    Capability::SysAdmin,
    Capability::SysChroot,
    Capability::SysPtrace,
    Capability::SysResource,
];
