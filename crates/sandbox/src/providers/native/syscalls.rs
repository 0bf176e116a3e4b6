//! The seccomp filter of a plan, and the answers to the calls that it sends out.

use std::io;
use std::path::PathBuf;

use ringfence_linux::seccomp::{Arch, ClosedAction, CompileError, Decision, Listener, Program, Rules, compile, name_of};
use ringfence_policy::{Blocked, Policy};

use crate::denial::{Denial, DenialKind, Denials};
use crate::refusal::Refusal;

const EPERM: i32 = 1;

/// Calls that act on another process by its id; on oneself they are harmless, and some programs name themselves.
const ON_A_PROCESS: &[&str] =
    &["prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"];

pub(super) fn rules(policy: &Policy) -> Rules {
    Rules {
        allow: policy.syscalls.allow.clone(),
        deny: policy.syscalls.deny.clone(),
        compat: policy.syscalls.compat,
        closed: ClosedAction::Notify,
        notify_also: Vec::new(),
    }
}

pub(super) fn filter(rules: &Rules) -> Result<Program, Refusal> {
    compile(Arch::NATIVE, rules).map_err(|error| match error {
        CompileError::UnknownCall { .. } => Refusal::bad(error.to_string(), "correct the name under [syscalls]"),
        error => Refusal::NotEnforceable {
            clause: "syscalls",
            why: error.to_string(),
            fix: "change [syscalls] in the policy".into(),
        },
    })
}

/// Answer one waiting call.
pub(super) fn answer(listener: &Listener, rules: &Rules, denials: &mut Denials) -> io::Result<()> {
    let Some(call) = listener.recv()? else { return Ok(()) };
    let arch = Arch::from_audit(call.arch);
    let name = arch.and_then(|arch| name_of(arch, call.nr));
    if let Some(name) = name
        && ON_A_PROCESS.contains(&name)
        && rules.decide(Arch::NATIVE, call.arch, call.nr, &call.args) == Decision::Closed
        && !rules.deny.contains(name)
        && is_self(call.pid, call.args[0] as u32)
        && listener.is_alive(call.id)
    {
        // The target is a register, which no other thread can change.
        return listener.continue_call(call.id);
    }
    let name = match (arch, name) {
        (Some(Arch::I386), name) if Arch::NATIVE != Arch::I386 && !rules.compat => {
            format!("{} (32-bit entry)", name.unwrap_or("?"))
        }
        (_, Some(name)) => name.to_string(),
        (_, None) => format!("number {}", call.nr),
    };
    denials.add(Denial::new(DenialKind::Syscall, &Blocked::Syscall { name }));
    listener.deny(call.id, EPERM)
}

/// Is `target`, an id inside the sandbox, a thread of the process that `caller` (an id out here) belongs to?
fn is_self(caller: u32, target: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{caller}/status")).unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_string();
    let innermost = |list: String| list.split_whitespace().last().and_then(|id| id.parse::<u32>().ok());
    if innermost(field("NSpid:")) == Some(target) || innermost(field("NStgid:")) == Some(target) {
        return true;
    }
    // Another thread of the same process: its directory carries the id that we know it by out here.
    let Some(process) = field("Tgid:").trim().parse::<u32>().ok() else { return false };
    let tasks = PathBuf::from(format!("/proc/{process}/task"));
    std::fs::read_dir(tasks).is_ok_and(|tasks| {
        tasks.flatten().any(|task| {
            let status = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
            let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
            innermost(ids.to_string()) == Some(target)
        })
    })
}
