//! Bubblewrap makes the namespaces, and puts into them what the plan shows of the host. Its arguments are made from the plan
//! alone. guard, which it starts as PID 1, does the rest: the listener of a seccomp filter that bubblewrap loads could not be
//! handed out, so that a closed call would be refused and nobody would know.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use ringfence_policy::{Clause, ProviderName};

use super::outer::{CONTROL, EXECUTABLE, GUARD_INSIDE, Given};
use super::program::{Distrust, Lack, ask_version, find_program};
use super::{Cause, Driven, Presence, Provider, name_mechanisms};
use crate::host::Host;
use crate::plan::{Access, Mount, Plan, plan};
use crate::refusal::Refusal;
use crate::request::Request;

const PROGRAM: &str = "bwrap";
/// Where it may be: places that only root writes. What a workspace puts first on PATH is not looked at.
const PLACES: [&str; 3] = ["/usr/bin", "/usr/local/bin", "/bin"];
/// The first with all the options below (`--clearenv`).
const OLDEST: (u32, u32) = (0, 5);

/// Bubblewrap, `bwrap`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bwrap;

impl Provider for Bwrap {
    fn name(&self) -> ProviderName {
        ProviderName::Bwrap
    }

    fn probe(&self) -> Presence {
        let program = match find(&PLACES.map(Path::new)) {
            Ok(program) => program,
            Err(lack) => return lack.into(),
        };
        match ask_version(&program).map(|text| (parse_version(&text), text)) {
            Ok((Some(found), text)) if found >= OLDEST => {
                Presence::Here { program: Some(program), version: text }
            }
            Ok((_, text)) => Presence::Missing {
                cause: Cause::TooOld,
                why: format!("{} is `{text}`, which is too old or unknown", program.display()),
                fix: format!("install bubblewrap {}.{} or later", OLDEST.0, OLDEST.1),
            },
            Err(why) => {
                Presence::Missing { cause: Cause::Unusable, why, fix: "install bubblewrap again".into() }
            }
        }
    }

    fn mechanism(&self, clause: Clause) -> Option<&'static str> {
        Some(match clause {
            Clause::FilesystemHost => {
                "bubblewrap's mount namespace, which has only what is shown; guard makes the root of it: pivot_root, read-only \
                 nosuid nodev binds"
            }
            Clause::Identity => {
                "user namespace by bubblewrap: the caller's own id, or for root an unused one"
            }
            Clause::Processes => "pid namespace by bubblewrap; guard is PID 1",
            Clause::Ipc => "ipc namespace by bubblewrap",
            Clause::Hostname => "uts namespace by bubblewrap",
            Clause::NoNewPrivs => "PR_SET_NO_NEW_PRIVS, by bubblewrap and by guard",
            _ => return None,
        })
    }

    fn look(&self, _: &Request) -> Result<Driven, Refusal> {
        let program = find(&PLACES.map(Path::new))?;
        Ok(Driven { program: Some(program), runtime: None })
    }

    fn plan_with(&self, request: &Request, host: &Host, driven: Driven) -> Result<Plan, Refusal> {
        let mut plan = plan(request, host, self.name())?;
        plan.program = driven.program;
        name_mechanisms(self, &mut plan);
        // On v2 bubblewrap starts in the group too, and is none of the command's processes.
        if let (Some(processes), true) =
            (&mut plan.limits.cgroup.processes, plan.cgroups.version() == "cgroup v2")
        {
            *processes = processes.saturating_add(1);
        }
        Ok(plan)
    }
}

/// Its arguments, itself first.
pub(super) fn words(plan: &Plan, given: &Given) -> Vec<OsString> {
    let program = plan.program.clone().unwrap_or_else(|| Path::new(PLACES[0]).join(PROGRAM));
    let mut words = vec![program.into_os_string()];
    let mut add = |some: &[&dyn AsRef<std::ffi::OsStr>]| {
        words.extend(some.iter().map(|word| word.as_ref().to_owned()));
    };
    add(&[&"--unshare-user", &"--unshare-pid", &"--unshare-ipc", &"--unshare-uts"]);
    if plan.own_network {
        add(&[&"--unshare-net"]);
    }
    add(&[&"--uid", &plan.ids.uid.to_string(), &"--gid", &plan.ids.gid.to_string()]);
    // Of its own user namespace; guard mounts with them, and drops them all before any code of the caller's runs.
    add(&[&"--cap-add", &"ALL"]);
    add(&[&"--as-pid-1", &"--die-with-parent", &"--clearenv", &"--chdir", &"/"]);
    add(&[&"--dir", &"/tmp", &"--proc", &"/proc"]);
    for mount in &plan.mounts {
        if let Mount::Device { target } = mount {
            add(&[&"--dev-bind", target, target]);
        }
    }
    for source in &given.sources {
        let option = if source.access == Access::Read { "--ro-bind" } else { "--bind" };
        add(&[&option, &source.from, &source.at()]);
    }
    // By its descriptor: this program has no path inside.
    let executable = format!("/proc/self/fd/{EXECUTABLE}");
    add(&[&"--", &executable, &GUARD_INSIDE, &CONTROL.to_string()]);
    words
}

/// Where it is, or why it can't be used and what to do.
fn find(places: &[&Path]) -> Result<PathBuf, Lack> {
    let install = "install it: apt install bubblewrap (Debian, Ubuntu), dnf install bubblewrap (Fedora)";
    find_program(PROGRAM, places).map_err(|distrust| {
        let cause = distrust.cause();
        let (why, fix) = match distrust {
            Distrust::Absent => ("bubblewrap (bwrap) is not installed".to_owned(), install.to_owned()),
            Distrust::Setuid(path) => (
                format!("{} is setuid, and such a one gives guard no right to mount", path.display()),
                format!("chmod u-s {}, where ordinary users may make user namespaces", path.display()),
            ),
            Distrust::Writable(path) => (
                format!("{} can be written by others than root", path.display()),
                "install bubblewrap again".into(),
            ),
        };
        Lack { cause, why, fix }
    })
}

/// `bubblewrap 0.8.0` is (0, 8).
fn parse_version(text: &str) -> Option<(u32, u32)> {
    let mut parts = text.strip_prefix("bubblewrap ")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
#[path = "bwrap_tests.rs"]
mod tests;
