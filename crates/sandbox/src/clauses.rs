//! The receipt's lines for isolation: what the native mechanisms do for each clause.

use ringfence_policy::{Clause, HostFiles, Policy};

use crate::attachment;
use crate::host::Host;
use crate::plan::{Mount, Plan};
use crate::refusal::Refusal;

/// Fill in the receipt, or refuse a clause that this host can't hold.
pub(crate) fn describe(mut plan: Plan, policy: &Policy, host: &Host, strict: bool) -> Result<Plan, Refusal> {
    let count = |wanted: fn(&Mount) -> bool| plan.mounts.iter().filter(|mount| wanted(mount)).count();
    let hidden = count(|mount| matches!(mount, Mount::Hide { .. }));
    let mut receipt = plan.receipt.clone();
    let shown = match (&host.image, policy.filesystem.host) {
        (Some(image), _) => format!("image {} ({})", image.name, image.digest),
        (None, HostFiles::System) => "system directories".to_owned(),
        (None, HostFiles::All) => "all but secrets".to_owned(),
    };
    receipt.enforced(
        Clause::FilesystemHost,
        shown,
        "mount namespace, pivot_root, read-only nosuid nodev binds",
    );
    if policy.filesystem.toolchains {
        receipt.enforced(
            Clause::FilesystemToolchains,
            format!("{} shown", host.toolchains.len()),
            if host.overlay {
                "overlay, writes to a throwaway layer"
            } else {
                "read-only binds: a throwaway layer needs kernel 6.6"
            },
        );
    }
    let workspace = match &plan.workspace {
        Some(workspace) => (workspace.source.display().to_string(), workspace_mechanism(&plan)),
        None => ("private".into(), "private tmpfs layer, gone at the end".into()),
    };
    receipt.enforced(Clause::FilesystemWorkspace, workspace.0, workspace.1);
    let listed = |paths: &[std::path::PathBuf]| {
        paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    };
    if !policy.filesystem.read.is_empty() {
        receipt.enforced(Clause::FilesystemRead, listed(&policy.filesystem.read), "read-only binds");
    }
    if !policy.filesystem.write.is_empty() {
        receipt.enforced(Clause::FilesystemWrite, listed(&policy.filesystem.write), "binds");
    }
    attachment::describe(host, &mut receipt);
    receipt.enforced(Clause::FilesystemHide, format!("{hidden} paths"), "empty read-only binds on top");
    receipt.enforced(
        Clause::FilesystemTmp,
        policy.filesystem.tmp.to_string(),
        "tmpfs with size and nr_inodes, shared by /tmp and /dev/shm",
    );
    if let Some(workspace) = &plan.workspace {
        let waived = policy.waived.contains(&Clause::FilesystemProtected);
        match (waived, &workspace.layers) {
            (true, _) => receipt.waived(Clause::FilesystemProtected),
            (false, None) => receipt.enforced(Clause::FilesystemProtected, "", "mount + end check"),
            (false, Some(_)) => {
                receipt.enforced(Clause::FilesystemProtected, "", "left out when the overlay is committed");
            }
        }
    }
    if policy.waived.contains(&Clause::FilesystemLandlock) {
        receipt.waived(Clause::FilesystemLandlock);
    } else if host.landlock > 0 {
        receipt.enforced(
            Clause::FilesystemLandlock,
            format!("ABI {}", host.landlock),
            "Landlock over the same paths",
        );
    } else {
        return Err(Refusal::NotEnforceable {
            clause: Clause::FilesystemLandlock.as_str(),
            why: "this kernel has no Landlock, the second wall around files".into(),
            fix: "boot with lsm=landlock,… (kernel 5.13 or later), or give the second wall up with \
                  --waive filesystem.landlock"
                .into(),
        });
    }
    receipt.enforced(Clause::Processes, "own", "pid namespace; guard is PID 1");
    receipt.enforced(Clause::Ipc, "own", "ipc namespace");
    receipt.enforced(Clause::Hostname, plan.hostname.clone(), "uts namespace");
    receipt.enforced(Clause::Cgroups, "own", "cgroup namespace");
    receipt.enforced(Clause::Devices, "null zero full random urandom tty ptmx", "tmpfs /dev, own devpts");
    receipt.enforced(Clause::Proc, "own", "new proc mount with the OCI masked and read-only paths");
    receipt.enforced(Clause::Capabilities, "none", "all five sets emptied, securebits locked");
    receipt.enforced(Clause::NoNewPrivs, "on", "PR_SET_NO_NEW_PRIVS");
    let identity = match plan.ids.mapped {
        Some(mapped) => {
            format!("user namespace: {} inside is the unused {} outside", plan.ids.uid, mapped.outside)
        }
        None => "user namespace: the caller's own id".to_string(),
    };
    receipt.enforced(Clause::Identity, format!("{}:{}", plan.ids.uid, plan.ids.gid), identity);
    receipt.enforced(
        Clause::Environment,
        format!("{} variables", plan.environment.len()),
        "a new environment",
    );
    if plan.seccomp {
        receipt.enforced(
            Clause::Syscalls,
            "default",
            "seccomp filter; closed calls are reported by user notification",
        );
    } else {
        receipt.waived(Clause::Syscalls);
    }
    receipt.clauses.sort_by_key(|line| line.clause);
    if strict && !receipt.warnings.is_empty() {
        return Err(Refusal::bad(receipt.warnings.join("; "), "leave --strict out to run all the same"));
    }
    plan.receipt = receipt;
    Ok(plan)
}

fn workspace_mechanism(plan: &Plan) -> String {
    let layered = plan.workspace.as_ref().is_some_and(|workspace| workspace.layers.is_some());
    match plan.ids.mapped {
        Some(_) if layered => {
            "overlay with id maps: writes go to a layer on disk until they are committed".into()
        }
        None if layered => "overlay: writes go to a layer on disk until they are committed".into(),
        Some(_) => "bind with an id map: files land as the directory's owner's".into(),
        None => "bind of your own directory".into(),
    }
}
