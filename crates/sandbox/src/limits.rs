//! Limits: which this host can enforce, and by what. One that the caller asked for is enforced or refused.

use ringfence_linux::{CgroupLimits, Controller, Hierarchy};
use ringfence_policy::{Clause, Limits};

use crate::host::Host;
use crate::network::needs_egress;
use crate::plan::PlannedLimits;
use crate::receipt::Receipt;
use crate::refusal::Refusal;
use crate::request::{Request, Stream};

/// guard is a process of the sandbox too, and not one of the command's.
const GUARD: u32 = 1;
/// So is the shim of a session, of which there is always one.
const SHIM: u32 = 1;

/// Whether a sandbox of this process can be held to a number of processors.
pub fn limits_processors() -> bool {
    Hierarchy::detect().has(Controller::Cpu)
}

pub(crate) fn plan_limits(
    request: &Request,
    host: &Host,
    receipt: &mut Receipt,
) -> Result<PlannedLimits, Refusal> {
    let policy = &request.policy.policy;
    let asked = |clause| request.policy.origins.asked(clause);
    let mut limits = policy.limits.clone();
    for clause in Clause::ALL.into_iter().filter(|clause| clause.is_limit()) {
        if policy.waived.contains(&clause) {
            drop_limit(&mut limits, clause);
            receipt.waived(clause);
        }
    }
    let mut cgroup = CgroupLimits::default();
    let mut by_cgroup = |clause: Clause, controller: Controller, value: String| -> Result<bool, Refusal> {
        if host.cgroups.has(controller) {
            receipt.enforced(clause, value, format!("{} {}", host.cgroups.version(), controller.name()));
            return Ok(true);
        }
        let (why, fix) = host.cgroups.gap(controller);
        if asked(clause) || request.strict {
            return Err(Refusal::NotEnforceable { clause: clause.as_str(), why, fix });
        }
        receipt.unenforced(clause, value, &why);
        Ok(false)
    };
    if let Some(cpus) = limits.cpus
        && by_cgroup(Clause::LimitCpus, Controller::Cpu, cpus.to_string())?
    {
        cgroup.cpus = Some(cpus);
    }
    if let Some(memory) = limits.memory
        && by_cgroup(Clause::LimitMemory, Controller::Memory, memory.to_string())?
    {
        cgroup.memory = Some(memory.bytes());
    }
    if let Some(processes) = limits.processes {
        let shim = if request.stream == Stream::Session { SHIM } else { 0 };
        let with_guard = processes.saturating_add(GUARD + shim);
        let mechanism = if host.cgroups.has(Controller::Pids) {
            cgroup.processes = Some(with_guard);
            format!("{} pids", host.cgroups.version())
        } else {
            "RLIMIT_NPROC in the user namespace".to_string()
        };
        receipt.enforced(Clause::LimitProcesses, processes.to_string(), mechanism);
    }
    if let Some(disk) = limits.disk {
        if let Some(why) = unbounded_workspace(host).filter(|_| asked(Clause::LimitDisk)) {
            return Err(Refusal::NotEnforceable {
                clause: Clause::LimitDisk.as_str(),
                why: why.into(),
                fix:
                    "leave --disk out, or use a private workspace: --profile restrictive without --workspace"
                        .into(),
            });
        }
        let mechanism = match request.attached.bound {
            Some(bound) if !request.attached.bounded.is_empty() => format!(
                "size of the private tmpfs layer; workspaces: counted while commands run, which end beyond {} MiB",
                bound.bytes >> 20
            ),
            _ => "size of the private tmpfs layer".to_owned(),
        };
        receipt.enforced(Clause::LimitDisk, disk.to_string(), mechanism);
    }
    if let Some(open_files) = limits.open_files {
        if u64::from(open_files) > host.open_files_hard && asked(Clause::LimitOpenFiles) {
            return Err(Refusal::NotEnforceable {
                clause: Clause::LimitOpenFiles.as_str(),
                why: format!("this user may have {} open files at most", host.open_files_hard),
                fix: "ask for fewer, or raise the hard limit (ulimit -Hn)".into(),
            });
        }
        let value = u64::from(open_files).min(host.open_files_hard);
        receipt.enforced(Clause::LimitOpenFiles, value.to_string(), "RLIMIT_NOFILE");
    }
    if let Some(output) = limits.output {
        if request.stream == Stream::Capture {
            receipt.enforced(Clause::LimitOutput, output.to_string(), "capture stops there");
        } else if request.stream == Stream::Session {
            receipt.enforced(Clause::LimitOutput, output.to_string(), "a kept log drops what is older");
        } else if asked(Clause::LimitOutput) {
            return Err(Refusal::NotEnforceable {
                clause: Clause::LimitOutput.as_str(),
                why: "the command writes to your own stdout and stderr, which are handed in as they are"
                    .into(),
                fix: "add --json, which captures output, or leave --output-limit out".into(),
            });
        }
    }
    if let Some(wall_time) = limits.wall_time {
        receipt.enforced(
            Clause::LimitWallTime,
            wall_time.to_string(),
            "supervisor's deadline, then SIGKILL of the tree",
        );
    }
    let connections = limits.connections.map(|most| (Clause::LimitConnections, most.to_string()));
    let bandwidth = limits.bandwidth.map(|rate| (Clause::LimitBandwidth, rate.to_string()));
    let bounds = connections.into_iter().chain(bandwidth);
    // A profile's own bound on a network that is not there is not worth a word.
    for (clause, value) in bounds.filter(|(clause, _)| asked(*clause) || needs_egress(request)) {
        if policy.waived.contains(&Clause::Network) {
            let why = "the sandbox shares the host's network: network was waived";
            if asked(clause) || request.strict {
                let fix = "leave `--waive network` out, or leave the limit out".into();
                return Err(Refusal::NotEnforceable { clause: clause.as_str(), why: why.into(), fix });
            }
            receipt.unenforced(clause, value, why);
        } else if needs_egress(request) {
            receipt.enforced(clause, value, "egress, which carries every connection");
        } else {
            receipt.enforced(clause, value, "nothing leaves the network namespace");
        }
    }
    Ok(PlannedLimits {
        cgroup,
        processes: limits.processes,
        open_files: limits.open_files,
        disk: limits.disk.map(|disk| disk.bytes()),
        output: limits.output.map(|output| output.bytes()),
        wall_time: limits.wall_time.map(|span| span.duration()),
    })
}

/// Why what is written to the workspace has no bound, if it has none.
fn unbounded_workspace(host: &Host) -> Option<&'static str> {
    match (&host.layers, &host.workspace) {
        (Some(_), _) => Some(
            "what is written to an overlay workspace is kept in a directory on disk, and its filesystem has no project \
             quota for it",
        ),
        (None, Some(_)) => {
            Some("the workspace is your own directory, and its filesystem has no project quota for it")
        }
        (None, None) => None,
    }
}

fn drop_limit(limits: &mut Limits, clause: Clause) {
    match clause {
        Clause::LimitCpus => limits.cpus = None,
        Clause::LimitMemory => limits.memory = None,
        Clause::LimitProcesses => limits.processes = None,
        Clause::LimitDisk => limits.disk = None,
        Clause::LimitOpenFiles => limits.open_files = None,
        Clause::LimitOutput => limits.output = None,
        Clause::LimitWallTime => limits.wall_time = None,
        Clause::LimitConnections => limits.connections = None,
        Clause::LimitBandwidth => limits.bandwidth = None,
        _ => {}
    }
}
