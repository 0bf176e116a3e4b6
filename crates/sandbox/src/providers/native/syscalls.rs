//! The seccomp filter of a plan, and the answers to the calls that it sends out.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ringfence_linux::seccomp::{
    Arch, ClosedAction, CompileError, Decision, Listener, Notification, Program, Rules, compile, name_of,
};
use ringfence_policy::{Blocked, Policy};
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};

use super::connect::Connects;
use super::egress::Egress;
use super::trace::TRACED;
use crate::denial::{Denial, DenialKind, Denials};
use crate::plan::Plan;
use crate::protect::GitDirectory;
use crate::refusal::Refusal;

const EPERM: i32 = 1;

/// Calls that act on another process by its id; on oneself they are harmless, and some programs name themselves.
const ON_A_PROCESS: &[&str] =
    &["prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"];

/// How git replaces a config; looked at where one is pinned.
const RENAMES: &[&str] = &["rename", "renameat", "renameat2"];

/// Always looked at: it is carried out here.
const CONNECT: &str = "connect";

pub(super) fn rules(policy: &Policy, plan: &Plan, git: &[GitDirectory], trace: bool) -> Rules {
    let mut notify_also = match (trace, git.is_empty()) {
        (true, _) => TRACED.to_vec(),
        (false, true) => Vec::new(),
        (false, false) => RENAMES.to_vec(),
    };
    notify_also.push(CONNECT);
    Rules {
        allow: policy.syscalls.allow.clone(),
        deny: policy.syscalls.deny.clone(),
        compat: policy.syscalls.compat,
        closed: ClosedAction::Notify,
        no_unix_datagrams: !plan.unix_datagrams,
        inet_only: false,
        notify_also,
    }
}

pub(super) fn filter(rules: &Rules) -> Result<Program, Refusal> {
    compile(Arch::NATIVE, rules).map_err(|error| match error {
        CompileError::UnknownCall { .. } => {
            Refusal::bad(error.to_string(), "correct the name under [syscalls]")
        }
        error => Refusal::NotEnforceable {
            clause: "syscalls",
            why: error.to_string(),
            fix: "change [syscalls] in the policy".into(),
        },
    })
}

/// Answer one waiting call.
pub(super) fn answer(
    listener: &Listener,
    rules: &Rules,
    git: &[GitDirectory],
    trace: Option<&Plan>,
    connects: &mut Connects<'_>,
    egress: Option<&mut Egress>,
    denials: &mut Denials,
) -> io::Result<()> {
    let Some(call) = listener.recv()? else { return Ok(()) };
    denials.answer(Some(call.pid));
    let answered = answer_one(listener, &call, rules, git, trace, connects, egress, denials);
    denials.answer(None);
    answered
}

#[expect(clippy::too_many_arguments, reason = "what the answer to any call may depend on")]
fn answer_one(
    listener: &Listener,
    call: &Notification,
    rules: &Rules,
    git: &[GitDirectory],
    trace: Option<&Plan>,
    connects: &mut Connects<'_>,
    egress: Option<&mut Egress>,
    denials: &mut Denials,
) -> io::Result<()> {
    let arch = Arch::from_audit(call.arch);
    let name = arch.and_then(|arch| name_of(arch, call.nr));
    if rules.decide(Arch::NATIVE, call.arch, call.nr, &call.args) == Decision::Trace {
        if name == Some(CONNECT) {
            return connects.carry(listener, call, egress, denials);
        }
        if let (Some(plan), Some(name)) = (trace, name) {
            super::trace::note(call, name, plan, denials);
        }
        // Whatever is decided here, the kernel's own answer to the call stays behind the mounts.
        return match name.and_then(|name| config_replaced(call, name, git)) {
            Some(repository) if listener.is_alive(call.id) => match repository.accept_tracking() {
                Ok(true) => listener.return_value(call.id, 0),
                _ => {
                    let blocked = Blocked::Protected { name: ".git/config".into() };
                    denials.add(Denial::new(DenialKind::Protected, &blocked));
                    listener.continue_call(call.id)
                }
            },
            _ => listener.continue_call(call.id),
        };
    }
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

/// The repository whose config this rename is about to replace, if it is one.
fn config_replaced<'a>(call: &Notification, name: &str, git: &'a [GitDirectory]) -> Option<&'a GitDirectory> {
    const CURRENT: i32 = -100;
    let (old, old_from, new, new_from) = match name {
        "rename" => (call.args[0], CURRENT, call.args[1], CURRENT),
        "renameat" => (call.args[1], call.args[0] as i32, call.args[3], call.args[2] as i32),
        "renameat2" if call.args[4] == 0 => {
            (call.args[1], call.args[0] as i32, call.args[3], call.args[2] as i32)
        }
        _ => return None,
    };
    let memory = File::open(format!("/proc/{}/mem", call.pid)).ok()?;
    let new = Path::new(&read_path(&memory, new)?).to_path_buf();
    if new.file_name()? != "config" {
        return None;
    }
    let old = Path::new(&read_path(&memory, old)?).to_path_buf();
    if old.file_name()? != "config.lock" {
        return None;
    }
    let [from, to] =
        [(old, old_from), (new, new_from)].map(|(path, base)| directory_of(call.pid, &path, base));
    let (from, to) = (from?, to?);
    git.iter().find(|repository| repository.is(&from) && repository.is(&to))
}

/// A C string of another process.
pub(super) fn read_path(memory: &File, address: u64) -> Option<OsString> {
    let mut path = Vec::new();
    let mut page = [0; 256];
    while path.len() < 4096 {
        let read = memory.read_at(&mut page, address.checked_add(path.len() as u64)?).ok()?;
        match page[..read].iter().position(|&byte| byte == 0) {
            Some(end) => {
                path.extend(&page[..end]);
                return Some(OsString::from_vec(path));
            }
            None if read == 0 => return None,
            None => path.extend(&page[..read]),
        }
    }
    None
}

/// The directory that holds `path`, as the caller sees it; no symlink leads out of its root.
fn directory_of(pid: u32, path: &Path, base: i32) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = path.parent()?;
    let (start, parent, resolve) = match parent.strip_prefix("/") {
        Ok(below) => (format!("/proc/{pid}/root"), below, ResolveFlags::IN_ROOT),
        Err(_) if base == -100 => (format!("/proc/{pid}/cwd"), parent, ResolveFlags::BENEATH),
        Err(_) => (format!("/proc/{pid}/fd/{base}"), parent, ResolveFlags::BENEATH),
    };
    let start = open(start, flags, Mode::empty()).ok()?;
    if parent.as_os_str().is_empty() {
        return Some(start);
    }
    openat2(&start, parent, flags, Mode::empty(), resolve | ResolveFlags::NO_MAGICLINKS).ok()
}

/// Is `target`, an id inside the sandbox, a thread of the process that `caller` (an id out here) belongs to?
fn is_self(caller: u32, target: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{caller}/status")).unwrap_or_default();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().to_string();
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
