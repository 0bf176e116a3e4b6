//! The reviewed verdicts on system calls as a runtime's seccomp section.

use std::collections::BTreeMap;

use oci_spec::OciSpecError;
use oci_spec::runtime::{
    Arch, LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArg, LinuxSeccompArgBuilder, LinuxSeccompBuilder,
    LinuxSeccompOperator, LinuxSyscall, LinuxSyscallBuilder,
};
use ringfence_linux::seccomp::{CallRule, Condition, Rules, UnixSockets, entry};
use ringfence_policy::Policy;

use crate::host::Host;
use crate::refusal::Refusal;

const EPERM: u32 = 1;
const ENOSYS: u32 = 38;

pub(super) struct Filter {
    pub(super) seccomp: LinuxSeccomp,
    pub(super) note: &'static str,
}

pub(super) fn filter(policy: &Policy, host: &Host) -> Result<Filter, Refusal> {
    let calls = &policy.syscalls;
    if let Some(name) = calls.allow.iter().chain(&calls.deny).find(|name| entry(name).is_none()) {
        return Err(Refusal::bad(
            format!("there is no system call `{name}`"),
            "correct the name under [syscalls]",
        ));
    }
    let rules = Rules { allow: calls.allow.clone(), deny: calls.deny.clone(), ..Rules::default() };
    // Nobody looks at what a socket is connected to, so that one with a name could be the host's.
    let (unix, note) = match host.shows_more {
        true => (
            UnixSockets::Pairs,
            "closed calls fail and are not reported; unix sockets other than pairs are closed, since nobody sees what they \
             connect to",
        ),
        false => (UnixSockets::Any, "closed calls fail and are not reported"),
    };
    let seccomp = seccomp(&rules, unix, calls.compat)
        .map_err(|error| Refusal::bad(error.to_string(), "report this as a bug"))?;
    Ok(Filter { seccomp, note })
}

fn seccomp(rules: &Rules, unix: UnixSockets, compat: bool) -> Result<LinuxSeccomp, OciSpecError> {
    let mut architectures = vec![Arch::ScmpArchX86_64, Arch::ScmpArchAarch64];
    if compat {
        architectures.extend([Arch::ScmpArchX86, Arch::ScmpArchX32]);
    }
    let mut whole: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut some = Vec::new();
    for (name, rule) in rules.by_name(unix) {
        match rule {
            CallRule::Open => whole.entry("open").or_default().push(name.to_owned()),
            CallRule::Closed => whole.entry("closed").or_default().push(name.to_owned()),
            CallRule::NoSys => whole.entry("no such").or_default().push(name.to_owned()),
            CallRule::OpenIf(ways) => some.push((name, ways)),
        }
    }
    let mut syscalls: Vec<LinuxSyscall> = Vec::new();
    for (kind, names) in whole {
        let call = LinuxSyscallBuilder::default().names(names);
        let call = match kind {
            "open" => call.action(LinuxSeccompAction::ScmpActAllow),
            "closed" => call.action(LinuxSeccompAction::ScmpActErrno).errno_ret(EPERM),
            _ => call.action(LinuxSeccompAction::ScmpActErrno).errno_ret(ENOSYS),
        };
        syscalls.push(call.build()?);
    }
    for (name, ways) in some {
        for all in ways {
            let args = all.into_iter().map(condition).collect::<Result<Vec<_>, _>>()?;
            let call = LinuxSyscallBuilder::default().names(vec![name.to_owned()]);
            syscalls.push(call.action(LinuxSeccompAction::ScmpActAllow).args(args).build()?);
        }
    }
    LinuxSeccompBuilder::default()
        .default_action(LinuxSeccompAction::ScmpActErrno)
        // What nobody knows is not there: libc falls back to what it knew before.
        .default_errno_ret(ENOSYS)
        .architectures(architectures)
        .syscalls(syscalls)
        .build()
}

/// Of a masked comparison the mask comes first.
fn condition(it: Condition) -> Result<LinuxSeccompArg, OciSpecError> {
    LinuxSeccompArgBuilder::default()
        .index(it.arg as usize)
        .value(u64::from(it.mask))
        .value_two(u64::from(it.value))
        .op(LinuxSeccompOperator::ScmpCmpMaskedEq)
        .build()
}
